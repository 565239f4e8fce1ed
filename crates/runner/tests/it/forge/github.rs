//! GitHub's answers, page by page.

use callboard_domain::forge::ForgeKind::GitHub;
use callboard_domain::forge::{ForgeState, ForgeVerdict, judge_merged};
use serde_json::json;

use super::server::{FakeForge, Reply};
use super::{ALL, HUB, NOTHING, TOKEN, changed, shown, told};
use callboard_engine::ports::PullStateRequest;

const PULL: &str = include_str!("github/pull.json");
const RUNS: &str = include_str!("github/check_runs.json");
const STATUS: &str = include_str!("github/status.json");
const FILES: &str = include_str!("github/files.json");
const SHA: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

fn commit(list: &str) -> String {
    format!("/repos/octocat/Hello-World/commits/{SHA}/{list}")
}

async fn hub() -> FakeForge {
    let forge = FakeForge::start().await;
    forge.on(HUB, Reply::ok(PULL));
    forge.on_pages(&commit("check-runs"), &[RUNS.into()]);
    forge.on_pages(&commit("status"), &[STATUS.into()]);
    forge.on_pages(&format!("{HUB}/files"), &[FILES.into()]);
    forge
}

#[tokio::test]
async fn a_merged_pull_request_is_told_whole() {
    let forge = hub().await;
    let pull = told(&forge, GitHub, ALL).await;
    assert!(pull.merged && !pull.open && !pull.files_cut);
    assert_eq!((pull.target_branch.as_str(), pull.head_sha.as_str()), ("main", SHA));
    assert_eq!(
        shown(&pull),
        "green build (ubuntu-latest, stable)\n\
         green docs\n\
         green release\n\
         red lint\n\
         red fuzz\n\
         red bench\n\
         red approve\n\
         red old\n\
         red boot\n\
         running slow\n\
         running later\n\
         running gate\n\
         green continuous-integration/jenkins\n\
         red security/brakeman\n\
         red coverage/patch\n\
         running deploy/preview"
    );
    let files =
        ["src/main.rs", "src/größe.rs", "docs/new name.md", "docs/old.md", "old.txt", "logo.png"];
    assert_eq!(pull.files, files);

    let checks = ["docs".to_owned(), "continuous-integration/jenkins".to_owned()];
    let files = ["docs/old.md".to_owned()];
    assert_eq!(judge_merged(&pull, Some("main"), &checks, &files), ForgeVerdict::Passed);
}

#[tokio::test]
async fn every_request_says_who_asks() {
    let forge = hub().await;
    told(&forge, GitHub, ALL).await;
    let seen = forge.seen();
    assert_eq!(seen.len(), 4);
    for request in seen {
        let header = |name| request.headers.get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        assert_eq!(header("user-agent"), Some(concat!("callboard/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(header("accept"), Some("application/vnd.github+json"));
        assert_eq!(header("host"), forge.url.strip_prefix("http://"));
        assert!(!request.path.contains(TOKEN));
    }
}

#[tokio::test]
async fn nothing_is_asked_for_nothing() {
    let forge = hub().await;
    let pull = told(&forge, GitHub, NOTHING).await;
    assert_eq!(forge.paths(), [HUB]);
    let alone = ForgeState {
        merged: true,
        merge_commit: Some("e5bd3914e2e596debea16f433f57875b5b90bcd6".into()),
        target_branch: "main".into(),
        head_sha: SHA.into(),
        ..ForgeState::default()
    };
    assert_eq!(pull, alone);
    told(&forge, GitHub, PullStateRequest { checks: true, files: false }).await;
    let checks =
        ["check-runs", "status"].map(|list| format!("{}?per_page=100&page=1", commit(list)));
    assert_eq!(forge.paths()[1..], checks);
    told(&forge, GitHub, PullStateRequest { checks: false, files: true }).await;
    assert_eq!(forge.paths()[1..], [format!("{HUB}/files?per_page=100&page=1")]);
}

#[tokio::test]
async fn open_and_closed_without_a_merge_differ() {
    let forge = hub().await;
    for (state, open) in [("open", true), ("closed", false)] {
        let pull = changed(PULL, |pull| {
            pull["state"] = state.into();
            pull["merged"] = false.into();
            pull["merged_at"] = json!(null);
        });
        forge.on(HUB, Reply::ok(pull));
        let pull = told(&forge, GitHub, NOTHING).await;
        assert_eq!((pull.open, pull.merged), (open, false), "{state}");
    }
}

#[tokio::test]
async fn long_lists_are_read_to_their_end() {
    let forge = hub().await;
    let runs = |names: std::ops::Range<usize>| {
        changed(RUNS, |page| {
            let run = page["check_runs"][0].clone();
            let named = names.map(|n| {
                let mut run = run.clone();
                run["name"] = format!("run {n}").into();
                run
            });
            page["check_runs"] = named.collect();
        })
    };
    forge.on_pages(&commit("check-runs"), &[runs(0..100), runs(100..200), runs(200..201)]);
    let other = changed(STATUS, |page| page["statuses"][0]["context"] = "second page".into());
    forge.on_pages(&commit("status"), &[STATUS.into(), other]);
    let files: Vec<_> = (0..5).map(|n| FILES.replace("src/main.rs", &format!("{n}.rs"))).collect();
    forge.on_pages(&format!("{HUB}/files"), &files);

    let pull = told(&forge, GitHub, ALL).await;
    assert_eq!(pull.checks.len(), 201 + 8);
    assert_eq!(pull.checks[200].name, "run 200");
    assert!(pull.checks.iter().any(|check| check.name == "second page"));
    assert!((0..5).all(|n| pull.files.contains(&format!("{n}.rs"))));
    assert_eq!(forge.paths().len(), 1 + 3 + 2 + 5);
}

#[tokio::test]
async fn after_three_thousand_files_the_list_is_cut() {
    let forge = hub().await;
    let page = |page: usize| {
        changed(FILES, |files| {
            let file = files[0].clone();
            let named = (0..100).map(|n| {
                let mut file = file.clone();
                file["filename"] = format!("{page}/{n}").into();
                file
            });
            *files = named.collect();
        })
    };
    let pages: Vec<_> = (0..31).map(page).collect();
    forge.on_pages(&format!("{HUB}/files"), &pages);
    let pull = told(&forge, GitHub, PullStateRequest { checks: false, files: true }).await;
    assert_eq!((pull.files.len(), pull.files_cut), (3000, true));
    assert_eq!(forge.paths().len(), 31);

    // GitHub itself stops there too, without a next page, but its count goes on.
    forge.on_pages(&format!("{HUB}/files"), &pages[..30]);
    forge.on(HUB, Reply::ok(changed(PULL, |pull| pull["changed_files"] = 3001.into())));
    let pull = told(&forge, GitHub, PullStateRequest { checks: false, files: true }).await;
    assert_eq!((pull.files.len(), pull.files_cut), (3000, true));
}

#[tokio::test]
async fn a_renamed_repository_is_found_at_its_new_place() {
    let forge = hub().await;
    let there = "/repositories/1296269/pulls/1347";
    forge.on(there, Reply::ok(PULL));
    for (status, location) in
        [(301, format!("{}{there}", forge.url)), (302, there.into()), (307, there.into())]
    {
        let moved = Reply::new(status, include_str!("github/moved.json"));
        forge.on(HUB, moved.with("location", location));
        assert!(told(&forge, GitHub, NOTHING).await.merged);
        let seen = forge.seen();
        assert_eq!(seen.last().map(|seen| seen.path.as_str()), Some(there));
        assert!(seen.iter().all(|seen| seen.headers.contains_key("authorization")));
    }
}
