//! Opening pulls: once per branch, for any caller.

use callboard_domain::forge::ForgeKind;
use callboard_engine::ports::{Forge, ForgeFault, NewPull, OpenedPull};
use callboard_runner::ForgeClient;
use serde_json::{Value, json};

use super::server::{FakeForge, Reply};
use super::settings;

const HUB_PULLS: &str = "/repos/octocat/Hello-World/pulls";
const HUB_FIND: &str =
    "/repos/octocat/Hello-World/pulls?state=open&head=octocat%3Acallboard%2Fjob%5F1&base=main";
const LAB_REQUESTS: &str = "/projects/my-group%2Fsub%2Fmy-project/merge_requests";
const LAB_FIND: &str = "/projects/my-group%2Fsub%2Fmy-project/merge_requests?state=opened&source_branch=callboard%2Fjob%5F1&target_branch=main";

fn new(kind: ForgeKind) -> NewPull {
    let project = match kind {
        ForgeKind::GitHub => "octocat/Hello-World",
        ForgeKind::GitLab => "my-group/sub/my-project",
    };
    NewPull {
        project: project.into(),
        branch: "callboard/job_1".into(),
        base: "main".into(),
        title: "Retry webhooks".into(),
        body: "What and why.".into(),
    }
}

async fn open(forge: &FakeForge, kind: ForgeKind) -> Result<OpenedPull, ForgeFault> {
    let client = ForgeClient::new(&settings(&forge.url)).expect("good settings");
    client.open(kind, &new(kind)).await
}

#[tokio::test]
async fn a_pull_request_is_opened_with_what_it_is_about() {
    let forge = FakeForge::start().await;
    let page = json!({"number": 1347, "html_url": "https://github.com/octocat/Hello-World/pull/1347", "state": "open"});
    forge.on(HUB_FIND, Reply::ok("[]"));
    forge.on(HUB_PULLS, Reply::new(201, page.to_string()));
    let opened = open(&forge, ForgeKind::GitHub).await.expect("opened");
    let url = "https://github.com/octocat/Hello-World/pull/1347".to_owned();
    assert_eq!(opened, OpenedPull { number: 1347, url });
    let seen = forge.seen();
    assert_eq!(seen.iter().map(|s| s.method.as_str()).collect::<Vec<_>>(), ["GET", "POST"]);
    let sent: Value = serde_json::from_slice(&seen[1].body).expect("JSON");
    let wish = json!({"title": "Retry webhooks", "body": "What and why.", "head": "callboard/job_1", "base": "main"});
    assert_eq!(sent, wish);
}

#[tokio::test]
async fn a_merge_request_is_opened_with_what_it_is_about() {
    let forge = FakeForge::start().await;
    let page = json!({"iid": 133, "web_url": "https://gitlab.com/x/-/merge_requests/133", "state": "opened"});
    forge.on(LAB_FIND, Reply::ok("[]"));
    forge.on(LAB_REQUESTS, Reply::new(201, page.to_string()));
    let opened = open(&forge, ForgeKind::GitLab).await.expect("opened");
    let url = "https://gitlab.com/x/-/merge_requests/133".to_owned();
    assert_eq!(opened, OpenedPull { number: 133, url });
    let sent: Value = serde_json::from_slice(&forge.seen()[1].body).expect("JSON");
    let wish = json!({"title": "Retry webhooks", "description": "What and why.", "source_branch": "callboard/job_1", "target_branch": "main"});
    assert_eq!(sent, wish);
}

#[tokio::test]
async fn the_open_one_of_a_branch_is_found_again() {
    for (kind, find, page) in [
        (ForgeKind::GitHub, HUB_FIND, json!([{"number": 7, "html_url": "https://x/7"}])),
        (ForgeKind::GitLab, LAB_FIND, json!([{"iid": 7, "web_url": "https://x/7"}])),
    ] {
        let forge = FakeForge::start().await;
        forge.on(find, Reply::ok(page.to_string()));
        let found = open(&forge, kind).await.expect("found");
        assert_eq!(found, OpenedPull { number: 7, url: "https://x/7".into() });
        assert_eq!(forge.seen().len(), 1, "nothing was written");
    }
}

#[tokio::test]
async fn what_the_forge_refuses_is_said_in_its_words() {
    let forge = FakeForge::start().await;
    forge.on(HUB_FIND, Reply::ok("[]"));
    let words = json!({"message": "Validation Failed", "errors": [{"message": "No commits"}]});
    forge.on(HUB_PULLS, Reply::new(422, words.to_string()));
    let refused = open(&forge, ForgeKind::GitHub).await.expect_err("refused");
    let said =
        matches!(&refused, ForgeFault::Refused(words) if words.contains("Validation Failed"));
    assert!(said, "{refused:?}");
    assert_eq!(forge.seen().len(), 3, "it looked once more whether somebody else opened it");
    // A redirect that would turn the write into a read is not followed.
    forge.on(HUB_PULLS, Reply::new(302, "").with("location", "/elsewhere"));
    let refused = open(&forge, ForgeKind::GitHub).await.expect_err("refused");
    assert!(matches!(refused, ForgeFault::Unavailable { .. }), "{refused:?}");
}
