//! A separate folder for each test, and the binary run in it with a known environment.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    /// A folder without git and without callboard.
    pub fn bare() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join("home")).expect("a home");
        std::fs::create_dir(folder.path().join("shop")).expect("a project folder");
        Self { folder, variables: Vec::new() }
    }

    /// A git repository.
    pub fn git() -> Self {
        let world = Self::bare();
        world.run_git(&world.root(), &["init", "-q", "-b", "main"]);
        world
    }

    /// A git repository that is a callboard project with the prefix SHOP.
    pub fn project() -> Self {
        let world = Self::git();
        world.ok(&["init"]);
        world
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("a real path").join("shop")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn callboard(&self, name: &str) -> PathBuf {
        self.root().join(".callboard").join(name)
    }

    pub fn write(&self, path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    #[allow(clippy::disallowed_methods, reason = "the test is the outside world")]
    pub fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.args(arguments).current_dir(folder).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.home()).env("USER", "ana");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_in(&self.root(), arguments)
    }

    pub fn run_in(&self, folder: &Path, arguments: &[&str]) -> Ran {
        let ended = self.command(folder, arguments).output().expect("the binary runs");
        Ran {
            code: code(ended.status),
            stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
        }
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        ran
    }

    /// Adds a task and returns its id.
    pub fn task(&self, arguments: &[&str]) -> String {
        let mut all = vec!["task", "add", "--json"];
        all.extend(arguments);
        self.ok(&all).json()["id"].as_str().expect("an id").to_owned()
    }

    /// Starts a command and returns it with its first line.
    pub fn start(&self, arguments: &[&str]) -> (Running, String) {
        let mut child = self
            .command(&self.root(), arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("a first line");
        (Running { child, stdout: lines }, first.trim_end().to_owned())
    }

    #[allow(clippy::disallowed_methods, reason = "the test is the outside world")]
    pub fn run_git(&self, folder: &Path, arguments: &[&str]) {
        let who = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"];
        let ended = Command::new("git")
            .args(who)
            .args(arguments)
            .current_dir(folder)
            .env("HOME", self.home())
            .env_remove("GIT_DIR")
            .output()
            .expect("git runs");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).expect("one JSON document")
    }

    /// The code of an error printed with `--json`.
    pub fn error_code(&self) -> String {
        let error: Value = serde_json::from_str(&self.stderr).expect("one JSON error");
        error["error"]["code"].as_str().expect("a code").to_owned()
    }
}

/// A command that runs until it is told to stop.
pub struct Running {
    child: Child,
    /// Kept open: a closed pipe would end the command differently.
    stdout: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Reads lines up to one with these words.
    pub fn until(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            let read = self.stdout.read_line(&mut line).expect("a line");
            assert_ne!(read, 0, "the command ended before it said '{words}'");
        }
    }

    pub fn signal(mut self, signal: rustix::process::Signal) -> i32 {
        let number = i32::try_from(self.child.id()).expect("a process id");
        let process = rustix::process::Pid::from_raw(number).expect("a process id");
        rustix::process::kill_process(process, signal).expect("the signal is sent");
        code(self.child.wait().expect("it ends"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}
