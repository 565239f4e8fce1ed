//! The git tree id of a working tree as it is: tracked, uncommitted and untracked files, without ignored ones and
//! without `.callboard/`.
//!
//! The repository is only read: git works on a `Scratch`. In the worktree of an agent git is guarded, and a submodule
//! counts as its commit alone.

use std::ffi::{OsStr, OsString};
use std::future::Future;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use callboard_engine::ports::{CheckFault, FilesState};

use crate::git::{self, Git, GitFault};
use crate::guarded::AgentTree;
use crate::scratch::Scratch;
use crate::worktree::stage;

/// A concurrent build may delete a file between git's finding and reading it.
const ADD_TRIES: usize = 5;

/// Whether a root of checks is a worktree of agents, not the person's own checkout.
pub(crate) fn is_of_agents(repo: &Path, root: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(repo) != real(root)
}

pub(crate) async fn files(repo: &Path, root: &Path) -> Result<FilesState, CheckFault> {
    if !root.is_dir() {
        let why = "the repo's folder cannot be opened on this machine";
        return Err(CheckFault::Infrastructure(why.into()));
    }
    if is_of_agents(repo, root) {
        return files_of_agents(repo, root).await;
    }
    let work_tree = match WorkTree::around(root).await {
        Ok(work_tree) => work_tree,
        Err(GitFault::Outside) => return Ok(FilesState::default()),
        Err(GitFault::Failed(words)) => return Err(CheckFault::Infrastructure(words)),
    };
    let (head, tree) = tokio::join!(git::head_at(root), work_tree.tree());
    match tree {
        Ok(tree) => Ok(FilesState { head: head.head, tree: Some(tree) }),
        Err(GitFault::Failed(words)) => Err(CheckFault::Infrastructure(words)),
        Err(GitFault::Outside) => {
            Err(CheckFault::Infrastructure("the repo was moved while its files were read".into()))
        }
    }
}

async fn files_of_agents(repo: &Path, root: &Path) -> Result<FilesState, CheckFault> {
    let opened = AgentTree::looked_at(repo, root).await;
    let tree = opened.map_err(|fault| CheckFault::Infrastructure(fault.to_string()))?;
    let (head, id) = tokio::join!(git::head(tree.git()), tree_of_agents(&tree));
    let id = id.map_err(|fault| CheckFault::Infrastructure(fault.words()))?;
    Ok(FilesState { head: head.head, tree: Some(id) })
}

async fn tree_of_agents(tree: &AgentTree) -> Result<String, GitFault> {
    let scratch = Scratch::beside(Some(tree.index()), tree.objects()).await?;
    let left_out = [PathBuf::from(".callboard")];
    let git = || scratch.used_by(tree.git());
    git().ask(&forget(&left_out)).await?;
    let mut status: Vec<OsString> = ["status", "--porcelain", "-z", "--untracked-files=all"]
        .into_iter()
        .chain(["--no-renames", "--ignore-submodules=dirty"])
        .map(Into::into)
        .collect();
    status.extend(rest_but(&left_out));
    let answer = git().ask(&status).await?;
    let entries = answer.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
    // The path of a nested repository ends in a slash; it is staged as its commit.
    let paths: Vec<&[u8]> = entries.map(|path| path.strip_suffix(b"/").unwrap_or(path)).collect();
    stage(git(), &paths).await?;
    let id = git().ask(&["write-tree", "--missing-ok"]).await?;
    scratch.close().await?;
    Ok(String::from_utf8_lossy(&id).trim_end().to_owned())
}

struct WorkTree {
    top: PathBuf,
    /// Paths from `top` that are not part of the tree.
    left_out: Vec<PathBuf>,
    index: PathBuf,
    objects: PathBuf,
}

impl WorkTree {
    /// The whole working tree around `root`.
    async fn around(root: &Path) -> Result<Self, GitFault> {
        let questions =
            "rev-parse --show-toplevel --show-prefix --git-path index --git-path objects";
        let questions: Vec<&str> = questions.split(' ').collect();
        let answer = Git::at(root).ask(&questions).await?;
        let lines: Vec<&[u8]> = answer.split(|byte| *byte == b'\n').collect();
        let [top, prefix, index, objects, b""] = lines.as_slice() else {
            return Err(GitFault::Failed("git rev-parse: a path has a line break in it".into()));
        };
        let top = real(Path::new(OsStr::from_bytes(top)))?;
        let prefix = Path::new(OsStr::from_bytes(prefix));
        let mut left_out = vec![PathBuf::from(".callboard")];
        if prefix != Path::new("") {
            left_out.push(prefix.join(".callboard"));
        }
        // A linked working tree inside this one has a tree of its own. Git lists a worktree at the place that its own
        // part names, which an agent may write; the file `.git` there is out of the agent's reach.
        let others = git::worktrees(root).await?.into_iter();
        let others = others.filter(|other| other.join(".git").is_file());
        let others = others.filter_map(|other| inside(&top, &other));
        left_out.extend(others.filter(|other| !other.starts_with(".callboard")));
        let index = root.join(OsStr::from_bytes(index));
        let objects = real(&root.join(OsStr::from_bytes(objects)))?;
        Ok(Self { top, left_out, index, objects })
    }

    async fn tree(mut self) -> Result<String, GitFault> {
        let scratch = Scratch::beside(Some(self.index.clone()), self.objects.clone()).await?;
        // The user may keep temporary files in the working tree.
        self.left_out.extend(inside(&self.top, &real(scratch.folder())?));
        let git = scratch.used_by(Git::at(&self.top));
        git.ask(&forget(&self.left_out)).await?;
        self.add_all(&git).await?;
        add_dirty_submodules(&git, &self.top).await?;
        // Only the id is needed; missing objects of a partial clone do not matter.
        let tree = git.ask(&["write-tree", "--missing-ok"]).await?;
        scratch.close().await?;
        Ok(String::from_utf8_lossy(&tree).trim_end().to_owned())
    }

    async fn add_all(&self, git: &Git<'_>) -> Result<(), GitFault> {
        let mut add: Vec<OsString> = ["add", "-A", "--sparse"].map(Into::into).into();
        add.extend(rest_but(&self.left_out));
        for _ in 1..ADD_TRIES {
            match git.ask(&add).await {
                Err(GitFault::Failed(words)) if words.contains("No such file") => {}
                answer => return answer.map(drop),
            }
        }
        git.ask(&add).await.map(drop)
    }
}

fn forget(left_out: &[PathBuf]) -> Vec<OsString> {
    let rm = ["rm", "-r", "-f", "-q", "--cached", "--sparse", "--ignore-unmatch", "--"];
    let left_out = left_out.iter().map(|path| joined(":(top,literal)", path.as_os_str()));
    rm.into_iter().map(OsString::from).chain(left_out).collect()
}

/// The pathspecs of everything else. Git refuses to add when a pathspec spells the name of an ignored path, even one
/// that excludes it. A pattern that begins with an escaped character spells no name.
fn rest_but(left_out: &[PathBuf]) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["--", "."].map(Into::into).into();
    for path in left_out {
        let itself = joined(":(exclude,top,glob)", &as_pattern(path));
        args.push(joined(itself.clone(), OsStr::new("/**")));
        args.push(itself);
    }
    args
}

/// Replaces the commits of changed submodules. A submodule is one commit in its parent's tree, which misses files
/// changed since; a changed submodule is entered with the id of its own tree instead.
fn add_dirty_submodules<'a>(
    git: &'a Git<'_>,
    top: &'a Path,
) -> Pin<Box<dyn Future<Output = Result<(), GitFault>> + Send + 'a>> {
    Box::pin(async move {
        let diff = ["diff-files", "--raw", "-z", "--ignore-submodules=none"];
        let answer = git.ask(&diff).await?;
        let mut fields = answer.split(|byte| *byte == 0);
        while let (Some(change), Some(path)) = (fields.next(), fields.next()) {
            if !change.starts_with(b":160000 160000 ") {
                continue;
            }
            let path = OsStr::from_bytes(path);
            let tree = WorkTree::around(&top.join(path)).await?.tree().await?;
            let entry = joined(format!("160000,{tree},"), path);
            git.ask(&[OsStr::new("update-index"), OsStr::new("--cacheinfo"), &entry]).await?;
        }
        Ok(())
    })
}

fn real(path: &Path) -> Result<PathBuf, GitFault> {
    path.canonicalize().map_err(|error| GitFault::Failed(format!("cannot find a folder: {error}")))
}

fn inside(top: &Path, path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(top).ok()?;
    (rest != Path::new("")).then(|| rest.to_owned())
}

fn joined(start: impl Into<OsString>, end: &OsStr) -> OsString {
    let mut whole = start.into();
    whole.push(end);
    whole
}

fn as_pattern(path: &Path) -> OsString {
    let mut pattern = Vec::new();
    for (position, byte) in path.as_os_str().as_bytes().iter().enumerate() {
        if position == 0 || b"*?[\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    OsString::from_vec(pattern)
}
