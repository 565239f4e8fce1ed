//! How many runs there are. A store counts once for a batch; the desk then keeps the counts up to date with every write,
//! so that commands of one batch cannot pass a limit together.

use std::collections::BTreeMap;

use crate::runs::job::{Job, JobKind, JobState};
use crate::runs::run::{OpenRuns, Run};

/// The counts that were asked for. A count that is missing was not asked for, and is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// The open patch jobs of the org.
    pub open: Option<OpenRuns>,
    /// Runs of a kind on a machine, in every org.
    pub here: BTreeMap<(JobKind, String), u32>,
}

/// A job with its run; a part that is not on the desk counts nothing.
type Standing<'a> = (Option<&'a Job>, Option<&'a Run>);

impl RunCounts {
    /// Follows a job, or its run, from one row to the next.
    pub(super) fn follow(&mut self, before: Standing<'_>, after: Standing<'_>) {
        self.count(before, -1);
        self.count(after, 1);
    }

    fn count(&mut self, (job, run): Standing<'_>, delta: i32) {
        let Some(job) = job else { return };
        let is_queued = match job.state {
            JobState::Queued { .. } => true,
            JobState::Running { .. } | JobState::Stale { .. } => false,
            JobState::Done { .. }
            | JobState::Failed { .. }
            | JobState::Canceled { .. }
            | JobState::Expired { .. } => return,
        };
        if let Some(open) = self.open.as_mut().filter(|_| job.kind == JobKind::Run) {
            let count = if is_queued { &mut open.queued } else { &mut open.running };
            *count = count.saturating_add_signed(delta);
        }
        let machine = run.and_then(|run| run.runs_on.as_ref()).filter(|_| !is_queued);
        let kept = self.here.iter_mut();
        let here = kept.filter(|((kind, at), _)| *kind == job.kind && Some(at) == machine);
        here.for_each(|(_, count)| *count = count.saturating_add_signed(delta));
    }
}
