//! What every store must do with leases, comments, jobs and counters.

use std::sync::Arc;

use callboard_domain::command::{
    Command, CommentAdd, Found, JobEnd, LeaseComplete, LeaseTarget, LeaseUpdate, TaskEdit,
};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::runs::job::{Job, JobId, JobKind, JobState};
use callboard_domain::task::comment::{Comment, CommentId, CommentKind};
use callboard_domain::task::contract::{
    VerificationContract, VerificationKind, VerificationStatus,
};
use callboard_domain::time::Timestamp;
use callboard_store::{Applied, FreeQuery, Outcome, Place, RepoPlace};

use crate::conformance::conformance;
use crate::fixture::{Fixture, attempt_of, next_id, place, task_of};

conformance! {
    a_lease_is_taken_kept_and_completed,
    a_lease_that_is_over_is_anothers,
    a_holder_gives_its_task_back_or_up,
    of_many_leases_at_once_one_wins,
    contracts_and_outputs_are_read_back,
    a_verification_closes_its_task_through_its_job,
    what_a_verification_waits_for_wakes_its_job,
    of_many_runners_at_once_one_takes_the_job,
    a_runner_that_was_late_has_lost_its_job,
    a_task_has_one_verify_job_at_a_time,
    comments_are_kept_and_blockers_block,
    a_comment_is_retried_as_one,
    free_work_is_of_three_kinds,
    free_work_can_be_asked_for_in_parts,
    what_is_used_at_once_is_counted_at_once,
    leases_get_time_after_an_unwatched_minute,
    a_watched_lease_gets_no_time,
    a_project_knows_where_its_files_are,
}

pub fn take(task: TaskId, lease_s: u32) -> Command {
    Command::LeaseTake { attempt: AttemptId(next_id()), task, lease_s }
}

fn update(task: TaskId, to: LeaseTarget, fence: Option<u64>) -> Command {
    Command::LeaseUpdate(LeaseUpdate { task, fence, to, asked: "there", extend: true, note: None })
}

pub fn complete(task: TaskId, output: &str) -> Command {
    Command::LeaseComplete(LeaseComplete {
        task,
        fence: None,
        output: output.into(),
        external_ref: Some("https://forge.example/a/b/pull/1".into()),
        learnings: Vec::new(),
        over_quota: None,
        job: JobId(next_id()),
    })
}

/// A task whose completion is verified at a forge.
pub async fn create_judged(f: &Fixture, title: &str) -> TaskId {
    let mut new = f.new_task(title, &[]);
    new.verification = Some(VerificationContract::of(VerificationKind::GithubPr));
    let id = new.task;
    f.done("human:ana", Command::TaskCreate(new)).await;
    id
}

/// A task that was worked on and completed, so that its verify job is due.
pub async fn judged(f: &Fixture, title: &str) -> (TaskId, Job) {
    let task = create_judged(f, title).await;
    f.done("agent:w1", take(task, 60)).await;
    f.done("agent:w1", complete(task, "see the pull request")).await;
    let due = f.store.jobs_due(JobKind::Verify, 100).await.unwrap();
    let job = due.into_iter().map(|due| due.job).find(|job| job.task == Some(task));
    (task, job.expect("its verify job is due"))
}

fn job_take(job: &Job) -> Command {
    Command::JobTake { job: job.id, lease_s: 60 }
}

fn job_end(job: &Job, tries: u32, end: JobEnd) -> Command {
    Command::JobEnd { job: job.id, tries, end }
}

fn job_of(applied: &Applied) -> &Job {
    match &applied.outcome {
        Outcome::Job(job) => job,
        other => panic!("expected a job, got {other:?}"),
    }
}

async fn says_blocker(f: &Fixture, task: TaskId) -> CommentId {
    let blocker = comment(task, CommentKind::Blocker);
    f.done("agent:w1", Command::CommentAdd(blocker.clone())).await;
    blocker.comment
}

fn comment_of(applied: &Applied) -> &Comment {
    match &applied.outcome {
        Outcome::Comment(comment) => comment,
        other => panic!("expected a comment, got {other:?}"),
    }
}

async fn due(f: &Fixture) -> Vec<JobId> {
    let due = f.store.jobs_due(JobKind::Verify, 10).await.unwrap();
    due.into_iter().map(|due| due.job.id).collect()
}

async fn lease_end(f: &Fixture, task: TaskId) -> Option<Timestamp> {
    let newest = f.record(task).await.newest.expect("somebody took it");
    newest.lease().map(|lease| lease.expires_at)
}

async fn a_lease_is_taken_kept_and_completed(f: Fixture) {
    let task = f.create("a", &[]).await;
    let waits = f.create("b", &[task]).await;
    let taken = f.done("agent:w1", take(task, 60)).await;
    assert_eq!(*task_of(&taken), f.record(task).await, "the answer is what a later read sees");
    assert!(taken.before.expect("there was a task").is_free());
    assert_eq!(lease_end(&f, task).await, Some(taken.at.plus_s(60)));
    let again = f.done("agent:w1", take(task, 60)).await;
    assert_eq!(again.last_seq, None, "it is held already");
    assert!(again.before.expect("there was a task").held);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");

    f.clock.advance_ms(30_000);
    for _ in 0..3 {
        f.done("agent:w1", update(task, LeaseTarget::Working, Some(1))).await;
    }
    let kept = f.record(task).await;
    assert_eq!(kept.task.phase, Phase::Working);
    assert_eq!(lease_end(&f, task).await, Some(f.store.now().plus_s(60)));
    let did: Vec<&str> = kept.entries.iter().map(|entry| entry.did.as_str()).collect();
    assert_eq!(did, ["created", "claimed", "started", "heartbeat"], "idle ones are one line");

    let output = "what I did\n".repeat(1000);
    let done = f.done("agent:w1", complete(task, &output)).await;
    let record = f.record(task).await;
    assert_eq!(*task_of(&done), record);
    assert_eq!(record.task.phase, Phase::ClosedDone);
    let attempt = record.newest.expect("there was one").id;
    assert_eq!(f.store.output(attempt).await.unwrap(), Some(output));
    assert!(f.record(waits).await.task.is_ready());
    f.assert_sound().await;
}

async fn a_lease_that_is_over_is_anothers(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 60)).await;
    f.done("agent:w1", update(task, LeaseTarget::Working, None)).await;
    f.clock.advance_ms(59_999);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "ALREADY_CLAIMED");
    f.clock.advance_ms(1);
    let taken = f.done("agent:w2", take(task, 60)).await;
    assert!(taken.before.expect("there was a task").given_up);
    assert_eq!(task_of(&taken).task.fence, 2);
    assert_eq!(f.code("agent:w1", complete(task, "late")).await, "ALREADY_CLAIMED");
    let keep = |fence| update(task, LeaseTarget::Working, Some(fence));
    assert_eq!(f.code("agent:w2", keep(1)).await, "ALREADY_CLAIMED", "the fence of another");
    f.done("agent:w2", keep(2)).await;
    f.assert_sound().await;
}

async fn a_holder_gives_its_task_back_or_up(f: Fixture) {
    let task = f.create("a", &[]).await;
    f.done("agent:w1", take(task, 60)).await;
    f.done("agent:w1", update(task, LeaseTarget::Working, None)).await;
    f.done("agent:w1", update(task, LeaseTarget::Free, None)).await;
    assert_eq!(f.free(|_| {}).await, ["a"]);
    f.done("agent:w2", take(task, 60)).await;
    f.done("agent:w2", update(task, LeaseTarget::Canceled, None)).await;
    let record = f.record(task).await;
    assert_eq!((record.task.phase, record.task.assignee), (Phase::ClosedCanceled, None));
    f.assert_sound().await;
}

async fn of_many_leases_at_once_one_wins(f: Fixture) {
    let servers = [Arc::new(f.neighbour().await), Arc::new(f)];
    for round in 0..5 {
        let task = servers[0].create(&format!("wanted {round}"), &[]).await;
        let takes: Vec<_> = (0..64)
            .map(|n| {
                let f = servers[n % 2].clone();
                tokio::spawn(async move { f.code(&format!("agent:w{n}"), take(task, 60)).await })
            })
            .collect();
        let mut won = 0;
        for taken in takes {
            match taken.await.unwrap() {
                "" => won += 1,
                code => assert_eq!(code, "ALREADY_CLAIMED"),
            }
        }
        assert_eq!(won, 1, "round {round}");
    }
    servers[0].assert_sound().await;
}

async fn contracts_and_outputs_are_read_back(f: Fixture) {
    let plan = f.create("plan", &[]).await;
    let contract = VerificationContract {
        external_ref: Some("https://forge.example/a/b/pull/7".into()),
        required_checks: vec!["build".into()],
        branch: Some("main".into()),
        files: vec!["src/a \"b\".rs".into()],
        ..VerificationContract::of(VerificationKind::GithubPr)
    };
    let mut new = f.new_task("part", &[]);
    new.parent = Some(plan);
    new.verification = Some(contract.clone());
    new.execution_contract = Some(r#"{"steps": ["é"]}"#.into());
    let made = f.done("human:ana", Command::TaskCreate(new.clone())).await;
    let record = f.record(new.task).await;
    assert_eq!(*task_of(&made), record);
    assert_eq!(record.task.contract, Some(contract));
    assert_eq!(record.execution_contract, new.execution_contract);
    assert_eq!(record.task.verification, None);
    let updated_at = f.record(plan).await.task.updated_at;
    assert!(f.record(plan).await.task.is_plan, "it has a part now");
    assert_eq!(f.code("agent:w1", take(plan, 60)).await, "NOT_ACTIONABLE");
    f.clock.advance_ms(1);
    f.done("human:ana", Command::TaskCreate(f.new_task("other", &[]))).await;
    assert_eq!(f.record(plan).await.task.updated_at, updated_at);

    let edit = TaskEdit {
        task: new.task,
        title: None,
        body: Some("prose".into()),
        priority: None,
        checks: None,
    };
    let edited = f.done("human:ana", Command::TaskEdit(edit)).await;
    let record = f.record(new.task).await;
    assert_eq!(*task_of(&edited), record);
    assert_eq!(record.body, "prose");
    assert_eq!(record.execution_contract, new.execution_contract, "another text beside the body");

    f.done("agent:w1", take(new.task, 60)).await;
    let done = f.done("agent:w1", complete(new.task, "opened it")).await;
    let record = f.record(new.task).await;
    assert_eq!(*task_of(&done), record);
    let known = record.task.verification.expect("it is judged now");
    assert_eq!(known.status, VerificationStatus::Pending);
    assert_eq!(known.external_ref.as_deref(), Some("https://forge.example/a/b/pull/1"));
    assert_eq!(record.task.phase, Phase::Review);
    assert_eq!(f.store.output(AttemptId(next_id())).await.unwrap(), None);
    let reopened = f.done("human:ana", Command::TaskReopen { task: new.task }).await;
    assert_eq!(task_of(&reopened).task.verification, None);
    assert_eq!(*task_of(&reopened), f.record(new.task).await);
    f.assert_sound().await;
}

async fn a_verification_closes_its_task_through_its_job(f: Fixture) {
    let (task, job) = judged(&f, "a").await;
    let waits = f.create("b", &[task]).await;
    let found = |found| Command::VerificationJudge {
        job: job.id,
        tries: 1,
        found,
        checked: None,
        work: None,
    };
    assert_eq!(f.code("system:r1", found(Found::Passed)).await, "JOB_LOST", "not taken yet");
    f.done("system:r1", job_take(&job)).await;
    let pending = found(Found::Pending { reason: "verification.pr_not_merged".into() });
    let looked = f.done("system:r1", pending).await;
    assert_eq!(*task_of(&looked), f.record(task).await);
    assert_eq!(f.record(task).await.task.phase, Phase::Review);
    assert_eq!(due(&f).await, [], "later");
    f.clock.advance_ms(30_000);
    assert_eq!(due(&f).await, [job.id]);
    f.done("system:r1", job_take(&job)).await;
    let judge = Command::VerificationJudge {
        job: job.id,
        tries: 2,
        found: Found::Passed,
        checked: None,
        work: None,
    };
    f.done("system:r1", judge).await;
    assert_eq!(f.record(task).await.task.phase, Phase::ClosedDone);
    assert!(f.record(waits).await.task.is_ready(), "what waited for it may start");
    let over = f.store.job("default", job.id).await.unwrap().expect("there is such a job");
    assert!(over.is_over());
    f.assert_sound().await;
}

async fn what_a_verification_waits_for_wakes_its_job(f: Fixture) {
    let (task, job) = judged(&f, "a").await;
    let blocker = says_blocker(&f, task).await;
    f.done("system:r1", job_take(&job)).await;
    let found = Found::Passed;
    let judge =
        Command::VerificationJudge { job: job.id, tries: 1, found, checked: None, work: None };
    f.done("system:r1", judge).await;
    let known = f.record(task).await.task.verification.expect("it is judged");
    assert_eq!(known.reason.as_deref(), Some("verification.blocked_by_review"));
    assert_eq!(due(&f).await, []);
    f.done("human:ana", Command::CommentResolve { comment: blocker, words: None }).await;
    assert_eq!(due(&f).await, [job.id], "at once");
}

async fn of_many_runners_at_once_one_takes_the_job(f: Fixture) {
    let servers = [Arc::new(f.neighbour().await), Arc::new(f)];
    for round in 0..5 {
        let (_, job) = judged(&servers[0], &format!("a{round}")).await;
        let takes: Vec<_> = (0..32)
            .map(|n| {
                let (f, take) = (servers[n % 2].clone(), job_take(&job));
                tokio::spawn(async move { f.code(&format!("system:r{n}"), take).await })
            })
            .collect();
        let mut won = 0;
        for taken in takes {
            match taken.await.unwrap() {
                "" => won += 1,
                code => assert_eq!(code, "JOB_LOST"),
            }
        }
        assert_eq!(won, 1, "round {round}");
        let taken = servers[1].store.job("default", job.id).await.unwrap().expect("it is there");
        assert_eq!(taken.tries, 1);
    }
    servers[0].assert_sound().await;
}

async fn a_runner_that_was_late_has_lost_its_job(f: Fixture) {
    let (task, job) = judged(&f, "a").await;
    assert_eq!((job.kind, job.task, job.tries), (JobKind::Verify, Some(task), 0));
    assert_eq!(f.store.job("default", job.id).await.unwrap().as_ref(), Some(&job));
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.job("other", job.id).await.unwrap(), None);
    let taken = f.done("system:r1", job_take(&job)).await;
    let until = taken.at.plus_s(60);
    let runner = "system:r1".parse().unwrap();
    assert_eq!(job_of(&taken).state, JobState::Running { runner, until });
    assert_eq!(f.code("system:r2", job_take(&job)).await, "JOB_LOST");
    f.clock.advance_ms(30_000);
    let keep = |tries| Command::JobKeep { job: job.id, tries, lease_s: 60 };
    f.done("system:r1", keep(1)).await;
    assert_eq!(f.code("system:r2", keep(1)).await, "JOB_LOST");
    f.clock.advance_ms(59_999);
    assert_eq!(due(&f).await, []);
    f.clock.advance_ms(1);
    assert_eq!(due(&f).await, [job.id], "its runner went away");
    assert_eq!(f.code("system:r1", keep(1)).await, "JOB_LOST");
    f.done("system:r1", job_take(&job)).await;
    let late = job_end(&job, 1, JobEnd::Done);
    assert_eq!(f.code("system:r1", late).await, "JOB_LOST", "an older try of the same runner");
    f.done("system:r1", job_end(&job, 2, JobEnd::Again { after_s: 10 })).await;
    assert_eq!(due(&f).await, []);
    f.clock.advance_ms(10_000);
    assert_eq!(due(&f).await, [job.id]);
    f.done("system:r2", job_take(&job)).await;
    let failed = JobEnd::Failed { reason: "no token".into() };
    let ended = f.done("system:r2", job_end(&job, 3, failed)).await;
    let known = f.store.job("default", job.id).await.unwrap();
    assert_eq!(known.as_ref(), Some(job_of(&ended)));
    assert_eq!(job_of(&ended).state.as_str(), "failed");
    assert_eq!(due(&f).await, []);
    assert_eq!(f.code("system:r2", job_take(&job)).await, "JOB_LOST");
    let unknown = Command::JobTake { job: JobId(next_id()), lease_s: 60 };
    assert_eq!(f.code("system:r2", unknown).await, "JOB_LOST");
    let of_embed = f.store.jobs_due(JobKind::Embed, 10).await.unwrap();
    assert_eq!(of_embed, [], "another kind");
}

async fn a_task_has_one_verify_job_at_a_time(f: Fixture) {
    let (task, job) = judged(&f, "a").await;
    let servers = [Arc::new(f.neighbour().await), Arc::new(f)];
    let queue = || Command::VerificationQueue { task, job: JobId(next_id()) };
    let queue_often = async || {
        let all = (0..32).map(|n| {
            let (f, queue) = (servers[n % 2].clone(), queue());
            tokio::spawn(async move { f.code("agent:w1", queue).await })
        });
        for queued in all.collect::<Vec<_>>() {
            assert_eq!(queued.await.unwrap(), "");
        }
    };
    queue_often().await;
    let f = &servers[0];
    assert_eq!(due(f).await, [job.id], "the one that is under way is moved up");
    f.done("system:r1", job_take(&job)).await;
    f.done("system:r1", job_end(&job, 1, JobEnd::Done)).await;
    assert_eq!(due(f).await, []);
    let applied = f.done("agent:w1", queue()).await;
    assert!(applied.queued.jobs, "the process that queued it need not poll");
    queue_often().await;
    let next = due(f).await;
    assert_eq!(next.len(), 1, "a new one, once");
    assert_ne!(next, [job.id]);
    f.assert_sound().await;
}

pub fn comment(task: TaskId, kind: CommentKind) -> CommentAdd {
    CommentAdd {
        comment: CommentId(next_id()),
        task,
        kind,
        body: format!("a {}", kind.as_str()),
        rationale: kind.needs_rationale().then(|| "because".into()),
        parent: None,
    }
}

async fn comments_are_kept_and_blockers_block(f: Fixture) {
    let task = f.create("a", &[]).await;
    let question = comment(task, CommentKind::Question);
    let asked = f.done("agent:w1", Command::CommentAdd(question.clone())).await;
    let answer = CommentAdd { parent: Some(question.comment), ..comment(task, CommentKind::Note) };
    let answered = f.done("human:ana", Command::CommentAdd(answer.clone())).await;
    let deeper = CommentAdd { parent: Some(answer.comment), ..comment(task, CommentKind::Note) };
    assert_eq!(f.code("agent:w1", Command::CommentAdd(deeper)).await, "INVALID_INPUT");
    let elsewhere = f.create("b", &[]).await;
    let astray =
        CommentAdd { parent: Some(question.comment), ..comment(elsewhere, CommentKind::Note) };
    assert_eq!(f.code("agent:w1", Command::CommentAdd(astray)).await, "COMMENT_NOT_FOUND");
    let mut blockers = Vec::new();
    for _ in 0..3 {
        blockers.push(says_blocker(&f, task).await);
    }
    let fourth = Command::CommentAdd(comment(task, CommentKind::Blocker));
    assert_eq!(f.code("agent:w1", fourth).await, "INVARIANT_VIOLATED");
    assert_eq!(f.record(task).await.task.open_blockers, 3);
    assert_eq!(f.code("agent:w2", take(task, 60)).await, "NOT_ACTIONABLE");
    assert_eq!(f.free(|_| {}).await, ["b"]);
    f.assert_sound().await;

    let known = f.store.comments("default", task).await.unwrap();
    let newest_first = [blockers[2], blockers[1], blockers[0], answer.comment, question.comment];
    assert_eq!(known.iter().map(|c| c.id).collect::<Vec<_>>(), newest_first);
    assert_eq!([&known[3], &known[4]], [comment_of(&answered), comment_of(&asked)]);
    assert_eq!(known[0].rationale.as_deref(), Some("because"));

    let resolve = |comment| Command::CommentResolve { comment, words: Some("it is not so".into()) };
    assert_ne!(f.code("agent:w2", resolve(blockers[0])).await, "", "somebody else's");
    for blocker in &blockers {
        f.done("human:ana", resolve(*blocker)).await;
    }
    let again = f.done("human:ana", resolve(blockers[0])).await;
    assert_eq!(again.last_seq, None);
    let known = f.store.comments("default", task).await.unwrap();
    assert_eq!(known.iter().find(|c| c.id == blockers[0]), Some(comment_of(&again)));
    let one = f.store.comment("default", blockers[0]).await.unwrap();
    assert_eq!(one.as_ref(), Some(comment_of(&again)));
    let resolved = comment_of(&again).resolved.clone().expect("it is");
    assert_eq!(resolved.by.as_str(), "human:ana");
    assert_eq!(resolved.words.as_deref(), Some("it is not so"));
    assert_eq!(f.record(task).await.task.open_blockers, 0);
    f.done("agent:w2", take(task, 60)).await;
    f.assert_sound().await;

    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.comments("other", task).await.unwrap(), []);
    assert_eq!(f.store.comment("other", blockers[0]).await.unwrap(), None);
    f.done("human:ana", Command::TaskRemove { task }).await;
    assert_eq!(f.store.comments("default", task).await.unwrap(), []);
    assert_eq!(f.store.comment("default", blockers[0]).await.unwrap(), None);
    assert_eq!(f.code("human:ana", resolve(question.comment)).await, "COMMENT_NOT_FOUND");
}

async fn a_comment_is_retried_as_one(f: Fixture) {
    let task = f.create("a", &[]).await;
    let keyed = || {
        let add = Command::CommentAdd(comment(task, CommentKind::Note));
        let mut op = f.op("agent:w1", add);
        op.retry_key = f.key("k");
        f.store.apply(op)
    };
    let first = keyed().await.unwrap();
    let again = keyed().await.unwrap();
    assert_eq!(comment_of(&again), comment_of(&first));
    assert_eq!(again.last_seq, None);
    assert_eq!(f.store.comments("default", task).await.unwrap().len(), 1);

    let (_, job) = judged(&f, "b").await;
    let take = || {
        let mut op = f.op("system:r1", job_take(&job));
        op.retry_key = f.key("k");
        f.store.apply(op)
    };
    let first = take().await.unwrap();
    assert_eq!(job_of(&take().await.unwrap()), job_of(&first));
}

async fn free_work_is_of_three_kinds(f: Fixture) {
    let tasks = [f.create("untouched", &[]).await, f.create("canceled", &[]).await];
    let lapses = f.create("lapses", &[]).await;
    let waits = f.create("waits", &tasks[..1]).await;
    let finished = f.create("finished", &[]).await;
    let began = f.done("agent:w1", f.begin(tasks[1], "k", None)).await;
    let attempt = attempt_of(&began).id;
    assert_eq!(f.free(|_| {}).await, ["untouched", "lapses", "finished"]);
    f.done("agent:w1", Command::AttemptCancel { attempt, reason: "no".into() }).await;
    f.done("agent:w1", Command::TaskRelease { task: tasks[1] }).await;
    assert_eq!(f.record(tasks[1]).await.task.phase, Phase::Working, "as it was left");
    let began = f.done("agent:w1", f.begin(finished, "k", None)).await;
    let attempt = attempt_of(&began).id;
    let finish = Command::AttemptFinish { attempt, summary: "did".into(), head: None, tree: None };
    f.done("agent:w1", finish).await;
    f.done("agent:w1", take(lapses, 60)).await;
    f.done("agent:w1", update(lapses, LeaseTarget::Working, None)).await;
    assert_eq!(f.free(|_| {}).await, ["untouched", "canceled"]);
    f.clock.advance_ms(60_000);
    assert_eq!(f.free(|_| {}).await, ["untouched", "canceled", "lapses"]);
    assert_eq!(f.free(|query| query.limit = 2).await, ["untouched", "canceled"]);
    f.done("agent:w2", take(lapses, 60)).await;
    assert_eq!(f.free(|_| {}).await, ["untouched", "canceled"]);
    f.done("agent:w3", take(tasks[1], 60)).await;
    f.done("human:ana", Command::TaskRemove { task: tasks[0] }).await;
    assert_eq!(f.free(|_| {}).await, ["waits"]);
    f.done("agent:w1", take(waits, 60)).await;
    f.assert_sound().await;
}

async fn free_work_can_be_asked_for_in_parts(f: Fixture) {
    let plan = f.create("plan", &[]).await;
    let add = async |title: &str, parent: TaskId, priority: u16| {
        let mut new = f.new_task(title, &[]);
        (new.parent, new.priority) = (Some(parent), priority);
        f.done("human:ana", Command::TaskCreate(new.clone())).await;
        new.task
    };
    let part = add("part", plan, 300).await;
    let leaf = add("leaf", part, 400).await;
    let lapses = add("lapses", part, 100).await;
    f.create("beside", &[]).await;
    let mut urgent = f.new_task("urgent", &[]);
    urgent.priority = 10;
    f.done("human:ana", Command::TaskCreate(urgent)).await;

    let repo = RepoPlace { machine: "laptop".into(), path: "/src/shop".into() };
    let shop = Place { project_name: "shop".into(), repo: Some(repo), ..Place::of_org("default") };
    let shop = f.store.settle(shop).await.unwrap().project;
    assert_ne!(shop.id, f.home.project.id);
    let mut new = f.new_task("in the shop", &[]);
    (new.project, new.priority, new.task.prefix) = (shop.id, 200, shop.prefix);
    f.done("human:ana", Command::TaskCreate(new)).await;

    let all = ["urgent", "lapses", "in the shop", "leaf", "beside"];
    assert_eq!(f.free(|_| {}).await, all, "plans are no work");
    assert_eq!(f.free(|query| query.limit = 3).await, all[..3]);
    let of_shop = f.free(|query| query.project = Some(shop.id)).await;
    assert_eq!(of_shop, ["in the shop"]);
    let ours = f.free(|query| query.project = Some(f.home.project.id)).await;
    assert_eq!(ours, ["urgent", "lapses", "leaf", "beside"]);
    assert_eq!(f.free(|query| query.priority_max = Some(200)).await, all[..3]);
    assert_eq!(f.free(|query| query.below = Some(plan)).await, ["lapses", "leaf"]);
    let soon = |query: &mut FreeQuery| {
        (query.below, query.priority_max) = (Some(plan), Some(100));
    };
    assert_eq!(f.free(soon).await, ["lapses"]);
    assert_eq!(f.free(|query| query.below = Some(leaf)).await, Vec::<String>::new());
    f.done("agent:w1", take(lapses, 60)).await;
    assert_eq!(f.free(|query| query.below = Some(part)).await, ["leaf"]);
    f.clock.advance_ms(60_000);
    assert_eq!(f.free(|query| query.below = Some(part)).await, ["lapses", "leaf"]);
    assert_eq!(f.free(|_| {}).await, all);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.free(|query| query.org = "other".into()).await, Vec::<String>::new());
}

async fn what_is_used_at_once_is_counted_at_once(f: Fixture) {
    let servers = [Arc::new(f.neighbour().await), Arc::new(f)];
    let adds = (0..20).map(|n| {
        let f = servers[n % 2].clone();
        tokio::spawn(async move { f.store.quota_add("default", "embeddings", "2026-05", 1).await })
    });
    for added in adds.collect::<Vec<_>>() {
        added.await.unwrap().unwrap();
    }
    let f = &servers[0];
    let used = async |org, metric, period| f.store.quota_used(org, metric, period).await.unwrap();
    assert_eq!(used("default", "embeddings", "2026-05").await, 20);
    assert_eq!(used("default", "embeddings", "2026-06").await, 0);
    assert_eq!(used("default", "other", "2026-05").await, 0);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(used("other", "embeddings", "2026-05").await, 0);
    f.store.quota_add("default", "embeddings", "2026-05", 1_000_000).await.unwrap();
    assert_eq!(used("default", "embeddings", "2026-05").await, 1_000_020);
    assert!(f.store.quota_add("nobody", "embeddings", "2026-05", 1).await.is_err());
}

async fn leases_get_time_after_an_unwatched_minute(f: Fixture) {
    let (lapsed, live) = (f.create("a", &[]).await, f.create("b", &[]).await);
    let (long, none) = (f.create("c", &[]).await, f.create("d", &[]).await);
    f.done("agent:w1", take(lapsed, 10)).await;
    f.done("agent:w2", take(live, 30)).await;
    f.done("agent:w3", take(long, 3600)).await;
    f.done("agent:w4", f.begin(none, "k", None)).await;
    f.clock.advance_ms(10_000);
    let start = f.store.now();
    assert_eq!(f.store.tick().await.unwrap(), 0);
    f.clock.sleep_ms(61_000);
    let neighbour = f.neighbour().await;
    neighbour.clock.advance_ms(10_000);
    neighbour.clock.sleep_ms(61_000);
    assert_eq!(neighbour.store.tick().await.unwrap(), 1);
    assert_eq!(f.store.tick().await.unwrap(), 0, "once is enough");
    assert_eq!(lease_end(&f, live).await, Some(start.plus_s(121)), "a minute from now");
    assert_eq!(lease_end(&f, lapsed).await, Some(start), "it was over while a process watched");
    assert_eq!(lease_end(&f, long).await, Some(start.plus_s(3590)), "it has time enough");
    assert_eq!(lease_end(&f, none).await, None);
    assert_eq!(f.code("agent:w5", take(live, 60)).await, "ALREADY_CLAIMED");
    f.done("agent:w2", update(live, LeaseTarget::Working, None)).await;
    f.done("agent:w5", take(lapsed, 60)).await;
    f.assert_sound().await;
}

async fn a_watched_lease_gets_no_time(f: Fixture) {
    let task = f.create("a", &[]).await;
    assert_eq!(f.store.tick().await.unwrap(), 0, "there is nothing to watch");
    let taken = f.done("agent:w1", take(task, 30)).await;
    f.clock.sleep_ms(20_000);
    let other = f.create("b", &[]).await;
    f.clock.sleep_ms(59_000);
    assert_eq!(f.store.tick().await.unwrap(), 0, "a write of this process judged the leases");
    f.clock.sleep_ms(59_000);
    assert_eq!(f.store.tick().await.unwrap(), 0);
    assert_eq!(lease_end(&f, task).await, Some(taken.at.plus_s(30)));
    f.done("agent:w2", take(task, 30)).await;
    f.done("agent:w3", take(other, 30)).await;
}

async fn a_project_knows_where_its_files_are(f: Fixture) {
    assert_eq!(f.store.repo(f.home.project.id).await.unwrap(), None);
    let repo = |path: &str| RepoPlace { machine: "laptop".into(), path: path.into() };
    let mut shop = Place { project_name: "shop".into(), ..Place::of_org("default") };
    for path in ["/src/shop", "/other/shop"] {
        shop.repo = Some(repo(path));
        let project = f.store.settle(shop.clone()).await.unwrap().project;
        let known = f.store.repo(project.id).await.unwrap().expect("it is in a repository");
        assert_eq!((known.machine.as_str(), known.path.to_str()), ("laptop", Some(path)));
    }
}
