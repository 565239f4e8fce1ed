//! A checkout of a target: it moves along with the branch, or keeps it from moving.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_engine::ports::{MergeFault, WorktreeFault};

use super::REASON;
use super::index::{NAMES_AT_ONCE, stage};
use crate::git::{Git, GitFault};
use crate::scratch::Scratch;
use crate::worktree::{listed, paths, text};

pub(super) struct Checkout {
    pub(super) place: PathBuf,
    /// Changed files that are as the merge makes them.
    pub(super) same: Vec<OsString>,
}

impl Checkout {
    /// `None` when nobody has the target checked out.
    pub(super) async fn of(
        repo: &Path,
        target: &str,
        from: &str,
        to: &str,
    ) -> Result<Option<Self>, MergeFault> {
        let known = listed(repo).await.map_err(WorktreeFault::from)?;
        let nameless = known.iter().filter(|listed| listed.branch.is_none());
        for place in nameless.map(|listed| &listed.path).filter(|place| place.is_dir()) {
            if is_rebasing(place, target).await.map_err(WorktreeFault::from)? {
                let words = format!("{target} is being rebased in {}", place.display());
                return Err(WorktreeFault::Failed(words).into());
            }
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
        must_be_unlocked(&place).await?;
        let found = in_the_way(&place, from, to).await.map_err(WorktreeFault::from)?;
        if found.others.is_empty() {
            return Ok(Some(Self { place, same: found.same }));
        }
        let files = found.others.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        Err(MergeFault::InTheWay { target: target.into(), place, files })
    }

    /// Git itself looks again whether it would overwrite anything.
    pub(super) async fn forward(&self, to: &str, lock: &Arc<File>) -> Result<(), GitFault> {
        // Git takes what the index has of the new commit for done.
        stage(&self.place, to, &self.same).await?;
        let merge = ["merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-stat", to];
        let git = Git::writing(&self.place).with("GIT_REFLOG_ACTION", REASON);
        git.holding(lock).patiently().ask(&merge).await.map(drop)
    }

    pub(super) async fn back(
        &self,
        from: &str,
        to: &str,
        lock: &Arc<File>,
    ) -> Result<(), GitFault> {
        let head = Git::at(&self.place).ask(&["rev-parse", "HEAD"]).await?;
        if text(&head) != to {
            return Err(GitFault::Failed("it moved on meanwhile".into()));
        }
        let git = Git::writing(&self.place).with("GIT_REFLOG_ACTION", REASON);
        git.holding(lock).patiently().ask(&["reset", "-q", "--keep", from]).await.map(drop)
    }
}

/// Names a lock that another git holds, or that one left when it was killed.
async fn must_be_unlocked(place: &Path) -> Result<(), WorktreeFault> {
    let ask = ["rev-parse", "--path-format=absolute", "--git-path", "index.lock"];
    let lock = PathBuf::from(text(&Git::at(place).ask(&ask).await?));
    let Ok(facts) = lock.metadata() else { return Ok(()) };
    let age = facts.modified().ok().and_then(|since| since.elapsed().ok()).unwrap_or_default();
    let (lock, place, age) = (lock.display(), place.display(), age.as_secs());
    Err(WorktreeFault::Failed(format!(
        "{lock} is there since {age} s: a git works in {place}, or one was killed there. Remove \
         that file if none works there"
    )))
}

/// Nothing is checked out by name while a rebase is under way; at its end the branch is moved.
async fn is_rebasing(place: &Path, target: &str) -> Result<bool, GitFault> {
    let git_dir = Git::at(place).ask(&["rev-parse", "--absolute-git-dir"]).await?;
    let git_dir = PathBuf::from(text(&git_dir));
    let name = format!("refs/heads/{target}");
    Ok(["rebase-merge", "rebase-apply"].iter().any(|state| {
        let head = fs::read_to_string(git_dir.join(state).join("head-name"));
        head.is_ok_and(|head| head.trim_end() == name)
    }))
}

/// Files that are not as the target has them.
struct Found {
    /// As the merge makes them, so not in its way.
    same: Vec<OsString>,
    others: Vec<OsString>,
}

/// Changes of tracked files, any of them; and files that git does not know where new ones would
/// go, ignored ones too.
async fn in_the_way(place: &Path, from: &str, to: &str) -> Result<Found, GitFault> {
    let git = Git::at(place);
    let status = ["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
    let changed = git.ask(&[&status[..], &["--ignore-submodules=dirty"]].concat()).await?;
    let changed = paths(&changed).filter_map(|entry| entry.as_bytes().get(3..));
    let changed: Vec<OsString> = changed.map(|path| OsStr::from_bytes(path).to_owned()).collect();
    let mut found = sift(place, from, to, changed).await?;
    if !found.others.is_empty() {
        return Ok(found);
    }
    let added = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A"];
    let added = git.ask(&[&added[..], &[from, to]].concat()).await?;
    let mut taken: Vec<OsString> = paths(&added).filter_map(|new| taken(place, new)).collect();
    taken.sort();
    taken.dedup();
    let mut unknown = Vec::new();
    let literally = Git::at(place).with("GIT_LITERAL_PATHSPECS", "1");
    for some in taken.chunks(NAMES_AT_ONCE) {
        let list = ["ls-files", "--others", "-z", "--"].map(OsStr::new).into_iter();
        let list: Vec<&OsStr> = list.chain(some.iter().map(OsString::as_os_str)).collect();
        unknown.extend(paths(&literally.ask(&list).await?).map(OsStr::to_owned));
    }
    let new = sift(place, from, to, unknown).await?;
    found.same.extend(new.same);
    found.others = new.others;
    Ok(found)
}

/// Tells files that are as a commit has them from others, with git's own eyes: by what it would add
/// of them. What is staged and is neither commit's is somebody's, whatever the file is.
async fn sift(place: &Path, from: &str, to: &str, files: Vec<OsString>) -> Result<Found, GitFault> {
    if files.is_empty() {
        return Ok(Found { same: files, others: Vec::new() });
    }
    let git_path = ["rev-parse", "--path-format=absolute", "--git-path"];
    let ask = [&git_path[..], &["index", "--git-path", "objects"]].concat();
    let answer = text(&Git::at(place).ask(&ask).await?);
    let (index, objects) = answer.split_once('\n').unwrap_or((&answer, ""));
    let scratch = Scratch::beside(Some(index.into()), objects.into()).await?;
    let list: Vec<&[u8]> = files.iter().map(|file| file.as_bytes()).collect();
    let add = ["update-index", "-q", "--add", "--remove", "--replace", "-z", "--stdin"];
    scratch.used_by(Git::at(place)).input(list.join(&0)).ask(&add).await?;
    let differing = differing(scratch.used_by(Git::at(place)), to, &files).await?;
    scratch.close().await?;
    let staged = differing_in_index(place, from, to, &files).await?;
    let is_same = |file: &OsString| !differing.contains(file) && !staged.contains(file);
    let (same, others) = files.into_iter().partition(is_same);
    Ok(Found { same, others })
}

/// What the index has of neither commit.
async fn differing_in_index(
    place: &Path,
    from: &str,
    to: &str,
    files: &[OsString],
) -> Result<HashSet<OsString>, GitFault> {
    let of_from = differing(Git::at(place), from, files).await?;
    let of_to = differing(Git::at(place), to, files).await?;
    Ok(of_from.intersection(&of_to).cloned().collect())
}

/// Paths that an index has otherwise than a commit.
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

/// What stands where a new file would go: at its name, or as a file where it needs a folder.
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
