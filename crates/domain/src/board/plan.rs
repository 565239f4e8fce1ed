//! A plan: a proposal of tasks. No task is created before a person approves it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::actor::Actor;
use crate::card::Mode;
use crate::ids::{Id, IdError, IdKind, TaskId};
use crate::time::Timestamp;

pub const TASKS_MAX: usize = 100;
pub const STEPS_MAX: usize = 200;
pub const TITLE_CHARS_MAX: usize = 200;
pub const DESCRIPTION_CHARS_MAX: usize = 10_000;
pub const CRITERIA_MAX: usize = 100;
pub const CRITERION_CHARS_MAX: usize = 1000;
pub const CONTENT_CHARS_MAX: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanId(pub Id);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub id: PlanId,
    pub by: Actor,
    pub at: Timestamp,
    pub tasks: Vec<PlannedTask>,
    /// The planner's own steps.
    pub todos: Vec<Todo>,
    pub state: PlanState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanState {
    /// Left when a person approves or rejects the plan.
    Draft,
    /// With the tasks that were created, in the order of the list.
    Approved {
        at: Timestamp,
        by: Actor,
        tasks: Vec<TaskId>,
    },
    Rejected {
        at: Timestamp,
        by: Actor,
    },
}

impl PlanState {
    pub fn as_str(&self) -> &'static str {
        match self {
            PlanState::Draft => "draft",
            PlanState::Approved { .. } => "approved",
            PlanState::Rejected { .. } => "rejected",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTask {
    pub title: String,
    #[serde(rename = "type")]
    pub mode: Mode,
    pub description: String,
    pub acceptance_criteria: Vec<String>,
    pub priority: PlannedPriority,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlannedPriority {
    Low,
    #[default]
    Medium,
    High,
}

impl PlannedPriority {
    /// On the scale of tasks: smaller goes first.
    pub fn number(self) -> u16 {
        match self {
            PlannedPriority::Low => 900,
            PlannedPriority::Medium => 500,
            PlannedPriority::High => 100,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl TodoStatus {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "pending" => Some(TodoStatus::Pending),
            "in_progress" => Some(TodoStatus::InProgress),
            "completed" => Some(TodoStatus::Completed),
            "failed" => Some(TodoStatus::Failed),
            _ => None,
        }
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", IdKind::Plan.sign(), self.0)
    }
}

impl fmt::Debug for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PlanId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(IdKind::Plan.sign()).and_then(Id::parse).map(Self).ok_or(IdError::Foreign)
    }
}

impl Serialize for PlanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PlanId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a plan id"))
    }
}
