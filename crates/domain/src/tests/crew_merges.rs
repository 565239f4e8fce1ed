//! Whether a crew's work can be merged, who gets a task, and what a sweep looks for, as tables.

use super::model::{Model, actor, task_named};
use crate::board::card::Card;
use crate::board::project::ProjectRepo;
use crate::crew::assignment::*;
use crate::crew::merge::*;
use crate::crew::state::{EpicState, TaskState};
use crate::crew::{Agent, AgentId, Mail, MailId, names, sweep};
use crate::ids::{AttemptId, Id};
use crate::policy::{Phase, Policy};
use crate::pulls::review::*;
use crate::pulls::{CLOSED, MERGED, OPEN, Pull};
use crate::refusal::Refusal;
use crate::rights::AgentType;
use crate::runs::job::JobId;
use crate::task::Task;
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::task::block::Blocked;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(1_000_000);

fn id(name: &str) -> AgentId {
    AgentId::parse(name).expect("an agent's id")
}

/// `ok`, or the words of the refusal.
fn said<T>(judged: Result<T, Refusal>) -> String {
    judged.err().map_or("ok".into(), |refusal| refusal.message())
}

fn task() -> Task {
    let mut model = Model::new(Policy::default());
    let create = model.command("create A");
    model.act("ana", &create).expect("created");
    model.task("A").clone()
}

fn in_phase(phase: Phase) -> Task {
    Task { phase, ..task() }
}

fn agent(name: &str, kind: AgentType) -> Agent {
    Agent {
        id: id(name),
        kind,
        epic: None,
        task: None,
        idle_since: Some(Timestamp(1)),
        last_active_at: Timestamp(1),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        failed_at: None,
    }
}

fn worker(name: &str) -> Agent {
    agent(name, AgentType::Worker)
}

fn attempt(by: &str, kind: AttemptKind, is_over: bool) -> Attempt {
    let live = AttemptState::Live { heartbeat_at: Timestamp(1), progress: None, lease: None };
    let ended = AttemptState::Ended { at: Timestamp(2), end: AttemptEnd::Released };
    Attempt {
        id: AttemptId(Id(1)),
        task: task_named("A"),
        kind,
        fence: 1,
        actor: actor(by),
        key: None,
        client: None,
        model: None,
        worktree: None,
        branch: None,
        head_started: None,
        started_at: Timestamp(1),
        state: if is_over { ended } else { live },
    }
}

/// A pull request in words: `open`, `merged` or `closed`, with `+awaited`, `+job` or `+named` (no head is known), and
/// `@` the time of its last change.
fn pull(words: &str) -> Pull {
    let (words, at) = words.split_once('@').unwrap_or((words, "10"));
    let mut words = words.split('+');
    let status = words.next().filter(|word| [OPEN, MERGED, CLOSED].contains(word));
    let rest: Vec<&str> = words.collect();
    let at = Timestamp(at.parse().expect("a time"));
    Pull {
        forge: "github".into(),
        repo: "acme/shop".into(),
        number: 1,
        url: String::new(),
        status: status.expect("a status").into(),
        branch: "work".into(),
        base: "epic".into(),
        head: if rest.contains(&"named") { String::new() } else { "c1".into() },
        title: "A".into(),
        is_awaited: rest.contains(&"awaited"),
        is_revoked: false,
        merge_commit: None,
        task: Some(task_named("A")),
        job: rest.contains(&"job").then_some(JobId(Id(7))),
        machine: None,
        created_at: Timestamp(1),
        changed_at: at,
    }
}

fn pulls(words: &str) -> Vec<Pull> {
    words.split_whitespace().map(pull).collect()
}

#[test]
fn only_a_task_in_review_is_merged() {
    for state in TaskState::ALL {
        let words = match state {
            TaskState::Review => "ok".to_owned(),
            state => format!("Task is in state {state}, expected REVIEW"),
        };
        assert_eq!(said(judge_review(*state)), words);
    }
    assert_eq!(agent_lingers().message(), "the agent on the task has not stopped yet; try again");
}

#[test]
fn an_approval_uses_the_newest_pull_request_of_its_task() {
    for (found, expected) in [
        ("", "of worktree"),
        ("open", "of worktree"),
        ("open+named", "named"),
        ("closed", "of worktree"),
        ("closed+named", "of worktree"),
        // The task came into review at 10.
        ("merged@9", "of worktree"),
        ("merged@10", "merged"),
        ("merged+named@11", "merged"),
        ("open merged@11", "of worktree"),
        ("open+named merged@11", "named"),
        ("merged@11 open+named", "merged"),
        ("merged+job@11", "of worktree"),
        ("open+job+named merged@11", "merged"),
    ] {
        let found_pull = match ReviewPull::of(pulls(found), Timestamp(10)) {
            ReviewPull::Merged(_) => "merged",
            ReviewPull::Named(_) => "named",
            ReviewPull::OfWorktree => "of worktree",
        };
        assert_eq!(found_pull, expected, "{found}");
    }
}

#[test]
fn work_after_a_merge_is_known_by_head_and_files() {
    for (found, branch, may) in
        [("merged", "work", true), ("merged", "other", false), ("merged+named", "work", false)]
    {
        assert_eq!(may_go_on(&pull(found), branch), may, "{found} {branch}");
    }
    for (head, is_clean, went) in
        [("c1", true, false), ("c1", false, true), ("c2", true, true), ("c2", false, true)]
    {
        assert_eq!(went_on(&pull("merged"), head, is_clean), went, "{head} {is_clean}");
    }
}

#[test]
fn a_pull_request_goes_from_the_works_branch_to_its_target() {
    let nowhere = "Task has no branch to open a PR from";
    for (worktree, of_attempt, base, expected) in [
        (Some(("epic", Some("tree"))), Some("told"), Some("card"), "tree > epic"),
        (Some(("epic", None)), Some("told"), Some("card"), "told > epic"),
        (Some(("epic", None)), None, None, "usual > epic"),
        (None, Some("told"), Some("card"), "told > card"),
        (None, Some("told"), None, nowhere),
        (None, None, Some("card"), nowhere),
        (None, None, None, nowhere),
    ] {
        let owned = |text: &str| text.to_owned();
        let worktree = worktree.map(|(target, branch)| (owned(target), branch.map(owned)));
        let found = branches(worktree, of_attempt.map(owned), base, || "usual".into());
        let shown = match found {
            Ok((branch, target)) => format!("{branch} > {target}"),
            Err(refusal) => refusal.message(),
        };
        assert_eq!(shown, expected);
    }
    assert_eq!(nothing_to_merge().message(), "Task has no PR or branch");
}

#[test]
fn a_named_pull_request_is_a_page_at_a_forge() {
    for (url, expected) in [
        ("https://github.com/o/r/pull/1", "GitHub o/r#1"),
        ("http://ghe.corp.example/o/r/pull/1/files", "GitHub o/r#1"),
        ("https://gitlab.com/g/p/-/merge_requests/2", "GitLab g/p!2"),
        ("o/r#1", "no"),
        ("HTTPS://github.com/o/r/pull/1", "no"),
        ("https://github.com/o/r/issues/1", "no"),
        ("callboard://pr/1", "no"),
        ("", "no"),
    ] {
        let shown = match judge_page(url) {
            Ok((kind, pull)) => format!("{kind} {}", pull.short(kind)),
            Err(refusal) => {
                assert!(refusal.message().starts_with("prUrl must be a pull request"));
                "no".into()
            }
        };
        assert_eq!(shown, expected, "{url}");
    }
}

#[test]
fn an_epic_is_finished_once_when_its_tasks_are_over() {
    for (state, gate) in [
        (EpicState::Planning, Ok(FinishGate::Open)),
        (EpicState::InProgress, Ok(FinishGate::Open)),
        (EpicState::Blocked, Ok(FinishGate::Open)),
        (EpicState::Completed, Ok(FinishGate::Finished)),
        (EpicState::Cancelled, Err("Epic is in state CANCELLED".to_owned())),
    ] {
        let judged = finish_gate(state).map_err(|refusal| refusal.message());
        assert_eq!(judged, gate, "{state}");
    }
    use TaskState::*;
    for (tasks, expected) in [
        (&[][..], "Epic has no tasks"),
        (&[Completed][..], "ok"),
        (&[Completed, Failed], "ok"),
        (&[Failed], "ok"),
        (&[Completed, Review, Failed, Pending], "Tasks not finished: t1 (REVIEW), t3 (PENDING)"),
        (&[Blocked, Assigned], "Tasks not finished: t0 (BLOCKED), t1 (ASSIGNED)"),
        (&[InProgress], "Tasks not finished: t0 (IN_PROGRESS)"),
    ] {
        let titles: Vec<String> = (0..tasks.len()).map(|n| format!("t{n}")).collect();
        let given = titles.iter().map(String::as_str).zip(tasks.iter().copied());
        assert_eq!(said(judge_finished(given)), expected);
    }
    for (branch, expected) in [
        (EpicBranch::Ahead, "ok"),
        (EpicBranch::Merged, "Epic branch has no changes"),
        (EpicBranch::Missing, "Epic branch has no changes"),
    ] {
        assert_eq!(said(judge_changes(branch)), expected, "{branch:?}");
    }
    let tasks = [("a", Completed, None), ("b", Failed, Some("too hard")), ("c", Failed, None)];
    assert_eq!(summary(tasks), "✅ a\n❌ b: too hard\n❌ c\n");
}

/// Lines `workers => choice`. A worker is a name with `=A` or `=B`, the task it has; else with `!`, if it failed; and
/// `@` since when it is idle. `gave` before the workers names the actor of the newest attempt.
const TURNS: &str = "
    -  w1@5             => w1
    -  w2@5 w1@5        => w1
    -  w1@5 w2@4        => w2
    -  w1@1 w2=A        => w2
    -  w1=B w2@9        => w2
    -  w1! w2@9         => w2
    -  w1=B             => new
    -  w1!              => new
    -                   => new
    w1 w1@1 w2@9        => w2
    w1 w1@1             => new or w1
    w1 w1@1 w2=B        => new or w1
    w1 w1=A w2@1        => w1
    w1 w1=B             => new
    w3 w1@1             => w1
";

#[test]
fn a_task_goes_to_the_worker_whose_turn_it_is() {
    for line in TURNS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (given, expected) = line.split_once("=>").expect("a => b");
        let mut words = given.split_whitespace();
        let gave = words.next().filter(|word| *word != "-");
        let newest = gave.map(|name| attempt(name, AttemptKind::Crew, true));
        let workers = words.map(|word| {
            let (name, rest) = word.split_at(2);
            match rest.split_at(1) {
                ("=", on) => Agent { task: Some(task_named(on)), ..worker(name) },
                ("!", _) => Agent { failed_at: Some(NOW), ..worker(name) },
                (_, at) => {
                    let at = Timestamp(at.parse().expect("a time"));
                    Agent { idle_since: Some(at), ..worker(name) }
                }
            }
        });
        let shown = match next_worker(workers.collect(), task_named("A"), newest.as_ref()) {
            NextWorker::Known(worker) => worker.id.to_string(),
            NextWorker::New { gave_back: None } => "new".into(),
            NextWorker::New { gave_back: Some(worker) } => format!("new or {}", worker.id),
        };
        assert_eq!(shown, expected.trim(), "{line}");
    }
    let supervisor = agent("s1", AgentType::Supervisor);
    assert!(!may_take(&supervisor, task_named("A")), "only workers work");
}

#[test]
fn who_gave_a_task_back_gets_it_again_only_when_alone() {
    for (gave_back, workers, expected) in [
        (true, 1, Choice::Worker(worker("w1"))),
        (true, 2, Choice::NotThisTask),
        (false, 0, Choice::NobodyFree),
        (false, 3, Choice::NobodyFree),
    ] {
        assert_eq!(without_new(gave_back.then(|| worker("w1")), workers), expected);
    }
    for (workers, max, full) in [(0, 0, true), (0, 1, false), (9, 10, false), (10, 10, true)] {
        assert_eq!(is_full(workers, max), full, "{workers} of {max}");
    }
}

#[test]
fn a_task_is_assigned_where_its_files_are() {
    let repo = |machine: &str| ProjectRepo {
        id: 1,
        project: 1,
        machine: machine.into(),
        path: "/srv/shop".into(),
        default_branch: None,
        position: 0,
    };
    for (machines, here) in [("", true), ("m1", true), ("m2", false), ("m2 m1", true)] {
        let repos: Vec<ProjectRepo> = machines.split_whitespace().map(repo).collect();
        assert_eq!(is_assigned_here(&repos, "m1"), here, "{machines}");
    }
}

#[test]
fn nothing_is_made_for_an_assignment_that_is_refused() {
    let of_epic = Task { parent: Some(task_named("E")), ..task() };
    let leads = |epic| Agent { epic: Some(task_named(epic)), ..agent("s1", AgentType::Supervisor) };
    let (own, other) = (leads("E"), leads("F"));
    let all = agent("o1", AgentType::Orchestrator);
    let held = attempt("w1", AttemptKind::Crew, false);
    for (by, to, newest, makes) in [
        (&own, worker("w1"), None, true),
        (&all, worker("w1"), None, true),
        (&other, worker("w1"), None, false),
        (&worker("w2"), worker("w1"), None, false),
        (&own, worker("w1"), Some(&held), false),
        (&own, worker("w2"), Some(&held), true),
        (&own, agent("s2", AgentType::Supervisor), None, false),
    ] {
        assert_eq!(makes_place(by, &to, &of_epic, newest, NOW), makes, "{} {}", by.id, to.id);
    }
    let plan = Task { is_plan: true, ..of_epic.clone() };
    for (is_new, kind, task, stands, makes) in [
        (true, AgentType::Worker, &of_epic, TaskState::Pending, true),
        (true, AgentType::Worker, &of_epic, TaskState::Blocked, true),
        (true, AgentType::Worker, &of_epic, TaskState::Review, false),
        (true, AgentType::Worker, &plan, TaskState::Pending, false),
        (true, AgentType::Supervisor, &of_epic, TaskState::Pending, false),
        (false, AgentType::Worker, &of_epic, TaskState::Pending, false),
    ] {
        assert_eq!(makes_place_for_new(is_new, kind, task, stands), makes, "{kind:?} {stands}");
    }
}

#[test]
fn a_task_waits_while_nothing_keeps_a_worker_from_it() {
    let card = Card { workspace: Some("task-a".into()), ..Card::default() };
    let epic = in_phase(Phase::Working);
    let blocked = Blocked { by: actor("w1"), at: NOW, reason: "waits".into() };
    let plain = task();
    let waits = |task: &Task| sweep::is_waiting(task, &card, None, &epic, NOW);
    for (task, is_waiting) in [
        (plain.clone(), true),
        (Task { open_deps: 1, ..task() }, false),
        (Task { assignee: Some(actor("w1")), ..task() }, false),
        (Task { blocked: Some(blocked), ..task() }, false),
        (Task { is_plan: true, ..task() }, false),
        (in_phase(Phase::Working), false),
        (in_phase(Phase::Review), false),
        (in_phase(Phase::ClosedDone), false),
        (in_phase(Phase::ClosedCanceled), false),
    ] {
        assert_eq!(waits(&task), is_waiting, "{task:?}");
    }
    assert!(!sweep::is_waiting(&plain, &Card::default(), None, &epic, NOW), "not a crew's");
    for (is_over, is_waiting) in [(true, true), (false, false)] {
        let newest = attempt("w1", AttemptKind::Crew, is_over);
        assert_eq!(sweep::is_waiting(&plain, &card, Some(&newest), &epic, NOW), is_waiting);
    }
    for (phase, is_waiting, is_orphan) in [
        (Phase::Initial, true, false),
        (Phase::Working, true, false),
        (Phase::Review, true, false),
        (Phase::ClosedDone, false, false),
        (Phase::ClosedCanceled, false, true),
    ] {
        let epic = in_phase(phase);
        assert_eq!(sweep::is_waiting(&plain, &card, None, &epic, NOW), is_waiting, "{phase:?}");
        assert_eq!(sweep::is_orphan(&plain, &epic), is_orphan, "{phase:?}");
        assert!(!sweep::is_orphan(&in_phase(Phase::ClosedDone), &epic), "over is over");
    }
}

#[test]
fn an_approved_merge_in_review_completes_its_task() {
    for (phase, found, expected) in [
        (Phase::Review, "merged+awaited@10", true),
        (Phase::Review, "merged+awaited@11", true),
        (Phase::Review, "merged+awaited@9", false),
        (Phase::Review, "merged@11", false),
        (Phase::Review, "merged@12 merged+awaited@11", true),
        (Phase::Review, "open merged+awaited@11", false),
        (Phase::Review, "closed merged+awaited@11", true),
        (Phase::Review, "open+job merged+awaited@11", true),
        (Phase::Review, "merged+awaited+job@11", false),
        (Phase::Review, "open", false),
        (Phase::Review, "", false),
        (Phase::Working, "merged+awaited@11", false),
        (Phase::ClosedDone, "merged+awaited@11", false),
    ] {
        let task = Task { phase_at: Timestamp(10), ..in_phase(phase) };
        let merged = done_by(&task, pulls(found));
        assert_eq!(merged.is_some(), expected, "{phase:?} {found}");
        assert!(merged.is_none_or(|pull| pull.status == MERGED && pull.job.is_none()));
    }
}

#[test]
fn a_worker_has_its_task_by_the_newest_attempt() {
    use AttemptKind::{Crew, Job};
    let open = in_phase(Phase::Working);
    let waits = Task { open_deps: 1, ..task() };
    let over = in_phase(Phase::ClosedDone);
    for (task, newest, has, at_post) in [
        (&open, Some(attempt("w1", Crew, false)), true, true),
        (&waits, Some(attempt("w1", Crew, false)), true, false),
        (&over, Some(attempt("w1", Crew, false)), false, false),
        (&open, Some(attempt("w1", Crew, true)), false, false),
        (&open, Some(attempt("w2", Crew, false)), false, false),
        (&open, Some(attempt("w1", Job, false)), false, false),
        (&open, None, false, false),
    ] {
        assert_eq!(sweep::has_task(&id("w1"), task, newest.as_ref(), NOW), has, "{newest:?}");
        assert_eq!(sweep::is_at_post(&id("w1"), task, newest.as_ref(), NOW), at_post, "{newest:?}");
    }
    let held = |by: &str| Task { assignee: Some(actor(by)), ..open.clone() };
    let live = attempt("w2", Crew, false);
    for (task, live, keeps) in [
        (open.clone(), None, true),
        (held("w1"), None, true),
        (held("w1"), Some(&live), true),
        (held("w2"), None, false),
        (open.clone(), Some(&live), false),
        (Task { assignee: Some(actor("w1")), ..over.clone() }, None, false),
    ] {
        assert_eq!(sweep::keeps_task(&id("w1"), &task, live), keeps, "{:?}", task.assignee);
    }
}

#[test]
fn an_agent_comments_in_its_own_epic() {
    let (a, e, f) = (task_named("A"), task_named("E"), task_named("F"));
    let with_task = Agent { task: Some(a), ..worker("w1") };
    let leads = Agent { epic: Some(e), ..agent("s1", AgentType::Supervisor) };
    let none = agent("s2", AgentType::Supervisor);
    let all = agent("o1", AgentType::Orchestrator);
    let b = task_named("B");
    for (who, own_parent, task, parent, may) in [
        (&with_task, Some(e), a, Some(e), true),
        (&with_task, Some(e), b, Some(e), true),
        (&with_task, Some(e), e, None, true),
        (&with_task, Some(e), b, Some(f), false),
        (&with_task, None, a, None, true),
        (&with_task, None, b, None, false),
        (&leads, None, b, Some(e), true),
        (&leads, None, e, None, true),
        (&leads, None, b, Some(f), false),
        (&none, None, b, None, false),
        (&all, None, b, Some(f), true),
    ] {
        let words = if may { "ok" } else { "Task does not belong to your epic" };
        assert_eq!(said(who.judge_comment(own_parent, task, parent)), words, "{}", who.id);
    }
    assert_eq!(said(with_task.own_task()), "ok");
    assert_eq!(said(worker("w1").own_task()), "Agent does not have a current task assigned");
    assert_eq!(said(leads.own_epic()), "ok");
    assert_eq!(said(none.own_epic()), "Agent does not have a current epic");
    let of_epic = |parent| said(crate::crew::agent::judge_of_epic(e, parent));
    assert_eq!(of_epic(Some(e)), "ok");
    assert_eq!(of_epic(Some(f)), "Task does not belong to this epic");
    assert_eq!(of_epic(None), "Task does not belong to this epic");
}

#[test]
fn a_mail_is_shown_to_its_sender_and_its_recipient() {
    for (from, to, reader, may) in [
        (Some("w1"), Some("s1"), Some("w1"), true),
        (Some("w1"), Some("s1"), Some("s1"), true),
        (Some("w1"), Some("s1"), Some("w2"), false),
        (Some("w1"), Some("s1"), None, false),
        (Some("w1"), None, None, true),
        (None, Some("w1"), None, true),
        (None, Some("w1"), Some("w2"), false),
    ] {
        let mail = Mail {
            id: MailId(Id(1)),
            from: from.map(id),
            to: to.map(id),
            subject: "A".into(),
            body: "B".into(),
            in_reply_to: None,
            created_at: NOW,
            read_at: None,
        };
        let judged = mail.judge_reader(reader.map(id).as_ref());
        assert_eq!(judged.is_ok(), may, "{from:?} {to:?} {reader:?}");
        assert!(matches!(judged, Ok(()) | Err(Refusal::MailOfAnother { .. })));
    }
}

#[test]
fn added_workers_are_numbered() {
    for (n, name) in [(1, "worker-1"), (12, "worker-12"), (u64::MAX, "worker-18446744073709551615")]
    {
        assert_eq!(names::worker(n).as_str(), name);
    }
}

#[test]
fn a_caller_is_the_actor_that_it_names() {
    for (expected, may) in [("agent:w1", true), ("w1", false), ("agent:w2", false), ("", false)] {
        let judged = crate::decide::judge_actor(expected, &"agent:w1".parse().expect("an actor"));
        assert_eq!(judged.is_ok(), may, "{expected}");
    }
}
