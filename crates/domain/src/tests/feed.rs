//! The feed of a task as tables: which events belong to which part, their words, and which letters are the task's.

use serde_json::{Value, json};

use super::crew_runs::record;
use crate::board::feed::{FeedLine, FeedShow, FeedWords, feed_lines, is_letter_of};
use crate::crew::{AgentId, Mail, MailId};
use crate::event::{EventName, LoggedEvent};
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::runs::job::JobState;
use crate::runs::run::Question;
use crate::task::Entry;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::task::comment::{Comment, CommentId, CommentKind};
use crate::time::Timestamp;

fn event(seq: u64, at_s: i64, who: &str, name: EventName, data: Value) -> LoggedEvent {
    let at = Timestamp(at_s * 1_000_000);
    LoggedEvent { seq, at, actor: who.parse().expect("an actor"), name, about: None, data }
}

fn shown(line: &FeedLine) -> String {
    let said = line.said.as_ref().map(|said| format!(" | {said}")).unwrap_or_default();
    let (sign, tone) = (line.sign.as_str(), line.tone.as_str());
    format!("{} {sign} {tone}: {} {}{said}", line.seq, line.who, line.words)
}

#[test]
fn every_event_has_its_part_and_words() {
    for name in EventName::ALL {
        let of = |show: FeedShow| show.names().contains(name);
        let parts = [FeedShow::Notes, FeedShow::Mail, FeedShow::Events].map(of);
        let count = parts.iter().filter(|has| **has).count();
        assert!(count <= 1, "{name:?} is in several parts");
        assert!(!of(FeedShow::All) || count == 1, "{name:?} is in no part of its own");
        let data = json!({"text": "words"});
        let lines = feed_lines(&[event(1, 0, "agent:w1", *name, data)], FeedWords::default());
        assert!(lines.iter().all(|line| !line.words.is_empty()), "{name:?}");
    }
    assert!(FeedShow::Notes.names().contains(&EventName::TaskNoted));
    assert!(FeedShow::Mail.names().contains(&EventName::TaskTold));
    assert!(FeedShow::Events.names().contains(&EventName::JobTaken));
    assert!(!FeedShow::All.names().contains(&EventName::JobTaken), "a step of the server's work");
}

#[test]
fn lines_say_what_happened_on_the_page_of_the_task() {
    let w1 = "agent:w1";
    for (name, data, line) in [
        (EventName::TaskCreated, json!({"title": "A"}), "actor plain: agent:w1 made the task"),
        (
            EventName::TaskUpdated,
            json!({"fields": ["title", "checks"]}),
            "actor plain: agent:w1 edited title, checks",
        ),
        (EventName::TaskClaimed, json!({"assignee": w1}), "actor plain: agent:w1 claimed it"),
        (
            EventName::TaskClaimed,
            json!({"assignee": "agent:w2"}),
            "actor plain: agent:w1 gave it to w2",
        ),
        (EventName::TaskNoted, json!({"text": "hm"}), "actor plain: agent:w1 wrote a note | hm"),
        (
            EventName::CheckRan,
            json!({"index": 1, "result": "fail", "took_ms": 19_000}),
            "failed failed: agent:w1 ran check 2: it failed after 19 s",
        ),
        (
            EventName::CheckAttested,
            json!({"index": 0, "result": "pass"}),
            "passed proved: agent:w1 looked at check 1: it passed",
        ),
        (
            EventName::AttemptExpired,
            json!({"holder": "agent:w2"}),
            "expired late: agent:w1 took it from w2: the lease ran out",
        ),
        (
            EventName::AttemptHeartbeat,
            json!({"progress": "tests run"}),
            "actor plain: agent:w1 says | tests run",
        ),
        (EventName::JobSucceeded, json!({}), "actor plain: agent:w1 started the agent"),
        (
            EventName::JobSucceeded,
            json!({"finished_at": 7}),
            "actor plain: agent:w1 finished a run",
        ),
        (
            EventName::JobSucceeded,
            json!({"kind": "stop"}),
            "actor plain: agent:w1 stopped its agent",
        ),
        (
            EventName::ReviewRejected,
            json!({"comments": 2}),
            "actor plain: agent:w1 sent it back with 2 comments",
        ),
        (
            EventName::ReviewFailed,
            json!({"action": "merge", "files": 2}),
            "failed failed: agent:w1 could not merge it: 2 files conflict",
        ),
        (
            EventName::ReviewMerged,
            json!({"commit": "0123456789abcdef"}),
            "merged proved: agent:w1 merged it as 0123456",
        ),
        (
            EventName::CallRefused,
            json!({"tool": "finish", "code": "STALE_FENCE"}),
            "refused failed: agent:w1 was refused finish: STALE_FENCE",
        ),
    ] {
        let lines = feed_lines(&[event(7, 0, w1, name, data)], FeedWords::default());
        assert_eq!(lines.iter().map(shown).collect::<Vec<_>>(), [format!("7 {line}")], "{name:?}");
    }
}

#[test]
fn a_change_is_one_line_and_a_silent_heartbeat_none() {
    let events = [
        event(9, 3, "agent:w2", EventName::AttemptHeartbeat, json!({})),
        event(8, 2, "agent:w2", EventName::TaskNoted, json!({"text": "b"})),
        event(7, 1, "agent:w1", EventName::AttemptStarted, json!({"fence": 2})),
        event(6, 1, "agent:w1", EventName::TaskClaimed, json!({"assignee": "agent:w1"})),
        event(5, 1, "human:ana", EventName::TaskNoted, json!({"text": "a"})),
    ];
    let lines: Vec<String> = feed_lines(&events, FeedWords::default()).iter().map(shown).collect();
    assert_eq!(
        lines,
        [
            "8 actor plain: agent:w2 wrote a note | b",
            "6 actor plain: agent:w1 claimed it, began attempt 2",
            "5 actor plain: human:ana wrote a note | a",
        ]
    );
}

#[test]
fn words_of_comments_and_of_the_history_stand_under_their_events() {
    let task = TaskId { id: Id(1), prefix: Prefix::parse("SHOP").expect("a prefix") };
    let comment = CommentId(Id(5));
    let at = Timestamp(2_000_000);
    let who = || "agent:w1".parse().expect("an actor");
    let comments = [Comment {
        id: comment,
        task,
        kind: CommentKind::Blocker,
        body: "no key".into(),
        rationale: None,
        parent: None,
        author: who(),
        created_at: at,
        resolved: None,
    }];
    let history =
        [Entry { who: who(), at, did: "finished".into(), text: Some("all of it".into()) }];
    let data = json!({"comment": comment.to_string(), "kind": "blocker"});
    let events = [
        event(3, 2, "agent:w1", EventName::AttemptEnded, json!({"how": "finished"})),
        event(2, 1, "agent:w1", EventName::CommentAdded, data),
        event(1, 1, "agent:w2", EventName::AttemptEnded, json!({"how": "released"})),
    ];
    let words = FeedWords { history: &history, comments: &comments, runs: &[] };
    let lines: Vec<String> = feed_lines(&events, words).iter().map(shown).collect();
    assert_eq!(
        lines,
        [
            "3 actor plain: agent:w1 finished the attempt | all of it",
            "2 actor plain: agent:w1 commented: a blocker | no key",
            "1 actor plain: agent:w2 ended the attempt: released",
        ]
    );
}

#[test]
fn a_question_has_its_text_and_its_command() {
    let mut run = record(JobState::Canceled { at: Timestamp(0) }, false);
    let asks = |number, text: &str, command: Option<&str>| {
        let command = command.map(str::to_owned);
        Some(Question { number, text: text.into(), command, answer: None })
    };
    let data = json!({"job": run.job.id.to_string(), "question": 2});
    let event = event(1, 0, "runner:m1", EventName::JobAsked, data);
    for (question, said) in [
        (asks(2, "Push the tag", Some("git push")), Some("Push the tag: `git push`")),
        (asks(2, "May I run git push?", Some("git push")), Some("May I run git push?")),
        (asks(2, "Which colour?", None), Some("Which colour?")),
        (asks(3, "A later one", None), None),
        (None, None),
    ] {
        run.run.question = question;
        let runs = [run.clone()];
        let words = FeedWords { runs: &runs, ..FeedWords::default() };
        let lines = feed_lines(std::slice::from_ref(&event), words);
        assert_eq!(lines[0].said.as_deref(), said);
    }
}

#[test]
fn letters_belong_to_a_task_while_its_worker_holds_it() {
    let task = TaskId { id: Id(1), prefix: Prefix::parse("SHOP").expect("a prefix") };
    let attempt = |worker: &str, from: i64, until: Option<i64>| Attempt {
        id: AttemptId(Id(1)),
        task,
        kind: AttemptKind::Crew,
        fence: 1,
        actor: worker.parse().expect("an actor"),
        key: None,
        client: None,
        model: None,
        worktree: None,
        branch: None,
        head_started: None,
        started_at: Timestamp(from),
        state: match until {
            Some(at) => AttemptState::Ended { at: Timestamp(at), end: AttemptEnd::Released },
            None => {
                AttemptState::Live { heartbeat_at: Timestamp(from), progress: None, lease: None }
            }
        },
    };
    let attempts = [attempt("agent:w1", 10, Some(20)), attempt("agent:w2", 30, None)];
    for (from, to, at, wanted) in [
        (Some("w1"), None, 15, true),
        (None, Some("w1"), 20, true),
        (None, Some("w1"), 21, false),
        (Some("w1"), None, 9, false),
        (Some("w2"), Some("w1"), 25, false),
        (Some("lead"), Some("w2"), 1_000, true),
        (Some("lead"), None, 15, false),
        (None, None, 15, false),
    ] {
        let agent = |name: &str| AgentId::parse(name).expect("an id");
        let mail = Mail {
            id: MailId(Id(1)),
            from: from.map(agent),
            to: to.map(agent),
            subject: String::new(),
            body: String::new(),
            in_reply_to: None,
            created_at: Timestamp(at),
            read_at: None,
        };
        assert_eq!(is_letter_of(&mail, &attempts), wanted, "{from:?} to {to:?} at {at}");
    }
}
