//! What every store must do with the job that runs a task's checks when it comes into review.

use callboard_domain::command::{Command, JobEnd, NewCheck};
use callboard_domain::ids::TaskId;
use callboard_domain::needs::check_job;
use callboard_domain::runs::job::{Job, JobKind, JobState};
use callboard_store::{JobQuery, Outcome};

use crate::conformance::conformance;
use crate::fixture::Fixture;

conformance! {
    a_task_in_review_has_one_check_job,
    a_check_job_that_is_asked_for_again_while_it_runs_goes_again,
}

async fn checked_task(f: &Fixture, title: &str) -> TaskId {
    let mut new = f.new_task(title, &[]);
    new.checks =
        vec![NewCheck { desc: "runs".into(), cmd: Some("true".into()), ..Default::default() }];
    let id = new.task;
    f.done("human:ana", Command::TaskCreate(new)).await;
    id
}

async fn asked(f: &Fixture, task: TaskId) -> Job {
    f.clock.advance_ms(1000);
    f.done("agent:w1", Command::ReviewRequest { task, summary: "done".into() }).await;
    job(f, task).await
}

async fn job(f: &Fixture, task: TaskId) -> Job {
    f.store.job("default", check_job(task)).await.unwrap().expect("a job")
}

async fn taken(f: &Fixture, task: TaskId) -> Job {
    let take = Command::JobTake { job: check_job(task), lease_s: 60 };
    match f.done("system:r1", take).await.outcome {
        Outcome::Job(job) => *job,
        other => panic!("{other:?}"),
    }
}

async fn ended(f: &Fixture, taken: &Job, passed: bool) -> JobState {
    let end = JobEnd::Checked { asked_at: taken.created_at, passed };
    let end = Command::JobEnd { job: taken.id, tries: taken.tries, end };
    match f.done("system:r1", end).await.outcome {
        Outcome::Job(job) => job.state,
        other => panic!("{other:?}"),
    }
}

/// The number of open check jobs.
async fn open(f: &Fixture) -> usize {
    let (org, kinds) = ("default".into(), vec![JobKind::Check]);
    let query = JobQuery { org, is_over: false, kinds, state: None, limit: 10 };
    f.store.jobs(query).await.unwrap().len()
}

async fn a_task_in_review_has_one_check_job(f: Fixture) {
    let (a, b) = (checked_task(&f, "a").await, checked_task(&f, "b").await);
    let plain = f.create("no checks", &[]).await;
    f.done("agent:w1", Command::ReviewRequest { task: plain, summary: "done".into() }).await;
    assert_eq!(f.store.job("default", check_job(plain)).await.unwrap(), None);
    let first = asked(&f, a).await;
    assert_eq!((first.kind, first.task, first.tries), (JobKind::Check, Some(a), 0));
    asked(&f, b).await;
    let due = f.store.jobs_due(JobKind::Check, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.task).collect::<Vec<_>>(), [Some(a), Some(b)]);
    assert_eq!(open(&f).await, 2);
    let mine = taken(&f, a).await;
    assert!(matches!(ended(&f, &mine, false).await, JobState::Failed { .. }));
    let again = asked(&f, a).await;
    assert!(matches!(again.state, JobState::Queued { .. }), "{again:?}");
    assert_eq!((again.id, again.tries), (first.id, 1), "the next try has another number");
    let mine = taken(&f, a).await;
    assert_eq!(mine.tries, 2);
    assert!(matches!(ended(&f, &mine, true).await, JobState::Done { .. }));
    assert_eq!(open(&f).await, 1);
    f.assert_sound().await;
}

async fn a_check_job_that_is_asked_for_again_while_it_runs_goes_again(f: Fixture) {
    let task = checked_task(&f, "a").await;
    asked(&f, task).await;
    let mine = taken(&f, task).await;
    let other = f.neighbour().await;
    other.clock.advance_ms(5_000);
    other.done("agent:w1", Command::ReviewRequest { task, summary: "more".into() }).await;
    let now = job(&f, task).await;
    assert!(matches!(now.state, JobState::Running { .. }), "it goes on: {now:?}");
    assert!(now.created_at > mine.created_at);
    assert!(matches!(ended(&f, &mine, true).await, JobState::Queued { .. }));
    let mine = taken(&f, task).await;
    assert!(matches!(ended(&f, &mine, true).await, JobState::Done { .. }));
}
