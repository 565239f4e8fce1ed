//! The variables that a spawned program gets from our environment. Agents and checks get variables by name alone, so a
//! credential reaches them only if the settings name its variable. Other programs, such as git, inherit all variables
//! but those that look like credentials.

use std::ffi::{OsStr, OsString};

pub(crate) type Variables = Vec<(OsString, OsString)>;

/// A name that holds one of these words is taken for a credential, in any case of letters.
const SECRET_WORDS: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "API_KEY",
    "APIKEY",
    "ACCESS_KEY",
    "PRIVATE_KEY",
];

/// Prefixes that are never passed. `CALLBOARD_*` may hold a store's password and would make a nested `callboard` act as
/// this server; `GIT_*` (a hook's GIT_DIR, GIT_INDEX_FILE) would point a check at another repository; `OTEL_*` may hold a
/// collector's key.
const OUR_PREFIXES: [&str; 3] = ["CALLBOARD_", "GIT_", "OTEL_"];

/// Variables for agents: where programs and the user's files are, and the language.
const AGENTS: [&str; 8] = [
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Variables that shells, compilers and test runners need. None of these holds a secret.
#[rustfmt::skip]
const CHECKS: [&str; 62] = [
    "ANDROID_HOME", "ANDROID_SDK_ROOT", "AR", "BUN_INSTALL", "CARGO_HOME", "CARGO_TARGET_DIR", "CC", "CFLAGS",
    "CI", "COLORTERM", "CONDA_PREFIX", "CPATH", "CXX", "CXXFLAGS", "C_INCLUDE_PATH", "DENO_DIR", "DISPLAY",
    "DOTNET_ROOT", "GEM_HOME", "GEM_PATH", "GOCACHE", "GOFLAGS", "GOMODCACHE", "GOPATH", "GOROOT",
    "GRADLE_USER_HOME", "HOME", "JAVA_HOME", "LANG", "LANGUAGE", "LDFLAGS", "LD_LIBRARY_PATH", "LIBRARY_PATH",
    "LOGNAME", "MAKEFLAGS", "MAVEN_HOME", "NIX_PATH", "NODE_OPTIONS", "NODE_PATH", "NO_COLOR", "NVM_DIR", "PATH",
    "PKG_CONFIG_PATH", "PNPM_HOME", "PYENV_ROOT", "PYTHONPATH", "RBENV_ROOT", "RUSTFLAGS", "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN", "RUST_BACKTRACE", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TMPDIR", "TZ",
    "USER", "UV_CACHE_DIR", "VIRTUAL_ENV", "VOLTA_HOME", "WAYLAND_DISPLAY",
];
/// Settings of the language, and where a user's files are.
const CHECKS_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// The variables of a check: the usual ones, and those the settings name. Variables of ours are left out even when
/// named.
pub(crate) fn for_check(
    ours: impl Iterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Variables {
    let is_seen = |name: &str| {
        let is_usual =
            CHECKS.contains(&name) || CHECKS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let is_named = named.iter().any(|named| named == name);
        (is_usual || is_named) && !name.starts_with("CALLBOARD_")
    };
    ours.filter(|(name, _)| name.to_str().is_some_and(is_seen)).collect()
}

pub(crate) fn inherited() -> Variables {
    without_secrets(std::env::vars_os())
}

/// The variables of an agent: where programs and the user's files are, the language, and those its executor names.
/// Variables of ours are left out even when named.
pub(crate) fn for_agent(ours: &Variables, named: &[String]) -> AgentVariables {
    let pick = |names: &[&str]| -> Variables {
        let wanted = |name: &OsStr| names.iter().any(|wanted| name == *wanted);
        ours.iter().filter(|(name, _)| wanted(name)).cloned().collect()
    };
    let is_ours = |name: &&str| name.starts_with("CALLBOARD_");
    let named: Vec<&str> = named.iter().map(String::as_str).filter(|name| !is_ours(name)).collect();
    let mut base = pick(&AGENTS);
    // Each variable once, and a named one among the named: those are hidden in logs.
    base.retain(|(name, _)| !named.iter().any(|named| name == *named));
    AgentVariables { base, named: pick(&named) }
}

pub(crate) struct AgentVariables {
    pub(crate) base: Variables,
    /// Variables that the executor names; they must not appear in any log.
    pub(crate) named: Variables,
}

pub(crate) fn value<'a>(variables: &'a Variables, name: &str) -> Option<&'a OsStr> {
    variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

pub(crate) fn without_secrets(variables: impl Iterator<Item = (OsString, OsString)>) -> Variables {
    variables.filter(|(name, _)| may_be_seen(name)).collect()
}

fn may_be_seen(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let secret = SECRET_WORDS.iter().any(|word| name.contains(word));
    let ours = OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    !secret && !ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_sees_what_its_executor_names() {
        let ours = ["PATH", "HOME", "USER", "LANG", "API_KEY", "GH_TOKEN", "CALLBOARD_STORE"];
        let ours = ours.into_iter().chain(["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME"]);
        let ours = ours.map(|name| (name.into(), "value".into())).collect();
        let named = ["GH_TOKEN", "CALLBOARD_STORE", "MISSING", "OTEL_SERVICE_NAME"];
        let named = named.map(str::to_owned);
        let seen = for_agent(&ours, &named);
        let names = |variables: &Variables| {
            let names = variables.iter().map(|(name, _)| name.to_string_lossy().into_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&seen.base), ["PATH", "HOME", "LANG"]);
        assert_eq!(names(&seen.named), ["GH_TOKEN", "OTEL_SERVICE_NAME"]);
    }

    #[test]
    fn a_check_sees_the_usual_variables_and_those_that_are_named() {
        let table = "
            PATH                     seen
            HOME                     seen
            CARGO_HOME               seen
            LC_ALL                   seen
            XDG_RUNTIME_DIR          seen
            DATABASE_URL             hidden
            GH_PAT                   hidden
            OPENAI_KEY               hidden
            NPM_AUTH                 hidden
            SENTRY_DSN               hidden
            PGPASSFILE               hidden
            SSH_AUTH_SOCK            hidden
            GITHUB_TOKEN             hidden
            GIT_DIR                  hidden
            OTEL_EXPORTER_OTLP_ENDPOINT hidden
            TEST_DATABASE            seen
            DEPLOY_TOKEN             seen
            CALLBOARD_STORE          hidden
        ";
        let named = ["TEST_DATABASE", "DEPLOY_TOKEN", "CALLBOARD_STORE"].map(str::to_owned);
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let (name, wanted) = line.trim().split_once(' ').expect("two columns");
            let given = [(OsString::from(name), OsString::from("value"))];
            let seen = for_check(given.into_iter(), &named);
            assert_eq!(seen.len() == 1, wanted.trim() == "seen", "{name}");
        }
    }

    #[test]
    fn secrets_and_our_own_variables_are_left_out() {
        let table = "
            PATH                     kept
            HOME                     kept
            LANG                     kept
            CARGO_HOME               kept
            DIGIT_COUNT              kept
            GITHUB_TOKEN             dropped
            npm_config__authToken    dropped
            AWS_SECRET_ACCESS_KEY    dropped
            AWS_ACCESS_KEY_ID        dropped
            PGPASSWORD               dropped
            MYSQL_PASSWD             dropped
            SSH_PASSPHRASE           dropped
            GOOGLE_APPLICATION_CREDENTIALS dropped
            ANTHROPIC_API_KEY        dropped
            anthropic_api_key        dropped
            DEPLOY_PRIVATE_KEY       dropped
            CALLBOARD_STORE          dropped
            GIT_DIR                  dropped
            GIT_INDEX_FILE           dropped
            OTEL_EXPORTER_OTLP_HEADERS dropped
        ";
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let (name, wanted) = line.trim().split_once(' ').expect("two columns");
            let given = [(OsString::from(name), OsString::from("value"))];
            let kept = without_secrets(given.into_iter());
            assert_eq!(kept.len() == 1, wanted.trim() == "kept", "{name}");
        }
    }
}
