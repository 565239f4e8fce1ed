//! A crew's tasks and epics: assigned, moved, returned, settled, given up.

use super::model::{Model, task_named};
use crate::command::*;
use crate::crew::state::{EpicState, TaskState};
use crate::crew::{Agent, AgentId, MailId};
use crate::ids::{AttemptId, Id, TaskId};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rights::AgentType;
use crate::world::Change;

pub(super) struct Crew {
    pub model: Model,
    ids: u128,
}

pub(super) fn id(name: &str) -> AgentId {
    AgentId::parse(name).expect("an agent's id")
}

impl Crew {
    /// An epic `E` with a supervisor, a task `A` of it, and two idle workers.
    pub fn new() -> Self {
        let mut crew = Self { model: Model::new(Policy::default()), ids: 1 << 90 };
        crew.graph("create E");
        crew.agent("s1", AgentType::Supervisor, Some("E"));
        crew.agent("w1", AgentType::Worker, None);
        crew.agent("w2", AgentType::Worker, None);
        crew.add("A");
        crew
    }

    pub fn id(&mut self) -> Id {
        self.ids += 1;
        Id(self.ids)
    }

    fn graph(&mut self, line: &str) {
        let command = self.model.command(line);
        self.model.act("ana", &command).expect("anybody may");
    }

    pub fn agent(&mut self, name: &str, kind: AgentType, epic: Option<&str>) {
        let add = AgentAdd {
            agent: id(name),
            kind,
            epic: epic.map(task_named),
            task: None,
            or_keep: false,
            workers_max: None,
        };
        self.model.act("ana", &Command::AgentAdd(add)).expect("added");
    }

    fn try_add(&mut self, title: &str) -> Result<(), Refusal> {
        let add = EpicTaskAdd {
            by: id("s1"),
            epic: task_named("E"),
            task: task_named(title),
            title: title.into(),
            body: "As asked.".into(),
            workspace: format!("task-{title}"),
            branch: format!("callboard/task-{title}"),
            epic_branch: "callboard/epic-e".into(),
        };
        self.model.act("s1", &Command::EpicTaskAdd(Box::new(add))).map(|_| ())
    }

    fn add(&mut self, title: &str) {
        self.try_add(title).expect("added");
    }

    pub fn worker(&self, name: &str) -> Agent {
        self.model.rows.crew.agent(&id(name)).expect("it is there").clone()
    }

    pub fn holder(&self, task: &str) -> Option<AgentId> {
        let newest = self.model.task(task).newest_attempt?;
        let attempt = &self.model.rows.attempts[&newest];
        attempt.is_live(self.model.now).then(|| AgentId::of(&attempt.actor))
    }

    pub fn assign(
        &mut self,
        by: Option<&str>,
        task: &str,
        worker: &str,
    ) -> Result<Change, Refusal> {
        let assign = CrewAssign {
            by: by.map(id),
            task: task_named(task),
            worker: id(worker),
            was_on: self.worker(worker).task,
            from: self.holder(task),
            sender: Some(id("s1")),
            attempt: AttemptId(self.id()),
            place: WorkPlace::default(),
            misses: None,
            mails: [MailId(self.id()), MailId(self.id())],
        };
        self.model.act("s1", &Command::CrewAssign(Box::new(assign)))
    }

    pub fn said(&mut self, by: &str, to: TaskState) -> Result<Change, Refusal> {
        let task = self.worker(by).task.unwrap_or(task_named("A"));
        let reason = matches!(to, TaskState::Blocked | TaskState::Failed).then(|| "stuck".into());
        let command = CrewMove {
            by: id(by),
            task,
            from: self.stands_at(task),
            to,
            reason,
            url: None,
            supervisor: Some(id("s1")),
            mail: MailId(self.id()),
        };
        self.model.act(by, &Command::CrewMove(command))
    }

    pub fn stands(&self, task: &str) -> TaskState {
        self.stands_at(task_named(task))
    }

    fn stands_at(&self, task: TaskId) -> TaskState {
        let task = self.model.task_of(task);
        TaskState::of(task, task.assignee.is_some())
    }

    fn epic(&self) -> EpicState {
        let epic = task_named("E");
        EpicState::of(self.model.task_of(epic))
    }

    /// The letters with their recipients, in the order they were written.
    pub fn letters(&mut self) -> Vec<String> {
        let mails = std::mem::take(&mut self.model.rows.crew.mails);
        let line = |mail: &crate::crew::Mail| {
            let to = mail.to.as_ref().map_or("people", AgentId::as_str);
            format!("{to}: {}", mail.subject)
        };
        mails.iter().map(line).collect()
    }
}

#[test]
fn the_first_task_begins_an_epic_and_knows_where_it_goes() {
    let mut crew = Crew::new();
    assert_eq!(crew.epic(), EpicState::InProgress);
    let card = crew.model.card("A").clone();
    assert_eq!(card.base_branch.as_deref(), Some("callboard/epic-e"));
    assert_eq!(card.workspace.as_deref(), Some("task-A"));
    assert!(crew.model.task("E").is_plan);
    crew.model.events.clear();
    crew.add("B");
    assert_eq!(crew.model.events, ["task.created"]);
    crew.graph("move E done");
    let closed = crew.try_add("C");
    let words = "Epic is in state COMPLETED".to_owned();
    assert_eq!(closed, Err(Refusal::AgentState { message: words }));
}

#[test]
fn a_task_goes_from_worker_to_worker_and_both_are_told() {
    let mut crew = Crew::new();
    crew.assign(None, "A", "w1").expect("it waits");
    assert_eq!(
        (crew.stands("A"), crew.worker("w1").task),
        (TaskState::Assigned, Some(task_named("A")))
    );
    assert_eq!(crew.letters(), ["w1: Task Assignment"]);
    assert!(crew.assign(Some("s1"), "A", "w1").expect("again").is_empty());
    // An automatic assignment does not take the task from its worker.
    assert!(crew.assign(None, "A", "w2").is_err());
    let fence = crew.model.task("A").fence;
    crew.assign(Some("s1"), "A", "w2").expect("somebody says so");
    assert_eq!(crew.model.task("A").fence, fence + 1);
    assert_eq!(crew.letters(), ["w1: Task Reassigned: A", "w2: Task Assignment"]);
    let freed = crew.worker("w1");
    assert_eq!((freed.task, freed.idle_since), (None, Some(crew.model.now)));
    let late = crew.said("w1", TaskState::InProgress).expect_err("it has none");
    assert_eq!(late.code(), "INVALID_AGENT_STATE");
    crew.add("B");
    let busy = crew.assign(Some("s1"), "B", "w2").expect_err("it has one");
    let words = format!("Agent 'w2' already has task {}", task_named("A"));
    assert_eq!(busy, Refusal::AgentState { message: words });
    let boss = crew.assign(Some("s1"), "B", "s1").expect_err("no worker");
    assert_eq!(boss, Refusal::AgentState { message: "Agent 's1' is not a WORKER".into() });
}

#[test]
fn nobody_takes_what_another_toolset_holds() {
    let mut crew = Crew::new();
    let begin = crew.model.command("begin A as=s");
    crew.model.act("bob", &begin).expect("it is free");
    let held = crew.assign(Some("s1"), "A", "w1").expect_err("held");
    assert!(matches!(held, Refusal::AlreadyClaimed { .. }), "{held:?}");
}

/// From the worker's state to the one it wants: the answer, and the state after it.
#[test]
fn a_worker_moves_its_task_as_the_machine_says() {
    let ways: &[(TaskState, &[TaskState])] = &[
        (TaskState::Assigned, &[]),
        (TaskState::InProgress, &[TaskState::InProgress]),
        (TaskState::Review, &[TaskState::InProgress, TaskState::Review]),
        (TaskState::Blocked, &[TaskState::InProgress, TaskState::Blocked]),
    ];
    for (from, steps) in ways {
        for to in TaskState::ALL {
            let mut crew = Crew::new();
            crew.assign(None, "A", "w1").expect("it waits");
            for step in *steps {
                crew.said("w1", *step).expect("on the way");
            }
            crew.letters();
            let answer = crew.said("w1", *to);
            let expected = if from == to { *from } else { *to };
            match answer {
                Ok(change) if from == to => assert!(change.is_empty(), "{from} {to}"),
                Ok(_) => assert!(from.by_worker().contains(to), "{from} {to}"),
                Err(refusal) => {
                    let code = if *to == TaskState::Completed {
                        "AUTHORIZATION_DENIED"
                    } else {
                        "INVALID_INPUT"
                    };
                    assert_eq!(refusal.code(), code, "{from} {to}");
                    assert_eq!(crew.stands("A"), *from);
                    continue;
                }
            }
            assert_eq!(crew.stands("A"), expected, "{from} {to}");
            let keeps = !matches!(to, TaskState::Pending | TaskState::Failed);
            assert_eq!(crew.worker("w1").task.is_some(), keeps, "{from} {to}");
            let told: &[&str] = match to {
                _ if from == to => &[],
                TaskState::Review => &["s1: Task Complete: A"],
                TaskState::Blocked => &["s1: Task Blocked: A"],
                TaskState::Failed => &["s1: Task Failed: A"],
                _ => &[],
            };
            assert_eq!(crew.letters(), told, "{from} {to}");
        }
    }
}

#[test]
fn open_deps_keep_a_task_where_it_is() {
    let mut crew = Crew::new();
    crew.graph("create D");
    crew.graph("depend A D");
    assert!(crew.assign(None, "A", "w1").is_err());
    crew.assign(Some("s1"), "A", "w1").expect("somebody says so");
    assert_eq!(crew.stands("A"), TaskState::Pending);
    let begins = crew.said("w1", TaskState::InProgress).expect_err("it waits");
    assert_eq!(begins.code(), "DEPS_NOT_CLOSED");
    crew.graph("move D done");
    crew.said("w1", TaskState::InProgress).expect("it may");
}

#[test]
fn what_is_in_review_goes_back_or_is_settled_for_good() {
    let mut crew = Crew::new();
    crew.add("B");
    for (task, worker) in [("A", "w1"), ("B", "w2")] {
        crew.assign(None, task, worker).expect("it waits");
        for step in [TaskState::InProgress, TaskState::Review] {
            crew.said(worker, step).expect("as always");
        }
    }
    crew.letters();
    let feedback = |crew: &mut Crew| CrewReturn {
        by: id("s1"),
        task: task_named("A"),
        feedback: "no tests".into(),
        worker: Some(id("w1")),
        mail: MailId(crew.id()),
    };
    let back = Command::CrewReturn(feedback(&mut crew));
    crew.model.act("s1", &back).expect("it is in review");
    assert_eq!(crew.stands("A"), TaskState::InProgress);
    assert_eq!(crew.letters(), ["w1: Changes Requested"]);
    let again = Command::CrewReturn(feedback(&mut crew));
    let words = "Task is in state IN_PROGRESS, expected REVIEW".to_owned();
    assert_eq!(crew.model.act("s1", &again), Err(Refusal::AgentState { message: words }));

    crew.said("w1", TaskState::Review).expect("again");
    crew.letters();
    let settle = CrewSettle {
        task: task_named("A"),
        commit: Some("c1".into()),
        is_approval: false,
        is_merged: true,
        worker: Some(id("w1")),
        behind: vec![Behind {
            task: task_named("B"),
            title: "B".into(),
            worker: id("w2"),
            mail: MailId(crew.id()),
        }],
        sender: Some(id("s1")),
        epic_branch: "callboard/epic-e".into(),
        is_remote: false,
    };
    let settle = Command::CrewSettle(Box::new(settle));
    crew.model.act("s1", &settle).expect("it has happened");
    assert!(crew.model.rows.crew.mails[0].body.contains("git rebase callboard/epic-e"));
    assert_eq!(crew.letters(), ["w2: Rebase Required"]);
    assert_eq!((crew.stands("A"), crew.stands("B")), (TaskState::Completed, TaskState::Review));
    assert_eq!((crew.worker("w1").task, crew.holder("A")), (None, None));
    assert!(crew.model.act("s1", &settle).expect("once").is_empty());
    let Command::CrewSettle(known) = settle else { unreachable!("it was made above") };
    let late = Command::CrewSettle(Box::new(CrewSettle { is_approval: true, ..*known }));
    let words = "Task is in state COMPLETED, expected REVIEW".to_owned();
    assert_eq!(crew.model.act("s1", &late), Err(Refusal::AgentState { message: words }));
}

#[test]
fn a_worker_is_freed_of_what_ended_elsewhere() {
    let mut crew = Crew::new();
    crew.assign(None, "A", "w1").expect("it waits");
    let free = Command::CrewFree { agent: id("w1"), task: task_named("A") };
    assert!(crew.model.act("ana", &free).expect("it is its own").is_empty());
    crew.graph("move A canceled");
    crew.model.act("ana", &free).expect("it is over");
    assert_eq!(crew.worker("w1").task, None);
    assert!(crew.model.act("ana", &free).expect("once").is_empty());
}

#[test]
fn an_epic_moves_by_its_own_machine() {
    let mut crew = Crew::new();
    let to = |crew: &mut Crew, to| {
        let by = id("s1");
        crew.model.act("s1", &Command::EpicMove(EpicMove { by, epic: task_named("E"), to }))
    };
    to(&mut crew, EpicState::Blocked).expect("it may");
    assert_eq!(crew.epic(), EpicState::Blocked);
    assert!(to(&mut crew, EpicState::Blocked).expect("again").is_empty());
    let back = to(&mut crew, EpicState::Planning).expect_err("it began");
    assert_eq!(back.message(), "Invalid state transition from BLOCKED to PLANNING");
    let done = to(&mut crew, EpicState::Completed).expect_err("not by word");
    assert_eq!(done.message(), "Use mcp__epic__create_epic_pr");
    to(&mut crew, EpicState::InProgress).expect("it goes on");
    to(&mut crew, EpicState::Cancelled).expect("given up");
    assert_eq!(crew.epic(), EpicState::Cancelled);
    let worker = None;
    let give_up =
        CrewGiveUp { task: task_named("A"), reason: "Epic cancelled".into(), worker, lost: None };
    crew.model.act("s1", &Command::CrewGiveUp(give_up)).expect("it is open");
    assert_eq!(crew.stands("A"), TaskState::Failed);
    let other = EpicMove { by: id("w1"), epic: task_named("E"), to: EpicState::InProgress };
    let denied = crew.model.act("w1", &Command::EpicMove(other)).expect_err("not a worker's");
    assert_eq!(denied.code(), "AUTHORIZATION_DENIED");
}

/// Whichever way a task leaves its review, its forge hears that the merge is not wanted any more.
#[test]
fn what_leaves_its_review_is_not_to_be_merged() {
    let at = |step, behind| PullSettle {
        task: task_named("A"),
        forge: "github".into(),
        repo: "acme/shop".into(),
        number: 7,
        step,
        behind,
    };
    for way in ["returned", "withdrawn", "blocked", "given up"] {
        let mut crew = Crew::new();
        crew.assign(None, "A", "w1").expect("it waits");
        crew.said("w1", TaskState::InProgress).expect("begins");
        let open = PullOpen {
            task: task_named("A"),
            forge: "github".into(),
            repo: "acme/shop".into(),
            at: Some((7, "https://github.com/acme/shop/pull/7".into())),
            branch: "callboard/task-A".into(),
            base: "callboard/epic-e".into(),
            head: "h".into(),
            title: "A".into(),
            machine: None,
        };
        crew.model.act("w1", &Command::PullOpen(open)).expect("opens");
        crew.said("w1", TaskState::Review).expect("asks");
        crew.model.act("s1", &Command::PullSettle(at(PullStep::Awaited, None))).expect("approved");
        crew.letters();
        let mail = MailId(crew.id());
        match way {
            "returned" => {
                let feedback = "no".into();
                let (by, task, worker) = (id("s1"), task_named("A"), Some(id("w1")));
                let back = CrewReturn { by, task, feedback, worker, mail };
                crew.model.act("s1", &Command::CrewReturn(back)).expect("goes back")
            }
            "withdrawn" => crew.said("w1", TaskState::InProgress).expect("goes back"),
            "blocked" => crew.said("w1", TaskState::Blocked).expect("is stuck"),
            _ => {
                let reason = "Epic cancelled".into();
                let (task, worker) = (task_named("A"), Some(id("w1")));
                let end = CrewGiveUp { task, reason, worker, lost: None };
                crew.model.act("s1", &Command::CrewGiveUp(end)).expect("ends")
            }
        };
        let pull = crew.model.rows.pulls[0].clone();
        assert_eq!((pull.is_awaited, pull.is_revoked), (false, true), "{way}");
        crew.letters();
        // The forge was faster: the worker that is still on the task goes on from the merged work.
        let behind = Behind {
            task: task_named("A"),
            title: "A".into(),
            worker: id("w1"),
            mail: MailId(crew.id()),
        };
        let merged = PullStep::Merged { commit: Some("c".into()), asked: false };
        crew.model.act("r", &Command::PullSettle(at(merged, Some(behind)))).expect("happened");
        assert_ne!(crew.stands("A"), TaskState::Completed, "{way}");
        let told: &[&str] = if way == "given up" { &[] } else { &["w1: Rebase Required"] };
        assert_eq!(crew.letters(), told, "{way}");
    }
}

#[test]
fn what_was_made_for_another_status_does_not_count() {
    let mut crew = Crew::new();
    crew.assign(None, "A", "w1").expect("it waits");
    crew.said("w1", TaskState::InProgress).expect("it may");
    let command = CrewMove {
        by: id("w1"),
        task: task_named("A"),
        from: TaskState::Assigned,
        to: TaskState::Review,
        reason: None,
        url: None,
        supervisor: None,
        mail: MailId(crew.id()),
    };
    let late = crew.model.act("w1", &Command::CrewMove(command)).expect_err("it moved on");
    assert_eq!(late, Refusal::Conflict { task: task_named("A"), what: "its status" });
}

/// A worker that is added for a task has it as if it had been assigned, or is not added at all.
#[test]
fn a_new_worker_has_its_task_or_is_not_added() {
    let mut crew = Crew::new();
    crew.assign(None, "A", "w1").expect("it waits");
    crew.letters();
    let add = |crew: &mut Crew, name: &str, kind: AgentType, task: &str| {
        let given = CrewAssign {
            by: Some(id("human:ana")),
            task: task_named(task),
            worker: id(name),
            was_on: None,
            from: crew.holder(task),
            sender: None,
            attempt: AttemptId(crew.id()),
            place: WorkPlace::default(),
            misses: None,
            mails: [MailId(crew.id()), MailId(crew.id())],
        };
        let (agent, task) = (id(name), Some(Box::new(given)));
        let add = AgentAdd { agent, kind, epic: None, task, or_keep: false, workers_max: None };
        crew.model.act("ana", &Command::AgentAdd(add))
    };
    add(&mut crew, "w3", AgentType::Worker, "A").expect("added");
    assert_eq!((crew.holder("A"), crew.worker("w3").task), (Some(id("w3")), Some(task_named("A"))));
    assert_eq!((crew.worker("w3").idle_since, crew.worker("w1").task), (None, None));
    assert_eq!(crew.letters(), ["w1: Task Reassigned: A", "w3: Task Assignment"]);
    crew.said("w3", TaskState::InProgress).expect("it has it");
    crew.said("w3", TaskState::Review).expect("it has it");
    crew.letters();
    let in_review = add(&mut crew, "w4", AgentType::Worker, "A").expect_err("in review");
    assert_eq!(in_review, Refusal::AgentState { message: "Task is in state REVIEW".into() });
    let boss = add(&mut crew, "s4", AgentType::Supervisor, "A").expect_err("no worker");
    assert!(boss.message().contains("only a WORKER has a task"), "{boss:?}");
    let epic = add(&mut crew, "w4", AgentType::Worker, "E").expect_err("an epic");
    assert!(epic.message().contains("assign one of its tasks"), "{epic:?}");
    assert!(crew.model.rows.crew.agent(&id("w4")).is_none() && crew.letters().is_empty());
    crew.graph("move E done");
    let late = AgentAdd {
        agent: id("s4"),
        kind: AgentType::Supervisor,
        epic: Some(task_named("E")),
        task: None,
        or_keep: false,
        workers_max: None,
    };
    let over = crew.model.act("ana", &Command::AgentAdd(late)).expect_err("it is over");
    assert_eq!(over, Refusal::AgentState { message: "Epic is in state COMPLETED".into() });
}
