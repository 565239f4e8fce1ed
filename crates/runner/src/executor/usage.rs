//! The tokens and the cost in what executors print: Claude Code and Gemini CLI end with a JSON object, and agents of the
//! Agent Client Protocol report them in the answer to a prompt and in updates.

use callboard_domain::runs::usage::RunUsage;
use callboard_domain::surrogate::whole_pairs;
use serde_json::Value;

/// The usage in the output of a command: in the whole text, or in its last line that has one.
pub(super) fn printed(text: &str) -> Option<RunUsage> {
    let of = |text: &str| {
        let value: Value = serde_json::from_slice(&whole_pairs(text.trim().as_bytes())).ok()?;
        match &value {
            Value::Array(items) => items.last().and_then(object),
            value => object(value),
        }
    };
    of(text).or_else(|| text.lines().rev().filter(|line| line.starts_with('{')).find_map(of))
}

fn object(value: &Value) -> Option<RunUsage> {
    claude(value).or_else(|| gemini(value))
}

/// `total_cost_usd` and `usage` of Claude Code. Tokens of the cache are counted apart from the others there.
fn claude(value: &Value) -> Option<RunUsage> {
    let used = &value["usage"];
    let kinds = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let input_tokens = sum(kinds.iter().map(|kind| &used[kind]))?;
    let output_tokens = used["output_tokens"].as_u64().unwrap_or_default();
    Some(RunUsage { input_tokens, output_tokens, cost_micros: micros(&value["total_cost_usd"]) })
}

/// `stats.models` of Gemini CLI, which reports no cost. Its prompts include the tokens of the cache.
fn gemini(value: &Value) -> Option<RunUsage> {
    let models = value["stats"]["models"].as_object()?;
    let all = |name: &str| sum(models.values().map(|model| &model["tokens"][name]));
    let written = [all("candidates"), all("thoughts")];
    let output = written.into_iter().flatten().fold(0, u64::saturating_add);
    Some(RunUsage { input_tokens: all("prompt")?, output_tokens: output, cost_micros: None })
}

/// The sum of the counts that are there; `None` if none is.
fn sum<'v>(values: impl Iterator<Item = &'v Value>) -> Option<u64> {
    values
        .filter_map(Value::as_u64)
        .fold(None, |sum: Option<u64>, count| Some(sum.unwrap_or_default().saturating_add(count)))
}

/// A number of US dollars in millionths. An amount that is no cost is left out.
fn micros(dollars: &Value) -> Option<u64> {
    let dollars = dollars.as_f64().filter(|dollars| (0.0..1e9).contains(dollars))?;
    Some((dollars * 1e6).round() as u64)
}

/// The usage that an agent of the Agent Client Protocol reported so far.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Of the turns that ended.
    turns: Option<RunUsage>,
    /// The newest total of the session.
    cost_micros: Option<u64>,
}

impl Reported {
    /// The answer to a prompt: its `usage` is that of one turn.
    pub(super) fn turn(&mut self, answer: &Value) {
        let used = &answer["usage"];
        let count = |names: [&str; 2]| names.iter().find_map(|name| used[name].as_u64());
        let Some(input) = count(["inputTokens", "input_tokens"]) else { return };
        let cached = [
            count(["cachedReadTokens", "cached_read_tokens"]),
            count(["cachedWriteTokens", "cached_write_tokens"]),
        ];
        let cached = cached.into_iter().flatten().fold(0, u64::saturating_add);
        let usage = RunUsage {
            input_tokens: input.saturating_add(cached),
            output_tokens: count(["outputTokens", "output_tokens"]).unwrap_or_default(),
            cost_micros: None,
        };
        self.turns = Some(self.turns.map_or(usage, |known| known.plus(usage)));
    }

    /// An update of the session: a `usage_update` may have the cost of the session so far.
    pub(super) fn update(&mut self, update: &Value) {
        let cost = &update["cost"];
        if update["sessionUpdate"] == "usage_update" && cost["currency"] == "USD" {
            self.cost_micros = micros(&cost["amount"]).or(self.cost_micros);
        }
    }

    pub(super) fn usage(&self) -> Option<RunUsage> {
        match (self.turns, self.cost_micros) {
            (None, None) => None,
            (turns, cost_micros) => Some(RunUsage { cost_micros, ..turns.unwrap_or_default() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn used(input_tokens: u64, output_tokens: u64, cost_micros: Option<u64>) -> Option<RunUsage> {
        Some(RunUsage { input_tokens, output_tokens, cost_micros })
    }

    #[test]
    fn commands_report_tokens_and_cost_at_their_end() {
        let claude = r#"{"type":"result","result":"Done.","total_cost_usd":0.0423,
            "usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":7}}"#;
        let one_line = claude.replace('\n', " ");
        let gemini = r#"{"response":"Done.","stats":{"models":{
            "a":{"tokens":{"prompt":5,"candidates":2,"thoughts":1}},"b":{"tokens":{"prompt":1}}}}}"#;
        for (text, usage) in [
            (claude.to_owned(), used(100, 7, Some(42_300))),
            (format!("[{{\"type\":\"system\"}},{claude}]"), used(100, 7, Some(42_300))),
            (format!("working\n{one_line}\nbye\n"), used(100, 7, Some(42_300))),
            (gemini.to_owned(), used(6, 3, None)),
            (r#"{"result":"Done.","usage":{"input_tokens":3}}"#.to_owned(), used(3, 0, None)),
            (r#"{"total_cost_usd":-1,"usage":{"input_tokens":3}}"#.to_owned(), used(3, 0, None)),
            (r#"{"result":"Done."}"#.to_owned(), None),
            (r#"{"usage":{"input_tokens":"many"}}"#.to_owned(), None),
            ("no JSON".to_owned(), None),
        ] {
            assert_eq!(printed(&text), usage, "{text}");
        }
    }

    #[test]
    fn turns_add_up_and_the_cost_is_that_of_the_session() {
        let mut reported = Reported::default();
        assert_eq!(reported.usage(), None);
        let cost = |amount, currency| {
            json!({"sessionUpdate": "usage_update", "used": 9, "size": 10,
                "cost": {"amount": amount, "currency": currency}})
        };
        reported.update(&cost(0.5, "USD"));
        assert_eq!(reported.usage(), used(0, 0, Some(500_000)));
        for turn in [
            json!({"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 2}}),
            json!({"usage": {"input_tokens": 1, "output_tokens": 1, "cached_read_tokens": 4}}),
            json!({"stopReason": "end_turn"}),
        ] {
            reported.turn(&turn);
        }
        reported.update(&cost(0.75, "USD"));
        reported.update(&cost(9.0, "EUR"));
        reported.update(&json!({"sessionUpdate": "plan", "cost": {"amount": 9}}));
        assert_eq!(reported.usage(), used(10, 3, Some(750_000)));
    }
}
