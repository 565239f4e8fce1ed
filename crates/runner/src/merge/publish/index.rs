//! Entries of a checkout's index and of a commit, read and set by path.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::git::GitFault;
use crate::guarded::BranchCheckout;

/// How many names go into one call of git.
pub(super) const NAMES_AT_ONCE: usize = 200;

/// Entries by path.
pub(super) type Entries = HashMap<OsString, Entry>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) id: String,
}

pub(super) async fn entries_in_index(
    place: &BranchCheckout,
    names: &[&OsStr],
) -> Result<Entries, GitFault> {
    // `mode id stage`, a tab, the path.
    entries(place, &["ls-files", "-s", "-z", "--"], names, 1).await
}

pub(super) async fn entries_in_commit(
    place: &BranchCheckout,
    commit: &str,
    names: &[&OsStr],
) -> Result<Entries, GitFault> {
    // `mode type id`, a tab, the path.
    entries(place, &["ls-tree", "-r", "-z", "--full-tree", commit, "--"], names, 2).await
}

async fn entries(
    place: &BranchCheckout,
    ask: &[&str],
    names: &[&OsStr],
    id_at: usize,
) -> Result<Entries, GitFault> {
    let git = place.git().with("GIT_LITERAL_PATHSPECS", "1");
    let mut found = Entries::new();
    for some in names.chunks(NAMES_AT_ONCE) {
        let args: Vec<&OsStr> = ask.iter().map(OsStr::new).chain(some.iter().copied()).collect();
        let answer = git.ask(&args).await?;
        for line in answer.split(|byte| *byte == 0) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let facts = String::from_utf8_lossy(&line[..tab]).into_owned();
            let words: Vec<&str> = facts.split(' ').collect();
            let (Some(mode), Some(id)) = (words.first(), words.get(id_at)) else { continue };
            let entry = Entry { mode: (*mode).to_owned(), id: (*id).to_owned() };
            found.insert(OsStr::from_bytes(&line[tab + 1..]).to_owned(), entry);
        }
    }
    Ok(found)
}

/// Sets entries of the index; `None` removes the path.
pub(super) async fn set_entries(
    place: &BranchCheckout,
    wanted: &[(&OsStr, Option<&Entry>)],
) -> Result<(), GitFault> {
    // Removed paths make way for new ones.
    let (gone, set): (Vec<_>, Vec<_>) = wanted.iter().partition(|(_, entry)| entry.is_none());
    if !gone.is_empty() {
        let gone: Vec<&[u8]> = gone.iter().map(|(path, _)| path.as_bytes()).collect();
        let git = place.writing().input(gone.join(&0));
        git.ask(&["update-index", "--force-remove", "-z", "--stdin"]).await?;
    }
    let mut lines = Vec::new();
    for (path, entry) in set {
        let Some(Entry { mode, id }) = entry else { continue };
        lines.extend(format!("{mode} {id}\t").into_bytes());
        lines.extend(path.as_bytes());
        lines.push(0);
    }
    if !lines.is_empty() {
        let git = place.writing().input(lines);
        git.ask(&["update-index", "-z", "--index-info"]).await?;
    }
    Ok(())
}

/// Gives the index the entries that a commit has of these paths.
pub(super) async fn stage(
    place: &BranchCheckout,
    commit: &str,
    names: &[OsString],
) -> Result<(), GitFault> {
    let names: Vec<&OsStr> = names.iter().map(OsString::as_os_str).collect();
    let known = entries_in_commit(place, commit, &names).await?;
    let wanted: Vec<_> = names.iter().map(|name| (*name, known.get(*name))).collect();
    set_entries(place, &wanted).await
}
