//! Rejections with comments: what is sent, what is kept, and what a refusal leaves alone.

use super::model::{Model, actor, task_named};
use crate::board::card::ReviewState;
use crate::command::{Command, ReviewDecide, ReviewSends, ReviewVerdict};
use crate::ids::Id;
use crate::limits::{REVIEW_DRAFTS_MAX, REVIEW_TEXT_BYTES_MAX};
use crate::policy::{Phase, Policy};
use crate::refusal::Refusal;
use crate::review::{DiffSide, ReviewComment, ReviewCommentId, ReviewDraft};

fn comment(path: &str, line: u32, text: &str) -> ReviewComment {
    ReviewComment {
        path: path.into(),
        side: DiffSide::New,
        first_line: line,
        last_line: line,
        blob: "3f2a1c9".into(),
        quote: format!("line {line}"),
        text: text.into(),
    }
}

/// A task of w1 in review.
fn in_review() -> Model {
    let mut model = Model::new(Policy::default());
    for (who, line) in [("ana", "create A"), ("w1", "begin A as=s"), ("w1", "ask A")] {
        let command = model.command(line);
        model.act(who, &command).expect("accepted");
    }
    model
}

fn draft(model: &mut Model, author: &str, number: u128, comment: ReviewComment) {
    let (id, at) = (ReviewCommentId(Id(number)), model.now);
    let (task, author) = (task_named("A"), actor(author));
    let draft = ReviewDraft { id, task, author, comment, created_at: at, updated_at: at };
    model.rows.drafts.insert(id, draft);
}

fn reject(sends: ReviewSends) -> Command {
    Command::ReviewDecide(ReviewDecide {
        task: task_named("A"),
        verdict: ReviewVerdict::Reject { to: Phase::Working },
        feedback: "Nearly.".into(),
        checked: None,
        work: None,
        sends,
        seen: Default::default(),
    })
}

fn drafts() -> ReviewSends {
    ReviewSends { drafts: true, ..ReviewSends::default() }
}

/// The text of the review, its round, and the author of each draft that is left.
fn after(model: &Model) -> (String, u32, Vec<String>) {
    let review = model.rows.tasks[&task_named("A")].card.review.clone().expect("a review");
    let left = model.rows.drafts.values().map(|draft| draft.author.to_string()).collect();
    (review.feedback.unwrap_or_default(), review.rounds, left)
}

#[test]
fn a_rejection_sends_the_comments_that_it_names() {
    let two = "1. a.rs:2\n\n    line 2\n\nfirst\n\n2. a.rs:9\n\n    line 9\n\nsecond";
    let given = vec![(ReviewCommentId(Id(9)), comment("b.rs", 1, "given"))];
    let head = Some("abcd".to_owned());
    for (sends, text, sent, left) in [
        (
            ReviewSends::default(),
            "Nearly.".to_owned(),
            0,
            vec!["human:ana", "human:ana", "agent:w2"],
        ),
        (drafts(), format!("Nearly.\n\n{two}"), 2, vec!["agent:w2"]),
        (
            ReviewSends { comments: given.clone(), head: head.clone(), ..drafts() },
            format!(
                "Nearly.\n\n{two}\n\n3. b.rs:1\n\n    line 1\n\ngiven\n\n\
                 The review is about commit abcd."
            ),
            3,
            vec!["agent:w2"],
        ),
        (
            ReviewSends { comments: given, ..ReviewSends::default() },
            "Nearly.\n\n1. b.rs:1\n\n    line 1\n\ngiven".to_owned(),
            1,
            vec!["human:ana", "human:ana", "agent:w2"],
        ),
    ] {
        let mut model = in_review();
        draft(&mut model, "ana", 1, comment("a.rs", 9, "second"));
        draft(&mut model, "ana", 2, comment("a.rs", 2, "first"));
        draft(&mut model, "w2", 3, comment("a.rs", 5, "of another reviewer"));
        let change = model.act("ana", &reject(sends.clone())).expect("accepted");
        let left = left.into_iter().map(str::to_owned).collect();
        assert_eq!(after(&model), (text.clone(), 1, left));
        let entry = format!("rejected({text})");
        assert_eq!(model.entries_of("A").last(), Some(&entry));
        assert_eq!(change.events[0].data["comments"].as_u64().unwrap_or_default(), sent);
        let rows = &model.touched.comments_sent;
        assert_eq!(rows.len() as u64, sent);
        for row in rows {
            assert_eq!((row.round, &row.author, &row.head), (1, &actor("ana"), &sends.head));
        }
        assert_eq!(model.summary("A"), "in_progress w1");
    }
}

#[test]
fn rounds_count_rejections_through_new_requests() {
    let mut model = in_review();
    for round in 1..=3 {
        draft(&mut model, "ana", round, comment("a.rs", 1, "again"));
        model.act("ana", &reject(drafts())).expect("accepted");
        assert_eq!(after(&model).1, round as u32);
        let ask = model.command("ask A");
        model.act("w1", &ask).expect("accepted");
        assert_eq!(after(&model), (String::new(), round as u32, Vec::new()));
    }
    let rounds: Vec<u32> = model.touched.comments_sent.iter().map(|sent| sent.round).collect();
    assert_eq!(rounds, [1, 2, 3]);
}

#[test]
fn a_refused_rejection_leaves_the_drafts() {
    let many = |count: usize, text: &str| -> Vec<(ReviewCommentId, ReviewComment)> {
        (0..count as u128)
            .map(|n| (ReviewCommentId(Id(100 + n)), comment("b.rs", 1, text)))
            .collect()
    };
    let long = "x".repeat(REVIEW_TEXT_BYTES_MAX);
    for (sends, field) in [
        (ReviewSends { comments: many(1, " "), ..drafts() }, "text"),
        (ReviewSends { comments: many(REVIEW_DRAFTS_MAX, "y"), ..drafts() }, "comments"),
        (ReviewSends { comments: many(17, &long), ..drafts() }, "comments"),
        (ReviewSends { head: Some("HEAD~1".into()), ..drafts() }, "head"),
    ] {
        let mut model = in_review();
        draft(&mut model, "ana", 1, comment("a.rs", 9, "kept"));
        match model.act("ana", &reject(sends)) {
            Err(Refusal::InvalidInput { field: Some(named), .. }) => assert_eq!(named, field),
            other => panic!("{field}: {other:?}"),
        }
        assert_eq!(model.rows.drafts.len(), 1);
        assert_eq!(model.summary("A"), "in_review w1");
    }
}

#[test]
fn the_second_of_two_reviewers_is_refused_and_keeps_the_drafts() {
    let mut model = in_review();
    draft(&mut model, "ana", 1, comment("a.rs", 9, "kept"));
    model.act("w2", &reject(ReviewSends::default())).expect("accepted");
    let refused = model.act("ana", &reject(drafts())).expect_err("it is decided");
    assert_eq!(refused.code(), "REVIEW_NOT_READY");
    assert_eq!(after(&model), ("Nearly.".into(), 1, vec!["human:ana".into()]));
    assert!(model.touched.comments_sent.is_empty());
    let review = model.rows.tasks[&task_named("A")].card.review.clone().expect("a review");
    assert_eq!((review.state, review.by), (ReviewState::Rejected, actor("w2")));
}

#[test]
fn drafts_go_with_their_task() {
    let mut model = in_review();
    draft(&mut model, "ana", 1, comment("a.rs", 9, "gone"));
    let remove = model.command("discard A");
    model.act("ana", &remove).expect("accepted");
    assert!(model.rows.drafts.is_empty());
    assert!(model.touched.reviews_gone.contains(&task_named("A")));
}
