//! What a project may configure about the core: status labels with their phases, and the gates'
//! switches. Differences between projects are data here, never branches in `decide`.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::refusal::Refusal;
use crate::task::contract::VerificationKind;
use crate::words::words;

words! {
    /// Where a task stands. Labels are configured words; each has exactly one phase.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// No work has started. Left by `begin` or a transition once every dep is closed.
        Initial => "initial",
        /// An actor works on the task. Left by `finish` or a transition.
        Working => "working",
        /// The work waits for a review. Left by a transition.
        Review => "review",
        /// Done; entered only with every check passing. Left by reopening.
        ClosedDone => "closed_done",
        /// The task was given up. Left by reopening.
        ClosedCanceled => "closed_canceled",
    }
}

impl Phase {
    /// Whether the task is over, done or canceled: a canceled dep counts as closed.
    pub fn is_closed(self) -> bool {
        match self {
            Phase::ClosedDone | Phase::ClosedCanceled => true,
            Phase::Initial | Phase::Working | Phase::Review => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub name: String,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttestBy {
    Any,
    NotAssignee,
    Human,
}

/// When a task's command checks run automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksOnReview {
    /// When the work of a run or a request for review brings the task into review.
    Runs,
    /// On every way into review.
    Always,
    Never,
}

impl ChecksOnReview {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "runs" => Some(Self::Runs),
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    labels: Vec<Label>,
    working: Option<usize>,
    review: Option<usize>,
    pub check_timeout_default_s: u32,
    pub heartbeat_interval_s: u32,
    pub stale_after_s: u32,
    pub finish_requires_checks: bool,
    pub gate_canceled: bool,
    /// Which ways into review start the command checks.
    pub checks_on_review: ChecksOnReview,
    pub attest_by: AttestBy,
    /// The contract of tasks with neither contract nor checks.
    pub default_verification: VerificationKind,
    /// How many consecutive runs of a verification may end undecided.
    pub verify_pendings_max: u32,
    pub verify_backoff_s: u32,
    pub verify_backoff_max_s: u32,
    pub lease_default_s: u32,
    pub lease_min_s: u32,
    pub lease_max_s: u32,
    /// The address for messages about mail and new tasks.
    pub webhook: Option<String>,
}

pub const DEFAULT_STATUSES: &str = "backlog:initial, in_progress:working, in_review:review, \
                                    done:closed_done, canceled:closed_canceled";

impl Default for Policy {
    fn default() -> Self {
        Self::with_labels(parse_labels(DEFAULT_STATUSES).expect("the default labels are valid"))
            .expect("the default labels are complete")
    }
}

impl Policy {
    pub fn with_labels(labels: Vec<Label>) -> Result<Self, String> {
        if labels.iter().filter(|l| l.phase == Phase::Initial).count() != 1 {
            return Err("exactly one status must have the phase initial".into());
        }
        if !labels.iter().any(|l| l.phase == Phase::ClosedDone) {
            return Err("at least one status must have the phase closed_done".into());
        }
        for (n, label) in labels.iter().enumerate() {
            if labels[..n].iter().any(|l| folded(&l.name).eq(folded(&label.name))) {
                return Err(format!("status '{}' is there twice", label.name));
            }
        }
        let first = |phase| labels.iter().position(|l| l.phase == phase);
        Ok(Self {
            working: first(Phase::Working),
            review: first(Phase::Review),
            labels,
            check_timeout_default_s: 120,
            heartbeat_interval_s: 30,
            stale_after_s: 180,
            finish_requires_checks: false,
            gate_canceled: false,
            checks_on_review: ChecksOnReview::Runs,
            attest_by: AttestBy::Any,
            default_verification: VerificationKind::None,
            verify_pendings_max: 10,
            verify_backoff_s: 30,
            verify_backoff_max_s: 3600,
            lease_default_s: 900,
            lease_min_s: 60,
            lease_max_s: 3600,
            webhook: None,
        })
    }

    /// Points `begin` at another working label than the first.
    pub fn set_working(&mut self, name: &str) -> Result<(), String> {
        self.working = Some(self.position(name, Phase::Working)?);
        Ok(())
    }

    /// Points `finish` at another review label than the first.
    pub fn set_review(&mut self, name: &str) -> Result<(), String> {
        self.review = Some(self.position(name, Phase::Review)?);
        Ok(())
    }

    fn position(&self, name: &str, phase: Phase) -> Result<usize, String> {
        let found = self.labels.iter().position(|l| fold(&l.name) == fold(name));
        let at = found.ok_or_else(|| format!("'{name}' is not one of the statuses"))?;
        if self.labels[at].phase == phase {
            Ok(at)
        } else {
            Err(format!("status '{name}' must have the phase {}", phase.as_str()))
        }
    }

    pub fn initial(&self) -> &Label {
        self.labels
            .iter()
            .find(|l| l.phase == Phase::Initial)
            .expect("with_labels lets no policy without one through")
    }

    pub fn working(&self) -> Option<&Label> {
        self.working.map(|at| &self.labels[at])
    }

    pub fn review(&self) -> Option<&Label> {
        self.review.map(|at| &self.labels[at])
    }

    /// The length of a lease: `asked` within the limits, else the default.
    pub fn lease_s(&self, asked: Option<i64>) -> Result<u32, Refusal> {
        let (low, high) = (self.lease_min_s, self.lease_max_s);
        let Some(asked) = asked else { return Ok(self.lease_default_s) };
        let fits = u32::try_from(asked).ok().filter(|asked| (low..=high).contains(asked));
        fits.ok_or_else(|| Refusal::invalid(format!("leaseSec must be {low}..{high}, got {asked}")))
    }

    pub fn first_of(&self, phase: Phase) -> Option<&Label> {
        self.labels.iter().find(|l| l.phase == phase)
    }

    /// Finds a label in any case and with `-` or spaces for `_`.
    pub fn label(&self, name: &str) -> Option<&Label> {
        self.labels.iter().find(|l| folded(&l.name).eq(folded(name)))
    }

    pub fn names(&self) -> Vec<String> {
        self.labels.iter().map(|l| l.name.clone()).collect()
    }

    pub fn may_attest(&self, actor: &Actor, assignee: Option<&Actor>) -> Result<(), &'static str> {
        match self.attest_by {
            AttestBy::Any => Ok(()),
            AttestBy::Human if actor.is_human() => Ok(()),
            AttestBy::Human => Err("this project lets only humans attest"),
            AttestBy::NotAssignee if assignee != Some(actor) => Ok(()),
            AttestBy::NotAssignee => Err("this project does not let the assignee attest"),
        }
    }
}

/// One spelling for every way to write an enum word: `In-Progress` and `in progress` are
/// `in_progress`.
pub fn fold(word: &str) -> String {
    folded(word).collect()
}

/// The characters of `fold`, to compare words without making a text.
fn folded(word: &str) -> impl Iterator<Item = char> {
    let spelling = |c: char| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() };
    word.trim().chars().map(spelling)
}

/// Reads `backlog:initial, in_progress:working, …`.
pub fn parse_labels(text: &str) -> Result<Vec<Label>, String> {
    let mut labels = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (name, phase) = item
            .split_once(':')
            .ok_or_else(|| format!("status '{item}' has no phase; write {item}:working"))?;
        let (name, phase) = (name.trim(), phase.trim());
        let clean = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if name.is_empty() || name.len() > 40 || !clean {
            return Err(format!("status '{name}' may hold 1..40 letters, digits and '_'"));
        }
        let phase = Phase::parse(&fold(phase)).ok_or_else(|| {
            let known: Vec<_> = Phase::ALL.iter().map(|p| p.as_str()).collect();
            format!(
                "status '{name}' has the unknown phase '{phase}'; phases are {}",
                known.join(", ")
            )
        })?;
        labels.push(Label { name: name.into(), phase });
    }
    Ok(labels)
}
