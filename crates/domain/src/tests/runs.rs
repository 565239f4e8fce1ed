//! Jobs for agents as tables: `who verb JOB options => the job after it`. A job is shown as `state a<attempt>` with
//! its task behind it; a refusal by its code.

use std::sync::Arc;

use super::model::Model;
use super::relay_spec::example;
use crate::command::{Command, RunEnd, RunLease, RunPr, RunSettle, RunSubmit, WorkPlace};
use crate::ids::{AttemptId, Id, Prefix, TaskId};
use crate::policy::Policy;
use crate::pulls::LOCAL;
use crate::relay::{FailReason, JobSpec, RunVerdict};
use crate::runs::delivery::{Receipt, Topic, Webhook};
use crate::runs::job::{JobId, JobKind};
use crate::runs::run::{Artifact, ArtifactName, NewArtifact, holder};
use crate::runs::usage::RunUsage;

struct Jobs {
    model: Model,
    attempts: u128,
}

fn number(name: &str) -> u128 {
    name.bytes().fold(0, |sum, byte| sum * 256 + u128::from(byte))
}

fn job(name: &str) -> JobId {
    JobId(Id(number(name)))
}

fn delivery(name: &str) -> JobId {
    JobId(Id(1 << 95 | number(name)))
}

fn task(name: &str) -> TaskId {
    TaskId { id: Id(1 << 90 | number(name)), prefix: Prefix::fallback() }
}

fn artifact(name: &str) -> NewArtifact {
    let artifact = Artifact {
        name: ArtifactName::parse(name).expect("a name"),
        file: "file".into(),
        size: 1,
        sha256: "0".repeat(64),
        fence: 0,
    };
    NewArtifact { artifact, bytes: Some(Arc::from(*b"x")) }
}

impl Jobs {
    fn command(&mut self, line: &str) -> Command {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, name, rest) = (words[0], words[1], &words[2..]);
        let option = |key: &str| {
            rest.iter().find_map(|word| word.strip_prefix(&format!("{key}="))).map(str::to_owned)
        };
        let count = |key: &str, usual: u32| {
            option(key).map_or(usual, |text| text.parse().expect("a number"))
        };
        let fence = u64::from(count("fence", 1));
        match verb {
            "submit" => {
                let mut spec: JobSpec =
                    serde_json::from_value(example()).expect("the example is valid");
                spec.idempotency_key = option("key").unwrap_or_else(|| name.into());
                spec.execution.ttl_s = count("ttl", 1800);
                Command::RunSubmit(Box::new(RunSubmit {
                    job: job(name),
                    task: task(name),
                    project: 1,
                    spec,
                    bound_to: option("on"),
                    webhook: option("tell").map(|url| Webhook { delivery: delivery(name), url }),
                    window_s: 86_400,
                    open_max: count("max", 1000),
                }))
            }
            "lease" => {
                self.attempts += 1;
                Command::RunLease(RunLease {
                    job: job(name),
                    kind: JobKind::Run,
                    agent: None,
                    attempt: AttemptId(Id(1 << 100 | self.attempts)),
                    machine: option("on").unwrap_or_else(|| "m1".into()),
                    running_max: count("max", 3),
                    lease_s: 60,
                    early: false,
                })
            }
            "keep" => Command::RunKeep { job: job(name), fence, lease_s: 60 },
            "settle" => Command::RunSettle(RunSettle {
                job: job(name),
                hold_s: 5,
                attempts_max: 3,
                is_gone: rest.contains(&"gone"),
            }),
            "end" => Command::RunEnd(Box::new(RunEnd {
                job: job(name),
                fence,
                verdict: match rest[0] {
                    "ok" => RunVerdict::Succeeded,
                    "stopped" => RunVerdict::Stopped,
                    _ => RunVerdict::Failed(FailReason::Timeout),
                },
                summary: "as it went".into(),
                artifacts: option("with")
                    .iter()
                    .flat_map(|names| names.split(','))
                    .map(artifact)
                    .collect(),
                used: rest
                    .contains(&"used")
                    .then(|| (holder(), RunUsage { input_tokens: 7, ..RunUsage::default() })),
            })),
            "up" => Command::WorkUp {
                job: job(name),
                fence,
                place: WorkPlace::default(),
                terminal: None,
            },
            "begin" => {
                self.attempts += 1;
                let attempt = AttemptId(Id(1 << 100 | self.attempts));
                Command::LeaseTake { attempt, task: task(name), lease_s: 60 }
            }
            "cancel" => Command::RunCancel { job: job(name) },
            "store" => Command::RunArtifact { job: job(name), fence, new: artifact(rest[0]) },
            "ask" => {
                let (text, command) = ("run make?".into(), Some("make".into()));
                Command::RunAsk { job: job(name), fence, text, command }
            }
            "answer" => {
                let number = option("number").map(|text| text.parse().expect("a number"));
                Command::RunAnswer { job: job(name), number, granted: !rest.contains(&"no") }
            }
            "pr" => Command::RunPr(RunPr {
                job: job(name),
                forge: option("forge").unwrap_or_else(|| LOCAL.into()),
                repo: "/r".into(),
                at: option("number").map(|number| (number.parse().expect("a number"), "u".into())),
                status: rest[0].into(),
                branch: "b".into(),
                base: "main".into(),
                head: option("head").unwrap_or_else(|| "h".into()),
            }),
            "take" => Command::JobTake { job: delivery(name), lease_s: 60 },
            "sent" => Command::DeliveryTry {
                job: delivery(name),
                tries: count("try", 1),
                about: Topic::Job(job(name)),
                to: "https://x".into(),
                receipt: match rest[0] {
                    "200" => Receipt::Taken,
                    "410" => Receipt::Unwanted,
                    other => Receipt::Failed(other.into()),
                },
            },
            "again" => Command::DeliveryAgain {
                job: delivery(name),
                about: Topic::Job(job(name)),
                to: "https://x".into(),
            },
            "close" => Command::TaskTransition {
                task: task(name),
                to: rest[0].into(),
                checked: None,
                work: None,
            },
            "remove" => Command::TaskRemove { task: task(name) },
            other => panic!("no verb {other}"),
        }
    }

    fn shown(&self, name: &str) -> String {
        let Some(run) = self.model.rows.runs.get(&job(name)) else { return "none".into() };
        let state = self.model.rows.jobs[&job(name)].state.as_str();
        let task = self.model.task_of(task(name));
        let held = task.assignee == Some(crate::runs::run::holder());
        let held = if held { "held" } else { "free" };
        format!("{state} a{} {} {held}", run.attempt, task.label)
    }
}

fn table(text: &str) {
    let mut jobs = Jobs { model: Model::new(Policy::default()), attempts: 0 };
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once("=>").expect("a step => what it answers");
        let (step, expected) = (step.trim(), expected.trim());
        let (who, rest) = step.split_once(' ').expect("who does what");
        let rest = rest.trim();
        let name = rest.split_whitespace().nth(1).unwrap_or(rest);
        let answer = match who {
            "clock" => {
                let seconds: i64 = rest.trim_matches(['+', 's']).parse().expect("+60s");
                jobs.model.now = jobs.model.now.plus_ms(seconds * 1000);
                continue;
            }
            "?" => jobs.shown(rest),
            "pr" => {
                let pr = jobs.model.rows.runs[&job(rest)].pr.clone().expect("there is one");
                format!("{} {} {}", pr.status, pr.number, pr.url)
            }
            "artifacts" => {
                let names = jobs.model.rows.runs[&job(rest)].artifact_names();
                names.map(ArtifactName::as_str).collect::<Vec<_>>().join(" ")
            }
            "letter" => jobs.model.rows.jobs[&delivery(rest)].state.as_str().into(),
            "summary" => {
                jobs.model.rows.runs[&job(rest)].summary.clone().unwrap_or_else(|| "none".into())
            }
            "events" => {
                let last: usize = rest.parse().expect("how many");
                jobs.model.events[jobs.model.events.len() - last..].join(" ")
            }
            who => {
                let command = jobs.command(rest);
                match jobs.model.act(who, &command) {
                    Err(refusal) => refusal.code().into(),
                    Ok(change) if change.writes.is_empty() => "same".into(),
                    Ok(_) => jobs.shown(name),
                }
            }
        };
        assert_eq!(answer, expected, "\nat: {line}");
    }
}

#[test]
fn a_run_to_its_end() {
    table(
        "
        ana submit A              => queued a0 backlog held
        events 3                  => task.created task.claimed job.submitted
        w1  lease A               => running a1 in_progress held
        w2  lease A               => JOB_LOST
        w1  keep A                => running a1 in_progress held
        w1  store A patch.diff    => running a1 in_progress held
        w1  store A out.md        => running a1 in_progress held
        w1  store A logs.txt      => running a1 in_progress held
        w1  end A ok              => done a1 done held
        events 3                  => attempt.ended task.status_changed job.succeeded
        w1  end A fail            => JOB_LOST
        w1  store A patch.diff    => JOB_LOST
        ana cancel A              => same
        ana settle A              => same
        ",
    );
}

#[test]
fn a_run_ends_with_everything_it_leaves() {
    table(
        "
        ana submit A tell=https://x => queued a0 backlog held
        w1  lease A               => running a1 in_progress held
        w2  end A ok fence=2 with=logs.txt => JOB_LOST
        w1  end A ok used with=patch.diff,logs.txt => done a1 done held
        events 7                  => job.used job.artifact job.artifact attempt.ended task.status_changed job.succeeded webhook.queued
        artifacts A               => patch.diff logs.txt
        ana submit B ttl=10       => queued a0 backlog held
        w1  lease B               => running a1 in_progress held
        clock +10s                =>
        w1  end B ok with=logs.txt => expired a1 canceled held
        events 4                  => job.artifact attempt.ended task.status_changed job.expired
        ana submit C              => queued a0 backlog held
        w1  lease C               => running a1 in_progress held
        w1  end C stopped with=logs.txt => stale a1 in_progress held
        events 2                  => job.artifact job.stale
        ana submit D              => queued a0 backlog held
        w1  lease D               => running a1 in_progress held
        ana cancel D              => canceled a1 canceled held
        w1  end D ok with=logs.txt => JOB_LOST
        artifacts D               =>
        ",
    );
}

/// An event of a workspace's run would queue the webhook of a patch job before its end.
#[test]
fn a_patch_job_has_no_workspace() {
    table(
        "
        ana submit A tell=https://x => queued a0 backlog held
        w1  lease A               => running a1 in_progress held
        w1  up A                  => JOB_LOST
        w1  end A ok              => done a1 done held
        events 1                  => webhook.queued
        ",
    );
}

#[test]
fn a_task_that_is_worked_on_waits_for_its_run() {
    table(
        "
        ana submit A              => queued a0 backlog held
        relay begin A             => queued a0 backlog held
        w1  lease A               => ALREADY_CLAIMED
        clock +61s                =>
        w1  lease A               => running a1 in_progress free
        ",
    );
}

#[test]
fn keys_find_their_job_for_a_day() {
    table(
        "
        ana submit A key=k        => queued a0 backlog held
        ana submit B key=k max=1  => same
        ana submit B max=1        => RATE_LIMIT
        w1  lease A               => running a1 in_progress held
        ana submit B key=k        => same
        w1  end A fail            => failed a1 canceled held
        clock +82800s             =>
        ana submit B key=k        => same
        clock +7200s              =>
        ana submit B key=k        => queued a0 backlog held
        ana submit C key=k        => same
        ",
    );
}

#[test]
fn a_lost_worker() {
    table(
        "
        ana submit A              => queued a0 backlog held
        w1  lease A               => running a1 in_progress held
        clock +59s                =>
        w2  settle A              => same
        clock +1s                 =>
        w2  settle A              => stale a1 in_progress held
        summary A                 => Worker lost
        clock +4s                 =>
        w1  keep A                => running a1 in_progress held
        summary A                 => none
        w2  settle A gone         => stale a1 in_progress held
        clock +5s                 =>
        w2  settle A              => queued a2 backlog held
        w1  keep A                => JOB_LOST
        w2  lease A               => running a2 in_progress held
        w1  end A ok              => JOB_LOST
        w1  store A logs.txt      => JOB_LOST
        w2  end A stopped fence=2 => stale a2 in_progress held
        w2  settle A              => queued a3 backlog held
        w2  lease A               => running a3 in_progress held
        clock +60s                =>
        w2  settle A              => stale a3 in_progress held
        clock +5s                 =>
        w2  settle A              => failed a3 canceled held
        summary A                 => Worker lost 3 times
        ",
    );
}

#[test]
fn time_runs_out() {
    table(
        "
        ana submit A ttl=10       => queued a0 backlog held
        ana submit B ttl=10       => queued a0 backlog held
        ana submit C ttl=10       => queued a0 backlog held
        w1  lease B               => running a1 in_progress held
        w1  lease C               => running a1 in_progress held
        clock +10s                =>
        w1  lease A               => JOB_LOST
        w1  settle A              => expired a0 canceled held
        summary A                 => Exceeded TTL of 10s
        w1  end B ok              => expired a1 canceled held
        w1  store B logs.txt      => expired a1 canceled held
        ana cancel C              => expired a1 canceled held
        ",
    );
}

#[test]
fn canceled_from_anywhere() {
    table(
        "
        ana submit A              => queued a0 backlog held
        ana cancel A              => canceled a0 canceled held
        summary A                 => Canceled by user
        ana cancel A              => same
        ana submit B              => queued a0 backlog held
        w1  lease B               => running a1 in_progress held
        ana close B canceled      => canceled a1 canceled held
        w1  end B ok              => JOB_LOST
        w1  store B patch.diff    => JOB_LOST
        w1  store B logs.txt      => canceled a1 canceled held
        ana submit C              => queued a0 backlog held
        ana remove C              => canceled a0 backlog held
        ana submit D              => queued a0 backlog held
        w1  lease D               => running a1 in_progress held
        w1  settle D gone         => stale a1 in_progress held
        ana cancel D              => canceled a1 canceled held
        ana cancel X              => JOB_NOT_FOUND
        ",
    );
}

#[test]
fn machines_have_places() {
    table(
        "
        ana submit A on=m1        => queued a0 backlog held
        ana submit B              => queued a0 backlog held
        w2  lease A on=m2         => JOB_LOST
        w1  lease A on=m1 max=1   => running a1 in_progress held
        w1  lease B on=m1 max=1   => RATE_LIMIT
        w2  lease B on=m2 max=1   => running a1 in_progress held
        ",
    );
}

#[test]
fn questions_wait_for_an_answer() {
    table(
        "
        ana submit A              => queued a0 backlog held
        ana answer A              => NO_QUESTION
        w1  lease A               => running a1 in_progress held
        w1  ask A                 => running a1 in_progress held
        summary A                 => Waiting for an answer: run make?
        ana answer A number=2     => NO_QUESTION
        ana answer A number=1     => running a1 in_progress held
        summary A                 => none
        ana answer A              => NO_QUESTION
        w1  ask A                 => running a1 in_progress held
        ana cancel A              => canceled a1 canceled held
        ana answer A              => NO_QUESTION
        ",
    );
}

#[test]
fn pull_requests_come_before_the_end_and_go_on_after_it() {
    table(
        "
        ana submit A              => queued a0 backlog held
        ana submit B              => queued a0 backlog held
        ana submit C              => queued a0 backlog held
        w1  lease A               => running a1 in_progress held
        w1  pr A open             => running a1 in_progress held
        w1  pr A open             => same
        w1  pr A open head=h2     => running a1 in_progress held
        pr A                      => open 1 callboard://pr/1
        w1  lease B               => running a1 in_progress held
        w1  pr B open             => running a1 in_progress held
        pr B                      => open 2 callboard://pr/2
        w1  lease C               => running a1 in_progress held
        w1  pr C open forge=github number=7 => running a1 in_progress held
        pr C                      => open 7 u
        w1  end A ok              => done a1 done held
        w1  pr A merged head=h2   => done a1 done held
        pr A                      => merged 1 callboard://pr/1
        ana cancel B              => canceled a1 canceled held
        ana submit D              => queued a0 backlog held
        ana cancel D              => canceled a0 canceled held
        w1  pr D open             => JOB_LOST
        ",
    );
}

#[test]
fn the_end_is_told_until_somebody_has_it() {
    table(
        "
        ana submit A tell=https://x/s3cret => queued a0 backlog held
        w1  lease A               => running a1 in_progress held
        w1  end A ok              => done a1 done held
        events 2                  => job.succeeded webhook.queued
        letter A                  => queued
        w1  store A logs.txt      => done a1 done held
        events 1                  => job.artifact
        w1  take A                => done a1 done held
        w2  sent A 200            => JOB_LOST
        w1  sent A 500            => done a1 done held
        events 1                  => webhook.failed
        w1  take A                => JOB_LOST
        clock +5s                 =>
        w1  take A                => done a1 done held
        w1  sent A 500 try=2      => done a1 done held
        clock +29s                =>
        w1  take A                => JOB_LOST
        clock +1s                 =>
        w1  take A                => done a1 done held
        w1  sent A 200 try=3      => done a1 done held
        events 1                  => webhook.delivered
        letter A                  => done
        w1  take A                => JOB_LOST
        ",
    );
}

#[test]
fn a_person_sends_a_message_again() {
    table(
        "
        ana submit A tell=https://x => queued a0 backlog held
        ana again A               => JOB_NOT_FOUND
        ana cancel A              => canceled a0 canceled held
        w1  take A                => canceled a0 canceled held
        ana again A               => INVALID_INPUT
        w1  sent A 410            => canceled a0 canceled held
        letter A                  => failed
        ana again A               => canceled a0 canceled held
        events 1                  => webhook.queued
        letter A                  => queued
        w1  take A                => canceled a0 canceled held
        w1  sent A 200 try=2      => canceled a0 canceled held
        ana again A               => canceled a0 canceled held
        letter A                  => queued
        ",
    );
}

#[test]
fn a_receiver_may_want_no_more() {
    table(
        "
        ana submit A tell=https://x => queued a0 backlog held
        ana cancel A              => canceled a0 canceled held
        w1  take A                => canceled a0 canceled held
        w1  sent A 410            => canceled a0 canceled held
        letter A                  => failed
        ana submit B tell=https://x => queued a0 backlog held
        ana remove B              => canceled a0 backlog held
        events 3                  => task.deleted job.canceled webhook.queued
        letter B                  => queued
        ana submit C tell=https://x ttl=10 => queued a0 backlog held
        clock +10s                =>
        w1  settle C              => expired a0 canceled held
        letter C                  => queued
        ",
    );
}

#[test]
fn a_message_is_given_up_after_the_last_pause() {
    let mut jobs = Jobs { model: Model::new(Policy::default()), attempts: 0 };
    let act = |jobs: &mut Jobs, line: &str| {
        let command = jobs.command(line);
        jobs.model.act("w1", &command).expect("allowed");
        jobs.model.rows.jobs.get(&delivery("A")).map(|job| job.state.as_str())
    };
    act(&mut jobs, "submit A tell=https://x");
    assert_eq!(act(&mut jobs, "cancel A"), Some("queued"));
    for number in 1..=7 {
        assert_eq!(act(&mut jobs, "take A"), Some("running"));
        let state = act(&mut jobs, &format!("sent A 500 try={number}"));
        assert_eq!(state, Some(if number == 7 { "failed" } else { "queued" }), "{number}");
        jobs.model.now = jobs.model.now.plus_s(7200);
    }
}
