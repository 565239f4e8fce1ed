//! A check as an argument: one shape for every tool that makes tasks.

use callboard_domain::command::NewCheck;
use schemars::JsonSchema;
use serde::Deserialize;

// Doc comments of the fields are published as their descriptions. Comments for readers of the code take two slashes.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CheckArgument {
    desc: String,
    /// shell line; none = manual
    cmd: Option<String>,
    #[serde(rename = "type")]
    kind: Option<CheckType>,
    /// in the repo
    cwd: Option<String>,
    /// seconds
    #[schemars(range(min = 1, max = 3600))]
    timeout: Option<u32>,
}

impl From<CheckArgument> for NewCheck {
    fn from(check: CheckArgument) -> Self {
        NewCheck {
            desc: check.desc,
            cmd: check.cmd,
            // `manual` is the only type a caller can name. Without it, the presence of `cmd` decides.
            manual: check.kind.is_some(),
            cwd: check.cwd,
            timeout_s: check.timeout,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CheckType {
    Manual,
}
