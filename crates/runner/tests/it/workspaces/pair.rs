//! Sessions of a person and an agent, with a real tmux.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use callboard_engine::ports::{
    PairBackend, PairFault, PairOrder, PairSession, PairSessions, Worktree,
};
use callboard_runner::LocalPairs;
use tempfile::TempDir;

use super::{commit, make, status};
use crate::fixture::{Repo, git_in, is_running, until, until_dead};
use crate::skipped::skipped;

/// A home with a tmux of its own and an agent called `claude`. The agent records what it sees and keeps running, with a
/// child that ignores the end of its terminal and one that left it.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("cb").tempdir().expect("a temporary folder");
        let home = Self { folder };
        let agent = home.path("bin/claude");
        fs::create_dir(home.path("bin")).expect("makes a folder");
        let script = "#!/bin/sh\n\
            env > \"$HOME/env\"\n\
            printf '%s\\n' \"$@\" > \"$HOME/args\"\n\
            pwd > \"$HOME/cwd\"\n\
            (trap '' HUP TERM; exec sleep 1000) &\n\
            echo $! > \"$HOME/stubborn\"\n\
            setsid sh -c 'echo $$ > \"$HOME/away\"; exec sleep 1000' &\n\
            echo $$ > \"$HOME/agent\"\n\
            wait\n";
        fs::write(&agent, script).expect("writes a script");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(agent, mode).expect("makes it a program");
        // The shell of a terminal is a login shell, which sets its own PATH.
        fs::write(home.path(".profile"), "PATH=\"$HOME/bin:$PATH\"\n").expect("writes a file");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pairs(&self) -> LocalPairs {
        LocalPairs::default()
            .with("HOME", self.folder.path())
            .with("SHELL", "/bin/sh")
            .with("TMUX_TMPDIR", self.folder.path())
    }

    fn tmux(&self, args: &[&str]) -> bool {
        let mut tmux = Command::new("tmux");
        tmux.args(args).env_remove("TMUX").env("TMUX_TMPDIR", self.folder.path());
        tmux.output().is_ok_and(|output| output.status.success())
    }

    async fn pid(&self, name: &str) -> rustix::process::Pid {
        let read = || fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with('\n'));
        until(&format!("{name} is there"), || read().is_some()).await;
        let id = read().and_then(|text| text.trim().parse().ok());
        id.and_then(rustix::process::Pid::from_raw).expect("a process id")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Whether tmux is installed; prints a note if not. `scripts/test` installs it.
fn has_tmux() -> bool {
    let has = Command::new("tmux").arg("-V").output().is_ok();
    if !has {
        skipped("tmux is not installed");
    }
    has
}

fn order(repo: &Repo, worktree: &Worktree, backend: PairBackend) -> PairOrder {
    let server = "callboard mcp --task CB-1 --profile pair_worker";
    PairOrder {
        task: "CB-1".into(),
        title: "Add login;\n'quoted' $(and) more".into(),
        backend,
        worktree: worktree.clone(),
        project_root: repo.path.clone(),
        prompt: "Add a login form.\n".into(),
        agent: "claude".into(),
        program: None,
        server: server.split(' ').map(str::to_owned).collect(),
        variables: vec![("CALLBOARD_SLUG".into(), "cb-1".into())],
    }
}

async fn open(home: &Home, repo: &Repo, worktree: &Worktree, backend: PairBackend) -> PairSession {
    home.pairs().pair_open(order(repo, worktree, backend)).await.expect("opens a session")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("reads a file")
}

#[tokio::test]
async fn a_session_opens_once_ends_once_and_leaves_git_as_it_was() {
    for backend in PairBackend::ALL {
        if backend == PairBackend::Tmux && !has_tmux() {
            continue;
        }
        let (home, repo) = (Home::new(), Repo::with_origin());
        let (pairs, worktree) = (home.pairs(), make(&repo, "CB-1").await);
        assert_eq!(pairs.pair_find(&worktree, "CB-1").await, None);
        let session = open(&home, &repo, &worktree, backend).await;
        assert!(!session.already_exists);
        assert_eq!((session.name.as_str(), session.backend), ("callboard-CB-1", backend));
        assert_eq!(session.prompt_path, worktree.path.join(".callboard/start_prompt.md"));
        assert_eq!(text(&session.prompt_path), "Add a login form.\n");
        assert_eq!((status(&worktree.path), status(&repo.path)), (String::new(), String::new()));
        assert_eq!(pairs.pair_find(&worktree, "CB-1").await, Some(backend));

        let again = open(&home, &repo, &worktree, backend).await;
        assert_eq!(again, PairSession { already_exists: true, ..session });
        assert_eq!(pairs.pair_end(&worktree, "CB-1").await, Ok(true));
        assert_eq!(pairs.pair_find(&worktree, "CB-1").await, None);
        assert_eq!(pairs.pair_end(&worktree, "CB-1").await, Ok(false));
        assert!(!worktree.path.join(".callboard/session.json").exists());
        git_in(&worktree.path, &["add", "-A"]);
        assert_eq!(status(&worktree.path), "", "not even an agent that adds everything adds ours");
    }
}

#[tokio::test]
async fn the_agent_runs_in_the_terminal_and_ends_with_it() {
    if !has_tmux() {
        return;
    }
    let (home, repo) = (Home::new(), Repo::with_origin());
    let (pairs, worktree) = (home.pairs(), make(&repo, "CB-1").await);
    let session = open(&home, &repo, &worktree, PairBackend::Tmux).await;
    let mut pids = Vec::new();
    for name in ["agent", "stubborn", "away"] {
        pids.push(home.pid(name).await);
    }
    let env = text(&home.path("env"));
    for (name, value) in [
        ("CALLBOARD_TASK_ID", "CB-1"),
        ("CALLBOARD_TASK_TITLE", "Add login; 'quoted' $(and) more"),
        ("CALLBOARD_WORKTREE_PATH", &worktree.path.display().to_string()),
        ("CALLBOARD_PROJECT_ROOT", &repo.path.display().to_string()),
    ] {
        let line = format!("{name}={value}");
        assert!(env.lines().any(|seen| seen == line), "{line}");
    }
    assert_eq!(text(&home.path("cwd")).trim(), worktree.path.display().to_string());
    let words = "Read .callboard/start_prompt.md and follow it.";
    let args = format!("{words}\n--mcp-config\n.callboard/mcp.json\n");
    assert_eq!(text(&home.path("args")), args);
    let servers: serde_json::Value =
        serde_json::from_str(&text(&worktree.path.join(".callboard/mcp.json"))).expect("JSON");
    let server = &servers["mcpServers"]["callboard"];
    assert_eq!(server["command"], "callboard");
    assert_eq!(server["args"][2], "CB-1");

    assert_eq!(session.primary_command, "tmux attach-session -t callboard-CB-1");
    assert!(home.tmux(&["has-session", "-t", "callboard-CB-1"]), "as printed");
    assert!(home.tmux(&["new-session", "-d", "-s", "callboard-CB-10"]), "a neighbour");
    assert!(pids.iter().all(|pid| is_running(*pid)));
    assert_eq!(pairs.pair_end(&worktree, "CB-1").await, Ok(true));
    until_dead(&pids).await;
    assert!(!home.tmux(&["has-session", "-t", "=callboard-CB-1"]));
    assert!(home.tmux(&["has-session", "-t", "=callboard-CB-10"]), "the neighbour stays");
}

#[tokio::test]
async fn a_terminal_that_ended_by_itself_is_no_session() {
    if !has_tmux() {
        return;
    }
    let (home, repo) = (Home::new(), Repo::with_origin());
    let (pairs, worktree) = (home.pairs(), make(&repo, "CB-1").await);
    open(&home, &repo, &worktree, PairBackend::Tmux).await;
    assert!(home.tmux(&["kill-session", "-t", "=callboard-CB-1"]));
    assert_eq!(pairs.pair_find(&worktree, "CB-1").await, None);
    let again = open(&home, &repo, &worktree, PairBackend::Tmux).await;
    assert!(!again.already_exists);
    let other = open(&home, &repo, &worktree, PairBackend::Cursor).await;
    assert!(!other.already_exists, "another backend ends it");
    assert!(!home.tmux(&["has-session", "-t", "=callboard-CB-1"]));
    assert_eq!(pairs.pair_find(&worktree, "CB-1").await, Some(PairBackend::Cursor));
}

#[tokio::test]
async fn without_tmux_it_names_the_other_backends() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let pairs = LocalPairs::default().with("PATH", "/nowhere");
    // Git is not in that folder either, but it is called with our own PATH.
    let opened = pairs.pair_open(order(&repo, &worktree, PairBackend::Tmux)).await;
    assert_eq!(opened, Err(PairFault::NoTmux));
    assert!(PairFault::NoTmux.to_string().contains("vscode or cursor"));
    assert_eq!(pairs.pair_find(&worktree, "CB-1").await, None);
}

#[tokio::test]
async fn editors_find_the_server_in_their_own_files_unless_git_tracks_them() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let pairs = LocalPairs::default();
    let vscode = pairs.pair_open(order(&repo, &worktree, PairBackend::Vscode)).await;
    let vscode = vscode.expect("opens a session");
    assert_eq!(vscode.left_alone, None);
    let place = worktree.path.display();
    let prompt = vscode.prompt_path.display();
    assert_eq!(vscode.primary_command, format!("code --new-window {place} {prompt}"));
    assert_eq!(vscode.commands, [format!("cat {prompt}")]);
    let names: Vec<&str> = vscode.links.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["worktree_file_url", "prompt_file_url", "vscode_prompt_uri"]);
    let servers = text(&worktree.path.join(".vscode/mcp.json"));
    assert!(servers.contains("\"servers\"") && servers.contains("pair_worker"), "{servers}");

    commit(&worktree, ".cursor/mcp.json", "{\"mcpServers\": {}}\n");
    let cursor = pairs.pair_open(order(&repo, &worktree, PairBackend::Cursor)).await;
    let cursor = cursor.expect("opens a session");
    assert_eq!(cursor.left_alone.as_deref(), Some(".cursor/mcp.json"));
    assert_eq!(text(&worktree.path.join(".cursor/mcp.json")), "{\"mcpServers\": {}}\n");
    assert_eq!((status(&worktree.path), status(&repo.path)), (String::new(), String::new()));
}

/// An earlier agent may have left links.
#[tokio::test]
async fn nothing_is_written_through_a_link() {
    let repo = Repo::with_origin();
    let worktree = make(&repo, "CB-1").await;
    let outside = repo.path.with_file_name("outside");
    fs::create_dir(&outside).expect("makes a folder");
    symlink(&outside, worktree.path.join(".callboard")).expect("makes a link");
    let pairs = LocalPairs::default();
    let opened = pairs.pair_open(order(&repo, &worktree, PairBackend::Vscode)).await;
    let words = opened.expect_err("refused").to_string();
    assert!(words.contains(".callboard/start_prompt.md"), "{words}");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);

    fs::remove_file(worktree.path.join(".callboard")).expect("removes a link");
    fs::create_dir(worktree.path.join(".callboard")).expect("makes a folder");
    let victim = outside.join("victim");
    fs::write(&victim, "mine\n").expect("writes a file");
    symlink(&victim, worktree.path.join(".callboard/start_prompt.md")).expect("makes a link");
    let opened = pairs.pair_open(order(&repo, &worktree, PairBackend::Vscode)).await;
    assert_eq!(text(&opened.expect("opens a session").prompt_path), "Add a login form.\n");
    assert_eq!(text(&victim), "mine\n");
}
