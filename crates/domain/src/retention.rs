//! How long a store keeps what grows in it, and which rows may go.
//!
//! One rule judges every kind: a row goes when it is older than the setting, and the work or the mail that it belongs to
//! has been over for longer than the setting. Rows of open work stay, however old they are.

use crate::policy::Phase;
use crate::time::Timestamp;
use crate::words::words;

words! {
    /// A kind of row that grows with use, and that a setting `retention.*_days` bounds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Growing {
        Event => "events",
        Mail => "mail",
        Decision => "decisions",
        /// A message to a webhook, with the job that sent it.
        Delivery => "deliveries",
    }
}

impl Growing {
    /// The name of the setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Event => "retention.events_days",
            Self::Mail => "retention.mail_days",
            Self::Decision => "retention.decisions_days",
            Self::Delivery => "retention.deliveries_days",
        }
    }
}

/// Days that each kind is kept; `None` keeps it for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    pub events_days: Option<u32>,
    pub mail_days: Option<u32>,
    pub decisions_days: Option<u32>,
    pub deliveries_days: Option<u32>,
    /// Logs of checks, and of agents' runs.
    pub logs_days: Option<u32>,
    /// Artifacts of jobs. They never outlive their job.
    pub artifacts_days: Option<u32>,
}

impl Default for Retention {
    /// History is kept; logs, which are large, for a month.
    fn default() -> Self {
        Self {
            events_days: None,
            mail_days: None,
            decisions_days: None,
            deliveries_days: None,
            logs_days: Some(30),
            artifacts_days: None,
        }
    }
}

const DAY_MS: i64 = 86_400_000;

impl Retention {
    pub fn days(&self, kind: Growing) -> Option<u32> {
        match kind {
            Growing::Event => self.events_days,
            Growing::Mail => self.mail_days,
            Growing::Decision => self.decisions_days,
            Growing::Delivery => self.deliveries_days,
        }
    }

    /// Rows of this kind that were over before this time may go; `None` when all are kept.
    pub fn before(&self, kind: Growing, now: Timestamp) -> Option<Timestamp> {
        self.days(kind).map(|days| days_before(now, days))
    }
}

pub fn days_before(now: Timestamp, days: u32) -> Timestamp {
    now.plus_ms(-i64::from(days).saturating_mul(DAY_MS))
}

/// Whether the work or mail that a row belongs to is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkEnd {
    /// The row stands for itself.
    Alone,
    /// Open work, unread mail, or a message that is still to be sent.
    No,
    At(Timestamp),
}

impl WorkEnd {
    /// The end of a task: a closed task ended when it came into its phase, a removed one when it was removed.
    pub fn of_task(phase: Phase, phase_at: Timestamp, removed_at: Option<Timestamp>) -> Self {
        match (removed_at, phase.is_closed()) {
            (Some(removed_at), _) => Self::At(removed_at),
            (None, true) => Self::At(phase_at),
            (None, false) => Self::No,
        }
    }
}

/// Whether a row of this age may go.
pub fn may_go(at: Timestamp, ended: WorkEnd, before: Timestamp) -> bool {
    at < before
        && match ended {
            WorkEnd::Alone => true,
            WorkEnd::No => false,
            WorkEnd::At(end) => end < before,
        }
}

/// Where the log begins to be whole. Events below `seq` were looked at, and only those of open tasks were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFloor {
    /// 1 for a log from which nothing was removed.
    pub seq: u64,
    /// The time of the newest event below it.
    pub at: Timestamp,
}

impl LogFloor {
    pub fn is_raised(self) -> bool {
        self.seq > 1
    }

    /// Whether a reader that saw every event up to `after` may have missed events that were removed. `last` is the
    /// newest event of the reader's org: a reader that saw it missed none.
    pub fn hides(self, after: u64, last: u64) -> bool {
        after + 1 < self.seq && after != last
    }
}
