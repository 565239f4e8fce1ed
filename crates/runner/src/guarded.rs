//! The one way to run git in a worktree that an agent writes. Git is given the worktree's folders from our record and
//! does not look for them. Settings of the worktree are off, and so are filters and merge drivers, except filters that
//! a person lets run there. Submodules are not entered. Where the system can confine, git writes only the files of a
//! commit there.
//!
//! No setting of git turns off a worktree's settings: git reads from the repository's own file whether there are any.
//! So git is given a common folder of ours: its `config` includes the repository's, without that extension, and
//! everything else is a link.

mod dirs;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use callboard_engine::ports::{Worktree, WorktreeFault};
use tempfile::TempDir;

use crate::git::{Git, GitFault};
use crate::sandbox::{Confinement, SandboxPorts};
use crate::worktree::{failed, text};
pub(crate) use dirs::{AFTER_COMMIT, WorktreeDirs, rebased_in};

/// The parts of the common folder that git needs. Refs are found without it.
const SHARED: [&str; 8] =
    ["objects", "refs", "packed-refs", "reftable", "logs", "info", "shallow", "worktrees"];

/// Settings of a worktree that name no program. `git sparse-checkout` writes these.
const HARMLESS: &str = r"^(core\.sparsecheckout|core\.sparsecheckoutcone|index\.sparse)$";

pub(crate) struct AgentTree {
    path: PathBuf,
    dirs: WorktreeDirs,
    stand_in: TempDir,
    /// Where a git that writes may write.
    writes: Vec<PathBuf>,
    /// Where allowed filters may write.
    kept_by_filters: Option<PathBuf>,
    /// Names of required filters that are off: their files are of no use without them.
    filters: Vec<String>,
}

/// Filters and merge drivers that people define.
#[derive(Default)]
struct Drivers {
    /// Drivers by kind and name.
    known: BTreeSet<(String, String)>,
    /// Filters that a person lets run here, with `filter.<name>.callboard`.
    allowed: BTreeSet<String>,
    /// Filters that git must not go without, such as git-lfs.
    required: BTreeSet<String>,
}

impl AgentTree {
    /// A worktree for git that writes on the worktree's branch.
    pub(crate) async fn of(worktree: &Worktree) -> Result<Self, WorktreeFault> {
        Self::on(&worktree.repo, &worktree.path, &worktree.branch).await
    }

    async fn on(repo: &Path, path: &Path, branch: &str) -> Result<Self, WorktreeFault> {
        let mut tree = Self::looked_at(repo, path).await?;
        tree.writes = tree.dirs.what_a_commit_writes(branch)?;
        tree.writes.push(tree.path.clone());
        Ok(tree)
    }

    /// A worktree for git that reads.
    pub(crate) async fn to_look_at(worktree: &Worktree) -> Result<Self, WorktreeFault> {
        Self::looked_at(&worktree.repo, &worktree.path).await
    }

    /// A worktree for git that reads. `repo` is the repository that the worktree was made of.
    pub(crate) async fn looked_at(repo: &Path, path: &Path) -> Result<Self, WorktreeFault> {
        let path = path.canonicalize().map_err(failed("cannot find the worktree"))?;
        let dirs = WorktreeDirs::of(repo, &path).await?;
        let mut config = repository_format(repo, &dirs).await?;
        let stand_in = stand_in(&dirs.common, &config);
        let stand_in = stand_in.map_err(failed("cannot make a folder for git"))?;
        let (writes, filters, kept_by_filters) = Default::default();
        let mut tree = Self { path, dirs, stand_in, writes, kept_by_filters, filters };
        let Drivers { known, allowed, required } = tree.drivers().await?;
        let is_off = |(kind, name): &&(String, String)| kind == "merge" || !allowed.contains(name);
        for (kind, name) in known.iter().filter(is_off) {
            config.extend(turned_off(kind, name));
            let is_missed = kind == "filter" && required.contains(name);
            tree.filters.extend(is_missed.then(|| name.clone()));
        }
        let written = fs::write(tree.stand_in.path().join("config"), config);
        written.map_err(failed("cannot write settings for git"))?;
        // The folder in which git-lfs keeps files and downloads.
        tree.kept_by_filters = (!allowed.is_empty()).then(|| tree.dirs.common.join("lfs"));
        Ok(tree)
    }

    /// Writes the files of the worktree's commit, which agents may have made, into a new worktree.
    pub(crate) async fn fill(repo: &Path, path: &Path) -> Result<(), WorktreeFault> {
        let mut tree = Self::looked_at(repo, path).await?;
        tree.writes = vec![tree.dirs.own.clone(), tree.path.clone()];
        let fill = ["read-tree", "--reset", "-u", "HEAD"];
        Ok(tree.writing().patiently().ask(&fill).await.map(drop)?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn dirs(&self) -> &WorktreeDirs {
        &self.dirs
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.dirs.own.join("index")
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.dirs.common.join("objects")
    }

    /// Git that reads, and writes nothing but a `Scratch`.
    pub(crate) fn git(&self) -> Git<'_> {
        let dirs = [&self.dirs.own, self.stand_in.path(), &self.path];
        let writes = self.kept_by_filters.iter().cloned().collect();
        Git::guarded(
            dirs.map(Path::to_owned),
            &self.path,
            Confinement::new(writes, SandboxPorts::default()),
        )
    }

    pub(crate) fn writing(&self) -> Git<'_> {
        self.git().set_to_write().may_write(self.writes.iter().cloned())
    }

    async fn drivers(&self) -> Result<Drivers, GitFault> {
        let keys = r"^(filter|merge)\..*\.(clean|smudge|process|driver|required|callboard)$";
        let found = self.git().look(&["config", "-z", "--get-regexp", keys]).await?;
        let mut drivers = Drivers::default();
        for (key, value) in entries_of(&found.unwrap_or_default()) {
            let parts =
                key.split_once('.').and_then(|(kind, rest)| Some((kind, rest.rsplit_once('.')?)));
            let Some((kind, (name, word))) = parts else { continue };
            let is_yes = ["true", "yes", "on", "1"].contains(&&*text(&value).to_lowercase());
            let named = match word {
                "callboard" => &mut drivers.allowed,
                "required" => &mut drivers.required,
                _ => {
                    drivers.known.insert((kind.to_owned(), name.to_owned()));
                    continue;
                }
            };
            // The last of several lines counts.
            match is_yes {
                true => named.insert(name.to_owned()),
                false => named.remove(name),
            };
        }
        Ok(drivers)
    }

    /// The first of these files whose required filter is off, with the filter.
    pub(crate) async fn filtered(
        &self,
        files: &[&[u8]],
    ) -> Result<Option<(String, String)>, GitFault> {
        if self.filters.is_empty() || files.is_empty() {
            return Ok(None);
        }
        let git = self.git().input(files.join(&0));
        let answer = git.ask(&["check-attr", "-z", "--stdin", "filter"]).await?;
        let mut fields = answer.split(|byte| *byte == 0);
        while let (Some(file), Some(_), Some(filter)) =
            (fields.next(), fields.next(), fields.next())
        {
            let filter = text(filter);
            if self.filters.contains(&filter) {
                return Ok(Some((String::from_utf8_lossy(file).into_owned(), filter)));
            }
        }
        Ok(None)
    }

    pub(crate) async fn head(&self) -> Result<String, GitFault> {
        let head = self.git().ask(&["rev-parse", "--verify", "HEAD^{commit}"]).await?;
        Ok(text(&head))
    }
}

/// A checkout of a branch: a person's own, or the worktree of a task.
pub(crate) enum BranchCheckout {
    Persons(PathBuf),
    Tasks(AgentTree),
}

impl BranchCheckout {
    /// `worktrees` is the folder of tasks' worktrees; `branch` is the branch checked out at `path`.
    pub(crate) async fn of(
        common: &Path,
        worktrees: &Path,
        path: &Path,
        branch: &str,
    ) -> Result<Self, WorktreeFault> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if worktrees.canonicalize().is_ok_and(|worktrees| real.starts_with(worktrees)) {
            return AgentTree::on(common, &real, branch).await.map(Self::Tasks);
        }
        match dirs::claimed_by(common, worktrees, &real) {
            None => Ok(Self::Persons(path.to_owned())),
            Some(task) => Err(WorktreeFault::Failed(format!(
                "git's record of the worktree {} points to {}",
                task.display(),
                path.display()
            ))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Persons(path) => path,
            Self::Tasks(tree) => tree.path(),
        }
    }

    pub(crate) fn git(&self) -> Git<'_> {
        match self {
            Self::Persons(path) => Git::at(path),
            Self::Tasks(tree) => tree.git(),
        }
    }

    pub(crate) fn writing(&self) -> Git<'_> {
        match self {
            Self::Persons(path) => Git::writing(path),
            Self::Tasks(tree) => tree.writing(),
        }
    }

    /// Git's own folder of this checkout.
    pub(crate) async fn git_dir(&self) -> Result<PathBuf, GitFault> {
        match self {
            Self::Persons(path) => {
                let found = Git::at(path).ask(&["rev-parse", "--absolute-git-dir"]).await?;
                Ok(PathBuf::from(text(&found)))
            }
            Self::Tasks(tree) => Ok(tree.dirs().own.clone()),
        }
    }

    /// Deletes refs that a confined git could not.
    pub(crate) fn clear_left_behind(&self) -> Result<(), GitFault> {
        match self {
            Self::Persons(_) => Ok(()),
            Self::Tasks(tree) => {
                tree.dirs().clear_left_behind().map_err(|fault| GitFault::Failed(fault.to_string()))
            }
        }
    }
}

/// The beginning of the settings for git: the repository's format, without the extension for settings of worktrees, and
/// an include of the repository's own file.
async fn repository_format(repo: &Path, dirs: &WorktreeDirs) -> Result<Vec<u8>, GitFault> {
    let whole = dirs.common.join("config");
    let mut config = Vec::new();
    let format = entries(repo, &whole, r"^(extensions\..*|core\.repositoryformatversion)$").await?;
    let format = format.into_iter().filter(|(key, _)| key != "extensions.worktreeconfig");
    config.extend(format.flat_map(|(key, value)| entry(&key, &value)));
    config.extend(b"[include]\n\tpath = ");
    config.extend(quoted(whole.as_os_str().as_bytes()));
    config.push(b'\n');
    let of_worktree = dirs.own.join("config.worktree");
    // Git wrote a plain file; a link or a pipe is not git's.
    if of_worktree.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        let harmless = entries(repo, &of_worktree, HARMLESS).await.unwrap_or_default();
        config.extend(harmless.into_iter().flat_map(|(key, value)| entry(&key, &value)));
    }
    Ok(config)
}

/// Entries of one settings file, without its includes.
async fn entries(repo: &Path, file: &Path, keys: &str) -> Result<Vec<(String, Vec<u8>)>, GitFault> {
    let ask = ["config", "-z", "--no-includes", "--get-regexp", "--file"].map(OsStr::new);
    let ask = [&ask[..], &[file.as_os_str(), OsStr::new(keys)]].concat();
    let found = Git::at(repo).look(&ask).await?;
    Ok(entries_of(&found.unwrap_or_default()))
}

/// The entries in an answer of `git config -z`.
fn entries_of(answer: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = answer.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    let split = lines.map(|line| match line.iter().position(|byte| *byte == b'\n') {
        Some(end) => (text(&line[..end]), line[end + 1..].to_vec()),
        // A key without a value means `true`.
        None => (text(line), b"true".to_vec()),
    });
    split.collect()
}

/// A line of settings; the key has two parts.
fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    let (section, name) = key.split_once('.').unwrap_or((key, ""));
    [format!("[{section}]\n\t{name} = ").as_bytes(), &quoted(value), b"\n"].concat()
}

/// Settings that turn a driver off. A filter without programs leaves files as they are. A merge driver that fails is a
/// conflict.
fn turned_off(kind: &str, name: &str) -> Vec<u8> {
    let values = match kind {
        "filter" => "\tclean =\n\tsmudge =\n\tprocess =\n\trequired = false\n",
        _ => "\tdriver = false\n",
    };
    [format!("[{kind} ").as_bytes(), &quoted(name.as_bytes()), b"]\n", values.as_bytes()].concat()
}

fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', *byte]),
            b'\n' => quoted.extend(b"\\n"),
            _ => quoted.push(*byte),
        }
    }
    quoted.push(b'"');
    quoted
}

fn stand_in(common: &Path, config: &[u8]) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("callboard-git-").tempdir()?;
    for name in SHARED {
        symlink(common.join(name), folder.path().join(name))?;
    }
    fs::write(folder.path().join("config"), config)?;
    Ok(folder)
}
