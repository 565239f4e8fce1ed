//! Files that an agent can write, in its worktree and in the worktree's own part of the repository, name no program
//! that our git runs and no folder that our git writes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{
    CheckFault, CheckRun, CheckRunner, Merges, Rebased, Worktree, Worktrees,
};
use callboard_runner::{CheckSandbox, LocalChecks, LocalWorktrees, ProjectCommands};
use tokio_util::sync::CancellationToken;

use super::{commit, head, make, merge, merge_order, prepare, write};
use crate::fixture::{Repo, files_in, git_in, run};
use crate::skipped::skipped;

const MESSAGE: &str = "chore: adding uncommitted agent changes (CB-1)";

/// A program that leaves a file behind when git runs it as a filter.
struct Trap {
    proof: PathBuf,
}

impl Trap {
    /// The proof is in this folder, so any process that may write the folder can leave it.
    fn in_folder(folder: &Path) -> Self {
        Self { proof: folder.join("ran.o") }
    }

    fn filter(&self) -> String {
        format!("[filter \"x\"]\n\tclean = touch '{}'; cat\n", self.proof.display())
    }

    #[track_caller]
    fn must_not_have_run(&self, what: &str) {
        assert!(!self.proof.exists(), "{what} ran a program of the agent");
    }
}

/// Git's own folder of a worktree.
fn own(repo: &Repo, worktree: &Worktree) -> PathBuf {
    repo.path.join(".git/worktrees").join(worktree.path.file_name().expect("a name"))
}

fn check(repo: &Repo, worktree: &Worktree, cmd: &str) -> CheckRun {
    CheckRun { root: worktree.path.clone(), ..repo.check(cmd) }
}

/// Every operation that looks at a worktree or works in it.
async fn all_of_it(repo: &Repo, worktree: &Worktree, trap: &Trap) {
    let worktrees = LocalWorktrees::default();
    let edit = |text: &str| write(worktree, "a.txt", text);
    edit("1\n2\n");
    files_in(repo, &worktree.path).await;
    trap.must_not_have_run("the tree id");
    edit("2\n1\n");
    let ran = run(check(repo, worktree, "true")).await.expect("it runs");
    assert!(ran.passed());
    trap.must_not_have_run("a check");
    worktrees.worktree_state(worktree, "main").await.expect("a state");
    trap.must_not_have_run("the state");
    worktrees.worktree_diff(worktree, "main", Some("")).await.expect("a diff");
    trap.must_not_have_run("the diff");
    let before = repo.commit_of(&worktree.branch);
    let made = worktrees.leftovers_commit(worktree, MESSAGE).await.expect("commits");
    trap.must_not_have_run("the commit of leftovers");
    let made = made.expect("there was something");
    assert_eq!(repo.commit_of(&worktree.branch), made);
    assert_eq!(repo.commit_of(&format!("{made}^")), before);
    assert_eq!(repo.file_in(&made, "a.txt"), "2\n1\n");
    repo.write("ours.txt", "ours\n");
    repo.commit("ours");
    worktrees.worktree_rebase(worktree, "main", false).await.expect("rebases");
    trap.must_not_have_run("the rebase");
    assert!(worktree.path.join("ours.txt").exists());
    merge(worktree).await.expect("merges");
    trap.must_not_have_run("the merge");
}

#[tokio::test]
async fn a_git_file_that_leads_to_filters_is_not_believed() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let trap = Trap::in_folder(&worktree.path);
    let fake = worktree.path.join("fake.o");
    git_in(&worktree.path, &["init", "-q", "--bare", &fake.display().to_string()]);
    fs::write(fake.join("config"), format!("[core]\n\tbare = false\n{}", trap.filter()))
        .expect("writes");
    write(&worktree, ".git", &format!("gitdir: {}\n", fake.display()));
    write(&worktree, ".gitattributes", "* filter=x\n");
    all_of_it(&repo, &worktree, &trap).await;
}

/// `git sparse-checkout` turns these settings on, and then each worktree has its own file for them.
#[tokio::test]
async fn settings_of_a_worktree_are_not_believed() {
    let repo = Repo::with_origin();
    repo.git(&["config", "extensions.worktreeConfig", "true"]);
    let worktree = make(&repo, "CB-1").await;
    let trap = Trap::in_folder(&worktree.path);
    fs::write(own(&repo, &worktree).join("config.worktree"), trap.filter()).expect("writes");
    write(&worktree, ".gitattributes", "* filter=x\n");
    all_of_it(&repo, &worktree, &trap).await;
}

#[tokio::test]
async fn a_submodule_of_an_agent_is_not_entered() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let trap = Trap::in_folder(&worktree.path);
    let inner = worktree.path.join("lib");
    git_in(&worktree.path, &["init", "-q", "lib"]);
    fs::write(inner.join("b.txt"), "1\n2\n").expect("writes");
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "inner"]);
    git_in(&worktree.path, &["add", "lib"]);
    git_in(&worktree.path, &["commit", "-q", "-m", "a submodule"]);
    let config = fs::read_to_string(inner.join(".git/config")).expect("reads");
    fs::write(inner.join(".git/config"), config + &trap.filter()).expect("writes");
    fs::write(inner.join(".gitattributes"), "* filter=x\n").expect("writes");
    fs::write(inner.join("b.txt"), "2\n1\n").expect("writes");
    let commit = head(&inner);
    all_of_it(&repo, &worktree, &trap).await;
    let kept = repo.git(&["rev-parse", "main:lib"]);
    assert_eq!(kept.trim(), commit, "its commit alone is kept");
}

/// Our git follows the branch's name into a file that agents write.
#[tokio::test]
async fn a_branch_that_stands_for_another_moves_nothing() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let main = repo.commit_of("main");
    let branch = repo.path.join(".git/refs/heads").join(&worktree.branch);
    fs::write(branch, "ref: refs/heads/main\n").expect("writes");
    write(&worktree, "new.txt", "new\n");
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    assert_eq!(repo.commit_of("main"), main, "{made:?}");
}

#[tokio::test]
async fn a_lock_that_is_a_link_is_not_opened() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let victim = repo.path.with_file_name("victim");
    fs::write(&victim, "whole").expect("writes");
    symlink(&victim, own(&repo, &worktree).join("callboard.lock")).expect("a link");
    write(&worktree, "new.txt", "new\n");
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    let words = made.expect_err("refused").to_string();
    assert!(words.contains("cannot lock the worktree"), "{words}");
    assert_eq!(fs::read_to_string(victim).expect("reads"), "whole");
}

/// Git lists a worktree at the place that the worktree's own part names.
#[tokio::test]
async fn a_record_that_leads_elsewhere_is_no_checkout_of_a_target() {
    let repo = Repo::with_origin();
    repo.git(&["checkout", "-q", "-b", "mine"]);
    let (worktree, other) = (make(&repo, "CB-1").await, make(&repo, "CB-2").await);
    let trap = Trap::in_folder(&other.path);
    let evil = other.path.join("evil.o");
    repo.git(&["clone", "-q", ".", &evil.display().to_string()]);
    git_in(&evil, &["checkout", "-q", "main"]);
    let config = fs::read_to_string(evil.join(".git/config")).expect("reads");
    fs::write(evil.join(".git/config"), config + &trap.filter()).expect("writes");
    fs::write(evil.join(".gitattributes"), "* filter=x\n").expect("writes");
    fs::write(evil.join("a.txt"), "eno\n").expect("writes");
    let record = own(&repo, &other);
    fs::write(record.join("gitdir"), format!("{}/.git\n", evil.display())).expect("writes");
    fs::write(record.join("HEAD"), "ref: refs/heads/main\n").expect("writes");
    commit(&worktree, "new.txt", "new\n");
    let merged = merge(&worktree).await;
    trap.must_not_have_run("a merge");
    let words = merged.expect_err("refused").to_string();
    assert!(words.contains("CB-2"), "{words}");
}

#[tokio::test]
async fn a_record_that_leads_elsewhere_hides_no_files() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let record = own(&repo, &worktree).join("gitdir");
    fs::write(record, format!("{}/sub/.git\n", repo.path.display())).expect("writes");
    let before = repo.tree().await;
    repo.write("sub/b.txt", "changed\n");
    assert_ne!(repo.tree().await, before);
}

/// A target that is the branch of another task is checked out in that task's worktree.
#[tokio::test]
async fn a_worktree_on_its_own_branch_follows_a_merge_into_that_branch() {
    let repo = Repo::with_origin();
    let (lower, upper) = (make(&repo, "CB-1").await, make(&repo, "CB-2").await);
    commit(&upper, "new.txt", "new\n");
    let prepared = prepare(merge_order(&upper, &lower.branch)).await.expect("prepares");
    let merged = super::publish(prepared, false).await.expect("merges");
    assert_eq!(merged.commit.as_ref(), Some(&head(&lower.path)));
    assert_eq!(fs::read_to_string(lower.path.join("new.txt")).expect("reads"), "new\n");
    assert_eq!(super::status(&lower.path), "");
}

/// Settings of people define filters such as git-lfs, and an agent writes the attributes that call them.
#[tokio::test]
async fn filters_of_people_do_not_run_and_their_files_are_not_committed_without_them() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let proof = worktree.path.join("ran.o");
    let program = format!("touch '{}'; cat", proof.display());
    repo.git(&["config", "filter.\"o d\\.d\".process", &program]);
    let worktrees = LocalWorktrees::default();
    write(&worktree, "b.txt", "text\n");
    let made = worktrees.leftovers_commit(&worktree, MESSAGE).await.expect("commits");
    assert!(made.is_some(), "files that no filter is for are committed");
    write(&worktree, ".gitattributes", "a.txt filter=lfs\n");
    repo.git(&["config", "filter.lfs.clean", &program]);
    repo.git(&["config", "filter.lfs.required", "true"]);
    write(&worktree, "a.txt", "eno\n");
    files_in(&repo, &worktree.path).await;
    worktrees.worktree_state(&worktree, "main").await.expect("a state");
    let words = worktrees.leftovers_commit(&worktree, MESSAGE).await.expect_err("refused");
    let words = words.to_string();
    assert!(words.contains("a.txt goes through the filter lfs"), "{words}");
    assert!(words.contains("git config filter.lfs.callboard true"), "{words}");
    assert!(!proof.exists(), "a filter ran");
    // The person's own git runs the filter, in this worktree too.
    git_in(&worktree.path, &["add", "-A"]);
    assert!(proof.exists());
    git_in(&worktree.path, &["reset", "-q"]);
    fs::remove_file(&proof).expect("removes");
    // So does our git after the person allows it in the repository's own settings.
    repo.git(&["config", "filter.lfs.clean", "tr a-z A-Z"]);
    repo.git(&["config", "filter.lfs.callboard", "true"]);
    let made = worktrees.leftovers_commit(&worktree, MESSAGE).await.expect("commits");
    assert_eq!(repo.file_in(&made.expect("there was something"), "a.txt"), "ENO\n");
}

/// The files of a commit that an agent made are written without the filters that it names.
#[tokio::test]
async fn a_worktree_of_an_agents_commit_is_made_without_filters() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let proof = repo.path.with_file_name("ran");
    repo.git(&["config", "filter.x.smudge", &format!("touch '{}'; cat", proof.display())]);
    commit(&worktree, ".gitattributes", "* filter=x\n");
    commit(&worktree, "new.txt", "new\n");
    repo.write("ours.txt", "ours\n");
    repo.commit("ours");
    let worktrees = LocalWorktrees::default();
    let prepared = prepare(merge_order(&worktree, "main")).await.expect("prepares");
    let place = worktrees.merge_look(&prepared.parts[0]).await.expect("a folder");
    assert_eq!(fs::read_to_string(place.join("new.txt")).expect("reads"), "new\n");
    assert_eq!(super::status(&place), "");
    assert!(!proof.exists(), "a folder of a merge ran a filter");
    worktrees.merge_abandon(prepared).await;
    fs::remove_dir_all(&worktree.path).expect("removes");
    let again = make(&repo, "CB-1").await;
    assert_eq!(again, worktree);
    assert_eq!(fs::read_to_string(again.path.join("new.txt")).expect("reads"), "new\n");
    assert_eq!(super::status(&again.path), "");
    assert!(!proof.exists(), "a worktree that came back ran a filter");
}

/// A driver that does not run is a conflict, which a person resolves; never one side's file as it is.
#[tokio::test]
async fn merge_drivers_of_people_do_not_run_in_a_rebase() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let proof = worktree.path.join("ran.o");
    repo.git(&["config", "merge.mine.driver", &format!("touch '{}'", proof.display())]);
    write(&worktree, ".gitattributes", "a.txt merge=mine\n");
    commit(&worktree, "a.txt", "ours\n");
    repo.write("a.txt", "theirs\n");
    repo.commit("theirs");
    let rebased = LocalWorktrees::default().worktree_rebase(&worktree, "main", false).await;
    let conflict = Rebased::Conflict { target: "main".into(), files: vec!["a.txt".into()] };
    assert_eq!(rebased, Ok(conflict));
    assert!(!proof.exists(), "a merge driver ran");
    assert_eq!(super::status(&worktree.path), "");
}

/// `git sparse-checkout` keeps its switch among the settings of the worktree.
#[tokio::test]
async fn a_sparse_worktree_stays_sparse() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    git_in(&worktree.path, &["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert!(!worktree.path.join("sub/b.txt").exists());
    let clean = files_in(&repo, &worktree.path).await.tree;
    assert_eq!(clean, files_in(&repo, &repo.path).await.tree);
    write(&worktree, "a.txt", "edited\n");
    let made = LocalWorktrees::default().leftovers_commit(&worktree, MESSAGE).await;
    assert!(made.expect("commits").is_some());
    repo.write("sub/c.txt", "three\n");
    repo.commit("beyond");
    let rebased = LocalWorktrees::default().worktree_rebase(&worktree, "main", false).await;
    assert!(matches!(rebased, Ok(Rebased::Onto { .. })), "{rebased:?}");
    assert!(!worktree.path.join("sub").exists());
    assert_eq!(super::status(&worktree.path), "");
}

async fn checked(checks: LocalChecks, run: CheckRun) -> Result<bool, CheckFault> {
    checks.run(run, CancellationToken::new()).await.map(|ran| ran.passed())
}

#[tokio::test]
async fn a_check_of_an_agents_worktree_writes_there_alone() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("a folder");
    let on = |writable: &[&Path]| {
        let writable = writable.iter().map(|path| path.display().to_string()).collect();
        let commands = ProjectCommands::default().with_sandbox(CheckSandbox::On, writable);
        LocalChecks::new(true).with_commands(commands)
    };
    let own = "echo x > x.o && echo y > \"$TMPDIR/y\" && test \"$TMPDIR\" != /tmp";
    match checked(on(&[]), check(&repo, &worktree, own)).await {
        Err(CheckFault::Infrastructure(words)) if words.contains("checks.sandbox = on") => {
            skipped("no Landlock here");
            return;
        }
        passed => assert_eq!(passed, Ok(true)),
    }
    let escape = format!("echo x > '{}/escaped'", outside.display());
    let commit = "git commit -q --allow-empty -m x";
    for tries in [&escape, commit, "echo x >> ../../../a.txt", "rm -rf ../../../.git/refs"] {
        let checks = LocalChecks::new(true);
        let ran = checks.run(check(&repo, &worktree, tries), CancellationToken::new()).await;
        let ran = ran.expect("it runs");
        assert!(!ran.passed(), "{tries}");
        let log = repo.read(&ran.log);
        let last = log.lines().last().expect("a line");
        assert!(last.contains("ran confined") && last.contains("checks.writable"), "{log}");
    }
    assert!(!outside.join("escaped").exists());
    assert_eq!(repo.read("a.txt"), "one\n");
    assert_eq!(checked(on(&[&outside]), check(&repo, &worktree, &escape)).await, Ok(true));
    let off = ProjectCommands::default().with_sandbox(CheckSandbox::Off, Vec::new());
    let off = LocalChecks::new(true).with_commands(off);
    assert_eq!(checked(off, check(&repo, &worktree, &escape)).await, Ok(true));
    // The person's own checkout has the person's rights, and no such line.
    assert_eq!(checked(on(&[]), repo.check(&escape)).await, Ok(true));
    let ran = run(repo.check("false")).await.expect("it runs");
    assert!(!repo.read(&ran.log).contains("confined"));
}
