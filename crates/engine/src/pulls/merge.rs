//! Merging a pull request as one commit, wherever it is. Every step looks before it acts. So a repeated call, perhaps
//! after a crash, merges nothing twice and returns the result.

use std::time::Duration;

use callboard_domain::command::PullStep;
use callboard_domain::forge::{ForgeKind, ForgeRef};
use callboard_domain::pulls::{CLOSED, MERGED, Pull};
use tokio::time::Instant;

use crate::context::OpContext;
use crate::ports::{ForgeMerge, MergeFault, MergeFrom, MergeOrder, MergePlan, MergeWish};
use crate::pulls::open::lasting;
use crate::pulls::track::{kind_of, settle};
use crate::review::merge::Merged;
use crate::{Engine, EngineError};

/// How often a merge is tried whose base moves meanwhile.
const TRIES_MAX: u32 = 3;
/// The first pause between two requests to a forge; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The result of a merge. Words are for the caller; unless merged, the base is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullEnd {
    /// `None` when the forge does not name the commit.
    Merged {
        commit: Option<String>,
    },
    /// The branch has nothing that the base lacks; the pull request is closed.
    Nothing,
    /// The forge merges it as soon as it may; the event `pr.merged` follows.
    Waiting,
    /// `files` is empty when they are not known here.
    Conflicts {
        files: Vec<String>,
    },
    Refused {
        why: String,
    },
}

impl Engine {
    /// Merges a pull request. With a `head`, only if its branch still ends with that commit. A fault that may go away
    /// by itself is `EngineError::Unavailable`.
    pub async fn pull_merge(
        &self,
        op: &OpContext,
        pull: &Pull,
        head: Option<&str>,
    ) -> Result<PullEnd, EngineError> {
        Ok(self.pull_merge_with(op, pull, head, MergeWish::default()).await?.0)
    }

    /// Merges a pull request, and pushes its base to `origin` if requested and if it was merged here. Returns the
    /// result with what was pushed.
    pub(crate) async fn pull_merge_with(
        &self,
        op: &OpContext,
        pull: &Pull,
        head: Option<&str>,
        wish: MergeWish,
    ) -> Result<(PullEnd, Merged), EngineError> {
        match pull.task {
            Some(task) => op.principal.judge_on(op.tool, task)?,
            None => op.principal.judge_outside(op.tool, "a pull request without a task")?,
        }
        let pull = self.pull_again(op, pull).await?;
        let mut merged = Merged::default();
        match pull.status.as_str() {
            MERGED => return Ok((PullEnd::Merged { commit: pull.merge_commit }, merged)),
            CLOSED => {
                return Ok((PullEnd::Refused { why: "closed without a merge".into() }, merged));
            }
            _ => {}
        }
        let end = match kind_of(&pull.forge) {
            Some(kind) => self.merge_at(op, kind, &pull, head).await?,
            None => self.merge_here(&pull, head, wish, &mut merged).await?,
        };
        let step = match &end {
            PullEnd::Merged { commit } => PullStep::Merged { commit: commit.clone(), asked: true },
            PullEnd::Nothing => PullStep::Closed,
            PullEnd::Waiting => PullStep::Awaited,
            PullEnd::Conflicts { .. } | PullEnd::Refused { .. } => return Ok((end, merged)),
        };
        if let PullEnd::Merged { .. } = end {
            self.base_follow(&op.principal.org, &pull).await;
        }
        if let Some(command) = settle(&pull, step, None) {
            match pull.job {
                Some(_) => drop(self.act_as_runner(&op.principal.org, command).await?),
                None => drop(self.act(&op.unkeyed(), command).await?),
            }
        }
        Ok((end, merged))
    }

    /// After a merge at a forge, brings the local base up to date if it is a branch that Callboard made: other tasks
    /// start there and are compared with it.
    pub(crate) async fn base_follow(&self, org: &str, pull: &Pull) {
        let (Some(shop), Some(task), Some(_)) =
            (&self.parts.workshop, pull.task, kind_of(&pull.forge))
        else {
            return;
        };
        if !self.is_ours(&pull.base) {
            return;
        }
        let followed = async {
            let Some(record) = self.parts.store.task(org, task).await? else { return Ok(()) };
            for repo in self.repos_here(org, record.task.project).await? {
                let done = shop.worktrees.branch_follow(&repo.path, &pull.base).await;
                done.map_err(|fault| EngineError::Internal(fault.to_string()))?;
            }
            Ok::<(), EngineError>(())
        };
        if let Err(error) = followed.await {
            tracing::warn!(%error, base = pull.base, "the local base branch is behind the forge's");
        }
    }

    /// The pull request as it is in the store now.
    async fn pull_again(&self, op: &OpContext, pull: &Pull) -> Result<Pull, EngineError> {
        let Some(task) = pull.task else { return Ok(pull.clone()) };
        let known = self.pulls_of_task(op, task).await?;
        Ok(known.into_iter().find(|known| known.is(pull)).unwrap_or_else(|| pull.clone()))
    }

    /// Merges with plain git, in the repository itself.
    async fn merge_here(
        &self,
        pull: &Pull,
        head: Option<&str>,
        wish: MergeWish,
        merged: &mut Merged,
    ) -> Result<PullEnd, EngineError> {
        let refused = |why: String| Ok(PullEnd::Refused { why });
        if pull.machine.as_ref().is_some_and(|machine| *machine != self.parts.machine) {
            return refused("the repository of this pull request is on another machine".into());
        }
        let Some(shop) = &self.parts.workshop else {
            return refused("this server touches no repositories".into());
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let prepared =
                match shop.merges.merge_prepare(vec![order(pull, false, wish.settings)]).await {
                    Ok(prepared) => prepared,
                    Err(fault) => return Ok(faulty(fault)),
                };
            let moved = prepared.parts.iter().any(|part| {
                let is_new = matches!(part.plan, MergePlan::Commit { .. });
                is_new && head.is_some_and(|head| head != part.head)
            });
            if moved {
                shop.merges.merge_abandon(prepared).await;
                return refused(
                    "the pull request has other commits than those that were reviewed".into(),
                );
            }
            if prepared.parts.iter().all(|part| part.plan == MergePlan::Nothing) {
                shop.merges.merge_abandon(prepared).await;
                return Ok(PullEnd::Nothing);
            }
            match shop.merges.merge_publish(prepared, wish.push).await {
                Ok(parts) => {
                    *merged = Merged::of(&parts);
                    return Ok(PullEnd::Merged { commit: merged.commit.clone() });
                }
                Err(MergeFault::Moved { .. }) if tries < TRIES_MAX => {}
                Err(fault) => return Ok(faulty(fault)),
            }
        }
    }

    /// Whether Callboard made a branch. Branches of others are never moved.
    pub(crate) fn is_ours(&self, branch: &str) -> bool {
        let prefix = &self.parts.crew.branch_prefix;
        !prefix.is_empty() && branch.starts_with(prefix)
    }

    /// Merges through the forge's API, asking until it is merged or time is up.
    async fn merge_at(
        &self,
        op: &OpContext,
        kind: ForgeKind,
        pull: &Pull,
        head: Option<&str>,
    ) -> Result<PullEnd, EngineError> {
        let Some(forge) = &self.parts.forge else {
            return Ok(PullEnd::Refused { why: "this server is connected to no forge".into() });
        };
        let named = ForgeRef { project: pull.repo.clone(), number: pull.number };
        let until = Instant::now() + self.parts.runs.merge_wait;
        let mut pause = PAUSE_MIN;
        let mut is_waiting = false;
        loop {
            let end = match forge.merge(kind, &named, head).await {
                Ok(ForgeMerge::Merged { commit }) => return Ok(PullEnd::Merged { commit }),
                Ok(ForgeMerge::Conflicts) => {
                    let files = self.conflicts_of(op, pull).await?;
                    return Ok(PullEnd::Conflicts { files });
                }
                Ok(ForgeMerge::Refused { why }) => return Ok(PullEnd::Refused { why }),
                Ok(ForgeMerge::Waiting) => {
                    is_waiting = true;
                    PullEnd::Waiting
                }
                // The forge will merge it by itself; the look at open pull requests finds the rest.
                Ok(ForgeMerge::Unsettled { .. }) | Err(_) if is_waiting => PullEnd::Waiting,
                Ok(ForgeMerge::Unsettled { why }) => PullEnd::Refused { why },
                Err(fault) => return lasting(fault).map(|why| PullEnd::Refused { why }),
            };
            if Instant::now() + pause > until {
                return Ok(end);
            }
            tokio::select! {
                () = op.cancel.cancelled() => return Err(EngineError::Canceled),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The files in conflict. Forges do not name them; git here can, if it has both branches.
    async fn conflicts_of(&self, op: &OpContext, pull: &Pull) -> Result<Vec<String>, EngineError> {
        let (Some(shop), Some(task)) = (&self.parts.workshop, pull.task) else {
            return Ok(Vec::new());
        };
        let task = self.task_get(op, task).await?.it.task;
        let repos = match self.repos_here(&op.principal.org, task.project).await {
            Ok(repos) => repos,
            Err(EngineError::Git(words)) => {
                tracing::warn!(words, "git cannot list the conflicting files");
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        for repo in repos {
            let here = Pull { repo: repo.path.display().to_string(), ..pull.clone() };
            match shop.merges.merge_prepare(vec![order(&here, true, true)]).await {
                Ok(prepared) => shop.merges.merge_abandon(prepared).await,
                Err(MergeFault::Conflict { files, .. }) => return Ok(files),
                Err(fault) => tracing::warn!(%fault, "git cannot list the conflicting files"),
            }
        }
        Ok(Vec::new())
    }
}

fn order(pull: &Pull, fetch: bool, settings_seen: bool) -> MergeOrder {
    let title = pull.title.split_whitespace().collect::<Vec<_>>().join(" ");
    MergeOrder {
        from: MergeFrom::Branch { repo: pull.repo.clone().into(), name: pull.branch.clone() },
        task: pull.task.map_or_else(|| format!("pr-{}", pull.number), |task| task.to_string()),
        target: pull.base.clone(),
        message: format!("{title}\n\nPull request: {}", pull.url),
        fetch,
        one_at_a_time: true,
        settings_seen,
    }
}

fn faulty(fault: MergeFault) -> PullEnd {
    match fault {
        MergeFault::Conflict { files, .. } => PullEnd::Conflicts { files },
        fault => PullEnd::Refused { why: fault.to_string() },
    }
}
