//! `jobs/<job>/<attempt>/`: the folder of one run, and its owner. A lock that the kernel drops with its process tells a
//! live run from one that a crash left behind.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_engine::ports::EarlierRuns;
use rustix::fs::{FlockOperation, flock};

use crate::{process, terminal};

/// A folder that is removed with its content when dropped.
pub(crate) struct Folder {
    jobs: PathBuf,
    path: PathBuf,
    lock: Option<File>,
}

impl Folder {
    pub(crate) fn open(jobs: &Path, job: &str, attempt: u32) -> io::Result<Self> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if job.is_empty() || !job.chars().all(is_name_char) {
            return Err(io::Error::other("the job's id cannot name a folder"));
        }
        fs::create_dir_all(jobs)?;
        // Other processes look at this folder too, so it must have one canonical name.
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

    /// The absolute path; also the mark of the run's processes.
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

/// A lock held briefly while a folder is created or its owner is looked up: between its creation and its locking a
/// folder would seem to have no owner.
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

/// `None` when a live process holds the lock.
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    let file = open_lock(path)?;
    match rustix::io::retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Ends the processes and removes the folders of dead servers.
pub(crate) fn clean_up(jobs: &Path) {
    let Ok(jobs) = jobs.canonicalize() else { return };
    for job in entries(&jobs).filter(|job| is_shown(job)) {
        for attempt in entries(&job).filter(|attempt| attempt.is_dir()) {
            let Ok(gate) = Gate::pass(&jobs) else { return };
            let Ok(Some(lock)) = try_lock(&attempt.join("lock")) else { continue };
            drop(gate);
            if let Err(error) = end_and_empty(&attempt) {
                tracing::warn!(%error, "cannot remove the folder of a lost run");
            }
            remove(&attempt, Some(lock));
        }
        remove_if_empty(&job);
    }
}

/// How long killed processes of earlier runs may take to be gone before they are reported.
const END_WITHIN: Duration = Duration::from_secs(2);

/// Ends processes that these runs left on this machine, including processes of a live server. The mark of a process
/// ends with its job and attempt, so the servers of one store may keep their folders anywhere. Returns the processes
/// that could not be ended.
pub(crate) fn end_earlier(jobs: &Path, runs: &[EarlierRuns]) -> Vec<String> {
    let records = records(jobs, runs);
    process::end_earlier(|mark| is_of(Path::new(mark), runs), &records, END_WITHIN)
}

/// Whether a process of these runs is alive.
pub(crate) fn are_left(jobs: &Path, runs: &[EarlierRuns]) -> bool {
    process::is_left(|mark| is_of(Path::new(mark), runs), &records(jobs, runs))
}

/// The files that record the leaders of these runs.
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

/// Removes the folder of a job, but not while another process creates a folder in it.
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

/// Kills the processes of the run and removes all files but the lock.
fn end_and_empty(path: &Path) -> io::Result<()> {
    process::kill_leftovers(&path.join(RECORD), path.as_os_str());
    terminal::clear(&path.join(terminal::RECORD));
    for entry in entries(path).filter(|entry| !entry.ends_with("lock")) {
        remove_all(&entry)?;
    }
    Ok(())
}

/// Removes the folder. The lock is dropped last, so that no other process cleans up meanwhile.
fn remove(path: &Path, lock: Option<File>) {
    if let Err(error) = remove_all(path) {
        tracing::warn!(%error, "cannot remove the folder of a run");
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
            // An agent may have created folders that not even their owner can empty.
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
