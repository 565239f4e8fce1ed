//! What a disk holds after a power cut: everything that was flushed, and of the rest whatever the cut let through. Writes
//! reach the disk in sectors, in any order; a file that was never flushed may have no name yet, and a deleted one may be
//! back.

use std::collections::BTreeMap;

use crate::disk::Step;
use crate::seeded::Rng;

/// The files of a folder by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// How much of what was not flushed is on disk.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Nothing,
    Everything,
    /// This many writes, in order; the last of them is torn.
    First(usize),
    /// Each sector with this chance.
    Sectors(usize),
}

#[derive(Clone, Default)]
struct File {
    bytes: Vec<u8>,
    /// The name of the file is on disk.
    is_named: bool,
    /// Deleted, but the folder was not flushed since.
    is_deleted: bool,
    waiting: Vec<Waiting>,
    /// The file of this name before, whose deletion may not be on disk.
    before: Option<Vec<u8>>,
}

#[derive(Clone)]
struct Waiting {
    change: Change,
    /// A failed flush forgot this write: no later flush brings it to disk for sure.
    is_forgotten: bool,
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

/// The disk after a cut at this moment.
pub fn cut(steps: &[Step], moment: usize, rng: &mut Rng) -> Image {
    let sector = *rng.pick(&[512, 4096]);
    let mut files: BTreeMap<&str, File> = BTreeMap::new();
    for step in &steps[..moment] {
        take(&mut files, step, sector, rng);
    }
    let mut image = Image::new();
    for (name, file) in files {
        let File { bytes, is_named, is_deleted, waiting, before } = file;
        let is_there = is_named || rng.percent(50);
        if !is_there || (is_deleted && rng.percent(50)) {
            // The earlier file of this name has a name as long as nothing flushed the folder.
            if let Some(bytes) = before.filter(|_| rng.percent(50)) {
                image.insert(name.to_owned(), bytes);
            }
            continue;
        }
        image.insert(name.to_owned(), survive(bytes, &waiting, sector, rng));
    }
    image
}

fn take<'s>(files: &mut BTreeMap<&'s str, File>, step: &'s Step, sector: usize, rng: &mut Rng) {
    let wait = |change| Waiting { change, is_forgotten: false };
    match step {
        Step::Found { file, bytes } => {
            let found = File { bytes: bytes.clone(), is_named: true, ..File::default() };
            files.insert(file, found);
        }
        Step::Create { file } => {
            let before = files.remove(file.as_str()).filter(|old| old.is_named);
            let before = before.map(|old| old.bytes);
            files.insert(file, File { before, ..File::default() });
        }
        Step::Write { file, at, bytes } => {
            let change = Change::Write { at: *at as usize, bytes: bytes.clone() };
            known(files, file).waiting.push(wait(change));
        }
        Step::Truncate { file, size } => {
            known(files, file).waiting.push(wait(Change::Truncate(*size as usize)));
        }
        // The first flush of a log also flushes the folder.
        Step::Flush { file } => {
            let file = known(files, file);
            (file.is_named, file.before) = (true, None);
            for Waiting { change, is_forgotten } in std::mem::take(&mut file.waiting) {
                let chance = if is_forgotten { 50 } else { 100 };
                apply(&mut file.bytes, &change, sector, |_| rng.percent(chance));
            }
        }
        Step::FlushFailed { file } => {
            known(files, file).waiting.iter_mut().for_each(|waiting| waiting.is_forgotten = true);
        }
        Step::Delete { file, flushed: true } => {
            files.remove(file.as_str());
        }
        Step::Delete { file, flushed: false } => known(files, file).is_deleted = true,
    }
}

fn known<'f>(files: &'f mut BTreeMap<&str, File>, name: &str) -> &'f mut File {
    files.get_mut(name).expect("a file is found or created before anything else")
}

fn survive(mut bytes: Vec<u8>, waiting: &[Waiting], sector: usize, rng: &mut Rng) -> Vec<u8> {
    let luck = match rng.below(5) {
        0 => Luck::Nothing,
        1 => Luck::Everything,
        2 => Luck::First(rng.below(waiting.len() + 1)),
        _ => Luck::Sectors(*rng.pick(&[10, 50, 90])),
    };
    // The size of a file can be on disk before its content is.
    if rng.percent(20) {
        let mut grown = bytes.clone();
        for Waiting { change, .. } in waiting {
            apply(&mut grown, change, sector, |_| true);
        }
        let size = grown.len().max(bytes.len());
        bytes.resize(size, 0);
    }
    for (n, Waiting { change, .. }) in waiting.iter().enumerate() {
        match luck {
            Luck::Nothing => {}
            Luck::Everything => apply(&mut bytes, change, sector, |_| true),
            Luck::First(count) if n + 1 < count => apply(&mut bytes, change, sector, |_| true),
            Luck::First(count) if n + 1 == count => {
                let whole = rng.below(9);
                apply(&mut bytes, change, sector, |nth| nth < whole);
            }
            Luck::First(_) => {}
            Luck::Sectors(chance) => apply(&mut bytes, change, sector, |_| rng.percent(chance)),
        }
    }
    bytes
}

/// Carries out a change, of a write only the sectors that `reaches` names by their number.
fn apply(
    bytes: &mut Vec<u8>,
    change: &Change,
    sector: usize,
    mut reaches: impl FnMut(usize) -> bool,
) {
    match change {
        Change::Truncate(size) => {
            if reaches(0) {
                bytes.resize(*size, 0);
            }
        }
        Change::Write { at, bytes: new } => {
            let (mut from, end, mut nth) = (*at, at + new.len(), 0);
            while from < end {
                let to = end.min((from / sector + 1) * sector);
                if reaches(nth) {
                    if bytes.len() < to {
                        bytes.resize(to, 0);
                    }
                    bytes[from..to].copy_from_slice(&new[from - at..to - at]);
                }
                (from, nth) = (to, nth + 1);
            }
        }
    }
}
