//! The changes of a task's work for a reviewer: the files with the ids of their contents, the patch of a page or of one
//! file, and what changed since an earlier look. Uncommitted files count; git works on a `Scratch`, so nothing is
//! staged in the worktree.

mod raw;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_engine::ports::{
    ChangesQuery, ChangesSince, PatchWish, Worktree, WorktreeChanges, WorktreeFault,
};

use super::diff::PLAINLY;
use super::state::newest;
use super::{common_dir, fork, is_ancestor, leftovers, text};
use crate::git::{Git, GitFault};
use crate::guarded::AgentTree;
use crate::scratch::Scratch;
use raw::{RawChange, batch, raw_changes, sizes};

/// A reader of a page does not wait longer.
const TIME_MAX: Duration = Duration::from_secs(30);
const CONTEXT_MAX: u32 = 10_000;
/// More paths than a page shows, and fewer than the system takes as arguments.
const PATHS_MAX: usize = 1_000;
/// A larger content is sent to no reader.
const TEXT_BYTES_MAX: u64 = 300 * 1024;
/// How much git sends in one answer, with room for the heads.
const TEXTS_BYTES_MAX: u64 = 6 * 1024 * 1024;

pub(super) async fn changes(
    worktree: &Worktree,
    target: &str,
    query: &ChangesQuery,
) -> Result<WorktreeChanges, WorktreeFault> {
    let sides = Sides::open(worktree, target, query).await?;
    let found = sides.changes(query).await;
    sides.scratch.close().await?;
    found
}

/// The changes of one commit against its first parent, read from the repository alone.
pub(super) async fn of_commit(
    repo: &Path,
    commit: &str,
    query: &ChangesQuery,
) -> Result<WorktreeChanges, WorktreeFault> {
    let sides = Sides::of_commit(repo, commit).await?;
    let found = sides.changes(query).await;
    sides.scratch.close().await?;
    found
}

/// The two sides that are compared: a commit or a tree, and the work or a later commit.
struct Sides {
    place: GitPlace,
    /// Has the work in its index, uncommitted files included.
    scratch: Scratch,
    base: String,
    head: String,
    from: String,
    since: ChangesSince,
    /// The later commit; `None` for the work as it is now.
    until: Option<String>,
}

/// Where git is asked.
enum GitPlace {
    Worktree(AgentTree),
    /// A repository of a person, in which no agent writes.
    Repo(PathBuf),
}

impl GitPlace {
    fn git(&self) -> Git<'_> {
        match self {
            Self::Worktree(tree) => tree.git(),
            Self::Repo(repo) => Git::at(repo),
        }
    }
}

impl Sides {
    async fn open(
        worktree: &Worktree,
        target: &str,
        query: &ChangesQuery,
    ) -> Result<Self, WorktreeFault> {
        let ids = query.since.iter().chain(&query.until);
        if let Some(bad) = ids.into_iter().find(|id| !is_commit_id(id)) {
            return Err(WorktreeFault::BadCommit(bad.clone()));
        }
        let (repo, tree) = (&worktree.repo, AgentTree::to_look_at(worktree).await?);
        let head = match &query.until {
            Some(until) if is_commit(tree.git(), until).await? => until.clone(),
            Some(until) => return Err(WorktreeFault::BadCommit(until.clone())),
            None => tree.head().await?,
        };
        let newest = newest(repo, &head, target).await?;
        let base = fork(repo, &head, &newest).await?.base;
        let scratch = Scratch::beside(Some(tree.index()), tree.objects()).await?;
        let (from, until) = (base.clone(), query.until.clone());
        let found = match until {
            Some(_) => Vec::new(),
            None => leftovers::uncommitted(&tree).await?,
        };
        let (place, since) = (GitPlace::Worktree(tree), ChangesSince::Base);
        let mut sides = Self { place, scratch, base, head, from, since, until };
        if sides.until.is_none() {
            let paths: Vec<&[u8]> = found.iter().map(|entry| entry.path.as_bytes()).collect();
            leftovers::stage(sides.git(), &paths).await?;
        }
        if let Some(since) = &query.since {
            (sides.from, sides.since) = if !is_commit(sides.place.git(), since).await? {
                (sides.base.clone(), ChangesSince::Unknown)
            } else if is_ancestor(repo, since, &sides.head).await? {
                (since.clone(), ChangesSince::Look)
            } else {
                // A commit that shares nothing with the target was never work on this task.
                match fork(repo, since, &newest).await {
                    Ok(old) => sides.rebased(since, &old.base).await?,
                    Err(WorktreeFault::Unrelated) => (sides.base.clone(), ChangesSince::Unknown),
                    Err(fault) => return Err(fault),
                }
            };
        }
        Ok(sides)
    }

    async fn of_commit(repo: &Path, commit: &str) -> Result<Self, WorktreeFault> {
        let (base, head) = (first_parent(repo, commit).await?, commit.to_owned());
        let scratch = Scratch::beside(None, common_dir(repo).await?.join("objects")).await?;
        let (from, until, since) = (base.clone(), Some(head.clone()), ChangesSince::Base);
        Ok(Self { place: GitPlace::Repo(repo.to_owned()), scratch, base, head, from, since, until })
    }

    /// The tree that `since` would have on the new base: its changes since `old_base`, merged into the new base.
    async fn rebased(
        &self,
        since: &str,
        old_base: &str,
    ) -> Result<(String, ChangesSince), WorktreeFault> {
        let base = format!("--merge-base={old_base}");
        let merge = ["merge-tree", "--write-tree", "--no-messages", &base, &self.base, since];
        let answer = self.git().answer(&merge).await?;
        let tree = text(&answer.stdout);
        // 1 is a conflict; a git before 2.40 does not know the option.
        Ok(match answer.code {
            0 if is_commit_id(&tree) => (tree, ChangesSince::Rebased),
            _ => (self.base.clone(), ChangesSince::Unknown),
        })
    }

    fn git(&self) -> Git<'_> {
        self.scratch.used_by(self.place.git()).within(TIME_MAX).with("GIT_LITERAL_PATHSPECS", "1")
    }

    /// Compares the two sides.
    async fn compare(
        &self,
        form: &[&str],
        query: &ChangesQuery,
        paths: &[&OsStr],
    ) -> Result<Vec<u8>, GitFault> {
        let command: &[&str] = match &self.until {
            Some(_) => &["diff-tree", "-r"],
            None => &["diff-index", "--cached"],
        };
        let space = query.ignore_space.then_some("--ignore-all-space");
        let words = command.iter().chain(&PLAINLY).chain(form).copied().chain(space);
        let mut args: Vec<OsString> = words.map(OsString::from).collect();
        args.push(OsString::from(&self.from));
        args.extend(self.until.iter().map(OsString::from));
        args.push("--".into());
        args.extend(paths.iter().map(OsString::from));
        self.git().ask(&args).await
    }

    async fn files(&self, query: &ChangesQuery) -> Result<Vec<RawChange>, WorktreeFault> {
        let form = ["--raw", "--no-abbrev", "--numstat", "-z"];
        Ok(raw_changes(&self.compare(&form, query, &[]).await?))
    }

    async fn changes(&self, query: &ChangesQuery) -> Result<WorktreeChanges, WorktreeFault> {
        let mut files = self.files(query).await?;
        self.mark_generated(&mut files).await;
        let next = choose(&mut files, &query.patch)?;
        let chosen: Vec<&RawChange> = files.iter().filter(|raw| raw.file.is_in_patch).collect();
        let patch = match &query.patch {
            PatchWish::None => None,
            _ if chosen.is_empty() => Some(String::new()),
            PatchWish::Page { .. } | PatchWish::File(_) => {
                self.patch(query, &chosen, chosen.len() == files.len()).await?
            }
        };
        let texts = match (query.texts, &patch) {
            (true, Some(_)) => self.texts(&chosen).await?,
            _ => HashMap::new(),
        };
        let has_patch = patch.is_some();
        let files = files.into_iter().map(|mut raw| {
            raw.file.is_in_patch &= has_patch;
            raw.file
        });
        Ok(WorktreeChanges {
            files: files.collect(),
            base: self.base.clone(),
            head: self.head.clone(),
            since: self.since,
            next,
            patch,
            texts,
        })
    }

    /// The patch of these files; `None` if it is too long for one answer.
    async fn patch(
        &self,
        query: &ChangesQuery,
        chosen: &[&RawChange],
        is_whole: bool,
    ) -> Result<Option<String>, WorktreeFault> {
        let context = format!("--unified={}", query.context.min(CONTEXT_MAX));
        let prefixes = ["--src-prefix=a/", "--dst-prefix=b/"];
        let form = ["-p", "--full-index", "--no-color", &context, prefixes[0], prefixes[1]];
        // Git finds that a file was moved only if it compares both paths.
        let paths = chosen.iter().flat_map(|raw| raw.paths());
        let paths: Vec<&OsStr> = if is_whole { Vec::new() } else { paths.collect() };
        match self.compare(&form, query, &paths).await {
            Ok(patch) => Ok(Some(String::from_utf8_lossy(&patch).into_owned())),
            Err(fault) if fault.was_too_long() => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The contents of these files before and after, where they are short text.
    async fn texts(&self, chosen: &[&RawChange]) -> Result<HashMap<String, String>, WorktreeFault> {
        let ids = chosen.iter().flat_map(|raw| [&raw.file.old_blob, &raw.file.new_blob]);
        let ids: HashSet<&str> = ids.flatten().map(String::as_str).collect();
        let list = |ids: &mut dyn Iterator<Item = &str>| ids.map(|id| format!("{id}\n")).collect();
        let asked: String = list(&mut ids.iter().copied());
        let known = self.git().input(asked).ask(&["cat-file", "--batch-check"]).await?;
        let mut left = TEXTS_BYTES_MAX;
        let known = sizes(&known);
        let wanted: String = list(&mut known.iter().filter_map(|(id, size)| {
            let is_wanted = *size <= TEXT_BYTES_MAX && *size <= left;
            left -= if is_wanted { *size } else { 0 };
            is_wanted.then_some(id.as_str())
        }));
        let contents = self.git().input(wanted).ask(&["cat-file", "--batch"]).await?;
        Ok(batch(&contents))
    }

    /// Marks the files with the attribute `linguist-generated`. The attributes are those of the base: an agent must
    /// not be able to fold its own work. A git that cannot read them there marks nothing.
    async fn mark_generated(&self, files: &mut [RawChange]) {
        let paths: Vec<&[u8]> = files.iter().map(|raw| raw.path.as_bytes()).collect();
        let source = format!("--source={}", self.base);
        let check = ["check-attr", "-z", "--stdin", &source, "linguist-generated"];
        let answer = self.git().input(paths.join(&0)).ask(&check).await.unwrap_or_default();
        let fields: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
        let is_set = |value: &[u8]| value == b"set" || value == b"true";
        let marked = fields.chunks_exact(3).filter(|entry| is_set(entry[2]));
        let marked: HashSet<&[u8]> = marked.map(|entry| entry[0]).collect();
        for raw in files {
            raw.file.is_generated = marked.contains(raw.path.as_bytes());
        }
    }
}

/// Marks the files that the patch has, and returns the number of the file with which the next page begins.
fn choose(files: &mut [RawChange], wish: &PatchWish) -> Result<Option<usize>, WorktreeFault> {
    match wish {
        PatchWish::None => {}
        PatchWish::File(path) => {
            let found = files.iter_mut().find(|raw| raw.file.path == *path);
            found.ok_or_else(|| WorktreeFault::NotChanged(path.clone()))?.file.is_in_patch = true;
        }
        PatchWish::Page { from, files_max, lines_max } => {
            let (mut files_left, mut lines_left) = ((*files_max).min(PATHS_MAX), *lines_max);
            for (number, raw) in files.iter_mut().enumerate().skip(*from) {
                let lines = raw.file.lines.map_or(0, |(added, removed)| added + removed);
                if lines > *lines_max {
                    continue;
                }
                if files_left == 0 || lines > lines_left {
                    return Ok(Some(number));
                }
                (files_left, lines_left) = (files_left - 1, lines_left - lines);
                raw.file.is_in_patch = true;
            }
        }
    }
    Ok(None)
}

/// The commit that this one is compared with.
pub(super) async fn first_parent(repo: &Path, commit: &str) -> Result<String, WorktreeFault> {
    if !is_commit_id(commit) || !is_commit(Git::at(repo), commit).await? {
        return Err(WorktreeFault::BadCommit(commit.into()));
    }
    let parent = format!("{commit}^1");
    Ok(text(&Git::at(repo).ask(&["rev-parse", "--verify", "-q", &parent]).await?))
}

pub(super) async fn first_known(
    repo: &Path,
    commits: &[String],
) -> Result<Option<String>, WorktreeFault> {
    for commit in commits.iter().filter(|commit| is_commit_id(commit)) {
        if is_commit(Git::at(repo), commit).await? {
            return Ok(Some(commit.clone()));
        }
    }
    Ok(None)
}

/// Whether a text is a whole id, so that git cannot take it for an option or a name.
pub(super) fn is_commit_id(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    [40, 64].contains(&text.len()) && text.chars().all(is_digit)
}

pub(super) async fn is_commit(git: Git<'_>, id: &str) -> Result<bool, GitFault> {
    let named = format!("{id}^{{commit}}");
    let answer = git.answer(&["rev-parse", "--verify", "-q", &named]).await?;
    Ok(answer.code == 0 && text(&answer.stdout) == id)
}
