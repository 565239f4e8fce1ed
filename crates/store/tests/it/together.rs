//! Commands that go together share one commit: leases of many jobs, renewals, the end of a run with its artifacts.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::board::card::Mode;
use callboard_domain::board::plan::{PlanId, PlannedPriority, PlannedTask};
use callboard_domain::command::{Command, PlanPropose, RunSettle, RunSubmit};
use callboard_domain::event::EventName;
use callboard_domain::relay::spec::Priority;
use callboard_domain::runs::job::{JobId, JobState};
use callboard_domain::runs::run::{Artifact, ArtifactName, NewArtifact};
use callboard_store::{Applied, ApplyError, EventQuery, FileSpan};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};
use crate::runs::{end, lease, read, seen, submit, submitted};

conformance! {
    two_runners_that_lease_many_lease_each_job_once,
    a_refused_command_does_not_touch_the_others,
    leases_of_one_commit_do_not_pass_the_limit_together,
    a_limit_counts_what_ends_in_the_same_commit,
    submits_of_one_commit_do_not_pass_the_limit_together,
    expired_leases_among_others_go_to_the_next_runner,
    renewals_share_one_time,
    a_run_ends_with_its_artifacts_or_not_at_all,
    commands_about_their_org_are_judged_together,
    nothing_together_is_nothing,
}

/// Applies commands together; each answer is the code of its refusal, or empty.
async fn all(f: &Fixture, who: &str, commands: Vec<Command>) -> Vec<Result<Applied, &'static str>> {
    let ops = commands.into_iter().map(|command| f.op(who, command)).collect();
    let code = |error| match error {
        ApplyError::Refused(refusal) => refusal.code(),
        ApplyError::Store(error) => panic!("{error}"),
    };
    f.store.apply_all(ops).await.into_iter().map(|verdict| verdict.map_err(code)).collect()
}

fn codes(verdicts: &[Result<Applied, &'static str>]) -> Vec<&'static str> {
    verdicts.iter().map(|verdict| verdict.as_ref().err().copied().unwrap_or("")).collect()
}

async fn many(f: &Fixture, count: usize) -> Vec<JobId> {
    let submits =
        (0..count).map(|n| Command::RunSubmit(Box::new(submit(f, &n.to_string(), Priority::P1))));
    let made = all(f, "agent:w1", submits.collect()).await;
    made.into_iter().map(|made| seen(made.expect("accepted")).job.id).collect()
}

async fn two_runners_that_lease_many_lease_each_job_once(f: Fixture) {
    let servers = [Arc::new(f.neighbour().await), Arc::new(f)];
    for round in 0..3 {
        let submits = (0..40).map(|n| {
            Command::RunSubmit(Box::new(submit(&servers[0], &format!("{round}-{n}"), Priority::P1)))
        });
        let made = all(&servers[0], "agent:w1", submits.collect()).await;
        let jobs: Vec<JobId> =
            made.into_iter().map(|made| seen(made.expect("accepted")).job.id).collect();
        let asked = [0, 1].map(|n| {
            let (f, mut jobs) = (servers[n].clone(), jobs.clone());
            // One goes through the queue from its other end, so that the two meet in its middle.
            if n == 1 {
                jobs.reverse();
            }
            tokio::spawn(async move {
                let leases = jobs.iter().map(|job| lease(*job, &format!("m{n}"), 1000)).collect();
                let verdicts = all(&f, &format!("runner:r{n}"), leases).await;
                jobs.into_iter().zip(codes(&verdicts)).collect::<BTreeMap<_, _>>()
            })
        });
        let [one, two] = asked;
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        for job in &jobs {
            let mut verdicts = [one[job], two[job]];
            verdicts.sort_unstable();
            assert_eq!(verdicts, ["", "JOB_LOST"], "each job has one runner");
            let run = read(&servers[1], *job).await.record;
            let runner = if one[job].is_empty() { "runner:r0" } else { "runner:r1" };
            match run.job.state {
                JobState::Running { runner: holder, .. } => assert_eq!(holder.as_str(), runner),
                other => panic!("{other:?}"),
            }
            assert_eq!((run.job.tries, run.run.fence), (1, 1));
        }
    }
    servers[0].assert_sound().await;
}

async fn a_refused_command_does_not_touch_the_others(f: Fixture) {
    let jobs = many(&f, 3).await;
    f.done("agent:w1", Command::RunCancel { job: jobs[1] }).await;
    let before = f.store.last_seq().await.unwrap();
    let leases = jobs.iter().map(|job| lease(*job, "m1", 10)).collect();
    let verdicts = all(&f, "runner:r1", leases).await;
    assert_eq!(codes(&verdicts), ["", "JOB_LOST", ""]);
    let state = async |job| read(&f, job).await.record.job.state.as_str();
    assert_eq!(state(jobs[0]).await, "running");
    assert_eq!(state(jobs[1]).await, "canceled");
    assert_eq!(state(jobs[2]).await, "running");
    // Each answer has the number of its own last event, and the log has no gap.
    let last = |n: usize| verdicts[n].as_ref().unwrap().last_seq.unwrap();
    let query = EventQuery { after: before, limit: 100, ..EventQuery::default() };
    let events = f.store.events(query).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (before + 1..=last(2)).collect::<Vec<_>>());
    for n in [0, 2] {
        let event = events.iter().find(|event| event.seq == last(n)).unwrap();
        assert_eq!(event.name, EventName::JobStarted);
        assert_eq!(event.data["job"], jobs[n].to_string());
        assert_eq!(read(&f, jobs[n]).await.version, last(n));
    }
    f.assert_sound().await;
}

async fn leases_of_one_commit_do_not_pass_the_limit_together(f: Fixture) {
    let jobs = many(&f, 6).await;
    let leases = |machine: &str| jobs.iter().map(|job| lease(*job, machine, 2)).collect::<Vec<_>>();
    let verdicts = all(&f, "runner:r1", leases("m1")).await;
    assert_eq!(codes(&verdicts), ["", "", "RATE_LIMIT", "RATE_LIMIT", "RATE_LIMIT", "RATE_LIMIT"]);
    // Another machine has places of its own, and other orgs count on every machine.
    let verdicts = all(&f, "runner:r2", leases("m2")).await;
    assert_eq!(codes(&verdicts), ["JOB_LOST", "JOB_LOST", "", "", "RATE_LIMIT", "RATE_LIMIT"]);
    let home = f.store.settle(place("other")).await.unwrap();
    let theirs = submit(&f, "theirs", Priority::P1);
    let mut theirs = RunSubmit { project: home.project.id, ..theirs };
    theirs.task.prefix = home.project.prefix;
    let job = theirs.job;
    let op = |command| {
        let mut op = f.op("runner:r3", command);
        op.org = home.org.clone();
        op
    };
    f.store.apply(op(Command::RunSubmit(Box::new(theirs)))).await.unwrap();
    let ops = vec![
        f.op("runner:r3", lease(jobs[4], "m3", 2)),
        op(lease(job, "m3", 2)),
        f.op("runner:r3", lease(jobs[5], "m3", 2)),
    ];
    let verdicts = f.store.apply_all(ops).await;
    assert_eq!(verdicts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    f.assert_sound().await;
}

async fn a_limit_counts_what_ends_in_the_same_commit(f: Fixture) {
    let jobs = many(&f, 3).await;
    assert_eq!(f.code("runner:r1", lease(jobs[0], "m1", 1)).await, "");
    let steps = vec![lease(jobs[1], "m1", 1), end(jobs[0], 1, Vec::new()), lease(jobs[2], "m1", 1)];
    let verdicts = all(&f, "runner:r1", steps).await;
    assert_eq!(codes(&verdicts), ["RATE_LIMIT", "", ""]);
}

async fn submits_of_one_commit_do_not_pass_the_limit_together(f: Fixture) {
    let submits = (0..4).map(|n| {
        let submit = submit(&f, &n.to_string(), Priority::P1);
        Command::RunSubmit(Box::new(RunSubmit { open_max: 2, ..submit }))
    });
    let verdicts = all(&f, "agent:w1", submits.collect()).await;
    assert_eq!(codes(&verdicts), ["", "", "RATE_LIMIT", "RATE_LIMIT"]);
    // One key twice makes one job, also within a commit.
    let twice = ["k", "k"].map(|key| Command::RunSubmit(Box::new(submit(&f, key, Priority::P1))));
    let made = all(&f, "agent:w1", twice.into()).await;
    let ids: Vec<JobId> = made.into_iter().map(|made| seen(made.unwrap()).job.id).collect();
    assert_eq!(ids[0], ids[1]);
}

async fn expired_leases_among_others_go_to_the_next_runner(f: Fixture) {
    let jobs = many(&f, 2).await;
    assert_eq!(f.code("runner:r1", lease(jobs[0], "m1", 10)).await, "");
    f.clock.advance_ms(60_000);
    // Its time is over, but only a settled run is free again.
    let settle =
        Command::RunSettle(RunSettle { job: jobs[0], hold_s: 0, attempts_max: 3, is_gone: false });
    let steps = vec![
        lease(jobs[0], "m2", 10),
        settle.clone(),
        settle,
        lease(jobs[0], "m2", 10),
        lease(jobs[1], "m2", 10),
    ];
    let verdicts = all(&f, "runner:r2", steps).await;
    assert_eq!(codes(&verdicts), ["JOB_LOST", "", "", "", ""]);
    let run = read(&f, jobs[0]).await.record;
    assert_eq!((run.run.attempt, run.run.fence, run.job.tries), (2, 2, 2));
    // The first runner is late: its fence is an old one, and nothing of it is written.
    let late = vec![
        Command::RunKeep { job: jobs[0], fence: 1, lease_s: 60 },
        end(jobs[0], 1, vec![artifact("late", b"late")]),
    ];
    assert_eq!(codes(&all(&f, "runner:r1", late).await), ["JOB_LOST", "JOB_LOST"]);
    assert_eq!(f.store.file_get("default", "late", FileSpan::WHOLE).await.unwrap(), None);
    assert_eq!(read(&f, jobs[0]).await.record, run);
    f.assert_sound().await;
}

async fn renewals_share_one_time(f: Fixture) {
    let jobs = many(&f, 70).await;
    let leases = jobs.iter().map(|job| lease(*job, "m1", 1000)).collect();
    assert!(codes(&all(&f, "runner:r1", leases).await).iter().all(|code| code.is_empty()));
    f.clock.advance_ms(15_000);
    f.done("agent:w1", Command::RunCancel { job: jobs[7] }).await;
    let keep = |job: &JobId| Command::RunKeep { job: *job, fence: 1, lease_s: 60 };
    let verdicts = all(&f, "runner:r1", jobs.iter().map(keep).collect()).await;
    for (n, verdict) in verdicts.iter().enumerate() {
        match verdict {
            Err(code) => assert_eq!((n, *code), (7, "JOB_LOST")),
            Ok(applied) => {
                assert_eq!(applied.at, f.store.now(), "one commit, one time");
                let state = read(&f, jobs[n]).await.record.job.state;
                let runner = "runner:r1".parse().unwrap();
                assert_eq!(state, JobState::Running { runner, until: applied.at.plus_s(60) });
            }
        }
    }
    f.assert_sound().await;
}

fn artifact(file: &str, bytes: &[u8]) -> NewArtifact {
    let artifact = Artifact {
        name: ArtifactName::Logs,
        file: file.into(),
        size: bytes.len() as u64,
        sha256: "ab".repeat(32),
        fence: 1,
    };
    NewArtifact { artifact, bytes: Some(bytes.into()) }
}

async fn a_run_ends_with_its_artifacts_or_not_at_all(f: Fixture) {
    let jobs = many(&f, 2).await;
    let other = f.neighbour().await;
    for job in &jobs {
        f.done("runner:r1", lease(*job, "m1", 10)).await;
    }
    let patch = |file: &str| {
        let new = artifact(file, b"");
        let artifact = Artifact { name: ArtifactName::Patch, ..new.artifact };
        NewArtifact { artifact, ..new }
    };
    let left = vec![patch("a/patch"), artifact("a/logs", b"what it \0 printed")];
    f.done("runner:r1", end(jobs[0], 1, left)).await;
    let file = async |name: &str| {
        let found = other.store.file_get("default", name, FileSpan::WHOLE).await.unwrap();
        found.map(|file| (file.bytes, file.size, file.media_type, file.at))
    };
    let text = "text/plain".to_owned();
    let logs = b"what it \0 printed".to_vec();
    assert_eq!(file("a/logs").await, Some((logs, 17, text.clone(), f.store.now())));
    assert_eq!(file("a/patch").await, Some((Vec::new(), 0, text, f.store.now())));
    let seen = read(&other, jobs[0]).await;
    let names: Vec<_> = seen.record.run.artifact_names().map(ArtifactName::as_str).collect();
    assert_eq!(names, ["patch.diff", "logs.txt"]);
    assert_eq!(seen.version, f.store.last_seq().await.unwrap(), "the end is the newest step");
    // A run that was canceled meanwhile leaves nothing by its end.
    f.done("agent:w1", Command::RunCancel { job: jobs[1] }).await;
    let late = end(jobs[1], 1, vec![artifact("b/logs", b"late")]);
    assert_eq!(f.code("runner:r1", late).await, "JOB_LOST");
    assert_eq!(file("b/logs").await, None);
    f.assert_sound().await;
}

/// Each of these commands looks at other rows of its org.
async fn commands_about_their_org_are_judged_together(f: Fixture) {
    let plan = PlanId(next_id());
    let planned = PlannedTask {
        title: "t".into(),
        mode: Mode::Auto,
        description: String::new(),
        acceptance_criteria: Vec::new(),
        priority: PlannedPriority::High,
    };
    let propose = PlanPropose { plan, tasks: vec![planned], todos: Vec::new() };
    f.done("agent:w1", Command::PlanPropose(propose)).await;
    let commands = vec![
        Command::PlanReject { plan, words: None },
        Command::ProjectOpen { project: f.home.project.id },
    ];
    assert_eq!(codes(&all(&f, "human:ana", commands).await), ["", ""]);
}

async fn nothing_together_is_nothing(f: Fixture) {
    assert!(f.store.apply_all(Vec::new()).await.is_empty());
    assert_eq!(submitted(&f, "a", Priority::P1).await.job.tries, 0);
}
