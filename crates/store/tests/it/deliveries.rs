//! What every store must do with messages about jobs, their secrets, and pull requests.

use std::sync::Arc;

use callboard_domain::command::{Command, MailSend, TaskCreate};
use callboard_domain::crew::MailId;
use callboard_domain::policy::Policy;
use callboard_domain::pulls::{MERGED, OPEN};
use callboard_domain::relay::spec::Priority;
use callboard_domain::runs::delivery::{Receipt, Topic, Webhook};
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_store::{PullOf, PullQuery};
use serde_json::json;

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};
use crate::runs::{ODD, lease, pr, read, seen, submit, submitted};

conformance! {
    an_end_is_queued_for_whoever_wants_to_know,
    an_event_is_queued_with_what_it_tells_of,
    a_secret_stays_the_first_one,
    pull_requests_are_numbered_per_org,
    what_belongs_to_a_job_is_forgotten_with_it,
}

/// A canceled job, and the job that sends the message about it.
pub async fn canceled(f: &Fixture, key: &str) -> (JobId, JobId) {
    let mut new = submit(f, key, Priority::P1);
    let delivery = JobId(next_id());
    new.webhook = Some(Webhook { delivery, url: ODD.into() });
    let job = new.job;
    f.done("agent:w1", Command::RunSubmit(Box::new(new))).await;
    f.done("human:ana", Command::RunCancel { job }).await;
    (job, delivery)
}

pub async fn tried(f: &Fixture, (about, job): (JobId, JobId), tries: u32, receipt: Receipt) {
    f.done("runner:r1", Command::JobTake { job, lease_s: 60 }).await;
    let (to, about) = ("https://x".into(), Topic::Job(about));
    f.done("runner:r1", Command::DeliveryTry { job, tries, about, to, receipt }).await;
}

async fn an_end_is_queued_for_whoever_wants_to_know(f: Fixture) {
    let told = canceled(&f, "a").await;
    let other = f.neighbour().await;
    let due = other.store.jobs_due(JobKind::Deliver, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id).collect::<Vec<_>>(), [told.1]);
    let letter = other.store.delivery("default", told.1).await.unwrap().unwrap();
    assert_eq!((letter.about, letter.url.as_str()), (Topic::Job(told.0), ODD));
    assert_eq!((letter.kind.as_str(), &letter.data["state"]), ("job.failed", &"CANCELED".into()));
    assert_eq!((letter.ended_at, &letter.tried), (f.store.now(), &None));
    assert_eq!(read(&f, told.0).await.record.run.webhook.unwrap().delivery, told.1);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.delivery("other", told.1).await.unwrap(), None, "another org's");
    assert_eq!(f.store.delivery("default", told.0).await.unwrap(), None, "no message");

    tried(&f, told, 1, Receipt::Failed(ODD.into())).await;
    assert_eq!(f.store.jobs_due(JobKind::Deliver, 10).await.unwrap(), []);
    let listed = other.store.deliveries("default", 10).await.unwrap();
    let [(job, again)] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((job.state.as_str(), job.tries), ("queued", 1));
    assert_eq!(again.tried.as_ref().unwrap().outcome, ODD);
    assert_eq!(again.message_id(), letter.message_id());
    f.clock.advance_ms(5000);
    tried(&f, told, 2, Receipt::Taken).await;
    let newer = canceled(&f, "b").await;
    let listed = other.store.deliveries("default", 10).await.unwrap();
    let states: Vec<_> = listed.iter().map(|(job, _)| (job.id, job.state.as_str())).collect();
    assert_eq!(states, [(newer.1, "queued"), (told.1, "done")]);
    assert_eq!(f.store.deliveries("default", 1).await.unwrap().len(), 1);
    for (below, older) in [(newer.1, vec![told.1]), (told.1, vec![]), (told.0, vec![])] {
        let found = other.store.deliveries_below("default", below, 10).await.unwrap();
        assert_eq!(found.iter().map(|(job, _)| job.id).collect::<Vec<_>>(), older);
    }
    assert_eq!(f.store.deliveries_below("other", newer.1, 10).await.unwrap(), [], "another org's");
    f.assert_sound().await;
}

async fn an_event_is_queued_with_what_it_tells_of(mut f: Fixture) {
    let untold = f.create("untold", &[]).await;
    let mut policy = Policy::default();
    policy.webhook = Some(ODD.into());
    f.policy = Arc::new(policy);
    let new = TaskCreate { parent: Some(untold), ..f.new_task(ODD, &[]) };
    let task = new.task;
    f.done("agent:w1", Command::TaskCreate(new)).await;
    f.clock.advance_ms(1);
    let mail = MailId(next_id());
    let send = |mail, subject: &str| {
        let (subject, body) = (subject.into(), "not told".into());
        Command::MailSend(MailSend { mail, from: None, to: None, subject, body })
    };
    f.done("agent:w1", send(mail, ODD)).await;
    f.done("agent:w1", send(mail, ODD)).await;
    let blank = f.store.apply(f.op("agent:w1", send(MailId(next_id()), " "))).await;
    assert!(blank.is_err(), "a mail that is refused is nobody's news");

    let other = f.neighbour().await;
    let told = other.store.deliveries("default", 10).await.unwrap();
    let about: Vec<_> = told.iter().map(|(_, letter)| letter.about).collect();
    assert_eq!(about, [Topic::Mail(mail), Topic::Task(task)]);
    let [(_, of_mail), (job, of_task)] = told.as_slice() else { panic!("{told:?}") };
    let data = json!({
        "mailId": mail.to_string(), "toAgentId": null, "isForHuman": true, "subject": ODD,
    });
    assert_eq!((of_mail.kind.as_str(), &of_mail.data), ("mail.sent", &data));
    assert_eq!((of_mail.url.as_str(), of_mail.ended_at), (ODD, f.store.now()));
    assert_eq!((of_task.kind.as_str(), job.task), ("task.created", Some(task)));
    let data = &of_task.data;
    assert_eq!((&data["taskId"], &data["title"]), (&json!(task), &json!(ODD.trim())));
    assert_eq!(data["epicId"], json!(untold));

    let (job, receipt) = (of_task.job, Receipt::Taken);
    f.done("runner:r1", Command::JobTake { job, lease_s: 60 }).await;
    let (to, about) = ("https://x".into(), of_task.about);
    f.done("runner:r1", Command::DeliveryTry { job, tries: 1, about, to, receipt }).await;
    let due = other.store.jobs_due(JobKind::Deliver, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.job.id).collect::<Vec<_>>(), [of_mail.job]);
    f.assert_sound().await;
}

async fn a_secret_stays_the_first_one(f: Fixture) {
    let other = f.neighbour().await;
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.secret("default", "webhook", "one").await.unwrap(), "one");
    assert_eq!(other.store.secret("default", "webhook", "two").await.unwrap(), "one");
    assert_eq!(other.store.secret("other", "webhook", "two").await.unwrap(), "two");
    assert_eq!(f.store.secret("default", "else", ODD).await.unwrap(), ODD);
}

async fn pulls(f: &Fixture, status: Option<&'static str>) -> Vec<PullOf> {
    f.store.pulls(PullQuery { status, limit: 10, ..PullQuery::default() }).await.unwrap()
}

async fn pull_requests_are_numbered_per_org(f: Fixture) {
    let other = f.neighbour().await;
    let mut asked = Vec::new();
    for n in 0..6 {
        let job = submitted(&f, &format!("{n}"), Priority::P1).await.job.id;
        f.done("runner:r1", lease(job, "m1", 9)).await;
        let from = if n % 2 == 0 { &f } else { &other };
        let op = from.op("runner:r1", pr(job, None, OPEN));
        let store = from.store.clone();
        asked.push(tokio::spawn(async move { seen(store.apply(op).await.unwrap()) }));
    }
    let mut numbers = Vec::new();
    let mut last = None;
    for asked in asked {
        let record = asked.await.unwrap();
        numbers.push(record.run.pr.as_ref().unwrap().number);
        last = Some(record);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    let last = last.unwrap();
    let elsewhere = submitted(&f, "elsewhere", Priority::P1).await.job.id;
    f.done("runner:r1", pr(elsewhere, Some((1, "u".into())), OPEN)).await;
    assert_eq!(pulls(&f, None).await.len(), 7);
    f.clock.advance_ms(1);
    f.done("runner:r1", pr(last.job.id, None, MERGED)).await;
    let merged = pulls(&other, Some(MERGED)).await;
    let [PullOf { org, pull }] = merged.as_slice() else { panic!("{merged:?}") };
    assert_eq!((&**org, pull.job, pull.task), ("default", Some(last.job.id), last.job.task));
    assert_eq!((pull.repo.as_str(), pull.url.clone()), (ODD, last.run.pr.unwrap().url));
    assert!(pull.changed_at > pull.created_at);
    assert_eq!(pulls(&f, Some(OPEN)).await.len(), 6);
    let nobody = PullQuery { org: Some("nobody".into()), limit: 10, ..PullQuery::default() };
    assert_eq!(f.store.pulls(nobody).await.unwrap(), []);
    f.assert_sound().await;
}

async fn what_belongs_to_a_job_is_forgotten_with_it(f: Fixture) {
    let told = canceled(&f, "told").await;
    let kept = canceled(&f, "kept").await;
    let opened = submitted(&f, "opened", Priority::P1).await.job.id;
    f.done("runner:r1", pr(opened, None, OPEN)).await;
    f.done("human:ana", Command::RunCancel { job: opened }).await;
    f.clock.advance_ms(1);
    let later = f.store.now();
    assert_eq!(f.store.runs_forget(later).await.unwrap(), 3);
    for (job, delivery) in [told, kept] {
        assert_eq!(f.store.run("default", job).await.unwrap(), None);
        assert_eq!(f.store.delivery("default", delivery).await.unwrap(), None);
        assert_eq!(f.store.job("default", delivery).await.unwrap(), None);
    }
    assert_eq!(pulls(&f, None).await[0].pull.job, None, "it is still there");
    f.assert_sound().await;
}
