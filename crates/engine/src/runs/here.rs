//! An agent's work in the process that asked for it, without a server: the run is reserved for this process for a
//! while, taken here and run to its end as a server does.

use std::time::Duration;

use callboard_domain::runs::job::{JobId, JobState};
use callboard_store::DueJob;
use tokio_util::sync::CancellationToken;

use crate::context::OpContext;
use crate::runs::admit::Leased;
use crate::{Engine, EngineError};

/// How long other processes leave a reserved run alone.
pub const HELD_S: u32 = 60;
/// The pause between two looks for a free place.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Returns when a job is over, whichever process runs it: another process takes it if this one finds no place in
    /// time.
    pub async fn work_here(
        self: &std::sync::Arc<Self>,
        op: &OpContext,
        job: JobId,
    ) -> Result<(), EngineError> {
        let org = &op.principal.org;
        let workers = self.parts.workshop.as_ref().and_then(|shop| shop.workers.clone());
        let Some(workers) = workers else {
            return Err(EngineError::Internal("this process runs no agents".into()));
        };
        loop {
            self.runs_settle().await?;
            let Some(seen) = self.parts.store.run(org, job).await? else { return Ok(()) };
            let now = seen.record.job;
            if now.is_over() {
                return Ok(());
            }
            if matches!(now.state, JobState::Queued { .. }) {
                let due = DueJob { job: now, org: org.clone() };
                if let Leased::Begun(ground) = self.work_lease(&due, true).await? {
                    let give_up = CancellationToken::new();
                    self.work_through(&*workers, &ground, give_up).await?;
                    continue;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
