//! Where the files come from, and that the user's repository does not change.

use std::fs;
use std::net::TcpListener;

use callboard_domain::relay::spec::Repo as Named;
use callboard_domain::relay::{FailReason, JobSpec};
use callboard_engine::ports::AgentRunner;
use callboard_runner::{AgentSettings, LocalAgents, LocalRoots, SandboxMode};
use serde_json::json;

use super::bed::{Bed, DIFF, answer, assert_failed, assert_succeeded, run};
use crate::fixture::{Repo, git_in, snapshot, until};

/// A repository with dirty files, a stash, a checked-out branch, and a hook that would write.
pub fn lived_in() -> Repo {
    let repo = Repo::committed();
    repo.write("a.txt", "stashed\n");
    repo.git(&["stash", "-q"]);
    repo.git(&["checkout", "-q", "-b", "feature"]);
    repo.write("a.txt", "staged\n");
    repo.git(&["add", "a.txt"]);
    repo.write("sub/b.txt", "dirty\n");
    repo.write("untracked.txt", "mine\n");
    let hook = repo.path.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().expect("a folder")).expect("makes it");
    fs::write(&hook, "#!/bin/sh\ntouch hooked\n").expect("writes a hook");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, mode).expect("chmod");
    repo
}

#[tokio::test]
async fn a_local_repository_is_only_read() {
    let bed = Bed::of(lived_in());
    let before = snapshot(&bed.repo.path);
    let looks = "cat > /dev/null
        test \"$(cat a.txt)\" = one || exit 7
        test ! -e untracked.txt || exit 8
        git log -1 --format=%s HEAD | grep -q first || exit 9
        test \"$(git rev-parse HEAD)\" = \"$(cat \"$BED/head\")\" || exit 10
        cat \"$BED/words\"";
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    fs::write(bed.file("head"), bed.head()).expect("writes");
    for agent in [bed.script(looks), bed.script("exit 1")] {
        let _ = bed.run(agent).await;
    }
    assert_succeeded(&bed.run(bed.script(looks)).await);
    assert!(snapshot(&bed.repo.path) == before, "byte by byte the same");
}

#[tokio::test]
async fn what_an_agent_writes_is_thrown_away() {
    let bed = Bed::of(lived_in());
    let before = snapshot(&bed.repo.path);
    let writes = "cat > /dev/null; echo x >> a.txt; echo y > new.txt; rm -f sub/b.txt
        git commit -qam mine 2>/dev/null; cat \"$BED/words\"";
    fs::write(bed.file("words"), answer(DIFF)).expect("writes");
    let settings =
        AgentSettings { sandbox: SandboxMode::Executor, ..bed.settings(bed.script(writes)) };
    let report = run(settings, bed.order(bed.spec(&[]))).await;
    assert_succeeded(&report);
    assert_eq!(report.patch.as_deref(), Some(DIFF), "only what it said counts");
    assert!(report.logs.contains("discarded: "), "{}", report.logs);
    assert!(snapshot(&bed.repo.path) == before, "byte by byte the same");
}

#[tokio::test]
async fn an_address_is_fetched_once_and_kept() {
    let origin = lived_in();
    origin.git(&["stash", "drop", "-q"]);
    let bed = Bed::of(origin);
    let url = format!("file://{}", bed.repo.path.display());
    let mut settings = bed.settings(bed.saying(&answer(DIFF)));
    settings.git_schemes.push("file".into());
    let first = bed.head();
    assert_succeeded(&run(settings.clone(), bed.order(git_spec(&url, &first))).await);

    // An older commit that no branch ends in: refused by its id in this repository.
    bed.repo.git(&["commit", "-qam", "second"]);
    let second = bed.head();
    bed.repo.write("a.txt", "three\n");
    bed.repo.git(&["commit", "-qam", "third"]);
    bed.repo.git(&["branch", "-qf", "main"]);
    bed.repo.git(&["config", "uploadpack.allowAnySHA1InWant", "false"]);
    let conflict = run(settings.clone(), bed.order(git_spec(&url, &second))).await;
    assert_failed(&conflict, FailReason::Conflict, "does not apply");

    // The address is gone, the cache is not.
    let moved = bed.repo.path.with_file_name("moved");
    fs::rename(&bed.repo.path, &moved).expect("moves");
    assert_succeeded(&run(settings.clone(), bed.order(git_spec(&url, &first))).await);
    let unknown = "0123456789012345678901234567890123456789";
    let report = run(settings, bed.order(git_spec(&url, unknown))).await;
    assert_failed(&report, FailReason::InternalError, "git fetch");
    fs::rename(&moved, &bed.repo.path).expect("moves back");
}

fn git_spec(url: &str, commit: &str) -> JobSpec {
    let repo = json!({"type": "git", "url": url, "baseBranch": "main", "baselineCommit": commit});
    // A separate bed: the other one's repository may be moved away.
    Bed::new().spec(&[("repo", repo)])
}

fn named(settings: AgentSettings) -> AgentSettings {
    AgentSettings { git_hosts: vec!["127.0.0.1".into()], ..settings }
}

/// A server that counts connections and answers none of them.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    listener.set_nonblocking(true).expect("does not wait");
    let port = listener.local_addr().expect("an address").port();
    (listener, format!("https://127.0.0.1:{port}/x.git"))
}

#[tokio::test]
async fn a_private_address_is_not_connected_to() {
    let (bed, (listener, url)) = (Bed::new(), listener());
    let by_name = url.replace("127.0.0.1", "localhost");
    for url in [url.clone(), by_name, url.replace("127.0.0.1", "127.1")] {
        let spec = git_spec(&url, &bed.head());
        let report = run(bed.settings(bed.saying("")), bed.order(spec)).await;
        assert_failed(&report, FailReason::InternalError, "relay.git_hosts");
        let met = listener.accept().expect_err("nobody connects").kind();
        assert_eq!(met, std::io::ErrorKind::WouldBlock, "{url}");
    }
    // A named host is contacted; it hangs up.
    let settings = named(bed.settings(bed.saying("")));
    let asks = run(settings, bed.order(git_spec(&url, &bed.head())));
    let hangs_up = async {
        let mut met = false;
        until("git connects", || {
            met = met || listener.accept().is_ok();
            met
        })
        .await;
        drop(listener);
    };
    let (report, ()) = tokio::join!(asks, hangs_up);
    assert_failed(&report, FailReason::InternalError, "unable to access");
}

#[tokio::test]
async fn an_address_out_of_reach_is_an_internal_error() {
    let bed = Bed::new();
    let commit = bed.head();
    for (url, words) in [
        ("https://ana:hunter22@127.0.0.1:1/x.git", "unable to access"),
        ("file:///nowhere/at/all", "not allowed"),
    ] {
        let settings = named(bed.settings(bed.saying("")));
        let report = run(settings, bed.order(git_spec(url, &commit))).await;
        assert_failed(&report, FailReason::InternalError, words);
        assert!(!report.logs.contains("hunter22"), "{}", report.logs);
    }
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn a_linked_worktree_and_a_shallow_clone_are_repositories_too() {
    let origin = Repo::committed();
    origin.write("a.txt", "one\n\n");
    origin.commit("second");
    origin.write("a.txt", "one\n");
    origin.commit("third");
    let linked = origin.path.with_file_name("linked");
    origin.git(&["worktree", "add", "-q", "--detach", &linked.display().to_string()]);
    let shallow = origin.path.with_file_name("shallow");
    let url = format!("file://{}", origin.path.display());
    git_in(&origin.path, &["clone", "-q", "--depth=1", &url, &shallow.display().to_string()]);
    let bed = Bed::of(origin);
    for path in [linked, shallow] {
        let spec = bed.spec(&[("repo.path", json!(path))]);
        assert_succeeded(&bed.run_spec(bed.saying(&answer(DIFF)), spec).await);
    }
}

#[tokio::test]
async fn a_local_repository_is_judged_before_a_job_is_taken() {
    let bed = Bed::new();
    let outside = tempfile::tempdir().expect("a temporary folder");
    let judge = async |roots: LocalRoots, path: &std::path::Path, commit: &str| {
        let settings = AgentSettings { local_roots: roots, ..bed.settings(bed.saying("")) };
        let repo = Named::Local {
            path: path.display().to_string(),
            base_branch: "main".into(),
            baseline_commit: commit.into(),
        };
        let found = LocalAgents::new(settings).repo_problems(&repo).await;
        found
            .into_iter()
            .map(|found| format!("{} {}", found.path, found.problem))
            .collect::<String>()
    };
    let (path, head) = (bed.repo.path.clone(), bed.head());
    let above = path.parent().expect("a folder").to_owned();
    assert_eq!(judge(LocalRoots::Any, &path, &head).await, "");
    assert_eq!(judge(LocalRoots::Under(vec![above]), &path, &head).await, "");
    let table = [
        (LocalRoots::Any, path.as_path(), "0".repeat(40), "repo.baselineCommit is not in"),
        (LocalRoots::Any, outside.path(), head.clone(), "repo.path must be a git repository"),
        (
            LocalRoots::Any,
            std::path::Path::new("/nowhere"),
            head.clone(),
            "repo.path must be a folder",
        ),
        (LocalRoots::Under(vec![]), path.as_path(), head.clone(), "repo.path must be a folder"),
        (LocalRoots::Under(vec![outside.path().into()]), path.as_path(), head, "relay.local_roots"),
    ];
    for (roots, path, commit, words) in table {
        let found = judge(roots.clone(), path, &commit).await;
        assert!(found.contains(words), "{roots:?} {path:?}: {found}");
    }
}
