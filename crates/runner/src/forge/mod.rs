//! Forges: reads the state of a pull at GitHub and GitLab, lists issues, opens new pulls, merges them and
//! disables auto-merge.
//! `github.rs` and `gitlab.rs` know each API, their `merge.rs` how a pull gets into its target, `http.rs` how one
//! request is made. Nothing else is ever written there.

mod github;
mod gitlab;
mod http;
mod rate;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::forge::{ForgeKind, ForgeRef, ForgeState};
use callboard_engine::ports::{
    Forge, ForgeFault, ForgeMerge, ForgeOff, NewPull, OpenedPull, PullStateRequest,
};

use http::Api;

/// The limit of all requests for one pull together; each request has its own limit too.
const PULL_TIME_MAX: Duration = Duration::from_secs(120);

/// Where the forges are, and with which tokens they are asked.
#[derive(Clone, Debug)]
pub struct ForgeSettings {
    /// Roots of the APIs, not of the pages.
    pub github_url: String,
    pub gitlab_url: String,
    pub github_token: Option<ForgeToken>,
    pub gitlab_token: Option<ForgeToken>,
}

impl Default for ForgeSettings {
    fn default() -> Self {
        Self {
            github_url: "https://api.github.com".into(),
            gitlab_url: "https://gitlab.com/api/v4".into(),
            github_token: None,
            gitlab_token: None,
        }
    }
}

/// A token that is never printed by accident.
#[derive(Clone)]
pub struct ForgeToken(String);

impl ForgeToken {
    /// `None` for blank text, as in an empty variable.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ForgeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeSettingsError {
    #[error("the {0} API root must be an http or https URL without user, query or fragment")]
    Url(ForgeKind),
    #[error("the {0} token has characters that no token has")]
    Token(ForgeKind),
}

/// Both forges; one without a token is unconfigured.
pub struct ForgeClient {
    github: Option<Api>,
    gitlab: Option<Api>,
}

impl ForgeClient {
    pub fn new(settings: &ForgeSettings) -> Result<Self, ForgeSettingsError> {
        let api = |kind, url: &str, token: &Option<ForgeToken>| {
            token.as_ref().map(|token| Api::new(kind, url, token)).transpose()
        };
        Ok(Self {
            github: api(ForgeKind::GitHub, &settings.github_url, &settings.github_token)?,
            gitlab: api(ForgeKind::GitLab, &settings.gitlab_url, &settings.gitlab_token)?,
        })
    }
}

#[async_trait]
impl Forge for ForgeClient {
    async fn pull(
        &self,
        kind: ForgeKind,
        pull: &ForgeRef,
        wanted: &PullStateRequest,
    ) -> Result<ForgeState, ForgeFault> {
        in_time(kind, async {
            match kind {
                ForgeKind::GitHub => github::pull(configured(&self.github)?, pull, wanted).await,
                ForgeKind::GitLab => gitlab::pull(configured(&self.gitlab)?, pull, wanted).await,
            }
        })
        .await
    }

    async fn open(&self, kind: ForgeKind, new: &NewPull) -> Result<OpenedPull, ForgeFault> {
        in_time(kind, async {
            match kind {
                ForgeKind::GitHub => github::open(configured(&self.github)?, new).await,
                ForgeKind::GitLab => gitlab::open(configured(&self.gitlab)?, new).await,
            }
        })
        .await
    }

    async fn merge(
        &self,
        kind: ForgeKind,
        pull: &ForgeRef,
        head: Option<&str>,
    ) -> Result<ForgeMerge, ForgeFault> {
        in_time(kind, async {
            match kind {
                ForgeKind::GitHub => github::merge(configured(&self.github)?, pull, head).await,
                ForgeKind::GitLab => gitlab::merge(configured(&self.gitlab)?, pull, head).await,
            }
        })
        .await
    }

    async fn call_off(&self, kind: ForgeKind, pull: &ForgeRef) -> Result<ForgeOff, ForgeFault> {
        in_time(kind, async {
            match kind {
                ForgeKind::GitHub => github::call_off(configured(&self.github)?, pull).await,
                ForgeKind::GitLab => gitlab::call_off(configured(&self.gitlab)?, pull).await,
            }
        })
        .await
    }

    async fn issues(&self, kind: ForgeKind, project: &str) -> Result<String, ForgeFault> {
        in_time(kind, async {
            let (api, path) = match kind {
                ForgeKind::GitHub => (configured(&self.github)?, github::issues_path(project)),
                ForgeKind::GitLab => (configured(&self.gitlab)?, gitlab::issues_path(project)),
            };
            let links = match kind {
                ForgeKind::GitHub => github::links,
                ForgeKind::GitLab => gitlab::links,
            };
            let what = format!("the issues of {project}, or there is no such repository");
            let listed = api.pages::<Vec<serde_json::Value>>(&what, &path).await?;
            if listed.cut {
                let words = "the repository has more issues than are read at once".into();
                return Err(ForgeFault::Refused(words));
            }
            let links_of = format!("the links of an issue of {project}");
            let mut issues: Vec<serde_json::Value> = listed.pages.into_iter().flatten().collect();
            for issue in &mut issues {
                // The list counts the links of each issue, so only issues with links are asked about.
                let Some(IssueLinks { path, key }) = links(project, issue) else { continue };
                let linked = api.pages::<Vec<serde_json::Value>>(&links_of, &path).await?;
                issue[key] = linked.pages.into_iter().flatten().collect();
            }
            Ok(serde_json::Value::Array(issues).to_string())
        })
        .await
    }
}

/// Where the links of an issue are listed, and the key under which they join the issue.
struct IssueLinks {
    path: String,
    key: &'static str,
}

/// Bounds all requests of one question together: a list of 30 pages could otherwise take five minutes.
async fn in_time<T>(
    kind: ForgeKind,
    asked: impl Future<Output = Result<T, ForgeFault>>,
) -> Result<T, ForgeFault> {
    let answer = tokio::time::timeout(PULL_TIME_MAX, asked).await;
    answer.unwrap_or_else(|_| {
        let words = format!("{kind} took more than {} s", PULL_TIME_MAX.as_secs());
        Err(ForgeFault::Unavailable { words, retry_after: None })
    })
}

/// The forge, if it has a token.
fn configured(api: &Option<Api>) -> Result<&Api, ForgeFault> {
    api.as_ref().ok_or(ForgeFault::Unconfigured)
}
