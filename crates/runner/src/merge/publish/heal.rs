//! Repairs a checkout in which git was killed while it moved from one commit to another: back to the commit that its
//! branch names. Only git's own writes are replaced: a file that is the other commit's, or the beginning of it, or is
//! missing. Every other file is the user's, and stays byte for byte.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use callboard_engine::ports::WorktreeFault;

use super::index::{Entry, entries_in_index, set_entries};
use super::journal::{Begun, Journal};
use crate::git::GitFault;
use crate::guarded::BranchCheckout;
use crate::scratch::Scratch;
use crate::worktree::{Tips, clear_stale, failed, listed, paths};

const SUBMODULE: &str = "160000";

/// `was_killed`: git left its locks behind.
pub(super) async fn heal(
    journal: &Journal,
    begun: &Begun,
    was_killed: bool,
) -> Result<(), WorktreeFault> {
    let common = &journal.common;
    let now = Tips::of(common, &begun.target).await?.local;
    let is_at = |commit: &str| now.as_deref() == Some(commit);
    let stands = match &begun.from {
        _ if is_at(&begun.to) => &begun.to,
        Some(from) if is_at(from) => from,
        None if now.is_none() => &begun.to,
        // The branch was moved on since: everything there belongs to that move.
        _ => return Ok(()),
    };
    let place = match &begun.place {
        Some(place) => checked_out(journal, Path::new(OsStr::from_bytes(place)), begun).await?,
        None => None,
    };
    if was_killed {
        let mut locks = vec![common.join(format!("refs/heads/{}.lock", begun.target))];
        if let Some(place) = &place {
            let own = place.git_dir().await?;
            locks.extend(["index.lock", "HEAD.lock", "ORIG_HEAD.lock"].map(|lock| own.join(lock)));
        }
        clear_stale(&locks)?;
    }
    let (Some(place), Some(from)) = (place, &begun.from) else { return Ok(()) };
    let other = if stands == from { &begun.to } else { from };
    put_back(journal, &place, stands, other, &begun.same).await
}

/// The checkout, if it still has the target checked out.
async fn checked_out(
    journal: &Journal,
    place: &Path,
    begun: &Begun,
) -> Result<Option<BranchCheckout>, WorktreeFault> {
    let known = listed(&journal.common).await?.into_iter().find(|listed| listed.is_at(place));
    let is_it = known.is_some_and(|listed| listed.branch.as_ref() == Some(&begun.target));
    if !is_it || !place.is_dir() {
        return Ok(None);
    }
    let place = BranchCheckout::of(&journal.common, &journal.worktrees, place, &begun.target);
    place.await.map(Some)
}

/// A path that differs between two commits.
struct PathChange {
    path: OsString,
    /// The entry in the commit that the branch names.
    here: Option<Entry>,
    there: Option<Entry>,
}

async fn put_back(
    journal: &Journal,
    place: &BranchCheckout,
    stands: &str,
    other: &str,
    same: &[Vec<u8>],
) -> Result<(), WorktreeFault> {
    let top = place.path();
    let changes = changes(place, stands, other).await?;
    let names: Vec<&OsStr> = changes.iter().map(|change| change.path.as_os_str()).collect();
    let staged = entries_in_index(place, &names).await?;
    let is_theirs = |change: &&PathChange| staged.get(&change.path) == change.there.as_ref();
    let unstaged = changes.iter().filter(is_theirs);
    let unstaged: Vec<_> = unstaged.map(|change| (&*change.path, change.here.as_ref())).collect();
    set_entries(place, &unstaged).await?;

    let same: HashSet<&[u8]> = same.iter().map(Vec::as_slice).collect();
    let changes: Vec<&PathChange> =
        changes.iter().filter(|change| !same.contains(change.path.as_bytes())).collect();
    let differing = differing(place).await?;
    let is_suspect = |change: &&&PathChange| match change.here {
        Some(_) => differing.contains(&change.path),
        None => top.join(&change.path).symlink_metadata().is_ok(),
    };
    let suspects: Vec<&PathChange> = changes.iter().filter(is_suspect).copied().collect();
    if suspects.is_empty() {
        return Ok(());
    }
    let made = Made::of(journal, place, other, &suspects).await?;
    let cannot = || failed("cannot repair the checkout of a merge");
    // First remove the files in the way of those that come back.
    for change in suspects.iter().filter(|change| change.here.is_none()) {
        if made.is_by_git(top, change).map_err(cannot())? {
            fs::remove_file(top.join(&change.path)).map_err(cannot())?;
            prune(top, &change.path);
        }
    }
    let mut back = Vec::new();
    for change in suspects.iter().filter(|change| change.here.is_some()) {
        if made.is_by_git(top, change).map_err(cannot())? {
            back.push(change.path.as_bytes());
        }
    }
    made.close().await?;
    if !back.is_empty() {
        let git = place.writing().input(back.join(&0)).holding(&journal.lock);
        git.patiently().ask(&["checkout-index", "-f", "-q", "-u", "-z", "--stdin"]).await?;
    }
    Ok(())
}

async fn changes(
    place: &BranchCheckout,
    stands: &str,
    other: &str,
) -> Result<Vec<PathChange>, GitFault> {
    let diff = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", stands, other];
    let answer = place.git().ask(&diff).await?;
    let mut fields = paths(&answer);
    let mut found = Vec::new();
    while let (Some(facts), Some(path)) = (fields.next(), fields.next()) {
        let facts = facts.to_string_lossy();
        let mut words = facts.trim_start_matches(':').split(' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (mode, new_mode, id, new_id) = (word(), word(), word(), word());
        if mode == SUBMODULE || new_mode == SUBMODULE {
            continue;
        }
        let entry = |mode: String, id| (mode != "000000").then_some(Entry { mode, id });
        let (here, there) = (entry(mode, id), entry(new_mode, new_id));
        found.push(PathChange { path: path.to_owned(), here, there });
    }
    Ok(found)
}

/// Tracked files that differ from the index.
async fn differing(place: &BranchCheckout) -> Result<HashSet<OsString>, GitFault> {
    // The exit code says that some files differ, which is no fault here.
    place.writing().answer(&["update-index", "-q", "--refresh"]).await?;
    let answer =
        place.git().ask(&["diff-files", "-z", "--name-only", "--ignore-submodules=dirty"]).await?;
    Ok(paths(&answer).map(OsStr::to_owned).collect())
}

/// The files as git would have written them, line ends and filters included, in a folder of ours.
struct Made {
    scratch: Scratch,
}

impl Made {
    async fn of(
        journal: &Journal,
        place: &BranchCheckout,
        commit: &str,
        suspects: &[&PathChange],
    ) -> Result<Self, GitFault> {
        let scratch = Scratch::beside(None, journal.common.join("objects")).await?;
        let git = || scratch.used_by(place.git());
        git().ask(&["read-tree", commit]).await?;
        let files = suspects.iter().filter(|change| change.there.is_some());
        let files: Vec<&[u8]> = files.map(|change| change.path.as_bytes()).collect();
        if !files.is_empty() {
            let mut prefix = OsString::from("--prefix=");
            prefix.push(scratch.folder().join("files"));
            prefix.push("/");
            let options = ["checkout-index", "-q", "-z", "--stdin"].map(OsString::from);
            let args = [&options[..], &[prefix]].concat();
            git().input(files.join(&0)).patiently().ask(&args).await?;
        }
        Ok(Self { scratch })
    }

    /// Whether the file at a path is what git wrote of the other commit, whole or in part.
    fn is_by_git(&self, place: &Path, change: &PathChange) -> io::Result<bool> {
        let stands = place.join(&change.path);
        if is_behind_a_link(place, &change.path) {
            return Ok(false);
        }
        let facts = match stands.symlink_metadata() {
            Ok(facts) => facts,
            // Git removes a file before it writes the new one, so a missing file is git's doing.
            Err(error) if is_absence(&error) => return Ok(true),
            Err(error) => return Err(error),
        };
        let made = self.scratch.folder().join("files").join(&change.path);
        let Ok(wanted) = made.symlink_metadata() else { return Ok(false) };
        if facts.is_symlink() && wanted.is_symlink() {
            return Ok(fs::read_link(stands)? == fs::read_link(made)?);
        }
        if !facts.is_file() || !wanted.is_file() || facts.len() > wanted.len() {
            return Ok(false);
        }
        begins_with(&made, &stands)
    }

    async fn close(self) -> Result<(), GitFault> {
        self.scratch.close().await
    }
}

/// Whether a path leads through a link. Git writes through no link, so a file behind one is not git's.
fn is_behind_a_link(place: &Path, path: &OsStr) -> bool {
    let above = Path::new(path).ancestors().skip(1).filter(|above| *above != Path::new(""));
    let is_link =
        |above: &Path| place.join(above).symlink_metadata().is_ok_and(|it| it.is_symlink());
    above.into_iter().any(is_link)
}

/// Whether nothing stands at a path. `NotADirectory`: a file stands where the path has a folder.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn begins_with(whole: &Path, part: &Path) -> io::Result<bool> {
    let (mut whole, mut part) =
        (BufReader::new(File::open(whole)?), BufReader::new(File::open(part)?));
    loop {
        let wanted = part.fill_buf()?;
        if wanted.is_empty() {
            return Ok(true);
        }
        let found = whole.fill_buf()?;
        let length = wanted.len().min(found.len());
        if length == 0 || wanted[..length] != found[..length] {
            return Ok(false);
        }
        part.consume(length);
        whole.consume(length);
    }
}

/// Removes folders that became empty, as git does.
fn prune(place: &Path, path: &OsStr) {
    for folder in Path::new(path).ancestors().skip(1).filter(|folder| *folder != Path::new("")) {
        // A folder that is not empty stays.
        if fs::remove_dir(place.join(folder)).is_err() {
            break;
        }
    }
}
