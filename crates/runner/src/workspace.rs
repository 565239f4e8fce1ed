//! The workspace of a run: a checkout of one commit that belongs to the run alone.
//!
//! `jobs/<job>/<attempt>/` holds a small bare repository that borrows the objects of the user's repository, or of the
//! cache of an address, and a worktree of it. So the user's repository is only read, and removing the folder removes
//! everything. No hooks, no submodules, no LFS, no prompts.

mod branch;
mod cache;
mod folder;
mod patches;
mod way;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use callboard_domain::relay::spec::Repo;

use crate::git::{Git, GitFault};
pub(crate) use branch::{origin, push_from, state};
pub(crate) use cache::Caches;
pub(crate) use folder::{Folder, are_left, clean_up, end_earlier};
pub(crate) use patches::Applied;
pub(crate) use way::Way;

/// Settings that keep git from running programs, or prompting, in an unknown repository.
const QUIET: [&str; 10] = [
    "filter.lfs.smudge=",
    "filter.lfs.clean=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "credential.interactive=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
];

fn quiet(directory: &Path) -> Git<'_> {
    let git = QUIET.iter().fold(Git::at(directory), |git, setting| git.set(setting));
    git.with("GIT_LFS_SKIP_SMUDGE", "1")
        .with("GIT_NO_LAZY_FETCH", "1")
        .with("GIT_ASKPASS", "true")
        .with("SSH_ASKPASS", "true")
        .with("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
}

fn words(fault: GitFault) -> String {
    fault.words()
}

/// Access to the repository of a job.
#[derive(Clone, Copy)]
pub(crate) struct Access<'a> {
    /// The path of a local repository.
    pub(crate) local: &'a Path,
    /// Whether callers show tokens: then they are not the user whose git credentials are found here.
    pub(crate) has_tokens: bool,
    pub(crate) caches: &'a Caches,
}

pub(crate) struct Workspace {
    folder: Folder,
    commit: String,
}

/// A repository whose objects can be borrowed.
pub(crate) struct ObjectSource {
    objects: PathBuf,
    /// The file that marks where its history is cut off.
    shallow: Option<PathBuf>,
}

impl ObjectSource {
    pub(crate) async fn at(repo: &Path) -> Result<Self, String> {
        let questions = ["rev-parse", "--git-path", "objects", "--git-path", "shallow"];
        let answer = quiet(repo).ask(&questions).await.map_err(words)?;
        let lines: Vec<&[u8]> = answer.split(|byte| *byte == b'\n').collect();
        let [objects, shallow, b""] = lines.as_slice() else {
            return Err("a path of the repository has a line break in it".into());
        };
        let path = |bytes: &[u8]| repo.join(OsStr::from_bytes(bytes));
        let objects = path(objects).canonicalize();
        let objects = objects.map_err(|error| format!("cannot find the objects: {error}"))?;
        Ok(Self { objects, shallow: Some(path(shallow)).filter(|file| file.exists()) })
    }
}

pub(crate) async fn has_commit(repo: &Path, commit: &str) -> Result<bool, GitFault> {
    let wanted = format!("{commit}^{{commit}}");
    quiet(repo).asks_yes(&["rev-parse", "-q", "--verify", &wanted]).await
}

impl Workspace {
    /// Prepares a workspace with files. The fault is the cause, for a summary.
    pub(crate) async fn prepare(
        folder: Folder,
        repo: &Repo,
        access: Access<'_>,
    ) -> Result<Self, String> {
        let workspace = Self::bare(folder, repo, access).await?;
        let worktree = workspace.worktree();
        let add = ["worktree", "add", "-q", "--detach"].map(OsStr::new);
        let place = [worktree.as_os_str(), OsStr::new(&workspace.commit)];
        workspace.git().patiently().ask(&[&add[..], &place].concat()).await.map_err(words)?;
        Ok(workspace)
    }

    /// Prepares a workspace without files: a repository that has the commit.
    pub(crate) async fn bare(
        folder: Folder,
        repo: &Repo,
        Access { local, has_tokens, caches }: Access<'_>,
    ) -> Result<Self, String> {
        let commit = repo.baseline_commit().to_owned();
        let source = match repo {
            Repo::Git { url, base_branch, .. } => {
                let url = (url.as_str(), has_tokens);
                caches.with_commit(folder.jobs(), url, base_branch, &commit).await?
            }
            Repo::Local { .. } => {
                if !has_commit(local, &commit).await.map_err(words)? {
                    return Err(format!("commit {commit} is not in the repository"));
                }
                ObjectSource::at(local).await?
            }
        };
        let workspace = Self { folder, commit };
        workspace.borrow(&source).await?;
        Ok(workspace)
    }

    async fn borrow(&self, source: &ObjectSource) -> Result<(), String> {
        let init = ["init", "-q", "--bare", "--template=", "-b", "main", "repo.git"];
        quiet(self.folder.path()).ask(&init).await.map_err(words)?;
        let repo = self.repo();
        let borrow = || {
            let mut alternates = source.objects.as_os_str().as_bytes().to_vec();
            alternates.push(b'\n');
            fs::create_dir_all(repo.join("objects/info"))?;
            fs::write(repo.join("objects/info/alternates"), alternates)?;
            match &source.shallow {
                Some(shallow) => fs::copy(shallow, repo.join("shallow")).map(drop),
                None => Ok(()),
            }
        };
        borrow().map_err(|error| format!("cannot prepare the worktree: {error}"))
    }

    pub(crate) fn worktree(&self) -> PathBuf {
        self.folder.path().join("worktree")
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    fn commit(&self) -> &str {
        &self.commit
    }

    fn repo(&self) -> PathBuf {
        self.folder.path().join("repo.git")
    }

    fn git(&self) -> Git<'_> {
        let repo = self.repo();
        quiet(self.folder.path()).with("GIT_DIR", repo)
    }

    /// A file of the commit; `None` when it is missing, or is no text.
    pub(crate) async fn file(&self, path: &str) -> Option<String> {
        // `./x` would be relative to a folder, and git has none here.
        let path = path.trim_start_matches("./");
        let object = format!("{}:{path}", self.commit);
        let bytes = self.git().ask(&["cat-file", "blob", &object]).await.ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Which of these paths are symbolic links in the commit.
    pub(crate) async fn links(&self, paths: &HashSet<&str>) -> Result<HashSet<String>, String> {
        let mut links = HashSet::new();
        let paths: Vec<&str> = paths.iter().copied().filter(|path| !path.is_empty()).collect();
        for some in paths.chunks(200) {
            let list = ["ls-tree", "-z", "--full-tree", &self.commit, "--"];
            let answer = self.git().ask(&[&list[..], some].concat()).await.map_err(words)?;
            for entry in answer.split(|byte| *byte == 0) {
                let entry = String::from_utf8_lossy(entry);
                if let Some((_, path)) =
                    entry.split_once('\t').filter(|_| entry.starts_with("120000"))
                {
                    links.insert(path.to_owned());
                }
            }
        }
        Ok(links)
    }

    /// Files that the agent changed although it should not; at most a few.
    pub(crate) async fn strays(&self) -> Vec<String> {
        let git_dir = self.repo().join("worktrees/worktree");
        let git = quiet(self.folder.path()).with("GIT_DIR", git_dir);
        let git = git.with("GIT_WORK_TREE", self.worktree());
        let answer = git.ask(&["status", "--porcelain", "-z", "--no-renames"]).await;
        let answer = answer.unwrap_or_default();
        let entries = answer.split(|byte| *byte == 0).filter_map(|entry| entry.get(3..));
        entries.take(20).map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    pub(crate) async fn close(self) {
        self.folder.close().await;
    }
}
