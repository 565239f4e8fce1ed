//! `callboard mcp` in a separate folder, called as an agent's client would.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

pub const CALLBOARD: &str = env!("CARGO_BIN_EXE_callboard");

/// A new folder with a board in it.
pub fn board() -> tempfile::TempDir {
    board_as("P")
}

pub fn board_as(prefix: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = command(folder.path()).args(["init", "--prefix", prefix]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(CALLBOARD);
    clean(&mut command, folder);
    command
}

/// Keeps the machine's own settings from the program.
pub fn clean(command: &mut Command, folder: &Path) {
    for (name, _) in std::env::vars_os() {
        let is_setting = |prefix| name.to_string_lossy().starts_with(prefix);
        if is_setting("CALLBOARD_") || is_setting("OTEL_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.join("no-config"));
    // The marks of trust are kept there, for every folder of a board.
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/data"));
}

pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    clean(&mut git, folder);
    let done = git.args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Makes a repository with one commit and a script that plays an agent; its `$1` is the file with the agent's servers.
/// Returns the settings of the executor `mine` that runs the script.
pub fn repository_of(folder: &Path, script: &str) -> String {
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["config", "user.name", "ana"],
        &["config", "user.email", "ana@example.org"],
        &["commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        git(folder, arguments);
    }
    let place = folder.join("agent.sh");
    std::fs::write(&place, script).unwrap();
    let words = format!("[\"sh\", {place:?}, \"{{mcp_config}}\"]");
    format!("[executors.mine]\ncommand = {words}\nwrite_command = {words}\n")
}

pub struct Peer {
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
    /// Notifications that came while an answer was awaited.
    pub notes: Vec<Value>,
}

impl Peer {
    pub fn start(folder: &Path, actor: &str) -> Self {
        let mut mcp = command(folder);
        mcp.args(["mcp", "--actor", actor]);
        let mut peer = Self::over(mcp);
        peer.hello();
        peer
    }

    pub fn over(command: Command) -> Self {
        Self::with_errors_to(command, Stdio::inherit())
    }

    /// Its stderr stays in the child's pipe for a test that reads it.
    pub fn over_quietly(command: Command) -> Self {
        Self::with_errors_to(command, Stdio::piped())
    }

    pub fn with_errors_to(mut command: Command, errors: Stdio) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, next: 1, notes: Vec::new() }
    }

    pub fn hello(&mut self) {
        let answer = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }),
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "callboard");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// The next message of any kind; `None` at the end.
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.output.read_line(&mut line).unwrap() {
            0 => None,
            _ => Some(serde_json::from_str(&line).expect("only JSON on stdout")),
        }
    }

    /// The oldest notification that came with an answer, else the next one. A test that only receives would wait
    /// forever when the last notification came together with an answer.
    pub fn next_note(&mut self) -> Value {
        match self.notes.is_empty() {
            true => self.receive().expect("the server lives"),
            false => self.notes.remove(0),
        }
    }

    pub fn start_request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().expect("an answer");
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start_request(method, params);
        self.answer(id)
    }

    /// A tool's answer; a refusal as `Err`.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        reply(&answer)
    }

    pub fn create(&mut self, task: Value) -> String {
        self.call("create", task).unwrap()["id"].as_str().unwrap().to_owned()
    }
}

pub fn reply(answer: &Value) -> Result<Value, Value> {
    let result = &answer["result"];
    let structured = result["structuredContent"].clone();
    match result["isError"].as_bool() {
        Some(true) => Err(structured),
        _ if structured.is_null() => Err(answer["error"].clone()),
        _ => Ok(structured),
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Blocks until the file is there.
pub fn until_exists(path: &Path) {
    let script = format!("until test -s '{}'; do sleep 0.02; done", path.display());
    let waited = Command::new("timeout").args(["60", "sh", "-c", &script]).status().unwrap();
    assert!(waited.success(), "{} never appeared", path.display());
}

pub fn is_running(process: &str) -> bool {
    // A zombie counts as gone.
    std::fs::read_to_string(format!("/proc/{}/stat", process.trim()))
        .is_ok_and(|stat| !stat.contains(") Z "))
}
