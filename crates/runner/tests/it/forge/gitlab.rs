//! GitLab's answers, page by page.

use callboard_domain::forge::ForgeKind::GitLab;
use serde_json::json;

use super::server::{FakeForge, Reply};
use super::{ALL, LAB, NOTHING, TOKEN, changed, shown, told};
use callboard_engine::ports::PullStateRequest;

const MERGE_REQUEST: &str = include_str!("gitlab/merge_request.json");
const JOBS: &str = include_str!("gitlab/jobs.json");
const STATUSES: &str = include_str!("gitlab/statuses.json");
const DIFFS: &str = include_str!("gitlab/diffs.json");
const SHA: &str = "8888888888888888888888888888888888888888";
const PIPELINE_JOBS: &str = "/projects/15513260/pipelines/61/jobs";
const CHECKS: PullStateRequest = PullStateRequest { checks: true, files: false };

fn statuses() -> String {
    format!("/projects/my-group%2Fsub%2Fmy-project/repository/commits/{SHA}/statuses")
}

async fn lab() -> FakeForge {
    let forge = FakeForge::start().await;
    forge.on(LAB, Reply::ok(MERGE_REQUEST));
    forge.on_pages(PIPELINE_JOBS, &[JOBS.into()]);
    forge.on_pages(&statuses(), &[STATUSES.into()]);
    forge.on_pages(&format!("{LAB}/diffs"), &[DIFFS.into()]);
    forge
}

#[tokio::test]
async fn a_merged_merge_request_is_told_whole() {
    let forge = lab().await;
    let pull = told(&forge, GitLab, ALL).await;
    assert!(pull.merged && !pull.open && !pull.files_cut);
    assert_eq!((pull.target_branch.as_str(), pull.head_sha.as_str()), ("main", SHA));
    assert_eq!(
        shown(&pull),
        "green rspec:other\n\
         red lint\n\
         red deploy\n\
         red stopped\n\
         running nightly\n\
         running build\n\
         running e2e\n\
         running big\n\
         green sonar\n\
         running external/scan"
    );
    assert_eq!(pull.files, ["README.md", "README", "VERSION", "src/größe.rs", "old.txt"]);
    let seen = forge.seen();
    assert_eq!(seen.len(), 4);
    for request in seen {
        let header = |name| request.headers.get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(header("user-agent"), Some(concat!("callboard/", env!("CARGO_PKG_VERSION"))));
    }
}

#[tokio::test]
async fn nothing_is_asked_for_nothing() {
    let forge = lab().await;
    let pull = told(&forge, GitLab, NOTHING).await;
    assert!(pull.merged && pull.checks.is_empty() && pull.files.is_empty());
    assert_eq!(forge.paths(), [LAB]);
    told(&forge, GitLab, PullStateRequest { checks: false, files: true }).await;
    assert_eq!(forge.paths()[1..], [format!("{LAB}/diffs?per_page=100&page=1")]);
}

#[tokio::test]
async fn every_state_is_open_merged_or_neither() {
    let forge = lab().await;
    let states = [
        ("opened", true, false),
        ("locked", true, false),
        ("closed", false, false),
        ("merged", false, true),
    ];
    for (state, open, merged) in states {
        forge.on(LAB, Reply::ok(changed(MERGE_REQUEST, |mr| mr["state"] = state.into())));
        let pull = told(&forge, GitLab, NOTHING).await;
        assert_eq!((pull.open, pull.merged), (open, merged), "{state}");
    }
}

#[tokio::test]
async fn only_a_pipeline_of_the_head_counts() {
    let forge = lab().await;
    let with_pipeline = |sha: &str, reference: &str| {
        changed(MERGE_REQUEST, |mr| {
            mr["head_pipeline"]["sha"] = sha.into();
            mr["head_pipeline"]["ref"] = reference.into();
        })
    };
    let before = "1162f719d711319a2efb2a35566f3bfdadee8bab";
    let cases = [
        (with_pipeline(before, "refs/merge-requests/133/head"), false),
        (with_pipeline(before, "refs/merge-requests/133/merge"), true),
        (with_pipeline(SHA, "manual-job-rules"), true),
        (changed(MERGE_REQUEST, |mr| mr["head_pipeline"] = json!(null)), false),
    ];
    for (merge_request, counts) in cases {
        forge.on(LAB, Reply::ok(merge_request));
        let pull = told(&forge, GitLab, CHECKS).await;
        assert_eq!(pull.checks.iter().any(|check| check.name == "lint"), counts);
        assert_eq!(forge.paths().iter().any(|path| path.starts_with(PIPELINE_JOBS)), counts);
    }
}

#[tokio::test]
async fn a_pipeline_of_a_fork_is_asked_for_there() {
    let forge = lab().await;
    let forked = changed(MERGE_REQUEST, |mr| mr["head_pipeline"]["project_id"] = 77.into());
    forge.on(LAB, Reply::ok(forked));
    forge.on_pages("/projects/77/pipelines/61/jobs", &[JOBS.into()]);
    let pull = told(&forge, GitLab, CHECKS).await;
    assert!(pull.checks.iter().any(|check| check.name == "lint"));
}

#[tokio::test]
async fn a_merge_request_without_commits_has_no_checks() {
    let forge = lab().await;
    forge.on(LAB, Reply::ok(changed(MERGE_REQUEST, |mr| mr["sha"] = json!(null))));
    let pull = told(&forge, GitLab, CHECKS).await;
    assert_eq!((pull.head_sha.as_str(), pull.checks.len()), ("", 0));
    assert_eq!(forge.paths(), [LAB]);
}

#[tokio::test]
async fn long_lists_are_read_to_their_end() {
    let forge = lab().await;
    let jobs = |from: u64| {
        changed(JOBS, |jobs| {
            let job = jobs[0].clone();
            let named = (from..from + 100).map(|n| {
                let mut job = job.clone();
                (job["id"], job["name"]) = (n.into(), format!("job {n}").into());
                job
            });
            *jobs = named.collect();
        })
    };
    forge.on_pages(PIPELINE_JOBS, &[jobs(1000), jobs(1100)]);
    let late = changed(STATUSES, |statuses| statuses[0]["name"] = "second page".into());
    forge.on_pages(&statuses(), &["[]".into(), late]);
    let other = DIFFS.replace("VERSION", "second.txt");
    forge.on_pages(&format!("{LAB}/diffs"), &[DIFFS.into(), other]);
    let pull = told(&forge, GitLab, ALL).await;
    assert_eq!(pull.checks.iter().filter(|check| check.name.starts_with("job ")).count(), 200);
    assert!(pull.checks.iter().any(|check| check.name == "second page"));
    assert!(pull.files.iter().any(|file| file == "second.txt"));
    assert!(!pull.files_cut);

    let more = changed(MERGE_REQUEST, |mr| mr["changes_count"] = "1000+".into());
    forge.on(LAB, Reply::ok(more));
    assert!(told(&forge, GitLab, ALL).await.files_cut);
}
