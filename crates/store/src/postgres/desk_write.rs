//! Carries out changes on the desk: later commands of the batch see them, and the changed rows are noted for
//! writing.

use callboard_domain::ids::{Id, TaskId};
use callboard_domain::job::{Job, JobState};
use callboard_domain::standing::Standing;
use callboard_domain::task::Task;
use callboard_domain::world::{Change, OrgWrite, Write};

use super::desk::{CallKey, Desk, Line, Sheet};
use crate::retries::Row;
use crate::{Applied, Op, StoreError, Taken};

impl Desk {
    /// Carries out a change on the desk. `last_seq` counts the batch's events so far; the writer adds the position
    /// of the log.
    pub fn carry_out(
        &mut self,
        org: i64,
        op: &Op,
        before: Option<Standing>,
        change: Change,
    ) -> Result<Applied, StoreError> {
        let about = change.events.first().and_then(|event| event.about);
        let subject = about.and_then(|about| self.tasks.get(&about.task.id));
        let known = subject.map(|sheet| (&sheet.task, sheet.deps.len()));
        let (taken, queued) = (Taken::of(&change.events, known), change.queued());
        for write in change.writes {
            self.write(org, write)?;
        }
        self.changes.events.extend(change.events.into_iter().map(|event| (org, event)));
        let applied = Applied {
            outcome: self.outcome(org, change.reply)?,
            before,
            but: change.but,
            last_seq: Some(self.changes.events.len() as u64),
            at: self.now,
            taken,
            changed: true,
            replayed: false,
            queued,
        };
        self.remember(org, op, &applied);
        Ok(applied)
    }

    /// Keeps the answer for a retry. A refused command, also one that left a trace, may be given again with its
    /// key, so it is not kept.
    pub fn remember(&mut self, org: i64, op: &Op, applied: &Applied) {
        let row = Row::of(op, applied).filter(|_| applied.but.is_none());
        let (Some(key), Some(row)) = (CallKey::of(org, op), row) else { return };
        let known = self.retries.entry(key.clone()).or_default();
        if known.iter().any(|old| old.step == row.step) {
            known.retain(|old| old.step != row.step);
            self.changes.retries_old.push((key.clone(), row.step.clone()));
        }
        known.push(row.clone());
        self.changes.retries.push((key, row));
    }

    fn sheet(&mut self, id: Id) -> Result<&mut Sheet, StoreError> {
        let missing = || StoreError::Internal(format!("task {id} was not loaded"));
        self.tasks.get_mut(&id).ok_or_else(missing)
    }

    fn write(&mut self, org: i64, write: Write) -> Result<(), StoreError> {
        match write {
            Write::TaskInsert { task, body, execution_contract, deps } => {
                self.task_insert(org, task, body, execution_contract, &deps)?;
            }
            Write::TaskUpdate { task } => {
                let id = task.id.id;
                let sheet = self.sheet(id)?;
                let only_moved = sheet.moved(&task) == task;
                sheet.task = task;
                self.changes.tasks.insert(id);
                if !only_moved {
                    self.changes.tasks_edited.insert(id);
                }
            }
            Write::PlanMark { task } => {
                let plan = &mut self.sheet(task.id)?.task;
                if !plan.is_plan {
                    plan.is_plan = true;
                    self.changes.tasks.insert(task.id);
                    self.changes.tasks_edited.insert(task.id);
                }
            }
            Write::OutputPut { attempt, output } => {
                self.changes.outputs.insert(attempt.0, output);
            }
            Write::CommentInsert { comment } => {
                self.changes.comments_new.insert(comment.id.0);
                self.comments.insert(comment.id.0, comment);
            }
            Write::CommentUpdate { comment } => {
                self.changes.comments.insert(comment.id.0);
                self.comments.insert(comment.id.0, comment);
            }
            Write::JobInsert { job } => {
                self.changes.jobs_new.insert(job.id.0);
                self.jobs.insert(job.id.0, (org, job));
            }
            Write::JobUpdate { job } => {
                self.changes.jobs.insert(job.id.0);
                self.jobs.insert(job.id.0, (org, job));
            }
            Write::JobPut { job } => {
                let known = self.jobs.get(&job.id.0).map(|(_, known)| known.clone());
                let job = match known {
                    Some(known) if matches!(known.state, JobState::Running { .. }) => {
                        Job { created_at: job.created_at, ..known }
                    }
                    Some(known) => Job { tries: known.tries, ..job },
                    None => job,
                };
                self.changes.jobs_put.insert(job.id.0);
                self.jobs.insert(job.id.0, (org, job));
            }
            Write::RunInsert { run, task } => {
                self.changes.runs_new.insert(run.job.0);
                self.runs.insert(run.job.0, (org, run, Some(task)));
            }
            Write::RunUpdate { run } => {
                self.changes.runs.insert(run.job.0);
                self.runs.insert(run.job.0, (org, run, None));
            }
            Write::DeliveryInsert { delivery } => self.changes.deliveries_new.push((org, delivery)),
            Write::DeliveryTried { job, tried } => {
                self.changes.deliveries_tried.insert(job.0, tried);
            }
            Write::PullPut { pull } => self.pull_put(org, pull),
            Write::TaskTombstone { task } => {
                let now = self.now.0;
                self.sheet(task.id)?.removed_at = Some(now);
                self.changes.tasks.insert(task.id);
            }
            Write::BodyReplace { task, body } => {
                self.sheet(task.id)?.body = body;
                self.changes.bodies.insert(task.id);
            }
            Write::CardPut { task, card } => {
                self.sheet(task.id)?.card = card;
                self.changes.cards.insert(task.id);
            }
            Write::ScratchpadPut { task, text } => {
                self.sheet(task.id)?.scratchpad = text;
                self.changes.scratchpads.insert(task.id);
            }
            Write::DepInsert { task, dep } => self.dep_insert(task.id, dep.id)?,
            Write::DepDelete { task, dep } => {
                self.sheet(task.id)?.deps.retain(|(_, id)| *id != dep.id);
                if let Some(dep) = self.tasks.get_mut(&dep.id) {
                    dep.dependents.retain(|id| *id != task.id);
                }
                if self.changes.deps_new.remove(&(task.id, dep.id)).is_none() {
                    self.changes.deps_gone.insert((task.id, dep.id));
                }
            }
            Write::DependentsAdjust { dep, delta } => {
                for dependent in self.sheet(dep.id)?.dependents.clone() {
                    let sheet = self.sheet(dependent)?;
                    if sheet.removed_at.is_none() {
                        let counted = sheet.task.open_deps.saturating_add_signed(delta);
                        sheet.task.open_deps = counted;
                        self.changes.tasks.insert(dependent);
                    }
                }
            }
            Write::AttemptInsert { attempt } => {
                self.changes.attempts_new.insert(attempt.id.0);
                self.attempts.insert(attempt.id.0, (org, attempt));
            }
            Write::AttemptUpdate { attempt } => {
                self.changes.attempts.insert(attempt.id.0);
                self.attempts.insert(attempt.id.0, (org, attempt));
            }
            Write::EntryPut { task, number, entry, attempt } => {
                let key = (task.id, number);
                let fresh = self.changes.entries.insert(key, (entry.clone(), attempt)).is_none();
                // The first line of a new task comes before the task itself.
                if let Some(sheet) = self.tasks.get_mut(&task.id) {
                    let replaces = sheet.put_line(Line { number, entry, attempt });
                    if fresh && replaces {
                        self.changes.entries_again.insert(key);
                    }
                }
            }
            Write::KnowledgeInsert { entry } => {
                self.knowledge.insert(entry.id, (org, entry.clone()));
                self.changes.knowledge_new.push((org, entry));
            }
            Write::KnowledgeLink { task, entry, kind } => {
                self.changes.edges.push((task, entry, kind));
            }
            Write::KnowledgeSupersede { entry, by } => {
                if let Some((_, old)) = self.knowledge.get_mut(&entry) {
                    old.superseded_by = Some(by);
                }
                self.changes.superseded.push((org, entry, by));
            }
            Write::Org(write) => {
                self.write_org(&write);
                self.changes.org.push((org, write));
            }
            Write::Crew(write) => {
                self.crews.write(org, &write);
                self.changes.crew.push((org, write));
            }
        }
        Ok(())
    }

    fn task_insert(
        &mut self,
        org: i64,
        task: Task,
        body: String,
        execution_contract: Option<String>,
        deps: &[TaskId],
    ) -> Result<(), StoreError> {
        let id = task.id.id;
        self.numbers.insert((org, task.id.prefix), task.number);
        let mut sheet = Sheet::row(org, task, None);
        for ((_, number), (entry, attempt)) in self.changes.entries.range((id, 0)..=(id, u32::MAX))
        {
            sheet.put_line(Line { number: *number, entry: entry.clone(), attempt: *attempt });
        }
        if !body.is_empty() || execution_contract.is_some() {
            self.changes.bodies.insert(id);
            (sheet.body, sheet.execution_contract) = (body, execution_contract);
        }
        if self.tasks.insert(id, sheet).is_some() {
            return Err(StoreError::Internal(format!("task {id} is there already")));
        }
        self.changes.tasks_new.insert(id);
        deps.iter().try_for_each(|dep| self.dep_insert(id, dep.id))
    }

    fn dep_insert(&mut self, task: Id, dep: Id) -> Result<(), StoreError> {
        let deps = &mut self.sheet(task)?.deps;
        let position = deps.last().map_or(0, |(position, _)| position + 1);
        deps.push((position, dep));
        let dependents = &mut self.sheet(dep)?.dependents;
        if let Err(place) = dependents.binary_search(&task) {
            dependents.insert(place, task);
        }
        self.changes.deps_new.insert((task, dep), position);
        Ok(())
    }

    fn write_org(&mut self, write: &OrgWrite) {
        match write {
            OrgWrite::SettingPut { key, value } => {
                self.org.settings.retain(|(known, _)| known != key);
                self.org.settings.push((*key, value.clone()));
            }
            OrgWrite::ProjectInsert { project } => self.org.project = Some(project.clone()),
            OrgWrite::ProjectOpen { project, .. } => {
                self.org.opened = Some(*project);
                let now = self.now;
                if let Some(project) = &mut self.org.project {
                    project.opened_at = Some(now);
                }
            }
            OrgWrite::RepoInsert { .. } => {}
            OrgWrite::PlanInsert { plan } | OrgWrite::PlanUpdate { plan } => {
                self.org.plan = Some(plan.clone());
            }
        }
    }
}
