//! The inbox of a person: finds everything that waits for one. The order and the words are the domain's. Reads only; git
//! is not asked, conflicts are those of the last merge or those that were foreseen.

use std::collections::{HashMap, HashSet};

use callboard_domain::actor::Actor;
use callboard_domain::board::card::Card;
use callboard_domain::board::column::{COUNT_MAX, Column, has_failing};
use callboard_domain::board::inbox::{
    Inbox, InboxFact, InboxItem, InboxTask, InboxWanted, arrange, failing_streak,
};
use callboard_domain::crew::AgentId;
use callboard_domain::decide::verification::{review_waits_for_person, waits_for_person};
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::policy::Phase;
use callboard_domain::rights::AgentType;
use callboard_domain::runs::job::{JobKind, JobState};
use callboard_domain::runs::run::RunRecord;
use callboard_domain::runs::work::Role;
use callboard_domain::task::attempt::Attempt;
use callboard_domain::task::comment::CommentKind;
use callboard_domain::task::contract::VerificationStatus;
use callboard_domain::task::{Check, CheckKind, Task};
use callboard_domain::time::Timestamp;
use callboard_store::{
    AgentQuery, BoardRow, ColumnsQuery, JobQuery, MailQuery, ReviewRow, StuckQuery,
};

use crate::board::columns::BoardProjects;
use crate::context::{OpContext, Scope};
use crate::{At, Engine, EngineError};

/// How many items of each source are looked at.
const LOOKED_AT: usize = 300;
/// How many tasks with a failing check are looked at for a streak.
const STREAKS_LOOKED_AT: usize = 20;
const MB: u64 = 1024 * 1024;
/// Failed runs older than this are left out.
const NEWS_MS: i64 = 24 * 3600 * 1000;

/// The inbox that a person wants to see.
#[derive(Clone, Debug, Default)]
pub struct InboxQuery {
    /// Questions, failed patches, plans and mail are shown for every project: they belong to the org, or an agent
    /// stands still.
    pub projects: BoardProjects,
    pub wanted: InboxWanted,
}

/// The numbers beside the entries of the navigation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NavCounts {
    pub inbox: usize,
    pub mail_unread: u64,
    /// Actors with a live attempt that are not silent and wait for no answer.
    pub agents_at_work: usize,
    /// Agents that this server started and that run now, out of `places`.
    pub agents_running: usize,
    pub places: u32,
    pub plans_open: usize,
    pub jobs_active: usize,
}

/// The rows of tasks that several sources of the inbox share.
struct Looked {
    review: Vec<BoardRow>,
    /// Tasks in review that wait for a person, and of which only the number is asked.
    counted: Vec<ReviewRow>,
    /// Tasks at work or in review with a failing check.
    failing: Vec<BoardRow>,
}

/// The tasks that wait for a person, epics among them.
pub(crate) struct Needing {
    pub tasks: HashSet<TaskId>,
    /// Those that are known to be open tasks of the asked projects, and no epics.
    pub open: HashSet<TaskId>,
}

/// How much the caller wants to know of each item.
#[derive(Clone, Copy)]
enum InboxDepth<'w> {
    /// Everything that a row says.
    Rows,
    /// Whether there is a row that these wishes leave in.
    Count(&'w InboxWanted),
}

impl InboxDepth<'_> {
    /// Whether the strongest cause of a task that waits makes a difference.
    fn asks_cause(self, task: &Task) -> bool {
        match self {
            Self::Rows => true,
            Self::Count(wanted) => wanted.names(task.name()),
        }
    }
}

impl Engine {
    /// Everything that waits for a person.
    pub async fn inbox_list(
        &self,
        op: &OpContext,
        query: InboxQuery,
    ) -> Result<At<Inbox>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let project = self.project_read(op, query.projects).await?;
        let looked = self.inbox_look(op, project, InboxDepth::Rows).await?;
        self.inbox_of(op, project, &looked, &query.wanted).await
    }

    /// The numbers for the navigation. `snoozed` as in `InboxWanted`.
    ///
    /// The frame of every page asks for them, so the inbox is counted without the reads that only its words need: a task
    /// counts once whatever its strongest cause is. Only a snooze asks for the cause, which is part of the snoozed key.
    pub async fn nav_counts(
        &self,
        op: &OpContext,
        projects: BoardProjects,
        snoozed: Vec<(String, Timestamp)>,
    ) -> Result<NavCounts, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let project = self.project_read(op, projects).await?;
        let wanted = InboxWanted { snoozed, ..InboxWanted::default() };
        let depth = InboxDepth::Count(&wanted);
        let looked = self.inbox_look(op, project, depth).await?;
        let (items, now) = self.inbox_items(op, project, &looked, depth).await?;
        let plans_open = items.iter().filter(|item| matches!(item.fact, InboxFact::Plan { .. }));
        let plans_open = plans_open.count();
        let inbox = arrange(items, &wanted, now);
        let at_work = StuckQuery { limit: COUNT_MAX, ..self.stuck(op, project) };
        let at_work = store.actors_at_work(at_work).await?;
        // An agent that may read only its own mail does not learn how much mail waits for people.
        let mail_unread = match op.principal.kept_to() {
            None => store.mails_unread(org, None).await?,
            Some(_) => 0,
        };
        let jobs = JobQuery {
            org: org.clone(),
            is_over: false,
            kinds: JobKind::ALL.into_iter().filter(|kind| kind.is_run()).collect(),
            state: None,
            limit: LOOKED_AT,
        };
        let (agents_running, asking) = self.agents_running(org).await?;
        Ok(NavCounts {
            inbox: inbox.total(),
            mail_unread,
            // An agent that asks stands still, although the heartbeats of its run go on.
            agents_at_work: at_work.len().saturating_sub(asking),
            agents_running,
            places: self.board_settings(org).await?.max_concurrent_agents,
            plans_open,
            jobs_active: store.jobs(jobs).await?.len(),
        })
    }

    /// The tasks that wait for a person, epics among them, whatever their cause.
    pub(crate) async fn tasks_needing(
        &self,
        op: &OpContext,
        project: Option<i64>,
    ) -> Result<Needing, EngineError> {
        let wanted = InboxWanted::default();
        let depth = InboxDepth::Count(&wanted);
        let looked = self.inbox_look(op, project, depth).await?;
        let now = self.parts.store.now();
        let items = self.items_of_tasks(op, project, &looked, depth, now).await?;
        Ok(Needing {
            tasks: items.into_iter().filter_map(|item| Some(item.task?.id)).collect(),
            open: looked.counted.iter().map(|row| row.id).collect(),
        })
    }

    /// Tasks and epics in review, and tasks with a failing check. Both the inbox and the counts of the navigation start
    /// from these rows.
    async fn inbox_look(
        &self,
        op: &OpContext,
        project: Option<i64>,
        depth: InboxDepth<'_>,
    ) -> Result<Looked, EngineError> {
        let (store, stuck) = (&self.parts.store, self.stuck(op, project));
        let (mut review, counted) = match depth {
            InboxDepth::Rows => (self.rows_in_review(op, project).await?, Vec::new()),
            InboxDepth::Count(wanted) => {
                let mut counted = store.tasks_in_review(stuck.clone()).await?;
                counted.retain(|row| review_waits_for_person(row.verification.as_ref()));
                let is_named = |row: &ReviewRow| wanted.names(row.name);
                let (named, counted): (Vec<_>, Vec<_>) = counted.into_iter().partition(is_named);
                let named = named.iter().map(|row| row.id).collect();
                (self.tasks_by_id(op, named).await?.into_values().collect(), counted)
            }
        };
        let epics = store.epics_in_review(stuck.clone()).await?;
        let mut failing = store.tasks_with_failing(stuck).await?;
        // A task whose lease has lapsed is at work no more.
        failing.retain(|row| matches!(Column::of(&row.task), Column::Working | Column::Review));
        failing.extend(epics.iter().filter(|row| has_failing(&row.task.checks)).cloned());
        review.extend(epics);
        Ok(Looked { review, counted, failing })
    }

    /// The first tasks in review, without epics.
    async fn rows_in_review(
        &self,
        op: &OpContext,
        project: Option<i64>,
    ) -> Result<Vec<BoardRow>, EngineError> {
        let query = ColumnsQuery {
            org: op.principal.org.clone(),
            project,
            columns: vec![Column::Review],
            terms: Vec::new(),
            done_since: Timestamp(0),
            policy: self.parts.policy.clone(),
            limit: LOOKED_AT,
        };
        let pages = self.parts.store.board_columns(query).await?;
        let pages = pages.into_iter().filter(|page| page.column == Column::Review);
        Ok(pages.flat_map(|page| page.rows).collect())
    }

    /// All items, arranged. Each source is one or two statements; none of them depends on the number of tasks on the
    /// board.
    async fn inbox_of(
        &self,
        op: &OpContext,
        project: Option<i64>,
        looked: &Looked,
        wanted: &InboxWanted,
    ) -> Result<At<Inbox>, EngineError> {
        let (items, now) = self.inbox_items(op, project, looked, InboxDepth::Rows).await?;
        Ok(At { it: arrange(items, wanted, now), now })
    }

    async fn inbox_items(
        &self,
        op: &OpContext,
        project: Option<i64>,
        looked: &Looked,
        depth: InboxDepth<'_>,
    ) -> Result<(Vec<InboxItem>, Timestamp), EngineError> {
        let now = self.parts.store.now();
        let mut items = self.items_of_tasks(op, project, looked, depth, now).await?;
        items.extend(self.items_of_org(op).await?);
        Ok((items, now))
    }

    /// Everything that waits on a task, with questions and failed runs.
    async fn items_of_tasks(
        &self,
        op: &OpContext,
        project: Option<i64>,
        looked: &Looked,
        depth: InboxDepth<'_>,
        now: Timestamp,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let mut items = self.items_of_runs(op, project, now).await?;
        items.extend(self.items_of_silence(op, project).await?);
        items.extend(self.items_of_review(op, &looked.review, depth).await?);
        items.extend(looked.counted.iter().map(counted_item));
        items.extend(self.items_of_blocks(op, project).await?);
        let known: HashSet<TaskId> =
            items.iter().filter_map(|item| Some(item.task.as_ref()?.id)).collect();
        let failing = looked.failing.iter().take(STREAKS_LOOKED_AT);
        let failing =
            failing.filter(|row| depth.asks_cause(&row.task) || !known.contains(&row.task.id));
        items.extend(self.items_of_streaks(op, failing).await?);
        Ok(items)
    }

    /// Open questions, and failed runs.
    async fn items_of_runs(
        &self,
        op: &OpContext,
        project: Option<i64>,
        now: Timestamp,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let (questions, failed) =
            (self.questions(op).await?, self.runs_failed(op, project, now).await?);
        let tasks = questions.iter().chain(&failed).filter_map(|record| record.job.task);
        let tasks = self.tasks_by_id(op, tasks.collect()).await?;
        let row_of = |record: &RunRecord| record.job.task.and_then(|task| tasks.get(&task.id));
        let task_of = |record: &RunRecord| row_of(record).map(|row| named(&row.task));
        let asked = questions.iter().filter_map(|record| {
            let question = self.card_question(record, now)?;
            Some(InboxItem {
                task: task_of(record),
                actor: agent_of(record, row_of(record)),
                since: question.asked_at,
                deadline: Some(question.deadline),
                fact: InboxFact::Question {
                    job: question.job,
                    number: question.number,
                    text: question.asks.text,
                    command: question.asks.command,
                },
            })
        });
        let failed = failed.iter().filter_map(|record| {
            let JobState::Failed { at, reason } = &record.job.state else { return None };
            let reason = record.run.summary.as_ref().unwrap_or(reason).clone();
            Some(InboxItem {
                task: task_of(record),
                actor: agent_of(record, row_of(record)),
                since: *at,
                deadline: None,
                fact: InboxFact::RunFailed { job: record.job.id, reason },
            })
        });
        Ok(asked.chain(failed).collect())
    }

    /// Runs that failed within a day and were not retried since: patches, and agents on tasks that are back at the start.
    async fn runs_failed(
        &self,
        op: &OpContext,
        project: Option<i64>,
        now: Timestamp,
    ) -> Result<Vec<RunRecord>, EngineError> {
        let (store, org) = (&self.parts.store, &op.principal.org);
        let patches = self.run_history(op, None, LOOKED_AT).await?;
        let mut failed: Vec<RunRecord> = patches.into_iter().map(|seen| seen.record).collect();
        let query = JobQuery {
            org: org.clone(),
            is_over: true,
            kinds: JobKind::IN_WORKSPACES.to_vec(),
            state: Some("failed"),
            limit: LOOKED_AT,
        };
        let tasks = store.jobs(query).await?.into_iter().filter_map(|job| job.task).collect();
        let rows = self.tasks_by_id(op, tasks).await?;
        let is_here = |task: &Task| project.is_none_or(|project| project == task.project);
        let back = rows.values().filter(|row| row.task.phase == Phase::Initial);
        let back: Vec<TaskId> =
            back.filter(|row| is_here(&row.task)).map(|row| row.task.id).collect();
        failed.extend(store.works(org, &back, 1).await?);
        let since = now.plus_ms(-NEWS_MS);
        failed.retain(
            |record| matches!(record.job.state, JobState::Failed { at, .. } if at >= since),
        );
        Ok(failed)
    }

    /// The rows of these tasks by id, each read once. Removed tasks are missing.
    pub(crate) async fn tasks_by_id(
        &self,
        op: &OpContext,
        mut tasks: Vec<TaskId>,
    ) -> Result<HashMap<Id, BoardRow>, EngineError> {
        tasks.sort();
        tasks.dedup();
        if tasks.is_empty() {
            return Ok(HashMap::new());
        }
        let org = &op.principal.org;
        let rows = self.parts.store.board_tasks(org, &tasks, &self.parts.policy).await?;
        Ok(rows.into_iter().map(|row| (row.task.id.id, row)).collect())
    }

    /// Attempts that have been silent for too long; the deadline is the end of their lease.
    async fn items_of_silence(
        &self,
        op: &OpContext,
        project: Option<i64>,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let rows = self.parts.store.tasks_silent(self.stuck(op, project)).await?;
        let item = |row: BoardRow| {
            let newest = row.newest?;
            Some(InboxItem {
                task: Some(named(&row.task)),
                since: newest.heartbeat_at()?.max(newest.started_at),
                deadline: newest.lease().map(|lease| lease.expires_at),
                actor: Some(newest.actor),
                fact: InboxFact::Silent,
            })
        };
        Ok(rows.into_iter().filter_map(item).collect())
    }

    /// Reviews, conflicts, approved work and failed verifications.
    async fn items_of_review(
        &self,
        op: &OpContext,
        rows: &[BoardRow],
        depth: InboxDepth<'_>,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let rows: Vec<&BoardRow> = rows.iter().filter(|row| waits_for_person(&row.task)).collect();
        let asked = rows.iter().map(|row| &row.task).filter(|task| depth.asks_cause(task));
        let ids: Vec<TaskId> = asked.map(|task| task.id).collect();
        let cards = match ids.is_empty() {
            true => HashMap::new(),
            // Only the cards: deps would double the statements.
            false => self.parts.store.board_cards(&op.principal.org, &ids).await?,
        };
        let nothing = Card::default();
        let of = |row: &&BoardRow| cards.get(&row.task.id.id).unwrap_or(&nothing);
        let foreseen = |row: &&BoardRow| match depth.asks_cause(&row.task) {
            true => self.foreseen.of(&row.task).map_or(0, |outlook| outlook.conflicts),
            false => 0,
        };
        Ok(rows.iter().map(|row| review_item(row, of(row), foreseen(row))).collect())
    }

    /// The check of a task that failed again and again in an attempt: its index, and how often.
    pub async fn check_streak(
        &self,
        op: &OpContext,
        task: TaskId,
        attempt: &Attempt,
    ) -> Result<Option<(usize, usize)>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let ran = self.parts.store.checks_ran(&op.principal.org, task).await?;
        Ok(failing_streak(&ran, attempt.started_at))
    }

    /// The tasks among `rows` of which a check failed again and again in the newest attempt.
    async fn items_of_streaks<'r>(
        &self,
        op: &OpContext,
        rows: impl Iterator<Item = &'r BoardRow>,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let mut items = Vec::new();
        for row in rows {
            let Some(newest) = &row.newest else { continue };
            let streak = self.check_streak(op, row.task.id, newest).await?;
            let Some((index, times)) = streak else { continue };
            let Some(check) = row.task.checks.get(index) else { continue };
            let since = check.verdict.as_ref().map_or(row.task.updated_at, |verdict| verdict.at);
            items.push(InboxItem {
                task: Some(named(&row.task)),
                actor: Some(newest.actor.clone()),
                since,
                deadline: None,
                fact: InboxFact::CheckStreak { check: command(check), times },
            });
        }
        Ok(items)
    }

    /// Tasks that are blocked with a reason, and open comments.
    async fn items_of_blocks(
        &self,
        op: &OpContext,
        project: Option<i64>,
    ) -> Result<Vec<InboxItem>, EngineError> {
        let store = &self.parts.store;
        let mut items = Vec::new();
        for row in store.tasks_stuck(self.stuck(op, project)).await? {
            let Some(blocked) = &row.task.blocked else { continue };
            items.push(InboxItem {
                task: Some(named(&row.task)),
                actor: Some(blocked.by.clone()),
                since: blocked.at,
                deadline: None,
                fact: InboxFact::Blocked { reason: blocked.reason.clone() },
            });
        }
        let comments = store.comments_open(&op.principal.org, LOOKED_AT).await?;
        let tasks = comments.iter().map(|comment| comment.task).collect();
        let tasks = self.tasks_by_id(op, tasks).await?;
        for comment in comments {
            let Some(row) = tasks.get(&comment.task.id) else { continue };
            if project.is_some_and(|project| project != row.task.project) {
                continue;
            }
            let gives_up = comment.kind == CommentKind::Nack;
            items.push(InboxItem {
                task: Some(named(&row.task)),
                actor: Some(comment.author),
                since: comment.created_at,
                deadline: None,
                fact: InboxFact::Comment { body: comment.body, gives_up },
            });
        }
        Ok(items)
    }

    /// Disk space, failed workers, plans and mail.
    async fn items_of_org(&self, op: &OpContext) -> Result<Vec<InboxItem>, EngineError> {
        let (store, org) = (&self.parts.store, &op.principal.org);
        let item = |actor: Option<Actor>, since, fact| InboxItem {
            task: None,
            actor,
            since,
            deadline: None,
            fact,
        };
        let mut items = Vec::new();
        if let (Some(quota), Some(used)) = (self.disk_quota(), self.disk_usage().await)
            && used.bytes > quota
        {
            let (used_mb, quota_mb) = (used.bytes / MB, quota / MB);
            let since = Timestamp(used.at_ms.saturating_mul(1000));
            items.push(item(None, since, InboxFact::DiskOver { used_mb, quota_mb }));
        }
        let kind = Some(AgentType::Worker);
        let query = AgentQuery { org: org.clone(), kind, epic: None, limit: LOOKED_AT };
        for agent in store.agents(query).await? {
            let Some(at) = agent.failed_at else { continue };
            let actor = agent.id.actor();
            items.push(item(Some(actor), at, InboxFact::WorkerFailed { agent: agent.id }));
        }
        for plan in store.plans_open(org, LOOKED_AT).await? {
            let fact = InboxFact::Plan { plan: plan.id, tasks: plan.tasks.len() };
            items.push(item(Some(plan.by), plan.at, fact));
        }
        // An agent that may read only its own mail does not learn of mail for people.
        if op.principal.kept_to().is_some() {
            return Ok(items);
        }
        let query = MailQuery {
            org: org.clone(),
            to: None,
            unread_only: true,
            before: None,
            limit: LOOKED_AT,
        };
        for seen in store.mails(query).await? {
            let (fact, mail) = (InboxFact::of_mail(&seen.mail), seen.mail);
            items.push(item(mail.from.as_ref().map(AgentId::actor), mail.created_at, fact));
        }
        Ok(items)
    }

    /// The query that all lists of stuck tasks share.
    pub(crate) fn stuck(&self, op: &OpContext, project: Option<i64>) -> StuckQuery {
        let (org, policy) = (op.principal.org.clone(), self.parts.policy.clone());
        StuckQuery { org, project, policy, limit: LOOKED_AT }
    }
}

/// One item for a task in review, by the most urgent of its facts: a conflict, a failed verification, an approval that
/// waits for its merge, else the review itself. `foreseen`: the number of files that conflict by what git said last.
fn review_item(row: &BoardRow, card: &Card, foreseen: usize) -> InboxItem {
    let (task, review) = (&row.task, card.review.as_ref());
    let worker = row.newest.as_ref().map(|newest| newest.actor.clone());
    // A task without an attempt was brought into review by hand.
    let worker = worker.or_else(|| review.map(|review| review.by.clone()));
    let verification = task.verification.as_ref();
    let failed = verification.filter(|known| known.status == VerificationStatus::Failed);
    let files = review.map_or(0, |review| review.conflict_files.len());
    let files = if files == 0 { foreseen } else { files };
    let approved = review.filter(|review| review.is_approved());
    let (actor, since, fact) = match (files, failed, approved) {
        (1.., ..) => (worker, task.phase_at, InboxFact::Conflict { files }),
        (0, Some(failed), _) => {
            let reason = failed.reason.clone();
            (worker, failed.at, InboxFact::VerificationFailed { reason })
        }
        (0, None, Some(review)) => {
            let since = review.decided_at.unwrap_or(task.phase_at);
            (Some(review.by.clone()), since, InboxFact::Approved)
        }
        (0, None, None) => {
            let passed = task.checks.iter().filter(|check| check.is_pass()).count();
            let is_open = |check: &&Check| !check.is_command() && check.verdict.is_none();
            let for_person = task.checks.iter().filter(is_open).count();
            let checks = task.checks.len();
            (worker, task.phase_at, InboxFact::Review { checks, passed, for_person })
        }
    };
    InboxItem { task: Some(named(task)), actor, since, deadline: None, fact }
}

/// The item of a task in review that only counts.
fn counted_item(row: &ReviewRow) -> InboxItem {
    let task = InboxTask { id: row.id, name: row.name, title: String::new(), phase: Phase::Review };
    InboxItem {
        task: Some(task),
        actor: None,
        since: row.phase_at,
        deadline: None,
        fact: InboxFact::Review { checks: 0, passed: 0, for_person: 0 },
    }
}

/// The few columns of a task that an item shows.
fn named(task: &Task) -> InboxTask {
    InboxTask { id: task.id, name: task.name(), title: task.title.clone(), phase: task.phase }
}

/// The command of a check, or the description of a manual one.
fn command(check: &Check) -> String {
    match &check.kind {
        CheckKind::Command { cmd, .. } => cmd.clone(),
        CheckKind::Manual => check.desc.clone(),
    }
}

/// The agent of a run: the worker of a crew, else the actor of the task's newest attempt.
fn agent_of(record: &RunRecord, row: Option<&BoardRow>) -> Option<Actor> {
    let order = record.run.order.work().filter(|order| order.role == Role::Crew);
    let worker = order.map(|order| order.asked_by.clone());
    worker.or_else(|| Some(row?.newest.as_ref()?.actor.clone()))
}
