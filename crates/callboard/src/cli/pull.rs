//! `callboard pull …`: pull requests, wherever they are, and the command that merges one.

use callboard_domain::pulls::{LOCAL, Pull, local_url};
use callboard_engine::ports::{MergeOutlook, MergeWish};
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{PullEnd, PullLook, PullLookFault, PullNamed};
use serde_json::{Value, json};

use super::context::{Context, Open};
use super::diff::{changes, file_json, print_patch};
use super::review::outlook_words;
use super::view::plain;
use crate::output::{Exit, Failure, List, Object, Style, Table};

/// List, show and merge pull requests
#[derive(clap::Subcommand, Debug)]
pub enum PullCommand {
    List(PullListArgs),
    Show(PullShowArgs),
    Merge(MergeArgs),
}

impl PullCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            PullCommand::List(args) => cmd_pull_list(context, args).await,
            PullCommand::Show(args) => cmd_pull_show(context, args).await,
            PullCommand::Merge(args) => cmd_pull_merge(context, args).await,
        }
    }
}

/// List open pull requests, the newest first
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard pull list --all")]
pub struct PullListArgs {
    /// Also those that are merged or closed
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

/// Show a pull request: its status, how a merge would go, and the files it changes
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard pull show 7\n  callboard pull show 7 --patch | git apply --stat"
)]
pub struct PullShowArgs {
    /// Its number in Callboard, its address, or the task or epic it is of
    pull: String,
    /// Only its changes, as a patch
    #[arg(long)]
    patch: bool,
}

/// Merge a pull request as a single commit
///
/// A task's pull request is merged by its review: callboard approve TASK --merge. Exit code 5 says that
/// the pull request could not be merged.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard pull merge 7")]
pub struct MergeArgs {
    /// Its number in Callboard, its address, or the epic it is of
    pull: String,
    /// Push the base to origin as well; a forge merges its own pull requests there already
    #[arg(long)]
    push: bool,
    /// Merge changes of Callboard's own settings too
    #[arg(long)]
    settings: bool,
}

async fn cmd_pull_list(context: &Context, args: PullListArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let found = open.engine().pull_list(&open.op("pull_list"), !args.all, args.limit).await?;
    if context.out.json {
        let items: Vec<Value> = found.iter().map(document).collect();
        return context.out.list(List::Pulls, items, Value::Null);
    }
    let mut table = Table::new(&["PULL", "STATUS", "FROM", "INTO", "TITLE"]);
    for pull in &found {
        table.row([
            (pull.url.clone(), Style::Plain),
            (pull.status.clone(), Style::Cyan),
            (pull.branch.clone(), Style::Plain),
            (pull.base.clone(), Style::Plain),
            (pull.title.clone(), Style::Plain),
        ]);
    }
    if table.is_empty() {
        return context.out.line(if args.all {
            "no pull requests"
        } else {
            "no pull request is open"
        });
    }
    context.out.raw(&table.render(&context.out))
}

async fn cmd_pull_show(context: &Context, args: PullShowArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let pull = open.pull(&args.pull).await?;
    let op = open.op("pull_show");
    let looked = match open.engine().pull_look(&op, &pull, args.patch).await {
        Ok(look) => Ok(look),
        Err(PullLookFault::Unknown(why)) => Err(why),
        Err(PullLookFault::Engine(error)) => return Err(error.into()),
    };
    if context.out.json {
        let mut document = document(&pull);
        match &looked {
            Ok(PullLook { diff, outlook }) => {
                document["files"] = diff.files.iter().map(file_json).collect();
                document["patch"] = json!(diff.patch);
                document["behind"] = json!(outlook.as_ref().ok().map(|outlook| outlook.behind));
                document["conflicts"] =
                    json!(outlook.as_ref().ok().map(|outlook| &outlook.conflicts));
                document["error"] = json!(outlook.as_ref().err());
            }
            Err(why) => document["error"] = json!(why),
        }
        return context.out.object(Object::Pull, document);
    }
    if let Ok(PullLook { diff, .. }) = &looked
        && let Some(patch) = &diff.patch
    {
        return print_patch(&context.out, patch);
    }
    let status = context.out.styled(Style::Cyan, &pull.status);
    let title = context.out.styled(Style::Bold, &plain(&pull.title));
    let mut text = format!("{}  {status}\n{title}\n", plain(&pull.url));
    text += &format!("from      {}\ninto      {}\n", plain(&pull.branch), plain(&pull.base));
    if let Some(task) = pull.task {
        text += &format!("task      {task}\n");
    }
    match &looked {
        Err(why) => text += &format!("merge     {}\n", plain(why)),
        Ok(PullLook { diff, outlook }) => {
            if pull.is_open() {
                text += &format!("merge     {}\n", readiness(outlook));
            }
            text += &changes(&diff.files, &context.out);
        }
    }
    if let Some(commit) = &pull.merge_commit {
        text += &format!("merged    {}\n", plain(commit));
    }
    context.out.raw(&text)
}

async fn cmd_pull_merge(context: &Context, args: MergeArgs) -> Result<(), Failure> {
    let open = context.open().await?;
    let pull = open.pull(&args.pull).await?;
    let op = open.op_long("pull_merge")?;
    let (push, settings) = (args.push, args.settings);
    let wish = MergeWish { push, settings, ..MergeWish::default() };
    let (end, merged) = open.engine().pull_accept(&op, &pull, wish).await?;
    let failed = |words: String| {
        Failure::new(Exit::Conflict, "MERGE_FAILED", format!("{} is not merged: {words}", pull.url))
    };
    match end {
        PullEnd::Merged { commit } if context.out.json => {
            open.warn_of_push(&merged);
            let pushed = merged.pushed.map(|pushed| pushed.is_ok());
            context.out.object(
                Object::PullMerged,
                json!({
                    "url": pull.url, "merged": true, "commit": commit,
                    "pushed": pushed, "pushed_to": merged.pushed_to,
                }),
            )
        }
        PullEnd::Merged { commit: Some(commit) } => {
            open.say_pushed(&merged, args.push && pull.forge == LOCAL);
            context.out.line(&format!("{} is merged as {commit}", pull.url))
        }
        PullEnd::Merged { commit: None } => context.out.line(&format!("{} is merged", pull.url)),
        PullEnd::Nothing if context.out.json => context
            .out
            .object(Object::PullMerged, json!({"url": pull.url, "merged": false, "commit": null})),
        PullEnd::Nothing => {
            let words =
                format!("{} is closed: {} already has all of its changes", pull.url, pull.base);
            context.out.line(&words)
        }
        PullEnd::Waiting if context.out.json => context
            .out
            .object(Object::PullMerged, json!({"url": pull.url, "merged": false, "commit": null})),
        PullEnd::Waiting => context
            .out
            .line(&format!("{} will be merged by its forge when the forge allows it", pull.url)),
        PullEnd::Conflicts { files } => {
            let words = match files.as_slice() {
                [] => "conflicts".to_owned(),
                files => format!("conflicts in {}", files.join(", ")),
            };
            let hint = format!("git rebase {} {}", pull.base, pull.branch);
            Err(failed(words).hint(hint).details(json!({"conflict_files": files})))
        }
        PullEnd::Refused { why } => {
            let failed = failed(why);
            let task = pull.task.filter(|_| pull.is_open());
            Err(match task {
                Some(task) => failed.hint(format!("callboard review {task}")),
                None => failed,
            })
        }
    }
}

impl Open {
    /// The pull request that the typed text names.
    async fn pull(&self, typed: &str) -> Result<Pull, Failure> {
        let typed = typed.trim();
        let named = match typed.parse::<u64>() {
            Ok(number) => PullNamed::Url(local_url(number)),
            Err(_) if typed.contains("://") => PullNamed::Url(typed.into()),
            Err(_) => PullNamed::Task(self.task_id(typed).await?),
        };
        let found = self.engine().pull_find(&self.op("pull_find"), named).await?;
        found.ok_or_else(|| {
            let words = format!("there is no pull request {typed}");
            Failure::new(Exit::NotFound, "PULL_NOT_FOUND", words).hint("callboard pull list --all")
        })
    }
}

fn readiness(outlook: &Result<MergeOutlook, String>) -> String {
    match outlook {
        Err(words) => plain(words),
        Ok(outlook) => outlook_words(outlook),
    }
}

fn document(pull: &Pull) -> Value {
    json!({
        "url": pull.url,
        "number": pull.number,
        "forge": pull.forge,
        "repo": pull.repo,
        "status": pull.status,
        "branch": pull.branch,
        "base": pull.base,
        "head": pull.head,
        "title": pull.title,
        "task": pull.task,
        "job": pull.job,
        "merge_commit": pull.merge_commit,
        "created_at": rfc3339_ms(pull.created_at),
        "changed_at": rfc3339_ms(pull.changed_at),
    })
}
