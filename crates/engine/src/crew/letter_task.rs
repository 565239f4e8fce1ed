//! The task of a thread of letters, and the agent that holds the task now. A letter keeps no task: its words name one, or
//! its writer works on one.

use callboard_domain::actor::Actor;
use callboard_domain::command::MailSend;
use callboard_domain::crew::about::{also_hears, task_names};
use callboard_domain::crew::mail::reply_subject;
use callboard_domain::crew::{AgentId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::RetryKey;
use callboard_domain::task::Task;
use callboard_store::MailSeen;

use crate::context::OpContext;
use crate::{Engine, EngineError};

/// The task that a thread is about.
#[derive(Clone, Debug)]
pub struct LetterTask {
    pub task: Task,
    /// The agent that holds the task now, if an answer to the thread's writer would miss it.
    pub also: Option<Actor>,
}

impl Engine {
    /// The task that letters name first, else the one that their writer works on.
    pub async fn letter_task(
        &self,
        op: &OpContext,
        letters: &[MailSeen],
        writer: Option<&AgentId>,
    ) -> Result<Option<LetterTask>, EngineError> {
        let Some(id) = self.letter_task_id(op, letters, writer).await? else { return Ok(None) };
        let seen = match self.task_get(op, id).await {
            Ok(seen) => seen,
            // The task was removed since.
            Err(EngineError::Refused(Refusal::TaskNotFound { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        let live = seen.it.newest.filter(|attempt| attempt.is_live(seen.now));
        let holder = live.map(|attempt| attempt.actor).or_else(|| seen.it.task.assignee.clone());
        let also = also_hears(writer, holder.as_ref()).cloned();
        Ok(Some(LetterTask { task: seen.it.task, also }))
    }

    async fn letter_task_id(
        &self,
        op: &OpContext,
        letters: &[MailSeen],
        writer: Option<&AgentId>,
    ) -> Result<Option<TaskId>, EngineError> {
        for MailSeen { mail, .. } in letters {
            for name in task_names(&format!("{}\n{}", mail.subject, mail.body)) {
                if let Some(id) = self.task_named(op, name).await? {
                    return Ok(Some(id));
                }
            }
        }
        let Some(writer) = writer else { return Ok(None) };
        let agent = self.parts.store.agent(&op.principal.org, writer).await?;
        Ok(agent.and_then(|agent| agent.task))
    }

    /// Passes the words of an answer on to another agent: as mail to an agent of the crew, else beside the task, where
    /// the agent at work hears them. `mail` makes a repeat harmless.
    pub async fn letter_pass_on(
        &self,
        op: &OpContext,
        to: &Actor,
        task: TaskId,
        (mail, subject, body): (MailId, &str, String),
    ) -> Result<(), EngineError> {
        let agent = AgentId::of(to);
        if self.parts.store.agent(&op.principal.org, &agent).await?.is_some() {
            let (from, subject) = (None, reply_subject(subject));
            let send = MailSend { mail, from, to: Some(agent), subject, body };
            self.mail_send(op, send).await?;
            return Ok(());
        }
        let mut op = op.clone();
        op.retry_key = Some(RetryKey::token("once", &mail.to_string())?);
        self.task_tell(&op, task, format!("{subject}\n\n{body}")).await?;
        Ok(())
    }
}
