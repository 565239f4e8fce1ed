//! A patch becomes a branch, and nothing else changes in the repositories.

use std::fs;
use std::path::{Path, PathBuf};

use callboard_domain::relay::spec::Repo as Named;
use callboard_engine::ports::{AgentRunner, Branch, BranchState, PatchOrder};
use callboard_runner::LocalAgents;

use super::bed::{Bed, DIFF};
use super::repositories::lived_in;
use crate::fixture::{Repo, git_in, snapshot};

const NAME: &str = "callboard/job_01";

fn order(repo: Named, patch: &str, push: bool) -> PatchOrder {
    PatchOrder {
        job: "job_01".into(),
        attempt: 1,
        repo,
        name: NAME.into(),
        patch: patch.into(),
        message: "T\n\nD\n\nCallboard job: job_01\n".into(),
        push,
        has_tokens: false,
    }
}

fn local(bed: &Bed, commit: &str) -> Named {
    Named::Local {
        path: bed.repo.path.display().to_string(),
        base_branch: "main".into(),
        baseline_commit: commit.into(),
    }
}

fn agents(bed: &Bed) -> LocalAgents {
    let mut settings = bed.settings(bed.saying(""));
    settings.git_schemes.push("file".into());
    LocalAgents::new(settings)
}

fn told(directory: &Path, args: &[&str]) -> String {
    git_in(directory, args).trim().to_owned()
}

/// The files that only the second snapshot has, without those below `.git/objects`.
fn added(before: &[(PathBuf, Vec<u8>)], after: &[(PathBuf, Vec<u8>)]) -> Vec<String> {
    let new = after.iter().filter(|entry| !before.contains(entry));
    let names = new.map(|(path, _)| path.display().to_string());
    names.filter(|name| !name.contains("/.git/objects")).collect()
}

#[tokio::test]
async fn a_local_repository_gets_one_branch_and_nothing_else() {
    let bed = Bed::of(lived_in());
    bed.repo.git(&["config", "user.name", "Ana"]);
    bed.repo.git(&["config", "user.email", "ana@example.org"]);
    let (base, before) = (bed.head(), snapshot(&bed.repo.path));
    let agents = agents(&bed);
    let made = agents.branch(order(local(&bed, &base), DIFF, false)).await.expect("made");
    let repo = bed.repo.path.display().to_string();
    assert_eq!((made.repo.as_str(), made.remote.as_deref()), (repo.as_str(), None));
    let ask = |args: &[&str]| told(&bed.repo.path, args);
    assert_eq!(ask(&["rev-parse", NAME]), made.head);
    assert_eq!(ask(&["rev-parse", &format!("{NAME}^")]), base);
    assert_eq!(ask(&["show", &format!("{NAME}:a.txt")]), "one\nmore");
    assert_eq!(ask(&["log", "-1", "--format=%an <%ae> %s", NAME]), "Ana <ana@example.org> T");
    assert!(ask(&["log", "-1", "--format=%b", NAME]).ends_with("Callboard job: job_01"));
    let after = snapshot(&bed.repo.path);
    let gone: Vec<_> = before.iter().filter(|entry| !after.contains(entry)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let added = added(&before, &after);
    let ours = ["/refs/heads/callboard", "/logs/refs/heads/callboard"];
    assert!(added.iter().all(|name| ours.iter().any(|ours| name.contains(ours))), "{added:?}");

    // A repeated run moves the branch.
    let other = DIFF.replace("+more", "+less");
    let again = agents.branch(order(local(&bed, &base), &other, false)).await.expect("moved");
    assert_eq!(ask(&["show", &format!("{NAME}:a.txt")]), "one\nless");
    assert_eq!(ask(&["rev-parse", NAME]), again.head);
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn a_branch_that_somebody_works_on_is_left_alone() {
    let bed = Bed::new();
    let base = bed.head();
    bed.repo.git(&["checkout", "-q", "-b", NAME]);
    let before = snapshot(&bed.repo.path);
    let refused = agents(&bed).branch(order(local(&bed, &base), DIFF, false)).await;
    assert!(refused.expect_err("checked out").contains("checked out"));
    let added = added(&before, &snapshot(&bed.repo.path));
    assert!(added.is_empty(), "{added:?}");
    let stale = DIFF.replace(" one", " two");
    let conflict = agents(&bed).branch(order(local(&bed, &base), &stale, false)).await;
    assert!(conflict.expect_err("does not apply").contains("a.txt"));
}

#[tokio::test]
async fn an_address_gets_the_branch_pushed() {
    let bed = Bed::new();
    let base = bed.head();
    let bare = bed.file("acme/shop.git");
    let [from, to] = [&bed.repo.path, &bare].map(|path| path.display().to_string());
    bed.repo.git(&["clone", "-q", "--bare", &from, &to]);
    let named = Named::Git {
        url: format!("file://{to}"),
        base_branch: "main".into(),
        baseline_commit: base.clone(),
    };
    let made = agents(&bed).branch(order(named, DIFF, false)).await.expect("pushed");
    assert_eq!(told(&bare, &["rev-parse", NAME]), made.head);
    assert_eq!(told(&bare, &["rev-parse", "main"]), base);
    let unknown = git_knows_nobody(&bare);
    let by = told(&bare, &["log", "-1", "--format=%an <%ae>", NAME]);
    assert!(!unknown || by == "Callboard <callboard@localhost>", "{by}");

    // A push to a forge, from a repository of this machine.
    let url = "https://github.com/acme/shop.git";
    bed.repo.git(&["remote", "add", "origin", url]);
    let base_url = format!("file://{}", bed.file("acme").display());
    let rewrite = format!("url.{base_url}/.insteadOf");
    bed.repo.git(&["config", &rewrite, "https://github.com/acme/"]);
    let other = DIFF.replace("+more", "+less");
    let pushed = agents(&bed).branch(order(local(&bed, &base), &other, true)).await;
    let pushed = pushed.expect("pushed");
    assert_eq!(pushed.remote.as_deref(), Some(url));
    assert_eq!(told(&bare, &["rev-parse", NAME]), pushed.head, "moved");
    assert_eq!(told(&bed.repo.path, &["rev-parse", NAME]), pushed.head);
    assert_eq!(told(&bed.repo.path, &["for-each-ref", "refs/remotes"]), "");
}

/// Whether this machine's git settings have no identity.
fn git_knows_nobody(directory: &Path) -> bool {
    !git_in(directory, &["config", "--list", "--show-origin"])
        .lines()
        .any(|line| !line.starts_with("command line:") && line.contains("user.email="))
}

#[tokio::test]
async fn a_remote_out_of_reach_is_named_without_its_password() {
    let bed = Bed::new();
    let base = bed.head();
    let none = agents(&bed).branch(order(local(&bed, &base), DIFF, true)).await;
    assert_eq!(none.expect_err("none"), "the repository has no remote called origin");
    bed.repo.git(&["remote", "add", "origin", "https://ana:hunter22@127.0.0.1:1/x/y.git"]);
    let fault = agents(&bed).branch(order(local(&bed, &base), DIFF, true)).await;
    let fault = fault.expect_err("nobody listens there");
    assert!(fault.contains("unable to access") && !fault.contains("hunter22"), "{fault}");
}

#[tokio::test]
async fn a_branch_is_open_until_its_commits_are_in_the_base() {
    let bed = Bed::new();
    let base = bed.head();
    let agents = agents(&bed);
    let made = agents.branch(order(local(&bed, &base), DIFF, false)).await.expect("made");
    let state = async |branch: &Branch| agents.branch_state(branch, "main").await;
    assert_eq!(state(&made).await, Some(BranchState::Open));
    bed.repo.git(&["merge", "-q", "--no-ff", "-m", "merged", NAME]);
    assert_eq!(state(&made).await, Some(BranchState::Merged { commit: None }));
    bed.repo.git(&["branch", "-q", "-d", NAME]);
    assert_eq!(
        state(&made).await,
        Some(BranchState::Merged { commit: None }),
        "its commit is known"
    );
    bed.repo.git(&["reset", "-q", "--hard", &base]);
    assert_eq!(state(&made).await, Some(BranchState::Gone));
    assert_eq!(agents.branch_state(&made, "nowhere").await, None);
    let away = Repo::plain();
    fs::remove_dir(&away.path).expect("removes it");
    let lost = Branch { repo: away.path.display().to_string(), ..made };
    assert_eq!(state(&lost).await, None);
}
