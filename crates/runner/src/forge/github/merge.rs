//! How a pull request gets into its base, as `gh pr merge --squash --auto` does it, and how auto-merge is disabled.

use callboard_domain::forge::ForgeRef;
use callboard_engine::ports::{ForgeFault, ForgeMerge, ForgeOff};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{GitHubState, Head};
use crate::forge::http::{Api, Mutation};

#[derive(Deserialize)]
struct MergeablePull {
    node_id: String,
    state: GitHubState,
    merged: bool,
    merge_commit_sha: Option<String>,
    head: Head,
    /// Missing while GitHub computes it.
    mergeable: Option<bool>,
    mergeable_state: Option<String>,
    #[serde(default)]
    draft: bool,
    /// Auto-merge is enabled already.
    auto_merge: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct GitHubMergeResponse {
    sha: Option<String>,
}

const MERGE_LATER: &str = "mutation($pull: ID!, $head: GitObjectID) { \
     enablePullRequestAutoMerge(input: \
     {pullRequestId: $pull, mergeMethod: SQUASH, expectedHeadOid: $head}) \
     { clientMutationId } }";

const MERGE_NEVER: &str = "mutation($pull: ID!) { \
     disablePullRequestAutoMerge(input: {pullRequestId: $pull}) { clientMutationId } }";

pub(in crate::forge) async fn merge(
    api: &Api,
    pull: &ForgeRef,
    head: Option<&str>,
) -> Result<ForgeMerge, ForgeFault> {
    let at = format!("/repos/{}/pulls/{}", pull.project, pull.number);
    let found: MergeablePull = api.get(&at).await?;
    if let Some(known) = stands(&found, head) {
        return Ok(known);
    }
    // `unstable` has failing checks that the branch does not require, `has_hooks` hooks that run before the merge.
    let may_go =
        matches!(found.mergeable_state.as_deref(), Some("clean" | "unstable" | "has_hooks"));
    if may_go { now(api, &at, &found, head).await } else { later(api, &found).await }
}

/// The result of a merge that needs no further request.
fn stands(found: &MergeablePull, head: Option<&str>) -> Option<ForgeMerge> {
    let refused = |why: &str| Some(ForgeMerge::Refused { why: why.into() });
    match found.mergeable {
        _ if found.merged => Some(ForgeMerge::Merged { commit: found.merge_commit_sha.clone() }),
        _ if found.state == GitHubState::Closed => refused("closed without a merge"),
        _ if head.is_some_and(|head| head != found.head.sha) => {
            refused("the pull request has other commits than those that were reviewed")
        }
        _ if found.draft => refused("the pull request is a draft"),
        Some(false) => Some(ForgeMerge::Conflicts),
        None => Some(ForgeMerge::Unsettled {
            why: "GitHub has not decided yet whether the pull request can be merged".into(),
        }),
        Some(true) => None,
    }
}

async fn now(
    api: &Api,
    at: &str,
    found: &MergeablePull,
    head: Option<&str>,
) -> Result<ForgeMerge, ForgeFault> {
    // GitHub merges only if the head is still this commit.
    let wish = json!({"merge_method": "squash", "sha": found.head.sha});
    match api.put::<GitHubMergeResponse>(&format!("{at}/merge"), &wish).await {
        Ok(merged) => Ok(ForgeMerge::Merged { commit: merged.sha }),
        // The pull request changed meanwhile, perhaps by the same request of another caller.
        Err(ForgeFault::Refused(why)) => {
            let again: MergeablePull = api.get(at).await?;
            let moved = why.contains("modified") || again.mergeable_state != found.mergeable_state;
            Ok(stands(&again, head).unwrap_or(match moved {
                true => ForgeMerge::Unsettled { why },
                false => ForgeMerge::Refused { why },
            }))
        }
        Err(fault) => Err(fault),
    }
}

async fn later(api: &Api, found: &MergeablePull) -> Result<ForgeMerge, ForgeFault> {
    // Asked before. A second mutation would be refused.
    if found.auto_merge.is_some() {
        return Ok(ForgeMerge::Waiting);
    }
    let variables = json!({"pull": found.node_id, "head": found.head.sha});
    Ok(match api.mutate(MERGE_LATER, variables).await? {
        Mutation::Done => ForgeMerge::Waiting,
        // "Pull request is in clean status": the condition that it waited for has just come true.
        Mutation::Refused(why)
            if why.contains("clean status") || why.contains("unstable status") =>
        {
            ForgeMerge::Unsettled { why }
        }
        Mutation::Refused(why) => ForgeMerge::Refused { why },
    })
}

pub(in crate::forge) async fn call_off(api: &Api, pull: &ForgeRef) -> Result<ForgeOff, ForgeFault> {
    let at = format!("/repos/{}/pulls/{}", pull.project, pull.number);
    let found: MergeablePull = api.get(&at).await?;
    if let Some(known) = is_off(&found) {
        return Ok(known);
    }
    let why = match api.mutate(MERGE_NEVER, json!({"pull": found.node_id})).await? {
        Mutation::Done => return Ok(ForgeOff::Open),
        Mutation::Refused(why) => why,
    };
    // The pull request was merged meanwhile, or another caller disabled auto-merge first.
    let again: MergeablePull = api.get(&at).await?;
    is_off(&again).ok_or(ForgeFault::Refused(why))
}

fn is_off(found: &MergeablePull) -> Option<ForgeOff> {
    match found.state {
        _ if found.merged => Some(ForgeOff::Merged { commit: found.merge_commit_sha.clone() }),
        GitHubState::Closed => Some(ForgeOff::Closed),
        GitHubState::Open => found.auto_merge.is_none().then_some(ForgeOff::Open),
    }
}
