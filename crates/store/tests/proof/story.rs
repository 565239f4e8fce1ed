//! Stories: commands in order, of which each needs those before it. Chance alone hardly gives them. Half of the rounds begin
//! with the work of a crew from its epic to feedback on a task, the others with sessions from their begin to their end;
//! then a review that sends work back twice. Random commands come between.

use callboard_domain::actor::Actor;
use callboard_domain::command::{
    AgentAdd, AttemptBegin, Command, CrewAssign, CrewMove, CrewReturn, EpicMove, EpicTaskAdd,
    ReviewDecide, ReviewVerdict, TaskCreate,
};
use callboard_domain::crew::state::{EpicState, TaskState};
use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::rights::AgentType;
use callboard_domain::task::attempt::AttemptKind;

use crate::office::{Office, actor};

/// The steps of a crew, with who takes each.
pub fn crew(office: &mut Office) -> Vec<(Actor, Command)> {
    let (epic, task) = (office.new_task_id(), office.new_task_id());
    let agent = |name| AgentId::parse(name).unwrap();
    let add = |name, kind, epic| {
        let (task, or_keep, workers_max) = (None, true, None);
        Command::AgentAdd(AgentAdd { agent: agent(name), kind, epic, task, or_keep, workers_max })
    };
    let plan = TaskCreate {
        task: epic,
        title: "an epic".into(),
        parent: None,
        deps: Vec::new(),
        checks: Vec::new(),
        reference: None,
        verification: None,
        is_plan: true,
        ..office.create()
    };
    let under_way = EpicMove { by: agent("s1"), epic, to: EpicState::InProgress };
    let part = EpicTaskAdd {
        by: agent("s1"),
        epic,
        task,
        title: "a part".into(),
        body: String::new(),
        workspace: "ws".into(),
        branch: "b".into(),
        epic_branch: "epic".into(),
    };
    let assign = CrewAssign {
        by: None,
        task,
        worker: agent("w1"),
        was_on: None,
        from: None,
        sender: Some(agent("s1")),
        attempt: AttemptId(office.id()),
        place: office.place(),
        misses: None,
        mails: [MailId(office.id()), MailId(office.id())],
    };
    let mut step = |from, to| {
        Command::CrewMove(CrewMove {
            by: agent("w1"),
            task,
            from,
            to,
            reason: None,
            url: Some("https://example.org/1".into()),
            supervisor: Some(agent("s1")),
            mail: MailId(office.id()),
        })
    };
    let begun = step(TaskState::Assigned, TaskState::InProgress);
    let handed_over = step(TaskState::InProgress, TaskState::Review);
    let feedback = CrewReturn {
        by: agent("s1"),
        task,
        feedback: "more".into(),
        worker: Some(agent("w1")),
        mail: MailId(office.id()),
    };
    let steps = [
        Command::TaskCreate(plan),
        add("s1", AgentType::Supervisor, Some(epic)),
        Command::EpicMove(under_way),
        Command::EpicTaskAdd(Box::new(part)),
        add("w1", AgentType::Worker, None),
        Command::CrewAssign(Box::new(assign)),
        begun,
        handed_over,
        Command::CrewReturn(feedback),
        Command::TaskRemove { task },
        Command::CrewFree { agent: agent("w1"), task },
    ];
    steps.into_iter().map(|step| (actor("human:ana"), step)).collect()
}

/// Sessions that tell of their progress and end, each in another way, with who takes each step.
pub fn sessions(office: &mut Office) -> Vec<(Actor, Command)> {
    let mut steps = Vec::new();
    for lease_s in [None, Some(300), None, Some(20)] {
        let (task, attempt) = (office.new_task_id(), AttemptId(office.id()));
        let create = simple(office, task, "a session");
        let begin = AttemptBegin {
            attempt,
            task,
            kind: AttemptKind::Graph,
            key: None,
            expected_actor: None,
            client: None,
            bound_client: None,
            model: None,
            worktree: None,
            branch: None,
            head: None,
            lease_s,
            takeover: false,
        };
        let beat = |progress: &str| {
            let progress = Some(progress.to_owned());
            Command::AttemptHeartbeat { attempt, progress }
        };
        let end = match office.rng.below(3) {
            0 => Command::AttemptFinish {
                attempt,
                summary: "all of it".into(),
                head: None,
                tree: None,
            },
            1 => Command::AttemptCancel { attempt, reason: "no time".into() },
            _ => Command::TaskRelease { task },
        };
        steps.extend([
            Command::TaskCreate(create),
            Command::AttemptBegin(begin),
            beat("half of it"),
            beat("most of it"),
            end,
        ]);
    }
    let reviewed = review(office);
    steps.into_iter().map(|step| (actor("agent:w1"), step)).chain(reviewed).collect()
}

/// Work that is handed over and sent back with comments, twice.
fn review(office: &mut Office) -> Vec<(Actor, Command)> {
    let (worker, reviewer, task) = (actor("agent:w1"), actor("human:ana"), office.new_task_id());
    let create = simple(office, task, "to be reviewed");
    let mut steps = vec![(worker.clone(), Command::TaskCreate(create))];
    for _ in 0..2 {
        let reject = ReviewDecide {
            task,
            verdict: ReviewVerdict::Reject { to: Phase::Initial },
            feedback: "more".into(),
            checked: None,
            work: None,
            sends: office.sends(),
            seen: ReviewMark::default(),
        };
        let request = Command::ReviewRequest { task, summary: "done".into() };
        steps.push((worker.clone(), request));
        steps.push((reviewer.clone(), Command::ReviewDecide(reject)));
    }
    steps
}

/// A task that waits for nothing, so that a session on it can end.
fn simple(office: &mut Office, task: TaskId, title: &str) -> TaskCreate {
    TaskCreate {
        task,
        title: title.into(),
        parent: None,
        deps: Vec::new(),
        checks: Vec::new(),
        reference: None,
        verification: None,
        is_plan: false,
        ..office.create()
    }
}
