//! Moves targets: all of a merge, or none. A target that is checked out somewhere moves together
//! with the files there, and only if nothing of the user's is in the way.

mod checkout;

use std::path::Path;
use std::time::Duration;

use callboard_engine::ports::{MergeFault, MergePlan, MergedPart, PreparedPart, WorktreeFault};

use crate::git::{Git, GitFault};
use crate::worktree::{Tips, has_origin, is_ancestor, text};
use checkout::Checkout;

const PUSH_TIME_MAX: Duration = Duration::from_secs(120);

const REASON: &str = "callboard: merge";

pub(super) async fn publish(
    parts: &[PreparedPart],
    push: bool,
) -> Result<Vec<MergedPart>, MergeFault> {
    let mut moves = Vec::new();
    for part in parts {
        if let MergePlan::Commit { commit, .. } = &part.plan {
            moves.push(Move::plan(part, commit).await?);
        }
    }
    // What can fail goes first: a ref alone moves unless somebody moved it.
    moves.sort_by_key(|one| one.checkout.is_none());
    for (done, one) in moves.iter().enumerate() {
        if let Err(fault) = one.forward().await {
            for earlier in moves[..done].iter().rev() {
                earlier.back().await;
            }
            return Err(fault);
        }
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

/// One target from one commit to another.
struct Move<'a> {
    repo: &'a Path,
    target: &'a str,
    /// `None` when there was no such branch.
    from: Option<&'a str>,
    to: &'a str,
    checkout: Option<Checkout>,
}

impl<'a> Move<'a> {
    /// Refuses what is known to fail.
    async fn plan(part: &'a PreparedPart, to: &'a str) -> Result<Self, MergeFault> {
        let (repo, target) = (part.from.repo(), part.target.as_str());
        let from = part.target_was.as_deref();
        let is_still = Tips::of(repo, target).await?.local.as_deref() == from;
        if !is_still {
            return Err(MergeFault::Moved { target: target.into() });
        }
        let checkout = match from {
            Some(from) => Checkout::of(repo, target, from, to).await?,
            None => None,
        };
        Ok(Self { repo, target, from, to, checkout })
    }

    async fn forward(&self) -> Result<(), MergeFault> {
        let moved = match &self.checkout {
            Some(checkout) => checkout.forward(self.to).await,
            None => self.set(self.to, self.from.unwrap_or_default()).await,
        };
        let Err(fault) = moved else { return Ok(()) };
        let now = Tips::of(self.repo, self.target).await?.local;
        Err(match now.as_deref() == self.from {
            true => WorktreeFault::from(fault).into(),
            false => MergeFault::Moved { target: self.target.into() },
        })
    }

    /// For targets that moved before one that did not.
    async fn back(&self) {
        let moved = match (&self.checkout, self.from) {
            (Some(checkout), Some(from)) => checkout.back(from, self.to).await,
            (_, Some(from)) => self.set(from, self.to).await,
            (_, None) => {
                let delete = ["update-ref", "-d", &self.name(), self.to].map(str::to_owned);
                Git::writing(self.repo).ask(&delete).await.map(drop)
            }
        };
        if let Err(fault) = moved {
            let repo = self.repo.display();
            tracing::error!(?fault, %repo, "a target stays moved although the merge failed");
        }
    }

    /// Only if it still is `old`; empty stands for no branch.
    async fn set(&self, new: &str, old: &str) -> Result<(), GitFault> {
        let set = ["update-ref", "-m", REASON, &self.name(), new, old].map(str::to_owned);
        Git::writing(self.repo).ask(&set).await.map(drop)
    }

    fn name(&self) -> String {
        format!("refs/heads/{}", self.target)
    }
}

/// `None` without an `origin`; else how it ended, in git's words.
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
    // An earlier call may have pushed it, and others more since.
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
            // `!`, from and to, why.
            let told = text(&answer.stdout);
            let refused = told.lines().find_map(|line| line.strip_prefix("!\t"));
            let why = refused.and_then(|line| line.split('\t').nth(1)).map(str::to_owned);
            Err(why.unwrap_or(answer.complaint))
        }
        Err(fault) => Err(words(fault)),
    })
}
