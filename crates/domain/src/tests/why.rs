//! The why-line as a table: each row changes some facts of a task and shows its line.

use crate::board::card::ReviewState;
use crate::board::column::{OpenDep, OpenDepState};
use crate::board::why::{
    Why, WhyAttempt, WhyChecks, WhyFacts, WhyOutlook, WhyPart, WhyQuestion, WhyReview,
    WhyVerification, why,
};
use crate::ids::{Prefix, TaskName};
use crate::policy::Phase;

type Change = fn(&mut WhyFacts);

/// The facts that change, the tone, the glyph, and the line; `[]` are around references, backquotes around code.
const TABLE: &[(Change, &str)] = &[
    // Not begun.
    (|_| {}, "plain free: Free to take"),
    (|f| f.queue_place = Some(1), "plain next: Next in the queue"),
    (
        |f| (f.queue_place, f.places_taken) = (Some(1), Some(4)),
        "plain next: Next in the queue. All 4 places for agents are taken",
    ),
    (
        |f| (f.queue_place, f.places_taken) = (Some(1), Some(1)),
        "plain next: Next in the queue. The only place for agents is taken",
    ),
    (|f| f.queue_place = Some(3), "plain free: Free. Place 3 in the queue"),
    (
        |f| (f.attempt, f.queue_place) = (WhyAttempt::Expired, Some(2)),
        "plain free: Free since its last lease ran out",
    ),
    (
        |f| (f.attempt, f.queue_place) = (WhyAttempt::Expired, Some(1)),
        "plain next: Next in the queue",
    ),
    (|f| f.attempt = released(), "plain free: Free since claude-1 let go"),
    (|f| f.attempt = canceled(), "plain free: Free. claude-1 gave up: no key"),
    (|f| f.review = review(ReviewState::Rejected, false), "plain free: Free. Sent back by jo"),
    (|f| f.review = review(ReviewState::Rejected, true), "plain free: Free to take"),
    (|f| f.holder = agent(), "plain held: Claimed by claude-1, not begun"),
    (
        |f| (f.holder, f.attempt) = (agent(), live(Some(540), Some(48), None)),
        "late silent: Silent for 9 min. Lease ends in 48 s, then free again",
    ),
    (
        |f| (f.holder, f.attempt) = (agent(), live(None, Some(900), None)),
        "plain held: Claimed by claude-1, not begun",
    ),
    // In the way.
    (|f| waits(f, &[(3, OpenDepState::Waiting)], 1), "plain waits: Waits for [SHOP-3]"),
    (|f| waits(f, &[(3, OpenDepState::Working)], 1), "now waits: Waits for [SHOP-3]"),
    (
        |f| waits(f, &[(3, OpenDepState::Silent)], 1),
        "late silent: Waits for [SHOP-3], whose agent is silent",
    ),
    (
        |f| waits(f, &[(3, OpenDepState::Review)], 1),
        "person review: Waits for the review of [SHOP-3]",
    ),
    (
        |f| waits(f, &[(3, OpenDepState::Silent), (4, OpenDepState::Review)], 2),
        "late silent: Waits for [SHOP-3], whose agent is silent, and the review of [SHOP-4]",
    ),
    (
        |f| waits(f, &[(3, OpenDepState::Asks)], 1),
        "person asks: Waits for [SHOP-3], which asks you",
    ),
    (
        |f| waits(f, &[(3, OpenDepState::Waiting), (4, OpenDepState::Asks)], 5),
        "person asks: Waits for [SHOP-3], [SHOP-4], which asks you, and 3 more",
    ),
    (
        |f| waits(f, &[(3, OpenDepState::Waiting), (4, OpenDepState::Working)], 7),
        "now waits: Waits for [SHOP-3], [SHOP-4] and 5 more",
    ),
    (|f| waits(f, &[], 1), "plain waits: Waits for 1 task"),
    (|f| waits(f, &[], 4), "plain waits: Waits for 4 tasks"),
    (
        |f| f.blockers = 1,
        "person stuck: 1 blocker comment is open. Resolve it to let the task start",
    ),
    (
        |f| f.blockers = 2,
        "person stuck: 2 blocker comments are open. Resolve them to let the task start",
    ),
    (
        |f| {
            f.blockers = 1;
            waits(f, &[(3, OpenDepState::Waiting)], 1);
        },
        "plain waits: Waits for [SHOP-3]",
    ),
    (|f| f.blocked = blocked(), "person stuck: Blocked: no key"),
    (
        |f| {
            f.blocked = blocked();
            waits(f, &[(3, OpenDepState::Waiting)], 1);
        },
        "person stuck: Blocked: no key",
    ),
    // Working.
    (|f| f.phase = Phase::Working, "late free: Nobody holds it. Free to take"),
    (
        |f| (f.phase, f.attempt) = (Phase::Working, WhyAttempt::Expired),
        "plain free: Free since its last lease ran out",
    ),
    (
        |f| {
            (f.phase, f.attempt) = (Phase::Working, WhyAttempt::Finished);
            f.review = review(ReviewState::Rejected, false);
        },
        "plain free: Free. Sent back by jo",
    ),
    (|f| (f.phase, f.holder) = (Phase::Working, agent()), "now works: claude-1 works on it"),
    (|f| works(f, live(None, Some(900), None)), "now works: claude-1 works on it"),
    (|f| works(f, live(None, Some(900), Some(" "))), "now works: claude-1 works on it"),
    (
        |f| works(f, live(None, None, Some("wrote 3 tests\nfor jitter"))),
        "now says: “wrote 3 tests for jitter”",
    ),
    (
        |f| works(f, live(Some(540), Some(48), Some("wrote"))),
        "late silent: Silent for 9 min. Lease ends in 48 s, then free again",
    ),
    (
        |f| works(f, live(Some(7200), None, None)),
        "late silent: Silent for 2 h. claude-1 still holds it, without a lease",
    ),
    (
        |f| {
            works(f, live(None, Some(900), Some("wrote")));
            f.checks = fails(1);
        },
        "failed fails: `cargo test` failed",
    ),
    (
        |f| {
            works(f, live(None, None, None));
            f.checks = fails(2);
        },
        "failed fails: `cargo test` failed, and 1 more check",
    ),
    (
        |f| {
            works(f, live(None, None, None));
            f.checks = fails(3);
        },
        "failed fails: `cargo test` failed, and 2 more checks",
    ),
    (
        |f| {
            works(f, live(None, None, None));
            waits(f, &[(3, OpenDepState::Waiting)], 1);
        },
        "plain waits: Waits for [SHOP-3]",
    ),
    (
        |f| {
            works(f, live(Some(540), Some(48), None));
            f.question = question(Some("npm install"), Some(180));
        },
        "person asks: Asks: may it run `npm install`? Refused in 3 min",
    ),
    (
        |f| {
            works(f, live(None, None, None));
            f.question = question(None, None);
        },
        "person asks: Asks: which zone?",
    ),
    (
        |f| {
            works(f, live(None, None, None));
            f.blocked = blocked();
        },
        "person stuck: Blocked: no key",
    ),
    // In review.
    (|f| f.phase = Phase::Review, "person review: Your review"),
    (
        |f| (f.phase, f.checks.for_person) = (Phase::Review, 1),
        "person review: Your review. 1 check is for a person",
    ),
    (
        |f| (f.phase, f.checks.for_person) = (Phase::Review, 2),
        "person review: Your review. 2 checks are for a person",
    ),
    (
        |f| {
            (f.phase, f.checks.for_person) = (Phase::Review, 1);
            f.outlook = outlook(Some("main"), 0, 2);
        },
        "person review: Your review. 1 check is for a person; 2 behind main",
    ),
    (
        |f| (f.phase, f.review) = (Phase::Review, review(ReviewState::Requested, false)),
        "person review: Your review",
    ),
    (
        |f| (f.phase, f.review) = (Phase::Review, review(ReviewState::Approved, true)),
        "person review: Your review. An agent advises to approve",
    ),
    (
        |f| (f.phase, f.review) = (Phase::Review, review(ReviewState::Rejected, true)),
        "person review: Your review. An agent advises to send back",
    ),
    (
        |f| (f.phase, f.review) = (Phase::Review, review(ReviewState::Approved, false)),
        "proved merge: Approved by jo. Merge when ready",
    ),
    (
        |f| {
            (f.phase, f.review) = (Phase::Review, review(ReviewState::Approved, false));
            f.outlook = outlook(Some("main"), 0, 0);
        },
        "proved merge: Approved by jo. Merge when ready; no conflicts",
    ),
    (
        |f| {
            (f.phase, f.review) = (Phase::Review, review(ReviewState::Approved, false));
            f.outlook = outlook(None, 0, 1);
        },
        "proved merge: Approved by jo. Merge when ready; 1 behind the target",
    ),
    (
        |f| (f.phase, f.outlook) = (Phase::Review, outlook(Some("main"), 2, 1)),
        "failed conflict: Conflicts with main in 2 files. Rebase, or send back",
    ),
    (
        |f| {
            (f.phase, f.outlook) = (Phase::Review, outlook(None, 1, 0));
            f.review = review(ReviewState::Approved, false);
        },
        "failed conflict: Conflicts with the target in 1 file. Rebase, or send back",
    ),
    (
        |f| (f.phase, f.verification) = (Phase::Review, WhyVerification::Failed),
        "failed fails: Verification failed",
    ),
    (
        |f| (f.phase, f.verification) = (Phase::Review, WhyVerification::Judging),
        "now works: The server verifies the work",
    ),
    (
        |f| {
            (f.phase, f.checks) = (Phase::Review, fails(1));
            f.review = review(ReviewState::Approved, false);
        },
        "failed fails: `cargo test` failed",
    ),
    (
        |f| (f.phase, f.question) = (Phase::Review, question(Some("ls"), None)),
        "person asks: Asks: may it run `ls`?",
    ),
    // Closed.
    (|f| f.phase = Phase::ClosedDone, "proved done: Done"),
    (
        |f| {
            (f.phase, f.review) = (Phase::ClosedDone, review(ReviewState::Approved, false));
            f.review.as_mut().expect("a review").is_merged = true;
        },
        "proved done: Done and merged",
    ),
    (|f| (f.phase, f.question) = (Phase::ClosedDone, question(None, None)), "proved done: Done"),
    (|f| f.phase = Phase::ClosedCanceled, "plain canceled: Canceled"),
    (
        |f| (f.phase, f.given_up) = (Phase::ClosedCanceled, Some("too slow".into())),
        "plain canceled: Given up: too slow",
    ),
];

fn facts() -> WhyFacts {
    WhyFacts {
        phase: Phase::Initial,
        holder: None,
        attempt: WhyAttempt::None,
        question: None,
        deps: Vec::new(),
        deps_open: 0,
        blocked: None,
        blockers: 0,
        checks: WhyChecks::default(),
        review: None,
        verification: WhyVerification::None,
        outlook: None,
        queue_place: None,
        places_taken: None,
        given_up: None,
    }
}

fn agent() -> Option<crate::actor::Actor> {
    Some("agent:claude-1".parse().expect("an actor"))
}

fn live(silent_s: Option<i64>, lease_s: Option<i64>, progress: Option<&str>) -> WhyAttempt {
    WhyAttempt::Live {
        silent_ms: silent_s.map(|s| s * 1000),
        lease_left_ms: lease_s.map(|s| s * 1000),
        progress: progress.map(Into::into),
    }
}

fn released() -> WhyAttempt {
    WhyAttempt::Released { by: agent().expect("an actor") }
}

fn canceled() -> WhyAttempt {
    WhyAttempt::Canceled { by: agent().expect("an actor"), reason: "no key".into() }
}

fn blocked() -> Option<String> {
    Some("no key".into())
}

fn works(f: &mut WhyFacts, attempt: WhyAttempt) {
    (f.phase, f.holder, f.attempt) = (Phase::Working, agent(), attempt);
}

fn waits(f: &mut WhyFacts, deps: &[(u32, OpenDepState)], open: usize) {
    let prefix = Prefix::parse("SHOP").expect("a prefix");
    let dep = |(number, state): &(u32, OpenDepState)| OpenDep {
        name: TaskName { prefix, number: *number },
        title: "Other".into(),
        state: *state,
    };
    (f.deps, f.deps_open) = (deps.iter().map(dep).collect(), open);
}

fn fails(failed: usize) -> WhyChecks {
    WhyChecks { failing: Some("cargo test".into()), failed, for_person: 0 }
}

fn question(command: Option<&str>, left_s: Option<i64>) -> Option<WhyQuestion> {
    Some(WhyQuestion {
        text: "which zone?".into(),
        command: command.map(Into::into),
        left_ms: left_s.map(|s| s * 1000),
    })
}

fn review(state: ReviewState, is_advice: bool) -> Option<WhyReview> {
    let by = "human:jo".parse().expect("an actor");
    Some(WhyReview { state, by, is_advice, is_merged: false })
}

fn outlook(target: Option<&str>, conflicts: usize, behind: u64) -> Option<WhyOutlook> {
    Some(WhyOutlook { target: target.map(Into::into), conflicts, behind })
}

fn shown(line: &Why) -> String {
    let part = |part: &WhyPart| match part {
        WhyPart::Text(text) => text.clone(),
        WhyPart::Task(name) => format!("[{name}]"),
        WhyPart::Code(code) => format!("`{code}`"),
    };
    let words: String = line.words.iter().map(part).collect();
    format!("{} {}: {words}", line.tone.as_str(), line.glyph.as_str())
}

#[test]
fn every_task_says_why_it_stands_where_it_stands() {
    for (change, expected) in TABLE {
        let mut facts = facts();
        change(&mut facts);
        assert_eq!(shown(&why(&facts)), *expected);
    }
}

/// Two lines of a card have room for about 100 characters.
#[test]
fn words_of_actors_are_cut_to_one_line() {
    let long = format!("{}\u{1b}[31m", "many words ".repeat(50));
    let mut facts = facts();
    works(&mut facts, live(None, None, Some(&long)));
    let mut lines = vec![why(&facts)];
    facts.blocked = Some(long.clone());
    lines.push(why(&facts));
    facts.question = question(Some(&long), Some(60));
    lines.push(why(&facts));
    for line in lines {
        let text = line.line();
        assert!(text.chars().count() <= 100, "{text}");
        assert!(text.contains('…') && !text.contains(char::is_control), "{text}");
    }
}
