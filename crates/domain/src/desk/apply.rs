//! Carries out writes on the desk. Later commands see the changed rows, and `Touched` lists them.

use super::{Desk, EntryRow, Rows, TaskRows};
use crate::ids::TaskId;
use crate::pulls::Pull;
use crate::rights::AgentType;
use crate::runs::job::{Job, JobState};
use crate::runs::run::Run;
use crate::task::Task;
use crate::world::{CrewWrite, OrgWrite, Write};

/// A write names a task that is not on the desk: `Command::needs` and `decide` disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {0} was not fetched")]
pub struct NotFetched(pub TaskId);

impl Desk {
    /// Carries out one write. A command's writes come in the order in which `decide` made them, and a batch's commands
    /// in the order of the queue, so each sees the rows as the ones before left them.
    pub fn apply(&mut self, write: Write) -> Result<(), NotFetched> {
        let Self { now, rows, touched } = self;
        match write {
            Write::TaskInsert { task, body, execution_contract, deps } => {
                self.task_insert(task, body, execution_contract, &deps)?;
            }
            Write::TaskUpdate { task } => {
                let id = task.id;
                let known = &mut self.task(id)?.task;
                // Most updates only move a task. PostgreSQL writes those few columns of a whole batch in one statement,
                // and whole rows only for tasks that were edited.
                let only_moved = known.only_moves_to(&task);
                *known = task;
                self.touched.tasks.insert(id);
                if !only_moved {
                    self.touched.tasks_edited.insert(id);
                }
            }
            // A parent need not be the subject, so it is marked without a copy of its whole row.
            Write::PlanMark { task: id } => {
                let task = &mut self.task(id)?.task;
                if !task.is_plan {
                    task.is_plan = true;
                    self.touched.tasks.insert(id);
                    self.touched.tasks_edited.insert(id);
                }
            }
            Write::TaskTombstone { task } => {
                let now = *now;
                self.task(task)?.removed_at = Some(now);
                self.touched.tasks.insert(task);
                // Drafts of comments, viewed files and looks go with their task.
                self.touched.reviews_gone.insert(task);
                self.rows.drafts.retain(|_, draft| draft.task != task);
                self.rows.references.retain(|_, known| *known != task);
            }
            Write::BodyReplace { task, body } => {
                self.task(task)?.body = body;
                self.touched.bodies.insert(task);
            }
            Write::CardPut { task, card } => {
                self.task(task)?.card = card;
                self.touched.cards.insert(task);
            }
            Write::ScratchpadPut { task, text } => {
                self.task(task)?.scratchpad = text;
                self.touched.scratchpads.insert(task);
            }
            Write::DepInsert { task, dep } => self.dep_insert(task, dep)?,
            Write::DepDelete { task, dep } => self.dep_delete(task, dep)?,
            Write::DependentsAdjust { dep, delta } => self.dependents_adjust(dep, delta)?,
            Write::EntryPut { task, number, entry, attempt } => {
                let key = (task, number);
                let fresh = touched.entries.insert(key, (entry.clone(), attempt)).is_none();
                // The first line of a new task comes before the task itself.
                if let Some(known) = rows.tasks.get_mut(&task) {
                    let replaces = known.put_entry(EntryRow { number, entry, attempt });
                    if fresh && replaces {
                        touched.entries_again.insert(key);
                    }
                }
            }
            Write::AttemptInsert { attempt } => {
                touched.attempts_new.insert(attempt.id);
                rows.attempts.insert(attempt.id, attempt);
            }
            Write::AttemptUpdate { attempt } => {
                touched.attempts.insert(attempt.id);
                rows.attempts.insert(attempt.id, attempt);
            }
            Write::OutputPut { attempt, output } => {
                touched.outputs.insert(attempt, output);
            }
            Write::CommentInsert { comment } => {
                touched.comments_new.insert(comment.id);
                rows.comments.insert(comment.id, comment);
            }
            Write::CommentUpdate { comment } => {
                touched.comments.insert(comment.id);
                rows.comments.insert(comment.id, comment);
            }
            Write::JobInsert { job } => {
                touched.jobs_new.insert(job.id);
                self.job_put(job);
            }
            Write::JobUpdate { job } => {
                touched.jobs.insert(job.id);
                self.job_put(job);
            }
            // A running job goes on; the changed `created_at` tells its end that it was requested again. A waiting one
            // keeps its count of tries.
            Write::JobPut { job } => {
                let job = match rows.jobs.get(&job.id) {
                    Some(known) if matches!(known.state, JobState::Running { .. }) => {
                        Job { created_at: job.created_at, ..known.clone() }
                    }
                    Some(known) => Job { tries: known.tries, ..job },
                    None => job,
                };
                touched.jobs_put.insert(job.id);
                rows.jobs.insert(job.id, job);
            }
            Write::RunInsert { run, task } => {
                touched.runs_new.insert(run.job, task);
                self.run_put(run);
            }
            Write::RunUpdate { run } => {
                touched.runs.insert(run.job);
                self.run_put(run);
            }
            Write::ArtifactInsert { file, bytes } => touched.files_new.push((file, bytes)),
            Write::DeliveryInsert { delivery } => touched.deliveries_new.push(delivery),
            Write::DeliveryTried { job, tried } => {
                touched.deliveries_tried.insert(job, tried);
            }
            Write::PullPut { pull } => {
                put(&mut rows.pulls, &pull);
                put(&mut touched.pulls, &pull);
            }
            Write::ReviewCommentInsert { sent } => touched.comments_sent.push(sent),
            Write::ReviewDraftDelete { draft } => {
                rows.drafts.remove(&draft);
                touched.drafts_gone.insert(draft);
            }
            Write::KnowledgeInsert { entry } => {
                rows.knowledge.insert(entry.id, entry.clone());
                touched.knowledge_new.push(entry);
            }
            Write::KnowledgeLink { task, entry, kind } => touched.edges.push((task, entry, kind)),
            Write::KnowledgeSupersede { entry, by } => {
                if let Some(old) = rows.knowledge.get_mut(&entry) {
                    old.superseded_by = Some(by);
                }
                touched.superseded.push((entry, by));
            }
            Write::Org(write) => self.apply_to_org(write),
            Write::Crew(write) => self.apply_to_crew(write),
        }
        Ok(())
    }

    /// The rows of a task that a write names. A missing one is a defect of `Command::needs`, never the caller's fault.
    fn task(&mut self, id: TaskId) -> Result<&mut TaskRows, NotFetched> {
        self.rows.tasks.get_mut(&id).ok_or(NotFetched(id))
    }

    fn job_put(&mut self, job: Job) {
        let Rows { jobs, runs, counts, .. } = &mut self.rows;
        let run = runs.get(&job.id);
        counts.follow((jobs.get(&job.id), run), (Some(&job), run));
        jobs.insert(job.id, job);
    }

    fn run_put(&mut self, run: Run) {
        let Rows { jobs, runs, counts, .. } = &mut self.rows;
        let job = jobs.get(&run.job);
        counts.follow((job, runs.get(&run.job)), (job, Some(&run)));
        runs.insert(run.job, run);
    }

    /// Puts a new task on the desk. Its number is the newest of its prefix from now on, so the next task of the batch
    /// gets the one after it.
    fn task_insert(
        &mut self,
        task: Task,
        body: String,
        execution_contract: Option<String>,
        deps: &[TaskId],
    ) -> Result<(), NotFetched> {
        let id = task.id;
        self.rows.numbers.insert(id.prefix, task.number);
        if let Some(reference) = &task.reference {
            self.rows.references.insert((task.project, reference.clone()), id);
        }
        let mut rows = TaskRows::of(task, None);
        for ((_, number), (entry, attempt)) in self.touched.entries.range((id, 0)..=(id, u32::MAX))
        {
            let (number, entry, attempt) = (*number, entry.clone(), *attempt);
            rows.put_entry(EntryRow { number, entry, attempt });
        }
        if !body.is_empty() || execution_contract.is_some() {
            self.touched.bodies.insert(id);
            (rows.body, rows.execution_contract) = (body, execution_contract);
        }
        self.rows.tasks.insert(id, rows);
        self.touched.tasks_new.insert(id);
        deps.iter().try_for_each(|dep| self.dep_insert(id, *dep))
    }

    /// Adds an edge at both of its ends. Positions only grow: deps are shown in the order in which they were added.
    fn dep_insert(&mut self, task: TaskId, dep: TaskId) -> Result<(), NotFetched> {
        let deps = &mut self.task(task)?.deps;
        let position = deps.last().map_or(0, |(position, _)| position + 1);
        deps.push((position, dep));
        // Dependents are kept sorted by id, so that both backends and the rule tables walk them in one order.
        let dependents = &mut self.task(dep)?.dependents;
        if let Err(place) = dependents.binary_search(&task) {
            dependents.insert(place, task);
        }
        self.touched.deps_new.insert((task, dep), position);
        Ok(())
    }

    /// Removes an edge. An edge that was added in this batch was never written, so nothing is left to delete.
    fn dep_delete(&mut self, task: TaskId, dep: TaskId) -> Result<(), NotFetched> {
        self.task(task)?.deps.retain(|(_, id)| *id != dep);
        if let Some(dep) = self.rows.tasks.get_mut(&dep) {
            dep.dependents.retain(|id| *id != task);
        }
        if self.touched.deps_new.remove(&(task, dep)).is_none() {
            self.touched.deps_gone.insert((task, dep));
        }
        Ok(())
    }

    /// Changes the count of open deps of each task that depends on `dep`: -1 when it closes, +1 when it opens again. A
    /// dependent that is only here for its count has no whole row on the desk.
    fn dependents_adjust(&mut self, dep: TaskId, delta: i32) -> Result<(), NotFetched> {
        let Self { rows, touched, .. } = self;
        for id in rows.tasks.get(&dep).ok_or(NotFetched(dep))?.dependents.clone() {
            if let Some(TaskRows { task, removed_at, .. }) = rows.tasks.get_mut(&id) {
                if removed_at.is_none() {
                    task.open_deps = task.open_deps.saturating_add_signed(delta);
                    touched.tasks.insert(id);
                }
                continue;
            }
            let dependent = rows.dependents.get_mut(&id).ok_or(NotFetched(id))?;
            dependent.open_deps = dependent.open_deps.saturating_add_signed(delta);
            touched.open_deps.insert(id);
        }
        Ok(())
    }

    fn apply_to_org(&mut self, write: OrgWrite) {
        let (rows, touched) = (&mut self.rows.org, &mut self.touched.org);
        match write {
            OrgWrite::SettingPut { key, value } => {
                rows.settings.retain(|(known, _)| *known != key);
                rows.settings.push((key, value));
                touched.settings.insert(key);
            }
            OrgWrite::ProjectInsert { project } => {
                touched.projects_new.insert(project.id);
                rows.projects.insert(project.id, project);
            }
            OrgWrite::RepoInsert { repo } => {
                touched.repos_new.insert(repo.id);
                rows.repos.push(repo);
            }
            OrgWrite::ProjectOpen { project, actor } => {
                rows.opened.insert(actor.clone(), project);
                touched.opened.insert(actor);
                if let Some(known) = rows.projects.get_mut(&project) {
                    known.opened_at = Some(self.now);
                    touched.projects_opened.insert(project);
                }
            }
            OrgWrite::PlanInsert { plan } => {
                touched.plans_new.insert(plan.id);
                rows.plans.insert(plan.id, plan);
            }
            OrgWrite::PlanUpdate { plan } => {
                touched.plans.insert(plan.id);
                rows.plans.insert(plan.id, plan);
            }
        }
    }

    /// Carries out a write on rows of a crew. The count of workers is kept up to date, so that two agents added in one
    /// batch cannot pass the limit together.
    fn apply_to_crew(&mut self, write: CrewWrite) {
        let (rows, touched) = (&mut self.rows.crew, &mut self.touched.crew);
        match write {
            CrewWrite::AgentInsert { agent } => {
                rows.workers += u32::from(agent.kind == AgentType::Worker);
                touched.agents_new.insert(agent.id.clone());
                rows.agents.push(agent);
            }
            CrewWrite::AgentUpdate { agent } => {
                rows.agents.retain(|known| known.id != agent.id);
                touched.agents.insert(agent.id.clone());
                rows.agents.push(agent);
            }
            CrewWrite::AgentRemove { agent } => {
                rows.agents.retain(|known| known.id != agent);
                touched.agents_gone.insert(agent);
            }
            CrewWrite::MailInsert { mail } => {
                touched.mails_new.insert(mail.id);
                rows.mails.push(mail);
            }
            CrewWrite::MailRead { mail, at } => {
                let mut mails = rows.mails.iter_mut();
                if let Some(known) = mails.find(|known| known.id == mail) {
                    known.read_at = Some(at);
                    touched.mails_read.insert(mail);
                }
            }
            CrewWrite::DecisionInsert { decision } => touched.decisions.push(decision),
        }
    }
}

/// Inserts a pull request, or replaces the known one, which keeps its time of creation.
fn put(pulls: &mut Vec<Pull>, pull: &Pull) {
    match pulls.iter_mut().find(|known| known.is(pull)) {
        Some(known) => *known = Pull { created_at: known.created_at, ..pull.clone() },
        None => pulls.push(pull.clone()),
    }
}
