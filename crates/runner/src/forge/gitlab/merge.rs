//! How a merge request gets into its target: squashed, and after its pipeline if that must end first; and how
//! auto-merge is disabled.

use callboard_domain::forge::ForgeRef;
use callboard_engine::ports::{ForgeFault, ForgeMerge, ForgeOff};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::GitLabState;
use crate::forge::http::Api;

#[derive(Deserialize)]
struct MergeRequest {
    state: GitLabState,
    sha: Option<String>,
    merge_commit_sha: Option<String>,
    squash_commit_sha: Option<String>,
    /// Newer than `merge_status`, and with the reason.
    detailed_merge_status: Option<String>,
    #[serde(default)]
    has_conflicts: bool,
    #[serde(default)]
    draft: bool,
    /// Auto-merge is enabled already.
    #[serde(default)]
    merge_when_pipeline_succeeds: bool,
}

pub(in crate::forge) async fn merge(
    api: &Api,
    pull: &ForgeRef,
    head: Option<&str>,
) -> Result<ForgeMerge, ForgeFault> {
    let project = pull.project.replace('/', "%2F");
    let at = format!("/projects/{project}/merge_requests/{}", pull.number);
    let found: MergeRequest = api.get(&at).await?;
    if let Some(known) = stands(&found, head) {
        return Ok(known);
    }
    let mut wish = json!({"squash": true, "sha": found.sha});
    if found.detailed_merge_status.as_deref() != Some("mergeable") {
        // Newer servers call the setting `auto_merge`.
        wish["merge_when_pipeline_succeeds"] = Value::Bool(true);
        wish["auto_merge"] = Value::Bool(true);
    }
    match api.put::<MergeRequest>(&format!("{at}/merge"), &wish).await {
        Ok(after) => Ok(stands(&after, None).unwrap_or_else(unsettled)),
        // The merge request changed meanwhile, perhaps by the same request of another caller.
        Err(ForgeFault::Refused(why)) => {
            let again: MergeRequest = api.get(&at).await?;
            let moved = again.detailed_merge_status != found.detailed_merge_status;
            Ok(stands(&again, head).unwrap_or(match moved {
                true => ForgeMerge::Unsettled { why },
                false => ForgeMerge::Refused { why: because(&again, why) },
            }))
        }
        Err(fault) => Err(fault),
    }
}

/// The result of a merge that needs no further request.
fn stands(found: &MergeRequest, head: Option<&str>) -> Option<ForgeMerge> {
    let refused = |why: &str| Some(ForgeMerge::Refused { why: why.into() });
    match found.state {
        GitLabState::Merged => return Some(ForgeMerge::Merged { commit: commit_of(found) }),
        GitLabState::Closed => return refused("closed without a merge"),
        GitLabState::Locked => return Some(unsettled()),
        GitLabState::Opened => {}
    }
    if head.is_some() && head != found.sha.as_deref() {
        return refused("the pull request has other commits than those that were reviewed");
    }
    match found.detailed_merge_status.as_deref() {
        _ if found.draft => refused("the pull request is a draft"),
        _ if found.has_conflicts => Some(ForgeMerge::Conflicts),
        Some("conflict") => Some(ForgeMerge::Conflicts),
        _ if found.merge_when_pipeline_succeeds => Some(ForgeMerge::Waiting),
        Some("checking" | "unchecked" | "preparing" | "approvals_syncing") => Some(unsettled()),
        _ => None,
    }
}

fn commit_of(found: &MergeRequest) -> Option<String> {
    let commits = [&found.merge_commit_sha, &found.squash_commit_sha, &found.sha];
    commits.into_iter().flatten().next().cloned()
}

pub(in crate::forge) async fn call_off(api: &Api, pull: &ForgeRef) -> Result<ForgeOff, ForgeFault> {
    let project = pull.project.replace('/', "%2F");
    let at = format!("/projects/{project}/merge_requests/{}", pull.number);
    let found: MergeRequest = api.get(&at).await?;
    if let Some(known) = is_off(&found) {
        return Ok(known);
    }
    let off = format!("{at}/cancel_merge_when_pipeline_succeeds");
    match api.post::<IgnoredAny>(&off, &json!({})).await {
        Ok(_) => Ok(ForgeOff::Open),
        // The merge request was merged meanwhile, or another caller disabled auto-merge first.
        Err(refused @ ForgeFault::Refused(_)) => {
            let again: MergeRequest = api.get(&at).await?;
            is_off(&again).ok_or(refused)
        }
        Err(fault) => Err(fault),
    }
}

/// Whether auto-merge is off. While the merge request is being merged it is too late to disable it.
fn is_off(found: &MergeRequest) -> Option<ForgeOff> {
    match found.state {
        GitLabState::Merged => Some(ForgeOff::Merged { commit: commit_of(found) }),
        GitLabState::Closed => Some(ForgeOff::Closed),
        GitLabState::Opened if !found.merge_when_pipeline_succeeds => Some(ForgeOff::Open),
        GitLabState::Opened | GitLabState::Locked => None,
    }
}

fn unsettled() -> ForgeMerge {
    ForgeMerge::Unsettled {
        why: "GitLab has not decided yet whether the pull request can be merged".into(),
    }
}

/// The refusal with the detailed status: "405 Method Not Allowed" alone says little.
fn because(found: &MergeRequest, why: String) -> String {
    match &found.detailed_merge_status {
        Some(status) => format!("{why} ({status})"),
        None => why,
    }
}
