//! GitHub's REST API: a pull request, the checks of its head, its changed files; and a new pull request.

mod merge;

use callboard_domain::forge::{ForgeCheck, ForgeCheckState, ForgeRef, ForgeState};
use callboard_engine::ports::{ForgeFault, NewPull, OpenedPull, PullStateRequest};
use serde::Deserialize;
use serde_json::json;

use super::IssueLinks;
use super::http::{Api, quoted};
pub(super) use merge::{call_off, merge};

#[derive(Deserialize)]
struct GitHubPull {
    state: GitHubState,
    merged: bool,
    merge_commit_sha: Option<String>,
    base: Base,
    head: Head,
    changed_files: usize,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum GitHubState {
    Open,
    Closed,
}

#[derive(Deserialize)]
struct Base {
    #[serde(rename = "ref")]
    branch: String,
}

#[derive(Deserialize)]
struct Head {
    sha: String,
}

#[derive(Deserialize)]
struct CheckRuns {
    check_runs: Vec<CheckRun>,
}

/// A check run by an app, GitHub Actions among them.
#[derive(Deserialize)]
struct CheckRun {
    name: String,
    status: String,
    conclusion: Option<String>,
}

#[derive(Deserialize)]
struct Statuses {
    statuses: Vec<Status>,
}

/// A status that an outside service reported: the older way, still in use.
#[derive(Deserialize)]
struct Status {
    context: String,
    state: String,
}

#[derive(Deserialize)]
struct GitHubFile {
    filename: String,
    previous_filename: Option<String>,
}

/// The state of a pull request. Checks and files cost requests of their own, so they are read only if wanted.
pub(super) async fn pull(
    api: &Api,
    pull: &ForgeRef,
    wanted: &PullStateRequest,
) -> Result<ForgeState, ForgeFault> {
    let repo = format!("/repos/{}", pull.project);
    let at = format!("{repo}/pulls/{}", pull.number);
    let found: GitHubPull = api.get(&at).await?;
    let mut state = ForgeState {
        merged: found.merged,
        // Of an open pull request it is the commit of a trial merge.
        merge_commit: found.merge_commit_sha.filter(|_| found.merged),
        open: found.state == GitHubState::Open,
        target_branch: found.base.branch,
        head_sha: found.head.sha,
        ..ForgeState::default()
    };
    if wanted.checks {
        state.checks = checks(api, &format!("{repo}/commits/{}", state.head_sha)).await?;
    }
    if wanted.files {
        let listed = api.pages::<Vec<GitHubFile>>("its files", &format!("{at}/files")).await?;
        let files: Vec<GitHubFile> = listed.pages.into_iter().flatten().collect();
        // GitHub lists at most 3,000 files of a pull request, but counts all of them.
        state.files_cut = listed.cut || files.len() < found.changed_files;
        let names = |file: GitHubFile| [Some(file.filename), file.previous_filename];
        state.files = files.into_iter().flat_map(names).flatten().collect();
    }
    Ok(state)
}

#[derive(Deserialize)]
struct GitHubPage {
    number: u64,
    html_url: String,
}

impl From<GitHubPage> for OpenedPull {
    fn from(page: GitHubPage) -> Self {
        Self { number: page.number, url: page.html_url }
    }
}

/// Opens a pull request, or finds the open one from this branch into this base.
pub(super) async fn open(api: &Api, new: &NewPull) -> Result<OpenedPull, ForgeFault> {
    let pulls = format!("/repos/{}/pulls", new.project);
    let owner = new.project.split('/').next().unwrap_or_default();
    let head = format!("{owner}:{}", new.branch);
    let at = format!("{pulls}?state=open&head={}&base={}", quoted(&head), quoted(&new.base));
    let NewPull { title, body, branch, base, .. } = new;
    let wish = json!({"title": title, "body": body, "head": branch, "base": base});
    Ok(api.find_or_post::<GitHubPage>(&at, &pulls, &wish).await?.into())
}

/// Check runs and statuses of a commit: a required name may be either.
async fn checks(api: &Api, commit: &str) -> Result<Vec<ForgeCheck>, ForgeFault> {
    let runs = api
        .pages::<CheckRuns>("the check runs of the pull request", &format!("{commit}/check-runs"))
        .await?;
    let statuses = api.pages::<Statuses>("its statuses", &format!("{commit}/status")).await?;
    let runs = runs
        .pages
        .into_iter()
        .flat_map(|page| page.check_runs)
        .map(|run| ForgeCheck { state: run_state(&run), name: run.name });
    let statuses = statuses.pages.into_iter().flat_map(|page| page.statuses);
    let statuses = statuses
        .map(|status| ForgeCheck { state: status_state(&status.state), name: status.context });
    Ok(runs.chain(statuses).collect())
}

/// Skipped and neutral runs let a pull request through at GitHub too.
fn run_state(run: &CheckRun) -> ForgeCheckState {
    match (run.status.as_str(), run.conclusion.as_deref()) {
        ("completed", Some("success" | "neutral" | "skipped")) => ForgeCheckState::Green,
        ("completed", _) => ForgeCheckState::Red,
        _ => ForgeCheckState::Running,
    }
}

/// The older states; `pending` is the only other one.
fn status_state(state: &str) -> ForgeCheckState {
    match state {
        "success" => ForgeCheckState::Green,
        "failure" | "error" => ForgeCheckState::Red,
        _ => ForgeCheckState::Running,
    }
}

pub(super) fn issues_path(project: &str) -> String {
    format!("/repos/{project}/issues?state=all")
}

/// The list of issues that an open issue waits for, if GitHub counts any.
pub(super) fn links(project: &str, issue: &serde_json::Value) -> Option<IssueLinks> {
    let blockers = issue["issue_dependencies_summary"]["total_blocked_by"].as_u64()?;
    let number = issue["number"].as_u64().filter(|_| blockers > 0 && issue["state"] == "open")?;
    let path = format!("/repos/{project}/issues/{number}/dependencies/blocked_by");
    Some(IssueLinks { path, key: "blocked_by" })
}
