//! What every store must do with calls that are repeated under a retry key.

use callboard_domain::command::{Command, NewCheck};
use callboard_domain::ids::TaskId;
use callboard_domain::retry::{Digest, RetryKey};
use callboard_store::{
    Applied, ApplyError, CallKey, KEPT_BYTES_MAX, KeptAnswer, Op, RETRIES_KEPT_MS,
};
use serde_json::{Value, json};

use crate::conformance::conformance;
use crate::fixture::{Fixture, attempt_of, task_of};
use crate::leases::take;

conformance! {
    a_repeated_command_answers_what_was_committed,
    other_arguments_under_a_key_change_nothing,
    a_claim_is_repeated_only_while_it_holds,
    a_command_that_changed_nothing_is_remembered_too,
    the_commands_of_one_call_keep_their_own_results,
    of_many_calls_with_one_key_one_is_carried_out,
    a_result_that_is_too_large_is_not_kept,
    an_answer_is_kept_once_and_for_a_day,
}

fn key(key: &str, arguments: &Value) -> Option<RetryKey> {
    RetryKey::new("key", key, Digest::of(arguments)).ok()
}

fn keyed(f: &Fixture, who: &str, command: Command) -> Op {
    Op { retry_key: key("k", &json!({"a": 1})), ..f.op(who, command) }
}

fn shown(applied: &Applied) -> String {
    let Applied { outcome, before, at, changed, .. } = applied;
    format!("{outcome:?} {before:?} {at:?} {changed}")
}

async fn code(f: &Fixture, op: Op) -> &'static str {
    match f.store.apply(op).await {
        Ok(applied) => panic!("answered {:?}", applied.outcome),
        Err(ApplyError::Refused(refusal)) => refusal.code(),
        Err(ApplyError::Store(error)) => panic!("{error}"),
    }
}

async fn a_repeated_command_answers_what_was_committed(f: Fixture) {
    let create = || keyed(&f, "agent:w1", Command::TaskCreate(f.new_task("once", &[])));
    let first = f.store.apply(create()).await.unwrap();
    assert!(first.changed && !first.replayed);
    let task = task_of(&first).task.id;
    let note = || {
        let command = Command::TaskNote { task, text: "halfway".into() };
        keyed(&f, "agent:w1", command)
    };
    let noted = f.store.apply(note()).await.unwrap();
    let last = f.store.last_seq().await.unwrap();
    for later in ["other process", "done", "removed"] {
        match later {
            "done" => {
                let (to, checked, work) = ("done".into(), None, None);
                f.clock.advance_ms(60_000);
                f.done("human:ana", Command::TaskTransition { task, to, checked, work }).await;
            }
            "removed" => drop(f.done("human:ana", Command::TaskRemove { task }).await),
            _ => {}
        }
        let neighbour = f.neighbour().await;
        let again = neighbour.store.apply(create()).await.unwrap();
        assert!(again.replayed && again.last_seq.is_none(), "{later}");
        assert_eq!(shown(&again), shown(&first), "{later}");
        assert_eq!(shown(&f.store.apply(note()).await.unwrap()), shown(&noted), "{later}");
    }
    assert_eq!(f.store.last_seq().await.unwrap(), last + 2, "done and removed");
    f.assert_sound().await;
}

async fn other_arguments_under_a_key_change_nothing(f: Fixture) {
    let create = |arguments: Value| Op {
        retry_key: key("k", &arguments),
        ..f.op("agent:w1", Command::TaskCreate(f.new_task("once", &[])))
    };
    f.store.apply(create(json!({"title": "once"}))).await.unwrap();
    let last = f.store.last_seq().await.unwrap();
    assert_eq!(code(&f, create(json!({"title": "twice"}))).await, "KEY_REUSED");
    // Other arguments are refused for another command under the key too: all commands of a call share its
    // arguments.
    let task = f.create("other", &[]).await;
    let claim = Op {
        retry_key: key("k", &json!({"title": "twice"})),
        ..f.op("agent:w1", Command::TaskClaim { task })
    };
    assert_eq!(code(&f, claim).await, "KEY_REUSED");
    assert_eq!(f.store.last_seq().await.unwrap(), last + 1, "only the other task is new");
}

async fn a_claim_is_repeated_only_while_it_holds(f: Fixture) {
    let task = f.create("a", &[]).await;
    let claim = || keyed(&f, "agent:w1", take(task, 60));
    let first = f.store.apply(claim()).await.unwrap();
    f.clock.advance_ms(30_000);
    assert_eq!(shown(&f.store.apply(claim()).await.unwrap()), shown(&first));
    f.clock.advance_ms(30_000);
    assert_eq!(code(&f, claim()).await, "ALREADY_CLAIMED", "the lease is over");
    f.done("agent:w2", take(task, 60)).await;
    let refused = f.store.apply(claim()).await.map(|_| ());
    assert!(refused.is_err_and(|error| error.to_string().contains("agent:w2")));

    let other = f.create("b", &[]).await;
    let begin = || keyed(&f, "agent:w1", f.begin(other, "s", None));
    let attempt = attempt_of(&f.store.apply(begin()).await.unwrap()).id;
    assert_eq!(attempt_of(&f.store.apply(begin()).await.unwrap()).id, attempt);
    f.done("agent:w1", Command::AttemptCancel { attempt, reason: "no".into() }).await;
    f.done("agent:w1", Command::TaskRelease { task: other }).await;
    assert_eq!(code(&f, begin()).await, "SESSION_TERMINAL");
    f.done("human:ana", Command::TaskRemove { task: other }).await;
    assert_eq!(code(&f, begin()).await, "TASK_NOT_FOUND");
    f.assert_sound().await;
}

async fn a_command_that_changed_nothing_is_remembered_too(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 60)).await;
    let last = f.store.last_seq().await.unwrap();
    let first = f.store.apply(keyed(&f, "agent:w1", take(task, 60))).await.unwrap();
    assert!(!first.changed, "it has the lease already");
    assert_eq!(f.store.last_seq().await.unwrap(), last);
    let again = f.store.apply(keyed(&f, "agent:w1", take(task, 60))).await.unwrap();
    assert_eq!(shown(&again), shown(&first));
    f.clock.advance_ms(60_000);
    assert_eq!(code(&f, keyed(&f, "agent:w1", take(task, 60))).await, "ALREADY_CLAIMED");
}

async fn the_commands_of_one_call_keep_their_own_results(f: Fixture) {
    let create = || keyed(&f, "agent:w1", Command::TaskCreate(f.new_task("a", &[])));
    let task = task_of(&f.store.apply(create()).await.unwrap()).task.id;
    let claim = || keyed(&f, "agent:w1", Command::TaskClaim { task });
    let claimed = f.store.apply(claim()).await.unwrap();
    assert!(!claimed.replayed, "the key stands for another command");
    assert_eq!(task_of(&claimed).task.assignee, Some("agent:w1".parse().unwrap()));
    assert_eq!(task_of(&f.store.apply(create()).await.unwrap()).task.assignee, None);
    assert_eq!(shown(&f.store.apply(claim()).await.unwrap()), shown(&claimed));
}

async fn of_many_calls_with_one_key_one_is_carried_out(f: Fixture) {
    let neighbour = f.neighbour().await;
    let calls = (0..8).map(|n| {
        let store = if n % 2 == 0 { f.store.clone() } else { neighbour.store.clone() };
        let op = keyed(&f, "agent:w1", Command::TaskCreate(f.new_task("once", &[])));
        tokio::spawn(async move { task_of(&store.apply(op).await.unwrap()).task.id })
    });
    let calls: Vec<_> = calls.collect();
    let mut made: Vec<TaskId> = Vec::new();
    for call in calls {
        made.push(call.await.unwrap());
    }
    made.dedup();
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(f.store.last_seq().await.unwrap(), 1);
}

async fn a_result_that_is_too_large_is_not_kept(f: Fixture) {
    let check =
        |_| NewCheck { desc: "d".into(), cmd: Some("x".repeat(8000)), ..NewCheck::default() };
    let mut large = f.new_task("large", &[]);
    large.checks = (0..50).map(check).collect();
    large.body = "\u{1}".repeat(200_000);
    let op = || keyed(&f, "agent:w1", Command::TaskCreate(large.clone()));
    let first = f.store.apply(op()).await.unwrap();
    assert!(shown(&first).len() > KEPT_BYTES_MAX, "larger than what is kept");
    let last = f.store.last_seq().await.unwrap();
    assert_eq!(code(&f, op()).await, "ANSWER_NOT_KEPT");
    assert_eq!(f.store.last_seq().await.unwrap(), last);
}

async fn an_answer_is_kept_once_and_for_a_day(f: Fixture) {
    let call = |who: &str| CallKey {
        org: f.home.org.clone(),
        actor: who.parse().unwrap(),
        tool: "test",
        key: key("k", &json!({"a": 1})).unwrap(),
    };
    let mine = || call("agent:w1");
    assert_eq!(f.store.retry(mine()).await.unwrap(), None);
    let task = f.create("a", &[]).await;
    f.store.apply(keyed(&f, "agent:w1", take(task, 60))).await.unwrap();
    let kept = f.store.retry(mine()).await.unwrap().unwrap();
    assert_eq!((kept.answer, kept.held.map(|held| held.task)), (KeptAnswer::NotYet, Some(task)));
    assert_eq!(kept.digest, Some(Digest::of(&json!({"a": 1}))));
    f.store.answer_keep(mine(), r#"{"it": "ä\u0000"}"#).await.unwrap();
    f.store.answer_keep(mine(), "later").await.unwrap();
    let kept = f.neighbour().await.store.retry(mine()).await.unwrap().unwrap();
    assert_eq!(kept.answer, KeptAnswer::Text(r#"{"it": "ä\u0000"}"#.into()), "the first stands");
    assert_eq!(kept.held.map(|held| held.task), Some(task));
    assert_eq!(f.store.retry(call("agent:w2")).await.unwrap(), None);

    let large = "x".repeat(KEPT_BYTES_MAX + 1);
    f.store.answer_keep(call("agent:w2"), &large).await.unwrap();
    let kept = f.store.retry(call("agent:w2")).await.unwrap().unwrap();
    assert_eq!(kept.answer, KeptAnswer::TooLarge);

    f.clock.advance_ms(RETRIES_KEPT_MS);
    assert_eq!(f.store.retry(mine()).await.unwrap(), None, "forgotten after a day");
    f.store.answer_keep(mine(), "new").await.unwrap();
    let kept = f.store.retry(mine()).await.unwrap().unwrap();
    assert_eq!((kept.answer, kept.held), (KeptAnswer::Text("new".into()), None));
    f.store.prune_retries(f.store.now().plus_ms(1)).await.unwrap();
    assert_eq!(f.store.retry(mine()).await.unwrap(), None);
}
