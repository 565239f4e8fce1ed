//! What an agent asks on its way, as a form of the protocol, and the answer to it. Both kinds of jobs
//! ask and are answered alike; who may answer is told by the toolset whose job it is.

use callboard_domain::job::JobId;
use callboard_domain::refusal::Refusal;
use callboard_domain::run::Question;
use callboard_engine::context::OpContext;
use callboard_engine::{Engine, EngineError};
use serde_json::{Map, Value, json};

const KEY: &str = "ask_";
/// What the form of a question has to tick.
const ALLOW: &str = "allow";

/// By its key. An elicitation: to accept it says yes, unless the box was unticked.
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

/// Answers the open question. What was not asked, was answered, or says neither yes nor no changes
/// nothing.
pub(crate) async fn answer(
    engine: &Engine,
    op: &OpContext,
    job: JobId,
    answers: &Map<String, Value>,
) -> Result<(), EngineError> {
    for (key, answer) in answers {
        let (Some(number), Some(granted)) = (number(key), granted(answer)) else { continue };
        match engine.run_answer(op, job, Some(number), granted).await {
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
    // One spelling only.
    (key(number) == given).then_some(number)
}

fn granted(answer: &Value) -> Option<bool> {
    match answer["action"].as_str()? {
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
