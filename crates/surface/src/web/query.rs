//! Addresses of the present page with another query: a link changes one part and keeps the others.

/// The parts of a query that links of a page keep, by name.
pub type Kept<'k> = &'k [(&'k str, &'k str)];

/// `?a=1&b=2`, for a link to the page itself.
pub(crate) fn address(kept: Kept<'_>, more: &[(&str, &str)]) -> String {
    let parts = kept.iter().chain(more).map(|(name, value)| format!("{name}={}", encoded(value)));
    format!("?{}", parts.collect::<Vec<_>>().join("&"))
}

/// A value for the query of an address.
pub(crate) fn encoded(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn values_cannot_end_their_part_of_the_query() {
        let kept = [("view", "split")];
        for (value, wanted) in [
            ("src/a.rs:R35-37", "?view=split&file=src/a.rs:R35-37"),
            ("a b&c=d#e?\"<", "?view=split&file=a%20b%26c%3Dd%23e%3F%22%3C"),
            ("ü%+", "?view=split&file=%C3%BC%25%2B"),
        ] {
            assert_eq!(address(&kept, &[("file", value)]), wanted);
        }
        assert_eq!(address(&[], &[]), "?");
    }
}
