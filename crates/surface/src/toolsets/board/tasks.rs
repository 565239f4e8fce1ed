//! Tools that read tasks: one, a page of the board, the context to work in.

use std::collections::BTreeSet;

use callboard_domain::board::card::search_words;
use callboard_domain::ids::TaskId;
use callboard_domain::refusal::Refusal;
use callboard_engine::{CardFilter, WorkNow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::Reply;
use super::view::{self, Detail, Shown};
use super::words::{Status, project_of};
use crate::page::{PageSize, page};
use crate::task_name;
use crate::tool::Call;

/// Tasks on a page without `limit`; such a page may also be cut by its size.
const PAGE_DEFAULT: usize = 50;
/// How many tasks mentioned in a description `get_context` looks up.
const MENTIONS_MAX: usize = 50;

/// The id in a text; text that is no id names no task.
pub(super) fn task_id(text: &str) -> Result<TaskId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::TaskNotFound { task: text.into() })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskGetRequest {
    task_id: String,
    include_scratchpad: Option<bool>,
    include_logs: Option<bool>,
    include_review: Option<bool>,
    /// how much of long texts [default: summary]
    mode: Option<Detail>,
}

pub(super) async fn get_task(call: &Call<'_>, args: TaskGetRequest) -> Reply {
    let task = task_id(&args.task_id)?;
    let (seen, work) =
        // Two reads that need nothing of each other.
        tokio::join!(call.engine.card_get(call.op, task), call.engine.work_now(call.op, task));
    let (seen, work) = (seen?, work?);
    let scratchpad = match args.include_scratchpad {
        Some(true) => Some(call.engine.scratchpad_get(call.op, task).await?),
        Some(false) | None => None,
    };
    let detail = args.mode.unwrap_or(Detail::Summary);
    let logs = match args.include_logs {
        Some(true) => Some(call.engine.work_logs(call.op, task, detail.runs()).await?),
        Some(false) | None => None,
    };
    let review = args.include_review.unwrap_or(false);
    let shown = Shown { scratchpad, logs, work, review, detail };
    Ok(view::task(&seen.it, &shown, seen.now))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TasksListRequest {
    project_id: Option<String>,
    filter: Option<Status>,
    /// words that all stand in title or description, in any case; of the newest 10000 tasks
    query: Option<String>,
    exclude_task_ids: Option<Vec<String>>,
    include_scratchpad: Option<bool>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
    #[schemars(range(min = 0))]
    offset: Option<u32>,
}

/// A page of the board in its order, filtered by project, column and words.
pub(super) async fn tasks_list(call: &Call<'_>, args: TasksListRequest) -> Reply {
    let size = PageSize::of(args.limit, PAGE_DEFAULT);
    let offset = args.offset.unwrap_or(0) as usize;
    let project = match args.project_id.as_deref().map(project_of).transpose() {
        Ok(project) => project,
        // An impossible project id has no tasks.
        // No project has the id 0.
        Err(_) => Some(0),
    };
    let without = args.exclude_task_ids.unwrap_or_default();
    let filter = CardFilter {
        project,
        phases: args.filter.map(Status::phases).unwrap_or_default(),
        words: args.query.as_deref().map(search_words).transpose()?.unwrap_or_default(),
        without: without.iter().filter_map(|id| id.trim().parse().ok()).collect(),
        with_scratchpad: args.include_scratchpad.unwrap_or(false),
        offset,
        limit: size.limit,
    };
    let found = call.engine.card_list(call.op, filter).await?;
    let all: Vec<TaskId> = found.it.cards.iter().map(|row| row.task.id).collect();
    // One read for the whole page instead of one for each task.
    let works = call.engine.works_now(call.op, &all).await?;
    let idle = WorkNow::default();
    let (tasks, _) = page(&found.it.cards, size, |row| {
        view::row(row, works.get(&row.task.id).unwrap_or(&idle), found.now)
    });
    let count = tasks.len();
    let next = offset + count;
    // An empty page is the last one: tasks may have been deleted since the total of the page before.
    let has_more = (next as u64) < found.it.total && count > 0;
    Ok(json!({
        "tasks": tasks,
        "count": count,
        "total": found.it.total,
        "has_more": has_more,
        "next_offset": has_more.then_some(next),
    }))
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct TaskArgument {
    pub task_id: String,
}

/// Everything that work on a task needs, in one call: text, notes, places and mentioned tasks.
pub(super) async fn get_context(call: &Call<'_>, args: TaskArgument) -> Reply {
    let task = task_id(&args.task_id)?;
    let seen = call.engine.card_get(call.op, task).await?;
    let scratchpad = call.engine.scratchpad_get(call.op, task).await?;
    let mut linked = Vec::new();
    let mut mentioned = BTreeSet::new();
    for word in mentions(&seen.it.record.body) {
        mentioned.extend(task_name::task_of(call.engine, call.op, word).await?);
    }
    for mentioned in mentioned.into_iter().filter(|id| *id != task) {
        // A mention of a deleted or foreign task is only text.
        if let Ok(found) = call.engine.task_get(call.op, mentioned).await {
            linked.push(view::linked(&found.it));
        }
    }
    let places = call.engine.workspace_get(call.op, &seen.it).await?;
    let work = call.engine.work_now(call.op, task).await?;
    Ok(view::context(&seen.it, &scratchpad, &places, linked, &work, seen.now))
}

/// Every word behind an `@` that may name a task, `@PROJ-12` or `@PROJ-01…`.
fn mentions(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let after_at = text.split('@').skip(1);
    let words = after_at.filter_map(|rest| rest.split(|c| !word(c)).next());
    words.filter(|word| word.contains('-')).take(MENTIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_names_and_ids_behind_an_at_sign() {
        let id = "PROJ-00000000000000000000000001";
        let text = format!("see @{id}, (@PROJ-7). Not {id}, not PROJ-8, not x@y.org");
        assert_eq!(mentions(&text), [id, "PROJ-7"]);
    }
}
