//! Who gets a task of a crew, and for whom a place to work in is made. `decide` judges the assignment itself.

use super::state::{TaskState, worker_of};
use super::{Agent, AgentId};
use crate::board::project::ProjectRepo;
use crate::ids::TaskId;
use crate::rights::AgentType;
use crate::task::Task;
use crate::task::attempt::Attempt;
use crate::time::Timestamp;

/// Whether a worker is considered for a task: it is on the task already, or it is idle and did not fail.
pub fn may_take(agent: &Agent, task: TaskId) -> bool {
    let is_idle = agent.task.is_none() && agent.failed_at.is_none();
    agent.kind == AgentType::Worker && (agent.task == Some(task) || is_idle)
}

/// The order in which workers are considered: those on the task first, then the longest idle.
pub fn by_turn(agent: &Agent) -> (bool, Option<Timestamp>, AgentId) {
    (agent.task.is_none(), agent.idle_since, agent.id.clone())
}

/// The worker for a task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextWorker {
    Known(Agent),
    /// A new worker, if there may be one more. `gave_back` is a free worker that gave the task back last.
    New {
        gave_back: Option<Agent>,
    },
}

/// Chooses the worker for a task: the first that may take it, by turn, but not the one that gave the task back last.
/// `newest` is the task's newest attempt.
pub fn next_worker(workers: Vec<Agent>, task: TaskId, newest: Option<&Attempt>) -> NextWorker {
    let gave_back = newest.map(|newest| AgentId::of(&newest.actor));
    let is_its = |agent: &Agent| {
        agent.task != Some(task) && gave_back.as_ref().is_some_and(|id| *id == agent.id)
    };
    let mut free: Vec<Agent> = workers.into_iter().filter(|agent| may_take(agent, task)).collect();
    free.sort_by_key(by_turn);
    let (same, others): (Vec<Agent>, Vec<Agent>) = free.into_iter().partition(is_its);
    match others.into_iter().next() {
        Some(worker) => NextWorker::Known(worker),
        None => NextWorker::New { gave_back: same.into_iter().next() },
    }
}

/// The worker that a task gets now, or why it gets none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Worker(Agent),
    /// No worker is free, so none of the tasks behind this one gets a worker either.
    NobodyFree,
    /// Only the worker that gave the task back is free. It may take the tasks behind this one.
    NotThisTask,
}

/// The choice when no worker can be added: the worker that gave the task back gets it again only if it is the only
/// worker of the crew.
pub fn without_new(gave_back: Option<Agent>, workers: u64) -> Choice {
    match gave_back {
        Some(only) if workers == 1 => Choice::Worker(only),
        Some(_) => Choice::NotThisTask,
        None => Choice::NobodyFree,
    }
}

/// Whether a crew has as many workers as it may have.
pub fn is_full(workers: u64, workers_max: u32) -> bool {
    workers >= u64::from(workers_max)
}

/// Whether this machine assigns a task: the task needs no files, or they are here.
pub fn is_assigned_here(repos: &[ProjectRepo], machine: &str) -> bool {
    repos.is_empty() || repos.iter().any(|repo| repo.machine == machine)
}

/// Whether a place to work in is made before `by` assigns a task to `worker`. Nothing is made for an assignment that
/// changes nothing, or that `decide` would refuse.
pub fn makes_place(
    by: &Agent,
    worker: &Agent,
    task: &Task,
    newest: Option<&Attempt>,
    now: Timestamp,
) -> bool {
    let holds = worker_of(newest, now).as_ref() == Some(&worker.id);
    by.leads(task.parent) && !holds && worker.kind == AgentType::Worker
}

/// As `makes_place`, for an agent that is added together with its task.
pub fn makes_place_for_new(is_new: bool, kind: AgentType, task: &Task, stands: TaskState) -> bool {
    is_new && kind == AgentType::Worker && !task.is_plan && stands.may_change_hands()
}
