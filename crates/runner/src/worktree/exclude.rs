//! Hides files of ours from git through `info/exclude`: no file of the user changes, and the lines are never committed.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use callboard_engine::ports::WorktreeFault;

use super::failed;
use crate::git::Git;

/// Hides names from git. `git` works at the top of a working tree whose common folder is `common`; each name is
/// relative to the top, and a folder ends in `/`. An ignored name needs no line.
pub(crate) async fn hide(git: Git<'_>, common: &Path, names: &[&str]) -> Result<(), WorktreeFault> {
    let mut missing = Vec::new();
    for name in names {
        if !git.asks_yes(&["check-ignore", "-q", "--no-index", "--", name]).await? {
            missing.push(format!("/{name}"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    append(&common.join("info"), &missing).map_err(failed("cannot write git's info/exclude"))
}

fn append(info: &Path, lines: &[String]) -> io::Result<()> {
    fs::create_dir_all(info)?;
    let path = info.join("exclude");
    let before = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        before => before?,
    };
    let known: Vec<&[u8]> = before.split(|byte| *byte == b'\n').collect();
    let mut added = String::new();
    for line in lines.iter().filter(|line| !known.contains(&line.as_bytes())) {
        added.push_str(line);
        added.push('\n');
    }
    if !before.is_empty() && !before.ends_with(b"\n") {
        added.insert(0, '\n');
    }
    OpenOptions::new().append(true).create(true).open(path)?.write_all(added.as_bytes())
}
