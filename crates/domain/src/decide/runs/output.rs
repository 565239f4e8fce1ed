//! What a run reports and leaves: artifacts, questions and their answers, its tokens and commits, and what keeps it
//! from starting.

use serde_json::json;

use crate::actor::Actor;
use crate::decide::runs::run::Step;
use crate::event::{Event, EventName};
use crate::refusal::Refusal;
use crate::runs::job::{JobId, JobState};
use crate::runs::run::{ArtifactName, NewArtifact, Question, RunCommit};
use crate::runs::usage::RunUsage;
use crate::time::Timestamp;
use crate::world::{Change, World, Write};

/// Records an artifact of a run; a later one of the same name replaces it. Only the newest run may: an older one has a
/// smaller fencing token.
pub(crate) fn run_artifact(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    new: &NewArtifact,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    let open = match step.job.state {
        JobState::Running { .. } | JobState::Stale { .. } => true,
        JobState::Queued { .. } => false,
        // The logs of a killed run may come after its end; nothing else may.
        JobState::Done { .. }
        | JobState::Failed { .. }
        | JobState::Canceled { .. }
        | JobState::Expired { .. } => new.artifact.name == ArtifactName::Logs,
    };
    if !open || step.run.fence != fence {
        return Err(Refusal::JobLost { job: id });
    }
    let event = kept(&mut step, new);
    let mut change = step.reported(event);
    change.writes.extend(stored(new));
    Ok(change)
}

/// Puts an artifact among those of the run; returns the event about it.
pub(super) fn kept(step: &mut Step<'_>, NewArtifact { artifact, .. }: &NewArtifact) -> Event {
    match step.run.artifacts.iter_mut().find(|known| known.name == artifact.name) {
        Some(known) => *known = artifact.clone(),
        None => step.run.artifacts.push(artifact.clone()),
    }
    let more = json!({
        "artifact": artifact.name.as_str(),
        "size": artifact.size,
        "sha256": artifact.sha256,
    });
    step.event(EventName::JobArtifact, more)
}

/// The write of an artifact's content, if it comes with the command.
pub(super) fn stored(NewArtifact { artifact, bytes }: &NewArtifact) -> Option<Write> {
    let (file, bytes) = (artifact.file.clone(), bytes.clone()?);
    Some(Write::ArtifactInsert { file, bytes })
}

/// Records a question of the agent. The run goes on and waits for the answer; questions are numbered from 1 within
/// their job.
pub(crate) fn run_ask(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    text: &str,
    command: Option<&str>,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::own(world, id, fence, now)?;
    let number = step.run.question.as_ref().map_or(0, |asked| asked.number) + 1;
    step.summary(&format!("Waiting for an answer: {text}"));
    step.run.question = Some(Question {
        number,
        text: text.to_owned(),
        command: command.map(str::to_owned),
        answer: None,
    });
    Ok(step.alone(EventName::JobAsked, json!({"question": number})))
}

/// Answers the open question. With a number it must be that question: an answer typed for an earlier one must not grant
/// the next.
pub(crate) fn run_answer(
    world: &World<'_>,
    id: JobId,
    number: Option<u32>,
    granted: bool,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    let open = step.run.open_question().cloned().filter(|_| !step.job.is_over());
    let open = open.filter(|asked| number.is_none_or(|number| asked.number == number));
    let question = open.ok_or(Refusal::NoQuestion { job: id })?;
    let answered = json!({"question": question.number, "granted": granted});
    step.run.question = Some(Question { answer: Some(granted), ..question });
    // The summary said that the agent waits.
    step.run.summary = None;
    Ok(step.alone(EventName::JobAnswered, answered))
}

/// Records which processes hold a run back, and once that none does any more.
pub(crate) fn run_hold(
    world: &World<'_>,
    id: JobId,
    fence: u64,
    left: &[String],
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::own(world, id, fence, now)?;
    let before = step.run.summary.take();
    if !left.is_empty() {
        step.summary(&format!("Waiting for {}: an earlier run left it", left.join(", ")));
    }
    // Only a change is worth an event.
    if step.run.summary == before {
        return Ok(step.unchanged());
    }
    Ok(step.alone(EventName::JobHeld, json!({"left": left})))
}

/// Records what a run used. A run that was canceled meanwhile has used it all the same.
pub(crate) fn run_use(
    world: &World<'_>,
    (id, fence): (JobId, u64),
    agent: &Actor,
    usage: RunUsage,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut step = Step::of(world, id, now)?;
    if step.run.fence != fence {
        return Err(Refusal::JobLost { job: id });
    }
    let event = used(&mut step, agent, usage);
    Ok(step.reported(event))
}

/// Adds to what the runs of a job used; returns the event about it.
pub(super) fn used(step: &mut Step<'_>, agent: &Actor, usage: RunUsage) -> Event {
    step.run.usage = Some(step.run.usage.map_or(usage, |known| known.plus(usage)));
    let mut used = json!({
        "agent": agent,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    });
    if let Some(cost) = usage.cost_micros {
        used["cost_micros"] = cost.into();
    }
    step.event(EventName::JobUsed, used)
}

/// Records the head of the work that a run leaves. Nothing in the rows changes.
pub(crate) fn run_commit(
    world: &World<'_>,
    (id, fence): (JobId, u64),
    commit: &RunCommit,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let step = Step::of(world, id, now)?;
    if step.run.fence != fence {
        return Err(Refusal::JobLost { job: id });
    }
    let RunCommit { head, commits, is_leftovers } = commit;
    let mut data = json!({"head": head, "commits": commits});
    if *is_leftovers {
        data["leftovers"] = true.into();
    }
    Ok(step.alone(EventName::JobCommitted, data))
}
