//! Mail about calls of a crew's tools that broke. A report that cannot be written because the store is unavailable
//! waits in the memory of this process until the store is back. The server's log has each failure at once, so a process
//! that ends meanwhile loses only the mail.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::command::MailSend;
use callboard_domain::crew::{Agent, AgentId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;

use crate::context::OpContext;
use crate::crew::agents::AgentStanding;
use crate::time::rfc3339_ms;
use crate::{Engine, EngineError};

/// The maximum number of waiting reports. Repeated calls add none: there is one per agent and tool.
const HELD_MAX: usize = 1000;
const TEXT_CHARS_MAX: usize = 16_000;

/// A call that broke.
#[derive(Clone, Debug)]
pub struct BrokenCall {
    pub tool: &'static str,
    pub code: &'static str,
    pub message: String,
    /// The causes, one a line.
    pub stack: String,
    pub at: Timestamp,
    /// The types of agents that may call the tool.
    pub callers: Vec<AgentType>,
    /// Whether the failure is reported to people as well.
    pub is_critical: bool,
}

#[derive(Clone)]
struct Report {
    op: OpContext,
    /// The agent before the call; `None` when the store was already unavailable.
    agent: Option<Agent>,
    broken: BrokenCall,
    /// The ids of the mails to people and to the supervisor: the same in every try, so that no mail is written twice.
    mails: [MailId; 2],
}

impl Report {
    fn id(&self) -> AgentId {
        AgentId::of(&self.op.principal.actor)
    }

    fn is_like(&self, other: &Report) -> bool {
        self.op.principal.org == other.op.principal.org
            && self.id() == other.id()
            && self.broken.tool == other.broken.tool
    }
}

#[derive(Default)]
pub(crate) struct Reports(Mutex<Vec<Arc<Report>>>);

impl Reports {
    fn held(&self) -> MutexGuard<'_, Vec<Arc<Report>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, report: Report) {
        let mut held = self.held();
        if held.len() < HELD_MAX && !held.iter().any(|other| other.is_like(&report)) {
            held.push(Arc::new(report));
        }
    }

    fn first(&self) -> Option<Arc<Report>> {
        self.held().first().cloned()
    }

    fn remove(&self, report: &Arc<Report>) {
        self.held().retain(|other| !Arc::ptr_eq(other, report));
    }
}

impl Engine {
    /// Reports a call that broke: to the supervisor, or to people if there is none; the failure of a critical tool to
    /// people as well.
    pub async fn call_report(&self, op: &OpContext, agent: Option<&Agent>, broken: BrokenCall) {
        let report = Report {
            op: OpContext::new(op.principal.clone(), op.tool),
            agent: agent.cloned(),
            broken,
            mails: [MailId(self.fresh_id()), MailId(self.fresh_id())],
        };
        let (tool, agent) = (report.broken.tool, report.id());
        match self.report_write(&report).await {
            Ok(()) => {}
            Err(error @ EngineError::Unavailable(_)) => {
                tracing::error!(%error, tool, %agent, "the mail about a failure waits until the store is back");
                self.reports.hold(report);
            }
            Err(error) => {
                tracing::error!(%error, tool, %agent, "cannot send the mail about a failure");
            }
        }
    }

    /// Writes the waiting reports, if the store is back. Returns how many.
    pub async fn reports_write(&self) -> usize {
        let mut written = 0;
        while let Some(report) = self.reports.first() {
            match self.report_write(&report).await {
                Ok(()) => written += 1,
                Err(EngineError::Unavailable(_)) => return written,
                Err(error) => {
                    let tool = report.broken.tool;
                    tracing::error!(%error, tool, "cannot send the mail about a failure");
                }
            }
            self.reports.remove(&report);
        }
        written
    }

    async fn report_write(&self, report: &Report) -> Result<(), EngineError> {
        let Report { op, broken, mails: [to_people, to_supervisor], .. } = report;
        let agent = match &report.agent {
            Some(agent) => agent.clone(),
            None => match self.agent_find(op, &report.id()).await? {
                // An agent that may not call the tool has nothing to report.
                Some(agent) if broken.callers.contains(&agent.kind) => agent,
                _ => return Ok(()),
            },
        };
        let supervisor = self.unless_away(self.agent_supervisor(op, &agent).await)?.flatten();
        let standing = self.unless_away(self.agent_standing(op, &agent).await)?;
        let critical = broken.is_critical;
        let text = |critical| text(&report.broken, &agent, standing.as_ref(), critical);
        let send = |mail: MailId, to: Option<AgentId>, subject: String, body: String| MailSend {
            mail,
            from: Some(agent.id.clone()),
            to,
            subject,
            body,
        };
        if critical {
            let subject = format!("⚠️ CRITICAL: Tool Failure - {}", broken.tool);
            self.mail_escalate(op, send(*to_people, None, subject, text(true))).await?;
        }
        if supervisor.is_some() || !critical {
            let subject = format!("Tool Failure: {}", broken.tool);
            let mail = send(*to_supervisor, supervisor, subject, text(false));
            self.mail_escalate(op, mail).await?;
        }
        Ok(())
    }

    /// The cause of the broken call may hide this fact too, and the report goes without it. Only an unavailable store
    /// is waited for.
    fn unless_away<T>(&self, found: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error @ EngineError::Unavailable(_)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "the mail about a failure lacks some facts");
                Ok(None)
            }
        }
    }
}

fn text(
    broken: &BrokenCall,
    agent: &Agent,
    standing: Option<&AgentStanding>,
    critical: bool,
) -> String {
    let mut text = format!(
        "Tool: {}\nAgent: {} ({})\nState: {}\nLast active: {}\nFailed at: {}\nError: {}: {}\n",
        broken.tool,
        agent.id,
        agent.kind.as_str(),
        standing.map_or("unknown", |standing| standing.state.as_str()),
        rfc3339_ms(agent.last_active_at),
        rfc3339_ms(broken.at),
        broken.code,
        broken.message.chars().take(TEXT_CHARS_MAX).collect::<String>(),
    );
    if critical {
        let shown =
            |task: Option<TaskId>| task.map_or_else(|| "none".to_owned(), |task| task.to_string());
        let epic = standing.map_or(agent.epic, |standing| standing.epic);
        let _ = writeln!(text, "Current epic: {}", shown(epic));
        let _ = writeln!(text, "Current task: {}", shown(agent.task));
    }
    let stack: String = broken.stack.chars().take(TEXT_CHARS_MAX).collect();
    let _ = write!(text, "\nStack trace:\n{stack}");
    text
}
