//! What each command requires of its caller: profile, scope for commands, task.

use crate::board::card::Card;
use crate::board::plan::PlanId;
use crate::command::{
    AgentAdd, Command, NewCheck, PlanApprove, PlanPropose, Reach, TaskCreate, TaskEdit, TaskUpdate,
};
use crate::crew::AgentId;
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::policy::Phase;
use crate::rights::{AgentType, Lane, Profile, Rights, Scope};
use crate::runs::job::JobId;
use crate::task::comment::CommentId;

fn task(number: u128) -> TaskId {
    TaskId { id: Id(number), prefix: Prefix::fallback() }
}

fn check(cmd: Option<&str>) -> NewCheck {
    NewCheck { desc: "tests".into(), cmd: cmd.map(str::to_owned), ..NewCheck::default() }
}

fn create(cmd: Option<&str>) -> TaskCreate {
    TaskCreate {
        task: task(9),
        project: 1,
        reference: None,
        title: "New".into(),
        body: String::new(),
        priority: 5,
        parent: None,
        deps: Vec::new(),
        checks: vec![check(None), check(cmd)],
        verification: None,
        execution_contract: None,
        over_quota: None,
        card: Box::new(Card::default()),
        phase: Phase::Initial,
        is_plan: false,
        notes: Vec::new(),
    }
}

fn edit(checks: Option<Vec<NewCheck>>) -> Command {
    let (title, body, priority) = (None, None, None);
    Command::TaskEdit(TaskEdit { task: task(1), title, body, priority, checks })
}

fn update(checks: Option<Vec<NewCheck>>) -> Command {
    let (author, title, deps) = (None, None, None);
    Command::TaskUpdate(TaskUpdate { task: task(1), author, title, deps, checks })
}

fn propose() -> Command {
    let (tasks, todos) = (Vec::new(), Vec::new());
    Command::PlanPropose(PlanPropose { plan: PlanId(Id(1)), tasks, todos })
}

fn agent(or_keep: bool) -> Command {
    let (agent, kind) = (AgentId::of(&"agent:w1".parse().expect("an actor")), AgentType::Worker);
    Command::AgentAdd(AgentAdd { agent, kind, epic: None, task: None, or_keep, workers_max: None })
}

#[test]
fn a_command_in_a_check_needs_the_scope_for_commands() {
    let (manual, shell) = (|| vec![check(None)], || vec![check(None), check(Some("make"))]);
    let narrow = Rights { scopes: vec![Scope::TasksRead, Scope::TasksWrite], ..Rights::default() };
    for (name, command, writes) in [
        ("create, manual", Command::TaskCreate(create(None)), false),
        ("create, command", Command::TaskCreate(create(Some("make"))), true),
        ("create all", Command::TaskCreateAll(vec![create(None), create(Some("make"))]), true),
        ("create all, manual", Command::TaskCreateAll(vec![create(None)]), false),
        ("edit, untouched", edit(None), false),
        ("edit, manual", edit(Some(manual())), false),
        ("edit, command", edit(Some(shell())), true),
        ("update, untouched", update(None), false),
        ("update, manual", update(Some(manual())), false),
        ("update, command", update(Some(shell())), true),
        ("claim", Command::TaskClaim { task: task(1) }, false),
    ] {
        assert_eq!(command.writes_commands(), writes, "{name}");
        let judge = |rights: &Rights| rights.judge_command("verb", Scope::TasksWrite, &command);
        assert!(judge(&Rights::default()).is_ok(), "{name}: every scope");
        let said = judge(&narrow).err().map(|refusal| refusal.message());
        let no = "verb needs scope commands:run to write a command into a check";
        assert_eq!(said.as_deref(), writes.then_some(no), "{name}");
    }
}

#[test]
fn a_planner_proposes_and_changes_nothing_else() {
    let claim = Command::TaskClaim { task: task(1) };
    for (profile, proposes, claims) in [
        (Profile::Viewer, false, false),
        (Profile::Planner, true, false),
        (Profile::PairWorker, true, true),
        (Profile::Maintainer, true, true),
    ] {
        let lane = Lane::KaganAdmin;
        let rights = Rights { lane, profile_wanted: Some(profile), ..Rights::default() };
        let may = |command| rights.judge_command("verb", Scope::TasksWrite, command).is_ok();
        assert_eq!((may(&propose()), may(&claim)), (proposes, claims), "{profile:?}");
    }
}

#[test]
fn a_caller_bound_to_a_task_is_judged_by_what_a_command_reaches() {
    let (attempt, comment, job) = (AttemptId(Id(2)), CommentId(Id(3)), JobId(Id(4)));
    let (reason, words) = (String::new(), None);
    let approve = PlanApprove { plan: PlanId(Id(1)), project: 1, tasks: Vec::new() };
    for (command, reach) in [
        (Command::TaskClaim { task: task(1) }, Reach::Task(task(1))),
        (edit(None), Reach::Task(task(1))),
        (Command::AttemptCancel { attempt, reason }, Reach::Attempt(attempt)),
        (Command::CommentResolve { comment, words }, Reach::Comment(comment)),
        (Command::RunCancel { job }, Reach::Job(job)),
        (Command::RunAnswer { job, number: None, granted: true }, Reach::Job(job)),
        (Command::WorkStop { job }, Reach::Job(job)),
        (Command::TaskCreate(create(None)), Reach::Outside("a new task")),
        (Command::TaskCreateAll(vec![create(None)]), Reach::Outside("a new task")),
        (Command::PlanApprove(approve), Reach::Outside("a new task")),
        (Command::ProjectOpen { project: 1 }, Reach::Outside("the open project")),
        (agent(false), Reach::Outside("the agents of the crew")),
        (agent(true), Reach::Own),
        (propose(), Reach::Own),
    ] {
        assert_eq!(command.reach(), reach, "{command:?}");
    }
    let bound = Rights { task: Some(task(1)), ..Rights::default() };
    assert!(bound.judge_task(task(1)).is_ok() && bound.judge_task(task(2)).is_err());
    assert!(bound.judge_outside("a new task").is_err());
    assert!(Rights::default().judge_task(task(2)).is_ok());
    assert!(Rights::default().judge_outside("a new task").is_ok());
}
