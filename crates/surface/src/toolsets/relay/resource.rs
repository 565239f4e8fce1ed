//! `mcp://jobs/…`: a job's status and its artifacts. Ids and names are matched against fixed forms; no part of a URI
//! ever becomes part of a path.

use std::sync::Arc;

use async_trait::async_trait;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::run::ArtifactName;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{ArtifactText, Engine, EngineError, RunFilter};
use tokio::sync::mpsc;

use super::view;
use super::words::StateWord;
use crate::front::{NoResource, ResourceInfo, ResourceTemplate, ResourceText, Unknown};
use crate::hooks::{ResourcePage, Resources};
use crate::lookup::{LookupError, ResourceError};

const JOBS: &str = "mcp://jobs/";
pub(super) const LIST: &str = "mcp://jobs/list";
/// Jobs in the list resource.
const LISTED: usize = 100;
/// How many jobs a page has; each has at most five resources.
const PAGE: usize = 20;
/// How long a client may cache an artifact that cannot change any more: one hour.
const KEPT_MS: u64 = 3_600_000;

const JSON: &str = "application/json";

const TEMPLATES: &[ResourceTemplate] = &[
    ResourceTemplate {
        uri_template: "mcp://jobs/{jobId}/status",
        name: "job_status",
        title: "Job status",
        description: "The state of a job and the version of its resources.",
        media_type: JSON,
    },
    ResourceTemplate {
        uri_template: "mcp://jobs/{jobId}/artifacts/{name}",
        name: "job_artifact",
        title: "Job artifact",
        description: "patch.diff, out.md (test plan and notes), logs.txt or pr.json.",
        media_type: "text/plain",
    },
];

/// What an address of this toolset names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobUri {
    List,
    Status(JobId),
    Artifact(JobId, ArtifactName),
}

impl JobUri {
    /// Reads an address in its one spelling.
    pub(super) fn parse(uri: &str) -> Option<Self> {
        if uri == LIST {
            return Some(Self::List);
        }
        let (job, what) = uri.strip_prefix(JOBS)?.split_once('/')?;
        let id: JobId = job.parse().ok()?;
        // Only the canonical spelling counts: notifications repeat it.
        if id.to_string() != job {
            return None;
        }
        match what.strip_prefix("artifacts/") {
            Some(name) => Some(Self::Artifact(id, ArtifactName::parse(name)?)),
            None => (what == "status").then_some(Self::Status(id)),
        }
    }

    /// The job of an address; the list has none.
    pub(super) fn job(self) -> Option<JobId> {
        match self {
            Self::List => None,
            Self::Status(job) | Self::Artifact(job, _) => Some(job),
        }
    }
}

pub(super) struct JobResources;

#[async_trait]
impl Resources for JobResources {
    fn templates(&self) -> &'static [ResourceTemplate] {
        TEMPLATES
    }

    // Cursors of all toolsets look alike to a client, so each toolset must know its own.
    fn made(&self, cursor: &str) -> bool {
        cursor.parse::<JobId>().is_ok()
    }

    async fn page(
        &self,
        engine: &Engine,
        principal: &Principal,
        after: Option<&str>,
    ) -> Result<Option<ResourcePage>, EngineError> {
        let after = after.and_then(|cursor| cursor.parse().ok());
        let (jobs, next) = list(engine, principal, after).await?;
        Ok(Some((jobs, next.map(|job| job.to_string()))))
    }

    /// Every `mcp://jobs/` address, so that a malformed one gets this toolset's refusal.
    fn holds(&self, uri: &str) -> bool {
        uri.starts_with(JOBS)
    }

    async fn read(
        &self,
        engine: &Engine,
        principal: &Principal,
        uri: &str,
    ) -> Result<ResourceText, ResourceError> {
        read(engine, principal, uri).await
    }

    /// Changes of jobs are notices (`watch.rs`). A job may be created later.
    async fn watch(
        &self,
        _engine: &Arc<Engine>,
        _principal: &Principal,
        uri: &str,
        _changes: mpsc::Sender<String>,
    ) -> Result<(), LookupError> {
        Ok(JobUri::parse(uri).map(|_| ()).ok_or_else(|| Unknown(uri.to_owned()))?)
    }

    async fn complete(
        &self,
        engine: &Engine,
        principal: &Principal,
        argument: &str,
        typed: &str,
        limit: usize,
    ) -> Result<Option<Vec<String>>, EngineError> {
        match argument {
            "name" => {
                let names = ArtifactName::ALL.iter().map(|name| name.as_str());
                let names = names.filter(|name| name.starts_with(typed));
                Ok(Some(names.map(str::to_owned).collect()))
            }
            "jobId" => complete_id(engine, principal, typed, limit).await.map(Some),
            _ => Ok(None),
        }
    }
}

fn media_type(name: ArtifactName) -> &'static str {
    match name {
        ArtifactName::Patch | ArtifactName::Logs => "text/plain",
        ArtifactName::Out => "text/markdown",
        ArtifactName::Pr => JSON,
    }
}

/// A text that may change at any moment: clients must not cache it.
fn fresh(media_type: &'static str, text: String) -> ResourceText {
    ResourceText { media_type, text, ttl_ms: Some(0) }
}

/// Reads one resource. A job that is not the caller's does not exist for it.
async fn read(
    engine: &Engine,
    principal: &Principal,
    uri: &str,
) -> Result<ResourceText, ResourceError> {
    let op = OpContext::new(principal.clone(), "resources");
    let Some(asked) = JobUri::parse(uri) else { return Err(NoResource::unknown(uri).into()) };
    let found = match asked {
        JobUri::List => {
            let filter = RunFilter { state: None, limit: LISTED, offset: 0 };
            let page = engine.run_list(&op, filter).await?;
            return Ok(fresh(JSON, view::page(&page, 0).to_string()));
        }
        JobUri::Status(job) => {
            let seen = engine.run_get(&op, job).await;
            seen.map(|seen| fresh(JSON, view::status(&seen).to_string())).map_err(LookupError::from)
        }
        JobUri::Artifact(job, name) => artifact(engine, &op, uri, job, name).await,
    };
    match found {
        Err(LookupError::Failed(EngineError::Refused(Refusal::JobNotFound { .. }))) => {
            Err(NoResource::unknown(uri).into())
        }
        found => found,
    }
}

/// An artifact, with the time a client may cache it. Patch and text are final once the job is over; logs may still
/// grow, and a pull request changes at the forge.
async fn artifact(
    engine: &Engine,
    op: &OpContext,
    uri: &str,
    job: JobId,
    name: ArtifactName,
) -> Result<ResourceText, ResourceError> {
    // Asked before the text is read: a job that ends in between may replace the text.
    let is_over = match name {
        ArtifactName::Patch | ArtifactName::Out => {
            engine.run_get(op, job).await?.record.job.is_over()
        }
        ArtifactName::Logs | ArtifactName::Pr => false,
    };
    let found = match engine.run_artifact(op, job, name).await {
        Err(EngineError::Refused(gone @ Refusal::RemovedByRetention { .. })) => {
            let (code, hint) = (gone.code(), Some(gone.message()));
            let removed =
                NoResource { code, retryable: Some(false), hint, ..NoResource::unknown(uri) };
            return Err(removed.into());
        }
        found => found?,
    };
    match found {
        ArtifactText::Text(text) => {
            let ttl_ms = Some(if is_over { KEPT_MS } else { 0 });
            Ok(ResourceText { media_type: media_type(name), text, ttl_ms })
        }
        ArtifactText::Missing(seen) => {
            let job = &seen.record.job;
            let state = StateWord::of(&job.state).word();
            let hint = match job.is_over() {
                false => format!(
                    "The job is {state} and has no {} yet: read it again when jobs_get says that the job \
                     has ended",
                    name.as_str()
                ),
                true => format!(
                    "The job ended as {state} without {}: artifacts in the answer of jobs_get \
                     lists the artifacts of the job",
                    name.as_str()
                ),
            };
            let missing = NoResource {
                code: "ARTIFACT_MISSING",
                state: Some(state),
                retryable: Some(!job.is_over()),
                hint: Some(hint),
                ..NoResource::unknown(uri)
            };
            Err(missing.into())
        }
    }
}

/// One page: the list itself, then the status and the artifacts of each job, the newest first.
async fn list(
    engine: &Engine,
    principal: &Principal,
    after: Option<JobId>,
) -> Result<(Vec<ResourceInfo>, Option<JobId>), EngineError> {
    let op = OpContext::new(principal.clone(), "resources");
    let jobs = engine.run_history(&op, after, PAGE + 1).await?;
    let mut infos = Vec::new();
    if after.is_none() {
        infos.push(ResourceInfo {
            uri: LIST.into(),
            name: "jobs".into(),
            title: "Jobs".into(),
            media_type: JSON,
        });
    }
    for seen in jobs.iter().take(PAGE) {
        let (id, run) = (seen.record.job.id, &seen.record.run);
        // Only an order for a patch has a spec, and with it a title.
        let title = run.order.patch().map_or("", |spec| &spec.task.title);
        infos.push(ResourceInfo {
            uri: view::status_uri(id),
            name: id.to_string(),
            title: title.to_owned(),
            media_type: JSON,
        });
        for name in run.artifact_names() {
            infos.push(ResourceInfo {
                uri: view::artifact_uri(id, name.as_str()),
                name: format!("{id} {}", name.as_str()),
                title: format!("{}: {title}", name.as_str()),
                media_type: media_type(name),
            });
        }
    }
    // One job more than a page was read, to know whether there is a next page.
    let next = (jobs.len() > PAGE).then(|| jobs[PAGE - 1].record.job.id);
    Ok((infos, next))
}

/// Job ids that begin with the typed text, the newest first.
async fn complete_id(
    engine: &Engine,
    principal: &Principal,
    typed: &str,
    limit: usize,
) -> Result<Vec<String>, EngineError> {
    // Completion is a convenience; older jobs are found with `jobs_list`.
    const SEARCHED_MAX: usize = 1000;
    let op = OpContext::new(principal.clone(), "complete");
    let jobs = engine.run_history(&op, None, SEARCHED_MAX).await?;
    let ids = jobs.iter().map(|seen| seen.record.job.id.to_string());
    Ok(ids.filter(|id| id.starts_with(typed)).take(limit).collect())
}
