//! Values that no tool expects: texts with every kind of odd character, numbers at every edge, deep nesting.

use serde_json::{Map, Value, json};

use crate::seeded::Rng;

/// Texts that are wrong almost everywhere. None of them is a command that changes anything.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "a\0b",
    "\u{1b}[31mred",
    "\n\n",
    "\r\n",
    "\t",
    "\u{7f}",
    "\u{2028}",
    "\u{feff}",
    "\u{202e}txt.exe\u{202c}",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "İıßﬁ",
    "e\u{301}\u{301}\u{301}",
    "\u{fffd}",
    "\u{10ffff}",
    "-1",
    "0",
    "1e309",
    "NaN",
    "null",
    "true",
    "[1,2]",
    "{\"a\":1}",
    "[[[[",
    "{{",
    "}}",
    "\\",
    "\\u0000",
    "%s%n%00",
    "'; --",
    "<script>",
    "${HOME}",
    "../../etc/passwd",
    "/",
    "/dev/null",
    "~",
    "*",
    "-",
    "--",
    "--help",
    "-rf",
    "a..b",
    "HEAD",
    "HEAD~1",
    "main",
    "refs/heads/main",
    "new",
    "tmux",
    "mine",
    "P-1",
    "P-0",
    "#1",
    "P-99999999999999999999",
    "ses_",
    "agent:x",
    "agent:",
    "human:",
    ":",
    "agent:\u{202e}x",
    "0000000000000000000000000000000000000000",
    "owner/repo#1",
    "http://127.0.0.1:9/x",
    "http://[::1",
    "file:///etc/passwd",
    "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z",
    "-262144-01-01T00:00:00Z",
    "2026-02-29",
];

const INTEGERS: &[i128] = &[
    0,
    1,
    -1,
    2,
    3,
    59,
    60,
    100,
    1_000,
    3_600,
    86_400,
    0x7fff_ffff,
    0x8000_0000,
    -0x8000_0000,
    0xffff_ffff,
    1 << 53,
    (1 << 53) + 1,
    i64::MAX as i128,
    i64::MIN as i128,
    u64::MAX as i128,
];

const FLOATS: &[f64] = &[0.5, -0.5, 0.1, -0.0, 1e15, 9.1e15, 1e308, -1e308, 5e-324];

pub fn text(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => "x".repeat(*rng.pick(&[255, 256, 500, 501, 10_001, 65_536, 100_000])),
        1 => "é".repeat(*rng.pick(&[100, 250, 251, 50_000])),
        2 => "\u{301}".repeat(1_000),
        3 => (0..rng.below(40))
            .map(|_| char::from_u32(rng.below(0x11_0000) as u32).unwrap_or('\u{fffd}'))
            .collect(),
        _ => (*rng.pick(TEXTS)).to_owned(),
    }
}

fn number(rng: &mut Rng) -> Value {
    if rng.percent(30) {
        return (*rng.pick(FLOATS)).into();
    }
    let number = *rng.pick(INTEGERS);
    match i64::try_from(number) {
        Ok(number) => number.into(),
        Err(_) => (number as u64).into(),
    }
}

/// Any JSON at all.
pub fn value(rng: &mut Rng) -> Value {
    any(rng, 0)
}

fn any(rng: &mut Rng, depth: usize) -> Value {
    match rng.below(20) {
        0..9 => text(rng).into(),
        9..13 => number(rng),
        13 => Value::Null,
        14 => rng.percent(50).into(),
        15 | 16 if depth < 3 => (0..rng.below(4)).map(|_| any(rng, depth + 1)).collect(),
        17 | 18 if depth < 3 => {
            let keys = 0..rng.below(4);
            Value::Object(keys.map(|_| (short(rng), any(rng, depth + 1))).collect::<Map<_, _>>())
        }
        // The server's JSON reader has a limit of 128 levels, which both sides of this reach.
        _ => {
            let levels = *rng.pick(&[10, 90, 119, 140]);
            (0..levels).fold(json!(1), |inner, level| {
                if level % 2 == 0 { json!([inner]) } else { json!({"a": inner}) }
            })
        }
    }
}

/// A text that can be a name.
pub fn short(rng: &mut Rng) -> String {
    text(rng).chars().take(40).collect()
}

/// Random changes of a text that some parser reads: what is cut, doubled, swapped or put in lies anywhere.
pub fn mutated(rng: &mut Rng, of: &str) -> Vec<u8> {
    let mut bytes = of.as_bytes().to_vec();
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(30)).min(bytes.len());
        match rng.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 if at < bytes.len() => bytes[at] = rng.next() as u8,
            4 => drop(bytes.splice(at..end, short(rng).into_bytes())),
            5 => {
                let mark = *rng.pick(b"{}[]\",:\n\t -#=|\\'`<>0\0\xff");
                bytes.splice(at..at, std::iter::repeat_n(mark, 1 + rng.below(3)));
            }
            _ => {
                // Lines change places: what came first then refers to what comes later.
                let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
                let (one, other) = (rng.below(lines.len()), rng.below(lines.len()));
                lines.swap(one, other);
                bytes = lines.join(&b'\n');
            }
        }
    }
    bytes
}
