//! `callboard review`: the list of what waits for a person, and one task of it in detail.

use callboard_domain::board::card::Review;
use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::Job;
use callboard_domain::runs::run::RunRecord;
use callboard_domain::task::{Task, TaskRow};
use callboard_engine::context::OpContext;
use callboard_engine::ports::{FileDiff, MergeOutlook, settings_files};
use callboard_engine::store::CardRow;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{
    At, CardSeen, ReviewComments, ReviewLook, ReviewSeen, ReviewWork, TaskFilter, WorkspaceDiff,
};
use callboard_surface::toolsets::graph::view;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::diff::{changes, diff_json, file_json};
use super::job::question_json;
use super::review_comments::{comment_lines, comments_json};
use super::view::{
    blocked_words, check_job_json, check_job_line, check_lines, checks, plain, plain_lines,
    short_actor, short_id, status,
};
use crate::output::{Failure, List, Object, Out, Style, Table};

/// How many jobs that run checks are read for the list.
const CHECK_JOBS_MAX: usize = 1000;

/// List what waits for a person, or show the review of one task
///
/// Without a task, the list has reviews, questions of agents at work, and blocked tasks. With a task, it
/// shows the worker's summary and feedback, the comments of the last round and whether the work answers
/// them, the checks, how a merge would go, and the changed files.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard review\n  callboard review SHOP-01j8x2k7")]
pub struct ReviewArgs {
    /// The task, or the beginning of its id
    id: Option<String>,
    /// At most this many, without a task
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub async fn cmd_review(context: &Context, args: ReviewArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let op = open.op("review");
    match args.id {
        None => {
            let waiting = open.engine().review_list(&op, args.limit as usize).await?;
            let checking = open.engine().check_jobs_open(&op, CHECK_JOBS_MAX).await?;
            let filter =
                TaskFilter { blocked: true, limit: args.limit as usize, ..TaskFilter::default() };
            let blocked = open.engine().task_list(&op, filter).await?.it;
            let asked = open.engine().questions(&op).await?;
            open.print_queue(waiting, PersonQueue { questions: asked, blocked }, &checking)
        }
        Some(typed) => {
            let id = open.task_id(&typed).await?;
            let seen = open.engine().review_get(&op, id).await?;
            // Questions are few, so they are read for all tasks and filtered here.
            let mut asked = open.engine().questions(&op).await?;
            asked.retain(|record| record.job.task == Some(id));
            let checking = open.engine().check_job_get(&op, id).await?;
            let comments = open.engine().review_comments_list(&op, id).await?;
            let merge = open.merge_of(&op, &seen.it.card).await?;
            let beside = BesideReview { asked: asked.first(), checking: checking.as_ref(), merge };
            open.print_review(&seen, &comments, &beside)
        }
    }
}

/// What a review is shown with.
struct BesideReview<'a> {
    asked: Option<&'a RunRecord>,
    checking: Option<&'a Job>,
    merge: Option<MergeShown>,
}

/// Merged work: the commit, and the changes in each repository, or why git cannot show them.
struct MergeShown {
    commit: String,
    diffs: Result<Vec<WorkspaceDiff>, String>,
}

/// Questions and blocks that wait for a person, besides reviews.
struct PersonQueue {
    questions: Vec<RunRecord>,
    blocked: Vec<TaskRow>,
}

impl Open {
    fn print_queue(
        &self,
        waiting: At<(Vec<CardRow>, bool)>,
        PersonQueue { questions: asked, blocked }: PersonQueue,
        checking: &[Job],
    ) -> Result<(), Failure> {
        let At { it: (rows, more), now } = waiting;
        let job_of = |id: TaskId| checking.iter().find(|job| job.task == Some(id));
        if self.out.json {
            let item = |row: CardRow| {
                let summary = row.card.summary(row.newest.as_ref()).map(str::to_owned);
                let (review, job) = (row.card.review, job_of(row.task.id));
                let deps = row.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id).collect();
                let task = TaskRow { task: row.task, deps, newest: row.newest };
                let mut document = view::task_row(&task, self.policy(), now);
                document["review"] = review_json(review.as_ref());
                document["summary"] = json!(summary);
                document["check_job"] = job.map_or(Value::Null, check_job_json);
                document
            };
            let items: Vec<Value> = rows.into_iter().map(item).collect();
            let questions: Vec<Value> = asked.iter().map(question_json).collect();
            let row = |row| view::task_row(row, self.policy(), now);
            let blocked: Vec<Value> = blocked.iter().map(row).collect();
            let extra = json!({"more": more, "questions": questions, "blocked": blocked});
            return self.out.list_with(List::Reviews, items, Value::Null, extra);
        }
        let mut table =
            Table::new(&["ID", "WAITS FOR", "CHECKS", "BY", "TITLE"]).shorten(3, short_actor);
        for CardRow { task, card, .. } in &rows {
            let review = card.review.as_ref();
            let by = review.map(|review| &review.by).or(task.assignee.as_ref());
            table.row([
                (task.name().to_string(), Style::Plain),
                (waits_for(review).to_owned(), Style::Cyan),
                checks_cell(task, job_of(task.id)),
                (by.map_or("-".to_owned(), ToString::to_string), Style::Plain),
                (task.title.clone(), Style::Plain),
            ]);
        }
        if table.is_empty() && asked.is_empty() && blocked.is_empty() {
            return self.out.line("nothing waits for a review");
        }
        // With blocked tasks alone the empty table of reviews is left out.
        if !table.is_empty() || blocked.is_empty() {
            self.out.raw(&table.render(&self.out))?;
        }
        if more {
            self.out.note("more: --limit N");
        }
        self.print_questions(&asked)?;
        self.print_blocked(&blocked)
    }

    /// Tasks that are blocked until they get an answer.
    fn print_blocked(&self, rows: &[TaskRow]) -> Result<(), Failure> {
        let mut table = Table::new(&["ID", "WAITS FOR", "BY", "BLOCKED"]);
        for (task, blocked) in
            rows.iter().filter_map(|row| Some((&row.task, row.task.blocked.as_ref()?)))
        {
            table.row([
                (task.name().to_string(), Style::Plain),
                ("answer".to_owned(), Style::Cyan),
                (blocked.by.to_string(), Style::Plain),
                (plain(&blocked.reason), Style::Plain),
            ]);
        }
        if table.is_empty() {
            return Ok(());
        }
        self.out.raw(&table.render(&self.out))?;
        self.out.note("answer: callboard note ID \"…\", or callboard unblock ID");
        Ok(())
    }

    fn print_questions(&self, asked: &[RunRecord]) -> Result<(), Failure> {
        let mut table =
            Table::new(&["JOB", "WAITS FOR", "TASK", "ASKS"]).shorten(2, short_id).keep(2);
        for record in asked {
            let text = record.asks().map_or_else(String::new, |asked| asked.text.clone());
            table.row([
                (record.job.id.to_string(), Style::Plain),
                ("answer".to_owned(), Style::Cyan),
                (record.job.task.map_or("-".to_owned(), |task| task.to_string()), Style::Plain),
                (text, Style::Plain),
            ]);
        }
        if table.is_empty() {
            return Ok(());
        }
        self.out.raw(&table.render(&self.out))?;
        self.out.note("answer: callboard job answer JOB yes|no");
        Ok(())
    }

    fn print_review(
        &self,
        seen: &At<ReviewSeen>,
        comments: &ReviewComments,
        beside: &BesideReview<'_>,
    ) -> Result<(), Failure> {
        let At { it: ReviewSeen { card, work }, now } = seen;
        let BesideReview { asked, checking, merge } = beside;
        let (record, review) = (&card.record, card.card.review.as_ref());
        if self.out.json {
            let mut document = view::task(record, self.policy(), *now);
            document["acceptance_criteria"] = json!(card.card.criteria);
            document["review"] = review_json(review);
            document["summary"] = json!(card.summary());
            document["comments"] = comments_json(comments);
            document["work"] = match merge {
                Some(merge) => merge.json(),
                None => work.iter().map(work_json).collect(),
            };
            document["question"] = asked.map_or(Value::Null, question_json);
            document["checkJob"] = checking.map_or(Value::Null, check_job_json);
            return self.out.object(Object::Review, document);
        }
        let (task, out) = (&record.task, &self.out);
        let (status, style) = status(task, out);
        let mut text = format!("{}  {}\n", task.name(), out.styled(style, &status));
        text += &format!("{}\n", out.styled(Style::Bold, &plain(&task.title)));
        if let Some(review) = review {
            let at = out.when(review.decided_at.unwrap_or(review.requested_at), *now);
            let advice = if review.is_advice { " as advice" } else { "" };
            let said = format!("{}{advice} by {}, {at}", review.state.as_str(), review.by);
            text += &fact("review", &said);
        }
        text += &fact("summary", &plain_lines(card.summary().unwrap_or_default()));
        let feedback = review.and_then(|review| review.feedback.as_deref());
        text += &fact("feedback", &plain_lines(feedback.unwrap_or_default()));
        text += &fact("comments", &comment_lines(comments));
        if let Some((record, question)) =
            asked.and_then(|record| record.asks().map(|q| (record, q)))
        {
            text += &fact("asks", &format!("{} ({})", plain(&question.text), record.job.id));
        }
        let blocked = task.blocked.as_ref().map(blocked_words);
        text += &fact("blocked", &blocked.unwrap_or_default());
        text += &fact("accepted", &plain_lines(&card.card.criteria.join("\n")));
        text += &check_lines(task, out);
        text += &checking.map(check_job_line).unwrap_or_default();
        if let Some(merge) = merge {
            return out.raw(&(text + &merge.lines(out)));
        }
        for one in work {
            text += &self.work_lines(one, work.len() > 1);
        }
        if work.is_empty() {
            text += &fact("merge", "nothing: there is no workspace on this machine");
        }
        out.raw(&text)
    }

    /// The merge of a closed task.
    async fn merge_of(
        &self,
        op: &OpContext,
        card: &CardSeen,
    ) -> Result<Option<MergeShown>, Failure> {
        let Some(commit) = card.merged_as().map(str::to_owned) else { return Ok(None) };
        let diffs = match self.engine().work_diff(op, card, false).await {
            Ok(diffs) => Ok(diffs),
            Err(fault) => Err(fault.of_worktree()?.to_string()),
        };
        Ok(Some(MergeShown { commit, diffs }))
    }

    fn work_lines(&self, work: &ReviewWork, several: bool) -> String {
        let ReviewWork { part, name, looked } = work;
        let mut text = String::new();
        if several {
            text += &fact("repo", &plain(name));
        }
        let look = match looked {
            Ok(look) => look,
            Err(words) => return text + &fact("merge", &plain(words)),
        };
        text += &fact("merge", &readiness(look, &part.target));
        text += &fact("missing", &uncommitted(&look.state.uncommitted));
        text += &fact("settings", &settings_words(&look.files));
        text + &fact("files", changes(&look.files, &self.out).trim_end())
    }
}

impl MergeShown {
    fn json(&self) -> Value {
        match &self.diffs {
            Ok(diffs) => diffs.iter().map(diff_json).collect(),
            Err(words) => json!([{"commit": self.commit, "error": words}]),
        }
    }

    fn lines(&self, out: &Out) -> String {
        let diffs = match &self.diffs {
            Ok(diffs) => diffs,
            Err(words) => {
                let words = format!("merged as {}: {}", self.commit, plain(words));
                return fact("merge", &words);
            }
        };
        let mut text = String::new();
        for WorkspaceDiff { name, merged_as, diff, .. } in diffs {
            if diffs.len() > 1 {
                text += &fact("repo", &plain(name));
            }
            let commit = merged_as.as_deref().unwrap_or(&self.commit);
            text += &fact("merge", &format!("merged as {commit}"));
            text += &fact("files", changes(&diff.files, out).trim_end());
        }
        text
    }
}

/// `1/2 running` while a job runs the checks.
fn checks_cell(task: &Task, job: Option<&Job>) -> (String, Style) {
    let (words, style) = checks(&task.checks);
    match job {
        None => (words, style),
        Some(job) => {
            let count = words.split(' ').next().unwrap_or_default();
            (format!("{count} {}", job.state.as_str()), Style::Cyan)
        }
    }
}

fn waits_for(review: Option<&Review>) -> &'static str {
    match review.is_some_and(Review::is_approved) {
        true => "merge",
        false => "review",
    }
}

/// `2 commits into main, 1 behind it, no conflicts`.
fn readiness(look: &ReviewLook, target: &str) -> String {
    let target = plain(target);
    let commits = match look.state.commits {
        0 if look.state.uncommitted.is_empty() => {
            return format!("nothing: {target} already has all changes");
        }
        1 => "1 commit".to_owned(),
        count => format!("{count} commits"),
    };
    match &look.outlook {
        Err(words) => format!("{commits} into {target}: {}", plain(words)),
        Ok(outlook) => format!("{commits} into {target}, {}", outlook_words(outlook)),
    }
}

/// `1 behind it, no conflicts`.
pub fn outlook_words(outlook: &MergeOutlook) -> String {
    let behind = match outlook.behind {
        0 => "up to date".to_owned(),
        behind => format!("{behind} behind it"),
    };
    let conflicts = match outlook.conflicts.as_slice() {
        [] => "no conflicts".to_owned(),
        files => format!("conflicts in {}", plain(&files.join(", "))),
    };
    format!("{behind}, {conflicts}")
}

/// Warns of changed settings: what is merged there decides what Callboard runs.
fn settings_words(files: &[FileDiff]) -> String {
    match settings_files(files.iter().map(|file| &file.path)).as_slice() {
        [] => String::new(),
        files => format!(
            "read {} with care: these files are settings of Callboard, merged only with --settings",
            plain(&files.join(", "))
        ),
    }
}

/// The uncommitted files; a merge commits them first.
fn uncommitted(files: &[String]) -> String {
    match files {
        [] => String::new(),
        files => format!("not committed yet: {}", plain(&files.join(", "))),
    }
}

/// A named value on lines of its own; empty for an empty value.
fn fact(name: &str, value: &str) -> String {
    let mut lines = value.lines().filter(|_| !value.trim().is_empty());
    let first = lines.next().map(|line| format!("{name:<10}{line}\n"));
    let rest = lines.map(|line| format!("{:<10}{line}\n", ""));
    first.into_iter().chain(rest).collect()
}

fn review_json(review: Option<&Review>) -> Value {
    let Some(review) = review else { return Value::Null };
    json!({
        "state": review.state.as_str(),
        "summary": review.summary,
        "feedback": review.feedback,
        "by": review.by,
        "requested_at": rfc3339_ms(review.requested_at),
        "decided_at": review.decided_at.map(rfc3339_ms),
        "conflict_files": review.conflict_files,
        "merge_commit": review.merge_commit,
        "is_advice": review.is_advice,
    })
}

fn work_json(work: &ReviewWork) -> Value {
    let ReviewWork { part, name, looked } = work;
    let place = part.worktree.as_ref();
    let mut document = json!({
        "repo": name,
        "path": place.map(|place| &place.path),
        "branch": place.map(|place| &place.branch),
        "target": part.target,
        "error": looked.as_ref().err(),
    });
    if let Ok(look) = looked {
        document["commits"] = look.state.commits.into();
        document["uncommitted"] = json!(look.state.uncommitted);
        document["behind"] = json!(look.outlook.as_ref().ok().map(|outlook| outlook.behind));
        document["conflicts"] = json!(look.outlook.as_ref().ok().map(|outlook| &outlook.conflicts));
        document["error"] = json!(look.outlook.as_ref().err());
        document["settings"] = settings_files(look.files.iter().map(|file| &file.path)).into();
        document["files"] = look.files.iter().map(file_json).collect();
    }
    document
}
