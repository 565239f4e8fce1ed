//! Issues of GitHub and GitLab, as their APIs list them, each with the links that the forge keeps for it: `blocked_by` at
//! GitHub, `links` at GitLab. An issue without such a link may name its deps in its text, by a line such as
//! `Blocked by #12` or `Depends on #12`.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::{ImportFault, ImportState, ImportedTask, SourceFile, judged, priority_word};

#[derive(Deserialize)]
struct GitHubIssue {
    number: u64,
    title: String,
    body: Option<String>,
    state: String,
    state_reason: Option<String>,
    #[serde(default)]
    labels: Vec<GitHubLabel>,
    /// GitHub lists pull requests among the issues.
    pull_request: Option<Value>,
    parent_issue_url: Option<String>,
    #[serde(default)]
    blocked_by: Vec<GitHubBlocker>,
}

/// An issue that another one waits for; it may be of another repository.
#[derive(Deserialize)]
struct GitHubBlocker {
    number: u64,
    repository_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GitHubLabel {
    Named { name: String },
    Plain(String),
}

#[derive(Deserialize)]
struct GitLabIssue {
    iid: u64,
    title: String,
    description: Option<String>,
    state: String,
    #[serde(default)]
    labels: Vec<String>,
    project_id: Option<u64>,
    #[serde(default)]
    links: Vec<GitLabLink>,
}

/// A linked issue, and what the issue that has the link does to it.
#[derive(Deserialize)]
struct GitLabLink {
    iid: u64,
    project_id: Option<u64>,
    link_type: String,
}

/// An issue of either forge.
struct Issue {
    number: u64,
    title: String,
    body: String,
    state: ImportState,
    labels: Vec<String>,
    parent: Option<u64>,
    /// References of the issues that the forge says it waits for.
    deps: Vec<String>,
}

fn reference(forge: &str, project: &str, number: u64) -> String {
    format!("{forge}:{project}#{number}")
}

pub(super) fn github(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    let listed: Vec<GitHubIssue> = issues(file)?;
    for issue in listed.into_iter().filter(|issue| issue.pull_request.is_none()) {
        let label = |label| match label {
            GitHubLabel::Named { name } | GitHubLabel::Plain(name) => name,
        };
        let state = match (issue.state.as_str(), issue.state_reason.as_deref()) {
            ("closed", Some("not_planned" | "duplicate")) => ImportState::Canceled,
            ("closed", _) => ImportState::Done,
            _ => ImportState::Open,
        };
        let parent = issue.parent_issue_url.as_deref().and_then(|url| {
            let is_here = url.contains(&format!("/{}/issues/", file.name));
            url.rsplit_once('/').filter(|_| is_here)?.1.parse().ok()
        });
        let deps = issue.blocked_by.iter().map(|blocker| {
            let url = blocker.repository_url.as_deref();
            let project = url.and_then(|url| Some(url.split_once("/repos/")?.1));
            reference("github", project.unwrap_or(&file.name), blocker.number)
        });
        let deps = deps.collect();
        let (number, title) = (issue.number, issue.title);
        let body = issue.body.unwrap_or_default();
        let labels = issue.labels.into_iter().map(label).collect();
        let issue = Issue { number, title, body, state, labels, parent, deps };
        tasks.push(task(file, "github", issue)?);
    }
    Ok(())
}

pub(super) fn gitlab(file: &SourceFile, tasks: &mut Vec<ImportedTask>) -> Result<(), ImportFault> {
    let listed: Vec<GitLabIssue> = issues(file)?;
    let mut waits = gitlab_waits(file, &listed);
    for GitLabIssue { iid: number, title, description, state, labels, .. } in listed {
        let deps = waits.remove(&number).unwrap_or_default();
        let state = if state == "closed" { ImportState::Done } else { ImportState::Open };
        let body = description.unwrap_or_default();
        let issue = Issue { number, title, body, state, labels, parent: None, deps };
        tasks.push(task(file, "gitlab", issue)?);
    }
    Ok(())
}

/// The issues that each issue waits for. A link is listed with either of its two issues.
fn gitlab_waits(file: &SourceFile, listed: &[GitLabIssue]) -> HashMap<u64, Vec<String>> {
    let mut waits: HashMap<u64, Vec<String>> = HashMap::new();
    for issue in listed {
        for link in issue.links.iter().filter(|link| link.project_id == issue.project_id) {
            let (waiting, dep) = match link.link_type.as_str() {
                "blocks" => (link.iid, issue.iid),
                "is_blocked_by" => (issue.iid, link.iid),
                _ => continue,
            };
            waits.entry(waiting).or_default().push(reference("gitlab", &file.name, dep));
        }
    }
    waits
}

fn issues<'t, T: Deserialize<'t>>(file: &'t SourceFile) -> Result<Vec<T>, ImportFault> {
    serde_json::from_str(&file.text).map_err(|error| ImportFault::json(file, error.line(), &error))
}

fn task(file: &SourceFile, forge: &str, issue: Issue) -> Result<ImportedTask, ImportFault> {
    let name = |number: u64| reference(forge, &file.name, number);
    let body = issue.body.replace("\r\n", "\n");
    let boxes = body.lines().filter_map(|line| {
        let text = line.trim().strip_prefix(['-', '*', '+'])?.trim_start();
        let text = ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| text.strip_prefix(mark))?;
        Some(text.trim().to_owned())
    });
    let priority = issue.labels.iter().find_map(|label| {
        let label = label.to_lowercase();
        let word = label.strip_prefix("priority").unwrap_or(&label);
        priority_word(Some(word.trim_start_matches([':', '/', '-', ' '])))
    });
    let task = ImportedTask {
        reference: name(issue.number),
        title: issue.title,
        state: issue.state,
        priority,
        parent: issue.parent.map(name),
        deps: match issue.deps.is_empty() {
            true => said(&body).into_iter().filter(|dep| *dep != issue.number).map(name).collect(),
            false => issue.deps,
        },
        criteria: boxes.collect(),
        labels: issue.labels,
        body,
        ..ImportedTask::default()
    };
    judged(file, 0, task).map_err(|mut fault| {
        fault.line = None;
        fault.message = format!("of issue {} {}", issue.number, fault.message);
        fault
    })
}

/// The numbers of the issues that lines like `Blocked by #1, #2` name.
fn said(body: &str) -> Vec<u64> {
    let mut deps = Vec::new();
    for line in body.lines() {
        let line = line.trim().trim_start_matches(['-', '*', '+']).trim_start().to_lowercase();
        let named = ["blocked by", "depends on"].iter().find_map(|words| line.strip_prefix(words));
        for part in named.unwrap_or_default().split([' ', ',', ':']) {
            let number = part.strip_prefix('#').map(|number| number.trim_end_matches('.'));
            deps.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
    }
    deps
}
