//! Random output of agents for the readers of this folder: nothing panics, and what is kept stays within its bounds.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};

use super::acp::{command_in, one_line};
use super::agent_output::AgentOutput;
use super::usage::{Reported, printed};
use super::wire::read;

const BYTES_MAX: usize = 4_000;

/// Proptest shrinks what fails; the seed is fixed, so that a run is the same everywhere.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

const KEYS: &[&str] = &[
    "id",
    "method",
    "params",
    "result",
    "error",
    "message",
    "data",
    "details",
    "sessionUpdate",
    "content",
    "text",
    "title",
    "toolCallId",
    "kind",
    "rawInput",
    "command",
    "locations",
    "path",
    "usage",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "inputTokens",
    "outputTokens",
    "cachedReadTokens",
    "total_cost_usd",
    "cost",
    "currency",
    "amount",
];

fn words() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
        "usage_update",
        "USD",
        "c1",
        "two\nlines",
        "",
    ])
    .prop_map(Value::from)
}

fn count() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        Just(json!(u64::MAX)),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from)
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        count(),
        any::<String>().prop_map(Value::from),
        words()
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let key = prop::sample::select(KEYS).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..8)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn lines_of_agents_are_messages_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200), message in message()) {
        read(&bytes);
        let text = message.to_string();
        read(text.as_bytes());
        read(&text.as_bytes()[..bytes.len().min(text.len())]);
        printed(&text);
        printed(&format!("words\n{text}\n\n"));
    }

    #[test]
    fn counts_of_tokens_are_never_less_than_their_parts(prompt in count(), candidates in count(), thoughts in count(), cost in count()) {
        let gemini = json!({"stats": {"models": {"a": {"tokens": {"prompt": prompt, "candidates": candidates, "thoughts": thoughts}}, "b": {"tokens": {"prompt": 1}}}}});
        let claude = json!({"total_cost_usd": cost, "usage": {"input_tokens": prompt, "cache_read_input_tokens": thoughts, "output_tokens": candidates}});
        for output in [gemini, claude] {
            if let Some(used) = printed(&output.to_string()) {
                prop_assert!(used.output_tokens >= candidates.as_u64().unwrap_or_default(), "{used:?} of {output}");
                prop_assert!(used.input_tokens >= prompt.as_u64().unwrap_or_default(), "{used:?} of {output}");
            }
        }
        let mut reported = Reported::default();
        for _ in 0..2 {
            reported.turn(&json!({"usage": {"inputTokens": prompt, "cachedReadTokens": thoughts, "outputTokens": candidates}}));
            reported.update(&json!({"sessionUpdate": "usage_update", "cost": {"currency": "USD", "amount": cost}}));
        }
        if let Some(used) = reported.usage() {
            prop_assert!(used.output_tokens >= candidates.as_u64().filter(|_| prompt.is_u64()).unwrap_or_default(), "{used:?}");
        }
    }

    #[test]
    fn what_is_kept_of_updates_is_bounded(updates in prop::collection::vec((words(), message(), message()), 0..40)) {
        let mut heard = AgentOutput::new(BYTES_MAX, None);
        for (kind, content, mut update) in updates {
            if let Some(map) = update.as_object_mut() {
                map.insert("sessionUpdate".into(), kind);
                map.entry("content").or_insert(content.clone());
            }
            heard.update(&update);
            one_line(&content);
            command_in(&content);
            heard.tool(update["toolCallId"].as_str().unwrap_or_default());
        }
        prop_assert!(heard.answer().len() <= 3 * BYTES_MAX, "an odd byte becomes three");
    }
}
