//! The links and copies that a recipe places in a worktree, and our record of them. The record lies in git's common
//! folder, where no confined agent writes: by it these files are kept out of every commit of ours, whatever the agent
//! does to `.gitignore`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use callboard_domain::board::recipe::judge_placed;
use callboard_engine::ports::{Worktree, WorktreeFault};
use serde::{Deserialize, Serialize};

use super::{failed, hide, paths};
use crate::git::Git;
use crate::guarded::AgentTree;
use crate::placing::{self, PlacedFile};

/// The file in the main checkout that names the ignored files to copy.
pub(super) const INCLUDE: &str = ".worktreeinclude";
const INCLUDE_BYTES_MAX: u64 = 65_536;
/// More files are a folder to link, or one that the setup should make.
const COPIES_MAX: usize = 10_000;
const COPIES_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Our record of one worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Names the recipe by which it was made ready.
    pub(super) recipe: String,
    /// Written last: a preparation that was cut short begins again.
    pub(super) is_ready: bool,
    /// The links and copies, relative to the worktree.
    pub(super) placed: Vec<String>,
}

impl Record {
    fn path(common: &Path, worktree: &Path) -> PathBuf {
        let name = worktree.file_name().unwrap_or_default().to_string_lossy();
        common.join("callboard/workspaces").join(format!("{name}.json"))
    }

    /// Empty where nothing is recorded.
    pub(super) fn read(common: &Path, worktree: &Path) -> Self {
        let text = fs::read(Self::path(common, worktree)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn write(&self, common: &Path, worktree: &Path) -> io::Result<()> {
        let path = Self::path(common, worktree);
        fs::create_dir_all(path.parent().unwrap_or(common))?;
        let draft = path.with_extension("new");
        fs::write(&draft, serde_json::to_vec(self)?)?;
        fs::rename(draft, path)
    }

    /// Forgets a worktree that is new, or gone.
    pub(super) fn forget(common: &Path, worktree: &Path) -> io::Result<()> {
        match fs::remove_file(Self::path(common, worktree)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The files in a worktree that a recipe placed there.
pub(crate) fn placed_in(tree: &AgentTree) -> Vec<String> {
    Record::read(&tree.dirs().common, tree.path()).placed
}

/// The content of the file that names copies; empty where there is none. Only a plain file of the main checkout counts.
pub(super) fn include_of(repo: &Path) -> Result<Vec<u8>, WorktreeFault> {
    let path = repo.join(INCLUDE);
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("cannot read .worktreeinclude")(error)),
        Ok(facts) if !facts.is_file() || facts.len() > INCLUDE_BYTES_MAX => {
            Err(not_ready(format!("{INCLUDE} is not a plain file of at most 64 KiB")))
        }
        Ok(_) => fs::read(path).map_err(failed("cannot read .worktreeinclude")),
    }
}

/// The files of the main checkout that match `.worktreeinclude`, are ignored by git, and may be placed. Git reads the
/// patterns; files outside the repository are unknown to it, and it enters no other repository.
pub(super) async fn copies_of(repo: &Path) -> Result<Vec<String>, WorktreeFault> {
    let exclude = format!("--exclude-from={INCLUDE}");
    let matching =
        Git::at(repo).ask(&["ls-files", "-z", "--others", "--ignored", &exclude]).await?;
    let allowed: Vec<&str> = paths(&matching)
        .filter_map(|path| path.to_str())
        .filter(|path| !path.ends_with('/') && judge_placed(path).is_ok())
        .collect();
    if allowed.is_empty() {
        return Ok(Vec::new());
    }
    if allowed.len() > COPIES_MAX {
        return Err(not_ready(format!(
            "{INCLUDE} matches {} files, more than {COPIES_MAX}: name folders in workspace.link instead",
            allowed.len()
        )));
    }
    let git = Git::at(repo).input(allowed.join("\0"));
    let ignored = git.look(&["check-ignore", "-z", "--stdin"]).await?.unwrap_or_default();
    let ignored = paths(&ignored).filter_map(|path| path.to_str()).map(str::to_owned);
    Ok(ignored.collect())
}

/// Copies files that are not there yet. The words are for the log.
pub(super) fn copy_all(
    repo: &Path,
    worktree: &Path,
    files: &[String],
) -> Result<String, WorktreeFault> {
    let (mut bytes, mut words) = (0, String::new());
    for file in files {
        bytes += repo.join(file).symlink_metadata().map_or(0, |facts| facts.len());
        if bytes > COPIES_BYTES_MAX {
            return Err(not_ready(format!(
                "{INCLUDE} matches more than 1 GiB: name folders in workspace.link instead"
            )));
        }
        let placed = placing::copy(repo, worktree, file);
        words += &match placed.map_err(failed(&format!("cannot copy {file}")))? {
            PlacedFile::Done => format!("copied {file}\n"),
            PlacedFile::Taken => format!("kept {file}: it is there already\n"),
            PlacedFile::NoSource => format!("left out {file}: it is not a plain file\n"),
        };
    }
    Ok(words)
}

/// Links folders of the main checkout into a worktree. Refuses a path that git tracks on either side or does not ignore.
pub(super) async fn link_all(
    worktree: &Worktree,
    tree: &AgentTree,
    links: &[String],
) -> Result<String, WorktreeFault> {
    let mut words = String::new();
    let repo = worktree.repo.canonicalize().map_err(failed("cannot find the repository"))?;
    for link in links {
        let refused = |why: &str| not_ready(format!("workspace.link: {link} {why}"));
        judge_placed(link).map_err(|fault| refused(fault.words()))?;
        let link = link.trim_end_matches('/');
        let tracked = ["ls-files", "-z", "--", link];
        let is_tracked = !Git::at(&repo).ask(&tracked).await?.is_empty();
        if is_tracked || !tree.git().ask(&tracked).await?.is_empty() {
            return Err(refused("is tracked by git"));
        }
        if !placing::exists(&repo, link) {
            words += &format!("no link {link}: the main checkout has no such folder\n");
            continue;
        }
        if !Git::at(&repo).asks_yes(&["check-ignore", "-q", "--", link]).await? {
            return Err(refused("is not ignored by git"));
        }
        let placed = placing::link(&repo, tree.path(), link);
        match placed.map_err(failed(&format!("cannot link {link}")))? {
            PlacedFile::Done => {
                // A pattern such as `node_modules/` matches folders alone, and a link is none.
                hide(tree.git(), &tree.dirs().common, &[link]).await?;
                words += &format!("linked {link}\n");
            }
            PlacedFile::Taken => words += &format!("kept {link}: it is there already\n"),
            PlacedFile::NoSource => return Err(refused("is not a folder of the main checkout")),
        }
    }
    Ok(words)
}

pub(super) fn not_ready(words: String) -> WorktreeFault {
    WorktreeFault::NotReady(words)
}
