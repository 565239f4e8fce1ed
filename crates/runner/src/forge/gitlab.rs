//! GitLab's REST API: a merge request, the checks of its head, its changed files; and a new merge request.

mod merge;

use std::collections::HashMap;

use callboard_domain::forge::{ForgeCheck, ForgeCheckState, ForgeRef, ForgeState};
use callboard_engine::ports::{ForgeFault, NewPull, OpenedPull, PullStateRequest};
use serde::Deserialize;
use serde_json::json;

use super::IssueLinks;
use super::http::{Api, quoted};
pub(super) use merge::{call_off, merge};

#[derive(Deserialize)]
struct MergeRequest {
    state: GitLabState,
    target_branch: String,
    /// Missing when the source branch has no commit of its own.
    sha: Option<String>,
    merge_commit_sha: Option<String>,
    squash_commit_sha: Option<String>,
    head_pipeline: Option<Pipeline>,
    /// `"1000+"` when there are more files than GitLab lists.
    changes_count: Option<String>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum GitLabState {
    Opened,
    /// While the merge request is being merged.
    Locked,
    Closed,
    Merged,
}

#[derive(Deserialize)]
struct Pipeline {
    id: u64,
    /// The project of the pipeline: the fork, when the pipeline ran there.
    project_id: u64,
    sha: String,
    #[serde(rename = "ref")]
    reference: String,
}

/// A job, or a status that an outside service reported on a commit; GitLab numbers them together.
#[derive(Deserialize)]
struct GitLabJob {
    id: u64,
    name: String,
    status: String,
}

#[derive(Deserialize)]
struct Diff {
    old_path: String,
    new_path: String,
}

pub(super) async fn pull(
    api: &Api,
    pull: &ForgeRef,
    wanted: &PullStateRequest,
) -> Result<ForgeState, ForgeFault> {
    let project = format!("/projects/{}", pull.project.replace('/', "%2F"));
    let at = format!("{project}/merge_requests/{}", pull.number);
    let found: MergeRequest = api.get(&at).await?;
    let mut state = ForgeState {
        merged: found.state == GitLabState::Merged,
        merge_commit: found.merge_commit_sha.or(found.squash_commit_sha),
        open: matches!(found.state, GitLabState::Opened | GitLabState::Locked),
        target_branch: found.target_branch,
        head_sha: found.sha.unwrap_or_default(),
        ..ForgeState::default()
    };
    if wanted.checks && !state.head_sha.is_empty() {
        let pipeline = found.head_pipeline.filter(|pipeline| pipeline.ran_on(&state.head_sha));
        state.checks = checks(api, &project, &state.head_sha, pipeline).await?;
    }
    if wanted.files {
        let listed = api.pages::<Vec<Diff>>("its changes", &format!("{at}/diffs")).await?;
        let uncounted = found.changes_count.is_some_and(|count| count.ends_with('+'));
        state.files_cut = listed.cut || uncounted;
        for Diff { old_path, new_path } in listed.pages.into_iter().flatten() {
            let renamed = (old_path != new_path).then_some(old_path);
            state.files.extend([Some(new_path), renamed].into_iter().flatten());
        }
    }
    Ok(state)
}

#[derive(Deserialize)]
struct GitLabPage {
    iid: u64,
    web_url: String,
}

impl From<GitLabPage> for OpenedPull {
    fn from(page: GitLabPage) -> Self {
        Self { number: page.iid, url: page.web_url }
    }
}

pub(super) async fn open(api: &Api, new: &NewPull) -> Result<OpenedPull, ForgeFault> {
    let requests = format!("/projects/{}/merge_requests", new.project.replace('/', "%2F"));
    let NewPull { title, body, branch, base, .. } = new;
    let (source, target) = (quoted(branch), quoted(base));
    let at = format!("{requests}?state=opened&source_branch={source}&target_branch={target}");
    let wish = json!({
        "title": title,
        "description": body,
        "source_branch": branch,
        "target_branch": base,
    });
    Ok(api.find_or_post::<GitLabPage>(&at, &requests, &wish).await?.into())
}

impl Pipeline {
    /// Whether the pipeline ran on `head`. Just after a push GitLab still names the pipeline of the commit before. A
    /// pipeline that tries the merge beforehand has the commit of that merge.
    fn ran_on(&self, head: &str) -> bool {
        self.sha == head || self.reference.ends_with("/merge") || self.reference.ends_with("/train")
    }
}

/// The jobs of the newest pipeline, and the other statuses reported on the commit. Older pipelines of the commit, with
/// the same jobs, no longer count.
async fn checks(
    api: &Api,
    project: &str,
    head: &str,
    pipeline: Option<Pipeline>,
) -> Result<Vec<ForgeCheck>, ForgeFault> {
    let mut newest: HashMap<String, GitLabJob> = HashMap::new();
    let at = format!("{project}/repository/commits/{head}/statuses");
    let reported = api.pages::<Vec<GitLabJob>>("its statuses", &at).await?;
    for job in reported.pages.into_iter().flatten() {
        match newest.get(&job.name) {
            Some(known) if known.id > job.id => {}
            _ => drop(newest.insert(job.name.clone(), job)),
        }
    }
    if let Some(Pipeline { id, project_id, .. }) = pipeline {
        let at = format!("/projects/{project_id}/pipelines/{id}/jobs");
        let jobs =
            api.pages::<Vec<GitLabJob>>("the pipeline jobs of the pull request", &at).await?;
        newest.extend(jobs.pages.into_iter().flatten().map(|job| (job.name.clone(), job)));
    }
    let mut jobs: Vec<GitLabJob> = newest.into_values().collect();
    jobs.sort_by_key(|job| job.id);
    Ok(jobs.into_iter().map(|job| ForgeCheck { state: job.state(), name: job.name }).collect())
}

impl GitLabJob {
    /// A skipped job is one that an earlier failure kept from running; a manual one still waits for a person to start
    /// it.
    fn state(&self) -> ForgeCheckState {
        match self.status.as_str() {
            "success" => ForgeCheckState::Green,
            "failed" | "canceled" | "canceling" | "skipped" => ForgeCheckState::Red,
            _ => ForgeCheckState::Running,
        }
    }
}

pub(super) fn issues_path(project: &str) -> String {
    format!("/projects/{}/issues?scope=all", project.replace('/', "%2F"))
}

/// The list of issues that an open issue is linked with, if GitLab counts one that waits for it.
pub(super) fn links(project: &str, issue: &serde_json::Value) -> Option<IssueLinks> {
    let blocked = issue["blocking_issues_count"].as_u64()?;
    let number = issue["iid"].as_u64().filter(|_| blocked > 0 && issue["state"] == "opened")?;
    let path = format!("/projects/{}/issues/{number}/links", project.replace('/', "%2F"));
    Some(IssueLinks { path, key: "links" })
}
