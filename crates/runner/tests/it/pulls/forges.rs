//! At a forge: a pull is pushed, opened, merged there, and tracked until then.

use callboard_domain::command::{Command, PullOpen};
use callboard_domain::forge::ForgeKind;
use callboard_domain::pulls::{MERGED, OPEN};
use callboard_engine::ports::Worktrees;
use callboard_engine::store::Op;
use callboard_engine::{EngineError, PullEnd, PullFault};
use callboard_runner::LocalWorktrees;
use serde_json::json;

use super::{Crew, EPIC};
use crate::fixture::{Repo, git_in};
use crate::forge::TOKEN;
use crate::forge::server::{FakeForge, Reply};
use crate::workspaces::{commit, head};

pub(super) const PULLS: &str = "/repos/acme/shop/pulls";
pub(super) const PULL: &str = "/repos/acme/shop/pulls/7";
const PAGE: &str = "https://github.com/acme/shop/pull/7";

/// A crew whose `origin` has an address of GitHub but is a local folder.
pub(super) async fn crew(forge: &FakeForge) -> Crew {
    let repo = Repo::with_origin();
    let remotes = repo.path.with_file_name("remotes");
    std::fs::create_dir_all(&remotes).expect("makes a folder");
    let place = remotes.join("shop.git");
    std::fs::rename(repo.path.with_file_name("origin.git"), &place).expect("moves a folder");
    repo.git(&["remote", "set-url", "origin", "https://github.com/acme/shop.git"]);
    let rewrite = format!("url.{}/.insteadOf", remotes.display());
    repo.git(&["config", &rewrite, "https://github.com/acme/"]);
    Crew::open(repo, Some((ForgeKind::GitHub, &forge.url))).await
}

pub(super) fn at_origin(crew: &Crew, branch: &str) -> String {
    let place = crew.repo.path.with_file_name("remotes").join("shop.git");
    git_in(&place, &["rev-parse", "--verify", &format!("refs/heads/{branch}")]).trim().to_owned()
}

pub(super) fn stands(over: serde_json::Value) -> Reply {
    let mut pull = json!({
        "node_id": "N", "state": "open", "merged": false, "merge_commit_sha": "trial",
        "mergeable": true, "mergeable_state": "clean", "draft": false, "auto_merge": null,
        "head": {"sha": "s"}, "base": {"ref": EPIC}, "changed_files": 1,
    });
    for (key, value) in over.as_object().expect("an object") {
        pull[key] = value.clone();
    }
    Reply::ok(pull.to_string())
}

/// The address that lists open pulls of a branch.
pub(super) fn find(branch: &str, base: &str) -> String {
    let quoted = |text: &str| text.replace('/', "%2F").replace('-', "%2D");
    format!("{PULLS}?state=open&head=acme%3A{}&base={}", quoted(branch), quoted(base))
}

pub(super) async fn opening(branch: &str) -> FakeForge {
    let forge = FakeForge::start().await;
    let quoted = |text: &str| text.replace('/', "%2F").replace('-', "%2D");
    let find = format!("{PULLS}?state=open&head=acme%3A{}&base={}", quoted(branch), quoted(EPIC));
    forge.on(find, Reply::ok("[]"));
    forge.on(PULLS, Reply::new(201, json!({"number": 7, "html_url": PAGE}).to_string()));
    forge
}

#[tokio::test]
async fn a_branch_is_pushed_opened_and_merged_there() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let opened = crew.try_open(task, "callboard/own", EPIC).await;
    let pull = opened.expect("opens");
    assert_eq!((pull.url.as_str(), pull.repo.as_str(), pull.number), (PAGE, "acme/shop", 7));
    assert_eq!(at_origin(&crew, "callboard/own"), head(&worktree.path));
    assert_eq!(at_origin(&crew, EPIC), crew.repo.commit_of("main"), "so that it has a base");
    forge.on(PULL, stands(json!({})));
    forge.on(format!("{PULL}/merge"), Reply::ok(r#"{"sha": "abc", "merged": true}"#));
    let end = crew.merge(&pull).await;
    assert_eq!(end, PullEnd::Merged { commit: Some("abc".into()) });
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), known.merge_commit.as_deref()), (MERGED, Some("abc")));
    forge.seen();
    assert_eq!(crew.merge(&pull).await, end);
    assert_eq!(forge.seen().len(), 0, "it is known");
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.merged"]);
}

/// The local epic branch is moved to the forge's state; a branch of the user stays.
#[tokio::test]
async fn the_epics_branch_here_follows_what_was_merged_there() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    let there = head(&worktree.path);
    for branch in [EPIC, "main"] {
        crew.repo.git(&["push", "-q", "origin", &format!("{there}:refs/heads/{branch}")]);
    }
    let main = crew.repo.commit_of("main");
    forge.on(PULL, stands(json!({"state": "closed", "merged": true, "merge_commit_sha": there})));
    let end = crew.merge(&pull).await;
    assert_eq!(end, PullEnd::Merged { commit: Some(there.clone()) });
    assert_eq!((crew.repo.commit_of(EPIC), crew.repo.commit_of("main")), (there.clone(), main));
    // A checked-out branch stays where it is.
    crew.repo.git(&["checkout", "-q", EPIC]);
    let more = crew.worked("More", "more.txt", "two\n").await.1;
    crew.repo.git(&["push", "-q", "origin", &format!("{}:refs/heads/{EPIC}", head(&more.path))]);
    LocalWorktrees::default().branch_follow(&crew.repo.path, EPIC).await.expect("looks");
    assert_eq!(crew.repo.commit_of(EPIC), there);
}

#[tokio::test]
async fn what_waits_for_checks_is_followed_until_it_is_merged() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    let waits = stands(json!({"mergeable_state": "blocked", "auto_merge": {}}));
    forge.on_each(PULL, [stands(json!({"mergeable_state": "blocked"})), waits]);
    forge.on("/graphql", Reply::ok(r#"{"data": {}}"#));
    forge.seen();
    assert_eq!(crew.merge(&pull).await, PullEnd::Waiting);
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), known.is_awaited), (OPEN, true));
    let asked = forge.seen().iter().filter(|seen| seen.method != "GET").count();
    assert_eq!(asked, 1, "the forge is told once, however often it is asked");
    assert_eq!(crew.engine.pulls_look(false).await.expect("looks"), 0);
    forge.on(PULL, stands(json!({"state": "closed", "merged": true, "merge_commit_sha": "abc"})));
    assert_eq!(
        crew.engine.pulls_look(false).await.expect("looks"),
        1,
        "at once, not minutes later"
    );
    let known = crew.known(&pull).await;
    assert_eq!((known.status.as_str(), known.merge_commit.as_deref()), (MERGED, Some("abc")));
    assert_eq!(crew.news(task).await, ["pr.opened", "pr.updated", "pr.merged"]);
    assert_eq!(crew.merge(&pull).await, PullEnd::Merged { commit: Some("abc".into()) });
}

/// A slow answer of the forge arrives within the caller's patience.
#[tokio::test]
async fn a_forge_that_thinks_is_asked_again() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    let thinks = stands(json!({"mergeable": null, "mergeable_state": "unknown"}));
    forge.on_each(PULL, [thinks.clone(), stands(json!({}))]);
    forge.on(format!("{PULL}/merge"), Reply::ok(r#"{"sha": "abc", "merged": true}"#));
    assert_eq!(crew.merge(&pull).await, PullEnd::Merged { commit: Some("abc".into()) });
    let pull = callboard_domain::pulls::Pull { number: 8, task: None, ..pull };
    forge.on("/repos/acme/shop/pulls/8", thinks);
    let end = crew.merge(&pull).await;
    assert!(
        matches!(end, PullEnd::Refused { ref why } if why.contains("not decided yet")),
        "{end:?}"
    );
}

#[tokio::test]
async fn conflicts_at_a_forge_are_named_by_git() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "a.txt", "ours\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    let (_, other) = crew.worked("Other", "a.txt", "theirs\n").await;
    let theirs = format!("{}:refs/heads/{EPIC}", head(&other.path));
    crew.repo.git(&["push", "-q", "origin", &theirs]);
    forge.on(PULL, stands(json!({"mergeable": false, "mergeable_state": "dirty"})));
    let end = crew.merge(&pull).await;
    assert_eq!(end, PullEnd::Conflicts { files: vec!["a.txt".into()] });
    assert_eq!(crew.known(&pull).await.status, OPEN);
}

/// Callers that may retry recognise a transient fault by its words.
#[tokio::test]
async fn a_forge_out_of_reach_is_told_from_one_that_says_no() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    crew.repo.git(&["branch", "-q", "callboard/own", &worktree.branch]);
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    forge.on(PULL, Reply::new(502, format!("{{\"message\": \"{TOKEN}\"}}")));
    let fault = crew.engine.pull_merge(&crew.op(), &pull, None).await.expect_err("a fault");
    let words = fault.to_string();
    assert!(
        matches!(fault, EngineError::Unavailable(_)) && words.contains("connection"),
        "{words}"
    );
    assert!(!words.contains(TOKEN), "{words}");
    forge.on(PULL, Reply::new(404, "{}"));
    let end = crew.merge(&pull).await;
    assert!(matches!(end, PullEnd::Refused { ref why } if why.contains("token")), "{end:?}");
    assert_eq!(crew.news(task).await, ["pr.opened"]);

    forge.on(PULLS, Reply::new(503, "{}"));
    commit(&worktree, "more.txt", "more\n");
    let again = crew.try_open(task, &worktree.branch, EPIC).await;
    // The list is not answered either: the fake forge has no reply for that branch.
    assert!(again.is_err(), "{again:?}");
    assert_eq!(crew.engine.pulls_of_task(&crew.op(), task).await.expect("reads").len(), 1);
}

/// Commits at the forge that were not seen here are never overwritten.
#[tokio::test]
async fn a_push_takes_nothing_away() {
    let forge = opening("callboard/own").await;
    let crew = crew(&forge).await;
    let (task, worktree) = crew.worked("Login", "login.txt", "one\n").await;
    let own = |commit: &str| crew.repo.git(&["branch", "-q", "-f", "callboard/own", commit]);
    own(&worktree.branch);
    crew.try_open(task, "callboard/own", EPIC).await.expect("opens");
    let first = head(&worktree.path);
    // After a rebase, our own earlier push is overwritten.
    git_in(&worktree.path, &["commit", "-q", "--amend", "-m", "again"]);
    own(&head(&worktree.path));
    let pull = crew.try_open(task, "callboard/own", EPIC).await.expect("keeps");
    assert_eq!((pull.number, at_origin(&crew, "callboard/own")), (7, head(&worktree.path)));
    // Another user pushed there.
    let place = crew.repo.path.with_file_name("remotes").join("shop.git");
    git_in(&place, &["update-ref", "refs/heads/callboard/own", &first]);
    let refused = crew.try_open(task, "callboard/own", EPIC).await;
    let said = matches!(&refused, Err(PullFault::Refused(words)) if words.contains("fetch them"));
    assert!(said, "{refused:?}");
    assert_eq!(at_origin(&crew, "callboard/own"), first);
    // Additional commits at the forge are no reason to push.
    git_in(&place, &["update-ref", &format!("refs/heads/{EPIC}"), &first]);
    let quoted = "/repos/acme/shop/pulls?state=open&head=acme%3Acallboard%2Fepic%2D1&base=main";
    forge.on(quoted, Reply::ok("[]"));
    let epic = crew.try_open(task, EPIC, "main").await.expect("opens");
    assert_eq!((epic.head.as_str(), at_origin(&crew, EPIC)), (first.as_str(), first.clone()));
}

/// A look covers a limited number of pulls; later ones have their turn too.
#[tokio::test]
async fn none_is_forgotten_over_all_the_others() {
    let forge = FakeForge::start().await;
    let crew = crew(&forge).await;
    let (task, _) = crew.task("Login").await;
    for number in 1..=103 {
        let at = Some((number, format!("https://github.com/acme/shop/pull/{number}")));
        let (branch, base) = (format!("b{number}"), EPIC.to_owned());
        let (forge, repo) = ("github".to_owned(), "acme/shop".to_owned());
        let (head, title) = ("h".to_owned(), "Login".to_owned());
        let open = PullOpen { task, forge, repo, at, branch, base, head, title, machine: None };
        let op = Op {
            org: "default".into(),
            actor: "agent:w1".parse().expect("an actor"),
            tool: "test",
            retry_key: None,
            policy: crew.engine.policy().clone(),
            command: Command::PullOpen(open),
        };
        crew.engine.store().apply(op).await.expect("opens");
    }
    let asked = async || {
        crew.engine.pulls_look(true).await.expect("looks");
        forge.paths().len()
    };
    assert_eq!([asked().await, asked().await, asked().await], [100, 3, 100]);
}
