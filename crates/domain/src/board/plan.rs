//! A plan: a proposal of tasks. No task is created before a person approves it.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::board::card::Mode;
use crate::ids::{IdKind, TaskId, id};
use crate::time::Timestamp;

pub const TASKS_MAX: usize = 100;
pub const STEPS_MAX: usize = 200;
pub const TITLE_CHARS_MAX: usize = 200;
pub const DESCRIPTION_CHARS_MAX: usize = 10_000;
pub const CRITERIA_MAX: usize = 100;
pub const CRITERION_CHARS_MAX: usize = 1000;
pub const CONTENT_CHARS_MAX: usize = 200;
pub const WORDS_CHARS_MAX: usize = 20_000;

id!(PlanId, IdKind::Plan.sign(), "not a plan id");

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

    /// The nearest word for a number on the scale of tasks.
    pub fn near(number: u16) -> Self {
        match number {
            0..=300 => PlannedPriority::High,
            301..700 => PlannedPriority::Medium,
            _ => PlannedPriority::Low,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            PlannedPriority::Low => "low",
            PlannedPriority::Medium => "medium",
            PlannedPriority::High => "high",
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
