//! What every store must find of the attempts within a span of time.

use callboard_domain::command::Command;
use callboard_domain::ids::TaskId;
use callboard_domain::time::Timestamp;
use callboard_store::{AttemptSpan, REACH_MS};

use crate::conformance::conformance;
use crate::fixture::{Fixture, attempt_of};

conformance! {
    attempts_are_found_by_when_they_were_live,
    a_span_has_a_limit_an_actor_and_an_org,
}

const MINUTE_MS: i64 = 60_000;

async fn worked(f: &Fixture, title: &str, who: &str, ms: i64) -> TaskId {
    let task = f.create(title, &[]).await;
    let begun = f.done(who, f.begin(task, "k", None)).await;
    f.clock.advance_ms(ms);
    let (attempt, reason) = (attempt_of(&begun).id, "enough".to_owned());
    f.done(who, Command::AttemptCancel { attempt, reason }).await;
    task
}

fn span(f: &Fixture, from: Timestamp, until: Timestamp) -> AttemptSpan {
    AttemptSpan { org: f.home.org.clone(), actor: None, from, until, limit: 10 }
}

async fn titles(f: &Fixture, span: AttemptSpan) -> Vec<String> {
    let found = f.store.attempts_within(span).await.unwrap();
    assert!(found.iter().all(|seen| seen.attempt.task == seen.task.id));
    found.into_iter().map(|seen| seen.task.title).collect()
}

async fn attempts_are_found_by_when_they_were_live(f: Fixture) {
    let old = f.create("old and live", &[]).await;
    f.done("agent:w1", f.begin(old, "k", None)).await;
    worked(&f, "old and over", "agent:w1", MINUTE_MS).await;
    f.clock.advance_ms(3 * REACH_MS);
    worked(&f, "over before", "agent:w1", MINUTE_MS).await;
    f.clock.advance_ms(MINUTE_MS);
    let long = f.create("ends within", &[]).await;
    let begun = f.done("agent:w2", f.begin(long, "k", None)).await;
    f.clock.advance_ms(MINUTE_MS);
    let from = f.store.now();
    f.clock.advance_ms(MINUTE_MS);
    let cancel = Command::AttemptCancel { attempt: attempt_of(&begun).id, reason: "no".into() };
    f.done("agent:w2", cancel).await;
    worked(&f, "within", "agent:w1", MINUTE_MS).await;
    let gone = worked(&f, "removed", "agent:w1", MINUTE_MS).await;
    f.done("human:ana", Command::CardRemove { task: gone }).await;
    let until = f.store.now();
    f.clock.advance_ms(MINUTE_MS);
    worked(&f, "began later", "agent:w1", MINUTE_MS).await;

    let found = titles(&f, span(&f, from, until)).await;
    assert_eq!(found, ["within", "ends within", "old and live"]);
}

async fn a_span_has_a_limit_an_actor_and_an_org(f: Fixture) {
    let from = f.store.now();
    for (title, who) in [("a", "agent:w1"), ("b", "agent:w2"), ("c", "agent:w1")] {
        worked(&f, title, who, MINUTE_MS).await;
    }
    let all = span(&f, from, f.store.now());
    let of_one = AttemptSpan { actor: "agent:w1".parse().ok(), ..all.clone() };
    assert_eq!(titles(&f, of_one).await, ["c", "a"]);
    assert_eq!(titles(&f, AttemptSpan { limit: 2, ..all.clone() }).await, ["c", "b"]);
    f.store.settle(crate::fixture::place("other")).await.unwrap();
    assert!(titles(&f, AttemptSpan { org: "other".into(), ..all }).await.is_empty());
}
