//! Brings the work of a branch into its target as one commit, built on top of the target without a checkout. All
//! repositories of a task are prepared before any target moves.
//!
//! The commit names the task and the head it holds, so a repeated merge, perhaps after a crash, finds it.

mod conflict;
mod look;
mod publish;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use callboard_domain::board::branch::is_branch_name;
use callboard_domain::review::conflict::FileConflict;
use callboard_engine::ports::{
    MergeFault, MergeFrom, MergeOrder, MergeOutlook, MergePlan, MergedPart, Merges, PreparedMerge,
    PreparedPart, Rebased, Turn, WorktreeFault, settings_files,
};

use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;
use crate::scratch::Scratch;
use crate::worktree::{
    Fork, HEAD_TRAILER, LocalWorktrees, TASK_TRAILER, Tip, Tips, commit_leftovers, commit_of,
    common_dir, fetch, fork, is_ancestor, names, placed_in, rebase_onto, repo_lock, signing, text,
    to_the_end,
};

#[async_trait]
impl Merges for LocalWorktrees {
    async fn merge_prepare(&self, orders: Vec<MergeOrder>) -> Result<PreparedMerge, MergeFault> {
        // Names are judged before any lock is taken or any repository is touched.
        for order in &orders {
            if order.target.starts_with("origin/") {
                return Err(MergeFault::RemoteTarget(order.target.clone()));
            }
            if !is_branch_name(&order.target) {
                return Err(WorktreeFault::BadBranch(order.target.clone()).into());
            }
        }
        let turn = take_turns(&orders).await?;
        let folder = self.folder().to_owned();
        let prepared = to_the_end(async move {
            let mut parts = Vec::new();
            for order in orders {
                // A look that an earlier caller left open shows old files.
                look::close(&folder, order.from.repo(), &order.task).await;
                let settings_seen = order.settings_seen;
                let part = prepare(order).await?;
                judge_settings(&part, settings_seen)?;
                judge_placed(&part).await?;
                parts.push(part);
            }
            Ok(PreparedMerge { parts, turn })
        });
        prepared.await
    }

    async fn merge_outlook(
        &self,
        repo: &Path,
        from: &str,
        target: &str,
    ) -> Result<MergeOutlook, MergeFault> {
        outlook(&Sides::of(repo, from, target).await?).await
    }

    async fn merge_conflict(
        &self,
        repo: &Path,
        from: &str,
        target: &str,
        file: &str,
    ) -> Result<FileConflict, MergeFault> {
        conflict::conflict(&Sides::of(repo, from, target).await?, file).await
    }

    async fn merge_look(&self, part: &PreparedPart) -> Result<PathBuf, MergeFault> {
        look::open(self.folder(), part).await
    }

    async fn merge_publish(
        &self,
        prepared: PreparedMerge,
        push: bool,
    ) -> Result<Vec<MergedPart>, MergeFault> {
        let folder = self.folder().to_owned();
        let published = to_the_end(async move {
            let published = publish::publish(&folder, &prepared.parts, push).await;
            abandon(&folder, prepared).await;
            published
        });
        published.await
    }

    async fn merge_abandon(&self, prepared: PreparedMerge) {
        let folder = self.folder().to_owned();
        to_the_end(async move { abandon(&folder, prepared).await }).await;
    }
}

/// Closes the looks and gives the turn back. The prepared commits stay as loose objects until git collects them.
async fn abandon(folder: &Path, prepared: PreparedMerge) {
    for part in &prepared.parts {
        look::close(folder, part.from.repo(), &part.task).await;
    }
    drop(prepared.turn);
}

/// Takes the locks of all repositories in one global order, so that two merges over several repositories never
/// deadlock.
async fn take_turns(orders: &[MergeOrder]) -> Result<Turn, WorktreeFault> {
    let mut places: Vec<(PathBuf, String)> = Vec::new();
    for order in orders {
        let what = match order.one_at_a_time {
            true => "merge".to_owned(),
            false => format!("merge-{}", order.task),
        };
        places.push((common_dir(order.from.repo()).await?, what));
    }
    places.sort();
    places.dedup();
    let mut locks = Vec::new();
    for (place, what) in &places {
        locks.push(repo_lock(place, what).await?);
    }
    Ok(Turn::new(locks))
}

/// Refuses work that changes settings of Callboard, unless a person has seen that: once merged, they decide what runs
/// on machines that trust the repository.
fn judge_settings(part: &PreparedPart, seen: bool) -> Result<(), MergeFault> {
    let MergePlan::Commit { files, .. } = &part.plan else { return Ok(()) };
    match settings_files(files) {
        files if files.is_empty() || seen => Ok(()),
        files => Err(MergeFault::Settings { files }),
    }
}

/// Refuses work in which an agent committed a file that the recipe had linked or copied into its worktree.
async fn judge_placed(part: &PreparedPart) -> Result<(), MergeFault> {
    let (MergePlan::Commit { files, .. }, MergeFrom::Worktree { worktree, .. }) =
        (&part.plan, &part.from)
    else {
        return Ok(());
    };
    let placed = placed_in(&AgentTree::to_look_at(worktree).await?);
    let carried: Vec<&str> =
        files.iter().filter(|file| placed.contains(file)).map(String::as_str).collect();
    if carried.is_empty() {
        return Ok(());
    }
    Err(WorktreeFault::Failed(format!(
        "the work commits files that the workspace recipe placed there: {}; take them out of its commits",
        carried.join(", ")
    ))
    .into())
}

/// Prepares one repository: the merge commit exists afterwards, and no branch has moved.
async fn prepare(order: MergeOrder) -> Result<PreparedPart, MergeFault> {
    let MergeOrder { from, task, target, message, fetch: sync, .. } = order;
    let repo = from.repo().to_owned();
    if let MergeFrom::Worktree { worktree, leftovers_message } = &from {
        commit_leftovers(worktree, leftovers_message).await?;
    }
    if sync {
        fetch(&repo, &target).await;
    }
    let tips = Tips::of(&repo, &target).await?;
    let mut tries = 0;
    loop {
        let head = head(&from).await?;
        let onto = onto(&repo, &tips, &target, &head).await?;
        let fork = fork(&repo, &head, &onto).await?;
        let plan = match fork.merged_as {
            // An earlier merge of this very head, known by its trailers.
            Some(commit) => MergePlan::AlreadyThere { commit },
            None if fork.base == head => MergePlan::Nothing,
            None => match merge_trees(Git::writing(&repo), &merge_tree(&fork, &onto, &head, QUIET))
                .await?
            {
                MergedTrees::Tree(tree) => {
                    let trailers = format!("{TASK_TRAILER}: {task}\n{HEAD_TRAILER}: {head}\n");
                    let message = format!("{}\n\n{trailers}", message.trim_end());
                    commit(&repo, &onto, &tree, message).await.map_err(WorktreeFault::from)?
                }
                // A rebase commit by commit may succeed when some of the commits are in the target already.
                MergedTrees::Conflict(files) => {
                    tries += 1;
                    let rebased = match &from {
                        MergeFrom::Worktree { worktree, .. } if tries == 1 => {
                            rebase_onto(worktree, &target, &onto).await?
                        }
                        _ => Rebased::Conflict { target: target.clone(), files: files.clone() },
                    };
                    match rebased {
                        Rebased::Onto { head: new, .. } if new != head => continue,
                        _ => return Err(MergeFault::Conflict { target, files }),
                    }
                }
            },
        };
        return Ok(PreparedPart { from, task, target, target_was: tips.local, head, plan });
    }
}

/// The commit to merge: the worktree's, which an agent may just have moved, or the branch's.
async fn head(from: &MergeFrom) -> Result<String, WorktreeFault> {
    match from {
        MergeFrom::Worktree { worktree, .. } => {
            Ok(AgentTree::to_look_at(worktree).await?.head().await?)
        }
        MergeFrom::Branch { repo, name } => {
            let local = Tips::of(repo, name).await?.local;
            local.ok_or_else(|| WorktreeFault::NoBranch(name.clone()))
        }
    }
}

/// Both sides of a merge that git judges without writing.
struct Sides<'r> {
    repo: &'r Path,
    target: &'r str,
    onto: String,
    head: String,
    fork: Fork,
}

impl<'r> Sides<'r> {
    async fn of(repo: &'r Path, from: &str, target: &'r str) -> Result<Self, MergeFault> {
        let head = commit_of(repo, from).await?;
        let onto = onto(repo, &Tips::of(repo, target).await?, target, &head).await?;
        let fork = fork(repo, &head, &onto).await?;
        Ok(Self { repo, target, onto, head, fork })
    }

    /// Whether the target has all of the work already.
    fn is_settled(&self) -> bool {
        self.fork.merged_as.is_some() || self.fork.base == self.head
    }

    /// A place for the objects of the merge, beside those of the repository.
    async fn scratch(&self) -> Result<Scratch, WorktreeFault> {
        let objects = common_dir(self.repo).await?.join("objects");
        Ok(Scratch::beside(None, objects).await?)
    }

    fn merge_tree(&self, messages: &'static str) -> Vec<String> {
        merge_tree(&self.fork, &self.onto, &self.head, messages)
    }
}

/// The outlook of a merge, as far as git can tell without writing.
async fn outlook(sides: &Sides<'_>) -> Result<MergeOutlook, MergeFault> {
    let Sides { repo, onto, head, .. } = sides;
    let count = ["rev-list", "--count", onto, &format!("^{head}")].map(str::to_owned);
    let behind = Git::at(repo).ask(&count).await.map_err(WorktreeFault::from)?;
    let behind = text(&behind).parse().unwrap_or_default();
    if sides.is_settled() {
        return Ok(MergeOutlook { behind, conflicts: Vec::new() });
    }
    let scratch = sides.scratch().await?;
    let merge = sides.merge_tree(QUIET);
    let merged = merge_trees(scratch.used_by(Git::at(repo)), &merge).await;
    scratch.close().await.map_err(WorktreeFault::from)?;
    let conflicts = match merged? {
        MergedTrees::Tree(_) => Vec::new(),
        MergedTrees::Conflict(files) => files,
    };
    Ok(MergeOutlook { behind, conflicts })
}

/// The commit to build on. When the local and the remote target diverged, the local one is used, but only for work that
/// contains nothing of the remote one.
async fn onto(repo: &Path, tips: &Tips, target: &str, head: &str) -> Result<String, MergeFault> {
    match tips.newest(repo, target).await? {
        Tip::Local(commit) | Tip::Remote(commit) => Ok(commit),
        Tip::Diverged { local, remote } => {
            let shared = fork(repo, head, &remote).await?.base;
            match is_ancestor(repo, &shared, &local).await.map_err(WorktreeFault::from)? {
                true => Ok(local),
                false => Err(MergeFault::Diverged(target.into())),
            }
        }
    }
}

/// The result of a merge in memory: a tree, or the files in conflict.
enum MergedTrees {
    Tree(String),
    Conflict(Vec<String>),
}

/// Leaves out what git says about the merge.
const QUIET: &str = "--no-messages";

/// The arguments of git that merge two commits without a checkout.
fn merge_tree(fork: &Fork, onto: &str, head: &str, messages: &'static str) -> Vec<String> {
    let mut merge =
        ["merge-tree", "--write-tree", "-z", "--name-only", messages].map(str::to_owned).to_vec();
    // Without a given base git also finds one where both sides merged each other.
    if fork.is_squashed {
        merge.push(format!("--merge-base={}", fork.base));
    }
    merge.extend([onto, head].map(str::to_owned));
    merge
}

async fn merge_trees(git: Git<'_>, merge: &[String]) -> Result<MergedTrees, WorktreeFault> {
    let answer = git.patiently().answer(merge).await?;
    let mut fields = names(&answer.stdout);
    match answer.code {
        0 => Ok(MergedTrees::Tree(fields.remove(0))),
        1 => Ok(MergedTrees::Conflict(fields.split_off(1))),
        _ => Err(WorktreeFault::Failed(answer.complaint)),
    }
}

/// The commit of a merged tree, signed if the repository's settings say so. A tree that equals the target is nothing to
/// merge.
async fn commit(
    repo: &Path,
    onto: &str,
    tree: &str,
    message: String,
) -> Result<MergePlan, GitFault> {
    let diff = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", onto, tree];
    let files = names(&Git::at(repo).ask(&diff).await?);
    if files.is_empty() {
        return Ok(MergePlan::Nothing);
    }
    let git = signing(Git::at(repo), Git::writing(repo)).await?.input(message);
    let commit = text(&git.ask(&["commit-tree", tree, "-p", onto, "-F", "-"]).await?);
    Ok(MergePlan::Commit { commit, files })
}
