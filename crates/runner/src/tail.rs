//! The last bytes of an output of any length.

/// Keeps at most `bytes_max` bytes from the end of what is pushed, and counts the rest.
pub(crate) struct Tail {
    kept: Vec<u8>,
    bytes_max: usize,
    dropped: u64,
}

impl Tail {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { kept: Vec::new(), bytes_max, dropped: 0 }
    }

    /// Lets the buffer grow to twice its size before it moves bytes, so that a flood costs one
    /// move per `bytes_max` bytes and not one per read.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.kept.extend_from_slice(chunk);
        if self.kept.len() > self.bytes_max.saturating_mul(2) {
            self.cut();
        }
    }

    /// The kept bytes, and how many came before them.
    pub(crate) fn finish(mut self) -> (Vec<u8>, u64) {
        self.cut();
        (self.kept, self.dropped)
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
        let mut tail = Tail::new(bytes_max);
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
}
