//! Moves targets: all of a merge, or none. A target that is checked out moves together with the files there, and only
//! if no file of the user is in the way. Moves are recorded first (`journal.rs`), and the next merge repairs what a
//! killed git left half done (`heal.rs`).

mod checkout;
mod heal;
mod index;
mod journal;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use callboard_engine::ports::{MergeFault, MergePlan, MergedPart, PreparedPart, WorktreeFault};

use crate::git::{Git, GitFault};
use crate::worktree::{Tips, common_dir, has_origin, is_ancestor, text};
use checkout::Checkout;
use journal::{Begun, Journal};

const PUSH_TIME_MAX: Duration = Duration::from_secs(120);

const REASON: &str = "callboard: merge";

/// `folder` is the folder of tasks' worktrees in each repository.
pub(super) async fn publish(
    folder: &Path,
    parts: &[PreparedPart],
    push: bool,
) -> Result<Vec<MergedPart>, MergeFault> {
    // The locks are released before the push, which may take long.
    {
        let journals = journal::open(folder, parts).await?;
        move_all(parts, &journals).await?;
    }
    let mut merged = Vec::new();
    for part in parts {
        let commit = match &part.plan {
            MergePlan::Commit { commit, .. } | MergePlan::AlreadyThere { commit } => Some(commit),
            MergePlan::Nothing => None,
        };
        let repo = part.from.repo().to_owned();
        let pushed = match commit.filter(|_| push) {
            Some(commit) => self::push(&repo, &part.target, commit).await,
            None => None,
        };
        merged.push(MergedPart {
            repo,
            branch: part.from.branch().to_owned(),
            target: part.target.clone(),
            commit: commit.cloned(),
            pushed,
        });
    }
    Ok(merged)
}

async fn move_all(parts: &[PreparedPart], journals: &[Journal]) -> Result<(), MergeFault> {
    let mut moves = Vec::new();
    for part in parts {
        if let MergePlan::Commit { commit, .. } = &part.plan {
            moves.push(Move::plan(part, commit, journals).await?);
        }
    }
    // Moves that can fail go first: a ref without a checkout fails only if another process moved it.
    moves.sort_by_key(|one| one.checkout.is_none());
    for journal in journals {
        let own = moves.iter().filter(|one| journal.is_of(&one.journal.common));
        journal.write(&own.map(Move::begun).collect::<Vec<_>>())?;
    }
    for (done, one) in moves.iter().enumerate() {
        let Err(stuck) = one.forward().await else { continue };
        let mut is_undone = one.undo(stuck.was_killed).await;
        for earlier in moves[..done].iter().rev() {
            is_undone &= earlier.back().await;
        }
        // Where the undo failed, the journals keep the record for the next merge.
        if is_undone {
            clear(journals)?;
        }
        return Err(stuck.fault);
    }
    Ok(clear(journals)?)
}

fn clear(journals: &[Journal]) -> Result<(), WorktreeFault> {
    journals.iter().try_for_each(Journal::clear)
}

/// Why a target did not move.
struct Stuck {
    fault: MergeFault,
    /// Whether git was killed.
    was_killed: bool,
}

/// The move of one target from one commit to another.
struct Move<'a> {
    repo: &'a Path,
    journal: &'a Journal,
    target: &'a str,
    /// `None` when the branch did not exist.
    from: Option<&'a str>,
    to: &'a str,
    checkout: Option<Checkout>,
}

impl<'a> Move<'a> {
    /// Plans a move, and refuses one that is known to fail.
    async fn plan(
        part: &'a PreparedPart,
        to: &'a str,
        journals: &'a [Journal],
    ) -> Result<Self, MergeFault> {
        let (repo, target) = (part.from.repo(), part.target.as_str());
        let common = common_dir(repo).await?;
        let journal = journals.iter().find(|journal| journal.is_of(&common));
        let journal =
            journal.ok_or_else(|| WorktreeFault::Failed("the repository moved".into()))?;
        let from = part.target_was.as_deref();
        let is_still = Tips::of(repo, target).await?.local.as_deref() == from;
        if !is_still {
            return Err(MergeFault::Moved { target: target.into() });
        }
        let checkout = match from {
            Some(from) => Checkout::of(journal, repo, target, from, to).await?,
            None => None,
        };
        Ok(Self { repo, journal, target, from, to, checkout })
    }

    fn begun(&self) -> Begun {
        let bytes = |path: &OsStr| path.as_bytes().to_vec();
        let same = self.checkout.iter().flat_map(|checkout| &checkout.same);
        Begun {
            target: self.target.into(),
            from: self.from.map(str::to_owned),
            to: self.to.into(),
            place: self.checkout.as_ref().map(|checkout| bytes(checkout.place.path().as_os_str())),
            same: same.map(|path| bytes(path)).collect(),
        }
    }

    async fn forward(&self) -> Result<(), Stuck> {
        let moved = match &self.checkout {
            Some(checkout) => checkout.forward(self.to, &self.journal.lock).await,
            None => self.set(self.to, self.from.unwrap_or_default()).await,
        };
        let Err(fault) = moved else { return Ok(()) };
        let was_killed = fault.was_killed();
        let fault = match Tips::of(self.repo, self.target).await {
            Ok(now) if now.local.as_deref() != self.from => {
                MergeFault::Moved { target: self.target.into() }
            }
            _ => WorktreeFault::from(fault).into(),
        };
        Err(Stuck { fault, was_killed })
    }

    /// Undoes git's part of a move that failed; `true` if that worked.
    async fn undo(&self, was_killed: bool) -> bool {
        let undone = heal::heal(self.journal, &self.begun(), was_killed).await;
        if let Err(fault) = &undone {
            let repo = self.repo.display();
            tracing::error!(%fault, %repo, "cannot undo a failed merge in a checkout");
        }
        undone.is_ok()
    }

    /// Moves a target back after a later target failed; `true` if everything is as before.
    async fn back(&self) -> bool {
        let moved = match (&self.checkout, self.from) {
            (Some(checkout), Some(from)) => checkout.back(from, self.to, &self.journal.lock).await,
            (_, Some(from)) => self.set(from, self.to).await,
            (_, None) => {
                let delete = ["update-ref", "-d", &self.name(), self.to].map(str::to_owned);
                let git = Git::writing(self.repo).holding(&self.journal.lock);
                git.ask(&delete).await.map(drop)
            }
        };
        if let Err(fault) = moved {
            let repo = self.repo.display();
            tracing::error!(?fault, %repo, "cannot move a target branch back after a failed merge");
            return false;
        }
        // Files that already had the merge's content were staged for it.
        self.undo(false).await
    }

    /// Sets the ref if it still is `old`; an empty `old` stands for no branch.
    async fn set(&self, new: &str, old: &str) -> Result<(), GitFault> {
        let set = ["update-ref", "-m", REASON, &self.name(), new, old].map(str::to_owned);
        Git::writing(self.repo).holding(&self.journal.lock).ask(&set).await.map(drop)
    }

    fn name(&self) -> String {
        format!("refs/heads/{}", self.target)
    }
}

/// Pushes the target. `None` without an `origin`; an error has git's words.
async fn push(repo: &Path, target: &str, commit: &str) -> Option<Result<(), String>> {
    let words = |fault: GitFault| match WorktreeFault::from(fault) {
        WorktreeFault::Failed(words) => words,
        other => other.to_string(),
    };
    match has_origin(repo).await {
        Ok(true) => {}
        Ok(false) => return None,
        Err(fault) => return Some(Err(words(fault))),
    }
    // An earlier call may have pushed the commit, and others may have pushed on top of it.
    if let Ok(Tips { remote: Some(remote), .. }) = Tips::of(repo, target).await
        && is_ancestor(repo, commit, &remote).await.unwrap_or(false)
    {
        return Some(Ok(()));
    }
    let refspec = format!("{commit}:refs/heads/{target}");
    let push = ["push", "--porcelain", "--no-verify", "--", "origin", &refspec];
    let answer = Git::writing(repo).within(PUSH_TIME_MAX).answer(&push).await;
    Some(match answer {
        Ok(answer) if answer.code == 0 => Ok(()),
        Ok(answer) => {
            // The line is `!`, from and to, and the reason.
            let told = text(&answer.stdout);
            let refused = told.lines().find_map(|line| line.strip_prefix("!\t"));
            let why = refused.and_then(|line| line.split('\t').nth(1)).map(str::to_owned);
            Err(why.unwrap_or(answer.complaint))
        }
        Err(fault) => Err(words(fault)),
    })
}
