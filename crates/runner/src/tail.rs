//! The last bytes of an output of any length, and optionally its first.

/// Keeps at most `bytes_max` bytes from the end of the pushed bytes, and counts the rest.
pub(crate) struct Tail {
    head: Vec<u8>,
    head_bytes_max: usize,
    kept: Vec<u8>,
    bytes_max: usize,
    dropped: u64,
}

/// An output whose middle may be missing.
pub(crate) struct CutOutput {
    /// Empty when nothing is missing.
    pub(crate) head: Vec<u8>,
    pub(crate) missing: u64,
    pub(crate) tail: Vec<u8>,
}

impl CutOutput {
    /// The whole output, or its end when something is missing.
    pub(crate) fn last(self) -> Vec<u8> {
        if self.missing == 0 { [self.head, self.tail].concat() } else { self.tail }
    }
}

impl Tail {
    pub(crate) fn with_head(head_bytes_max: usize, bytes_max: usize) -> Self {
        let (head, kept) = (Vec::new(), Vec::new());
        Self { head, head_bytes_max, kept, bytes_max, dropped: 0 }
    }

    /// Appends a chunk. The buffer grows to twice its size before bytes are moved, so that a flood costs one move per
    /// `bytes_max` bytes and not one per read.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let wanted = (self.head_bytes_max - self.head.len()).min(chunk.len());
        self.head.extend_from_slice(&chunk[..wanted]);
        self.kept.extend_from_slice(chunk);
        if self.kept.len() > self.bytes_max.saturating_mul(2) {
            self.cut();
        }
    }

    /// The bytes that would be kept now, and whether bytes before them were dropped.
    pub(crate) fn end(&self) -> (&[u8], bool) {
        let excess = self.kept.len().saturating_sub(self.bytes_max);
        (&self.kept[excess..], excess > 0 || self.dropped > 0)
    }

    /// The kept bytes, and how many came before them.
    pub(crate) fn finish(mut self) -> (Vec<u8>, u64) {
        self.cut();
        (self.kept, self.dropped)
    }

    pub(crate) fn ends(mut self) -> CutOutput {
        self.cut();
        // Bytes in both head and tail are kept once.
        self.head.truncate(usize::try_from(self.dropped).unwrap_or(usize::MAX));
        let missing = self.dropped - self.head.len() as u64;
        CutOutput { head: self.head, missing, tail: self.kept }
    }

    fn cut(&mut self) {
        let excess = self.kept.len().saturating_sub(self.bytes_max);
        self.kept.drain(..excess);
        self.dropped += excess as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(bytes_max: usize, chunks: &[&str]) -> (String, u64) {
        let mut tail = Tail::with_head(0, bytes_max);
        for chunk in chunks {
            tail.push(chunk.as_bytes());
        }
        let (kept, dropped) = tail.finish();
        (String::from_utf8(kept).expect("the tests push ASCII"), dropped)
    }

    #[test]
    fn keeps_the_end_and_counts_the_rest() {
        assert_eq!(tail_of(4, &[]), (String::new(), 0));
        assert_eq!(tail_of(4, &["ab", "cd"]), ("abcd".into(), 0));
        assert_eq!(tail_of(4, &["ab", "cd", "e"]), ("bcde".into(), 1));
        assert_eq!(tail_of(4, &["abcdefghijkl"]), ("ijkl".into(), 8));
        assert_eq!(tail_of(0, &["abc"]), (String::new(), 3));
    }

    #[test]
    fn keeps_both_ends_and_says_nothing_twice() {
        let table = [
            ("abc", ("", 0, "abc")),
            ("abcd", ("", 0, "abcd")),
            ("abcde", ("a", 0, "bcde")),
            ("abcdefghijkl", ("abc", 5, "ijkl")),
        ];
        for (pushed, wanted) in table {
            let mut tail = Tail::with_head(3, 4);
            for byte in pushed.as_bytes() {
                tail.push(&[*byte]);
            }
            let CutOutput { head, missing, tail } = tail.ends();
            let text = |bytes| String::from_utf8(bytes).expect("the tests push ASCII");
            assert_eq!((text(head).as_str(), missing, text(tail).as_str()), wanted, "{pushed}");
        }
    }
}
