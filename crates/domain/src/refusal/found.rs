//! A read that finds nothing. Each kind of id knows its own refusal, so rules and use cases never write one out.
//!
//! Some numbers name different things: a task can be asked for as an epic or as a parent. `AsEpic` and `AsParent` say
//! which one the caller meant, because the codes and the ways out differ.

use super::Refusal;
use crate::board::plan::PlanId;
use crate::board::project;
use crate::crew::{AgentId, MailId};
use crate::ids::{AttemptId, TaskId};
use crate::retention::Growing;
use crate::runs::job::JobId;
use crate::runs::run::ArtifactName;
use crate::task::comment::CommentId;

/// An id that a caller can name although no row has it.
pub trait Sought {
    fn not_found(&self) -> Refusal;
}

/// Turns an empty read into the refusal of its id.
pub trait OrNotFound<T> {
    fn or_not_found(self, id: &impl Sought) -> Result<T, Refusal>;
}

impl<T> OrNotFound<T> for Option<T> {
    fn or_not_found(self, id: &impl Sought) -> Result<T, Refusal> {
        self.ok_or_else(|| id.not_found())
    }
}

/// The refusal for an artifact that a run has had.
pub fn artifact_removed(job: JobId, name: ArtifactName) -> Refusal {
    let what = format!("the artifact {} of {job} was removed", name.as_str());
    Refusal::RemovedByRetention { what, setting: "retention.artifacts_days" }
}

/// The refusal for the log of a check's run that this machine does not have.
pub fn check_log_elsewhere(task: TaskId, index: usize, log: &str) -> Refusal {
    let why = format!(
        "{log} is not on this machine; another one wrote it, or it was deleted after 30 days"
    );
    Refusal::CheckLogNotFound { task, index, why }
}

/// The refusal for a place in the log after which events are gone. None is missing after `whole`.
pub fn events_removed(after: u64, whole: u64) -> Refusal {
    let what = format!("events after {after} were removed; the log is whole after {whole}");
    Refusal::RemovedByRetention { what, setting: Growing::Event.setting() }
}

/// A task that the caller named as an epic.
#[derive(Clone, Copy, Debug)]
pub struct AsEpic(pub TaskId);

/// A task that the caller named as the parent of another.
#[derive(Clone, Copy, Debug)]
pub struct AsParent(pub TaskId);

/// The id of a repository as its caller wrote it, `repo_7`.
#[derive(Clone, Copy, Debug)]
pub struct NamedRepo<'a>(pub &'a str);

/// The row number of a project. Callers see it as `prj_7`.
#[derive(Clone, Copy, Debug)]
pub struct ProjectRow(pub i64);

impl Sought for TaskId {
    fn not_found(&self) -> Refusal {
        Refusal::TaskNotFound { task: self.to_string() }
    }
}

impl Sought for AsEpic {
    fn not_found(&self) -> Refusal {
        Refusal::EpicNotFound { epic: self.0.to_string() }
    }
}

impl Sought for AsParent {
    fn not_found(&self) -> Refusal {
        Refusal::ParentNotFound { task: self.0.to_string() }
    }
}

impl Sought for AttemptId {
    /// Callers name an attempt by its id only in the graph toolset, where it is called a session.
    fn not_found(&self) -> Refusal {
        Refusal::SessionNotFound { session: format!("ses_{}", self.0) }
    }
}

impl Sought for CommentId {
    fn not_found(&self) -> Refusal {
        Refusal::CommentNotFound { comment: self.to_string() }
    }
}

impl Sought for PlanId {
    fn not_found(&self) -> Refusal {
        Refusal::PlanNotFound { plan: self.to_string() }
    }
}

impl Sought for NamedRepo<'_> {
    fn not_found(&self) -> Refusal {
        Refusal::invalid(format!("repository not found: {}", self.0))
    }
}

impl Sought for ProjectRow {
    fn not_found(&self) -> Refusal {
        Refusal::ProjectNotFound { project: project::shown_id(self.0) }
    }
}

impl Sought for JobId {
    fn not_found(&self) -> Refusal {
        Refusal::JobNotFound { job: self.to_string() }
    }
}

impl Sought for AgentId {
    fn not_found(&self) -> Refusal {
        Refusal::AgentNotFound { agent: self.to_string() }
    }
}

impl Sought for MailId {
    fn not_found(&self) -> Refusal {
        Refusal::MailNotFound { mail: self.to_string() }
    }
}
