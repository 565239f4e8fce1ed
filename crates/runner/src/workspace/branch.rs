//! A patch as a branch: one commit on the baseline, made in the run's own repository and transferred from there to the
//! target repository. Neither repository checks anything out.

use std::fs;
use std::path::Path;

use callboard_engine::ports::{BranchState, WorktreeFault};

use super::patches::Applied;
use super::{Way, Workspace, quiet, words};
use crate::git::{Git, GitFault};
use crate::worktree::fork;

/// The author of a commit where git has no identity.
const NAME: &str = "Callboard";
const EMAIL: &str = "callboard@localhost";

impl Workspace {
    /// Makes the branch here and returns its commit. `place` is a folder whose git settings have the identity.
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

    /// Adds the branch to a repository of this machine. A branch that is checked out stays as it is, and that is a
    /// fault.
    pub(crate) async fn give(&self, to: &Path, name: &str) -> Result<(), String> {
        let fetch = ["fetch", "-q", "--no-tags", "--no-prune", "--no-write-fetch-head"];
        let quietly = ["--no-auto-gc", "--no-recurse-submodules", "--"];
        let (from, refspec) = (self.repo().display().to_string(), refspec(name));
        let args = [&fetch[..], &quietly, &[&from, &refspec]].concat();
        // This is a user's repository: its objects must be durable.
        let git = quiet(to).set("core.fsync=default").set("fetch.writeCommitGraph=false");
        git.set("protocol.file.allow=always").ask(&args).await.map(drop).map_err(words)
    }

    /// Pushes the branch from here to an address.
    pub(crate) async fn push(
        &self,
        (url, way): (&str, &Way),
        name: &str,
        schemes: &str,
    ) -> Result<(), String> {
        let pushed = push(way.set_on(self.git()), url, name, schemes).await;
        pushed.map_err(|words| way.told(words))
    }
}

/// Pushes a branch of a repository of this machine, with that repository's addresses and credentials.
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

/// The branch belongs to the job, so the branch of an earlier attempt is overwritten.
fn refspec(name: &str) -> String {
    format!("+refs/heads/{name}:refs/heads/{name}")
}

/// The address to which a repository would be pushed.
pub(crate) async fn origin(repo: &Path) -> Result<Option<String>, GitFault> {
    for key in ["remote.origin.pushurl", "remote.origin.url"] {
        if let Some(url) = quiet(repo).look(&["config", "--get", key]).await? {
            return Ok(Some(line(url)));
        }
    }
    Ok(None)
}

/// The state of a branch in a repository of this machine; by `head` when the branch is gone. `None` when its base is
/// missing.
pub(crate) async fn state(
    repo: &Path,
    name: &str,
    head: &str,
    base: &str,
) -> Result<Option<BranchState>, WorktreeFault> {
    let git = || quiet(repo);
    let commit = async |branch: &str| {
        let wanted = format!("refs/heads/{branch}^{{commit}}");
        let found = git().look(&["rev-parse", "-q", "--verify", &wanted]).await?;
        Ok::<_, GitFault>(found.map(line))
    };
    let Some(base) = commit(base).await? else { return Ok(None) };
    let tip = commit(name).await?;
    let is_gone = tip.is_none();
    let tip = tip.unwrap_or_else(|| head.to_owned());
    // A deleted branch may have lost its commits too.
    if is_gone && !git().asks_yes(&["cat-file", "-e", &tip]).await? {
        return Ok(Some(BranchState::Gone));
    }
    let is_in = git().asks_yes(&["merge-base", "--is-ancestor", &tip, &base]).await?;
    let squash = match is_in {
        true => None,
        false => match fork(repo, &tip, &base).await {
            Ok(fork) => fork.merged_as,
            Err(WorktreeFault::Unrelated) => None,
            Err(fault) => return Err(fault),
        },
    };
    Ok(Some(match (is_in || squash.is_some(), is_gone) {
        (true, _) => BranchState::Merged { commit: squash },
        (false, true) => BranchState::Gone,
        (false, false) => BranchState::Open,
    }))
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
