//! `callboard diff`: the changes of a task's work, or the patch of a job.

use callboard_domain::ids::TaskId;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::ArtifactName;
use callboard_engine::WorkspaceDiff;
use callboard_engine::ports::FileDiff;
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::id_ref::TaskOrJob;
use super::job::artifact;
use super::patch;
use super::view::plain;
use crate::output::{Exit, Failure, Object, Out, Style, Table};

/// Print the changes of a task's work, or the patch of a job
///
/// Of a task: everything in its worktree against the commit it begins at, committed or not. Merged
/// work is shown as it was merged. Paths of a task with several repositories stand below their names.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard diff SHOP-01j8x2k7\n  callboard diff job_01k0v3e8xq7rjw2m5c9n4d6t0z | git apply"
)]
pub struct DiffArgs {
    /// The task, the beginning of its id, or a job
    id: String,
    /// Only the files, with their numbers of lines
    #[arg(long)]
    stat: bool,
}

pub async fn cmd_diff(context: &Context, args: DiffArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    match open.task_or_job(&args.id).await? {
        TaskOrJob::Job(job) => diff_of_job(&open, job, args.stat).await,
        TaskOrJob::Task(task) => diff_of_task(&open, task, args.stat).await,
    }
}

/// The patch of a job, as it was judged and kept.
async fn diff_of_job(open: &Open, job: JobId, stat: bool) -> Result<(), Failure> {
    let patch = artifact(open, job, ArtifactName::Patch).await?;
    let files = patch::files(&patch);
    if open.out.json {
        let files: Vec<Value> = files.iter().map(file_json).collect();
        let patch = (!stat).then_some(patch);
        return open.out.object(Object::Diff, json!({"job": job, "files": files, "patch": patch}));
    }
    match stat {
        true => open.out.raw(&changes(&files, &open.out)),
        false => print_patch(&open.out, &patch),
    }
}

/// The changes in the worktrees of a task on this machine, or of its merge. With `stat` no patch is made, so a huge change can still be
/// listed.
async fn diff_of_task(open: &Open, id: TaskId, stat: bool) -> Result<(), Failure> {
    let op = open.op("diff");
    let card = open.engine().card_get(&op, id).await?.it;
    let diffs = match open.engine().work_diff(&op, &card, !stat).await {
        Ok(diffs) => diffs,
        Err(fault) => {
            let fault = fault.of_worktree()?;
            let (words, hint) = match card.merged_as() {
                Some(commit) => (
                    format!("the work was merged as {commit}, which git cannot show here: {fault}"),
                    "git fetch in the repository of the task, then try again".to_owned(),
                ),
                None => (fault.to_string(), format!("callboard diff {id} --stat")),
            };
            return Err(Failure::new(Exit::Failure, "DIFF_FAILED", words).hint(hint));
        }
    };
    if diffs.is_empty() {
        let words = format!("{id} has no workspace on this machine");
        let failure = Failure::new(Exit::NotFound, "WORKSPACE_NOT_FOUND", words);
        let hint = format!("callboard task show {id} shows what is known of the work");
        return Err(failure.hint(hint));
    }
    if open.out.json {
        let repos: Vec<Value> = diffs.iter().map(diff_json).collect();
        return open.out.object(Object::Diff, json!({"task": id, "repos": repos}));
    }
    let commits: Vec<&str> = diffs.iter().filter_map(|one| one.merged_as.as_deref()).collect();
    if !commits.is_empty() {
        open.out.note(&format!("merged as {}", commits.join(", ")));
    } else if diffs.iter().all(|one| one.diff.files.is_empty()) {
        open.out.note("nothing is changed");
    }
    let several = diffs.len() > 1;
    for WorkspaceDiff { name, diff, .. } in &diffs {
        if several && stat {
            open.out.line(&plain(name))?;
        }
        match &diff.patch {
            Some(patch) => print_patch(&open.out, patch)?,
            None => open.out.raw(&changes(&diff.files, &open.out))?,
        }
    }
    Ok(())
}

/// Prints a patch unchanged for programs; a terminal gets colours, and must not obey control characters.
pub fn print_patch(out: &Out, patch: &str) -> Result<(), Failure> {
    if !out.terminal {
        return out.raw(patch);
    }
    let line = |line: &str| {
        let style = match line.as_bytes() {
            [b'+', ..] => Style::Green,
            [b'-', ..] => Style::Red,
            [b'@', ..] => Style::Cyan,
            [b'd', b'i', b'f', b'f', b' ', ..] => Style::Bold,
            _ => Style::Plain,
        };
        let line: String =
            line.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
        if style == Style::Plain { format!("{line}\n") } else { out.styled(style, &line) + "\n" }
    };
    out.raw(&patch.lines().map(line).collect::<String>())
}

/// One line per file, with the numbers of added and removed lines.
pub fn changes(files: &[FileDiff], out: &Out) -> String {
    let mut table = Table::new(&["ADDED", "REMOVED", "FILE"]).without_heads().whole();
    for FileDiff { path, was, lines } in files {
        let (added, removed) = match lines {
            Some((added, removed)) => (format!("+{added}"), format!("-{removed}")),
            None => ("binary".to_owned(), String::new()),
        };
        let name = match was {
            Some(was) => format!("{was} => {path}"),
            None => path.clone(),
        };
        table.row([(added, Style::Green), (removed, Style::Red), (name, Style::Plain)]);
    }
    if table.is_empty() { String::new() } else { table.render(out) }
}

/// The changes in one repository.
pub fn diff_json(one: &WorkspaceDiff) -> Value {
    let WorkspaceDiff { part, name, merged_as, diff } = one;
    let place = part.worktree.as_ref();
    json!({
        "repo": name,
        "path": place.map(|place| &place.path),
        "branch": place.map(|place| &place.branch),
        "target": part.target,
        "commit": merged_as,
        "base": diff.base,
        "files": diff.files.iter().map(file_json).collect::<Vec<_>>(),
        "patch": diff.patch,
    })
}

/// One file; a binary one has no numbers.
pub fn file_json(file: &FileDiff) -> Value {
    let (insertions, deletions) = file.lines.unzip();
    json!({
        "path": file.path,
        "was": file.was,
        "insertions": insertions,
        "deletions": deletions,
    })
}
