//! The inbox of a person: everything that waits for one, each task once, in the order in which it costs the most to wait.
//! The order, the precedence of causes and the words are here; the engine finds the items.

use std::collections::HashMap;

use crate::actor::{Actor, ActorKind};
use crate::board::plan::PlanId;
use crate::board::why::{name, said};
use crate::crew::{AgentId, Mail, MailId};
use crate::event::{EventName, LoggedEvent};
use crate::ids::{TaskId, TaskName};
use crate::policy::Phase;
use crate::runs::job::JobId;
use crate::time::{Timestamp, span_words};
use crate::words::words;

/// At most so many rows are shown.
pub const INBOX_ROWS_MAX: usize = 100;
/// How much of a letter its row quotes.
const MAIL_CHARS: usize = 120;
/// A check that failed so often in a row in one attempt needs a person.
pub const STREAK_MIN: usize = 3;

words! {
    /// Why something waits for a person, the strongest cause first: of several causes of one task the first one is
    /// shown.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum InboxCause {
        /// An agent waits for an answer.
        Question => "question",
        /// The holder of a task is silent.
        Silent => "silent",
        /// The work conflicts with its target.
        Conflict => "conflict",
        /// A verification failed, or one check failed again and again.
        Checks => "checks",
        /// The work is approved and not merged.
        Merge => "merge",
        Review => "review",
        /// A run failed, and no other one followed.
        Run => "run",
        /// A worker of a crew failed.
        Worker => "worker",
        /// A block or an open comment stands in the way of a task.
        Blocker => "blocker",
        /// The worktrees use more of the disk than they may.
        Disk => "disk",
        Plan => "plan",
        Mail => "mail",
    }
}

words! {
    /// The tab of the inbox that shows a cause.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum InboxKind {
        Review => "review",
        Question => "question",
        Broken => "broken",
        Plan => "plan",
        Mail => "mail",
    }
}

impl InboxCause {
    /// The cause as something to count: `1 review`, `2 reviews`.
    pub fn counted(self, count: usize) -> String {
        let noun = match self {
            InboxCause::Question => "question",
            InboxCause::Silent => "silent agent",
            InboxCause::Conflict => "conflict",
            InboxCause::Checks => "failed verification",
            InboxCause::Merge => "merge",
            InboxCause::Review => "review",
            InboxCause::Run => "failed job",
            InboxCause::Worker => "failed worker",
            InboxCause::Blocker => "blocked task",
            InboxCause::Disk => "disk warning",
            InboxCause::Plan => "plan",
            InboxCause::Mail => "unread mail",
        };
        format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
    }

    /// Whether an agent stands still until a person acts.
    pub fn is_standing(self) -> bool {
        match self {
            InboxCause::Question | InboxCause::Silent => true,
            InboxCause::Conflict
            | InboxCause::Checks
            | InboxCause::Merge
            | InboxCause::Review
            | InboxCause::Run
            | InboxCause::Worker
            | InboxCause::Blocker
            | InboxCause::Disk
            | InboxCause::Plan
            | InboxCause::Mail => false,
        }
    }

    pub fn kind(self) -> InboxKind {
        match self {
            InboxCause::Question => InboxKind::Question,
            InboxCause::Conflict | InboxCause::Merge | InboxCause::Review => InboxKind::Review,
            InboxCause::Silent
            | InboxCause::Checks
            | InboxCause::Run
            | InboxCause::Worker
            | InboxCause::Blocker
            | InboxCause::Disk => InboxKind::Broken,
            InboxCause::Plan => InboxKind::Plan,
            InboxCause::Mail => InboxKind::Mail,
        }
    }
}

/// Something that waits for a person, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    pub task: Option<InboxTask>,
    /// The actor that waits, failed or wrote.
    pub actor: Option<Actor>,
    pub since: Timestamp,
    /// When the matter is decided without a person.
    pub deadline: Option<Timestamp>,
    pub fact: InboxFact,
}

/// The task of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxTask {
    pub id: TaskId,
    pub name: TaskName,
    pub title: String,
    pub phase: Phase,
}

/// The facts of each cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InboxFact {
    Question {
        job: JobId,
        number: u32,
        text: String,
        command: Option<String>,
    },
    Silent,
    /// With the number of files that conflict.
    Conflict {
        files: usize,
    },
    VerificationFailed {
        reason: Option<String>,
    },
    /// With the command of the check.
    CheckStreak {
        check: String,
        times: usize,
    },
    Approved,
    Review {
        checks: usize,
        passed: usize,
        for_person: usize,
    },
    RunFailed {
        job: JobId,
        reason: String,
    },
    WorkerFailed {
        agent: AgentId,
    },
    Blocked {
        reason: String,
    },
    /// An open comment: a blocker, or a proposal to give the task up.
    Comment {
        body: String,
        gives_up: bool,
    },
    /// The worktrees of the machine use more than `workspace.quota_mb`.
    DiskOver {
        used_mb: u64,
        quota_mb: u64,
    },
    Plan {
        plan: PlanId,
        tasks: usize,
    },
    Mail {
        mail: MailId,
        subject: String,
        /// The first words of the letter.
        begins: String,
    },
}

impl InboxFact {
    pub fn of_mail(mail: &Mail) -> Self {
        let begins = mail.body.chars().take(MAIL_CHARS).collect();
        Self::Mail { mail: mail.id, subject: mail.subject.clone(), begins }
    }

    pub fn cause(&self) -> InboxCause {
        match self {
            InboxFact::Question { .. } => InboxCause::Question,
            InboxFact::Silent => InboxCause::Silent,
            InboxFact::Conflict { .. } => InboxCause::Conflict,
            InboxFact::VerificationFailed { .. } | InboxFact::CheckStreak { .. } => {
                InboxCause::Checks
            }
            InboxFact::Approved => InboxCause::Merge,
            InboxFact::Review { .. } => InboxCause::Review,
            InboxFact::RunFailed { .. } => InboxCause::Run,
            InboxFact::WorkerFailed { .. } => InboxCause::Worker,
            InboxFact::Blocked { .. } | InboxFact::Comment { .. } => InboxCause::Blocker,
            InboxFact::DiskOver { .. } => InboxCause::Disk,
            InboxFact::Plan { .. } => InboxCause::Plan,
            InboxFact::Mail { .. } => InboxCause::Mail,
        }
    }
}

/// A row of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxRow {
    /// Stable while the matter is open: `review:SHOP-12`. A further question has another key.
    pub key: String,
    pub cause: InboxCause,
    /// The title as a demand.
    pub title: String,
    pub task: Option<InboxTask>,
    pub actor: Option<Actor>,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
    /// What happens, or does not happen, while no person acts.
    pub consequence: String,
    pub fact: InboxFact,
}

/// The inbox at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbox {
    /// First the rows of agents that stand still, the soonest deadline first; then the others, the oldest first.
    pub rows: Vec<InboxRow>,
    /// How many rows were left out because of the limit.
    pub more: usize,
    /// How many rows of each kind there are, before `InboxWanted::kinds`.
    pub counts: HashMap<InboxKind, usize>,
    /// How many rows are snoozed.
    pub snoozed: usize,
}

impl Inbox {
    /// The number of all rows, shown or not.
    pub fn total(&self) -> usize {
        self.rows.len() + self.more
    }
}

/// The part of the inbox that a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxWanted {
    /// Empty: every kind.
    pub kinds: Vec<InboxKind>,
    /// Keys that this person put off, each until a moment.
    pub snoozed: Vec<(String, Timestamp)>,
    /// Shows the snoozed rows instead of the others.
    pub only_snoozed: bool,
    /// 0: `INBOX_ROWS_MAX`.
    pub limit: usize,
}

impl InboxWanted {
    /// Whether a snoozed key may be that of this task.
    pub fn names(&self, task: TaskName) -> bool {
        let name = task.to_string();
        let is_named = |key: &str| {
            let place = key.split_once(':').map(|(_, place)| place);
            let rest = place.and_then(|place| place.strip_prefix(&name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.snoozed.iter().any(|(key, _)| is_named(key))
    }
}

/// Makes the inbox of the items that were found.
pub fn arrange(items: Vec<InboxItem>, wanted: &InboxWanted, now: Timestamp) -> Inbox {
    let mut rows: Vec<InboxRow> = strongest(items).into_iter().map(|item| row(item, now)).collect();
    let until: HashMap<&str, Timestamp> =
        wanted.snoozed.iter().map(|(key, until)| (key.as_str(), *until)).collect();
    let is_snoozed = |row: &InboxRow| until.get(row.key.as_str()).is_some_and(|at| *at > now);
    let snoozed = rows.iter().filter(|row| is_snoozed(row)).count();
    rows.retain(|row| is_snoozed(row) == wanted.only_snoozed);
    let mut counts = HashMap::new();
    for row in &rows {
        *counts.entry(row.cause.kind()).or_default() += 1;
    }
    let kinds = &wanted.kinds;
    rows.retain(|row| kinds.is_empty() || kinds.contains(&row.cause.kind()));
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    let limit = if wanted.limit == 0 { INBOX_ROWS_MAX } else { wanted.limit };
    let more = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    Inbox { rows, more, counts, snoozed }
}

/// The strongest item of each task; of equal ones the oldest. Items without a task are all kept.
fn strongest(items: Vec<InboxItem>) -> Vec<InboxItem> {
    let (mut places, mut kept) = (HashMap::<TaskId, usize>::new(), Vec::<InboxItem>::new());
    let strength = |item: &InboxItem| (item.fact.cause(), item.since);
    for item in items {
        let task = item.task.as_ref().map(|task| task.id);
        match task.and_then(|task| places.get(&task).copied()) {
            Some(place) if strength(&item) < strength(&kept[place]) => kept[place] = item,
            Some(_) => {}
            None => {
                places.extend(task.map(|task| (task, kept.len())));
                kept.push(item);
            }
        }
    }
    kept
}

/// Sorts standing rows by cause and deadline, and waiting ones by age. The key makes the order total.
fn order(row: &InboxRow) -> (bool, Option<InboxCause>, Timestamp, Timestamp, &str) {
    let is_standing = row.cause.is_standing();
    let deadline = row.deadline.unwrap_or(Timestamp(i64::MAX));
    let soonest = if is_standing { deadline } else { row.since };
    (!is_standing, is_standing.then_some(row.cause), soonest, row.since, &row.key)
}

fn row(item: InboxItem, now: Timestamp) -> InboxRow {
    let key = key(&item);
    let (title, consequence) = (title(&item), consequence(&item, now));
    let InboxItem { task, actor, since, deadline, fact } = item;
    InboxRow { key, cause: fact.cause(), title, task, actor, since, deadline, consequence, fact }
}

fn key(item: &InboxItem) -> String {
    let cause = item.fact.cause().as_str();
    let task = item.task.as_ref().map(|task| task.name.to_string());
    match &item.fact {
        InboxFact::Question { job, number, .. } => {
            format!("{cause}:{}.{number}", task.unwrap_or_else(|| job.to_string()))
        }
        InboxFact::RunFailed { job, .. } => {
            format!("{cause}:{}", task.unwrap_or_else(|| job.to_string()))
        }
        InboxFact::WorkerFailed { agent } => format!("{cause}:{agent}"),
        InboxFact::DiskOver { .. } => format!("{cause}:worktrees"),
        InboxFact::Plan { plan, .. } => format!("{cause}:{plan}"),
        InboxFact::Mail { mail, .. } => format!("{cause}:{mail}"),
        InboxFact::Silent
        | InboxFact::Conflict { .. }
        | InboxFact::VerificationFailed { .. }
        | InboxFact::CheckStreak { .. }
        | InboxFact::Approved
        | InboxFact::Review { .. }
        | InboxFact::Blocked { .. }
        | InboxFact::Comment { .. } => format!("{cause}:{}", task.unwrap_or_default()),
    }
}

fn title(item: &InboxItem) -> String {
    let of_task = item.task.as_ref().map(|task| task.title.clone());
    match &item.fact {
        InboxFact::Question { command: Some(command), .. } => {
            let agent = item.actor.as_ref().filter(|actor| actor.kind() != ActorKind::System);
            let who = agent.map_or("an agent", name);
            format!("May {who} run {}?", said(command))
        }
        InboxFact::Question { text, command: None, .. } => said(text),
        InboxFact::RunFailed { job, .. } => {
            of_task.unwrap_or_else(|| format!("Look at the run of job {job}"))
        }
        InboxFact::WorkerFailed { agent } => format!("Look at the worker {agent}"),
        InboxFact::DiskOver { .. } => "Make room: the worktrees are over their quota".to_owned(),
        InboxFact::Plan { tasks: 1, .. } => "Decide on a plan of 1 task".to_owned(),
        InboxFact::Plan { tasks, .. } => format!("Decide on a plan of {tasks} tasks"),
        InboxFact::Mail { subject, .. } => said(subject),
        InboxFact::Silent
        | InboxFact::Conflict { .. }
        | InboxFact::VerificationFailed { .. }
        | InboxFact::CheckStreak { .. }
        | InboxFact::Approved
        | InboxFact::Review { .. }
        | InboxFact::Blocked { .. }
        | InboxFact::Comment { .. } => of_task.unwrap_or_default(),
    }
}

fn consequence(item: &InboxItem, now: Timestamp) -> String {
    let left = item.deadline.map(|at| span_words(at.ms_since(now)));
    match &item.fact {
        InboxFact::Question { .. } => match left {
            Some(left) => format!("refused in {left}; no answer counts as no"),
            None => "the agent waits for an answer".to_owned(),
        },
        InboxFact::Silent => match left {
            Some(left) => format!("lease ends in {left}, then the task is free again"),
            None => "the task stays held until a person releases it".to_owned(),
        },
        InboxFact::Conflict { files: 1 } => "1 file conflicts; no merge before a rebase".to_owned(),
        InboxFact::Conflict { files } => {
            format!("{files} files conflict; no merge before a rebase")
        }
        InboxFact::VerificationFailed { reason: Some(reason) } => {
            format!("verification failed: {}", said(reason))
        }
        InboxFact::VerificationFailed { reason: None } => "verification failed".to_owned(),
        InboxFact::CheckStreak { check, times } => {
            format!("{} failed {times} times in a row", said(check))
        }
        InboxFact::Approved => "approved; not merged before a person merges it".to_owned(),
        InboxFact::Review { checks: 0, .. } => "no checks; the work waits for a verdict".to_owned(),
        InboxFact::Review { checks, passed, for_person } => match for_person {
            0 => format!("{passed}/{checks} checks pass"),
            1 => format!("{passed}/{checks} checks pass, 1 is for a person"),
            count => format!("{passed}/{checks} checks pass, {count} are for a person"),
        },
        InboxFact::RunFailed { reason, .. } if reason.trim().is_empty() => {
            "failed; no other run follows".to_owned()
        }
        InboxFact::RunFailed { reason, .. } => format!("failed: {}", said(reason)),
        InboxFact::WorkerFailed { .. } => "failed; gets no other task".to_owned(),
        InboxFact::Blocked { reason } => format!("stuck: {}", said(reason)),
        InboxFact::Comment { body, gives_up: true } => format!("give it up? {}", said(body)),
        InboxFact::Comment { body, gives_up: false } => format!("blocker: {}", said(body)),
        InboxFact::DiskOver { used_mb, quota_mb } => format!(
            "{used_mb} MB of {quota_mb} MB are used; callboard gc shows what can be removed"
        ),
        InboxFact::Plan { .. } => "no task is created before a person approves".to_owned(),
        InboxFact::Mail { begins, .. } => format!("unread: {}", said(begins)),
    }
}

/// The check that failed most often in a row, if one failed often enough: its index and the number of failures. The events
/// of the task are the newest first; runs before `since` do not count.
pub fn failing_streak(events: &[LoggedEvent], since: Timestamp) -> Option<(usize, usize)> {
    let mut streaks: Vec<(usize, usize, bool)> = Vec::new();
    let ran = events.iter().filter(|event| event.name == EventName::CheckRan && event.at >= since);
    for event in ran {
        let data = event.read();
        let Some(index) = data.check_index() else { continue };
        let place = streaks.iter().position(|(known, ..)| *known == index);
        let place = place.unwrap_or_else(|| {
            streaks.push((index, 0, false));
            streaks.len() - 1
        });
        let (_, times, is_over) = &mut streaks[place];
        *is_over |= data.is_pass();
        *times += usize::from(!*is_over);
    }
    let often = streaks.into_iter().filter(|(_, times, _)| *times >= STREAK_MIN);
    often
        .map(|(index, times, _)| (index, times))
        .max_by_key(|(index, times)| (*times, usize::MAX - *index))
}
