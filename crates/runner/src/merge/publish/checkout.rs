//! A checkout of a target: it moves along with the branch, or keeps it from moving.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{MergeFault, WorktreeFault};

use super::REASON;
use crate::git::{Git, GitFault};
use crate::worktree::{listed, names, paths, text};

/// So many names go into one question.
const NAMES_AT_ONCE: usize = 200;

pub(super) struct Checkout {
    place: PathBuf,
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
        for place in nameless.map(|listed| &listed.path) {
            if is_rebasing(place, target).await {
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
        let files = in_the_way(&place, from, to).await.map_err(WorktreeFault::from)?;
        if files.is_empty() {
            return Ok(Some(Self { place }));
        }
        Err(MergeFault::InTheWay { target: target.into(), place, files })
    }

    /// Git itself looks again whether it would overwrite anything.
    pub(super) async fn forward(&self, to: &str) -> Result<(), GitFault> {
        let merge = ["merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-stat", to];
        let git = Git::writing(&self.place).with("GIT_REFLOG_ACTION", REASON);
        git.patiently().ask(&merge).await.map(drop)
    }

    pub(super) async fn back(&self, from: &str, to: &str) -> Result<(), GitFault> {
        let head = Git::at(&self.place).ask(&["rev-parse", "HEAD"]).await?;
        if text(&head) != to {
            return Err(GitFault::Failed("it moved on meanwhile".into()));
        }
        let git = Git::writing(&self.place).with("GIT_REFLOG_ACTION", REASON);
        git.patiently().ask(&["reset", "-q", "--keep", from]).await.map(drop)
    }
}

/// Nothing is checked out by name while a rebase is under way; at its end the branch is moved.
async fn is_rebasing(place: &Path, target: &str) -> bool {
    let Ok(git_dir) = Git::at(place).ask(&["rev-parse", "--absolute-git-dir"]).await else {
        return false;
    };
    let git_dir = PathBuf::from(text(&git_dir));
    let name = format!("refs/heads/{target}");
    ["rebase-merge", "rebase-apply"].iter().any(|state| {
        let head = fs::read_to_string(git_dir.join(state).join("head-name"));
        head.is_ok_and(|head| head.trim_end() == name)
    })
}

/// Changes of tracked files, any of them; and files that git does not know where new ones would
/// go, ignored ones too.
async fn in_the_way(place: &Path, from: &str, to: &str) -> Result<Vec<String>, GitFault> {
    let git = Git::at(place);
    let status = ["status", "--porcelain", "-z", "--untracked-files=no", "--no-renames"];
    let changed = git.ask(&[&status[..], &["--ignore-submodules=dirty"]].concat()).await?;
    let changed = paths(&changed).map(|entry| entry.to_string_lossy());
    let changed: Vec<String> = changed.filter_map(|entry| Some(entry.get(3..)?.into())).collect();
    if !changed.is_empty() {
        return Ok(changed);
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
        unknown.extend(names(&literally.ask(&list).await?));
    }
    Ok(unknown)
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
