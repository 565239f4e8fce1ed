//! A patch as a branch: one commit on the baseline, made in the run's own repository and handed from
//! there to where others find it. Nothing is checked out, here or there.

use std::fs;
use std::path::Path;

use callboard_engine::ports::BranchState;

use super::patches::Applied;
use super::{Workspace, quiet, words};
use crate::git::Git;
use crate::worktree::fork;

/// Who made a commit where git does not know whom it works for.
const NAME: &str = "Callboard";
const EMAIL: &str = "callboard@localhost";

impl Workspace {
    /// Makes the branch here; its commit. `place` is where git knows whom it works for.
    pub(crate) async fn branch(
        &self,
        place: Option<&Path>,
        name: &str,
        patch: &str,
        message: &str,
    ) -> Result<String, String> {
        if let Applied::Conflict(fault) = self.apply(patch).await? {
            return Err(fault);
        }
        let git = || self.git().with("GIT_INDEX_FILE", self.folder().path().join("index"));
        let tree = line(git().ask(&["write-tree"]).await.map_err(words)?);
        let file = self.folder().path().join("message");
        fs::write(&file, message).map_err(|error| format!("cannot write the message: {error}"))?;
        let file = file.display().to_string();
        let (person, email) = identity(place.map_or_else(|| self.git(), quiet)).await;
        let commit = ["AUTHOR", "COMMITTER"].iter().fold(git(), |git, role| {
            git.with(&format!("GIT_{role}_NAME"), &person)
                .with(&format!("GIT_{role}_EMAIL"), &email)
        });
        let args = ["commit-tree", "-p", self.commit(), "-F", &file, &tree];
        let head = line(commit.ask(&args).await.map_err(words)?);
        let reference = format!("refs/heads/{name}");
        git().ask(&["update-ref", &reference, &head]).await.map_err(words)?;
        Ok(head)
    }

    /// Adds the branch to a repository of this machine; a branch that somebody has checked out is
    /// left alone, and that is a fault.
    pub(crate) async fn give(&self, to: &Path, name: &str) -> Result<(), String> {
        let fetch = ["fetch", "-q", "--no-tags", "--no-prune", "--no-write-fetch-head"];
        let quietly = ["--no-auto-gc", "--no-recurse-submodules", "--"];
        let (from, refspec) = (self.repo().display().to_string(), refspec(name));
        let args = [&fetch[..], &quietly, &[&from, &refspec]].concat();
        // It is somebody's repository: what is written there is to last.
        let git = quiet(to).set("core.fsync=default").set("fetch.writeCommitGraph=false");
        git.set("protocol.file.allow=always").ask(&args).await.map(drop).map_err(words)
    }

    /// Pushes the branch from here to an address.
    pub(crate) async fn push(&self, url: &str, name: &str, schemes: &str) -> Result<(), String> {
        push(self.git(), url, name, schemes).await
    }
}

/// Pushes a branch of a repository of this machine, with what that knows of addresses and
/// credentials.
pub(crate) async fn push_from(
    repo: &Path,
    url: &str,
    name: &str,
    schemes: &str,
) -> Result<(), String> {
    push(quiet(repo), url, name, schemes).await
}

async fn push(git: Git<'_>, url: &str, name: &str, schemes: &str) -> Result<(), String> {
    let refspec = refspec(name);
    let push = ["push", "-q", "--no-verify", "--no-recurse-submodules", "--", url, &refspec];
    git.with("GIT_ALLOW_PROTOCOL", schemes).ask(&push).await.map(drop).map_err(words)
}

/// The branch is the job's: whatever an earlier attempt put there gives way.
fn refspec(name: &str) -> String {
    format!("+refs/heads/{name}:refs/heads/{name}")
}

/// Where a repository would be pushed to.
pub(crate) async fn origin(repo: &Path) -> Option<String> {
    for key in ["remote.origin.pushurl", "remote.origin.url"] {
        if let Ok(url) = quiet(repo).ask(&["config", "--get", key]).await {
            return Some(line(url));
        }
    }
    None
}

/// How a branch stands in a repository of this machine; by `head` when it is gone.
pub(crate) async fn state(repo: &Path, name: &str, head: &str, base: &str) -> Option<BranchState> {
    let git = || quiet(repo);
    let commit = async |reference: &str| {
        let wanted = format!("{reference}^{{commit}}");
        git().ask(&["rev-parse", "-q", "--verify", &wanted]).await.ok().map(line)
    };
    let base = commit(&format!("refs/heads/{base}")).await?;
    let tip = commit(&format!("refs/heads/{name}")).await;
    let is_gone = tip.is_none();
    let tip = tip.unwrap_or_else(|| head.to_owned());
    let is_in = git().ask(&["merge-base", "--is-ancestor", &tip, &base]).await.is_ok();
    let squash = match is_in {
        true => None,
        false => fork(repo, &tip, &base).await.ok().and_then(|fork| fork.merged_as),
    };
    Some(match (is_in || squash.is_some(), is_gone) {
        (true, _) => BranchState::Merged { commit: squash },
        (false, true) => BranchState::Gone,
        (false, false) => BranchState::Open,
    })
}

async fn identity(git: Git<'_>) -> (String, String) {
    let set = async |key: &str| git.ask(&["config", "--get", key]).await.ok().map(line);
    match (set("user.name").await, set("user.email").await) {
        (Some(name), Some(email)) if !name.is_empty() && !email.is_empty() => (name, email),
        _ => (NAME.into(), EMAIL.into()),
    }
}

fn line(answer: Vec<u8>) -> String {
    String::from_utf8_lossy(&answer).trim_end().to_owned()
}
