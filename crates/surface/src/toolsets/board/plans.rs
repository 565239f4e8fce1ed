//! Plans: proposed by an agent, decided by a person.

use callboard_domain::board::card::Mode;
use callboard_domain::board::plan::{PlannedPriority, PlannedTask, Todo, TodoStatus};
use callboard_domain::policy::fold;
use callboard_domain::refusal::Refusal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::{Envelope, Reply, or_refused};
use super::words::TaskType;
use crate::tool::{Call, Run};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Propose {
    tasks: Vec<ProposedTask>,
    todos: Option<Vec<ProposedTodo>>,
}

// `type` and `task_type` are two names of one argument. As an alias, one of them would be refused beside the other
// even where both agree.
#[derive(Deserialize, JsonSchema)]
struct ProposedTask {
    title: String,
    r#type: Option<TaskType>,
    task_type: Option<TaskType>,
    description: Option<String>,
    acceptance_criteria: Option<Vec<String>>,
    priority: Option<Priority>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
}

#[derive(Deserialize, JsonSchema)]
struct ProposedTodo {
    content: String,
    /// pending, in_progress, completed or failed
    status: Option<String>,
}

/// An empty status differs from a missing one, and reading would drop it.
pub(super) const PROPOSE_PLAN: Run = |mut call| {
    Box::pin(async move {
        let todos = call.arguments.get_mut("todos").and_then(Value::as_array_mut);
        for todo in todos.into_iter().flatten() {
            if let Some(status @ Value::Null) = todo.get_mut("status") {
                // `args::read` counts `null` as absent, and an absent status means "completed" in the reference.
                *status = "pending".into();
            }
        }
        let arguments = call.read()?;
        let answer = propose_plan(&call, arguments).await;
        or_refused(&call, None, answer)
    })
};

async fn propose_plan(call: &Call<'_>, args: Propose) -> Reply {
    let tasks = args.tasks.into_iter().enumerate().map(planned).collect::<Result<_, _>>()?;
    let todos = args.todos.unwrap_or_default().into_iter().map(todo).collect();
    let plan = call.engine.plan_propose(call.op, tasks, todos).await?;
    let fields = json!({
        "status": "received",
        "task_count": plan.tasks.len(),
        "todo_count": plan.todos.len(),
        "tasks": plan.tasks,
        "todos": plan.todos,
        "plan_id": plan.id,
    });
    Ok(Envelope::yes("Plan proposal received").answer(call, fields))
}

/// A proposed task in the core's words. `place` stands in refusals, so that a caller finds the entry.
fn planned((place, given): (usize, ProposedTask)) -> Result<PlannedTask, Refusal> {
    let mode = match (given.r#type, given.task_type) {
        (Some(one), Some(other)) if one != other => {
            let words = format!("task {place}: type and task_type differ; give one of them");
            return Err(Refusal::invalid(words));
        }
        (one, other) => one.or(other),
    };
    Ok(PlannedTask {
        title: given.title,
        mode: match mode {
            Some(TaskType::Auto) => Mode::Auto,
            Some(TaskType::Pair) | None => Mode::Pair,
        },
        description: given.description.unwrap_or_default(),
        acceptance_criteria: given.acceptance_criteria.unwrap_or_default(),
        priority: match given.priority {
            Some(Priority::Low) => PlannedPriority::Low,
            Some(Priority::Medium) | None => PlannedPriority::Medium,
            Some(Priority::High) => PlannedPriority::High,
        },
    })
}

/// The reference's rule: without a status a todo is completed, with an unknown one it is pending.
fn todo(given: ProposedTodo) -> Todo {
    let status = match given.status {
        None => TodoStatus::Completed,
        Some(text) => TodoStatus::parse(&fold(&text)).unwrap_or(TodoStatus::Pending),
    };
    Todo { content: given.content, status }
}
