//! Makes a worktree, or finds an existing one.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use callboard_domain::board::branch::is_branch_name;
use callboard_engine::ports::{
    Base, BaseFrom, TaskBranch, Worktree, WorktreeFault, WorktreeMade, WorktreeOrder,
};

use super::hold::common_dir;
use super::list::HALF_MADE;
use super::placed::Record;
use super::target::Tips;
use super::{Listed, exclude, failed, fetch, is_ancestor, listed, repo_lock, text};
use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;

/// No task is started that often.
const SUFFIX_MAX: u32 = 1000;

pub(super) async fn make(
    folder: &Path,
    order: &WorktreeOrder,
) -> Result<WorktreeMade, WorktreeFault> {
    // Names and branches come from callers, and both become arguments of git.
    let path = place(folder, &order.repo, &order.name)?;
    for branch in [&order.branch.new, &order.base] {
        if !is_branch_name(branch) {
            return Err(WorktreeFault::BadBranch(branch.clone()));
        }
    }
    if let Some(found) = usable(&order.repo, &path, &order.branch).await? {
        return Ok(WorktreeMade { worktree: found, base: None });
    }
    if order.fetch && order.base_from != BaseFrom::Local {
        // Before the lock: a slow remote keeps no other task waiting.
        fetch(&order.repo, &order.base).await;
    }
    let _turn = repo_lock(&order.repo, "worktrees").await?;
    // Looked at again: another process may have made the worktree meanwhile.
    if let Some(found) = usable(&order.repo, &path, &order.branch).await? {
        return Ok(WorktreeMade { worktree: found, base: None });
    }
    let base = base(&order.repo, &order.base, order.base_from).await?;
    let kept = clear(&order.repo, &path, &base.commit).await?;
    hide_folder(&order.repo, &path).await?;
    if let Some(branch) = kept {
        // `-f`, because git still lists the deleted folder as the one that has this branch.
        add_unfiltered(&order.repo, &path, &["-f"], OsStr::new(&branch)).await?;
        let worktree = Worktree { repo: order.repo.clone(), path: real(path)?, branch };
        return Ok(WorktreeMade { worktree, base: None });
    }
    let branch = free_name(&order.repo, &order.branch.new).await?;
    let commit = OsStr::new(&base.commit);
    add(&order.repo, &path, &["--no-track", "-b", &branch], commit).await?;
    let worktree = Worktree { repo: order.repo.clone(), path: real(path)?, branch };
    Ok(WorktreeMade { worktree, base: Some(base) })
}

pub(super) async fn find(
    folder: &Path,
    repo: &Path,
    name: &str,
    branch: &TaskBranch,
) -> Result<Option<Worktree>, WorktreeFault> {
    let place = place(folder, repo, name)?;
    match usable(repo, &place, branch).await {
        // A folder outside git has no worktrees.
        Err(Unusable::Git(GitFault::Outside)) => Ok(None),
        found => Ok(found?),
    }
}

/// The folder of a task's worktree. A name is one part of a path, never an option and never hidden.
pub(super) fn place(folder: &Path, repo: &Path, name: &str) -> Result<PathBuf, WorktreeFault> {
    let is_char = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_char) {
        return Err(WorktreeFault::BadName(name.into()));
    }
    let repo = real(repo.to_owned())?;
    Ok(repo.join(folder).join(name))
}

enum Unusable {
    Git(GitFault),
    Worktree(WorktreeFault),
}

impl From<GitFault> for Unusable {
    fn from(fault: GitFault) -> Self {
        Self::Git(fault)
    }
}

impl From<Unusable> for WorktreeFault {
    fn from(fault: Unusable) -> Self {
        match fault {
            Unusable::Git(fault) => fault.into(),
            Unusable::Worktree(fault) => fault,
        }
    }
}

/// A worktree that is complete and has its branch checked out.
async fn usable(
    repo: &Path,
    path: &Path,
    branch: &TaskBranch,
) -> Result<Option<Worktree>, Unusable> {
    let known = listed(repo).await?.into_iter().find(|listed| listed.is_at(path));
    let Some(known) = known.filter(|known| !known.is_half_made() && path.join(".git").exists())
    else {
        return Ok(None);
    };
    match known.branch {
        Some(own) if branch.has(&own) => {
            let path = real(path.to_owned()).map_err(Unusable::Worktree)?;
            Ok(Some(Worktree { repo: repo.to_owned(), path, branch: own }))
        }
        other => Err(Unusable::Worktree(WorktreeFault::Elsewhere {
            branch: branch.new.clone(),
            stands_on: other.unwrap_or_else(|| "no branch".into()),
        })),
    }
}

pub(super) async fn base(repo: &Path, name: &str, from: BaseFrom) -> Result<Base, WorktreeFault> {
    let tips = Tips::of(repo, name).await?;
    let is_ahead = match (&tips.local, &tips.remote) {
        (Some(local), Some(remote)) if from == BaseFrom::LocalIfAhead => {
            !is_ancestor(repo, local, remote).await?
        }
        _ => false,
    };
    let remote = || {
        let name = format!("origin/{}", name.strip_prefix("origin/").unwrap_or(name));
        tips.remote.clone().map(|commit| Base { name, commit })
    };
    let local = || tips.local.clone().map(|commit| Base { name: name.into(), commit });
    let chosen = match from {
        BaseFrom::LocalIfAhead if is_ahead => local().or_else(remote),
        BaseFrom::Remote | BaseFrom::LocalIfAhead => remote().or_else(local),
        BaseFrom::Local => local().or_else(remote),
    };
    match chosen {
        Some(base) => Ok(base),
        // A person who just ran `git init` needs a commit, and no other branch.
        None if has_no_commit(repo).await? => Err(WorktreeFault::NoCommit),
        None => Err(WorktreeFault::NoBranch(name.into())),
    }
}

async fn has_no_commit(repo: &Path) -> Result<bool, GitFault> {
    Ok(Git::at(repo).ask(&["rev-list", "--all", "--max-count=1"]).await?.is_empty())
}

/// Clears a place that git knows but that is unusable. If the folder was deleted, its branch is returned, to be checked
/// out again: there may be work on it.
async fn clear(repo: &Path, path: &Path, base: &str) -> Result<Option<String>, WorktreeFault> {
    let known = listed(repo).await?.into_iter().find(|listed| listed.is_at(path));
    let Some(known) = known else {
        let is_taken = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        let words = || {
            format!("{} is in the way: git does not know this folder as a worktree", path.display())
        };
        return if is_taken { Err(WorktreeFault::Failed(words())) } else { Ok(None) };
    };
    if !known.is_half_made() {
        return Ok(known.branch);
    }
    let Listed { path: place, branch, .. } = known;
    let remove = ["worktree", "remove", "-f", "-f"].map(OsStr::new);
    Git::writing(repo).ask(&[&remove[..], &[place.as_os_str()]].concat()).await?;
    let Some(branch) = branch else { return Ok(None) };
    let Some(head) = Tips::of(repo, &branch).await?.local else { return Ok(None) };
    // The branch of a half-made worktree goes only if the base has all of its commits.
    if is_ancestor(repo, &head, base).await? {
        let name = format!("refs/heads/{branch}");
        Git::writing(repo).ask(&["update-ref", "-d", &name, &head]).await?;
    }
    Ok(None)
}

async fn free_name(repo: &Path, wanted: &str) -> Result<String, WorktreeFault> {
    let git = Git::at(repo);
    for n in 1..SUFFIX_MAX {
        let name = if n == 1 { wanted.to_owned() } else { format!("{wanted}-{n}") };
        let full = format!("refs/heads/{name}");
        // The pattern also matches refs below the name, which are in its way.
        if git.ask(&["for-each-ref", "--count=1", &full]).await?.is_empty() {
            return Ok(name);
        }
    }
    Err(WorktreeFault::Failed(format!("every branch name derived from {wanted} is taken")))
}

async fn add(repo: &Path, path: &Path, options: &[&str], commit: &OsStr) -> Result<(), GitFault> {
    let mut args = vec![OsStr::new("worktree"), OsStr::new("add"), OsStr::new("-q")];
    args.extend(options.iter().map(OsStr::new));
    args.extend([path.as_os_str(), commit]);
    // The record of an earlier worktree of that name says nothing about this one.
    if let Ok(common) = common_dir(repo).await
        && let Err(error) = Record::forget(&common, path)
    {
        return Err(GitFault::Failed(format!("cannot forget an earlier worktree: {error}")));
    }
    Git::writing(repo).patiently().ask(&args).await.map(drop)
}

/// Adds a worktree of a commit that agents may have made: no filter that it names runs, as in every worktree of theirs.
/// Until its files are written, the worktree counts as half made.
pub(crate) async fn add_unfiltered(
    repo: &Path,
    path: &Path,
    options: &[&str],
    commit: &OsStr,
) -> Result<(), WorktreeFault> {
    let later = ["--no-checkout", "--lock", "--reason", HALF_MADE];
    add(repo, path, &[options, &later].concat(), commit).await?;
    AgentTree::fill(repo, path).await?;
    let unlock = ["worktree", "unlock"].map(OsStr::new);
    Ok(Git::writing(repo).ask(&[&unlock[..], &[path.as_os_str()]].concat()).await.map(drop)?)
}

/// Hides the folder of worktrees from the checkout around it.
pub(crate) async fn hide_folder(repo: &Path, path: &Path) -> Result<(), WorktreeFault> {
    let top = Git::at(repo).ask(&["rev-parse", "--show-toplevel"]).await?;
    let top = real(PathBuf::from(text(&top)))?;
    let folder = path.parent().and_then(|folder| folder.strip_prefix(&top).ok());
    match folder.and_then(Path::to_str).filter(|folder| !folder.is_empty()) {
        Some(folder) => {
            let common = common_dir(repo).await?;
            exclude::hide(Git::at(&top), &common, &[&format!("{folder}/")]).await
        }
        None => Ok(()),
    }
}

fn real(path: PathBuf) -> Result<PathBuf, WorktreeFault> {
    path.canonicalize().map_err(failed("cannot find the folder"))
}
