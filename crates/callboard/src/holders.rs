//! Processes that have the files of an embedded store open. Reads `/proc`, so it works only on Linux, and only for
//! processes that the user may look into.

use std::fs;
use std::path::Path;

/// A process that has the database, its log or the log's index open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub process: u32,
    /// The path now names another file, or none.
    pub is_lost: bool,
    /// The process also has the lock file beside the database open, which no other program opens.
    pub is_callboard: bool,
}

/// All holders but this process.
pub fn of(database: &Path) -> Vec<Holder> {
    let real = match (database.canonicalize(), database.parent(), database.file_name()) {
        (Ok(real), _, _) => real,
        (_, Some(folder), Some(name)) => {
            folder.canonicalize().map_or_else(|_| database.to_owned(), |folder| folder.join(name))
        }
        _ => database.to_owned(),
    };
    let names = ["-turn", "", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", real.display()));
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| *process != std::process::id())
        .filter_map(|process| holder(process, &names))
        .collect()
}

fn holder(process: u32, [turn, files @ ..]: &[String; 4]) -> Option<Holder> {
    let (mut found, mut is_callboard) = (None, false);
    for descriptor in fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten() {
        let Ok(target) = fs::read_link(descriptor.path()) else { continue };
        let Some(target) = target.to_str() else { continue };
        // The kernel marks a descriptor's file that its path no longer names.
        let (name, is_lost) = match target.strip_suffix(" (deleted)") {
            Some(name) => (name, true),
            None => (target, false),
        };
        is_callboard |= turn == name;
        if files.iter().any(|known| known == name) {
            found = Some(found.unwrap_or(false) || is_lost);
        }
    }
    found.map(|is_lost| Holder { process, is_lost, is_callboard })
}
