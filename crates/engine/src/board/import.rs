//! Brings a backlog onto the board, and reads the board as a backlog.

use std::collections::HashMap;

use callboard_domain::board::card::Card;
use callboard_domain::command::{Command, NewCheck, TaskCreate, TaskEdit};
use callboard_domain::forge::ForgeKind;
use callboard_domain::ids::TaskId;
use callboard_domain::import::plan::{ImportChoice, ImportPlan, KnownTask, plan};
use callboard_domain::import::{ImportState, ImportedCheck, ImportedTask};
use callboard_domain::refusal::Refusal;
use callboard_domain::task::{Check, CheckKind};
use callboard_store::CardRow;

use crate::board::card::CardFilter;
use crate::context::{OpContext, Scope};
use crate::ports::ForgeFault;
use crate::task::verbs::TaskDraft;
use crate::{Engine, EngineError};

const CARDS_AT_ONCE: usize = 500;
/// How often an import plans again because another one made some of its tasks meanwhile.
const IMPORT_AGAIN: u32 = 5;

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    pub plan: ImportPlan,
    /// The tasks of `plan.new`, in its order.
    pub made: Vec<TaskId>,
    /// The tasks of `plan.changed` got the titles and bodies of the backlog.
    pub updated: bool,
}

fn token_variable(kind: ForgeKind) -> &'static str {
    match kind {
        ForgeKind::GitHub => "GITHUB_TOKEN",
        ForgeKind::GitLab => "GITLAB_TOKEN",
    }
}

impl Engine {
    /// The changes that an import would make. Nothing is written.
    pub async fn import_plan(
        &self,
        op: &OpContext,
        items: Vec<ImportedTask>,
        choice: &ImportChoice,
    ) -> Result<ImportPlan, EngineError> {
        let mut known = Vec::new();
        for row in self.project_cards(op).await? {
            known.push(KnownTask {
                reference: reference(&row),
                task: row.task.id,
                title: row.task.title,
                body: row.body,
                state: ImportState::of(row.task.phase),
            });
        }
        plan(items, &known, choice).map_err(|fault| Refusal::from(fault).into())
    }

    /// The issues of a repository at a forge, as the JSON array that the forge lists.
    pub async fn forge_issues(
        &self,
        op: &OpContext,
        kind: ForgeKind,
        project: &str,
    ) -> Result<String, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        kind.judge_project(project)?;
        let Some(forge) = &self.parts.forge else {
            let message = "this board is not trusted, so no token is sent; callboard trust";
            return Err(Refusal::invalid_field("source", message).into());
        };
        forge.issues(kind, project).await.map_err(|fault| match fault {
            ForgeFault::Unavailable { words, .. } => EngineError::Unavailable(words),
            ForgeFault::Unconfigured => {
                let message = format!("there is no token for {kind}: set {}", token_variable(kind));
                Refusal::invalid_field("source", message).into()
            }
            fault => Refusal::invalid_field("source", format!("{kind}: {fault}")).into(),
        })
    }

    /// Creates the new tasks of a backlog in one transaction. With `update`, changed tasks get their titles and bodies
    /// from the backlog, each in a transaction of its own. An import that another one was quicker than finds the
    /// other's tasks when it plans again.
    pub async fn task_import(
        &self,
        op: &OpContext,
        items: Vec<ImportedTask>,
        choice: &ImportChoice,
        update: bool,
    ) -> Result<Imported, EngineError> {
        let mut again = IMPORT_AGAIN;
        loop {
            match self.task_import_once(op, items.clone(), choice, update).await {
                Err(EngineError::Refused(Refusal::Conflict { .. })) if again > 0 => again -= 1,
                done => return done,
            }
        }
    }

    async fn task_import_once(
        &self,
        op: &OpContext,
        items: Vec<ImportedTask>,
        choice: &ImportChoice,
        update: bool,
    ) -> Result<Imported, EngineError> {
        let plan = self.import_plan(op, items, choice).await?;
        let mut ids = HashMap::new();
        for row in self.project_cards(op).await? {
            ids.insert(reference(&row), row.task.id);
        }
        let mut all: Vec<TaskCreate> = Vec::with_capacity(plan.new.len());
        for item in &plan.new {
            let mut draft = draft(item);
            draft.deps = item.deps.iter().filter_map(|dep| ids.get(dep).copied()).collect();
            let mut create = self.task_to_create(op, draft).await?;
            create.parent = item.parent.as_ref().and_then(|parent| ids.get(parent).copied());
            ids.insert(item.reference.clone(), create.task);
            all.push(create);
        }
        let made: Vec<TaskId> = all.iter().map(|create| create.task).collect();
        if !all.is_empty() {
            self.act(op, Command::TaskCreateAll(all)).await?;
        }
        for changed in plan.changed.iter().filter(|_| update) {
            let (title, body) = (changed.title.clone(), changed.body.clone());
            let edit = TaskEdit { task: changed.task, title, body, priority: None, checks: None };
            self.act(op, Command::TaskEdit(edit)).await?;
        }
        Ok(Imported { plan, made, updated: update })
    }

    /// The tasks of the caller's project as a backlog that can be imported again, in the order of their ids.
    pub async fn backlog(
        &self,
        op: &OpContext,
        with_closed: bool,
    ) -> Result<Vec<ImportedTask>, EngineError> {
        let mut rows = self.project_cards(op).await?;
        rows.retain(|row| with_closed || !row.task.phase.is_closed());
        rows.sort_by_key(|row| row.task.id);
        let names: HashMap<TaskId, String> =
            rows.iter().map(|row| (row.task.id, reference(row))).collect();
        let mut items = Vec::with_capacity(rows.len());
        for row in rows {
            let record = self.task_get(op, row.task.id).await?.it;
            let notes = record.entries.into_iter().filter(|entry| entry.did == "note");
            items.push(ImportedTask {
                reference: reference(&row),
                state: ImportState::of(row.task.phase),
                priority: Some(row.task.priority),
                parent: row.task.parent.and_then(|parent| names.get(&parent).cloned()),
                is_epic: row.task.is_plan,
                deps: row.deps.iter().filter_map(|dep| names.get(&dep.id).cloned()).collect(),
                checks: row.task.checks.iter().map(check).collect(),
                criteria: row.card.criteria,
                labels: Vec::new(),
                notes: notes.filter_map(|note| note.text).collect(),
                title: row.task.title,
                body: row.body,
            });
        }
        Ok(items)
    }

    /// Every task of the caller's project with its card.
    async fn project_cards(&self, op: &OpContext) -> Result<Vec<CardRow>, EngineError> {
        let Some(project) = self.project_of(&op.principal).await? else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        loop {
            let (project, offset) = (Some(project.id), rows.len());
            let filter =
                CardFilter { project, offset, limit: CARDS_AT_ONCE, ..CardFilter::default() };
            let page = self.card_list(op, filter).await?.it.cards;
            let is_last = page.len() < CARDS_AT_ONCE;
            rows.extend(page);
            if is_last {
                return Ok(rows);
            }
        }
    }
}

/// The name of a task in backlogs: the one it was imported with, else its id.
fn reference(row: &CardRow) -> String {
    row.task.reference.clone().unwrap_or_else(|| format!("callboard:{}", row.task.id))
}

fn draft(item: &ImportedTask) -> TaskDraft {
    TaskDraft {
        title: item.title.clone(),
        body: item.body.clone(),
        priority: item.priority,
        checks: item.checks.iter().map(NewCheck::from).collect(),
        reference: Some(item.reference.clone()),
        card: Card { criteria: item.criteria.clone(), ..Card::default() },
        phase: Some(item.state.phase()),
        is_plan: item.is_epic,
        notes: item.notes.clone(),
        ..TaskDraft::default()
    }
}

fn check(check: &Check) -> ImportedCheck {
    let desc = check.desc.clone();
    match &check.kind {
        CheckKind::Manual => ImportedCheck { desc, ..ImportedCheck::default() },
        CheckKind::Command { cmd, cwd, timeout_s } => {
            let cwd = Some(cwd.clone()).filter(|cwd| !cwd.is_empty());
            ImportedCheck { desc, cmd: Some(cmd.clone()), cwd, timeout_s: *timeout_s }
        }
    }
}
