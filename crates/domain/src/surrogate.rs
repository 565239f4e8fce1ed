//! Halves of surrogate pairs in JSON text. A program that counts UTF-16 units, such as any written in JavaScript, cuts an
//! emoji in two and writes the half as `\ud83d`. That is JSON by its grammar, but no text of Unicode.

use std::borrow::Cow;

/// The length of `\ud83d`.
const ESCAPE: usize = 6;

/// The JSON text with `\ufffd` in the place of each half that stands alone. Text without such halves stays as it is, and
/// so does text that is no JSON.
pub fn whole_pairs(json: &[u8]) -> Cow<'_, [u8]> {
    let mut whole = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(step) = json[at..].iter().position(|byte| *byte == b'\\') {
        at += step;
        at += match (unit(json, at), unit(json, at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                whole.to_mut()[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                ESCAPE
            }
            (Some(_), _) => ESCAPE,
            // Another escape, whose second byte may be a backslash.
            (None, _) => 2,
        };
        if at >= json.len() {
            break;
        }
    }
    whole
}

/// The UTF-16 unit of an escape at this place.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    // `from_str_radix` would take a sign.
    let digits = digits.iter().all(u8::is_ascii_hexdigit).then_some(digits)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced() {
        for (given, expected) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\uD83D\uDE00 \u00e9\n""#, r#""\uD83D\uDE00 \u00e9\n""#),
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (r#""\ude00b""#, r#""\ufffdb""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            // A backslash that is escaped begins no escape.
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud8"#, r#""\ud8"#),
            (r#""\u+d83""#, r#""\u+d83""#),
            ("\\", "\\"),
        ] {
            let whole = String::from_utf8(whole_pairs(given.as_bytes()).into_owned());
            assert_eq!(whole.as_deref(), Ok(expected), "{given}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any units of UTF-16 are readable afterwards, as JavaScript would read them into text of Unicode.
        #[test]
        fn every_text_of_units_becomes_readable(units in prop::collection::vec(prop_oneof![0xd7fe..0xe002_u16, any::<u16>()], 0..12)) {
            let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("\"{json}\"");
            let read: String = serde_json::from_slice(&whole_pairs(json.as_bytes())).expect("readable");
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }

        #[test]
        fn text_that_is_readable_stays_as_it_is(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("text");
            prop_assert!(matches!(whole_pairs(json.as_bytes()), Cow::Borrowed(_)));
        }
    }
}
