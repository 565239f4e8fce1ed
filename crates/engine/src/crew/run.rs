//! Workers that are run here. Which agents to start, wake, stop or give up is read from the store, as assignments are
//! (`assign.rs`); the run itself is `runs/start.rs`.

use callboard_domain::command::{Command, CrewGiveUp, CrewLoss, MailSend, Start, WorkSubmit};
use callboard_domain::crew::letters;
use callboard_domain::crew::shift::{Next, Shift, is_overdue, may_start};
use callboard_domain::crew::sweep::is_at_post;
use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::ids::Id;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::work::prompt::CrewPlace;
use callboard_domain::runs::work::{Role, WorkOrder};
use callboard_store::{BusyWorker, MailQuery, OrphanRun};
use sha2::{Digest, Sha256};

use crate::board::card::CardSeen;
use crate::crew::assign::{crew_op, seen_to};
use crate::crew::epic::task_state;
use crate::{At, Engine, EngineError};

/// How many workers are looked at in one go.
const POSTS_MAX: usize = 1000;

/// How many subjects of mail an agent is told when it starts.
const MAILS_TOLD: usize = 20;

impl Engine {
    /// Starts the agents of workers that should be at work, stops those of workers that no longer have a task, and
    /// gives up tasks whose runs failed for good. Returns how many changes there were.
    pub(crate) async fn crew_runs_see(&self) -> Result<usize, EngineError> {
        let store = &self.parts.store;
        let mut done = 0;
        for OrphanRun { org, job } in store.crew_strays(POSTS_MAX).await? {
            self.act_as_runner(&org, Command::WorkStop { job }).await?;
            done += 1;
        }
        let (rule, is_run_here) = (&self.parts.crew, self.parts.crew.executor.is_some());
        for busy in store.crew_posts(POSTS_MAX).await? {
            if is_run_here && may_start(busy.phase, busy.is_run, busy.mail_at.is_some()) {
                done += seen_to(busy.task, self.crew_post_see(&busy).await)?;
            }
            if is_overdue(busy.phase, busy.heard_at, rule.stale_after_s, store.now()) {
                done += seen_to(busy.task, self.crew_silence_tell(&busy).await)?;
            }
        }
        if done > 0 {
            self.runs_nudge();
        }
        Ok(done)
    }

    async fn crew_post_see(&self, busy: &BusyWorker) -> Result<bool, EngineError> {
        let op = crew_op(&busy.org);
        let At { it: seen, now } = self.card_get(&op, busy.task).await?;
        let Some(newest) = &seen.record.newest else { return Ok(false) };
        if !is_at_post(&busy.agent, &seen.record.task, Some(newest), now) {
            return Ok(false);
        }
        let works = self.parts.store.works(&busy.org, &[busy.task], 1).await?;
        let shift = Shift {
            state: task_state(&seen, now),
            since: newest.started_at,
            phase_at: seen.record.task.phase_at,
            last: works.first(),
            mail_at: busy.mail_at,
        };
        let command = match shift.next(now) {
            Next::Rest => return Ok(false),
            Next::Start => match self.crew_run_wanted(busy).await? {
                Some(submit) => Command::WorkSubmit(submit),
                None => return Ok(false),
            },
            Next::GiveUp { reason } => Command::CrewGiveUp(CrewGiveUp {
                task: busy.task,
                reason,
                worker: Some(busy.agent.clone()),
                lost: Some(CrewLoss {
                    supervisor: self.epic_supervisor(&busy.org, seen.record.task.parent).await?,
                    mails: [MailId(self.fresh_id()), MailId(self.fresh_id())],
                }),
            }),
        };
        match self.act(&op, command).await {
            Ok(applied) => Ok(applied.changed),
            // Another process was first.
            Err(EngineError::Refused(Refusal::Conflict { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends mail about a busy worker that is silent; once per silence.
    async fn crew_silence_tell(&self, busy: &BusyWorker) -> Result<bool, EngineError> {
        let op = crew_op(&busy.org);
        let At { it: seen, now } = self.card_get(&op, busy.task).await?;
        if !task_state(&seen, now).is_at_work() {
            return Ok(false);
        }
        let after_s = self.parts.crew.stale_after_s;
        let letter = letters::silent(&seen.record.task, busy.agent.as_str(), after_s);
        let send = MailSend {
            mail: silence_mail(busy, after_s),
            from: None,
            to: self.epic_supervisor(&busy.org, seen.record.task.parent).await?,
            subject: letter.subject,
            body: letter.body,
        };
        let is_new = self.act(&op, Command::MailSend(send)).await?.changed;
        if is_new {
            let (agent, task) = (&busy.agent, busy.task);
            tracing::warn!(%agent, %task, after_s, "a busy worker is silent");
        }
        Ok(is_new)
    }

    /// The command that queues a worker's run; `None` for a task without files.
    async fn crew_run_wanted(&self, busy: &BusyWorker) -> Result<Option<WorkSubmit>, EngineError> {
        let Some(machine) = self.machine_of(&busy.org, busy.task).await? else { return Ok(None) };
        let order = WorkOrder {
            role: Role::Crew,
            asked_by: busy.agent.actor(),
            instructions: None,
            model: None,
        };
        Ok(Some(WorkSubmit {
            job: JobId(self.parts.ids.next_id()),
            task: busy.task,
            order,
            bound_to: Some(machine),
            waits: false,
            ttl_s: self.run_ttl_s(),
            start: Start::Board,
        }))
    }

    /// The part of a worker's prompt about its busy.
    pub(crate) async fn crew_told(
        &self,
        org: &str,
        seen: &CardSeen,
        worker: &AgentId,
        attempt: u32,
    ) -> Result<CrewPlace, EngineError> {
        let store = &self.parts.store;
        let epic = match seen.record.task.parent {
            Some(epic) => store.task(org, epic).await?.map(|record| record.task),
            None => None,
        };
        let unread = MailQuery {
            org: org.into(),
            to: Some(worker.clone()),
            unread_only: true,
            before: None,
            limit: MAILS_TOLD,
        };
        let mails = store.mails(unread).await?.into_iter().map(|seen| {
            let from = seen.mail.from.as_ref().map_or("people", AgentId::as_str);
            format!("{} (from {from})", seen.mail.subject)
        });
        Ok(CrewPlace {
            worker: worker.to_string(),
            epic: epic.map(|epic| format!("{} ({})", epic.title, epic.id)),
            state: task_state(seen, store.now()).to_string(),
            mails: mails.collect(),
            goes_on: attempt > 1,
            ..CrewPlace::default()
        })
    }
}

/// The id of a mail about a silence, derived from the silence itself, so that every process that notices it sends the
/// same mail. Rises with time like any other id.
fn silence_mail(busy: &BusyWorker, after_s: u32) -> MailId {
    let since = busy.heard_at.plus_s(after_s);
    let mut hash = Sha256::new();
    hash.update(format!("{}\n{}\n{}\n{}", busy.org, busy.agent, busy.task, since.0));
    let tail = hash.finalize().iter().take(10).fold(0, |all, byte| all << 8 | u128::from(*byte));
    MailId(Id(u128::from((since.0 / 1000).unsigned_abs()) << 80 | tail))
}
