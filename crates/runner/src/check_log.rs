//! One file per check run in `<repo>/.callboard/runs/`, written once and never overwritten.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use callboard_domain::ids::TaskId;
use callboard_engine::ports::{CheckRan, CheckRun, LogPart, RUNS};
use callboard_engine::store::FileSpan;
use jiff::Timestamp;
use rustix::fs::OFlags;

/// Writes the log and returns its path relative to the repository.
pub(crate) fn write(repo: &Path, task: TaskId, at: Timestamp, text: &[u8]) -> io::Result<String> {
    let (mut file, log) = create(repo, task, at)?;
    let written = file.write_all(text).and_then(|()| file.flush());
    if let Err(error) = written {
        // Half a log would show a result that the check did not have.
        let _ = fs::remove_file(repo.join(&log));
        return Err(error);
    }
    Ok(log)
}

fn create(repo: &Path, task: TaskId, at: Timestamp) -> io::Result<(File, String)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(repo.join(RUNS))?;
    let at = at.strftime("%Y%m%d-%H%M%S%.3f");
    let mut n = 0;
    loop {
        let log = format!("{RUNS}/{task}-{at}-{n}.log");
        // `create_new` follows no link and replaces no file, whatever a process of an agent put there.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(repo.join(&log)) {
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

/// Reads a part of a log; `None` when there is no such log. Its name comes from the store and is not trusted to stay in
/// the folder of logs.
pub(crate) fn read(repo: &Path, log: &str, span: FileSpan) -> io::Result<Option<LogPart>> {
    match path_of(repo, log).and_then(|path| path.map(|path| open(&path)).transpose()) {
        Ok(Some(mut file)) => {
            let size = file.metadata()?.len();
            let wanted = span.within(size);
            file.seek(SeekFrom::Start(wanted.start))?;
            let mut bytes = Vec::new();
            file.take(wanted.end - wanted.start).read_to_end(&mut bytes)?;
            Ok(Some(LogPart { size, start: wanted.start, bytes }))
        }
        Ok(None) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of a plain file directly in the folder of logs, else `None`.
fn path_of(repo: &Path, log: &str) -> io::Result<Option<PathBuf>> {
    let Ok(name) = Path::new(log).strip_prefix(RUNS) else { return Ok(None) };
    let mut parts = name.components();
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else {
        return Ok(None);
    };
    // A link in the place of `.callboard` or of the folder itself would lead elsewhere.
    let folder = repo.canonicalize()?.join(RUNS);
    if folder.canonicalize()? != folder {
        return Ok(None);
    }
    let path = folder.join(name);
    Ok(path.symlink_metadata()?.is_file().then_some(path))
}

/// Opens a log without following links or blocking: a plain file of a moment ago may be a link or a pipe by now.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
}

/// Deletes the logs of a repository that are older than `older_than`.
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
        // Another process may prune this folder too: a missing log is fine.
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

    #[test]
    fn only_plain_files_in_the_folder_of_logs_are_read() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let repo = folder.path().join("repo");
        let log = write(&repo, task(), Timestamp::now(), b"0123456789").expect("a log");
        let text = |log: &str| {
            let part = read(&repo, log, FileSpan::WHOLE).expect("readable");
            part.map(|part| String::from_utf8(part.bytes).expect("text"))
        };
        assert_eq!(text(&log).as_deref(), Some("0123456789"));
        let tail = read(&repo, &log, FileSpan::Tail { bytes_max: 3 }).expect("readable");
        assert_eq!(tail, Some(LogPart { size: 10, start: 7, bytes: b"789".to_vec() }));

        fs::write(folder.path().join("secret"), "no").expect("a file");
        fs::write(repo.join(".callboard/secret"), "no").expect("a file");
        fs::create_dir(repo.join(RUNS).join("deeper")).expect("a folder");
        fs::write(repo.join(RUNS).join("deeper/secret"), "no").expect("a file");
        symlink("../secret", repo.join(RUNS).join("link.log")).expect("a link");
        let absolute = folder.path().join("secret").display().to_string();
        let outside = [
            "",
            RUNS,
            "secret",
            ".callboard/secret",
            ".callboard/runs/../secret",
            ".callboard/runs/../../../secret",
            ".callboard/runs/./../secret",
            ".callboard/runs/deeper",
            ".callboard/runs/deeper/secret",
            ".callboard/runs/link.log",
            ".callboard/runs/missing.log",
            &absolute,
        ];
        for log in outside {
            assert_eq!(text(log), None, "{log}");
        }

        // The folder itself becomes a link.
        fs::rename(repo.join(RUNS), folder.path().join("elsewhere")).expect("moves");
        symlink(folder.path().join("elsewhere"), repo.join(RUNS)).expect("a link");
        assert_eq!(text(&log), None);
    }
}
