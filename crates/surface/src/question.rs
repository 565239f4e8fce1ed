//! An agent's question as a form of the protocol, and the answer to it. Both kinds of jobs ask and are answered alike;
//! the toolset of the job decides who may answer.

use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::Question;
use callboard_engine::context::OpContext;
use callboard_engine::{Engine, EngineError};
use serde_json::{Map, Value, json};

/// The prefix of a question's key. The number behind it keeps a late answer from answering the next question.
const KEY: &str = "ask_";
/// The checkbox in the form of a question.
const ALLOW: &str = "allow";

/// The form under its key. It is an elicitation: accepting it says yes, unless the box was unticked.
pub(crate) fn form(question: &Question) -> Map<String, Value> {
    let mut allow = json!({"type": "boolean", "title": "Allow", "default": true});
    if let Some(command) = &question.command {
        allow["description"] = command.clone().into();
    }
    let schema = json!({"type": "object", "properties": {ALLOW: allow}});
    let params = json!({"mode": "form", "message": question.text, "requestedSchema": schema});
    let form = json!({"method": "elicitation/create", "params": params});
    Map::from_iter([(key(question.number), form)])
}

/// Answers the open question. An answer to an unknown or answered question, or one that says neither yes nor no,
/// changes nothing.
pub(crate) async fn answer(
    engine: &Engine,
    op: &OpContext,
    job: JobId,
    answers: &Map<String, Value>,
) -> Result<(), EngineError> {
    for (key, answer) in answers {
        let (Some(number), Some(granted)) = (number(key), granted(answer)) else { continue };
        match engine.run_answer(op, job, Some(number), granted).await {
            // `NoQuestion`: another caller was faster, or the run has ended. The caller's wish is moot, not wrong.
            Ok(_) | Err(EngineError::Refused(Refusal::NoQuestion { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn key(number: u32) -> String {
    format!("{KEY}{number}")
}

fn number(given: &str) -> Option<u32> {
    let number = given.strip_prefix(KEY)?.parse().ok()?;
    // Only the canonical spelling counts.
    (key(number) == given).then_some(number)
}

fn granted(answer: &Value) -> Option<bool> {
    match answer["action"].as_str()? {
        // Clients may leave out a box that was not touched; its default in the form is "true".
        "accept" => Some(answer["content"][ALLOW] != false),
        "decline" | "cancel" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_counts() {
        for (answer, granted_) in [
            (json!({"action": "accept"}), Some(true)),
            (json!({"action": "accept", "content": {"allow": true}}), Some(true)),
            (json!({"action": "accept", "content": {"allow": false}}), Some(false)),
            (json!({"action": "decline"}), Some(false)),
            (json!({"action": "cancel"}), Some(false)),
            (json!({"action": "perhaps"}), None),
            (json!({}), None),
            (json!("accept"), None),
        ] {
            assert_eq!(granted(&answer), granted_, "{answer}");
        }
        for (given, read) in [("ask_1", Some(1)), ("ask_01", None), ("ask_", None), ("1", None)] {
            assert_eq!(number(given), read, "{given}");
        }
    }
}
