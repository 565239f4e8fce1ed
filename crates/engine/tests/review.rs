//! What a reviewer keeps for itself, who may keep it, and what a rejection sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::review::snooze::{Snooze, SnoozeUntil};
use callboard_domain::review::{DiffSide, ReviewComment};
use callboard_domain::rights::{Lane, Profile, Rights};
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::IdSource;
use callboard_engine::{Engine, EngineError, Parts, Rejection, TaskDraft};
use callboard_store::clock::ManualClock;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Place, Store};

struct Counting(AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) << 64)
    }
}

struct World {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
    let store = SqliteStore::open(&folder.path().join("test.db"), clock.clone()).expect("opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let place = Place {
        org: "default".into(),
        project_name: "demo".into(),
        prefix: Some(Prefix::parse("DEMO").expect("a prefix")),
        repo: None,
        store_is_inside: false,
    };
    let home = store.settle(place).await.expect("settles");
    let engine = Engine::new(Parts::bare(home, store, Arc::new(Counting(AtomicU64::new(1)))));
    World { engine, clock, _folder: folder }
}

fn op(who: &str) -> OpContext {
    op_with(who, Rights { lane: Lane::KaganAdmin, ..Rights::default() })
}

fn op_with(who: &str, rights: Rights) -> OpContext {
    let actor = who.parse().expect("an actor");
    OpContext::new(Principal { rights, ..Principal::local(actor) }, "test")
}

fn comment(text: &str) -> ReviewComment {
    ReviewComment {
        path: "src/a.rs".into(),
        side: DiffSide::New,
        first_line: 3,
        last_line: 4,
        blob: "3f2a1c9".into(),
        quote: "fn a() {\n}".into(),
        text: text.into(),
    }
}

fn code<T: std::fmt::Debug>(done: Result<T, EngineError>) -> &'static str {
    match done {
        Err(EngineError::Refused(refusal)) => refusal.code(),
        other => panic!("{other:?}"),
    }
}

impl World {
    async fn in_review(&self) -> TaskId {
        let draft = TaskDraft { title: "A".into(), ..TaskDraft::default() };
        let made = self.engine.task_create(&op("human:ana"), draft).await.expect("created");
        let task = made.it.task.id;
        let asked = self.engine.review_request(&op("agent:w1"), task, "did it".into()).await;
        asked.expect("asks");
        task
    }

    async fn feedback(&self, task: TaskId) -> Option<String> {
        let card = self.engine.card_of(&op("human:ana"), task).await.expect("reads");
        card.review.expect("a review").feedback
    }
}

#[tokio::test]
async fn the_preview_is_the_text_that_is_sent() {
    let world = world().await;
    let (engine, ana, task) = (&world.engine, op("human:ana"), world.in_review().await);
    let draft = engine.review_draft_put(&ana, task, None, comment("Say why.")).await.expect("kept");
    let given = ReviewComment { first_line: 1, ..comment("And this?") };
    let rejection = Rejection {
        comments: vec![given],
        with_drafts: true,
        head: Some("abcd".into()),
        ..Rejection::of("Nearly.".into(), Phase::Working)
    };
    let preview = engine.review_reject_preview(&ana, task, &rejection).await.expect("composes");
    assert_eq!(
        preview,
        "Nearly.\n\n1. src/a.rs:1-4\n\n    fn a() {\n    }\n\nAnd this?\n\n\
         2. src/a.rs:3-4\n\n    fn a() {\n    }\n\nSay why.\n\nThe review is about commit abcd."
    );
    let kept = engine.review_draft_list(&ana, task).await.expect("reads");
    assert_eq!(kept, std::slice::from_ref(&draft));
    engine.review_reject(&ana, task, rejection).await.expect("rejects");
    assert_eq!(world.feedback(task).await, Some(preview));
    assert_eq!(engine.review_draft_list(&ana, task).await.expect("reads"), []);
    let seen = engine.review_comments_list(&op("human:ben"), task).await.expect("reads");
    assert_eq!(seen.head, None);
    let sent: Vec<_> =
        seen.comments.iter().map(|seen| (seen.sent.round, seen.sent.id == draft.id)).collect();
    assert_eq!(sent, [(1, false), (1, true)]);
    assert!(seen.comments.iter().all(|seen| seen.state.is_none()), "no workspace is here");
}

#[tokio::test]
async fn a_rejection_without_comments_is_its_words() {
    let world = world().await;
    let (engine, ana, task) = (&world.engine, op("human:ana"), world.in_review().await);
    engine.review_draft_put(&ana, task, None, comment("Kept.")).await.expect("kept");
    let rejection = Rejection::of(" No test\n".into(), Phase::Working);
    engine.review_reject(&ana, task, rejection.clone()).await.expect("rejects");
    assert_eq!(world.feedback(task).await.as_deref(), Some("No test"));
    assert_eq!(engine.review_draft_list(&ana, task).await.expect("reads").len(), 1);
    let late = Rejection { with_drafts: true, ..rejection };
    assert_eq!(code(engine.review_reject(&ana, task, late).await), "REVIEW_NOT_READY");
    assert_eq!(engine.review_draft_list(&ana, task).await.expect("reads").len(), 1);
}

#[tokio::test]
async fn rights_say_what_a_caller_may_keep() {
    let world = world().await;
    let (engine, task, other) = (&world.engine, world.in_review().await, world.in_review().await);
    let viewer = Rights { profile_wanted: Some(Profile::Viewer), ..Rights::default() };
    let elsewhere = Rights { task: Some(other), lane: Lane::KaganAdmin, ..Rights::default() };
    let snooze =
        || Snooze { key: "review".into(), until: SnoozeUntil::Changes { fingerprint: "1".into() } };
    for (rights, drafts, looks) in [
        (viewer, "AUTHORIZATION_DENIED", ""),
        (elsewhere, "SESSION_SCOPE_DENIED", "SESSION_SCOPE_DENIED"),
    ] {
        let op = op_with("agent:w2", rights);
        let put = engine.review_draft_put(&op, task, None, comment("x")).await;
        assert_eq!(code(put), drafts);
        assert_eq!(code(engine.review_draft_list(&op, task).await), drafts);
        let id = engine.review_comment_id();
        assert_eq!(code(engine.review_draft_remove(&op, task, id).await), drafts);
        let rejection = Rejection::of("x".into(), Phase::Working);
        assert_eq!(code(engine.review_reject_preview(&op, task, &rejection).await), drafts);
        assert_eq!(code(engine.review_reject(&op, task, rejection).await), drafts);
        let viewed = engine.review_viewed_set(&op, task, "a".into(), Some("abcd".into())).await;
        let look = engine.review_look_set(&op, task, "abcd".into()).await;
        if looks.is_empty() {
            viewed.expect("ticks");
            look.expect("looks");
        } else {
            assert_eq!((code(viewed), code(look)), (looks, looks));
        }
        engine.snooze_set(&op, snooze()).await.expect("snoozes");
        assert_eq!(engine.snooze_list(&op).await.expect("reads"), [snooze()]);
        engine.snooze_remove(&op, "review".into()).await.expect("removes");
    }
}

#[tokio::test]
async fn ticks_looks_and_snoozes_are_the_callers_own() {
    let world = world().await;
    let (engine, ana, ben) = (&world.engine, op("human:ana"), op("human:ben"));
    let task = world.in_review().await;
    let tick = |blob: Option<&str>| {
        engine.review_viewed_set(&ana, task, "a".into(), blob.map(str::to_owned))
    };
    assert_eq!(code(tick(Some("no blob")).await), "INVALID_INPUT");
    tick(Some("abcd")).await.expect("ticks");
    assert_eq!(engine.review_viewed_list(&ana, task).await.expect("reads").len(), 1);
    assert_eq!(engine.review_viewed_list(&ben, task).await.expect("reads"), []);
    tick(None).await.expect("takes it off");
    assert_eq!(engine.review_viewed_list(&ana, task).await.expect("reads"), []);

    assert_eq!(code(engine.review_look_set(&ana, task, "main".into()).await), "INVALID_INPUT");
    let look = engine.review_look_set(&ana, task, "abcd".into()).await.expect("looks");
    assert_eq!(engine.review_look_get(&ana, task).await.expect("reads"), Some(look));
    assert_eq!(engine.review_look_get(&ben, task).await.expect("reads"), None);

    let until = SnoozeUntil::Time(Timestamp(1_700_000_001_000_000));
    let snooze = Snooze { key: "review".into(), until };
    engine.snooze_set(&ana, snooze.clone()).await.expect("snoozes");
    let kept = engine.snooze_list(&ana).await.expect("reads");
    assert_eq!(kept, std::slice::from_ref(&snooze));
    assert_eq!(engine.snooze_list(&ben).await.expect("reads"), []);
    world.clock.advance_ms(1000);
    assert_eq!(engine.snooze_list(&ana).await.expect("reads"), []);
    assert_eq!(code(engine.snooze_set(&ana, snooze).await), "INVALID_INPUT", "it is over");
}
