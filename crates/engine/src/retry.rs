//! Calls repeated under a retry key: the first answer is kept and given again.

use callboard_domain::retry::{HeldNow, HeldTask, not_kept};
use callboard_store::{CallKey, KeptAnswer};

use crate::context::OpContext;
use crate::{Engine, EngineError};

impl Engine {
    /// The answer of the first call with this key, as it was given. Refuses a key that belongs to other arguments, and
    /// a claim that the caller has lost since.
    pub async fn answer_find(&self, op: &OpContext) -> Result<Option<String>, EngineError> {
        let Some(call) = call_key(op) else { return Ok(None) };
        let Some(kept) = self.parts.store.retry(call.clone()).await? else { return Ok(None) };
        call.key.judge(op.tool, kept.digest)?;
        if let Some(held) = kept.held {
            self.judge_held(op, held).await?;
        }
        match kept.answer {
            KeptAnswer::Text(text) => Ok(Some(text)),
            KeptAnswer::TooLarge => Err(not_kept(op.tool).into()),
            // The commands of the call find their own results again by the key.
            KeptAnswer::NotYet => Ok(None),
        }
    }

    /// Keeps an answer for repeats of this call. The call's change is committed, so a failure to keep the answer is
    /// only logged.
    pub async fn answer_keep(&self, op: &OpContext, answer: &str) {
        let Some(call) = call_key(op) else { return };
        if let Err(error) = self.parts.store.answer_keep(call, answer).await {
            tracing::warn!(%error, tool = op.tool, "cannot keep the answer for a retry key");
        }
    }

    async fn judge_held(&self, op: &OpContext, held: HeldTask) -> Result<(), EngineError> {
        let (store, org) = (&self.parts.store, &op.principal.org);
        let record = store.task(org, held.task).await?;
        let attempt = match held.attempt {
            Some(attempt) => store.attempt(org, attempt).await?,
            None => None,
        };
        let at = HeldNow {
            task: record.as_ref().map(|record| &record.task),
            newest: record.as_ref().and_then(|record| record.newest.as_ref()),
            attempt: attempt.as_ref(),
        };
        held.judge(&op.principal.actor, at, &self.parts.policy, store.now())?;
        Ok(())
    }
}

fn call_key(op: &OpContext) -> Option<CallKey> {
    let (org, actor) = (op.principal.org.clone(), op.principal.actor.clone());
    op.retry_key.clone().map(|key| CallKey { org, actor, tool: op.tool, key })
}
