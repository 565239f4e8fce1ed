//! A migration of a SQLite file that ends at any step, by a kill or a power cut, goes on at the next start.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::disk::{Disk, watch};
use crate::image::{Image, cut};
use crate::rows::DATABASE;
use crate::seeded::{Rng, Round, seeds};
use crate::upgrade_board::{
    BOARDS, Board, LATEST, Tables, assert_kept, assert_moved, assert_sound, open, rows_of_file,
    version,
};

/// Steps of a usual run, for each board: those at which the file changes, and so many of the others.
const KILLS: usize = 24;
/// Power cuts of a usual run, for each board.
const CUTS: usize = 24;

/// One call of SQLite that changes a file: the file and the change.
type Call = (String, &'static str);

/// The calls of a migration, and what was left behind before some of them.
type Record = (Vec<Call>, Vec<(usize, Image)>);

/// The files that a process leaves which is killed now. Locks end with their process. The index of the log is made anew.
fn left_behind(folder: &Path) -> Image {
    let mut image = Image::new();
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if !["-shm", "-bell", "-gate", "-turn"].iter().any(|end| name.ends_with(end)) {
            image.insert(name, std::fs::read(file.path()).unwrap());
        }
    }
    image
}

/// Migrates a board and returns each call that changed a file, and what was left behind before the calls that are asked for.
fn migrate(board: &Board, asked: &[usize]) -> Record {
    let folder = tempfile::tempdir().unwrap();
    board.place(folder.path());
    let record: Arc<Mutex<Record>> = Arc::default();
    let (kept, place, asked) = (record.clone(), folder.path().to_owned(), asked.to_vec());
    watch(
        folder.path(),
        Arc::new(move |file, what| {
            let mut record = kept.lock().unwrap();
            let moment = record.0.len();
            record.0.push((file.to_owned(), what));
            if asked.contains(&moment) {
                record.1.push((moment, left_behind(&place)));
            }
        }),
    );
    drop(open(folder.path()).unwrap());
    std::mem::take(&mut *record.lock().unwrap())
}

/// The calls to kill at: each that is no write or goes to another file than the one before, and some of the rest.
fn moments(calls: &[Call], round: u64) -> Vec<usize> {
    let is_edge = |n: &usize| {
        let (call, before) = (&calls[*n], n.checked_sub(1).map(|before| &calls[before]));
        call.1 != "write" || before.is_none_or(|before| before != call)
    };
    let every = (calls.len() / KILLS).max(1);
    let is_next = |n: &usize| n % every == round as usize % every;
    (0..calls.len()).filter(|n| is_edge(n) || is_next(n)).collect()
}

fn write_out(image: &Image) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in image {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// Asserts that a copy is a whole database with the rows of the old board.
fn assert_copy(board: &Board, folder: &Path, old: &Tables, place: &str) {
    let copy = board.copy(folder);
    let db = Connection::open(&copy).unwrap();
    let sound = db.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0));
    assert_eq!(sound.unwrap(), "ok", "{place}");
    assert_eq!(version(&copy), board.version, "{place}");
    assert!(rows_of_file(&copy) == *old, "{place}: the copy has other rows");
}

/// Opens what is left, which migrates it or finds that it is migrated.
async fn judge(board: &Board, image: &Image, old: &Tables, place: &str) {
    // The file as it is, read in a place of its own: old or new, nothing between.
    let left = write_out(image);
    let path = left.path().join(DATABASE);
    let found = version(&path);
    assert!([board.version, *LATEST].contains(&found), "{place}: half migrated, to {found}");
    if found == board.version {
        assert!(rows_of_file(&path) == *old, "{place}: rows of the old board differ");
    }
    let folder = write_out(image);
    let store = open(folder.path()).unwrap_or_else(|error| panic!("{place}: {error}"));
    assert_sound(&store, place).await;
    drop(store);
    let path = folder.path().join(DATABASE);
    assert_eq!(version(&path), *LATEST, "{place}");
    let new = rows_of_file(&path);
    assert_kept(old, &new, place);
    assert_moved(old, &new, place);
    if found == board.version {
        assert_copy(board, folder.path(), old, place);
    }
}

#[tokio::test]
async fn a_migration_that_is_killed_at_any_call_goes_on() {
    for board in BOARDS {
        let folder = tempfile::tempdir().unwrap();
        let old = board.place(folder.path());
        let (calls, _) = migrate(board, &[]);
        for round in seeds(1) {
            let _round = Round(round);
            let asked = moments(&calls, round);
            let (again, left) = migrate(board, &asked);
            assert_eq!(again.len(), calls.len(), "two migrations take the same steps");
            assert_eq!(left.len(), asked.len());
            let mut is_begun = false;
            for (moment, image) in left {
                let (file, what) = &calls[moment];
                let place = format!(
                    "from {}, killed before call {moment} of {}: {what} {file}",
                    board.version,
                    calls.len()
                );
                is_begun |= *file == format!("{DATABASE}-wal");
                let copy = board.copy(Path::new("")).to_string_lossy().into_owned();
                if image.contains_key(&copy) {
                    assert_copy(board, write_out(&image).path(), &old, &place);
                } else {
                    assert!(!is_begun, "{place}: the board changes before its copy is there");
                }
                judge(board, &image, &old, &place).await;
            }
            assert!(is_begun, "the migration wrote to its log");
        }
    }
}

#[tokio::test]
async fn a_power_cut_at_any_moment_of_a_migration_loses_nothing() {
    for board in BOARDS {
        let folder = tempfile::tempdir().unwrap();
        let old = board.place(folder.path());
        let disk = Disk::over(folder.path());
        drop(open(folder.path()).unwrap());
        let steps = disk.steps();
        // The first step finds the file that was there.
        let every = (steps.len() / CUTS).max(1);
        for round in seeds(1) {
            let _round = Round(round);
            let mut rng = Rng::of(round);
            for moment in (1..=steps.len()).filter(|n| n % every == round as usize % every) {
                let place = format!("from {}, cut at {moment} of {}", board.version, steps.len());
                judge(board, &cut(&steps, moment, &mut rng), &old, &place).await;
            }
        }
    }
}
