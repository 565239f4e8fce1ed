//! One file per check run in `<repo>/.callboard/runs/`, written once and never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::Duration;

use callboard_domain::ids::TaskId;
use callboard_engine::ports::{CheckRan, CheckRun};
use jiff::Timestamp;

pub(crate) const RUNS: &str = ".callboard/runs";

/// Writes the log and answers its path relative to the repository.
pub(crate) fn write(repo: &Path, task: TaskId, at: Timestamp, text: &[u8]) -> io::Result<String> {
    let (mut file, log) = create(repo, task, at)?;
    let written = file.write_all(text).and_then(|()| file.flush());
    if let Err(error) = written {
        let _ = fs::remove_file(repo.join(&log));
        return Err(error);
    }
    Ok(log)
}

fn create(repo: &Path, task: TaskId, at: Timestamp) -> io::Result<(File, String)> {
    fs::create_dir_all(repo.join(RUNS))?;
    let at = at.strftime("%Y%m%d-%H%M%S%.3f");
    let mut n = 0;
    loop {
        let log = format!("{RUNS}/{task}-{at}-{n}.log");
        match OpenOptions::new().write(true).create_new(true).open(repo.join(&log)) {
            Ok(file) => return Ok((file, log)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => n += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The facts of a run, a `----` line, and the end of its output.
pub(crate) fn render(
    run: &CheckRun,
    ran: &CheckRan,
    duration: Duration,
    output: &[u8],
    dropped: u64,
) -> Vec<u8> {
    // Later lines of a command are indented, so that it cannot pass for a header or the `----`.
    let cmd = run.cmd.replace('\n', "\n  ");
    let exit = ran.exit_code.map_or("none".to_owned(), |code| code.to_string());
    let head = run.files.head.as_deref().unwrap_or("none");
    let tree = run.files.tree.as_deref().unwrap_or("none");
    let header = format!(
        "cmd: {cmd}\ncwd: {}\nhead: {head}\ntree: {tree}\nexit: {exit}\n\
         timed_out: {}\nduration_ms: {}\n----\n",
        run.cwd,
        ran.timed_out,
        duration.as_millis(),
    );
    let mut text = header.into_bytes();
    if dropped > 0 {
        text.extend_from_slice(format!("[{dropped} earlier bytes dropped]\n").as_bytes());
    }
    text.extend_from_slice(output);
    text
}

/// Deletes the logs of a repository that were last written before `older_than` ago.
pub(crate) fn prune(repo: &Path, older_than: Duration) -> io::Result<()> {
    let entries = match fs::read_dir(repo.join(RUNS)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        // Another process prunes the same folder; a log that is gone is what we want.
        let Ok(facts) = entry.metadata() else {
            continue;
        };
        let old = facts.modified()?.elapsed().is_ok_and(|age| age > older_than);
        if facts.is_file() && old {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn task() -> TaskId {
        "TASK-01jcqz00000000000000000000".parse().expect("a task id")
    }

    #[test]
    fn two_logs_of_one_millisecond_are_two_files() {
        let repo = tempfile::tempdir().expect("a temporary folder");
        let at: Timestamp = "2026-01-02T03:04:05.006789Z".parse().expect("a time");
        let first = write(repo.path(), task(), at, b"one").expect("the first log");
        let second = write(repo.path(), task(), at, b"two").expect("the second log");
        let name = format!("{RUNS}/{}-20260102-030405.006", task());
        assert_eq!(first, format!("{name}-0.log"));
        assert_eq!(second, format!("{name}-1.log"));
        assert_eq!(fs::read(repo.path().join(first)).expect("kept"), b"one");
        assert_eq!(fs::read(repo.path().join(second)).expect("kept"), b"two");
    }

    #[test]
    fn prune_deletes_old_logs_and_nothing_else() {
        let repo = tempfile::tempdir().expect("a temporary folder");
        let old = write(repo.path(), task(), Timestamp::now(), b"old").expect("a log");
        let new = write(repo.path(), task(), Timestamp::now(), b"new").expect("a log");
        let other = format!("{RUNS}/keep.txt");
        fs::write(repo.path().join(&other), "mine").expect("a file");
        for aged in [&old, &other] {
            let file = File::options().write(true).open(repo.path().join(aged)).expect("opens");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("a file's time can be set");
        }
        prune(repo.path(), Duration::from_secs(30 * 86_400)).expect("prunes");
        assert!(!repo.path().join(old).exists());
        assert!(repo.path().join(new).exists());
        assert!(repo.path().join(other).exists());
        prune(Path::new("/nowhere/at/all"), Duration::ZERO).expect("no folder, nothing to do");
    }
}
