//! Pushes a branch to `origin`. Commits at `origin` that were not seen here are never overwritten.

use std::path::Path;
use std::time::Duration;

use callboard_engine::ports::{Branch, ShareOrder, WorktreeFault};

use super::target::Tips;
use super::{fetch, is_ancestor, listed, text};
use crate::git::{Git, GitFault, public_url};
use crate::run_log::Secrets;
use crate::workspace;

/// Enough for a push; a remote that does not answer must not hold its caller for ever.
const TIME_MAX: Duration = Duration::from_secs(120);

pub(super) async fn share(order: &ShareOrder) -> Result<Branch, WorktreeFault> {
    let ShareOrder { repo, branch, base, push, .. } = order;
    let tips = Tips::of(repo, branch).await?;
    let place = repo.display().to_string();
    if !push {
        let head = tips.local.ok_or_else(|| WorktreeFault::NoBranch(branch.clone()))?;
        return Ok(Branch { name: branch.clone(), head, repo: place, remote: None });
    }
    let origin = workspace::origin(repo).await?;
    let origin = origin.ok_or_else(|| {
        WorktreeFault::Failed("the repository has no remote called origin".into())
    })?;
    let mut secrets = Secrets::default();
    secrets.add_url(&origin);
    let hidden = |fault| match fault {
        WorktreeFault::Failed(words) => WorktreeFault::Failed(secrets.hidden(&words)),
        WorktreeFault::Unreachable(words) => WorktreeFault::Unreachable(secrets.hidden(&words)),
        other => other,
    };
    let head = pushed(order, tips, base).await.map_err(hidden)?;
    Ok(Branch { name: branch.clone(), head, repo: place, remote: public_url(&origin) })
}

/// Pushes the branch and returns the commit that `origin` then has.
async fn pushed(order: &ShareOrder, tips: Tips, base: &str) -> Result<String, WorktreeFault> {
    let ShareOrder { repo, branch, may_rewrite, .. } = order;
    // The remote is asked, not the remote-tracking branch: that may be days old.
    let [there, base_there] = at_origin(repo, [branch, base]).await?;
    // A forge opens no request against a branch that it does not have.
    if base_there.is_none() {
        let known = Tips::of(repo, base).await?.local;
        known.ok_or_else(|| WorktreeFault::NoBranch(base.into()))?;
        push(repo, base, None).await?;
    }
    let (here, there) = match (tips.local, there) {
        (None, None) => return Err(WorktreeFault::NoBranch(branch.clone())),
        // There is no such branch here, but origin has it from an earlier push.
        (None, Some(there)) => return Ok(there),
        (Some(here), None) => {
            push(repo, branch, None).await?;
            return Ok(here);
        }
        (Some(here), Some(there)) => (here, there),
    };
    let mut is_here = is_known(repo, &there).await?;
    if !is_here {
        fetch(repo, branch).await;
        is_here = is_known(repo, &there).await?;
    }
    if is_here && is_ancestor(repo, &here, &there).await? {
        return Ok(there);
    }
    if is_here && is_ancestor(repo, &there, &here).await? {
        push(repo, branch, None).await?;
    } else if *may_rewrite && tips.remote.as_ref() == Some(&there) {
        // After a rebase. origin still has the commit that was last seen here, so nothing unseen is overwritten.
        push(repo, branch, Some(&there)).await?;
    } else {
        let words = format!("origin has commits of {branch} that are not here: fetch them first");
        return Err(WorktreeFault::Failed(words));
    }
    Ok(here)
}

/// Moves a local branch forward to `origin` after a merge at the forge. A branch that is checked out, or has commits of
/// its own, stays: the user moves it.
pub(super) async fn follow(repo: &Path, branch: &str) -> Result<(), WorktreeFault> {
    fetch(repo, branch).await;
    let Tips { local: Some(here), remote: Some(there) } = Tips::of(repo, branch).await? else {
        return Ok(());
    };
    let is_out = listed(repo).await?.iter().any(|place| place.branch.as_deref() == Some(branch));
    if here == there || is_out || !is_ancestor(repo, &here, &there).await? {
        return Ok(());
    }
    let name = format!("refs/heads/{branch}");
    // `here` at the end makes git refuse when the branch moved meanwhile.
    let set = ["update-ref", "-m", "callboard: merged at the forge", &name, &there, &here];
    Ok(Git::writing(repo).ask(&set).await.map(drop)?)
}

async fn at_origin<const N: usize>(
    repo: &Path,
    branches: [&str; N],
) -> Result<[Option<String>; N], WorktreeFault> {
    let names = branches.map(|branch| format!("refs/heads/{branch}"));
    let mut ask = vec!["ls-remote", "--", "origin"];
    ask.extend(names.iter().map(String::as_str));
    let answer = Git::writing(repo).within(TIME_MAX).ask(&ask).await.map_err(fault)?;
    let answer = text(&answer);
    Ok(names.map(|name| {
        let mut refs = answer.lines().filter_map(|line| line.split_once('\t'));
        refs.find(|(_, found)| *found == name).map(|(commit, _)| commit.to_owned())
    }))
}

async fn is_known(repo: &Path, commit: &str) -> Result<bool, WorktreeFault> {
    Ok(Git::at(repo).asks_yes(&["cat-file", "-e", commit]).await?)
}

/// `over`: the commit that may be overwritten, if `origin` still has it.
async fn push(repo: &Path, branch: &str, over: Option<&str>) -> Result<(), WorktreeFault> {
    let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
    let lease = over.map(|commit| format!("--force-with-lease=refs/heads/{branch}:{commit}"));
    let mut push = vec!["push", "-q", "--no-verify"];
    push.extend(lease.as_deref());
    push.extend(["--", "origin", &refspec]);
    Git::writing(repo).within(TIME_MAX).ask(&push).await.map(drop).map_err(fault)
}

/// Tells transient faults from faults that a person must fix, by git's words.
fn fault(fault: GitFault) -> WorktreeFault {
    const LATER: [&str; 6] = [
        "could not resolve host",
        "connection",
        "timed out",
        "took too long",
        "hung up unexpectedly",
        "failed to connect",
    ];
    match WorktreeFault::from(fault) {
        WorktreeFault::Failed(words) => {
            let said = words.to_lowercase();
            match LATER.iter().any(|sign| said.contains(sign)) {
                true => WorktreeFault::Unreachable(words),
                false => WorktreeFault::Failed(words),
            }
        }
        other => other,
    }
}
