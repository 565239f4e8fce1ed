//! The facts that fill prompts: the caller, its task, and the waiting work.

use callboard_domain::actor::Actor;
use callboard_domain::crew::AgentId;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::{Phase, Policy};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::AgentType;
use callboard_domain::task::attempt::ExecutionState;
use callboard_domain::task::{TaskRecord, TaskRow};
use callboard_domain::time::Timestamp;
use callboard_engine::context::OpContext;
use callboard_engine::{At, CardFilter, Engine, EngineError, TaskFilter};
use serde_json::Value;

use crate::front::Front;

/// How many lines of a list a prompt shows; the rest is counted.
/// `queue` says how many tasks are left out, so that a model does not take the list for all of them.
const LINES_MAX: usize = 1_000;
/// A diagnosis needs examples, not every stalled task.
const STALLED_MAX: usize = 20;
/// Titles are text of others; a long one must not crowd out the instructions.
const TITLE_CHARS_MAX: usize = 120;
const GOAL_CHARS_MAX: usize = 10_000;

/// Read once for each request of a prompt. Prompts name real ids, so that a model need not look them up first.
pub struct Moment {
    pub actor: Actor,
    /// The type of an agent of a crew.
    pub role: Option<AgentType>,
    /// The epic that an agent of a crew leads.
    pub epic: Option<TaskId>,
    /// The one task this connection may change.
    pub bound: Option<TaskId>,
    /// The task of the prompt: the connection's, else the named one, else that of an agent of a crew.
    pub task: Option<TaskId>,
    /// The task to take when none is named.
    pub next: Option<TaskId>,
    /// The placeholder that a client sent as the task, and replaces when its user names one.
    pub task_blank: Option<String>,
    /// The argument `goal`, cut to 10,000 characters.
    pub goal: Option<String>,
    /// Every task in review, in the board's order.
    pub review: Vec<ListedTask>,
    /// The number of tasks in review that the list leaves out.
    pub review_more: u64,
    /// The obstacles of `task`, one fact a line.
    pub facts: Vec<String>,
    /// Tasks whose session is silent.
    pub stalled: Vec<ListedTask>,
    /// The project's word for the status that tasks start with.
    pub initial: String,
    /// The project's word for review; `None` where no status has that phase.
    pub review_label: Option<String>,
    /// The project's first word for done tasks.
    pub done: String,
    /// Seconds between two heartbeats of a session.
    pub heartbeat_s: u32,
    /// The tools that this caller sees: a prompt must not tell it to call others.
    tools: Vec<&'static str>,
}

/// A task in a list of a prompt.
pub struct ListedTask {
    pub id: TaskId,
    pub title: String,
    pub parent: Option<TaskId>,
}

impl Moment {
    pub(super) async fn of(
        front: &Front,
        op: &OpContext,
        arguments: &Value,
    ) -> Result<Self, EngineError> {
        let (engine, principal) = (front.engine(), &op.principal);
        let agent = engine.agent_find(op, &AgentId::of(&principal.actor)).await?;
        let said = |name| arguments.get(name).and_then(Value::as_str).map(str::trim);
        let (blank, named) = match said("task").filter(|id| !id.is_empty()) {
            Some(text) if is_blank(text) => (Some(text.to_owned()), None),
            text => (None, text.map(known).transpose()?),
        };
        let own = agent.as_ref().and_then(|agent| agent.task);
        // A connection that is bound to a task cannot work on another, whatever the argument says.
        let task = principal.rights.task.or(named).or(own);
        let next = engine.task_next(op, 1).await?.it.first().map(|row| row.task.id);
        let facts = match task {
            Some(task) => facts(&engine.task_get(op, task).await?, engine.policy()),
            None => Vec::new(),
        };
        let (review, review_more) = in_review(engine, op).await?;
        let policy = engine.policy();
        let word = |phase| policy.first_of(phase).map(|label| label.name.clone());
        let tools = front.tools(principal).await.iter().map(|tool| tool.name).collect();
        Ok(Self {
            actor: principal.actor.clone(),
            role: agent.as_ref().map(|agent| agent.kind).or(principal.rights.agent_type),
            epic: agent.as_ref().and_then(|agent| agent.epic),
            bound: principal.rights.task,
            task,
            next,
            // The placeholder of a bound connection could only name a task that it may not change.
            task_blank: blank.filter(|_| principal.rights.task.is_none()),
            goal: said("goal").filter(|goal| !goal.is_empty()).map(goal),
            review,
            review_more,
            facts,
            stalled: stalled(engine, op).await?,
            initial: policy.initial().name.clone(),
            review_label: policy.review().map(|label| label.name.clone()),
            done: word(Phase::ClosedDone).unwrap_or_default(),
            heartbeat_s: policy.heartbeat_interval_s,
            tools,
        })
    }

    /// Whether this caller sees a tool.
    pub fn may(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
    }

    pub fn task_or_next(&self) -> Option<TaskId> {
        self.task.or(self.next)
    }

    /// The tasks in review as lines, or the sentence for an empty list.
    pub fn queue(&self) -> Result<String, String> {
        queue(&self.review.iter().collect::<Vec<_>>(), self.review_more)
    }

    /// The tasks in review of one epic.
    pub fn queue_of(&self, epic: TaskId) -> Result<String, String> {
        let of_epic = self.review.iter().filter(|waiting| waiting.parent == Some(epic));
        // Of the tasks that the list leaves out the epic is not known, so none are counted here.
        queue(&of_epic.collect::<Vec<_>>(), 0)
    }

    /// The goal as a sentence, or the request to ask for one.
    pub fn goal_words(&self) -> String {
        match &self.goal {
            Some(blank) if is_blank(blank) => {
                format!(
                    "The goal: \"{blank}\". If nothing is quoted, ask the user for the goal first."
                )
            }
            Some(goal) => format!("The goal: {goal}"),
            None => "Ask the user for the goal first.".into(),
        }
    }

    /// The known reasons why the task, or the work as a whole, does not move.
    pub fn findings(&self) -> String {
        match self.task {
            Some(task) => format!("Task {task} now:\n{}", lines(&self.facts)),
            None if self.stalled.is_empty() => "No session is stalled.".into(),
            None => {
                let shown = self.stalled.iter().map(ListedTask::line);
                format!("Tasks with a stalled session:\n{}", lines(&shown.collect::<Vec<_>>()))
            }
        }
    }
}

/// Tells the model to stop instead of looking further.
pub(crate) const NOTHING_READY: &str =
    "Nothing is ready to start on this callboard. Say so and stop.";

/// Whether an argument is a placeholder. opencode fetches a prompt before its user has typed anything: it sends `$1` as
/// the first argument, and replaces `$1` in the text with the user's input, if any.
fn is_blank(text: &str) -> bool {
    let digits = text.strip_prefix('$').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn known(id: &str) -> Result<TaskId, Refusal> {
    id.parse().map_err(|_| Refusal::TaskNotFound { task: id.into() })
}

fn goal(text: &str) -> String {
    text.chars().take(GOAL_CHARS_MAX).collect()
}

impl ListedTask {
    fn of(id: TaskId, title: &str, parent: Option<TaskId>) -> Self {
        let mut shown: String = title.chars().take(TITLE_CHARS_MAX).collect();
        if shown.len() < title.len() {
            shown.push('…');
        }
        Self { id, title: shown, parent }
    }

    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.id, self.title)
    }
}

pub(super) fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

fn queue(waiting: &[&ListedTask], more: u64) -> Result<String, String> {
    if waiting.is_empty() {
        return Err("Nothing waits for review on this callboard. Say so and stop.".into());
    }
    let mut shown: Vec<String> = waiting.iter().map(|waiting| waiting.line()).collect();
    if more > 0 {
        shown.push(format!("and {more} more; ask for this prompt again when these are done"));
    }
    Ok(format!("These tasks wait for review:\n{}", lines(&shown)))
}

/// Every task of the caller's project in the review phase. Where no label has that phase, the tasks whose last session
/// is finished.
async fn in_review(engine: &Engine, op: &OpContext) -> Result<(Vec<ListedTask>, u64), EngineError> {
    let of_row = |row: &TaskRow| ListedTask::of(row.task.id, &row.task.title, row.task.parent);
    if engine.policy().review().is_none() {
        let execution = Some(ExecutionState::AwaitingReview);
        let filter = TaskFilter { execution, limit: LINES_MAX, ..TaskFilter::default() };
        return Ok((engine.task_list(op, filter).await?.it.iter().map(of_row).collect(), 0));
    }
    let Some(project) = engine.project_of(&op.principal).await? else {
        return Ok((Vec::new(), 0));
    };
    let (project, phases) = (Some(project.id), vec![Phase::Review]);
    let filter = CardFilter { project, phases, limit: LINES_MAX, ..CardFilter::default() };
    let page = engine.card_list(op, filter).await?.it;
    let of_card = |row: &callboard_engine::store::CardRow| {
        ListedTask::of(row.task.id, &row.task.title, row.task.parent)
    };
    let shown: Vec<ListedTask> = page.cards.iter().map(of_card).collect();
    let more = page.total.saturating_sub(shown.len() as u64);
    Ok((shown, more))
}

async fn stalled(engine: &Engine, op: &OpContext) -> Result<Vec<ListedTask>, EngineError> {
    let execution = Some(ExecutionState::Stalled);
    let filter = TaskFilter { execution, limit: STALLED_MAX, ..TaskFilter::default() };
    let rows = engine.task_list(op, filter).await?.it;
    Ok(rows.iter().map(|row| ListedTask::of(row.task.id, &row.task.title, None)).collect())
}

/// The facts about a task that does not move, in words that every toolset shares.
fn facts(seen: &At<TaskRecord>, policy: &Policy) -> Vec<String> {
    let At { it: record, now } = seen;
    let task = &record.task;
    let mut facts = vec![format!("title: {}", ListedTask::of(task.id, &task.title, None).title)];
    facts.push(holding(record, policy, *now));
    let open: Vec<String> =
        record.deps.iter().filter(|dep| dep.is_open()).map(|dep| dep.id.to_string()).collect();
    if !open.is_empty() {
        facts.push(format!("waits for open dependencies: {}", open.join(", ")));
    }
    for (index, check) in task.checks.iter().enumerate() {
        if check.result() != "pass" {
            facts.push(format!("check {index} ({}) is {}", check.desc, check.result()));
        }
    }
    if task.open_blockers > 0 {
        facts.push(format!("open blocker comments: {}", task.open_blockers));
    }
    if let Some(known) = &task.verification {
        let reason = known.reason.as_deref().unwrap_or("no reason given");
        facts.push(format!("verification is {}: {reason}", known.status.as_str()));
    }
    if task.is_plan {
        facts.push("is a plan: its children are the work".into());
    }
    facts
}

fn holding(record: &TaskRecord, policy: &Policy, now: Timestamp) -> String {
    let live = record.newest.as_ref().filter(|attempt| attempt.is_live(now));
    match (live, &record.task.assignee) {
        // A live session counts before the assignee: it shows who works, the assignee who is meant to.
        (Some(live), _) => {
            format!(
                "held by {}, whose session is {}",
                live.actor,
                live.health(policy, now).as_str()
            )
        }
        (None, Some(assignee)) => format!("assigned to {assignee}, without a live session"),
        (None, None) => "it has no holder".into(),
    }
}
