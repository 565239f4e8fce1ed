//! Rules that a use case asks beside `decide`, as tables: reads that find nothing, goals of a wait, repeated calls, and
//! who or what is missing.

use super::model::actor;
use crate::board::plan::PlanId;
use crate::crew::{AgentId, MailId, merge};
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::policy::{DEFAULT_STATUSES, Phase, Policy, parse_labels};
use crate::refusal::Refusal;
use crate::refusal::found::{AsEpic, AsParent, OrNotFound as _, ProjectRow, Sought};
use crate::relay::Problem;
use crate::retry::judge_first;
use crate::rights::judge_one_client;
use crate::runs::job::JobId;
use crate::runs::work::{judge_executor, judge_running};
use crate::task::comment::CommentId;
use crate::task::goal::Goal;

fn task() -> TaskId {
    TaskId { id: Id(1), prefix: Prefix::fallback() }
}

/// `ok`, or the code of the refusal with its words.
fn said<T>(judged: Result<T, Refusal>) -> String {
    let words = |refusal: Refusal| format!("{}: {}", refusal.code(), refusal.message());
    judged.err().map_or("ok".into(), words)
}

#[test]
fn a_read_that_finds_nothing_is_refused_by_the_kind_of_its_id() {
    fn nothing(id: &impl Sought) -> String {
        assert_eq!(Some(7).or_not_found(id), Ok(7));
        said(None::<u8>.or_not_found(id))
    }
    let agent = AgentId::parse("w1").expect("an agent's id");
    let (it, task, id) = (task(), task().to_string(), Id(1));
    for (found, expected) in [
        (nothing(&it), format!("TASK_NOT_FOUND: task not found: {task}")),
        (nothing(&AsParent(it)), format!("TASK_NOT_FOUND: task not found: {task}")),
        (nothing(&AsEpic(it)), format!("EPIC_NOT_FOUND: Epic with ID '{task}' not found")),
        (nothing(&AttemptId(id)), format!("SESSION_NOT_FOUND: session not found: ses_{id}")),
        (
            nothing(&CommentId(id)),
            format!("COMMENT_NOT_FOUND: comment not found: {}", CommentId(id)),
        ),
        (nothing(&PlanId(id)), format!("PLAN_NOT_FOUND: plan not found: {}", PlanId(id))),
        (nothing(&ProjectRow(7)), "PROJECT_NOT_FOUND: project not found: prj_7".into()),
        (nothing(&JobId(id)), format!("JOB_NOT_FOUND: job not found: {}", JobId(id))),
        (nothing(&agent), "AGENT_NOT_FOUND: Agent with ID 'w1' not found".into()),
        (nothing(&MailId(id)), format!("MAIL_NOT_FOUND: Mail with ID '{}' not found", MailId(id))),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_goal_is_a_label_a_phase_closed_or_ready() {
    let policy = Policy::default();
    let own = format!("{DEFAULT_STATUSES}, Ready:review");
    let own = Policy::with_labels(parse_labels(&own).expect("labels")).expect("a policy");
    let label = |name: &str| Some(Goal::Label(name.into()));
    for (policy, word, goal) in [
        (&policy, "in_review", label("in_review")),
        (&policy, "In Review", label("in_review")),
        (&policy, "working", Some(Goal::Phase(Phase::Working))),
        (&policy, "closed-done", Some(Goal::Phase(Phase::ClosedDone))),
        (&policy, "Closed", Some(Goal::Closed)),
        (&policy, " ready ", Some(Goal::Ready)),
        (&own, "ready", label("Ready")),
        (&policy, "finished", None),
        (&policy, "", None),
    ] {
        let read = Goal::read_all(&["done".into(), word.into()], policy);
        assert_eq!(read.as_ref().ok().and_then(|goals| goals.get(1)), goal.as_ref(), "{word}");
        if let Err(refusal) = read {
            assert_eq!(refusal.code(), "UNKNOWN_STATE", "{word}");
        }
    }
    let Err(Refusal::UnknownState { given, known }) = Goal::read_all(&["x".into()], &policy) else {
        panic!("x is no goal");
    };
    let words = "backlog in_progress in_review done canceled initial working review closed_done \
                 closed_canceled closed ready";
    assert_eq!((given.as_str(), known.join(" ").as_str()), ("x", words));
}

#[test]
fn what_is_missing_is_refused() {
    let problem = |path: &str| Problem { path: path.into(), problem: "no".into() };
    let here = || vec!["claude".to_owned(), "codex".to_owned()];
    let bot = actor("bot");
    for (judged, expected) in [
        (judge_first(false, "create"), "ok"),
        (judge_first(true, "create"), "ANSWER_NOT_KEPT"),
        (judge_one_client(false, "begin", &bot), "ok"),
        (judge_one_client(true, "begin", &bot), "AUTHORIZATION_DENIED"),
        (judge_executor("codex".into(), here()), "ok"),
        (judge_executor("Codex".into(), here()), "EXECUTOR_NOT_FOUND"),
        (judge_executor("codex".into(), Vec::new()), "EXECUTOR_NOT_FOUND"),
        (judge_running(task(), true), "ok"),
        (judge_running(task(), false), "NOT_RUNNING"),
        (Problem::judge(Vec::new()), "ok"),
        (Problem::judge(vec![problem("repo.path")]), "INVALID_SPEC"),
        (Err(merge::conflict(task(), vec!["a.rs".into()])), "MERGE_CONFLICT"),
    ] {
        let code = judged.as_ref().err().map_or("ok", Refusal::code);
        assert_eq!(code, expected, "{judged:?}");
    }
    let all = Problem::judge(vec![problem("repo.path"), problem("scope")]);
    let Err(Refusal::InvalidSpec { problems }) = all else { panic!("two problems are refused") };
    assert_eq!(problems.len(), 2, "a client hears of all problems at once");
}
