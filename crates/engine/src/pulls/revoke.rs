//! Unwanted merges, called off as long as a forge may still make them. The store says each time which these are, so
//! that an unavailable forge is told later.

use std::sync::Arc;

use callboard_domain::command::PullStep;
use callboard_domain::forge::ForgeRef;
use callboard_domain::ids::TaskId;
use callboard_domain::pulls::{OPEN, Pull};
use callboard_store::{PullOf, PullQuery, PullsOf};

use crate::context::OpContext;
use crate::ports::{ForgeFault, ForgeOff};
use crate::pulls::open::{PULLS_MAX, lasting};
use crate::pulls::track::kind_of;
use crate::{Engine, EngineError};

impl Engine {
    /// Wakes the loop that calls merges off: forges are told soon, and the caller does not wait for them.
    pub(crate) fn pulls_nudge(&self) {
        self.pulls_unwanted.notify_one();
    }

    /// Tells forges which merges are no longer wanted. Returns how many were told.
    pub async fn pulls_call_off(&self) -> Result<usize, EngineError> {
        let mut done = 0;
        for PullOf { org, pull } in self.pulls_in_turn(PullsOf::Unwanted).await? {
            match self.pull_call_off(&org, &pull).await {
                Ok(told) => done += usize::from(told),
                Err(CallOffFault::Engine(error)) => return Err(error),
                Err(CallOffFault::Forge(fault)) => {
                    tracing::warn!(url = pull.url, %fault, "cannot call off an auto-merge yet");
                }
            }
        }
        Ok(done)
    }

    /// Calls off the revoked merges of a task, before new commits go where a forge may still merge them unseen.
    pub(crate) async fn pulls_call_off_of(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<(), EngineError> {
        for pull in self.pulls_of_task(op, task).await? {
            if !(pull.is_open() && pull.is_revoked) {
                continue;
            }
            match self.pull_call_off(&op.principal.org, &pull).await {
                Ok(_) => {}
                Err(CallOffFault::Engine(error)) => return Err(error),
                Err(CallOffFault::Forge(fault)) => {
                    let why = lasting(fault)?;
                    let words = format!("{} may still be merged as it is: {why}", pull.url);
                    return Err(EngineError::Internal(words));
                }
            }
        }
        Ok(())
    }

    /// Returns whether this call told the forge.
    async fn pull_call_off(&self, org: &Arc<str>, pull: &Pull) -> Result<bool, CallOffFault> {
        let (Some(kind), Some(forge)) = (kind_of(&pull.forge), &self.parts.forge) else {
            return Err(ForgeFault::Unconfigured.into());
        };
        self.pull_step(org, pull, PullStep::Revoked).await?;
        // It may have been approved again meanwhile.
        let query = PullQuery {
            org: Some(org.clone()),
            status: Some(OPEN),
            task: pull.task,
            limit: PULLS_MAX,
            ..PullQuery::default()
        };
        let known = self.parts.store.pulls(query).await.map_err(EngineError::from)?;
        if !known.iter().any(|known| known.pull.is(pull) && known.pull.is_revoked) {
            return Ok(false);
        }
        let named = ForgeRef { project: pull.repo.clone(), number: pull.number };
        let step = match forge.call_off(kind, &named).await? {
            ForgeOff::Open => PullStep::CalledOff,
            ForgeOff::Merged { commit } => PullStep::Merged { commit, asked: false },
            ForgeOff::Closed => PullStep::Closed,
        };
        Ok(self.pull_step(org, pull, step).await?)
    }
}

/// Why a merge is not called off yet.
#[derive(Debug, thiserror::Error)]
enum CallOffFault {
    #[error(transparent)]
    Forge(#[from] ForgeFault),
    #[error(transparent)]
    Engine(#[from] EngineError),
}
