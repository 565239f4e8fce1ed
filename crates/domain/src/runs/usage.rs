//! Tokens and cost of runs, as executors report them. An executor that reports nothing leaves them unknown, never zero.

use serde::{Deserialize, Serialize};

/// The tokens and the cost of one run, or of all runs of a job together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Tokens that the model read, those from a cache included.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar; `None` where the executor reported tokens only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

impl RunUsage {
    /// Both together. A cost that is known in part is the sum of its known parts.
    pub fn plus(self, other: Self) -> Self {
        let cost_micros = match (self.cost_micros, other.cost_micros) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or_default().saturating_add(two.unwrap_or_default())),
        };
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_and_an_unknown_cost_is_not_zero() {
        let of = |input_tokens, output_tokens, cost_micros| RunUsage {
            input_tokens,
            output_tokens,
            cost_micros,
        };
        for (one, two, sum) in [
            (of(1, 2, None), of(3, 4, None), of(4, 6, None)),
            (of(1, 2, Some(5)), of(3, 4, None), of(4, 6, Some(5))),
            (of(1, 2, Some(5)), of(3, 4, Some(6)), of(4, 6, Some(11))),
            (of(u64::MAX, 0, Some(u64::MAX)), of(1, 0, Some(1)), of(u64::MAX, 0, Some(u64::MAX))),
        ] {
            assert_eq!(one.plus(two), sum);
        }
    }
}
