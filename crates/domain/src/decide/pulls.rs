//! Pull requests of jobs and of tasks: opened and settled. The pull request of a job is opened before the job's end
//! or not at all.

use serde_json::json;

use crate::command::{Behind, MergedBranch, PullOpen, PullSettle, PullStep, RunPr};
use crate::crew::letters;
use crate::crew::state::worker_of;
use crate::decide::crew::task::mail;
use crate::decide::draft::Draft;
use crate::decide::runs::run::Step;
use crate::event::EventName;
use crate::policy::Phase;
use crate::pulls::{CLOSED, LOCAL, MERGED, OPEN, Pull, local_url};
use crate::refusal::Refusal;
use crate::runs::run::{ArtifactName, PullRequest};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Records the pull request of a job, or what became of it. A local one gets the next number of its org.
pub(crate) fn run_pr(world: &World<'_>, new: &RunPr, now: Timestamp) -> Result<Change, Refusal> {
    let mut step = Step::of(world, new.job, now)?;
    let known = step.run.pr.as_ref();
    // A job that is over opens no pull request; only the state of a known one is still news.
    if known.is_none() && step.job.is_over() {
        return Err(Refusal::JobLost { job: new.job });
    }
    let (number, url) = match (&new.at, known) {
        (Some(at), _) => at.clone(),
        (None, Some(known)) if known.forge == new.forge => (known.number, known.url.clone()),
        (None, _) => (world.pulls_last + 1, local_url(world.pulls_last + 1)),
    };
    let pr = PullRequest {
        url,
        number,
        status: new.status.clone(),
        branch: new.branch.clone(),
        base: new.base.clone(),
        forge: new.forge.clone(),
        head: new.head.clone(),
    };
    if known == Some(&pr) {
        return Ok(step.unchanged());
    }
    let pull = Pull {
        forge: pr.forge.clone(),
        repo: new.repo.clone(),
        number,
        url: pr.url.clone(),
        status: pr.status.clone(),
        branch: pr.branch.clone(),
        base: pr.base.clone(),
        head: pr.head.clone(),
        title: step.run.order.patch().map_or_else(String::new, |spec| spec.task.title.clone()),
        is_awaited: false,
        is_revoked: false,
        merge_commit: None,
        task: step.job.task,
        job: Some(step.job.id),
        machine: step.run.bound_to.clone(),
        created_at: now,
        changed_at: now,
    };
    let more = json!({
        "artifact": ArtifactName::Pr.as_str(),
        "status": pr.status,
        "forge": pr.forge,
        "number": number,
    });
    step.run.pr = Some(pr);
    let mut change = step.alone(EventName::JobPr, more);
    change.writes.push(Write::PullPut { pull });
    Ok(change)
}

/// Records the pull request of a task's branch. The open one of the same branch and base is brought up to date and
/// keeps its number.
pub(crate) fn pull_open(
    world: &World<'_>,
    new: &PullOpen,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, new.task, now)?;
    let is_same = |pull: &&Pull| {
        let branches = pull.branch == new.branch && pull.base == new.base;
        let place = pull.forge == new.forge && pull.repo == new.repo && pull.job.is_none();
        let number = new.at.as_ref().is_none_or(|(number, _)| *number == pull.number);
        pull.is_open() && branches && place && number
    };
    let known = world.pulls.iter().find(is_same);
    let (number, url) = match (&new.at, known) {
        (Some(at), _) => at.clone(),
        (None, Some(known)) => (known.number, known.url.clone()),
        (None, None) => (world.pulls_last + 1, local_url(world.pulls_last + 1)),
    };
    let pull = Pull {
        forge: new.forge.clone(),
        repo: new.repo.clone(),
        number,
        url,
        status: OPEN.into(),
        branch: new.branch.clone(),
        base: new.base.clone(),
        head: new.head.clone(),
        title: new.title.clone(),
        // An approval was for the head it saw.
        is_awaited: known.is_some_and(|known| known.is_awaited && known.head == new.head),
        // The merge was wanted for the old head. A forge would also merge the commits after it, so it is called off
        // there.
        is_revoked: known.is_some_and(|known| {
            known.is_revoked || known.is_awaited && known.head != new.head && is_elsewhere(known)
        }),
        merge_commit: None,
        task: Some(new.task),
        job: None,
        machine: new.machine.clone(),
        created_at: known.map_or(now, |known| known.created_at),
        changed_at: known.map_or(now, |known| known.changed_at),
    };
    match known {
        Some(known) if *known == pull => return Ok(draft.unchanged(Reply::Task(new.task))),
        Some(_) => put(&mut draft, EventName::PrUpdated, Pull { changed_at: now, ..pull }),
        None => {
            draft.entry("opened a pull request", Some(pull.url.clone()));
            put(&mut draft, EventName::PrOpened, pull);
        }
    }
    Ok(draft.done())
}

/// Records what happened to a pull request; a step that is known already changes nothing.
pub(crate) fn pull_settle(
    world: &World<'_>,
    settle: &PullSettle,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut draft = Draft::of_task(world, settle.task, now)?;
    let is_it = |pull: &&Pull| {
        (&pull.forge, &pull.repo, pull.number) == (&settle.forge, &settle.repo, settle.number)
    };
    let known = world.pulls.iter().find(is_it);
    let news = known.filter(|pull| match &settle.step {
        PullStep::Awaited => pull.is_open() && !pull.is_awaited,
        // A task that is back in review may want the merge again.
        PullStep::Revoked => is_wanted(pull) && draft.task.phase != Phase::Review,
        PullStep::CalledOff => pull.is_open() && pull.is_revoked,
        PullStep::Merged { .. } => pull.status != MERGED,
        PullStep::Closed => pull.is_open(),
    });
    let Some(pull) = news.cloned() else { return Ok(draft.unchanged(Reply::Task(settle.task))) };
    let pull = Pull { changed_at: now, ..pull };
    match &settle.step {
        PullStep::Awaited => {
            let pull = Pull { is_awaited: true, is_revoked: false, ..pull };
            put(&mut draft, EventName::PrUpdated, pull);
        }
        PullStep::Revoked => draft.merges_revoke(),
        PullStep::CalledOff => {
            draft.entry("called off the merge of a pull request", Some(pull.url.clone()));
            put(&mut draft, EventName::PrUpdated, Pull { is_revoked: false, ..pull });
        }
        PullStep::Merged { commit, asked } => {
            let pull = Pull { is_awaited: pull.is_awaited || *asked, ..pull };
            draft.entry("merged a pull request", Some(pull.url.clone()));
            if let Some(behind) = &settle.behind {
                tell(&mut draft, &pull, behind);
            }
            merged(&mut draft, pull, commit.clone());
        }
        PullStep::Closed => {
            draft.entry("saw the pull request closed", Some(pull.url.clone()));
            put(
                &mut draft,
                EventName::PrClosed,
                Pull { status: CLOSED.into(), is_revoked: false, ..pull },
            );
        }
    }
    Ok(draft.done())
}

/// Whether a forge has the pull request, so that it must be told, too.
fn is_elsewhere(pull: &Pull) -> bool {
    pull.forge != LOCAL
}

/// Whether a merge of the task's own pull request is still to come.
fn is_wanted(pull: &Pull) -> bool {
    pull.is_open() && pull.is_awaited && pull.job.is_none()
}

/// Tells a worker that still works on the task: its work so far is in the base, and the rest starts from there.
fn tell(draft: &mut Draft<'_>, pull: &Pull, behind: &Behind) {
    let has_it = worker_of(draft.live.as_ref(), draft.now).as_ref() == Some(&behind.worker);
    let is_known = draft.world.crew.agent(&behind.worker).is_some();
    if draft.task.phase != Phase::Working || !has_it || !is_known {
        return;
    }
    let (task, title) = (behind.task.to_string(), &behind.title);
    let letter = letters::rebase_required(&task, title, &pull.base, is_elsewhere(pull));
    mail(draft, behind.mail, None, Some(&behind.worker), letter);
}

/// What the rules of reviews and of crews do to the pull requests of their subject.
impl Draft<'_> {
    /// Revokes the merges that are wanted of the subject's pull requests. Those at a forge are called off there later.
    pub fn merges_revoke(&mut self) {
        for pull in self.world.pulls.iter().filter(|pull| is_wanted(pull)) {
            let pull = Pull {
                is_awaited: false,
                is_revoked: is_elsewhere(pull),
                changed_at: self.now,
                ..pull.clone()
            };
            put(self, EventName::PrUpdated, pull);
        }
    }

    /// Marks local pull requests as merged. The branch is their only truth, however its work got into the base.
    pub fn branches_merged(&mut self, branches: &[MergedBranch]) {
        for MergedBranch { repo, branch, commit } in branches {
            let is_its = |pull: &&Pull| {
                let place = pull.forge == LOCAL && pull.repo == *repo && pull.branch == *branch;
                pull.is_open() && place && pull.job.is_none()
            };
            for pull in self.world.pulls.iter().filter(is_its) {
                merged(self, Pull { changed_at: self.now, ..pull.clone() }, commit.clone());
            }
        }
    }
}

/// Marks a pull request as merged. The commit is `None` where the forge does not say it.
fn merged(draft: &mut Draft<'_>, pull: Pull, commit: Option<String>) {
    let status = MERGED.into();
    let pull = Pull { status, merge_commit: commit, is_revoked: false, ..pull };
    put(draft, EventName::PrMerged, pull);
}

/// Writes a pull request with its event.
fn put(draft: &mut Draft<'_>, name: EventName, pull: Pull) {
    let data = json!({
        "forge": pull.forge,
        "number": pull.number,
        "url": pull.url,
        "branch": pull.branch,
        "base": pull.base,
        "awaited": pull.is_awaited,
        "commit": pull.merge_commit,
    });
    draft.event(name, data);
    draft.write(Write::PullPut { pull });
}
