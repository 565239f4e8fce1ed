//! A crew: its agents, their mail, the log of their decisions. Records about a call itself (its lines in the log, that
//! its agent was seen, mail about a failure) need no right of the caller.

use std::time::Duration;

use callboard_domain::command::{AgentAdd, Command, DecisionLog, MailReply, MailSend};
use callboard_domain::crew::shift::is_silent;
use callboard_domain::crew::state::EpicState;
use callboard_domain::crew::{Agent, AgentId, AgentState, Decision, DecisionId, Mail, MailId};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::refusal::found::OrNotFound as _;
use callboard_domain::rights::AgentType;
use callboard_domain::runs::run::{RunRecord, Terminal};
use callboard_domain::time::Timestamp;
use callboard_store::{AgentQuery, DecisionQuery, MailQuery, MailSeen, Outcome};

use crate::board::card::CardSeen;
use crate::context::{OpContext, Scope};
use crate::crew::epic::task_state;
use crate::runs::call::CrewTerminal;
use crate::{At, Engine, EngineError};

/// The configuration of a crew.
#[derive(Clone, Debug)]
pub struct CrewRule {
    /// How often a call that broke is retried.
    pub retry_max: u32,
    pub retry_delay: Duration,
    /// The maximum size of a request.
    pub body_bytes_max: usize,
    /// The maximum number of workers.
    pub workers_max: u32,
    /// The prefix of the names of branches.
    pub branch_prefix: String,
    /// The target of epics; `None` leaves it to the repository.
    pub base_branch: Option<String>,
    /// The maximum size of a file that is shown.
    pub file_bytes_max: u64,
    /// The executor that runs workers; `None`: workers are started elsewhere.
    pub executor: Option<String>,
    /// The terminal in which a person sees the output of a worker's run.
    pub terminal: CrewTerminal,
    /// Seconds of silence after which a busy worker is reported.
    pub stale_after_s: u32,
}

impl Default for CrewRule {
    fn default() -> Self {
        Self {
            retry_max: 3,
            retry_delay: Duration::from_millis(1000),
            body_bytes_max: 10 * 1024 * 1024,
            workers_max: 10,
            branch_prefix: "callboard/".into(),
            base_branch: None,
            file_bytes_max: 1024 * 1024,
            executor: None,
            terminal: CrewTerminal::default(),
            stale_after_s: 420,
        }
    }
}

/// The state of an agent, and its work.
#[derive(Clone, Debug)]
pub struct AgentStanding {
    pub state: AgentState,
    /// The epic of a worker is that of its task.
    pub epic: Option<TaskId>,
    /// Never a closed task.
    pub task: Option<TaskId>,
    /// Since when a busy worker has been silent, if that is too long.
    pub silent_since: Option<Timestamp>,
    /// The terminal of a worker whose agent runs.
    pub terminal: Option<Terminal>,
}

/// A page of an inbox.
#[derive(Clone, Debug)]
pub struct MailPage {
    pub mails: Vec<MailSeen>,
    /// The number of unread mails in the whole inbox.
    pub unread: u64,
    /// Whether there are older mails.
    pub more: bool,
}

/// The filter of an inbox.
#[derive(Clone, Debug)]
pub struct MailFilter {
    /// `None`: the inbox of people.
    pub to: Option<AgentId>,
    pub include_read: bool,
    pub before: Option<MailId>,
    pub limit: usize,
}

/// A page of the log.
#[derive(Clone, Debug)]
pub struct DecisionPage {
    pub rows: Vec<Decision>,
    /// Whether there are older rows.
    pub more: bool,
}

/// The approximate size of a page of the log, and how many rows are read at a time.
const DECISIONS_BYTES: usize = 1024 * 1024;
const DECISIONS_READ: usize = 20;

/// A line that a call writes to the log.
#[derive(Clone, Debug)]
pub struct CallLine {
    pub decision: String,
    pub reasoning: &'static str,
    /// JSON.
    pub context: String,
}

impl Engine {
    pub fn crew(&self) -> &CrewRule {
        &self.parts.crew
    }

    /// A new id for something that a call makes; the caller reuses it in every retry of the call.
    pub fn fresh_id(&self) -> Id {
        self.parts.ids.next_id()
    }

    pub async fn agent_find(
        &self,
        op: &OpContext,
        id: &AgentId,
    ) -> Result<Option<Agent>, EngineError> {
        Ok(self.parts.store.agent(&op.principal.org, id).await?)
    }

    pub async fn agent_get(&self, op: &OpContext, id: &AgentId) -> Result<Agent, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.agent_find(op, id).await?.or_not_found(id)?)
    }

    /// Agents, oldest first.
    pub async fn agent_list(
        &self,
        op: &OpContext,
        kind: Option<AgentType>,
        epic: Option<TaskId>,
        limit: usize,
    ) -> Result<Vec<Agent>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let org = op.principal.org.clone();
        Ok(self.parts.store.agents(AgentQuery { org, kind, epic, limit }).await?)
    }

    pub async fn agent_add(&self, op: &OpContext, add: AgentAdd) -> Result<Agent, EngineError> {
        let id = add.agent.clone();
        self.act(op, Command::AgentAdd(add)).await?;
        self.agent_get(op, &id).await
    }

    /// The agent behind a connection, made if it is not known yet.
    pub async fn agent_register(
        &self,
        op: &OpContext,
        id: &AgentId,
        kind: AgentType,
    ) -> Result<Agent, EngineError> {
        let add = AgentAdd {
            agent: id.clone(),
            kind,
            epic: None,
            task: None,
            or_keep: true,
            workers_max: None,
        };
        self.agent_add(&op.unkeyed(), add).await
    }

    pub async fn agent_remove(&self, op: &OpContext, id: &AgentId) -> Result<(), EngineError> {
        self.act(op, Command::AgentRemove { agent: id.clone() }).await?;
        self.crew_go_on(op).await;
        Ok(())
    }

    /// The supervisor of the epic of a worker's task.
    pub async fn agent_supervisor(
        &self,
        op: &OpContext,
        agent: &Agent,
    ) -> Result<Option<AgentId>, EngineError> {
        let (AgentType::Worker, Some(task)) = (agent.kind, agent.task) else { return Ok(None) };
        let org = op.principal.org.clone();
        let task = self.parts.store.task(&org, task).await?;
        let Some(epic) = task.and_then(|record| record.task.parent) else { return Ok(None) };
        let (kind, epic) = (Some(AgentType::Supervisor), Some(epic));
        let found = self.parts.store.agents(AgentQuery { org, kind, epic, limit: 1 }).await?;
        Ok(found.into_iter().next().map(|agent| agent.id))
    }

    pub async fn agent_standing(
        &self,
        op: &OpContext,
        agent: &Agent,
    ) -> Result<AgentStanding, EngineError> {
        let task = self.agent_card(op, agent.task).await?;
        let task = task.filter(|seen| !seen.record.task.phase.is_closed());
        let epic = match agent.kind {
            AgentType::Worker => task.as_ref().and_then(|seen| seen.record.task.parent),
            AgentType::Supervisor | AgentType::Orchestrator => agent.epic,
        };
        let epic_seen = match agent.kind {
            AgentType::Worker => None,
            AgentType::Supervisor | AgentType::Orchestrator => self.agent_card(op, epic).await?,
        };
        let at = |seen: &CardSeen| task_state(seen, self.parts.store.now());
        let epic_at = epic_seen.map(|seen| EpicState::of(&seen.record.task));
        let state = agent.state(task.as_ref().map(at), epic_at);
        let newest = task.as_ref().and_then(|seen| seen.record.newest.as_ref());
        let beat_at = newest.and_then(|newest| newest.heartbeat_at());
        let heard_at = beat_at.map_or(agent.last_active_at, |at| at.max(agent.last_active_at));
        let is_busy = agent.kind == AgentType::Worker && state == AgentState::Busy;
        let now = self.parts.store.now();
        let is_silent = is_busy && is_silent(heard_at, self.parts.crew.stale_after_s, now);
        let task = task.map(|seen| seen.record.task.id);
        Ok(AgentStanding {
            state,
            epic,
            task,
            silent_since: is_silent.then_some(heard_at),
            terminal: self.agent_terminal(op, agent, task).await?,
        })
    }

    async fn agent_terminal(
        &self,
        op: &OpContext,
        agent: &Agent,
        task: Option<TaskId>,
    ) -> Result<Option<Terminal>, EngineError> {
        let task = task.filter(|_| agent.kind == AgentType::Worker);
        let Some(task) = task else { return Ok(None) };
        let runs = self.parts.store.works(&op.principal.org, &[task], 1).await?;
        let is_its = |record: &&RunRecord| {
            let order = record.run.order.work();
            order.is_some_and(|order| AgentId::of(&order.asked_by) == agent.id)
        };
        Ok(runs.iter().find(is_its).and_then(RunRecord::terminal).cloned())
    }

    /// The task or the epic of an agent, if it still exists.
    pub async fn agent_card(
        &self,
        op: &OpContext,
        task: Option<TaskId>,
    ) -> Result<Option<CardSeen>, EngineError> {
        let Some(task) = task else { return Ok(None) };
        match self.card_get(op, task).await {
            Ok(seen) => Ok(Some(seen.it)),
            Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Epics, newest first.
    pub async fn epic_list(
        &self,
        op: &OpContext,
        limit: usize,
    ) -> Result<Vec<CardSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let mut epics = Vec::new();
        for epic in self.parts.store.epics(&op.principal.org, limit).await? {
            epics.extend(self.agent_card(op, Some(epic)).await?);
        }
        Ok(epics)
    }

    pub async fn mail_send(&self, op: &OpContext, send: MailSend) -> Result<Mail, EngineError> {
        let mail = mail_of(self.act(op, Command::MailSend(send)).await?.outcome)?;
        self.mail_wakes(op, &mail).await;
        Ok(mail)
    }

    /// The recipient's agent may have to be started here to read the mail.
    async fn mail_wakes(&self, op: &OpContext, mail: &Mail) {
        if mail.to.is_some() && self.parts.crew.executor.is_some() {
            self.crew_go_on(op).await;
        }
    }

    pub async fn mail_reply(&self, op: &OpContext, reply: MailReply) -> Result<Mail, EngineError> {
        let mail = mail_of(self.act(op, Command::MailReply(reply)).await?.outcome)?;
        self.mail_wakes(op, &mail).await;
        Ok(mail)
    }

    /// Marks a mail as read. `by` is the owner of the inbox; `None`: people.
    pub async fn mail_read(
        &self,
        op: &OpContext,
        mail: MailId,
        by: Option<AgentId>,
    ) -> Result<MailSeen, EngineError> {
        self.act(op, Command::MailRead { mail, by }).await?;
        let found = self.parts.store.mail(&op.principal.org, mail).await?;
        Ok(found.or_not_found(&mail)?)
    }

    /// A mail that `by` received or sent, without marking it as read; `None`: people.
    pub async fn mail_get(
        &self,
        op: &OpContext,
        mail: MailId,
        by: Option<&AgentId>,
    ) -> Result<MailSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let found = self.parts.store.mail(&op.principal.org, mail).await?;
        let seen = found.or_not_found(&mail)?;
        seen.mail.judge_reader(by)?;
        Ok(seen)
    }

    /// The number of unread mails in an inbox.
    pub async fn mail_unread(
        &self,
        op: &OpContext,
        to: Option<&AgentId>,
    ) -> Result<u64, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        Ok(self.parts.store.mails_unread(&op.principal.org, to).await?)
    }

    /// The mails of an inbox, newest first.
    pub async fn mail_list(
        &self,
        op: &OpContext,
        filter: MailFilter,
    ) -> Result<MailPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let unread = store.mails_unread(org, filter.to.as_ref()).await?;
        let query = MailQuery {
            org: org.clone(),
            to: filter.to,
            unread_only: !filter.include_read,
            before: filter.before,
            limit: filter.limit + 1,
        };
        let mut mails = store.mails(query).await?;
        let more = mails.len() > filter.limit;
        mails.truncate(filter.limit);
        Ok(MailPage { mails, unread, more })
    }

    /// As `mail_list`, but waits until there is a mail; returns the empty page at the deadline.
    pub async fn mail_wait(
        &self,
        op: &OpContext,
        filter: MailFilter,
        timeout: Duration,
    ) -> Result<MailPage, EngineError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let watch = self.mail_watch(filter.to.as_ref()).await?;
        loop {
            let page = self.mail_list(op, filter.clone()).await?;
            if !page.mails.is_empty() {
                return Ok(page);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = tokio::time::sleep_until(deadline) => return Ok(page),
                () = op.cancel.cancelled() => return Err(EngineError::Canceled),
            }
        }
    }

    /// Logs a decision in the agent's own words.
    pub async fn decision_log(
        &self,
        op: &OpContext,
        agent: &AgentId,
        decision: DecisionId,
        (title, body): (String, String),
    ) -> Result<At<DecisionId>, EngineError> {
        let log = DecisionLog {
            decision,
            agent: agent.clone(),
            words: title,
            reasoning: body,
            context: None,
            by_hand: true,
        };
        let applied = self.act(op, Command::DecisionLog(log)).await?;
        match applied.outcome {
            Outcome::Decision(decision) => Ok(At { it: decision, now: applied.at }),
            other => Err(EngineError::Internal(format!("not a decision: {other:?}"))),
        }
    }

    /// The log, newest first; as many rows as fit into a page, and at least one. An agent with a token reads only its
    /// own rows. For a caller with a token, rows of others come without the bodies of mail.
    pub async fn decision_list(
        &self,
        op: &OpContext,
        agent: Option<AgentId>,
        before: Option<DecisionId>,
        limit: usize,
    ) -> Result<DecisionPage, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let own = op.principal.kept_to();
        let agent = match (own, agent) {
            (Some(own), Some(asked)) if asked != own => {
                return Ok(DecisionPage { rows: Vec::new(), more: false });
            }
            (own, asked) => own.or(asked),
        };
        let reader = op.principal.token.map(|_| AgentId::of(&op.principal.actor));
        let (mut rows, mut bytes, mut before) = (Vec::new(), 0, before);
        loop {
            let (org, agent) = (op.principal.org.clone(), agent.clone());
            let query = DecisionQuery { org, agent, before, limit: DECISIONS_READ };
            let found = self.parts.store.decisions(query).await?;
            let is_last = found.len() < DECISIONS_READ;
            for row in found {
                let context = row.context.as_ref().map_or(0, String::len);
                bytes += row.decision.len() + row.reasoning.len() + context;
                let is_full = rows.len() >= limit || bytes > DECISIONS_BYTES;
                if is_full && !(rows.is_empty() && limit > 0) {
                    return Ok(DecisionPage { rows, more: true });
                }
                before = Some(row.id);
                rows.push(match &reader {
                    Some(reader) if row.agent != *reader => row.without_mail(),
                    _ => row,
                });
            }
            if is_last {
                return Ok(DecisionPage { rows, more: false });
            }
        }
    }

    /// Writes a call's own line to the log. The caller gets its answer even if that fails.
    pub async fn call_line(&self, op: &OpContext, agent: &AgentId, line: CallLine) {
        let log = DecisionLog {
            decision: DecisionId(self.fresh_id()),
            agent: agent.clone(),
            words: line.decision,
            reasoning: line.reasoning.into(),
            context: Some(line.context),
            by_hand: false,
        };
        let written = self.note(op, Command::DecisionLog(log)).await;
        if let Err(error) = written {
            tracing::warn!(%error, tool = op.tool, %agent, "cannot write a call to the decision log");
        }
    }

    /// Records that an agent was seen just now.
    pub async fn agent_touch(&self, op: &OpContext, agent: &AgentId) {
        let touched = self.note(op, Command::AgentTouch { agent: agent.clone() }).await;
        if let Err(error) = touched {
            tracing::warn!(%error, %agent, "cannot write down when an agent was last active");
        }
    }

    /// Sends mail about a call that failed.
    pub(crate) async fn mail_escalate(
        &self,
        op: &OpContext,
        send: MailSend,
    ) -> Result<(), EngineError> {
        self.note(op, Command::MailSend(send)).await
    }

    pub fn now(&self) -> Timestamp {
        self.parts.store.now()
    }
}

fn mail_of(outcome: Outcome) -> Result<Mail, EngineError> {
    match outcome {
        Outcome::Mail(mail) => Ok(*mail),
        other => Err(EngineError::Internal(format!("not a mail: {other:?}"))),
    }
}
