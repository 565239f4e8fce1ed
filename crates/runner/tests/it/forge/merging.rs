//! Merging pulls: at once, later, or not at all; and never twice.

use callboard_domain::forge::ForgeKind::{self, GitHub, GitLab};
use callboard_engine::ports::{Forge, ForgeFault, ForgeMerge, ForgeOff};
use callboard_runner::ForgeClient;
use serde_json::{Value, json};

use super::server::{FakeForge, Reply, Seen};
use super::{HUB, LAB, TOKEN, changed, reference, settings};

const HUB_PULL: &str = include_str!("github/pull.json");
const LAB_PULL: &str = include_str!("gitlab/merge_request.json");
const HUB_SHA: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
const LAB_SHA: &str = "8888888888888888888888888888888888888888";

async fn merge(
    forge: &FakeForge,
    kind: ForgeKind,
    head: Option<&str>,
) -> Result<ForgeMerge, ForgeFault> {
    let client = ForgeClient::new(&settings(&forge.url)).expect("good settings");
    client.merge(kind, &reference(kind), head).await
}

fn overlaid(document: &str, over: &Value) -> Reply {
    Reply::ok(changed(document, |pull| {
        for (key, value) in over.as_object().expect("an object") {
            pull[key] = value.clone();
        }
    }))
}

/// An open pull request with these fields of GitHub.
fn hub(over: Value) -> Reply {
    let open =
        json!({"state": "open", "merged": false, "mergeable": true, "mergeable_state": "clean"});
    overlaid(&changed(HUB_PULL, |pull| merge_into(pull, &open)), &over)
}

fn lab(over: Value) -> Reply {
    let open =
        json!({"state": "opened", "merge_commit_sha": null, "detailed_merge_status": "mergeable"});
    overlaid(&changed(LAB_PULL, |pull| merge_into(pull, &open)), &over)
}

fn merge_into(pull: &mut Value, over: &Value) {
    for (key, value) in over.as_object().expect("an object") {
        pull[key] = value.clone();
    }
}

/// The writing requests, without the reads.
fn wishes(seen: &[Seen]) -> Vec<(String, Value)> {
    let written = seen.iter().filter(|seen| seen.method != "GET");
    let body = |seen: &Seen| serde_json::from_slice(&seen.body).expect("JSON");
    written.map(|seen| (format!("{} {}", seen.method, seen.path), body(seen))).collect()
}

fn commit(text: &str) -> ForgeMerge {
    ForgeMerge::Merged { commit: Some(text.into()) }
}

#[tokio::test]
async fn what_may_be_merged_is_merged_at_once() {
    for state in ["clean", "unstable", "has_hooks"] {
        let forge = FakeForge::start().await;
        forge.on(HUB, hub(json!({"mergeable_state": state})));
        let done =
            json!({"sha": "abc", "merged": true, "message": "Pull Request successfully merged"});
        forge.on(format!("{HUB}/merge"), Reply::ok(done.to_string()));
        assert_eq!(merge(&forge, GitHub, Some(HUB_SHA)).await, Ok(commit("abc")), "{state}");
        let wish = json!({"merge_method": "squash", "sha": HUB_SHA});
        assert_eq!(wishes(&forge.seen()), [(format!("PUT {HUB}/merge"), wish)]);
    }
    let forge = FakeForge::start().await;
    forge.on(LAB, lab(json!({})));
    let done = json!({"state": "merged", "merge_commit_sha": "abc", "squash_commit_sha": "def"});
    forge.on(format!("{LAB}/merge"), overlaid(LAB_PULL, &done));
    assert_eq!(merge(&forge, GitLab, Some(LAB_SHA)).await, Ok(commit("abc")));
    let wish = json!({"squash": true, "sha": LAB_SHA});
    assert_eq!(wishes(&forge.seen()), [(format!("PUT {LAB}/merge"), wish)]);
}

#[tokio::test]
async fn what_must_wait_is_merged_by_the_forge() {
    for (root, graphql) in [("", "/graphql"), ("/api/v3", "/api/graphql")] {
        let forge = FakeForge::start().await;
        let at = format!("{root}{HUB}");
        forge.on(&at, hub(json!({"mergeable_state": "blocked"})));
        let done = json!({"data": {"enablePullRequestAutoMerge": {"clientMutationId": null}}});
        forge.on(graphql, Reply::ok(done.to_string()));
        let url = format!("{}{root}", forge.url);
        let client = ForgeClient::new(&settings(&url)).expect("good settings");
        let waits = client.merge(GitHub, &reference(GitHub), None).await;
        assert_eq!(waits, Ok(ForgeMerge::Waiting));
        let asked = wishes(&forge.seen());
        assert_eq!(asked[0].0, format!("POST {graphql}"));
        let variables = json!({"pull": "MDExOlB1bGxSZXF1ZXN0MQ==", "head": HUB_SHA});
        assert_eq!(asked[0].1["variables"], variables);
        let query = asked[0].1["query"].as_str().expect("a query");
        assert!(query.contains("enablePullRequestAutoMerge") && query.contains("SQUASH"));
        let by = json!({"enabled_by": {"login": "octocat"}, "merge_method": "squash"});
        forge.on(&at, hub(json!({"mergeable_state": "blocked", "auto_merge": by})));
        let waits = client.merge(GitHub, &reference(GitHub), None).await;
        assert_eq!((waits, wishes(&forge.seen()).len()), (Ok(ForgeMerge::Waiting), 0));
    }
    let forge = FakeForge::start().await;
    forge.on(LAB, lab(json!({"detailed_merge_status": "ci_still_running"})));
    let after =
        json!({"detailed_merge_status": "ci_still_running", "merge_when_pipeline_succeeds": true});
    forge.on(format!("{LAB}/merge"), lab(after.clone()));
    assert_eq!(merge(&forge, GitLab, None).await, Ok(ForgeMerge::Waiting));
    let wish = json!({"squash": true, "sha": LAB_SHA, "merge_when_pipeline_succeeds": true, "auto_merge": true});
    assert_eq!(wishes(&forge.seen())[0].1, wish);
    forge.on(LAB, lab(after));
    assert_eq!(merge(&forge, GitLab, None).await, Ok(ForgeMerge::Waiting));
    assert_eq!(wishes(&forge.seen()), []);
}

#[tokio::test]
async fn what_is_decided_already_is_only_told() {
    let refused = |why: &str| ForgeMerge::Refused { why: why.into() };
    let closed = refused("closed without a merge");
    let moved = refused("the pull request has other commits than those that were reviewed");
    let hub_says = [
        (json!({"state": "closed", "merged": true, "merge_commit_sha": "abc"}), commit("abc")),
        (json!({"state": "closed"}), closed.clone()),
        (json!({"mergeable": false, "mergeable_state": "dirty"}), ForgeMerge::Conflicts),
        (json!({"head": {"sha": "other"}}), moved.clone()),
        (
            json!({"draft": true, "mergeable_state": "draft"}),
            refused("the pull request is a draft"),
        ),
    ];
    for (over, wanted) in hub_says {
        let forge = FakeForge::start().await;
        forge.on(HUB, hub(over.clone()));
        assert_eq!(merge(&forge, GitHub, Some(HUB_SHA)).await, Ok(wanted), "{over}");
        assert_eq!(forge.seen().len(), 1, "{over}");
    }
    let lab_says = [
        (
            json!({"state": "merged", "merge_commit_sha": null, "squash_commit_sha": "abc"}),
            commit("abc"),
        ),
        (json!({"state": "closed"}), closed),
        (json!({"detailed_merge_status": "conflict"}), ForgeMerge::Conflicts),
        (json!({"has_conflicts": true}), ForgeMerge::Conflicts),
        (json!({"sha": "other"}), moved),
        (
            json!({"draft": true, "detailed_merge_status": "draft_status"}),
            refused("the pull request is a draft"),
        ),
    ];
    for (over, wanted) in lab_says {
        let forge = FakeForge::start().await;
        forge.on(LAB, lab(over.clone()));
        assert_eq!(merge(&forge, GitLab, Some(LAB_SHA)).await, Ok(wanted), "{over}");
        assert_eq!(forge.seen().len(), 1, "{over}");
    }
    for (kind, at, over) in [
        (GitHub, HUB, json!({"mergeable": null, "mergeable_state": "unknown"})),
        (GitLab, LAB, json!({"detailed_merge_status": "checking"})),
        (GitLab, LAB, json!({"state": "locked"})),
    ] {
        let forge = FakeForge::start().await;
        forge.on(at, if kind == GitHub { hub(over) } else { lab(over) });
        let answer = merge(&forge, kind, None).await.expect("an answer");
        assert!(matches!(answer, ForgeMerge::Unsettled { .. }), "{answer:?}");
    }
}

/// Another caller merged first, or the pull changed in between.
#[tokio::test]
async fn a_refused_wish_is_looked_at_again() {
    let merged = json!({"state": "closed", "merged": true, "merge_commit_sha": "abc"});
    let dirty = json!({"mergeable": false, "mergeable_state": "dirty"});
    let no = |message: &str| Reply::new(405, json!({ "message": message }).to_string());
    let cases = [
        (merged, "Pull Request is not mergeable", "Merged"),
        (dirty, "Pull Request is not mergeable", "Conflicts"),
        (json!({}), "Base branch was modified. Review and try the merge again.", "Unsettled"),
        (json!({"mergeable_state": "blocked"}), "Required status check is expected", "Unsettled"),
        (json!({}), "Squash merges are not allowed on this repository.", "Refused"),
    ];
    for (after, message, wanted) in cases {
        let forge = FakeForge::start().await;
        forge.on_each(HUB, [hub(json!({})), hub(after)]);
        forge.on(format!("{HUB}/merge"), no(message));
        let answer = merge(&forge, GitHub, None).await.expect("an answer");
        assert!(format!("{answer:?}").starts_with(wanted), "{message}: {answer:?}");
        if let ForgeMerge::Refused { why } = answer {
            assert!(why.contains("Squash merges are not allowed"), "{why}");
        }
    }
    let forge = FakeForge::start().await;
    forge.on(LAB, lab(json!({"detailed_merge_status": "not_approved"})));
    forge.on(format!("{LAB}/merge"), Reply::new(405, r#"{"message": "405 Method Not Allowed"}"#));
    let answer = merge(&forge, GitLab, None).await;
    let said =
        matches!(&answer, Ok(ForgeMerge::Refused { why }) if why.ends_with("(not_approved)"));
    assert!(said, "{answer:?}");
}

#[tokio::test]
async fn the_other_api_of_github_says_no_in_its_own_way() {
    let cases = [
        (
            json!({"type": "UNPROCESSABLE", "message": "Pull request is in clean status"}),
            "Unsettled",
        ),
        (
            json!({"type": "UNPROCESSABLE", "message": "Auto merge is not allowed for this repository"}),
            "Refused",
        ),
    ];
    for (error, wanted) in cases {
        let forge = FakeForge::start().await;
        forge.on(HUB, hub(json!({"mergeable_state": "blocked"})));
        forge.on("/graphql", Reply::ok(json!({"data": null, "errors": [error]}).to_string()));
        let answer = merge(&forge, GitHub, None).await.expect("an answer");
        assert!(format!("{answer:?}").starts_with(wanted), "{answer:?}");
    }
    let forge = FakeForge::start().await;
    forge.on(HUB, hub(json!({"mergeable_state": "blocked"})));
    let often =
        json!({"errors": [{"type": "RATE_LIMITED", "message": format!("too often {TOKEN}")}]});
    forge.on("/graphql", Reply::ok(often.to_string()));
    let fault = merge(&forge, GitHub, None).await.expect_err("a fault");
    assert!(matches!(fault, ForgeFault::Unavailable { .. }), "{fault:?}");
    assert!(!format!("{fault:?}").contains(TOKEN), "{fault:?}");
    for (status, lasting) in [(502, false), (403, true), (401, true)] {
        forge.on("/graphql", Reply::new(status, r#"{"message": "no"}"#));
        let fault = merge(&forge, GitHub, None).await.expect_err("a fault");
        assert_eq!(matches!(fault, ForgeFault::Refused(_)), lasting, "{status} {fault:?}");
    }
}

async fn call_off(forge: &FakeForge, kind: ForgeKind) -> Result<ForgeOff, ForgeFault> {
    let client = ForgeClient::new(&settings(&forge.url)).expect("good settings");
    client.call_off(kind, &reference(kind)).await
}

#[tokio::test]
async fn a_merge_that_is_to_come_is_called_off() {
    let forge = FakeForge::start().await;
    let by = json!({"enabled_by": {"login": "octocat"}, "merge_method": "squash"});
    forge.on(HUB, hub(json!({"mergeable_state": "blocked", "auto_merge": by})));
    forge.on("/graphql", Reply::ok(r#"{"data": {}}"#));
    assert_eq!(call_off(&forge, GitHub).await, Ok(ForgeOff::Open));
    let asked = wishes(&forge.seen());
    assert_eq!(asked[0].1["variables"], json!({"pull": "MDExOlB1bGxSZXF1ZXN0MQ=="}));
    let query = asked[0].1["query"].as_str().expect("a query");
    assert!(query.contains("disablePullRequestAutoMerge"), "{query}");
    let forge = FakeForge::start().await;
    forge.on(LAB, lab(json!({"merge_when_pipeline_succeeds": true})));
    let off = format!("{LAB}/cancel_merge_when_pipeline_succeeds");
    forge.on(&off, Reply::new(201, r#"{"state": "opened"}"#));
    assert_eq!(call_off(&forge, GitLab).await, Ok(ForgeOff::Open));
    assert_eq!(wishes(&forge.seen()), [(format!("POST {off}"), json!({}))]);
}

#[tokio::test]
async fn what_no_forge_is_about_to_merge_is_left_alone() {
    let merged = || Ok(ForgeOff::Merged { commit: Some("abc".into()) });
    let cases = [
        (GitHub, json!({}), Ok(ForgeOff::Open)),
        (GitHub, json!({"state": "closed", "merged": true, "merge_commit_sha": "abc"}), merged()),
        (GitHub, json!({"state": "closed"}), Ok(ForgeOff::Closed)),
        (GitLab, json!({}), Ok(ForgeOff::Open)),
        (GitLab, json!({"state": "merged", "merge_commit_sha": "abc"}), merged()),
        (GitLab, json!({"state": "closed"}), Ok(ForgeOff::Closed)),
    ];
    for (kind, over, wanted) in cases {
        let forge = FakeForge::start().await;
        forge.on(HUB, hub(over.clone()));
        forge.on(LAB, lab(over.clone()));
        assert_eq!(call_off(&forge, kind).await, wanted, "{kind} {over}");
        assert_eq!(forge.seen().len(), 1, "{kind} {over}");
    }
}

/// The pull was merged, or another caller disabled auto-merge, between the look and the request.
#[tokio::test]
async fn a_word_that_comes_too_late_is_looked_at_again() {
    let hub_waits = || hub(json!({"auto_merge": {"merge_method": "squash"}}));
    let lab_waits = || lab(json!({"merge_when_pipeline_succeeds": true}));
    let no = json!({"errors": [{"type": "UNPROCESSABLE", "message": "Can't disable auto-merge"}]});
    let off = format!("{LAB}/cancel_merge_when_pipeline_succeeds");
    let merged = json!({"state": "closed", "merged": true, "merge_commit_sha": "abc"});
    let cases = [
        (Some((hub(merged), lab(json!({"state": "merged", "merge_commit_sha": "abc"})))), "Ok(Mer"),
        (Some((hub(json!({})), lab(json!({})))), "Ok(Open"),
        (None, "Err(Refused"),
    ];
    for (after, wanted) in cases {
        let forge = FakeForge::start().await;
        let (hub_after, lab_after) = after.unwrap_or_else(|| (hub_waits(), lab_waits()));
        forge.on_each(HUB, [hub_waits(), hub_after]);
        forge.on_each(LAB, [lab_waits(), lab_after]);
        forge.on("/graphql", Reply::ok(no.to_string()));
        forge.on(&off, Reply::new(406, r#"{"message": "406 Not Acceptable"}"#));
        for kind in [GitHub, GitLab] {
            let answer = format!("{:?}", call_off(&forge, kind).await);
            assert!(answer.starts_with(wanted), "{kind} {answer}");
        }
    }
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::new(502, "{}"));
    let away = call_off(&forge, GitHub).await;
    assert!(matches!(away, Err(ForgeFault::Unavailable { .. })), "{away:?}");
}
