//! `jobs/<job>/<attempt>/`: the folder of one run, and whose it is. A lock that the kernel drops
//! with its process tells a run that goes on from one that a crash left behind.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_engine::ports::EarlierRuns;
use rustix::fs::{FlockOperation, flock};

use crate::{process, terminal};

/// Dropped, it is removed with everything in it.
pub(crate) struct Folder {
    jobs: PathBuf,
    path: PathBuf,
    lock: Option<File>,
}

impl Folder {
    pub(crate) fn open(jobs: &Path, job: &str, attempt: u32) -> io::Result<Self> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if job.is_empty() || !job.chars().all(is_name_char) {
            return Err(io::Error::other("the job's id is no name for a folder"));
        }
        fs::create_dir_all(jobs)?;
        // Others may look at this folder: it must not be seen under their own names.
        let jobs = jobs.canonicalize()?;
        let path = jobs.join(job).join(attempt.to_string());
        let gate = Gate::pass(&jobs)?;
        fs::create_dir_all(&path)?;
        let Some(lock) = try_lock(&path.join("lock"))? else {
            return Err(io::Error::other("this attempt is already being run on this machine"));
        };
        drop(gate);
        end_and_empty(&path)?;
        let folder = Self { jobs, path, lock: Some(lock) };
        fs::create_dir(folder.scratch())?;
        Ok(folder)
    }

    pub(crate) fn jobs(&self) -> &Path {
        &self.jobs
    }

    /// Absolute; also the mark of the run's processes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    pub(crate) fn record(&self) -> PathBuf {
        self.path.join(RECORD)
    }

    pub(crate) async fn close(mut self) {
        let (path, lock) = (self.path.clone(), self.lock.take());
        let removed = tokio::task::spawn_blocking(move || remove(&path, lock));
        let _ = removed.await;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.lock.is_some() {
            remove(&self.path, self.lock.take());
        }
    }
}

const RECORD: &str = "leader";

/// Held for a moment by whoever makes a folder or looks whose one is: between its making and its
/// locking it would look like nobody's.
struct Gate(#[allow(dead_code, reason = "held for its lock")] File);

impl Gate {
    fn pass(jobs: &Path) -> io::Result<Self> {
        let file = open_lock(&jobs.join(".gate"))?;
        rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
        Ok(Self(file))
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// `None` when a live process holds it.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = open_lock(path)?;
    match rustix::io::retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Ends and removes what processes that are gone left behind.
pub(crate) fn clean_up(jobs: &Path) {
    let Ok(jobs) = jobs.canonicalize() else { return };
    for job in entries(&jobs).filter(|job| is_shown(job)) {
        for attempt in entries(&job).filter(|attempt| attempt.is_dir()) {
            let Ok(gate) = Gate::pass(&jobs) else { return };
            let Ok(Some(lock)) = try_lock(&attempt.join("lock")) else { continue };
            drop(gate);
            if let Err(error) = end_and_empty(&attempt) {
                tracing::warn!(%error, "a run that was left behind stays on disk");
            }
            remove(&attempt, Some(lock));
        }
        remove_if_empty(&job);
    }
}

/// How long killed processes of earlier runs may take to be gone before somebody hears of them.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Ends what these runs left on this machine, also what a live server started. The mark of a process ends
/// with its job and attempt; where the servers of one store keep their folders does not matter. Returns
/// the processes that could not be ended.
pub(crate) fn end_earlier(jobs: &Path, runs: &[EarlierRuns]) -> Vec<String> {
    let records = records(jobs, runs);
    process::end_earlier(|mark| is_of(Path::new(mark), runs), &records, END_WITHIN)
}

/// Whether a process of these runs lives.
pub(crate) fn are_left(jobs: &Path, runs: &[EarlierRuns]) -> bool {
    process::is_left(|mark| is_of(Path::new(mark), runs), &records(jobs, runs))
}

/// Where the leaders of these runs are written down.
fn records(jobs: &Path, runs: &[EarlierRuns]) -> Vec<PathBuf> {
    let attempts = runs.iter().flat_map(|run| entries(&jobs.join(&run.job)));
    attempts.filter(|attempt| is_of(attempt, runs)).map(|attempt| attempt.join(RECORD)).collect()
}

/// Whether `…/<job>/<attempt>`, or the mark of its terminal, is one of these runs.
fn is_of(folder: &Path, runs: &[EarlierRuns]) -> bool {
    let terminals = folder.parent().filter(|_| folder.ends_with(terminal::RECORD));
    let folder = terminals.unwrap_or(folder);
    let attempt = folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let job = folder.parent().and_then(Path::file_name);
    let is_one = |run: &EarlierRuns| {
        job.is_some_and(|job| job == run.job.as_str())
            && attempt.is_some_and(|attempt| attempt < run.below)
    };
    runs.iter().any(is_one)
}

/// Not while somebody makes a folder in it.
fn remove_if_empty(job: &Path) {
    let gate = job.parent().map(Gate::pass);
    if let Some(Ok(_gate)) = gate {
        let _ = fs::remove_dir(job);
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_shown(path: &Path) -> bool {
    path.is_dir() && !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Kills what still runs there and removes all but the lock.
fn end_and_empty(path: &Path) -> io::Result<()> {
    process::kill_leftovers(&path.join(RECORD), path.as_os_str());
    terminal::clear(&path.join(terminal::RECORD));
    for entry in entries(path).filter(|entry| !entry.ends_with("lock")) {
        remove_all(&entry)?;
    }
    Ok(())
}

/// The lock is dropped last, so that nobody else cleans up meanwhile.
fn remove(path: &Path, lock: Option<File>) {
    if let Err(error) = remove_all(path) {
        tracing::warn!(%error, "the folder of a run stays on disk");
    }
    if let Some(job) = path.parent() {
        remove_if_empty(job);
    }
    drop(lock);
}

fn remove_all(path: &Path) -> io::Result<()> {
    let is_folder = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied && is_folder => {
            // An agent may have made folders that not even their owner can empty.
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
