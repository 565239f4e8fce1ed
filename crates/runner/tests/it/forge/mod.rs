//! Forges, played by a server on loopback with the documents that GitHub and GitLab answer.

mod faults;
mod github;
mod gitlab;
mod merging;
mod opening;
pub(crate) mod server;
mod slow;

use callboard_domain::forge::{ForgeCheckState, ForgeKind, ForgeRef, ForgeState};
use callboard_engine::ports::{Forge, ForgeFault, PullStateRequest};
use callboard_runner::{ForgeClient, ForgeSettings, ForgeToken};
use serde_json::Value;

use server::FakeForge;

pub(crate) const TOKEN: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
const ALL: PullStateRequest = PullStateRequest { checks: true, files: true };
const NOTHING: PullStateRequest = PullStateRequest { checks: false, files: false };
const HUB: &str = "/repos/octocat/Hello-World/pulls/1347";
const LAB: &str = "/projects/my-group%2Fsub%2Fmy-project/merge_requests/133";

pub(crate) fn settings(url: &str) -> ForgeSettings {
    ForgeSettings {
        github_url: url.to_owned(),
        gitlab_url: url.to_owned(),
        github_token: ForgeToken::new(TOKEN),
        gitlab_token: ForgeToken::new(TOKEN),
    }
}

fn reference(kind: ForgeKind) -> ForgeRef {
    let text = match kind {
        ForgeKind::GitHub => "octocat/Hello-World#1347",
        ForgeKind::GitLab => "my-group/sub/my-project!133",
    };
    ForgeRef::parse(kind, text).expect("a reference")
}

async fn ask(
    url: &str,
    kind: ForgeKind,
    wanted: PullStateRequest,
) -> Result<ForgeState, ForgeFault> {
    let client = ForgeClient::new(&settings(url)).expect("good settings");
    client.pull(kind, &reference(kind), &wanted).await
}

async fn told(forge: &FakeForge, kind: ForgeKind, wanted: PullStateRequest) -> ForgeState {
    ask(&forge.url, kind, wanted).await.expect("an answer")
}

fn changed(document: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::from_str(document).expect("a document");
    change(&mut value);
    value.to_string()
}

fn shown(pull: &ForgeState) -> String {
    let word = |state| match state {
        ForgeCheckState::Green => "green",
        ForgeCheckState::Red => "red",
        ForgeCheckState::Running => "running",
    };
    let lines = pull.checks.iter().map(|check| format!("{} {}", word(check.state), check.name));
    lines.collect::<Vec<_>>().join("\n")
}
