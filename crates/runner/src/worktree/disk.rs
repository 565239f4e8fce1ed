//! The disk space of worktrees. A walk over all files takes its time, so the sum is kept in a file for readers that must
//! not wait. Links are not followed: what they lead to belongs to the main checkout.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use callboard_engine::ports::DiskUsage;
use jiff::Timestamp;

/// Begins with a dot, which no worktree of a task does.
const RECORD: &str = ".usage";

/// Measures each folder of worktrees, and records the sum.
pub(super) fn measure(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut seen = HashSet::new();
    let measured: Vec<(PathBuf, u64)> =
        folders.map(|entry| (entry.path(), bytes(&entry.path(), &mut seen))).collect();
    if folder.exists() {
        let sum: u64 = measured.iter().map(|(_, bytes)| bytes).sum();
        let text = format!("{sum} {}\n", Timestamp::now().as_millisecond());
        if let Err(error) = fs::write(folder.join(RECORD), text) {
            tracing::warn!(%error, "cannot record the disk space of worktrees");
        }
    }
    measured
}

pub(super) fn recorded(folder: &Path) -> Option<DiskUsage> {
    let text = fs::read_to_string(folder.join(RECORD)).ok()?;
    let (bytes, at_ms) = text.trim_end().split_once(' ')?;
    Some(DiskUsage { bytes: bytes.parse().ok()?, at_ms: at_ms.parse().ok()? })
}

/// The space of a folder on its disk. A file with several names counts once.
fn bytes(folder: &Path, seen: &mut HashSet<(u64, u64)>) -> u64 {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            if facts.nlink() > 1 && facts.is_file() && !seen.insert((facts.dev(), facts.ino())) {
                continue;
            }
            sum += facts.blocks() * 512;
            if facts.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    sum
}
