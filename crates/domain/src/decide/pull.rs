//! Pull requests for what jobs made: opened before the end, and what becomes of them after it.

use serde_json::json;

use super::run::Step;
use crate::command::RunPr;
use crate::event::EventName;
use crate::pull::{Pull, local_url};
use crate::refusal::Refusal;
use crate::run::{ArtifactName, PullRequest};
use crate::time::Timestamp;
use crate::world::{Change, World, Write};

pub(super) fn run_pr(world: &World<'_>, new: &RunPr, now: Timestamp) -> Result<Change, Refusal> {
    let mut step = Step::of(world, new.job, now)?;
    let known = step.run.pr.as_ref();
    // Before the end or not at all: afterwards only what became of it is news.
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
