//! Forges: how a pull request of GitHub or a merge request of GitLab is named, what a forge says of it, and whether that
//! proves a task. The runner asks the forge. Nothing here knows the rows that Callboard keeps of its own requests
//! (`pulls/`), because contracts of tasks and imports name a forge without such a row.

use std::fmt;

use crate::limits::FORGE_REF_CHARS_MAX;
use crate::refusal::Refusal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForgeKind {
    GitHub,
    GitLab,
}

impl ForgeKind {
    /// The forge's word for a pull.
    pub fn request_word(self) -> &'static str {
        match self {
            Self::GitHub => "pull request",
            Self::GitLab => "merge request",
        }
    }

    fn short_form(self) -> &'static str {
        match self {
            Self::GitHub => "owner/repo#123",
            Self::GitLab => "group/project!42",
        }
    }

    /// A name that is judged here is a plain path of the forge's API.
    pub fn judge_project(self, named: &str) -> Result<(), Refusal> {
        if named.chars().nth(FORGE_REF_CHARS_MAX).is_none() && self.is_project(named) {
            return Ok(());
        }
        let message = format!("'{named}' is no repository at {self}; write owner/name");
        Err(Refusal::invalid_field("source", message))
    }

    fn is_project(self, named: &str) -> bool {
        let depth = named.split('/').count();
        let is_deep = match self {
            Self::GitHub => depth == 2,
            Self::GitLab => depth >= 2,
        };
        is_deep && named.split('/').all(is_path_name)
    }
}

impl fmt::Display for ForgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
        })
    }
}

/// The name of a pull at a forge. Made by `parse` or `find_in` it is safe inside a URL. The host of a URL is not
/// kept: the settings name the forge to ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForgeRef {
    /// `owner/repo`, or `group/sub/project`.
    pub project: String,
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgeRefError {
    #[error("a reference to a {} has at most {FORGE_REF_CHARS_MAX} characters", .0.request_word())]
    TooLong(ForgeKind),
    #[error(
        "'{given}' names no {kind} {}: write {} or its URL",
        .kind.request_word(), .kind.short_form()
    )]
    Foreign { kind: ForgeKind, given: String },
}

impl ForgeRef {
    /// `owner/repo#123` or `group/project!42`.
    pub fn short(&self, kind: ForgeKind) -> String {
        let sign = match kind {
            ForgeKind::GitHub => '#',
            ForgeKind::GitLab => '!',
        };
        format!("{}{sign}{}", self.project, self.number)
    }

    /// Reads `owner/repo#123` (GitHub), `group/project!42` (GitLab), or the URL of a pull, of its files or of a
    /// comment in it.
    pub fn parse(kind: ForgeKind, text: &str) -> Result<Self, ForgeRefError> {
        if text.chars().nth(FORGE_REF_CHARS_MAX).is_some() {
            return Err(ForgeRefError::TooLong(kind));
        }
        let found = match read_url(kind, text) {
            Some((pull, rest)) => is_harmless_rest(rest).then_some(pull),
            None => read_short(kind, text),
        };
        found.ok_or_else(|| {
            let given: String = text.chars().take(120).flat_map(char::escape_debug).collect();
            ForgeRefError::Foreign { kind, given }
        })
    }

    /// The first pull whose URL stands in a text.
    pub fn find_in(kind: ForgeKind, text: &str) -> Option<Self> {
        text.match_indices("://").find_map(|(at, _)| {
            let from = ["https", "http"].into_iter().find_map(|scheme| {
                let from = at.checked_sub(scheme.len())?;
                text.get(from..at)?.eq_ignore_ascii_case(scheme).then_some(from)
            })?;
            // Bounds the cost of each place, however long the text is.
            let to = text.floor_char_boundary(from + FORGE_REF_CHARS_MAX);
            let (pull, rest) = read_url(kind, &text[from..to])?;
            let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            (!rest.starts_with(goes_on)).then_some(pull)
        })
    }
}

/// The forge's name for the repository at an address: `owner/repo`, `group/sub/project`.
pub fn project_of(kind: ForgeKind, url: &str) -> Option<String> {
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?.1,
        // `git@host:owner/repo.git`.
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?.1,
    };
    let path = path.trim_matches('/');
    let project = path.strip_suffix(".git").unwrap_or(path);
    checked(kind, project, "1").map(|pull| pull.project)
}

/// Reads `https://host/owner/repo/pull/1`, and returns the rest of the text.
fn read_url(kind: ForgeKind, text: &str) -> Option<(ForgeRef, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let (host, path) = rest.split_once('/')?;
    let is_web = ["https", "http"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    if !is_web || !host.starts_with(char::is_alphanumeric) || !host.chars().all(is_host_char) {
        return None;
    }
    let (project, rest) = match kind {
        ForgeKind::GitHub => {
            // The path is cut at its second slash, not at the first "/pull/": a repository may have that name.
            let (repo_at, _) = path.match_indices('/').nth(1)?;
            let (project, rest) = path.split_at(repo_at);
            (project, rest.strip_prefix("/pull/")?)
        }
        ForgeKind::GitLab => path.split_once("/-/merge_requests/")?,
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    Some((checked(kind, project, number)?, rest))
}

fn read_short(kind: ForgeKind, text: &str) -> Option<ForgeRef> {
    let (project, number) = text.split_once(match kind {
        ForgeKind::GitHub => '#',
        ForgeKind::GitLab => '!',
    })?;
    checked(kind, project, number)
}

fn checked(kind: ForgeKind, project: &str, number: &str) -> Option<ForgeRef> {
    // Rust reads "+1" and "01" too; no forge writes them.
    let plain = number.starts_with(|c: char| matches!(c, '1'..='9'))
        && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| plain)?;
    kind.is_project(project).then(|| ForgeRef { project: project.to_owned(), number })
}

fn is_path_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty()
        && name.chars().all(is_name_char)
        && !name.starts_with('-')
        && !matches!(name, "." | "..")
}

/// Whether the text after the number in a URL is harmless: a page within the pull, a query, a place on the page.
fn is_harmless_rest(rest: &str) -> bool {
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    (rest.is_empty() || rest.starts_with(['/', '?', '#']))
        && !rest.chars().any(|c| c.is_whitespace() || c.is_control())
        && !path.split('/').any(|name| name == "..")
}

/// A pull as its forge describes it. Neither open nor merged: closed without a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgeState {
    pub merged: bool,
    /// The commit of a merged pull, if the forge says.
    pub merge_commit: Option<String>,
    pub open: bool,
    pub target_branch: String,
    /// Empty when the pull has no commit.
    pub head_sha: String,
    /// Checks of the head; one name may occur several times.
    pub checks: Vec<ForgeCheck>,
    /// Changed paths; a renamed file has both its names.
    pub files: Vec<String>,
    /// More files changed than the forge lists here.
    pub files_cut: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeCheck {
    pub name: String,
    pub state: ForgeCheckState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeCheckState {
    Green,
    Red,
    Running,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgeVerdict {
    Passed,
    /// The pull may still pass by itself; ask again later.
    Pending(ForgeReason),
    Failed(ForgeReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeReason {
    pub code: &'static str,
    /// For a person; names what is missing.
    pub words: String,
}

pub const PR_NOT_MERGED: &str = "verification.pr_not_merged";
pub const CHECKS_FAILED: &str = "verification.checks_failed";

/// Whether a pull proves its task: merged into `branch` (any, when none is named), with all required checks green
/// and all these files changed. Reasons that can no longer change come first.
pub fn judge_merged(
    pull: &ForgeState,
    branch: Option<&str>,
    required_checks: &[String],
    files: &[String],
) -> ForgeVerdict {
    let not_merged = |words: String| ForgeReason { code: PR_NOT_MERGED, words };
    if !pull.merged && !pull.open {
        return ForgeVerdict::Failed(not_merged("closed without a merge".into()));
    }
    let elsewhere = branch.filter(|branch| *branch != pull.target_branch);
    if let Some(branch) = elsewhere.filter(|_| pull.merged) {
        let words = format!("merged into {}, not into {branch}", pull.target_branch);
        return ForgeVerdict::Failed(not_merged(words));
    }
    let missing = files.iter().filter(|file| !pull.files.contains(file));
    let missing = listed(missing);
    if pull.merged && !missing.is_empty() {
        let among = if pull.files_cut { "not among the changed files listed" } else { "unchanged" };
        return ForgeVerdict::Failed(not_merged(format!("{among}: {missing}")));
    }
    let in_state = |wanted: Option<ForgeCheckState>| {
        listed(required_checks.iter().filter(|name| required_state(pull, name) == wanted))
    };
    let red = in_state(Some(ForgeCheckState::Red));
    if !red.is_empty() {
        let words = format!("red checks: {red}");
        return ForgeVerdict::Failed(ForgeReason { code: CHECKS_FAILED, words });
    }
    if pull.open {
        let words = match elsewhere {
            Some(branch) => format!("still open, towards {}, not {branch}", pull.target_branch),
            None => "still open".into(),
        };
        return ForgeVerdict::Pending(not_merged(words));
    }
    let (running, absent) = (in_state(Some(ForgeCheckState::Running)), in_state(None));
    let waits = [("checks still running", running), ("checks not there yet", absent)];
    let waits: Vec<String> = waits
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {names}"))
        .collect();
    if waits.is_empty() {
        ForgeVerdict::Passed
    } else {
        ForgeVerdict::Pending(not_merged(waits.join("; ")))
    }
}

/// The state of a required check. Two apps, or two events, may report under one name: the worst state counts.
fn required_state(pull: &ForgeState, name: &str) -> Option<ForgeCheckState> {
    let states = || pull.checks.iter().filter(|check| check.name == name).map(|check| check.state);
    [ForgeCheckState::Red, ForgeCheckState::Running, ForgeCheckState::Green]
        .into_iter()
        .find(|worst| states().any(|state| state == *worst))
}

const NAMES_LISTED_MAX: usize = 10;

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    let shown = names[..names.len().min(NAMES_LISTED_MAX)].join(", ");
    match names.len().saturating_sub(NAMES_LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
