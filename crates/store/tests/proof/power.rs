//! A power cut at any moment loses nothing that was acknowledged and leaves no half of anything else.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use callboard_domain::retry::{Digest, RetryKey};
use callboard_domain::time::Timestamp;
use callboard_store::clock::{Clock, ManualClock};
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Applied, ApplyError, EventQuery, Home, Op, Place, Store, StoreError};
use serde_json::Value;

use crate::disk::{Disk, Fault, Step, Trouble};
use crate::image::{Image, cut};
use crate::office::{Kind, Office};
use crate::rows::{DATABASE, Rows, difference, rows};
use crate::seeded::{Rng, Round, seeds};

/// Rounds of a usual run, and the cuts of each.
const ROUNDS: u64 = 8;
const CUTS: usize = 25;
/// As these, with faults of the disk besides.
const FAULT_ROUNDS: u64 = 5;
const FAULT_CUTS: usize = 10;
const FAULT_COMMITS: usize = 60;
/// Commits of a round. SQLite moves its log into the database about every 1,000 pages, so this makes it move a few times.
const COMMITS: usize = 150;

const START: Timestamp = Timestamp(1_700_000_000_000_000);
/// A batch of commands that share a commit.
struct Batch {
    ops: Vec<Op>,
    /// The moments of the disk at the call and at the reply.
    began: usize,
    ended: usize,
    at: Timestamp,
    /// Every command has a retry key and was carried out.
    is_whole: bool,
    /// The disk failed at least one command.
    has_failed: bool,
    /// Set when the disk failed and no command was carried out. The outcome is unknown then: after a cut the batch may be
    /// there as a whole, with these rows.
    unknown: Option<Rows>,
    /// The rows after the reply, the number of the newest event, and the content of the bell.
    rows: Rows,
    last_seq: u64,
    bell: Vec<u8>,
}

/// A board at work on a disk under test.
struct Board {
    folder: tempfile::TempDir,
    disk: Arc<Disk>,
    clock: Arc<ManualClock>,
    store: Option<SqliteStore>,
    home: Home,
    office: Office,
    keys: usize,
}

fn open(folder: &Path, clock: Arc<ManualClock>) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&folder.join(DATABASE), clock)
}

impl Board {
    async fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::over(folder.path());
        let clock = Arc::new(ManualClock::at(START));
        let store = open(folder.path(), clock.clone()).unwrap();
        let home = store.settle(Place::of_org("default")).await.unwrap();
        let office = Office::new(seed, home.project.id, home.project.prefix);
        Self { folder, disk, clock, store: Some(store), home, office, keys: 0 }
    }

    fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    fn op(&mut self) -> Op {
        let kind = *self.office.rng.pick(Kind::EVERYDAY);
        let (actor, command) = self.office.command(kind);
        self.keys += 1;
        let key = self.office.rng.percent(80).then(|| format!("k{}", self.keys));
        Op {
            org: self.home.org.clone(),
            actor,
            tool: "test",
            retry_key: key.map(|key| RetryKey::new("key", &key, Digest::of(&Value::Null)).unwrap()),
            policy: Arc::default(),
            command,
        }
    }

    async fn batch(&mut self) -> Batch {
        if self.office.rng.percent(30) {
            let ms = self.office.rng.below(20_000) as i64;
            self.clock.advance_ms(ms);
        }
        let at = self.clock.now();
        self.office.now = at;
        let count = if self.office.rng.percent(25) { 2 + self.office.rng.below(6) } else { 1 };
        let ops: Vec<Op> = (0..count).map(|_| self.op()).collect();
        let began = self.disk.moment();
        let verdicts = self.store().apply_all(ops.clone()).await;
        let ended = self.disk.moment();
        for (op, verdict) in ops.iter().zip(&verdicts) {
            if let Ok(applied) = verdict {
                self.office.hear(&op.command, &applied.outcome);
            }
        }
        let is_done = |verdict: &Result<Applied, ApplyError>| match verdict {
            Ok(applied) => applied.but.is_none(),
            Err(_) => false,
        };
        let has_failed = |verdict: &Result<Applied, ApplyError>| match verdict {
            Err(ApplyError::Store(_)) => true,
            Ok(_) | Err(ApplyError::Refused(_)) => false,
        };
        let is_keyed = ops.iter().all(|op| op.retry_key.is_some());
        let rows = rows(self.folder.path());
        let last_seq = self.store().last_seq().await.unwrap();
        let is_unknown = verdicts.iter().any(has_failed) && !verdicts.iter().any(Result::is_ok);
        let unknown = if is_unknown { Some(self.had_it_been_done(&ops).await) } else { None };
        let told = verdicts.iter().flatten().filter_map(|applied| applied.last_seq).max();
        assert!(told.is_none_or(|told| told == last_seq), "a reply names the newest event");
        Batch {
            ops,
            began,
            ended,
            at,
            is_whole: is_keyed && verdicts.iter().all(is_done),
            has_failed: verdicts.iter().any(has_failed),
            unknown,
            rows,
            last_seq,
            bell: std::fs::read(self.bell()).unwrap(),
        }
    }

    /// The rows after these commands, on a copy of the board.
    async fn had_it_been_done(&self, ops: &[Op]) -> Rows {
        let copy = tempfile::tempdir().unwrap();
        self.store().backup(copy.path().join(DATABASE)).await.unwrap();
        let clock = Arc::new(ManualClock::at(self.clock.now()));
        open(copy.path(), clock).unwrap().apply_all(ops.to_vec()).await;
        rows(copy.path())
    }

    fn bell(&self) -> std::path::PathBuf {
        self.folder.path().join(format!("{DATABASE}-bell"))
    }

    /// The last connection moves the log into the database and deletes it.
    fn restart(&mut self) {
        self.store = None;
        self.store = Some(open(self.folder.path(), self.clock.clone()).unwrap());
    }
}

/// Writes an image to a folder. The bell names the files beside it by their inodes, and the image has files of its own.
fn write_out(image: &Image, bell: Option<&[u8]>, folder: &Path) {
    for (name, bytes) in image {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let Some(bell) = bell else { return };
    let path = folder.join(format!("{DATABASE}-bell"));
    std::fs::write(&path, bell).unwrap();
    let inode = |name: &str| std::fs::metadata(folder.join(name)).map_or(0, |found| found.ino());
    let database = std::fs::metadata(folder.join(DATABASE)).unwrap();
    let born = database.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let words = [
        database.ino(),
        born.map_or(0, |born| born.as_nanos() as u64),
        inode(&format!("{DATABASE}-wal")),
        std::fs::metadata(&path).unwrap().ino(),
    ];
    let mut bytes = bell.to_vec();
    for (n, word) in words.into_iter().enumerate() {
        if let Some(place) = bytes.get_mut(8 + n * 8..16 + n * 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    std::fs::write(&path, bytes).unwrap();
}

/// The bell is never flushed: after a cut it is gone, empty, or what it was at some time.
fn bell_after<'b>(batches: &'b [Batch], acknowledged: usize, rng: &mut Rng) -> Option<&'b [u8]> {
    let newest = batches[..acknowledged].last().map(|batch| &*batch.bell);
    match rng.below(4) {
        0 => None,
        1 => Some(&[]),
        2 => batches[..acknowledged].get(rng.below(acknowledged)).map(|batch| &*batch.bell),
        _ => newest,
    }
}

/// A moment for a cut: any, or one at which SQLite moves its log into the database.
fn moment(steps: &[Step], from: usize, rng: &mut Rng) -> usize {
    let is_moved = |step: &Step| match step {
        Step::Write { file, .. } | Step::Truncate { file, .. } | Step::Flush { file } => {
            file == DATABASE
        }
        Step::Create { .. } | Step::Delete { .. } | Step::FlushFailed { .. } => true,
        Step::Found { .. } => false,
    };
    let moved: Vec<usize> = (from..steps.len()).filter(|n| is_moved(&steps[*n])).collect();
    if moved.is_empty() || rng.percent(50) {
        return from + rng.below(steps.len() - from + 1);
    }
    (rng.pick(&moved) + rng.below(6)).clamp(from, steps.len())
}

/// Cuts the power and opens what is left.
async fn judge_cut(before: &Rows, batches: &[Batch], steps: &[Step], from: usize, rng: &mut Rng) {
    let moment = moment(steps, from, rng);
    let image = cut(steps, moment, rng);
    let acknowledged = batches.iter().take_while(|batch| batch.ended <= moment).count();
    let under_way = batches.get(acknowledged).filter(|batch| batch.began < moment);
    let kept = batches[..acknowledged].last();
    let folder = tempfile::tempdir().unwrap();
    write_out(&image, bell_after(batches, acknowledged, rng), folder.path());
    let at = under_way.or(kept).map_or(START, |batch| batch.at);
    let clock = Arc::new(ManualClock::at(at));
    let place = format!("cut at {moment} of {}, {acknowledged} commits acknowledged", steps.len());
    let store = open(folder.path(), clock).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_eq!(store.verify().await.unwrap(), Vec::new(), "{place}");
    let all = EventQuery { limit: usize::MAX, ..EventQuery::default() };
    let events = store.events(all).await.unwrap();
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event.seq, n as u64 + 1, "{place}: the log has a gap");
    }
    let found = rows(folder.path());
    let state = kept.map_or(before, |batch| &batch.rows);
    let mut is_new = false;
    if found != *state {
        // A batch whose outcome was unknown may be there as a whole, until a later commit takes its place in the log.
        let since = batches[..acknowledged].iter().rev().take_while(|batch| batch.rows == *state);
        let unknown = since.filter(|batch| batch.unknown.is_some());
        let mut unknown = unknown.chain(under_way).filter_map(|batch| batch.unknown.as_ref());
        is_new = under_way.is_some_and(|batch| batch.unknown.is_none() && batch.rows == found);
        let is_whole = unknown.any(|rows| *rows == found);
        let known = is_new || is_whole;
        assert!(known, "{place}: rows differ\n{}", difference(state, &found));
    }
    // A call without an answer is repeated with its key, and has one effect.
    if let Some(batch) = under_way.filter(|batch| batch.is_whole && (is_new || found == *state)) {
        for verdict in store.apply_all(batch.ops.clone()).await {
            match verdict {
                Ok(applied) => assert_eq!(applied.replayed, is_new, "{place}"),
                // The batch itself gave a task away again that one of its commands had taken.
                Err(ApplyError::Refused(_)) => assert!(is_new, "{place}"),
                Err(ApplyError::Store(error)) => panic!("{place}: {error}"),
            }
        }
        let again = rows(folder.path());
        assert!(again == batch.rows, "{place}: repeated\n{}", difference(&batch.rows, &again));
        assert_eq!(store.last_seq().await.unwrap(), batch.last_seq, "{place}");
    }
    assert_eq!(store.verify().await.unwrap(), Vec::new(), "{place}, gone on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_loses_nothing_that_was_acknowledged() {
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        let mut board = Board::new(seed).await;
        let (from, before) = (board.disk.moment(), rows(board.folder.path()));
        let mut batches = Vec::new();
        for _ in 0..COMMITS {
            batches.push(board.batch().await);
            if board.office.rng.percent(2) {
                board.restart();
            }
        }
        board.store = None;
        let steps = board.disk.steps();
        let mut rng = Rng::of(!seed);
        for _ in 0..CUTS {
            judge_cut(&before, &batches, &steps, from, &mut rng).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_loses_nothing_that_was_acknowledged() {
    for seed in seeds(FAULT_ROUNDS) {
        let _round = Round(seed);
        let mut board = Board::new(seed).await;
        let (from, before) = (board.disk.moment(), rows(board.folder.path()));
        let mut batches: Vec<Batch> = Vec::new();
        for _ in 0..FAULT_COMMITS {
            if !board.disk.is_troubled() && board.office.rng.percent(30) {
                let rng = &mut board.office.rng;
                let fault = *rng.pick(&[Fault::Write, Fault::Full, Fault::Flush]);
                let (after, times) = (rng.below(12), 1 + rng.below(3));
                board.disk.trouble(Some(Trouble { fault, after, times }));
            }
            let was_troubled = board.disk.is_troubled();
            let batch = board.batch().await;
            assert!(was_troubled || !batch.has_failed, "a disk that works again is used again");
            if batch.unknown.is_some() {
                let state = batches.last().map_or(&before, |batch| &batch.rows);
                assert!(*state == batch.rows, "half:\n{}", difference(state, &batch.rows));
            }
            batches.push(batch);
        }
        board.disk.trouble(None);
        assert!(batches.iter().any(|batch| batch.has_failed), "no fault struck");
        board.store = None;
        let steps = board.disk.steps();
        let mut rng = Rng::of(!seed);
        for _ in 0..FAULT_CUTS {
            judge_cut(&before, &batches, &steps, from, &mut rng).await;
        }
    }
}
