//! The identity of a span: the W3C header `traceparent`, new ids, and which traces are kept.

use callboard_domain::hex::hex;

/// A span as its children know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) is_sampled: bool,
}

impl SpanContext {
    /// Reads a `traceparent`. A later version may have more parts behind the flags; the version `ff` and ids of zeros
    /// are invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
        let is_valid = trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace, span, is_sampled: flags & 1 == 1 })
    }

    pub(super) fn traceparent(&self) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{}-{}-{flags:02x}", hex(self.trace), hex(self.span))
    }

    /// A span of this trace, or of a new one. `None` when the system gives no random bytes.
    pub(super) fn child_of(parent: Option<Self>, sampler: Sampler) -> Option<Self> {
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        // The first bit is set, so that no id consists of zeros.
        random[0] |= 0x80;
        random[16] |= 0x80;
        let mut new_trace = [0; 16];
        new_trace.copy_from_slice(&random[..16]);
        let mut span = [0; 8];
        span.copy_from_slice(&random[16..]);
        let trace = parent.map_or(new_trace, |parent| parent.trace);
        let is_sampled = sampler.keeps(parent, trace);
        Some(Self { trace, span, is_sampled })
    }
}

/// Lower-case hex digits alone; the specification allows no other form.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let mut read = [0; N];
    for (index, byte) in read.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(read)
}

/// Which traces are kept: `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampler {
    /// The share of traces that are kept, from 0 to 1.
    pub(super) ratio: f64,
    /// A span with a parent is kept as its parent is.
    pub(super) is_parent_based: bool,
}

impl Sampler {
    pub(super) const DEFAULT: Self = Self { ratio: 1.0, is_parent_based: true };

    /// `None` for a name that the specification does not have, or that needs a server.
    pub(super) fn named(name: &str, ratio: f64) -> Option<Self> {
        let (base, is_parent_based) = match name.strip_prefix("parentbased_") {
            Some(base) => (base, true),
            None => (name, false),
        };
        let ratio = match base {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio,
            _ => return None,
        };
        Some(Self { ratio, is_parent_based })
    }

    /// By the last eight bytes of the trace's id, so that every process keeps the same traces.
    fn keeps(self, parent: Option<SpanContext>, trace: [u8; 16]) -> bool {
        if let Some(parent) = parent.filter(|_| self.is_parent_based) {
            return parent.is_sampled;
        }
        let mut last = [0; 8];
        last.copy_from_slice(&trace[8..]);
        // A number of 63 bits, as in the SDKs of OpenTelemetry.
        let place = (u64::from_be_bytes(last) >> 1) as f64;
        self.ratio >= 1.0 || place < self.ratio * 2f64.powi(63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_parents_are_read() {
        let valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = SpanContext::parse(valid).expect("valid");
        assert!(read.is_sampled);
        assert_eq!(read.traceparent(), valid);
        let table = "
            00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00      kept
            01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more kept
            00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more ignored
            ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01      ignored
            00-00000000000000000000000000000000-00f067aa0ba902b7-01      ignored
            00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01      ignored
            00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01      ignored
            00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01       ignored
            00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7         ignored
            00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-zz      ignored
            00-ä0f92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01       ignored
            nonsense                                                     ignored
        ";
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (text, wanted) = line.split_once(' ').expect("two columns");
            assert_eq!(SpanContext::parse(text).is_some(), wanted.trim() == "kept", "{line}");
        }
    }

    #[test]
    fn samplers_keep_their_share() {
        let parent = |is_sampled| Some(SpanContext { trace: [7; 16], span: [7; 8], is_sampled });
        let table = "
            always_on                 1    1    1
            always_off                0    0    0
            traceidratio              half half half
            parentbased_always_on     1    1    0
            parentbased_always_off    0    1    0
            parentbased_traceidratio  half 1    0
        ";
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let sampler = Sampler::named(words[0], 0.5).expect("known");
            for (parent, wanted) in [None, parent(true), parent(false)].into_iter().zip(&words[1..])
            {
                let low = sampler.keeps(parent, [0x10; 16]);
                let high = sampler.keeps(parent, [0xf0; 16]);
                let seen = match (low, high) {
                    (true, true) => "1",
                    (true, false) => "half",
                    (false, false) => "0",
                    (false, true) => "wrong",
                };
                assert_eq!(seen, *wanted, "{line}");
            }
        }
        assert_eq!(Sampler::named("jaeger_remote", 1.0), None);
    }
}
