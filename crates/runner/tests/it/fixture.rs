//! A repository in a temporary folder, and a check in it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use callboard_domain::ids::TaskId;
use callboard_engine::ports::{CheckFault, CheckRan, CheckRun, CheckRunner, FilesState};
use callboard_runner::LocalChecks;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct Repo {
    pub path: PathBuf,
    _folder: TempDir,
}

impl Repo {
    /// A folder outside git.
    pub fn plain() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("it was just made").join("repo");
        fs::create_dir(&path).expect("an empty folder takes a folder");
        Self { path, _folder: folder }
    }

    /// A git repository without a commit.
    pub fn unborn() -> Self {
        let repo = Self::plain();
        repo.git(&["init", "-q", "-b", "main"]);
        repo
    }

    /// A repository with one commit: `a.txt`, `sub/b.txt` and a `.gitignore`.
    pub fn committed() -> Self {
        let repo = Self::unborn();
        repo.write("a.txt", "one\n");
        repo.write("sub/b.txt", "two\n");
        repo.write(".gitignore", "*.o\n");
        repo.commit("first");
        repo
    }

    /// `committed` with a bare `origin` that has the commit too.
    pub fn with_origin() -> Self {
        let repo = Self::committed();
        repo.git(&["clone", "-q", "--bare", ".", "../origin.git"]);
        repo.git(&["remote", "add", "origin", "../origin.git"]);
        repo.git(&["fetch", "-q", "origin"]);
        repo
    }

    /// Another clone pushes a file; returns the commit.
    pub fn pushed_by_another(&self, name: &str, text: &str) -> String {
        let other = self.path.with_file_name("other");
        if !other.exists() {
            self.git(&["clone", "-q", "../origin.git", "../other"]);
        }
        git_in(&other, &["pull", "-q", "--ff-only"]);
        fs::write(other.join(name), text).expect("writes a file");
        git_in(&other, &["add", "-A"]);
        git_in(&other, &["commit", "-q", "-m", &format!("other: {name}")]);
        git_in(&other, &["push", "-q"]);
        git_in(&other, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// The commit of a name.
    pub fn commit_of(&self, name: &str) -> String {
        self.git(&["rev-parse", "--verify", &format!("{name}^{{commit}}")]).trim().to_owned()
    }

    /// A file in a commit.
    pub fn file_in(&self, commit: &str, name: &str) -> String {
        self.git(&["cat-file", "blob", &format!("{commit}:{name}")])
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("makes folders");
        fs::write(path, text).expect("writes a file");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).expect("reads a file")
    }

    pub fn git(&self, args: &[&str]) -> String {
        git_in(&self.path, args)
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    pub async fn files(&self) -> FilesState {
        files_at(&self.path).await
    }

    pub async fn tree(&self) -> String {
        self.files().await.tree.expect("a working tree has a tree")
    }

    pub fn check(&self, cmd: &str) -> CheckRun {
        CheckRun {
            task: task(),
            index: 0,
            cmd: cmd.into(),
            cwd: ".".into(),
            timeout: Duration::from_secs(30),
            repo: self.path.clone(),
            root: self.path.clone(),
            files: FilesState::default(),
            shell: "sh".into(),
            log_tail_bytes: 65_536,
            variables: Vec::new(),
            ports: None,
        }
    }

    pub fn logs(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path.join(".callboard/runs")) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.expect("reads a folder").file_name());
        names.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Waits until the check has written a process id there.
    pub async fn pid(&self, name: &str) -> Pid {
        let path = self.path.join(name);
        let read = || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'));
        until("a process id is written", || read().is_some()).await;
        let text = read().expect("it was there");
        text.trim().parse().ok().and_then(Pid::from_raw).expect("a process id")
    }
}

pub fn task() -> TaskId {
    "TASK-01jcqz00000000000000000000".parse().expect("a task id")
}

pub fn git_in(directory: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let settings = [
        "user.name=t",
        "user.email=t@example.org",
        "protocol.file.allow=always",
        // No housekeeping in the background while a test compares files.
        "gc.auto=0",
        "maintenance.auto=false",
    ];
    command.args(settings.iter().flat_map(|setting| ["-c", setting]));
    let output = command.args(args).current_dir(directory).output().expect("git runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {words}");
    String::from_utf8(output.stdout).expect("the tests use UTF-8")
}

pub async fn files_at(root: &Path) -> FilesState {
    LocalChecks::new(true).files(root, root).await.expect("reads the files")
}

/// The state of a folder that this repository's record names.
pub async fn files_in(repo: &Repo, root: &Path) -> FilesState {
    LocalChecks::new(true).files(&repo.path, root).await.expect("reads the files")
}

pub async fn run(check: CheckRun) -> Result<CheckRan, CheckFault> {
    LocalChecks::new(true).run(check, CancellationToken::new()).await
}

pub fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // Dead, but not yet reaped by its adoptive parent.
    let is_zombie = |stat: String| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().starts_with('Z'));
        state.unwrap_or(false)
    };
    rustix::process::test_kill_process(pid).is_ok() && !stat.is_ok_and(is_zombie)
}

pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub async fn until_dead(pids: &[Pid]) {
    until("the processes are dead", || !pids.iter().any(|pid| is_running(*pid))).await;
}

/// Every file below a folder with its bytes.
pub fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("reads a folder") {
            let path = entry.expect("reads an entry").path();
            if path.is_dir() {
                found.push((path.clone(), Vec::new()));
                folders.push(path);
            } else {
                let bytes = fs::read(&path).expect("reads a file");
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

pub fn is_log_of(name: impl AsRef<OsStr>, task: TaskId) -> bool {
    let name = name.as_ref().to_string_lossy().into_owned();
    name.starts_with(&format!("{task}-")) && name.ends_with(".log")
}

/// Whether the kernel is at least this version: the parts of Landlock came one by one.
pub fn since_linux(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}
