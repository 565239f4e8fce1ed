//! What every store must do with jobs for agents.

use callboard_domain::board::card::Mode;
use callboard_domain::command::{
    CardUpdate, Command, JobEnd, RunEnd, RunLease, RunPr, RunSettle, RunSubmit, WorkPlace,
    WorkSubmit,
};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::pulls::{LOCAL, OPEN};
use callboard_domain::relay::RunVerdict;
use callboard_domain::relay::spec::Priority;
use callboard_domain::runs::job::{JobId, JobKind, JobState};
use callboard_domain::runs::run::{Artifact, ArtifactName, NewArtifact, RunRecord, Terminal};
use callboard_domain::runs::work::{Role, WorkOrder};
use callboard_store::{
    Applied, EventQuery, JobQuery, Outcome, RunOrder, RunPage, RunQuery, RunSeen, RunTail,
};
use serde_json::json;

use crate::conformance::conformance;
use crate::fixture::{Database, Fixture, next_id, place};

conformance! {
    a_job_is_read_back_whole,
    a_version_is_the_number_of_an_event_and_of_one_job,
    versions_of_older_stores_become_unique,
    of_many_submits_with_one_key_one_makes_a_job,
    the_queue_goes_by_priority_then_age,
    a_machine_has_so_many_places,
    what_time_does_is_found,
    closing_a_task_ends_its_job,
    jobs_are_forgotten_after_a_while,
    of_a_tasks_work_the_open_one_comes_first,
    a_stop_is_one_job_until_it_is_over,
    what_a_run_printed_so_far_is_its_own,
    somebody_follows_for_a_while,
    jobs_are_listed_open_ones_and_ended_ones,
    whoever_starts_agents_says_so,
}

pub const ODD: &str = "\u{1f980} 'patch' \\ \"é\"\n";

pub fn submit(f: &Fixture, key: &str, priority: Priority) -> RunSubmit {
    let spec = json!({
        "repo": {
            "type": "git",
            "url": "https://example.org/x.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": "t", "description": ODD, "acceptance": [ODD]},
        "scope": {"readPaths": ["src"], "fileGlobs": ["**/*.rs"], "disallowReformatting": true},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "m",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": priority.as_str(),
            "ttlS": 600,
        },
        "idempotencyKey": key.replace(char::is_control, ""),
    });
    RunSubmit {
        job: JobId(next_id()),
        task: TaskId { id: next_id(), prefix: f.home.project.prefix },
        project: f.home.project.id,
        spec: serde_json::from_value(spec).unwrap(),
        bound_to: None,
        webhook: None,
        window_s: 86_400,
        open_max: 1000,
    }
}

pub fn seen(applied: Applied) -> RunRecord {
    match applied.outcome {
        Outcome::Run(seen) => *seen,
        other => panic!("{other:?}"),
    }
}

pub async fn submitted(f: &Fixture, key: &str, priority: Priority) -> RunRecord {
    let command = Command::RunSubmit(Box::new(submit(f, key, priority)));
    seen(f.done("agent:w1", command).await)
}

pub fn lease(job: JobId, machine: &str, running_max: u32) -> Command {
    Command::RunLease(RunLease {
        kind: JobKind::Run,
        agent: None,
        job,
        attempt: AttemptId(next_id()),
        machine: machine.into(),
        running_max,
        lease_s: 60,
        early: false,
    })
}

pub async fn read(f: &Fixture, job: JobId) -> RunSeen {
    f.store.run("default", job).await.unwrap().unwrap()
}

/// The end of a run that succeeded, with these artifacts.
pub fn end(job: JobId, fence: u64, artifacts: Vec<NewArtifact>) -> Command {
    let (verdict, summary) = (RunVerdict::Succeeded, ODD.into());
    Command::RunEnd(Box::new(RunEnd { job, fence, verdict, summary, artifacts, used: None }))
}

pub fn pr(job: JobId, at: Option<(u64, String)>, status: &str) -> Command {
    Command::RunPr(RunPr {
        job,
        forge: if at.is_some() { "github" } else { LOCAL }.into(),
        repo: ODD.into(),
        at,
        status: status.into(),
        branch: "b".into(),
        base: "main".into(),
        head: "c0ffee".into(),
    })
}

/// A job with everything a job can have, as transfers must carry it.
pub async fn told(f: &Fixture) -> JobId {
    let job = submitted(f, ODD, Priority::P2).await.job.id;
    let fence = seen(f.done("runner:r1", lease(job, "m1", 3)).await).run.fence;
    let artifact = Artifact {
        name: ArtifactName::Patch,
        file: ODD.into(),
        size: 7,
        sha256: "ab".repeat(32),
        fence: 1,
    };
    let new = NewArtifact { artifact, bytes: None };
    f.done("runner:r1", Command::RunArtifact { job, fence, new }).await;
    let (text, command) = (ODD.to_owned(), Some(ODD.to_owned()));
    f.done("runner:r1", Command::RunAsk { job, fence, text, command }).await;
    f.done("runner:r1", pr(job, Some((7, ODD.into())), OPEN)).await;
    job
}

async fn a_job_is_read_back_whole(f: Fixture) {
    let job = told(&f).await;
    let other = f.neighbour().await;
    let here = read(&f, job).await;
    assert_eq!(read(&other, job).await, here);
    let run = &here.record.run;
    assert_eq!((run.attempt, run.fence), (1, 1));
    assert_eq!(here.version, f.store.last_seq().await.unwrap(), "the number of its newest event");
    assert_eq!(run.order.patch().unwrap().task.description, ODD);
    assert_eq!(run.artifact(ArtifactName::Patch).unwrap().file, ODD);
    assert_eq!(run.open_question().unwrap().number, 1);
    assert_eq!(run.pr.as_ref().unwrap().number, 7);
    assert_eq!(here.position, None, "only queued ones have a place");
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.run("other", job).await.unwrap(), None, "another org's");
    assert_eq!(f.store.run("default", JobId(next_id())).await.unwrap(), None);
    let end = end(job, 1, Vec::new());
    assert_eq!(f.code("runner:r1", end.clone()).await, "");
    assert_eq!(f.code("runner:r1", end).await, "JOB_LOST");
    assert_eq!(read(&other, job).await.record.job.state, JobState::Done { at: f.store.now() });
    f.assert_sound().await;
}

async fn a_version_is_the_number_of_an_event_and_of_one_job(f: Fixture) {
    let other = f.neighbour().await;
    let mut jobs = Vec::new();
    let mut newest = 0;
    for key in ["a", "b"] {
        jobs.push(submitted(&f, key, Priority::P1).await.job.id);
        f.create("in between", &[]).await;
    }
    // By turns, in two processes.
    for job in jobs.iter().cycle().take(6).copied() {
        let before = read(&f, job).await;
        let by = if newest % 2 == 0 { &f } else { &other };
        let step = match before.record.run.fence {
            0 => lease(job, "m1", 9),
            fence if before.record.run.question.is_none() => {
                Command::RunAsk { job, fence, text: "may I?".into(), command: None }
            }
            _ => Command::RunCancel { job },
        };
        by.done("runner:r1", step).await;
        let version = read(&f, job).await.version;
        assert!(version > newest, "{version} after {newest}");
        newest = version;
        let after = version - 1;
        let query = EventQuery { org: None, after, task: before.record.job.task, limit: 1 };
        let event = &f.store.events(query).await.unwrap()[0];
        assert_eq!((event.seq, event.data["job"].as_str().unwrap()), (version, &*job.to_string()));
        assert!(event.name.is_run_step(), "{event:?}");
    }
    let listed = RunQuery {
        org: "default".into(),
        state: None,
        order: RunOrder::Queue { offset: 0 },
        limit: 9,
    };
    let listed = f.store.runs(listed).await.unwrap().runs;
    for seen in &listed {
        assert_eq!(read(&other, seen.record.job.id).await.version, seen.version);
    }
    assert_ne!(listed[0].version, listed[1].version);
}

/// In older stores each job counted its own versions, and its events held them.
async fn versions_of_older_stores_become_unique(f: Fixture) {
    let jobs = [
        submitted(&f, "a", Priority::P1).await.job.id,
        submitted(&f, "b", Priority::P1).await.job.id,
    ];
    f.done("runner:r1", lease(jobs[1], "m1", 9)).await;
    let now = [read(&f, jobs[0]).await.version, read(&f, jobs[1]).await.version];
    let counted = ["job.submitted", "job.started"].into_iter().zip(1..).map(|(name, count)| {
        format!(
            "UPDATE events SET data = replace(data, '{{', '{{\"version\":{count},') \
             WHERE name = '{name}';"
        )
    });
    let back = counted.collect::<String>() + "UPDATE runs SET version = attempt + 1;";
    match &*f.place {
        Database::Folder(folder) => {
            let db = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
            db.execute_batch(&back).unwrap();
            db.execute_batch(&migration("sqlite")).unwrap();
        }
        Database::Schema(schema) => {
            let db = schema.connect().await;
            db.batch_execute(&back).await.unwrap();
            db.batch_execute(&migration("postgres")).await.unwrap();
        }
    }
    assert_eq!([read(&f, jobs[0]).await.version, read(&f, jobs[1]).await.version], now);
}

fn migration(database: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("src").join(database).join("migrations");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut named = files.filter(|path| path.to_string_lossy().ends_with("_run_versions.sql"));
    std::fs::read_to_string(named.next().unwrap()).unwrap()
}

async fn of_many_submits_with_one_key_one_makes_a_job(f: Fixture) {
    let other = f.neighbour().await;
    let mut asked = Vec::new();
    for n in 0..20 {
        let from = if n % 2 == 0 { &f } else { &other };
        let command = Command::RunSubmit(Box::new(submit(from, "one", Priority::P1)));
        let op = from.op(&format!("agent:w{n}"), command);
        let store = from.store.clone();
        asked.push(tokio::spawn(async move { store.apply(op).await }));
    }
    let mut jobs = Vec::new();
    let mut made = 0;
    for asked in asked {
        let applied = asked.await.unwrap().unwrap();
        made += usize::from(applied.last_seq.is_some());
        jobs.push(seen(applied).job.id);
    }
    jobs.dedup();
    assert_eq!((made, jobs.len()), (1, 1));
    assert_eq!(listed(&f, None, 0).await.total, 1);
    f.assert_sound().await;
}

async fn listed(f: &Fixture, state: Option<&'static str>, offset: usize) -> RunPage {
    let order = RunOrder::Queue { offset };
    let query = RunQuery { org: f.home.org.clone(), state, order, limit: 2 };
    f.store.runs(query).await.unwrap()
}

fn keys(page: &RunPage) -> Vec<&str> {
    page.runs.iter().map(|seen| seen.record.run.order.key()).collect()
}

async fn the_queue_goes_by_priority_then_age(f: Fixture) {
    for (key, priority) in
        [("a", Priority::P2), ("b", Priority::P1), ("c", Priority::P0), ("d", Priority::P0)]
    {
        submitted(&f, key, priority).await;
        f.clock.advance_ms(1);
    }
    let due = f.store.runs_due(JobKind::Run, "m1", 10).await.unwrap();
    let ranks: Vec<u16> = due.iter().map(|due| due.job.priority).collect();
    assert_eq!(ranks, [100, 100, 500, 900]);
    let (first, second) = (listed(&f, None, 0).await, listed(&f, None, 2).await);
    assert_eq!((keys(&first), keys(&second)), (vec!["c", "d"], vec!["b", "a"]));
    let places: Vec<_> = second.runs.iter().map(|seen| seen.position).collect();
    assert_eq!((places, second.total), (vec![Some(3), Some(4)], 4));
    f.done("runner:r1", lease(due[0].job.id, "m1", 1)).await;
    assert_eq!(keys(&listed(&f, Some("running"), 0).await), ["c"]);
    let rest = listed(&f, Some("queued"), 1).await;
    assert_eq!((keys(&rest), rest.total, rest.runs[0].position), (vec!["b", "a"], 3, Some(2)));
    let newest = RunQuery {
        org: f.home.org.clone(),
        state: None,
        order: RunOrder::NewestFirst { after: Some(due[1].job.id) },
        limit: 10,
    };
    assert_eq!(keys(&f.store.runs(newest).await.unwrap()), ["c", "b", "a"]);
}

async fn a_machine_has_so_many_places(f: Fixture) {
    let other = f.neighbour().await;
    let mut jobs = Vec::new();
    for key in ["a", "b", "c", "d", "e", "f"] {
        jobs.push(submitted(&f, key, Priority::P1).await.job.id);
    }
    let mut asked = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        let from = if n % 2 == 0 { &f } else { &other };
        let op = from.op(&format!("runner:r{n}"), lease(*job, "m1", 2));
        let store = from.store.clone();
        asked.push(tokio::spawn(async move { store.apply(op).await.is_ok() }));
    }
    let mut leased = 0;
    for asked in asked {
        leased += usize::from(asked.await.unwrap());
    }
    assert_eq!(leased, 2);
    assert_eq!(f.store.runs_on("m1").await.unwrap().len(), 2);
    assert_eq!(f.store.runs_on("m2").await.unwrap().len(), 0);
    f.assert_sound().await;
}

async fn what_time_does_is_found(f: Fixture) {
    let lost = submitted(&f, "lost", Priority::P1).await.job.id;
    f.done("runner:r1", lease(lost, "m1", 9)).await;
    let late = submitted(&f, "late", Priority::P1).await.job.id;
    assert_eq!(f.store.runs_overdue(10).await.unwrap().len(), 0);
    f.clock.advance_ms(60_000);
    let settle =
        |job| Command::RunSettle(RunSettle { job, hold_s: 5, attempts_max: 3, is_gone: false });
    let overdue = f.store.runs_overdue(10).await.unwrap();
    assert_eq!(overdue.iter().map(|due| due.job.id).collect::<Vec<_>>(), [lost]);
    f.done("system:clock", settle(lost)).await;
    f.clock.advance_ms(5000);
    f.done("system:clock", settle(lost)).await;
    assert_eq!(read(&f, lost).await.record.run.attempt, 2);
    f.clock.advance_ms(600_000);
    assert_eq!(f.store.runs_due(JobKind::Run, "m1", 10).await.unwrap(), []);
    for due in f.store.runs_overdue(10).await.unwrap() {
        f.done("system:clock", settle(due.job.id)).await;
    }
    for job in [lost, late] {
        assert_eq!(read(&f, job).await.record.job.state.as_str(), "expired");
    }
    f.assert_sound().await;
}

async fn closing_a_task_ends_its_job(f: Fixture) {
    for close in [true, false] {
        let job = submitted(&f, &format!("{close}"), Priority::P1).await.job;
        f.done("runner:r1", lease(job.id, "m1", 9)).await;
        let task = job.task.unwrap();
        let command = if close { f.to(task, "canceled") } else { Command::TaskRemove { task } };
        f.done("human:ana", command).await;
        assert_eq!(read(&f, job.id).await.record.job.state.as_str(), "canceled");
    }
    f.assert_sound().await;
}

async fn jobs_are_forgotten_after_a_while(f: Fixture) {
    let over = submitted(&f, "over", Priority::P1).await.job.id;
    f.done("human:ana", Command::RunCancel { job: over }).await;
    let open = submitted(&f, "open", Priority::P1).await.job.id;
    let ended = f.store.now();
    assert_eq!(f.store.runs_forget(ended).await.unwrap(), 0);
    assert_eq!(f.store.runs_forget(ended.plus_ms(1)).await.unwrap(), 1);
    assert_eq!(f.store.run("default", over).await.unwrap(), None);
    assert!(f.store.run("default", open).await.unwrap().is_some());
    f.assert_sound().await;
}

async fn auto(f: &Fixture) -> TaskId {
    let task = f.create("a", &[]).await;
    let update = CardUpdate { mode: Some(Mode::Auto), ..CardUpdate::of(task) };
    f.done("human:ana", Command::CardUpdate(Box::new(update))).await;
    task
}

async fn work(f: &Fixture, task: TaskId) -> JobId {
    let order = WorkOrder {
        role: Role::Worker,
        asked_by: "human:ana".parse().unwrap(),
        instructions: Some(ODD.into()),
        model: None,
    };
    let (job, bound_to) = (JobId(next_id()), Some("m1".to_owned()));
    let submit = WorkSubmit {
        job,
        task,
        order,
        bound_to,
        waits: false,
        ttl_s: 600,
        start: Default::default(),
    };
    seen(f.done("human:ana", Command::WorkSubmit(submit)).await).job.id
}

async fn of_a_tasks_work_the_open_one_comes_first(f: Fixture) {
    let (task, idle) = (auto(&f).await, auto(&f).await);
    let first = work(&f, task).await;
    assert_eq!(work(&f, task).await, first, "the one that waits is found");
    let fence = work_lease(&f, first).await;
    let place = WorkPlace { worktree: Some(ODD.into()), ..WorkPlace::default() };
    let terminal = Some(Terminal { session: ODD.into(), socket: "/run/s".into() });
    let up = Command::WorkUp { job: first, fence, place, terminal: terminal.clone() };
    assert_eq!(seen(f.done("runner:r1", up).await).terminal(), terminal.as_ref());
    let asked = work(&f, task).await;
    assert_ne!(asked, first, "what runs already is a question with an answer");
    let works = |each| {
        let store = f.store.clone();
        async move {
            let found = store.works("default", &[idle, task], each).await.unwrap();
            found.iter().map(|record| record.job.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(works(1).await, [first]);
    assert_eq!(works(9).await, [first, asked]);
    let waits = work(&f, auto(&f).await).await;
    let open = async |limit| {
        let open = f.store.works_open("default", limit).await.unwrap();
        open.iter().map(|record| record.job.id).collect::<Vec<_>>()
    };
    assert_eq!(open(9).await, [first, waits], "the oldest first");
    assert_eq!(open(1).await, [first]);
    f.done("human:ana", Command::RunCancel { job: waits }).await;
    assert_eq!(open(9).await, [first]);
    f.done("runner:r1", Command::WorkStop { job: first }).await;
    assert_eq!(works(9).await, [asked, first], "the newest, when none is open");
    f.assert_sound().await;
}

async fn a_stop_is_one_job_until_it_is_over(f: Fixture) {
    let task = auto(&f).await;
    let open = Some(work(&f, task).await);
    let stop = |open| Command::StopQueue { job: JobId(next_id()), task, open };
    let id = |applied: Applied| match applied.outcome {
        Outcome::Job(job) => *job,
        other => panic!("{other:?}"),
    };
    assert_eq!(f.code("human:ana", stop(None)).await, "NOT_RUNNING");
    let job = id(f.done("human:ana", stop(open)).await);
    assert_eq!((job.kind, job.task), (JobKind::Stop, Some(task)));
    assert_eq!(id(f.done("human:ana", stop(open)).await).id, job.id);
    let due = f.store.jobs_due(JobKind::Stop, 9).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id).collect::<Vec<_>>(), [job.id]);
    let taken = id(f.done("runner:r1", Command::JobTake { job: job.id, lease_s: 60 }).await);
    let end = Command::JobEnd { job: job.id, tries: taken.tries, end: JobEnd::Done };
    f.done("runner:r1", end).await;
    let read = f.store.job("default", job.id).await.unwrap().unwrap();
    assert!(matches!(read.state, JobState::Done { .. }), "{read:?}");
    assert_ne!(id(f.done("human:ana", stop(open)).await).id, job.id);
    f.assert_sound().await;
}

async fn work_lease(f: &Fixture, job: JobId) -> u64 {
    let Command::RunLease(lease) = lease(job, "m1", 3) else { panic!("a lease") };
    let agent = Some("agent:a".parse().unwrap());
    let lease = Command::RunLease(RunLease { kind: JobKind::Work, agent, ..lease });
    seen(f.done("runner:r1", lease).await).run.fence
}

async fn what_a_run_printed_so_far_is_its_own(f: Fixture) {
    let job = work(&f, auto(&f).await).await;
    let put = async |fence: u64, text: &str| {
        let before = f.store.last_seq().await.unwrap();
        f.store.run_tail_put("default", job, fence, text).await.unwrap();
        assert_eq!(f.store.last_seq().await.unwrap(), before, "nobody is told of it");
    };
    let tail = async || f.store.run_tail("default", job).await.unwrap();
    let said = |fence, text: &str| Some(RunTail { fence, text: text.to_owned() });
    put(0, "too early").await;
    assert_eq!(tail().await, None);
    let fence = work_lease(&f, job).await;
    put(fence, ODD).await;
    put(fence - 1, "of another").await;
    assert_eq!(tail().await, said(fence, ODD));
    put(fence, "more").await;
    assert_eq!(tail().await, said(fence, "more"));
    f.store.run_tail_drop(job, fence - 1).await.unwrap();
    assert_eq!(tail().await, said(fence, "more"));
    f.store.run_tail_drop(job, fence).await.unwrap();
    assert_eq!(tail().await, None);
    f.done("runner:r1", Command::WorkStop { job }).await;
    put(fence, "too late").await;
    assert_eq!(tail().await, None);
    f.assert_sound().await;
}

async fn somebody_follows_for_a_while(f: Fixture) {
    let [job, other] = [work(&f, auto(&f).await).await, work(&f, auto(&f).await).await];
    let store = f.neighbour().await.store;
    let follow = async |org: &str| store.run_follow(org, job).await;
    assert!(!f.store.run_is_followed(job).await.unwrap());
    let before = f.store.last_seq().await.unwrap();
    follow("default").await.unwrap();
    assert!(f.store.run_is_followed(job).await.unwrap(), "another process says so");
    assert!(!f.store.run_is_followed(other).await.unwrap());
    assert_eq!(f.store.last_seq().await.unwrap(), before, "no event says so");
    f.clock.advance_ms(6000);
    assert!(!f.store.run_is_followed(job).await.unwrap(), "it went away");
    f.assert_sound().await;
}

async fn jobs_are_listed_open_ones_and_ended_ones(f: Fixture) {
    let store = f.neighbour().await.store;
    let patch = submitted(&f, "k", Priority::P1).await.job.id;
    let [first, second] = [work(&f, auto(&f).await).await, work(&f, auto(&f).await).await];
    let listed = async |is_over, kinds: &[JobKind], state, limit| {
        let (org, kinds) = ("default".into(), kinds.to_vec());
        let jobs = store.jobs(JobQuery { org, is_over, kinds, state, limit }).await.unwrap();
        jobs.iter().map(|job| job.id).collect::<Vec<_>>()
    };
    let all = JobKind::ALL;
    assert_eq!(listed(false, &all, None, 9).await, [patch, first, second]);
    assert_eq!(listed(false, &[JobKind::Work], None, 1).await, [first]);
    assert!(listed(true, &all, None, 9).await.is_empty());
    for job in [second, patch] {
        f.done("human:ana", Command::RunCancel { job }).await;
        f.clock.advance_ms(1000);
    }
    assert_eq!(listed(false, &all, None, 9).await, [first]);
    assert_eq!(listed(true, &all, None, 9).await, [patch, second], "the newest end first");
    assert_eq!(listed(true, &[JobKind::Work], Some("canceled"), 9).await, [second]);
    assert!(listed(true, &all, Some("failed"), 9).await.is_empty());
}

async fn whoever_starts_agents_says_so(f: Fixture) {
    let store = f.neighbour().await.store;
    let [one, two] = ["runner:one-1-a", "runner:two-2-b"].map(|name| name.parse().unwrap());
    let seen = async || -> Vec<(String, String, i64)> {
        let seen = store.runners().await.unwrap();
        let each = |seen: callboard_store::RunnerSeen| {
            (seen.runner.to_string(), seen.machine, seen.seen_at.0)
        };
        seen.into_iter().map(each).collect()
    };
    f.store.runner_seen(&one, "m1").await.unwrap();
    f.store.runner_seen(&two, ODD).await.unwrap();
    let first = seen().await;
    assert_eq!(first.len(), 2);
    assert_eq!((first[0].0.as_str(), first[0].1.as_str()), ("runner:one-1-a", "m1"));
    assert_eq!(first[1].1, ODD);
    f.clock.advance_ms(30_000);
    f.store.runner_seen(&one, "m1").await.unwrap();
    let later = seen().await;
    assert!(later[0].2 > first[0].2 && later[1] == first[1], "{later:?}");
    f.store.runner_gone(&two).await.unwrap();
    assert_eq!(seen().await.len(), 1);
    f.clock.advance_ms(2 * 86_400_000);
    f.store.runner_seen(&two, "m2").await.unwrap();
    let left = seen().await;
    assert_eq!((left.len(), left[0].1.as_str()), (1, "m2"), "one was silent for a day");
}
