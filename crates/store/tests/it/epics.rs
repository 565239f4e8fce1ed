//! What every store must know of epics: their tasks, the workers for them, and ends that are not recorded yet.

use callboard_domain::command::*;
use callboard_domain::crew::assignment::{by_turn, may_take};
use callboard_domain::crew::{Agent, AgentId, MailId, sweep};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::pulls::{Pull, review};
use callboard_domain::rights::AgentType;
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_domain::runs::work::{Role, WorkOrder};
use callboard_domain::task::Task;
use callboard_store::{
    AgentQuery, BusyWorker, CardRow, EpicQuery, OpenPulls, OrphanRun, PullQuery, PullsOf,
    StaleWorker, UnassignedTask,
};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id};

conformance! {
    tasks_of_an_epic_are_paged_and_their_pages_known,
    what_waits_is_what_a_worker_could_have,
    workers_are_offered_longest_idle_first,
    what_ended_elsewhere_is_found,
    there_are_never_more_workers_than_may_be,
    a_worker_at_its_post_is_known_with_its_run_and_its_mail,
}

fn id(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

async fn agent(f: &Fixture, name: &str, kind: AgentType, epic: Option<TaskId>) {
    let agent = id(name);
    let add = AgentAdd { agent, kind, epic, task: None, or_keep: false, workers_max: None };
    f.done("human:ana", Command::AgentAdd(add)).await;
}

/// An epic with its supervisor.
async fn epic(f: &Fixture) -> TaskId {
    let epic = f.create("epic", &[]).await;
    agent(f, "s1", AgentType::Supervisor, Some(epic)).await;
    epic
}

async fn task(f: &Fixture, epic: TaskId, title: &str) -> TaskId {
    let task = TaskId { id: next_id(), prefix: epic.prefix };
    let add = EpicTaskAdd {
        by: id("s1"),
        epic,
        task,
        title: title.into(),
        body: "As asked.".into(),
        workspace: format!("task-{title}"),
        branch: format!("callboard/task-{title}"),
        epic_branch: "callboard/epic".into(),
    };
    f.done("agent:s1", Command::EpicTaskAdd(Box::new(add))).await;
    task
}

fn assign(task: TaskId, worker: &str) -> Command {
    Command::CrewAssign(Box::new(CrewAssign {
        by: None,
        task,
        worker: id(worker),
        was_on: None,
        from: None,
        sender: Some(id("s1")),
        attempt: AttemptId(next_id()),
        place: WorkPlace::default(),
        misses: None,
        mails: [MailId(next_id()), MailId(next_id())],
    }))
}

fn ids(found: Vec<UnassignedTask>) -> Vec<TaskId> {
    found.into_iter().map(|it| it.task).collect()
}

/// The tasks of an epic for which a rule holds, oldest first.
async fn judged(f: &Fixture, epic: TaskId, rule: impl Fn(&CardRow, &Task) -> bool) -> Vec<TaskId> {
    let org = f.home.org.clone();
    let query = EpicQuery { org, epic, phases: Vec::new(), after: None, limit: 100 };
    let rows = f.store.epic_tasks(query).await.unwrap();
    let epic = f.store.task("default", epic).await.unwrap().unwrap().task;
    rows.iter().filter(|row| rule(row, &epic)).map(|row| row.task.id).collect()
}

/// The tasks that wait; the store finds those that the rule names.
async fn waiting(f: &Fixture, epic: TaskId) -> Vec<TaskId> {
    let found = ids(f.store.crew_waiting(10).await.unwrap());
    let now = f.store.now();
    let rule = |row: &CardRow, epic: &Task| {
        sweep::is_waiting(&row.task, &row.card, row.newest.as_ref(), epic, now)
    };
    assert_eq!(found, judged(f, epic, rule).await, "as the rule says");
    found
}

/// The tasks that an approved merge completes; the store finds those that the rule names.
async fn merged(f: &Fixture, epic: TaskId) -> Vec<TaskId> {
    let found = ids(f.store.crew_merged(10).await.unwrap());
    let query = PullQuery { limit: 100, ..PullQuery::default() };
    let pulls: Vec<Pull> =
        f.store.pulls(query).await.unwrap().into_iter().map(|of| of.pull).collect();
    let rule = |row: &CardRow, _: &Task| {
        let own = pulls.iter().filter(|pull| pull.task == Some(row.task.id)).cloned();
        review::done_by(&row.task, own.collect()).is_some()
    };
    assert_eq!(found, judged(f, epic, rule).await, "as the rule says");
    found
}

async fn tasks_of_an_epic_are_paged_and_their_pages_known(f: Fixture) {
    let epic = epic(&f).await;
    let (a, b) = (task(&f, epic, "a").await, task(&f, epic, "b").await);
    f.create("elsewhere", &[]).await;
    let query =
        |phases, after, limit| EpicQuery { org: f.home.org.clone(), epic, phases, after, limit };
    let found = f.store.epic_tasks(query(Vec::new(), None, 1)).await.unwrap();
    assert_eq!((found.len(), found[0].task.id), (1, a));
    assert_eq!(found[0].card.workspace.as_deref(), Some("task-a"));
    let found = f.store.epic_tasks(query(Vec::new(), Some(a.id), 5)).await.unwrap();
    assert_eq!(found.iter().map(|row| row.task.id).collect::<Vec<_>>(), [b]);
    assert!(f.store.epic_tasks(query(vec![Phase::Review], None, 5)).await.unwrap().is_empty());
    for number in [1, 2] {
        let open = PullOpen {
            task: a,
            forge: "github".into(),
            repo: "acme/app".into(),
            at: Some((number, format!("https://github.com/acme/app/pull/{number}"))),
            branch: "a".into(),
            base: "epic".into(),
            head: "c1".into(),
            title: "a".into(),
            machine: None,
        };
        f.clock.advance_ms(1);
        f.done("agent:w1", Command::PullOpen(open)).await;
    }
    let pulls = f.store.epic_pulls("default", epic).await.unwrap();
    let last = pulls.last().unwrap();
    assert_eq!((last.0, last.1.as_str()), (a.id, "https://github.com/acme/app/pull/2"));
    assert!(f.store.workspace_is_taken("default", "task-a").await.unwrap());
    assert!(!f.store.workspace_is_taken("default", "task-c").await.unwrap());
}

async fn what_waits_is_what_a_worker_could_have(f: Fixture) {
    let epic = epic(&f).await;
    agent(&f, "w1", AgentType::Worker, None).await;
    let mut tasks = Vec::new();
    for title in ["a", "b", "c", "d"] {
        f.clock.advance_ms(1);
        tasks.push(task(&f, epic, title).await);
    }
    assert_eq!(waiting(&f, epic).await, tasks);
    f.done("system:crew", assign(tasks[0], "w1")).await;
    f.done("human:ana", Command::TaskClaim { task: tasks[1] }).await;
    let dep = f.create("dep", &[]).await;
    f.done("human:ana", Command::DependencyAdd { task: tasks[2], dep }).await;
    assert_eq!(waiting(&f, epic).await, [tasks[3]]);
    f.done("human:ana", f.to(dep, "done")).await;
    assert_eq!(waiting(&f, epic).await, [tasks[2], tasks[3]]);
    f.done("human:ana", f.to(epic, "canceled")).await;
    assert!(waiting(&f, epic).await.is_empty());
    assert_eq!(ids(f.store.crew_orphans(10).await.unwrap()), tasks);
    assert_eq!(judged(&f, epic, |row, epic| sweep::is_orphan(&row.task, epic)).await, tasks);
    assert!(f.store.verify().await.unwrap().is_empty());
}

async fn workers_are_offered_longest_idle_first(f: Fixture) {
    let epic = epic(&f).await;
    for name in ["w2", "w1", "w3"] {
        f.clock.advance_ms(1);
        agent(&f, name, AgentType::Worker, None).await;
    }
    let (a, b) = (task(&f, epic, "a").await, task(&f, epic, "b").await);
    let offered = async |task| {
        let found = f.store.workers_for("default", task).await.unwrap();
        let (org, kind, epic) = (f.home.org.clone(), None, None);
        let all = f.store.agents(AgentQuery { org, kind, epic, limit: 100 }).await.unwrap();
        let mut free: Vec<Agent> = all.into_iter().filter(|it| may_take(it, task)).collect();
        free.sort_by_key(by_turn);
        assert_eq!(found, free, "as the rule says");
        found.iter().map(|agent| agent.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(offered(a).await, ["w2", "w1", "w3"]);
    f.done("system:crew", assign(a, "w1")).await;
    assert_eq!(offered(a).await, ["w1", "w2", "w3"]);
    assert_eq!(offered(b).await, ["w2", "w3"]);
    assert_eq!(f.store.workers_count("default").await.unwrap(), 3);
    let lost = CrewLoss { supervisor: None, mails: [MailId(next_id()), MailId(next_id())] };
    let (reason, worker) = ("lost".to_owned(), Some(id("w1")));
    let give_up = CrewGiveUp { task: a, reason, worker, lost: Some(lost) };
    f.done("system:crew", Command::CrewGiveUp(give_up)).await;
    assert_eq!(offered(b).await, ["w2", "w3"], "who failed is offered nothing");
}

async fn what_ended_elsewhere_is_found(f: Fixture) {
    let epic = epic(&f).await;
    agent(&f, "w1", AgentType::Worker, None).await;
    let a = task(&f, epic, "a").await;
    f.done("system:crew", assign(a, "w1")).await;
    assert!(f.store.crew_adrift(10).await.unwrap().is_empty());
    f.done("human:ana", f.to(a, "in_review")).await;
    let open = PullOpen {
        task: a,
        forge: "github".into(),
        repo: "acme/app".into(),
        at: Some((1, "https://github.com/acme/app/pull/1".into())),
        branch: "a".into(),
        base: "epic".into(),
        head: "c1".into(),
        title: "a".into(),
        machine: None,
    };
    f.done("agent:w1", Command::PullOpen(open.clone())).await;
    for step in [PullStep::Awaited, PullStep::Merged { commit: None, asked: false }] {
        assert!(merged(&f, epic).await.is_empty());
        let (forge, repo) = ("github".into(), "acme/app".into());
        let settle = PullSettle { task: a, forge, repo, number: 1, step, behind: None };
        f.done("agent:s1", Command::PullSettle(settle)).await;
        // Another toolset takes the task out of its review for a while; the merge is unwanted for that long.
        let unwanted = OpenPulls { of: PullsOf::Unwanted, after: None, limit: 10 };
        let count = async || f.store.pulls_open(unwanted.clone()).await.unwrap().len();
        assert_eq!(count().await, 0);
        if merged(&f, epic).await.is_empty() {
            f.done("human:ana", f.to(a, "in_progress")).await;
            assert_eq!(count().await, 1);
            f.done("human:ana", f.to(a, "in_review")).await;
        }
    }
    assert_eq!(merged(&f, epic).await, [a]);
    // The merge of a pull request without an approval finishes no task.
    let b = task(&f, epic, "b").await;
    f.done("human:ana", f.to(b, "in_review")).await;
    let (forge, repo) = ("github".to_owned(), "acme/app".to_owned());
    let at = Some((2, "https://github.com/acme/app/pull/2".into()));
    let unasked = PullOpen { task: b, at, branch: "b".into(), ..open };
    f.done("agent:w1", Command::PullOpen(unasked)).await;
    let step = PullStep::Merged { commit: None, asked: false };
    let settle = PullSettle { task: b, forge, repo, number: 2, step, behind: None };
    f.done("agent:s1", Command::PullSettle(settle)).await;
    assert_eq!(merged(&f, epic).await, [a]);
    // A task that came into review again since then waits for another merge.
    f.clock.advance_ms(1);
    f.done("human:ana", f.to(a, "in_progress")).await;
    f.done("human:ana", f.to(a, "in_review")).await;
    assert!(merged(&f, epic).await.is_empty());
    f.done("human:ana", f.to(a, "done")).await;
    let adrift = f.store.crew_adrift(10).await.unwrap();
    assert_eq!(adrift, [StaleWorker { org: f.home.org.clone(), agent: id("w1"), task: a }]);
    f.done("system:crew", Command::CrewFree { agent: id("w1"), task: a }).await;
    assert!(f.store.crew_adrift(10).await.unwrap().is_empty());
}

async fn there_are_never_more_workers_than_may_be(f: Fixture) {
    let other = f.neighbour().await;
    let add = |name: String| {
        let (agent, kind) = (AgentId::parse(&name).unwrap(), AgentType::Worker);
        let workers_max = Some(3);
        Command::AgentAdd(AgentAdd {
            agent,
            kind,
            epic: None,
            task: None,
            or_keep: false,
            workers_max,
        })
    };
    let here = (0..4).map(|n| f.code("system:crew", add(format!("worker-{n}"))));
    let there = (4..8).map(|n| other.code("system:crew", add(format!("worker-{n}"))));
    let codes = futures_util::future::join_all(here.chain(there)).await;
    assert_eq!(codes.iter().filter(|code| code.is_empty()).count(), 3, "{codes:?}");
    assert_eq!(f.store.workers_count("default").await.unwrap(), 3);
}

async fn a_worker_at_its_post_is_known_with_its_run_and_its_mail(f: Fixture) {
    let epic = epic(&f).await;
    agent(&f, "w1", AgentType::Worker, None).await;
    agent(&f, "w2", AgentType::Worker, None).await;
    let a = task(&f, epic, "a").await;
    assert!(f.store.crew_posts(10).await.unwrap().is_empty());
    f.clock.advance_ms(1000);
    f.done("system:crew", assign(a, "w1")).await;
    let post = async || {
        let posts: Vec<BusyWorker> = f.store.crew_posts(10).await.unwrap();
        assert_eq!(posts.len(), 1, "{posts:?}");
        posts.into_iter().next().unwrap()
    };
    let first = post().await;
    assert_eq!((&first.agent, first.task, first.phase), (&id("w1"), a, Phase::Initial));
    assert_eq!((first.is_run, first.mail_at), (false, Some(first.heard_at)), "it was told");
    let order = WorkOrder {
        role: Role::Crew,
        asked_by: "agent:w1".parse().unwrap(),
        instructions: None,
        model: None,
    };
    let job = JobId(next_id());
    let submit = WorkSubmit {
        job,
        task: a,
        order,
        bound_to: None,
        waits: false,
        ttl_s: 600,
        start: Default::default(),
    };
    f.done("system:crew", Command::WorkSubmit(submit)).await;
    assert!(post().await.is_run);
    assert!(f.store.runs_due(JobKind::Work, "m1", 9).await.unwrap().is_empty(), "not the board's");
    let due = f.store.runs_due(JobKind::Crew, "m1", 9).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id).collect::<Vec<_>>(), [job]);
    let lease = RunLease {
        job,
        kind: JobKind::Crew,
        agent: None,
        attempt: AttemptId(next_id()),
        machine: "m1".into(),
        running_max: 1,
        lease_s: 60,
        early: false,
    };
    f.done("runner:r1", Command::RunLease(lease)).await;
    let here = f.store.runs_on("m1").await.unwrap();
    assert_eq!(here.iter().map(|due| due.job.id).collect::<Vec<_>>(), [job]);
    f.clock.advance_ms(5000);
    f.done("runner:r1", Command::RunKeep { job, fence: 1, lease_s: 60 }).await;
    assert!(post().await.heard_at > first.heard_at, "its run was seen alive");
    assert!(f.store.crew_strays(10).await.unwrap().is_empty());
    f.done("human:ana", Command::AgentRemove { agent: id("w1") }).await;
    assert!(f.store.crew_posts(10).await.unwrap().is_empty());
    let stray = OrphanRun { org: f.home.org.clone(), job };
    assert_eq!(f.store.crew_strays(10).await.unwrap(), [stray]);
    f.clock.advance_ms(100_000);
    let late = f.store.runs_overdue(9).await.unwrap();
    assert_eq!(late.iter().map(|due| due.job.id).collect::<Vec<_>>(), [job]);
    f.done("runner:r1", Command::WorkStop { job }).await;
    assert!(f.store.crew_strays(10).await.unwrap().is_empty());
    f.assert_sound().await;
}
