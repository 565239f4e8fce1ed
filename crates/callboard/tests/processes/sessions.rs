//! Sessions of a person and an agent with the real program: a real tmux, a script as the agent, and the server that its
//! settings name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::peer::{Peer, board, clean, command, until_exists};
use crate::skipped::skipped;

/// A board in a git repository, with a home in which tmux and an agent called `claude` live.
struct Home {
    board: tempfile::TempDir,
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("cb").tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let script = "#!/bin/sh\npwd > \"$HOME/cwd\"\nexec sleep 1000\n";
        fs::write(bin.join("claude"), script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(bin.join("claude"), mode).unwrap();
        // The shell of a terminal is a login shell, which sets its own PATH.
        fs::write(folder.path().join(".profile"), "PATH=\"$HOME/bin:$PATH\"\n").unwrap();
        let home = Self { board: board(), folder };
        let git = "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@b commit -qm x";
        assert!(home.sh(home.board.path(), git).0, "a repository");
        home
    }

    fn sh(&self, place: &Path, script: &str) -> (bool, String) {
        let mut sh = Command::new("sh");
        sh.args(["-c", script]).current_dir(place).env("HOME", self.folder.path());
        let ended = sh.output().unwrap();
        (ended.status.success(), String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    fn server(&self, flags: &[&str]) -> Peer {
        let mut mcp = command(self.board.path());
        mcp.args(["mcp", "--toolsets", "board"]).args(flags);
        mcp.env("HOME", self.folder.path()).env("SHELL", "/bin/sh");
        mcp.env("TMUX_TMPDIR", self.folder.path()).env_remove("TMUX");
        mcp.env("CALLBOARD_EXECUTION_SWEEP_INTERVAL_SEC", "1");
        let mut peer = Peer::over(mcp);
        peer.hello();
        peer
    }

    fn tmux(&self, args: &[&str]) -> bool {
        let mut tmux = Command::new("tmux");
        tmux.args(args).env_remove("TMUX").env("TMUX_TMPDIR", self.folder.path());
        tmux.output().is_ok_and(|output| output.status.success())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn has_tmux() -> bool {
    let has = Command::new("tmux").arg("-V").output().is_ok();
    if !has {
        skipped("tmux is not installed");
    }
    has
}

fn make(boss: &mut Peer, backend: &str) -> String {
    let task = json!({"title": "A", "terminal_backend": backend});
    let made = boss.call("tasks_create", task).unwrap();
    made["task_id"].as_str().unwrap().to_owned()
}

/// The server that the agent's settings start, in the worktree.
fn agent(place: &Path) -> Peer {
    let text = fs::read_to_string(place.join(".callboard/mcp.json")).unwrap();
    let server = serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["callboard"].clone();
    let mut mcp = Command::new(server["command"].as_str().unwrap());
    mcp.args(server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()));
    clean(&mut mcp, place);
    let mut peer = Peer::over(mcp);
    peer.hello();
    peer
}

#[test]
fn a_session_lives_in_each_backend_until_it_is_ended() {
    let home = Home::new();
    let mut boss = home.server(&["--actor", "agent:boss", "--lane", "admin"]);
    for backend in ["tmux", "vscode", "cursor"] {
        if backend == "tmux" && !has_tmux() {
            continue;
        }
        let task = make(&mut boss, backend);
        let ask = json!({"task_id": task});
        let made = boss.call("sessions_create", ask.clone()).unwrap();
        assert_eq!(made["code"], "SESSION_CREATED", "{made}");
        assert_eq!(made["backend"], backend);
        let place = PathBuf::from(made["worktree_path"].as_str().unwrap());
        assert!(Path::new(made["prompt_path"].as_str().unwrap()).exists());
        assert_eq!(home.sh(&place, "git status --porcelain").1, "", "nothing of ours is seen");
        let main = home.sh(home.board.path(), "git status --porcelain").1;
        assert_eq!(main, "", "nor in the main checkout");
        let found = boss.call("sessions_exists", ask.clone()).unwrap();
        assert_eq!((&found["exists"], &found["backend"]), (&json!(true), &json!(backend)));
        let again = boss.call("sessions_create", ask.clone()).unwrap();
        assert_eq!(
            (&again["code"], &again["already_exists"]),
            (&json!("SESSION_REUSED"), &json!(true))
        );
        if backend == "tmux" {
            until_exists(&home.folder.path().join("cwd"));
            let session = format!("callboard-{task}");
            assert!(home.tmux(&["has-session", "-t", &session]));
            boss.call("sessions_kill", ask.clone()).unwrap();
            assert!(!home.tmux(&["has-session", "-t", &session]));
        } else {
            boss.call("sessions_kill", ask.clone()).unwrap();
        }
        assert_eq!(boss.call("sessions_exists", ask).unwrap()["exists"], false, "{backend}");
        assert!(place.exists(), "the worktree stays");
    }
}

/// The terminal is found by its task's name, without git.
#[test]
fn a_terminal_is_ended_while_git_fails() {
    if !has_tmux() {
        return;
    }
    let home = Home::new();
    let mut boss = home.server(&["--actor", "agent:boss", "--lane", "admin"]);
    let task = make(&mut boss, "tmux");
    let ask = json!({"task_id": task});
    assert_eq!(boss.call("sessions_create", ask.clone()).unwrap()["code"], "SESSION_CREATED");
    let session = format!("callboard-{task}");
    assert!(home.tmux(&["has-session", "-t", &session]));
    assert!(home.sh(home.board.path(), "echo '[' >> .git/config").0, "git fails from now on");
    assert_eq!(boss.call("sessions_exists", ask.clone()).unwrap()["exists"], true);
    let killed = boss.call("sessions_kill", ask.clone()).unwrap();
    assert_eq!(killed["success"], true, "{killed}");
    assert!(!home.tmux(&["has-session", "-t", &session]), "the terminal is gone");
    assert_eq!(boss.call("sessions_exists", ask).unwrap()["exists"], false);
}

#[test]
fn a_terminal_that_is_gone_is_no_session() {
    if !has_tmux() {
        return;
    }
    let home = Home::new();
    let mut boss = home.server(&["--actor", "agent:boss", "--lane", "admin"]);
    let task = make(&mut boss, "tmux");
    let ask = json!({"task_id": task});
    assert_eq!(boss.call("sessions_create", ask.clone()).unwrap()["code"], "SESSION_CREATED");
    assert!(home.tmux(&["kill-server"]));
    assert_eq!(boss.call("sessions_exists", ask.clone()).unwrap()["exists"], false);
    assert_eq!(boss.call("sessions_create", ask.clone()).unwrap()["code"], "SESSION_CREATED");
    assert_eq!(boss.call("sessions_exists", ask).unwrap()["exists"], true);
}

#[test]
fn the_agent_of_a_session_reaches_its_task_and_no_other() {
    let home = Home::new();
    let mut boss = home.server(&["--actor", "agent:boss", "--lane", "admin"]);
    let (task, other) = (make(&mut boss, "vscode"), make(&mut boss, "vscode"));
    let made = boss.call("sessions_create", json!({"task_id": task})).unwrap();
    let mut agent = agent(Path::new(made["worktree_path"].as_str().unwrap()));
    let no = agent.call("update_scratchpad", json!({"task_id": other, "content": "x"}));
    assert_eq!(no.unwrap_err()["code"], "SESSION_SCOPE_DENIED");
    let no = agent.call("sessions_kill", json!({"task_id": other}));
    assert_eq!(no.unwrap_err()["code"], "SESSION_SCOPE_DENIED");
    let done = agent.call("request_review", json!({"task_id": task, "summary": "done"})).unwrap();
    assert_eq!(done["code"], "REVIEW_REQUESTED", "{done}");
    let seen = json!({"task_id": task, "include_review": true});
    let seen = boss.call("get_task", seen).unwrap();
    let tail = task[task.len() - 8..].to_lowercase();
    assert_eq!(seen["review"]["by"], format!("agent:pair-{tail}"));
}

/// `done` does not know of terminals; a server's background work does.
#[test]
fn a_terminal_ends_with_its_task_whoever_closes_it() {
    if !has_tmux() {
        return;
    }
    let home = Home::new();
    let mut boss = home.server(&["--actor", "agent:boss", "--lane", "admin"]);
    let task = make(&mut boss, "tmux");
    let made = boss.call("sessions_create", json!({"task_id": task})).unwrap();
    assert_eq!(made["code"], "SESSION_CREATED", "{made}");
    until_exists(&home.folder.path().join("cwd"));
    let done = command(home.board.path()).args(["done", &task]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let gone = format!("while tmux has-session -t callboard-{task}; do sleep 0.05; done");
    let mut waits = Command::new("timeout");
    waits.args(["60", "sh", "-c", &gone]).env("TMUX_TMPDIR", home.folder.path());
    assert!(waits.env_remove("TMUX").status().unwrap().success(), "the terminal is still there");
}
