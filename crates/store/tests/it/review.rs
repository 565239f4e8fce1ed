//! What every store must do with drafts, sent comments, viewed files, looks and snoozes.

use callboard_domain::actor::Actor;
use callboard_domain::board::card::ReviewState;
use callboard_domain::command::{Command, ReviewDecide, ReviewSends, ReviewVerdict};
use callboard_domain::ids::TaskId;
use callboard_domain::limits::{REVIEW_DRAFTS_MAX, REVIEW_VIEWED_MAX, SNOOZES_MAX};
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::review::snooze::{Snooze, SnoozeUntil};
use callboard_domain::review::verdict::VerdictMark;
use callboard_domain::review::{
    DiffSide, ReviewComment, ReviewCommentId, ReviewDraft, SentComment, ViewedFile,
};
use callboard_store::{ApplyError, EventQuery, ReviewerOf};
use futures_util::future::join_all;

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id};

conformance! {
    a_draft_is_its_authors_alone,
    a_draft_is_changed_by_its_id,
    drafts_are_capped_also_when_they_come_at_once,
    a_rejection_sends_drafts_in_one_transaction,
    a_refused_rejection_changes_nothing,
    one_of_two_rejections_sends_each_draft,
    one_of_two_verdicts_on_one_look_is_refused,
    a_tick_belongs_to_a_blob,
    a_look_is_the_last_one,
    snoozes_end_and_are_capped,
    private_rows_go_with_their_task_and_have_no_events,
}

const ODD: &str = "\u{1f980} 'card' \\ \"é\"\n\tx";

fn actor(name: &str) -> Actor {
    name.parse().unwrap()
}

fn of(f: &Fixture, task: TaskId, author: &str) -> ReviewerOf {
    ReviewerOf { org: f.home.org.clone(), task, author: actor(author) }
}

fn comment(path: &str, line: u32, text: &str) -> ReviewComment {
    ReviewComment {
        path: path.into(),
        side: DiffSide::New,
        first_line: line,
        last_line: line + 1,
        blob: "3f2a1c9".into(),
        quote: ODD.into(),
        text: text.into(),
    }
}

async fn put(f: &Fixture, by: &ReviewerOf, comment: ReviewComment) -> ReviewDraft {
    let id = ReviewCommentId(next_id());
    f.store.review_draft_put(by.clone(), id, comment).await.unwrap()
}

async fn drafts(f: &Fixture, by: &ReviewerOf) -> Vec<ReviewDraft> {
    f.store.review_drafts(by.clone()).await.unwrap()
}

async fn sent(f: &Fixture, task: TaskId) -> Vec<SentComment> {
    f.store.review_comments("default", task).await.unwrap()
}

fn code<T: std::fmt::Debug>(done: Result<T, ApplyError>) -> &'static str {
    match done.unwrap_err() {
        ApplyError::Refused(refusal) => refusal.code(),
        ApplyError::Store(error) => panic!("{error}"),
    }
}

async fn in_review(f: &Fixture) -> TaskId {
    let task = f.create("A", &[]).await;
    f.done("agent:w1", Command::ReviewRequest { task, summary: "did it".into() }).await;
    task
}

fn reject(task: TaskId, sends: ReviewSends) -> Command {
    let verdict = ReviewVerdict::Reject { to: Phase::Working };
    let feedback = "Nearly.".into();
    Command::ReviewDecide(ReviewDecide {
        task,
        verdict,
        feedback,
        checked: None,
        work: None,
        sends,
        seen: Default::default(),
    })
}

fn with_drafts() -> ReviewSends {
    ReviewSends { drafts: true, ..ReviewSends::default() }
}

/// Every kind of row, for a board that moves.
pub async fn filled(f: &Fixture, odd: &str) {
    let task = in_review(f).await;
    let ana = of(f, task, "human:ana");
    let odd_comment = ReviewComment {
        side: DiffSide::Old,
        last_line: u32::MAX,
        ..comment(odd, u32::MAX - 9, odd)
    };
    put(f, &ana, odd_comment.clone()).await;
    let sends = ReviewSends { head: Some("abcd".into()), ..with_drafts() };
    f.done("human:ana", reject(task, sends)).await;
    put(f, &ana, odd_comment).await;
    let file = ViewedFile { path: odd.into(), blob: "abcd".into() };
    f.store.review_viewed_put(ana.clone(), file).await.unwrap();
    f.store.review_look_put(ana, "abcd".into()).await.unwrap();
    let changes = SnoozeUntil::Changes { fingerprint: odd.into() };
    for (key, until) in [("a", changes), (odd, SnoozeUntil::Time(f.store.now().plus_ms(1 << 40)))] {
        let snooze = Snooze { key: key.into(), until };
        f.store.snooze_put(f.home.org.clone(), actor("human:ana"), snooze).await.unwrap();
    }
}

async fn a_draft_is_its_authors_alone(f: Fixture) {
    let (task, other) = (in_review(&f).await, in_review(&f).await);
    let (ana, ben) = (of(&f, task, "human:ana"), of(&f, task, "human:ben"));
    let second = put(&f, &ana, comment("b.rs", 1, ODD)).await;
    let first = put(&f, &ana, comment("a.rs", 9, "text")).await;
    let capital = put(&f, &ana, comment("Z.rs", 9, "text")).await;
    let theirs = put(&f, &ben, comment("a.rs", 9, "text")).await;
    let near = f.neighbour().await;
    let wanted = [capital, first.clone(), second.clone()];
    assert_eq!(drafts(&near, &ana).await, wanted, "by file and line");
    assert_eq!(drafts(&near, &ben).await, std::slice::from_ref(&theirs));
    assert_eq!(drafts(&near, &of(&f, other, "human:ana")).await, []);
    for (by, id) in [(&ana, theirs.id), (&ben, first.id), (&of(&f, other, "human:ana"), first.id)] {
        let taken = f.store.review_draft_put(by.clone(), id, comment("c", 1, "mine")).await;
        assert_eq!(code(taken), "INVALID_INPUT");
        assert!(!f.store.review_draft_remove(by.clone(), id).await.unwrap());
    }
    assert!(f.store.review_draft_remove(ana.clone(), first.id).await.unwrap());
    assert!(!f.store.review_draft_remove(ana.clone(), first.id).await.unwrap());
    assert_eq!(drafts(&f, &ana).await.len(), 2);
    let unknown = TaskId { id: next_id(), ..task };
    let nowhere = of(&f, unknown, "human:ana");
    let id = ReviewCommentId(next_id());
    let lost = f.store.review_draft_put(nowhere, id, comment("c", 1, "x")).await;
    assert_eq!(code(lost), "TASK_NOT_FOUND");
}

async fn a_draft_is_changed_by_its_id(f: Fixture) {
    let ana = of(&f, in_review(&f).await, "human:ana");
    let made = put(&f, &ana, comment("b.rs", 1, "first")).await;
    f.clock.advance_ms(5);
    let changed = ReviewComment { side: DiffSide::Old, ..comment("a.rs", 4, "second") };
    let now = f.store.review_draft_put(ana.clone(), made.id, changed.clone()).await.unwrap();
    assert_eq!((&now.comment, now.created_at), (&changed, made.created_at));
    assert_eq!(now.updated_at, made.created_at.plus_ms(5));
    assert_eq!(drafts(&f, &ana).await, [now]);
}

async fn drafts_are_capped_also_when_they_come_at_once(f: Fixture) {
    let ana = of(&f, in_review(&f).await, "human:ana");
    for n in 0..REVIEW_DRAFTS_MAX as u32 - 2 {
        put(&f, &ana, comment("a.rs", n + 1, "text")).await;
    }
    let near = f.neighbour().await;
    let more = (0..6).map(|n| {
        let store = if n % 2 == 0 { &f.store } else { &near.store };
        store.review_draft_put(ana.clone(), ReviewCommentId(next_id()), comment("b.rs", 1, "x"))
    });
    let done = join_all(more).await;
    assert_eq!(done.iter().filter(|put| put.is_ok()).count(), 2);
    for refused in done.into_iter().filter(Result::is_err) {
        assert_eq!(code(refused), "INVALID_INPUT");
    }
    let kept = drafts(&f, &ana).await;
    assert_eq!(kept.len(), REVIEW_DRAFTS_MAX);
    let again = f.store.review_draft_put(ana.clone(), kept[0].id, comment("c.rs", 1, "y")).await;
    assert_eq!(again.unwrap().comment.path, "c.rs", "a full list can be changed");
    let ben = of(&f, ana.task, "human:ben");
    put(&f, &ben, comment("a.rs", 1, "each author has as many")).await;
}

async fn a_rejection_sends_drafts_in_one_transaction(f: Fixture) {
    let task = in_review(&f).await;
    let (ana, ben) = (of(&f, task, "human:ana"), of(&f, task, "human:ben"));
    let late = put(&f, &ana, comment("b.rs", 1, ODD)).await;
    let early = put(&f, &ana, comment("a.rs", 9, "text")).await;
    let theirs = put(&f, &ben, comment("a.rs", 9, "theirs")).await;
    let given = (ReviewCommentId(next_id()), comment("c.rs", 3, "given"));
    let head = Some("abcd".to_owned());
    let sends = ReviewSends { comments: vec![given.clone()], head: head.clone(), ..with_drafts() };
    f.done("human:ana", reject(task, sends)).await;
    let near = f.neighbour().await;
    let rows = sent(&near, task).await;
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ids, [early.id, late.id, given.0]);
    assert_eq!(rows[1].comment, ReviewComment { text: ODD.into(), ..late.comment });
    for row in &rows {
        assert_eq!((row.round, &row.head, &row.author), (1, &head, &ana.author));
    }
    assert_eq!(drafts(&near, &ana).await, []);
    assert_eq!(drafts(&near, &ben).await, [theirs]);
    let review = f.store.card("default", task).await.unwrap().unwrap().review.unwrap();
    let text = review.feedback.unwrap();
    assert!(text.starts_with("Nearly.\n\n1. a.rs:9-10\n\n    \u{1f980} 'card'"), "{text}");
    assert!(text.ends_with("given\n\nThe review is about commit abcd."), "{text}");
    let reused = f.store.review_draft_put(ana.clone(), early.id, comment("c", 1, "x")).await;
    assert_eq!(code(reused), "INVALID_INPUT", "the id of a sent comment is taken");
    f.done("agent:w1", Command::ReviewRequest { task, summary: "again".into() }).await;
    put(&f, &ana, comment("a.rs", 2, "next")).await;
    f.done("human:ana", reject(task, with_drafts())).await;
    let rounds: Vec<_> = sent(&f, task).await.iter().map(|row| row.round).collect();
    assert_eq!(rounds, [2, 1, 1, 1]);
    f.assert_sound().await;
}

async fn a_refused_rejection_changes_nothing(f: Fixture) {
    let task = in_review(&f).await;
    let ana = of(&f, task, "human:ana");
    put(&f, &ana, comment("b.rs", 1, "kept")).await;
    let bad = ReviewSends { head: Some("no head".into()), ..with_drafts() };
    assert_eq!(f.code("human:ana", reject(task, bad)).await, "INVALID_INPUT");
    f.done("human:ben", reject(task, with_drafts())).await;
    assert_eq!(f.code("human:ana", reject(task, with_drafts())).await, "REVIEW_NOT_READY");
    assert_eq!(drafts(&f, &ana).await.len(), 1);
    assert_eq!(sent(&f, task).await, []);
}

async fn one_of_two_rejections_sends_each_draft(f: Fixture) {
    let task = in_review(&f).await;
    let (ana, ben) = (of(&f, task, "human:ana"), of(&f, task, "human:ben"));
    for by in [&ana, &ben] {
        put(&f, by, comment("a.rs", 1, "text")).await;
    }
    let near = f.neighbour().await;
    let codes = tokio::join!(
        f.code("human:ana", reject(task, with_drafts())),
        near.code("human:ben", reject(task, with_drafts())),
    );
    let (won, lost) = match codes {
        ("", "REVIEW_NOT_READY") => (ana, ben),
        ("REVIEW_NOT_READY", "") => (ben, ana),
        other => panic!("{other:?}"),
    };
    let rows = sent(&f, task).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].author, won.author);
    assert_eq!(drafts(&f, &won).await, []);
    assert_eq!(drafts(&f, &lost).await.len(), 1);
}

/// Two people decide at one moment, both on the verdict that they saw: one decides, the other is told who did.
async fn one_of_two_verdicts_on_one_look_is_refused(f: Fixture) {
    for _ in 0..8 {
        let task = in_review(&f).await;
        let card = f.store.card("default", task).await.unwrap().unwrap();
        let seen = ReviewMark::from(VerdictMark::of(card.review.as_ref()));
        let decide = |verdict| {
            let (feedback, checked, work) = ("Nearly.".into(), None, None);
            let sends = ReviewSends::default();
            Command::ReviewDecide(ReviewDecide {
                task,
                verdict,
                feedback,
                checked,
                work,
                sends,
                seen: seen.clone(),
            })
        };
        let approve = decide(ReviewVerdict::Approve { unmerged: true, as_reviewer: false });
        let reject = decide(ReviewVerdict::Reject { to: Phase::Working });
        let near = f.neighbour().await;
        let (ana, ben) = tokio::join!(f.act("human:ana", approve), near.act("human:ben", reject));
        let refused = match (ana, ben) {
            (Err(refused), Ok(_)) | (Ok(_), Err(refused)) => refused,
            both => panic!("{both:?}"),
        };
        let review = f.store.card("default", task).await.unwrap().unwrap().review.unwrap();
        match refused {
            ApplyError::Refused(Refusal::ReviewDecided { saw, now, .. }) => {
                assert_eq!(saw, ReviewState::Requested);
                assert_eq!(now, Some((review.state, review.by, review.decided_at.unwrap())));
            }
            other => panic!("{other:?}"),
        }
    }
    f.assert_sound().await;
}

async fn a_tick_belongs_to_a_blob(f: Fixture) {
    let ana = of(&f, in_review(&f).await, "human:ana");
    let file = |path: &str, blob: &str| ViewedFile { path: path.into(), blob: blob.into() };
    for tick in [file("b", "aaaa"), file("a", "aaaa"), file("B", "aaaa"), file("b", "bbbb")] {
        f.store.review_viewed_put(ana.clone(), tick).await.unwrap();
    }
    let near = f.neighbour().await;
    let seen = near.store.review_viewed(ana.clone()).await.unwrap();
    assert_eq!(seen, [file("B", "aaaa"), file("a", "aaaa"), file("b", "bbbb")]);
    let ben = of(&f, ana.task, "human:ben");
    f.store.review_viewed_remove(ben.clone(), "a".into()).await.unwrap();
    assert_eq!(f.store.review_viewed(ben).await.unwrap(), []);
    for _ in 0..2 {
        f.store.review_viewed_remove(ana.clone(), "a".into()).await.unwrap();
        assert_eq!(f.store.review_viewed(ana.clone()).await.unwrap().len(), 2);
    }
    for n in 2..REVIEW_VIEWED_MAX {
        f.store.review_viewed_put(ana.clone(), file(&format!("f{n}"), "aaaa")).await.unwrap();
    }
    let more = f.store.review_viewed_put(ana.clone(), file("one more", "aaaa")).await;
    assert_eq!(code(more), "INVALID_INPUT");
    f.store.review_viewed_put(ana, file("b", "cccc")).await.unwrap();
}

async fn a_look_is_the_last_one(f: Fixture) {
    let ana = of(&f, in_review(&f).await, "human:ana");
    assert_eq!(f.store.review_look(ana.clone()).await.unwrap(), None);
    for head in ["aaaa", "bbbb"] {
        f.clock.advance_ms(5);
        let look = f.store.review_look_put(ana.clone(), head.into()).await.unwrap();
        assert_eq!((look.head.as_str(), look.at), (head, f.store.now()));
        let near = f.neighbour().await;
        assert_eq!(near.store.review_look(ana.clone()).await.unwrap(), Some(look));
    }
    let ben = of(&f, ana.task, "human:ben");
    assert_eq!(f.store.review_look(ben).await.unwrap(), None);
}

async fn snoozes_end_and_are_capped(f: Fixture) {
    let (org, ana) = (f.home.org.clone(), actor("human:ana"));
    let put = |key: &str, until| {
        f.store.snooze_put(org.clone(), ana.clone(), Snooze { key: key.into(), until })
    };
    let list = async || {
        let found = f.store.snoozes(org.clone(), ana.clone()).await.unwrap();
        found.into_iter().map(|snooze| snooze.key).collect::<Vec<_>>()
    };
    let changes = || SnoozeUntil::Changes { fingerprint: ODD.into() };
    let hour = SnoozeUntil::Time(f.store.now().plus_ms(3_600_000));
    put("b", changes()).await.unwrap();
    put("a", hour.clone()).await.unwrap();
    put("B", hour).await.unwrap();
    put("b", changes()).await.unwrap();
    assert_eq!(list().await, ["B", "a", "b"]);
    let kept = f.neighbour().await.store.snoozes(org.clone(), ana.clone()).await.unwrap();
    assert_eq!(kept[2], Snooze { key: "b".into(), until: changes() });
    assert_eq!(f.store.snoozes(org.clone(), actor("human:ben")).await.unwrap(), []);
    for _ in 0..2 {
        f.store.snooze_remove(org.clone(), ana.clone(), "B".into()).await.unwrap();
        assert_eq!(list().await, ["a", "b"]);
    }
    f.clock.advance_ms(3_600_000);
    assert_eq!(list().await, ["b"]);
    for n in 1..SNOOZES_MAX {
        put(&format!("k{n}"), changes()).await.unwrap();
    }
    assert_eq!(code(put("one more", changes()).await), "INVALID_INPUT");
    put("b", changes()).await.unwrap();
    assert_eq!(list().await.len(), SNOOZES_MAX);
}

async fn private_rows_go_with_their_task_and_have_no_events(f: Fixture) {
    let task = in_review(&f).await;
    let ana = of(&f, task, "human:ana");
    put(&f, &ana, comment("a.rs", 1, "sent")).await;
    f.done("human:ana", reject(task, with_drafts())).await;
    let before = f.store.last_seq().await.unwrap();
    let draft = put(&f, &ana, comment("a.rs", 1, "kept")).await;
    let file = ViewedFile { path: "a.rs".into(), blob: "aaaa".into() };
    f.store.review_viewed_put(ana.clone(), file.clone()).await.unwrap();
    f.store.review_look_put(ana.clone(), "aaaa".into()).await.unwrap();
    assert_eq!(f.store.last_seq().await.unwrap(), before);
    let query = EventQuery { task: Some(task), limit: 100, ..EventQuery::default() };
    let events = f.store.events(query).await.unwrap();
    let rejected = events.iter().find(|event| event.name.as_str() == "review.rejected").unwrap();
    assert_eq!(rejected.data, serde_json::json!({"comments": 1}));
    f.done("human:ana", Command::TaskRemove { task }).await;
    assert_eq!(drafts(&f, &ana).await, []);
    assert_eq!(f.store.review_viewed(ana.clone()).await.unwrap(), []);
    assert_eq!(f.store.review_look(ana.clone()).await.unwrap(), None);
    assert_eq!(sent(&f, task).await, []);
    assert!(!f.store.review_draft_remove(ana.clone(), draft.id).await.unwrap(), "it is gone");
    assert_eq!(code(f.store.review_viewed_put(ana.clone(), file).await), "TASK_NOT_FOUND");
    assert_eq!(code(f.store.review_look_put(ana, "aaaa".into()).await), "TASK_NOT_FOUND");
    f.assert_sound().await;
}
