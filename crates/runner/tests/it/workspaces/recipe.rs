//! A worktree is made ready by the recipe of its project: ports, links, copies and the setup command. A hostile
//! repository gets nothing out of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::board::recipe::PortRange;
use callboard_engine::ports::{
    CheckRun, CheckRunner, MergeFault, Removal, TaskWorktree, Worktree, WorktreeFault,
    WorktreeReady, Worktrees,
};
use callboard_runner::{CheckSandbox, LocalChecks, LocalWorktrees, ProjectCommands, Recipe};
use tokio_util::sync::CancellationToken;

use super::{commit, make, merge, status, write};
use crate::fixture::{Repo, git_in, task, until};
use crate::skipped::skipped;

/// A repository whose `node_modules/`, `target/`, `.env` and `secrets/` are ignored and there.
fn repo() -> Repo {
    let repo = Repo::with_origin();
    repo.write(".gitignore", "*.o\nnode_modules/\ntarget/\n.env*\nsecrets/\n");
    repo.commit("ignores");
    repo.git(&["push", "-q", "origin", "main"]);
    repo.write("node_modules/lib/index.js", "module.exports = 1\n");
    repo.write("target/keep", "built\n");
    repo.write(".env", "KEY=1\n");
    repo.write("secrets/deep/key", "s\n");
    repo
}

fn worktrees(recipe: Recipe) -> LocalWorktrees {
    let commands = ProjectCommands::default().with_recipe(Arc::new(recipe));
    LocalWorktrees::default().with_commands(commands)
}

fn setup(cmd: &str) -> Recipe {
    Recipe { setup: Some(cmd.into()), ..Recipe::default() }
}

fn links(names: &[&str]) -> Recipe {
    Recipe { links: names.iter().map(ToString::to_string).collect(), ..Recipe::default() }
}

fn of(worktree: &Worktree) -> TaskWorktree {
    TaskWorktree { worktree: worktree.clone(), task: task(), slug: "shop-1".into() }
}

async fn ready(recipe: Recipe, worktree: &Worktree) -> Result<WorktreeReady, WorktreeFault> {
    worktrees(recipe).worktree_ready(of(worktree), CancellationToken::new()).await
}

fn refused(ready: Result<WorktreeReady, WorktreeFault>) -> String {
    match ready {
        Err(WorktreeFault::NotReady(words)) => words,
        other => panic!("not refused: {other:?}"),
    }
}

fn text(worktree: &Worktree, name: &str) -> String {
    fs::read_to_string(worktree.path.join(name)).unwrap_or_default()
}

#[tokio::test]
async fn a_setup_runs_once_sees_the_task_and_leaves_a_log() {
    let repo = repo();
    let worktree = make(&repo, "CB-1").await;
    let ports = repo.path.with_file_name("ports");
    let says =
        "echo \"$CALLBOARD_SLUG $CALLBOARD_PORT $CALLBOARD_PORT_COUNT\" | tee -a seen.o; pwd";
    let recipe = Recipe { ports_folder: Some(ports), ..setup(says) };
    let made = ready(recipe.clone(), &worktree).await.expect("is ready");
    let block = made.ports.expect("a block of ports");
    let line = format!("shop-1 {} 10\n", block.first);
    assert_eq!(text(&worktree, "seen.o"), line);
    let log = repo.read(&made.setup_log.expect("a log"));
    assert!(log.starts_with(&format!("workspace.setup: {says}\nend: succeeded\n")), "{log}");
    assert!(log.ends_with(&format!("----\n{line}{}\n", worktree.path.display())), "{log}");
    let told = text(&worktree, ".callboard/workspace.env");
    let wanted =
        format!("CALLBOARD_SLUG=shop-1\nCALLBOARD_PORT={}\nCALLBOARD_PORT_COUNT=10\n", block.first);
    assert_eq!(told, wanted);
    assert_eq!(status(&worktree.path), "", "its files are hidden from git");

    let again = ready(recipe.clone(), &worktree).await.expect("is ready");
    assert_eq!(again, WorktreeReady { ports: Some(block), setup_log: None });
    assert_eq!(text(&worktree, "seen.o"), line, "it does not run twice");
    let changed = Recipe { setup: Some("echo changed > seen.o".into()), ..recipe };
    ready(changed, &worktree).await.expect("is ready");
    assert_eq!(text(&worktree, "seen.o"), "changed\n", "a changed recipe runs");
}

#[tokio::test]
async fn a_setup_that_fails_says_why_and_is_tried_again() {
    let repo = repo();
    let worktree = make(&repo, "CB-1").await;
    let fails = setup("echo first; echo 'no such package' >&2; exit 3");
    let words = refused(ready(fails.clone(), &worktree).await);
    assert!(
        words.starts_with("workspace.setup failed with exit 3 after 0 s; its log is "),
        "{words}"
    );
    assert!(words.ends_with("\nfirst\nno such package"), "{words}");
    let again = refused(ready(fails, &worktree).await);
    assert_ne!(words, again, "another log: it ran again");
    assert_eq!(repo.logs().len(), 2);

    let slow = Recipe { timeout: Duration::from_millis(300), ..setup("echo begun; sleep 600") };
    let words = refused(ready(slow, &worktree).await);
    assert!(words.starts_with("workspace.setup did not end within 0 s"), "{words}");
    assert!(words.ends_with("\nbegun"), "{words}");
    let shell = Recipe { shell: "no-such-shell".into(), ..setup("true") };
    assert!(refused(ready(shell, &worktree).await).contains("'no-such-shell' cannot be started"));
    ready(setup("true"), &worktree).await.expect("is ready at last");
}

/// The record is written at the end alone: a setup that is stopped, or dies with its server, runs again.
#[tokio::test]
async fn a_setup_that_is_stopped_counts_as_not_run() {
    let repo = repo();
    let worktree = make(&repo, "CB-1").await;
    let stop = CancellationToken::new();
    let all = worktrees(setup("echo $$ > pid.o; sleep 600"));
    let running = all.worktree_ready(of(&worktree), stop.clone());
    let stops = async {
        until("the setup runs", || !text(&worktree, "pid.o").is_empty()).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(running, stops);
    assert_eq!(ended, Err(WorktreeFault::Stopped));
    ready(setup("echo again > again.o"), &worktree).await.expect("is ready");
    assert_eq!(text(&worktree, "again.o"), "again\n");
}

/// Two callers share one preparation, and a caller that leaves does not stop it.
#[tokio::test]
async fn a_caller_that_leaves_stops_nothing_and_a_second_one_waits() {
    let repo = repo();
    let worktree = make(&repo, "CB-1").await;
    let all = worktrees(setup("echo x >> runs.o; while ! test -e go.o; do sleep 0.05; done"));
    let never = CancellationToken::new;
    tokio::select! {
        ready = all.worktree_ready(of(&worktree), never()) => panic!("it waits: {ready:?}"),
        () = until("the setup runs", || !text(&worktree, "runs.o").is_empty()) => {}
    }
    let second = all.worktree_ready(of(&worktree), never());
    let goes = async { write(&worktree, "go.o", "") };
    let (ready, ()) = tokio::join!(second, goes);
    ready.expect("is ready");
    assert_eq!(text(&worktree, "runs.o"), "x\n", "one preparation for both");
}

#[tokio::test]
async fn ignored_folders_are_linked_and_never_committed() {
    let repo = repo();
    let worktree = make(&repo, "CB-1").await;
    let recipe = links(&["node_modules", "target/", "missing"]);
    ready(recipe, &worktree).await.expect("is ready");
    assert_eq!(
        worktree.path.join("node_modules").read_link().expect("a link"),
        repo.path.join("node_modules")
    );
    assert_eq!(text(&worktree, "target/keep"), "built\n");
    assert!(!worktree.path.join("missing").exists());
    // `node_modules/` matches folders alone, and a link is none.
    assert_eq!(status(&worktree.path), "");
    // An agent that edits `.gitignore` gets no link into a commit of ours.
    write(&worktree, ".gitignore", "*.o\n!node_modules\n!target\n!.env\n");
    assert!(status(&worktree.path).contains("?? node_modules"), "git alone would take it");
    let left = LocalWorktrees::default().leftovers_commit(&worktree, "work").await;
    let head = left.expect("commits").expect("a commit");
    let files = git_in(&worktree.path, &["show", "--format=", "--name-only", &head]);
    assert_eq!(files, ".gitignore\n");
}

#[tokio::test]
async fn files_that_are_named_and_ignored_are_copied() {
    let repo = repo();
    repo.write(".worktreeinclude", "# local files\n.env*\nsecrets/\na.txt\nplain\n!.env.skip\n");
    repo.write(".env.skip", "no\n");
    repo.write("plain", "not ignored\n");
    repo.write("apps/web/.env.local", "PORT=1\n");
    let worktree = make(&repo, "CB-1").await;
    ready(Recipe::default(), &worktree).await.expect("is ready");
    assert_eq!(text(&worktree, ".env"), "KEY=1\n");
    assert_eq!(text(&worktree, "apps/web/.env.local"), "PORT=1\n");
    assert_eq!(text(&worktree, "secrets/deep/key"), "s\n");
    for not in [".env.skip", "plain", "node_modules"] {
        assert!(!worktree.path.join(not).exists(), "{not}");
    }
    assert_eq!(text(&worktree, "a.txt"), "one\n", "a tracked file is the branch's own");
    assert_eq!(status(&worktree.path), "");

    // A copy that the agent changed stays; a new file of the list comes with the next start.
    write(&worktree, ".env", "KEY=mine\n");
    repo.write(".worktreeinclude", ".env*\nnew.o\n");
    repo.write("new.o", "new\n");
    ready(Recipe::default(), &worktree).await.expect("is ready");
    assert_eq!(
        (text(&worktree, ".env"), text(&worktree, "new.o")),
        ("KEY=mine\n".into(), "new\n".into())
    );
}

/// Whatever the file of a hostile repository says, nothing from outside, of git or of Callboard comes into a worktree.
#[tokio::test]
async fn a_hostile_list_copies_nothing_from_elsewhere() {
    let repo = repo();
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("id_rsa"), "private").expect("a file");
    repo.write(".gitignore", "*\n!.gitignore\n!a.txt\n");
    repo.write(".callboard/callboard.db", "tasks");
    repo.write(".callboard/config.local.toml", "x = 1");
    symlink(outside.join("id_rsa"), repo.path.join("leads-out")).expect("a link");
    symlink(&outside, repo.path.join("folder-out")).expect("a link");
    symlink("../../outside/id_rsa", repo.path.join("sub/relative")).expect("a link");
    let hostile = "*\n**\n/**\n../**\n../outside/id_rsa\n/etc/passwd\n.git/**\n.git/config\n\
                   .callboard/**\n.callboard/callboard.db\nfolder-out/\nfolder-out/id_rsa\n\
                   leads-out\n!/**/..\n[\n";
    repo.write(".worktreeinclude", hostile);
    let worktree = make(&repo, "CB-1").await;
    ready(Recipe::default(), &worktree).await.expect("is ready");
    assert_eq!(text(&worktree, ".env"), "KEY=1\n", "the list works");
    for not in ["leads-out", "folder-out", "sub/relative", "id_rsa", "outside", "passwd"] {
        assert!(worktree.path.join(not).symlink_metadata().is_err(), "{not}");
    }
    let ours: Vec<String> = fs::read_dir(worktree.path.join(".callboard"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(ours, ["workspace.env"], "nothing of Callboard's was copied");
    assert!(worktree.path.join(".git").is_file(), "git's own file is as it was");
    let private = git_in(&worktree.path, &["status", "--porcelain", "--ignored", "-uall"]);
    assert!(!private.contains("id_rsa"), "{private}");

    // The list itself is a plain file, too.
    fs::remove_file(repo.path.join(".worktreeinclude")).expect("removes");
    symlink(outside.join("id_rsa"), repo.path.join(".worktreeinclude")).expect("a link");
    let other = make(&repo, "CB-2").await;
    assert!(refused(ready(Recipe::default(), &other).await).contains("is not a plain file"));
}

/// A branch, which agents write, may have links where copies would go: nothing is written through them.
#[tokio::test]
async fn a_hostile_branch_gets_nothing_written_elsewhere() {
    let repo = repo();
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("a folder");
    repo.write(".worktreeinclude", "secrets/\n.env\n");
    let worktree = make(&repo, "CB-1").await;
    symlink(&outside, worktree.path.join("secrets")).expect("a link");
    symlink(outside.join("env"), worktree.path.join(".env")).expect("a link");
    symlink(&outside, worktree.path.join("node_modules")).expect("a link");
    ready(links(&["node_modules"]), &worktree).await.expect("is ready");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
    symlink(&outside, worktree.path.join(".callboard2")).expect("a link");
    fs::remove_dir_all(worktree.path.join(".callboard")).expect("removes");
    fs::rename(worktree.path.join(".callboard2"), worktree.path.join(".callboard")).expect("moves");
    let faulty = ready(links(&["node_modules", "target"]), &worktree).await;
    assert!(faulty.is_err(), "{faulty:?}");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
}

#[tokio::test]
async fn a_link_that_would_leave_or_replace_is_refused() {
    let repo = repo();
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("a folder");
    repo.write("kept/file", "plain\n");
    symlink(&outside, repo.path.join("leads.o")).expect("a link");
    let worktree = make(&repo, "CB-1").await;
    for (link, why) in [
        ("sub", "sub is tracked by git"),
        ("a.txt", "a.txt is tracked by git"),
        ("kept", "kept is not ignored by git"),
        ("leads.o", "leads.o is not a folder of the main checkout"),
        ("../outside", "../outside is not a plain path below the repository"),
        ("/etc", "/etc is not a plain path below the repository"),
        (".git", ".git is a folder of git or of Callboard"),
        (".callboard", ".callboard is a folder of git or of Callboard"),
    ] {
        let words = refused(ready(links(&[link]), &worktree).await);
        assert_eq!(words, format!("workspace.link: {why}"));
    }
    assert_eq!(status(&worktree.path), "");
    // A folder that the branch has by itself is left alone.
    write(&worktree, "node_modules/own.js", "mine\n");
    ready(links(&["node_modules"]), &worktree).await.expect("is ready");
    assert_eq!(text(&worktree, "node_modules/own.js"), "mine\n");
}

/// What the recipe placed is refused in a merge even if the agent committed it itself.
#[tokio::test]
async fn a_merge_takes_no_file_that_the_recipe_placed() {
    let repo = repo();
    repo.write(".worktreeinclude", ".env\n");
    let worktree = make(&repo, "CB-1").await;
    ready(Recipe::default(), &worktree).await.expect("is ready");
    git_in(&worktree.path, &["add", "-f", ".env"]);
    git_in(&worktree.path, &["commit", "-q", "-m", "oops"]);
    let merged = merge(&worktree).await;
    let Err(MergeFault::Worktree(WorktreeFault::Failed(words))) = merged else {
        panic!("merged: {merged:?}")
    };
    assert!(words.contains("the workspace recipe placed there: .env;"), "{words}");
    git_in(&worktree.path, &["reset", "-q", "--hard", "HEAD~1"]);
    commit(&worktree, "b.txt", "work\n");
    merge(&worktree).await.expect("merges");
}

fn confined(recipe: Recipe) -> ProjectCommands {
    let commands = ProjectCommands::default().with_sandbox(CheckSandbox::On, Vec::new());
    commands.with_recipe(Arc::new(recipe))
}

/// The setup runs confined as a check does; a linked folder is read-only unless the settings open it.
#[tokio::test]
async fn a_confined_setup_writes_its_worktree_and_opened_links_alone() {
    let repo = repo();
    let names = || ["node_modules", "target"].map(str::to_owned).to_vec();
    let recipe = |cmd: &str, writable: &[&str]| Recipe {
        links: names(),
        writable: writable.iter().map(ToString::to_string).collect(),
        ..setup(cmd)
    };
    let escape = format!("echo x > '{}'", repo.path.with_file_name("escaped").display());
    let tries: [(&str, &[&str], bool); 8] = [
        ("echo x > own.o && echo x > \"$TMPDIR/x\"", &[], true),
        (escape.as_str(), &[], false),
        ("echo x >> ../../../a.txt", &[], false),
        ("echo x > node_modules/planted.js", &[], false),
        ("cat node_modules/lib/index.js", &[], true),
        ("echo x > target/built", &[], false),
        ("echo x > target/built", &["target"], true),
        ("echo x > node_modules/planted.js", &["target"], false),
    ];
    for (n, (cmd, writable, succeeds)) in tries.into_iter().enumerate() {
        let worktree = make(&repo, &format!("CB-{n}")).await;
        let all = LocalWorktrees::default().with_commands(confined(recipe(cmd, writable)));
        let ready = all.worktree_ready(of(&worktree), CancellationToken::new()).await;
        match ready {
            Err(WorktreeFault::NotReady(words)) if words.contains("checks.sandbox = on") => {
                skipped("no Landlock here");
                return;
            }
            ready => assert_eq!(ready.is_ok(), succeeds, "{cmd}: {ready:?}"),
        }
    }
    assert!(!repo.path.join("node_modules/planted.js").exists());
    assert_eq!(repo.read("target/built"), "x\n");
    assert_eq!(repo.read("a.txt"), "one\n");
    // A check has the same rights, and the variables and the ports of its task.
    let worktree = make(&repo, "CB-9").await;
    let open = recipe("true", &["target"]);
    let all = LocalWorktrees::default().with_commands(confined(open.clone()));
    all.worktree_ready(of(&worktree), CancellationToken::new()).await.expect("is ready");
    let checks = LocalChecks::new(true).with_commands(confined(open));
    for (cmd, passes) in [
        ("echo y > target/built && test \"$CALLBOARD_SLUG\" = shop-1", true),
        ("echo y > node_modules/planted.js", false),
    ] {
        let variables = vec![("CALLBOARD_SLUG".to_owned(), "shop-1".to_owned())];
        let run = CheckRun { root: worktree.path.clone(), variables, ..repo.check(cmd) };
        let ran = checks.run(run, CancellationToken::new()).await.expect("runs");
        assert_eq!(ran.passed(), passes, "{cmd}");
    }
}

/// Teardown runs before the removal of a worktree that can go, and its failure keeps nothing.
#[tokio::test]
async fn a_teardown_runs_before_the_removal() {
    let repo = repo();
    let gone = repo.path.with_file_name("gone");
    let teardown = |cmd: String| Recipe { teardown: Some(cmd), ..links(&["node_modules"]) };
    let says = format!("echo \"$CALLBOARD_SLUG\" >> '{}'", gone.display());
    let commands = |recipe| {
        let off = ProjectCommands::default().with_sandbox(CheckSandbox::Off, Vec::new());
        LocalWorktrees::default().with_commands(off.with_recipe(Arc::new(recipe)))
    };
    let worktree = make(&repo, "CB-1").await;
    let all = commands(teardown(says.clone()));
    all.worktree_ready(of(&worktree), CancellationToken::new()).await.expect("is ready");
    write(&worktree, "new.txt", "work\n");
    let removed = all.worktree_remove(&of(&worktree), "main").await.expect("an answer");
    assert!(matches!(removed.folder, Removal::Kept(_)), "{removed:?}");
    assert!(!gone.exists(), "a worktree that stays is not torn down");
    fs::remove_file(worktree.path.join("new.txt")).expect("removes");
    let removed = all.worktree_remove(&of(&worktree), "main").await.expect("an answer");
    assert_eq!((removed.folder, removed.branch), (Removal::Removed, Removal::Removed));
    assert_eq!(fs::read_to_string(&gone).expect("it ran"), "shop-1\n");
    assert!(
        repo.path.join("node_modules/lib/index.js").exists(),
        "a link is removed, not its folder"
    );

    let worktree = make(&repo, "CB-2").await;
    let fails = commands(teardown("exit 7".into()));
    fails.worktree_ready(of(&worktree), CancellationToken::new()).await.expect("is ready");
    let removed = fails.worktree_remove(&of(&worktree), "main").await.expect("an answer");
    assert_eq!(removed.folder, Removal::Removed);
    let logs: String =
        repo.logs().iter().map(|log| repo.read(&format!(".callboard/runs/{log}"))).collect();
    assert!(logs.contains("workspace.teardown: exit 7\nend: failed with exit 7\n"), "{logs}");
}

/// A recipe is a setting of one repository: a project in another one gets its own copies, and no command.
#[tokio::test]
async fn the_commands_of_a_recipe_are_for_its_own_repository() {
    let (own, other) = (repo(), repo());
    other.write(".worktreeinclude", ".env\n");
    let recipe = Recipe {
        root: Some(own.path.clone()),
        setup: Some("echo ran > ran.o".into()),
        ..links(&["node_modules"])
    };
    let (here, there) = (make(&own, "CB-1").await, make(&other, "CB-1").await);
    ready(recipe.clone(), &here).await.expect("is ready");
    ready(recipe, &there).await.expect("is ready");
    assert_eq!((text(&here, "ran.o"), text(&there, "ran.o")), ("ran\n".into(), String::new()));
    assert!(!there.path.join("node_modules").exists());
    assert_eq!(text(&there, ".env"), "KEY=1\n");
}

/// The record of a worktree goes with it: a new one of that name is made ready again.
#[tokio::test]
async fn a_new_worktree_of_a_known_name_is_made_ready_again() {
    let repo = repo();
    for _ in 0..2 {
        let worktree = make(&repo, "CB-1").await;
        ready(setup("echo ran > ran.o"), &worktree).await.expect("is ready");
        assert_eq!(text(&worktree, "ran.o"), "ran\n");
        // Behind the back of Callboard.
        repo.git(&["worktree", "remove", "-f", &worktree.path.display().to_string()]);
        repo.git(&["branch", "-D", &worktree.branch]);
    }
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// A fresh worktree with a recipe builds a small npm project: a local dependency, a linked folder, a copied file.
#[tokio::test]
async fn a_fresh_worktree_builds_an_npm_project() {
    if !has_program("npm") {
        skipped("no npm here");
        return;
    }
    let repo = repo();
    repo.write("dep/package.json", r#"{"name": "dep", "version": "1.0.0", "main": "index.js"}"#);
    repo.write("dep/index.js", "module.exports = () => process.env.GREETING\n");
    let package = r#"{"name": "shop", "version": "1.0.0", "private": true,
        "dependencies": {"dep": "file:dep"},
        "scripts": {"build": "node --env-file=.env build.js"}}"#;
    repo.write("package.json", package);
    let lock = r#"{"name": "shop", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
        "": {"name": "shop", "version": "1.0.0", "dependencies": {"dep": "file:dep"}},
        "dep": {"version": "1.0.0"}, "node_modules/dep": {"resolved": "dep", "link": true}}}"#;
    repo.write("package-lock.json", lock);
    let build = "require('fs').writeFileSync('out.o', require('dep')() + ' ' + process.env.CALLBOARD_SLUG)\n";
    repo.write("build.js", build);
    repo.write(".worktreeinclude", ".env\n");
    repo.commit("an npm project");
    repo.git(&["push", "-q", "origin", "main"]);
    repo.write(".env", "GREETING=hello\n");
    let worktree = make(&repo, "CB-1").await;
    let quiet = "npm ci --offline --no-audit --no-fund --cache .npm.o";
    ready(setup(&format!("{quiet} && npm run build")), &worktree).await.expect("builds");
    assert_eq!(text(&worktree, "out.o"), "hello shop-1");
    assert_eq!(status(&worktree.path), "");

    // Another worktree uses the packages of the main checkout.
    repo.write("node_modules/dep/package.json", r#"{"name": "dep", "main": "index.js"}"#);
    repo.write("node_modules/dep/index.js", "module.exports = () => 'linked'\n");
    let linked = make(&repo, "CB-2").await;
    let recipe = Recipe { setup: Some("npm run build".into()), ..links(&["node_modules"]) };
    ready(recipe, &linked).await.expect("builds");
    assert_eq!(text(&linked, "out.o"), "linked shop-1");
}

/// A fresh worktree with a recipe builds a small Rust project, with a copied file that the build reads.
#[tokio::test]
async fn a_fresh_worktree_builds_a_rust_project() {
    if !has_program("cargo") {
        skipped("no cargo here");
        return;
    }
    let repo = repo();
    repo.write(
        "Cargo.toml",
        "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    repo.write(".gitignore", "*.o\ntarget/\n.env*\nCargo.lock\n");
    repo.write("src/main.rs", "fn main() { print!(\"{}\", include_str!(\"../.env\")); }\n");
    repo.write(".worktreeinclude", ".env\n");
    repo.commit("a Rust project");
    repo.git(&["push", "-q", "origin", "main"]);
    let worktree = make(&repo, "CB-1").await;
    let build = "cargo run -q --offline --target-dir target > out.o";
    ready(setup(build), &worktree).await.expect("builds");
    assert_eq!(text(&worktree, "out.o"), "KEY=1\n");
    assert_eq!(status(&worktree.path), "");
}

#[tokio::test]
async fn worktrees_that_are_alive_have_ports_of_their_own() {
    let repo = repo();
    let folder = repo.path.with_file_name("ports");
    let ports = PortRange { first: 21_000, last: 21_029, count: 10 };
    let all = worktrees(Recipe { ports_folder: Some(folder), ports, ..Recipe::default() });
    let id = |n: u32| format!("TASK-01jcqz0000000000000000000{n}").parse().expect("a task id");
    let mut places = Vec::new();
    for n in 0..3 {
        places.push(make(&repo, &format!("CB-{n}")).await);
    }
    let mut firsts = Vec::new();
    for (n, place) in (0..).zip(&places) {
        let block = all.worktree_ports(id(n), &place.path).await.expect("a block");
        firsts.push(block.first);
        assert_eq!(all.worktree_ports(id(n), &place.path).await, Some(block), "it stays");
    }
    let mut each = firsts.clone();
    each.sort_unstable();
    assert_eq!(each, [21_000, 21_010, 21_020]);
    let late = make(&repo, "CB-9").await;
    assert_eq!(all.worktree_ports(id(9), &late.path).await, None, "none is shared");
    let gone = TaskWorktree { task: id(1), ..of(&places[1]) };
    all.worktree_remove(&gone, "main").await.expect("removes");
    let freed = all.worktree_ports(id(9), &late.path).await.expect("a block");
    assert_eq!(freed.first, firsts[1]);
}

#[tokio::test]
async fn disk_space_is_measured_without_the_folders_behind_links() {
    let repo = repo();
    repo.write("node_modules/big", &"x".repeat(3_000_000));
    let worktree = make(&repo, "CB-1").await;
    write(&worktree, "own.o", &"x".repeat(1_000_000));
    ready(links(&["node_modules"]), &worktree).await.expect("is ready");
    let all = LocalWorktrees::default();
    assert_eq!(all.disk_usage(&repo.path).await, None, "not measured yet");
    let measured = all.disk_measure(&repo.path).await;
    let [(path, bytes)] = measured.as_slice() else { panic!("{measured:?}") };
    assert_eq!(path, &worktree.path);
    assert!((1_000_000..2_000_000).contains(bytes), "{bytes}");
    assert_eq!(all.disk_usage(&repo.path).await.map(|usage| usage.bytes), Some(*bytes));
    assert!(all.disk_measure(Path::new("/nowhere/at/all")).await.is_empty());
}
