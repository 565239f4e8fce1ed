//! Repeated calls: which keys are accepted, which arguments are equal, which claims still hold.

use serde_json::{Value, json};

use super::model::{Model, actor, task_named};
use crate::command::Command;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::retry::{Digest, HeldNow, HeldTask, RetryKey};

#[test]
fn keys_are_short_strings_without_control_characters() {
    let digest = Digest::of(&Value::Null);
    let long = "ä".repeat(500);
    for good in ["k", " ", "run-42", "ключ 🙂", &long] {
        assert!(RetryKey::read("key", &json!(good), digest).is_ok(), "{good}");
    }
    let (longer, huge) = ("ä".repeat(501), "k".repeat(3_900_000));
    let bad = [
        (json!(""), "an empty text"),
        (json!(longer), "a longer text"),
        (json!(huge), "a longer text"),
        (json!("a\0b"), "U+0000"),
        (json!("a\nb"), "U+000A"),
        (json!("\u{7f}"), "U+007F"),
        (json!("\u{85}"), "U+0085"),
        (json!(7), "no string"),
        (json!(null), "no string"),
        (json!(["k"]), "no string"),
    ];
    for (key, got) in bad {
        let refused = RetryKey::read("key", &key, digest).expect_err("refused");
        let words = "key must be a string of 1..500 characters without control characters, got";
        assert_eq!(refused, Refusal::invalid_field("key", format!("{words} {got}")));
    }
}

#[test]
fn arguments_are_the_same_in_any_order() {
    let digest = |text: &str| Digest::of(&serde_json::from_str(text).expect("JSON"));
    let first = digest(r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#);
    assert_eq!(first, digest(r#"{"b": {"d": null, "c": [1, 2]}, "a": 1}"#));
    assert_eq!(Digest::of(&Value::Null), digest("{}"), "none are as good as left out");
    for other in [
        r#"{"a": 1, "b": {"c": [2, 1], "d": null}}"#,
        r#"{"a": 1, "b": {"c": [1, 2]}}"#,
        r#"{"a": "1", "b": {"c": [1, 2], "d": null}}"#,
        "{}",
    ] {
        assert_ne!(first, digest(other), "{other}");
    }
    let key = RetryKey::new("key", "k", first).expect("a key");
    assert!(key.judge("create", Some(first)).is_ok() && key.judge("create", None).is_ok());
    let refused = key.judge("create", Some(digest("{}"))).expect_err("other arguments");
    assert_eq!(refused, Refusal::KeyReused { verb: "create".into() });
}

#[test]
fn a_command_is_named_without_its_fields() {
    assert_eq!(Command::TaskClaim { task: task_named("A") }.name(), "TaskClaim");
    let mut model = Model::new(Policy::default());
    assert_eq!(model.command("begin A").name(), "AttemptBegin");
    assert_eq!(model.command("create A").name(), "TaskCreate");
}

/// The first call of `w1`, the steps since then, and the answer to the repeated call.
#[test]
fn a_claim_is_repeated_only_while_it_holds() {
    let cases = [
        ("claim A", "", ""),
        ("claim A", "w1 release A", "not held by anyone"),
        ("claim A", "w1 release A; w2 claim A", "held by agent:w2"),
        ("claim A", "w1 begin A as=s", ""),
        ("take A as=l", "", ""),
        ("take A as=l", "w1 update A", ""),
        ("take A as=l", "clock 60", "not held by anyone"),
        ("take A as=l", "clock 60; w2 take A as=m", "held by agent:w2"),
        ("take A as=l", "clock 60; w1 take A as=m", "fence 1 is stale"),
        ("take A as=l", "w1 update A free", "not held by anyone"),
        ("take A as=l", "ana remove A", "task not found"),
        ("begin A as=s", "", ""),
        ("begin A as=s", "w1 cancel s; w1 release A", "session is terminal: canceled"),
        ("begin A as=s", "w1 finish s", "session is terminal: finished"),
        ("begin A as=s", "w1 cancel s; w1 begin A as=t", "session is terminal: canceled"),
        ("begin A as=s", "clock 181; w2 begin A as=t takeover", "held by agent:w2"),
    ];
    for (first, since, expected) in cases {
        let mut model = Model::new(Policy::default());
        act(&mut model, "ana create A");
        let command = act(&mut model, &format!("w1 {first}"));
        let held = {
            let (task, newest) = newest(&model);
            HeldTask::after(&command, &actor("w1"), task, newest, model.now).expect("w1 holds it")
        };
        for line in since.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix("clock ") {
                Some(s) => model.now = model.now.plus_s(s.parse().expect("seconds")),
                None => drop(act(&mut model, line)),
            }
        }
        let (task, newest) = newest(&model);
        let task = task.filter(|task| model.rows.visible(task.id).is_some());
        let attempt = held.attempt.and_then(|attempt| model.rows.attempts.get(&attempt));
        let at = HeldNow { task, newest, attempt };
        let judged = held.judge(&actor("w1"), at, &model.policy, model.now);
        let said = judged.err().map(|refusal| refusal.message()).unwrap_or_default();
        let fits = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
        assert!(fits, "{first}; {since}: {said}");
    }
}

#[test]
fn other_commands_give_nothing_to_hold() {
    let mut model = Model::new(Policy::default());
    act(&mut model, "ana create A");
    act(&mut model, "w1 claim A");
    let note = act(&mut model, "w1 note A text=x");
    let (task, newest) = newest(&model);
    assert_eq!(HeldTask::after(&note, &actor("w1"), task, newest, model.now), None);
    let claim = Command::TaskClaim { task: task_named("A") };
    assert_eq!(HeldTask::after(&claim, &actor("w2"), task, newest, model.now), None);
}

fn act(model: &mut Model, line: &str) -> Command {
    let (who, rest) = line.split_once(' ').expect("who does what");
    let command = model.command(rest.trim());
    model.act(who, &command).unwrap_or_else(|refusal| panic!("{line}: {}", refusal.message()));
    command
}

fn newest(model: &Model) -> (Option<&crate::task::Task>, Option<&crate::task::attempt::Attempt>) {
    let task = model.rows.tasks.get(&task_named("A")).map(|rows| &rows.task);
    let newest = task.and_then(|task| task.newest_attempt);
    (task, newest.and_then(|newest| model.rows.attempts.get(&newest)))
}
