//! A checkout of a target: it moves along with the branch, or keeps it from moving.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use callboard_engine::ports::{MergeFault, WorktreeFault};

use super::REASON;
use super::index::{NAMES_AT_ONCE, stage};
use super::journal::Journal;
use crate::git::{Git, GitFault};
use crate::guarded::{BranchCheckout, rebased_in};
use crate::scratch::Scratch;
use crate::worktree::{listed, paths, text};

pub(super) struct Checkout {
    pub(super) place: BranchCheckout,
    /// Changed files that already have the merge's content.
    pub(super) same: Vec<OsString>,
}

impl Checkout {
    /// `None` when the target is checked out nowhere.
    pub(super) async fn of(
        journal: &Journal,
        repo: &Path,
        target: &str,
        from: &str,
        to: &str,
    ) -> Result<Option<Self>, MergeFault> {
        let known = listed(repo).await.map_err(WorktreeFault::from)?;
        let main = known.first().map_or(repo, |listed| &listed.path);
        // During a rebase no branch is checked out by name; the end of the rebase moves the branch.
        if let Some(place) = rebased_in(&journal.common, main, target) {
            let words = format!("{target} is being rebased in {}", place.display());
            return Err(WorktreeFault::Failed(words).into());
        }
        let known = known.into_iter();
        let mut places = known.filter(|listed| listed.branch.as_deref() == Some(target));
        let Some(place) = places.next().map(|listed| listed.path) else { return Ok(None) };
        if let Some(other) = places.next() {
            let words = format!(
                "{target} is checked out in {} and in {}, which cannot both follow it",
                place.display(),
                other.path.display()
            );
            return Err(WorktreeFault::Failed(words).into());
        }
        let place = BranchCheckout::of(&journal.common, &journal.worktrees, &place, target).await?;
        must_be_unlocked(&place).await?;
        let found = in_the_way(journal, &place, from, to).await.map_err(WorktreeFault::from)?;
        if found.others.is_empty() {
            return Ok(Some(Self { place, same: found.same }));
        }
        let files = found.others.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let place = place.path().to_owned();
        Err(MergeFault::InTheWay { target: target.into(), place, files })
    }

    /// Moves the checkout forward. Git itself checks again whether it would overwrite anything.
    pub(super) async fn forward(&self, to: &str, lock: &Arc<File>) -> Result<(), GitFault> {
        // Git skips files whose index entry is already the new commit's.
        stage(&self.place, to, &self.same).await?;
        let merge = ["merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-stat", to];
        let git = self.place.writing().with("GIT_REFLOG_ACTION", REASON);
        git.holding(lock).patiently().ask(&merge).await?;
        self.place.clear_left_behind()
    }

    pub(super) async fn back(
        &self,
        from: &str,
        to: &str,
        lock: &Arc<File>,
    ) -> Result<(), GitFault> {
        let head = self.place.git().ask(&["rev-parse", "HEAD"]).await?;
        if text(&head) != to {
            return Err(GitFault::Failed("the checkout moved while the merge ran".into()));
        }
        let git = self.place.writing().with("GIT_REFLOG_ACTION", REASON);
        git.holding(lock).patiently().ask(&["reset", "-q", "--keep", from]).await?;
        self.place.clear_left_behind()
    }
}

/// Refuses a checkout with an index lock, held by another git or left by a killed one.
async fn must_be_unlocked(place: &BranchCheckout) -> Result<(), WorktreeFault> {
    let lock = place.git_dir().await?.join("index.lock");
    let Ok(facts) = lock.metadata() else { return Ok(()) };
    let age = facts.modified().ok().and_then(|since| since.elapsed().ok()).unwrap_or_default();
    let (lock, place, age) = (lock.display(), place.path().display(), age.as_secs());
    Err(WorktreeFault::Failed(format!(
        "{lock} has existed for {age} s: git runs in {place}, or was killed there. Remove \
         that file if no git runs there"
    )))
}

/// Files that differ from the target.
struct ChangedFiles {
    /// Files with the merge's content, which are not in its way.
    same: Vec<OsString>,
    others: Vec<OsString>,
}

/// All changes of tracked files, and untracked files, ignored ones included, in places of new files.
async fn in_the_way(
    journal: &Journal,
    place: &BranchCheckout,
    from: &str,
    to: &str,
) -> Result<ChangedFiles, GitFault> {
    let git = place.git();
    let status = ["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
    let changed = git.ask(&[&status[..], &["--ignore-submodules=dirty"]].concat()).await?;
    let changed = paths(&changed).filter_map(|entry| entry.as_bytes().get(3..));
    let changed: Vec<OsString> = changed.map(|path| OsStr::from_bytes(path).to_owned()).collect();
    let mut found = sift(journal, place, from, to, changed).await?;
    if !found.others.is_empty() {
        return Ok(found);
    }
    let added = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A"];
    let added = git.ask(&[&added[..], &[from, to]].concat()).await?;
    let mut taken: Vec<OsString> =
        paths(&added).filter_map(|new| taken(place.path(), new)).collect();
    taken.sort();
    taken.dedup();
    let mut unknown = Vec::new();
    let literally = place.git().with("GIT_LITERAL_PATHSPECS", "1");
    for some in taken.chunks(NAMES_AT_ONCE) {
        let list = ["ls-files", "--others", "-z", "--"].map(OsStr::new).into_iter();
        let list: Vec<&OsStr> = list.chain(some.iter().map(OsString::as_os_str)).collect();
        unknown.extend(paths(&literally.ask(&list).await?).map(OsStr::to_owned));
    }
    let new = sift(journal, place, from, to, unknown).await?;
    found.same.extend(new.same);
    found.others = new.others;
    Ok(found)
}

/// Separates files with a commit's content from others. Git's own rules compare them: the content it would add. A
/// staged entry of neither commit is the user's, whatever the file is.
async fn sift(
    journal: &Journal,
    place: &BranchCheckout,
    from: &str,
    to: &str,
    files: Vec<OsString>,
) -> Result<ChangedFiles, GitFault> {
    if files.is_empty() {
        return Ok(ChangedFiles { same: files, others: Vec::new() });
    }
    let (index, objects) = (place.git_dir().await?.join("index"), journal.common.join("objects"));
    let scratch = Scratch::beside(Some(index), objects).await?;
    let list: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let add = ["update-index", "-q", "--add", "--remove", "--replace", "-z", "--stdin"];
    scratch.used_by(place.git()).input(list.join(&0)).ask(&add).await?;
    let differing = differing(scratch.used_by(place.git()), to, &files).await?;
    scratch.close().await?;
    let staged = differing_in_index(place, from, to, &files).await?;
    let is_same = |file: &OsString| !differing.contains(file) && !staged.contains(file);
    let (same, others) = files.into_iter().partition(is_same);
    Ok(ChangedFiles { same, others })
}

/// Paths whose index entry is of neither commit.
async fn differing_in_index(
    place: &BranchCheckout,
    from: &str,
    to: &str,
    files: &[OsString],
) -> Result<HashSet<OsString>, GitFault> {
    let of_from = differing(place.git(), from, files).await?;
    let of_to = differing(place.git(), to, files).await?;
    Ok(of_from.intersection(&of_to).cloned().collect())
}

/// Paths whose index entry differs from a commit.
async fn differing(
    index: Git<'_>,
    commit: &str,
    files: &[OsString],
) -> Result<HashSet<OsString>, GitFault> {
    let index = index.with("GIT_LITERAL_PATHSPECS", "1");
    let mut found = HashSet::new();
    for some in files.chunks(NAMES_AT_ONCE) {
        let diff = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", commit, "--"];
        let diff = diff.map(OsStr::new).into_iter();
        let diff: Vec<&OsStr> = diff.chain(some.iter().map(OsString::as_os_str)).collect();
        found.extend(paths(&index.ask(&diff).await?).map(OsStr::to_owned));
    }
    Ok(found)
}

/// The path that blocks a new file: one with its name, or a file where it needs a folder.
fn taken(place: &Path, new: &OsStr) -> Option<OsString> {
    let new = Path::new(new);
    if place.join(new).symlink_metadata().is_ok() {
        return Some(new.into());
    }
    let above = new.ancestors().skip(1).filter(|above| *above != Path::new(""));
    let is_file =
        |above: &&Path| place.join(above).symlink_metadata().is_ok_and(|facts| !facts.is_dir());
    above.into_iter().find(is_file).map(OsString::from)
}
