//! One run of a task's checks at a time on this machine: an async mutex among the calls of this process, and a lock
//! file among processes.
//!
//! The holder removes the file. So a lock counts only while the locked file is still the one at the path; otherwise the
//! path is opened anew.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use callboard_domain::ids::TaskId;
use rustix::fs::{FlockOperation, flock};
use tokio::sync::{OwnedMutexGuard, oneshot};

type Place = tokio::sync::Mutex<()>;

#[derive(Default)]
pub(crate) struct Turns {
    places: Mutex<HashMap<TaskId, Weak<Place>>>,
}

/// Held while a task's checks run.
pub(crate) struct TurnLock {
    path: PathBuf,
    file: File,
    _first_in_process: OwnedMutexGuard<()>,
}

impl Turns {
    pub(crate) async fn take(&self, runs: &Path, task: TaskId) -> io::Result<TurnLock> {
        let first = self.place(task).lock_owned().await;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(runs)?;
        let path = runs.join(format!(".{task}.lock"));
        if let Some(file) = lock(&path, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(TurnLock { path, file, _first_in_process: first });
        }
        // A thread of its own, because a runtime waits for its blocking tasks when it shuts down. The thread keeps our
        // place, so that abandoned calls never leave more than one behind; when its answer is not received, the lock is
        // dropped with it.
        let (answer, answered) = oneshot::channel();
        std::thread::Builder::new().name("check turn".into()).spawn(move || {
            let locked = lock(&path, FlockOperation::LockExclusive).and_then(|file| {
                file.ok_or_else(|| io::Error::other("a blocking lock did not block"))
            });
            let held = locked.map(|file| TurnLock { path, file, _first_in_process: first });
            let _ = answer.send(held);
        })?;
        answered.await.unwrap_or_else(|_| Err(io::Error::other("the waiting thread died")))
    }

    fn place(&self, task: TaskId) -> Arc<Place> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Places of tasks whose checks are over, so that the map does not grow.
        places.retain(|_, place| place.strong_count() > 0);
        if let Some(place) = places.get(&task).and_then(Weak::upgrade) {
            return place;
        }
        let place = Arc::default();
        places.insert(task, Arc::downgrade(&place));
        place
    }
}

/// `None` when another process holds the lock and `how` does not wait.
fn lock(path: &Path, how: FlockOperation) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match rustix::io::retry_on_intr(|| flock(&file, how)) {
            Ok(()) if is_at(path, &file)? => return Ok(Some(file)),
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let ours = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())))
}

impl Drop for TurnLock {
    fn drop(&mut self) {
        if is_at(&self.path, &self.file).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use super::*;

    fn task() -> TaskId {
        "TASK-01jcqz00000000000000000000".parse().expect("a task id")
    }

    /// Two `Turns` share no memory, like two processes: only the lock file separates them.
    #[tokio::test]
    async fn processes_take_turns_and_leave_no_file() {
        let runs = tempfile::tempdir().expect("a temporary folder");
        let (ours, theirs) = (Turns::default(), Turns::default());
        let held = ours.take(runs.path(), task()).await.expect("the first turn");

        let mut next = Box::pin(theirs.take(runs.path(), task()));
        let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "two at once");
        drop(held);
        drop(next.await.expect("the second turn"));
        assert_eq!(fs::read_dir(runs.path()).expect("the folder").count(), 0);
    }

    #[tokio::test]
    async fn a_call_that_gives_up_waiting_keeps_nothing() {
        let runs = tempfile::tempdir().expect("a temporary folder");
        let (ours, theirs) = (Turns::default(), Turns::default());
        let held = ours.take(runs.path(), task()).await.expect("the first turn");

        let mut given_up = Box::pin(theirs.take(runs.path(), task()));
        let polled = given_up.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "two at once");
        drop(given_up);
        drop(held);
        drop(theirs.take(runs.path(), task()).await.expect("theirs again"));
        drop(ours.take(runs.path(), task()).await.expect("ours again"));
    }

    #[tokio::test]
    async fn calls_of_one_process_take_turns() {
        let runs = tempfile::tempdir().expect("a temporary folder");
        let turns = Turns::default();
        let held = turns.take(runs.path(), task()).await.expect("the first turn");
        let mut next = Box::pin(turns.take(runs.path(), task()));
        let polled = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "two at once");
        drop(held);
        drop(next.await.expect("the second turn"));

        let other = "TASK-01jcqz00000000000000000001".parse().expect("a task id");
        let both = (turns.take(runs.path(), task()).await, turns.take(runs.path(), other).await);
        assert!(both.0.is_ok() && both.1.is_ok(), "two tasks do not wait for each other");
    }

    /// Each holder removes the file while others are opening and locking it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_two_ever_hold_it_while_the_file_comes_and_goes() {
        let runs = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        let inside = Arc::new(AtomicUsize::new(0));
        let processes: Vec<_> = (0..8)
            .map(|_| {
                let (runs, inside) = (Arc::clone(&runs), Arc::clone(&inside));
                tokio::spawn(async move {
                    let turns = Turns::default();
                    for _ in 0..50 {
                        let held = turns.take(runs.path(), task()).await.expect("a turn");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(held);
                    }
                })
            })
            .collect();
        for process in processes {
            process.await.expect("never two at once");
        }
    }
}
