//! The `git` program: how it is called, and small read-only questions. Arguments are vectors, never a shell string, and
//! no caller's `GIT_*` reaches git. Writers start from `Git::writing`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_engine::ports::{Head, Origin, RepositoryFault, RepositoryFound};
use tokio_util::sync::CancellationToken;

use crate::environment;
use crate::head;
use crate::process::{self, Output, ProcessEnd, Program};
use crate::sandbox::Confinement;

const TIME_MAX: Duration = Duration::from_secs(300);
const TIME_MAX_PATIENTLY: Duration = Duration::from_secs(3600);
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A list of a million files.
const ANSWER_BYTES_MAX_AT_LENGTH: usize = 128 * 1024 * 1024;

/// Overrides of user settings that would start daemons, run hooks, write beside the index, or turn a question into an
/// error.
const SETTINGS: [&str; 6] = [
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "core.splitIndex=false",
    "core.safecrlf=false",
    "core.fsync=none",
    "add.ignoreErrors=false",
];

/// Overrides of user settings that would prompt a person, sign, reach into submodules, do housekeeping in the
/// background or touch more than was asked. Objects are on disk before a ref names them.
const SETTINGS_TO_WRITE: [&str; 17] = [
    "core.fsync=committed,reference",
    "credential.interactive=never",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "rebase.autoStash=false",
    "rebase.autoSquash=false",
    "rebase.updateRefs=false",
    "rebase.rebaseMerges=false",
    "rerere.enabled=false",
    "merge.autoStash=false",
    "merge.verifySignatures=false",
    "advice.detachedHead=false",
];

/// Empty answers to every prompt for a credential while git writes.
const ANSWERS: [(&str, &str); 4] = [
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS", "true"),
    ("SSH_ASKPASS_REQUIRE", "force"),
    ("GIT_EDITOR", "true"),
];

pub(crate) struct Git<'a> {
    directory: &'a Path,
    settings: Vec<&'static str>,
    extra: environment::Variables,
    input: Vec<u8>,
    time_max: Duration,
    answer_bytes_max: usize,
    keeps: Option<Arc<File>>,
    /// Whether git was given its folders and looks for none.
    is_guarded: bool,
    confinement: Option<Confinement>,
}

/// How git ended, when its exit code is an answer.
pub(crate) struct GitReport {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    /// Git's message when it did not end with 0.
    pub(crate) complaint: String,
}

#[derive(Debug)]
pub(crate) enum GitFault {
    /// The folder is in no git repository, or in none with a working tree.
    Outside,
    /// Git failed, with its message. A repository that git cannot read is a failure, never `Outside`.
    Failed(String),
}

const SIGNALLED: &str = "a signal ended it";
const TOO_LONG: &str = "it took too long";
const TOO_MUCH: &str = "its answer is too long";

impl GitFault {
    /// Whether git was killed, so that its locks stay behind.
    pub(crate) fn was_killed(&self) -> bool {
        let is_end = |words: &str| words.ends_with(SIGNALLED) || words.ends_with(TOO_LONG);
        matches!(self, Self::Failed(words) if is_end(words))
    }

    /// Whether git's answer is longer than an answer may be.
    pub(crate) fn was_too_long(&self) -> bool {
        matches!(self, Self::Failed(words) if words.ends_with(TOO_MUCH))
    }

    /// The fault in words for a caller that needs a repository.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Outside => "this is not a git repository".into(),
            Self::Failed(words) => words,
        }
    }
}

impl<'a> Git<'a> {
    /// Git in a repository, or in a checkout of a person. In the worktree of an agent only `guarded.rs` runs git.
    pub(crate) fn at(directory: &'a Path) -> Self {
        let (settings, input) = (SETTINGS.into(), Vec::new());
        let (extra, time_max, keeps) = (Vec::new(), TIME_MAX, None);
        let (answer_bytes_max, is_guarded, confinement) = (ANSWER_BYTES_MAX, false, None);
        Self {
            directory,
            settings,
            extra,
            input,
            time_max,
            answer_bytes_max,
            keeps,
            is_guarded,
            confinement,
        }
    }

    /// Git that writes in a user's repository: the user's filters and merge drivers work, and git never prompts.
    pub(crate) fn writing(directory: &'a Path) -> Self {
        Self::at(directory).set_to_write()
    }

    /// Git with these as its own folder, the common folder and the working tree.
    pub(crate) fn guarded(
        [own, common, work_tree]: [PathBuf; 3],
        directory: &'a Path,
        confinement: Option<Confinement>,
    ) -> Self {
        let git = Self::at(directory)
            .with("GIT_DIR", own)
            .with("GIT_COMMON_DIR", common)
            .with("GIT_WORK_TREE", work_tree);
        Self { is_guarded: true, confinement, ..git }
    }

    pub(crate) fn set_to_write(self) -> Self {
        let git = SETTINGS_TO_WRITE.iter().fold(self, |git, one| git.set(one));
        ANSWERS.iter().fold(git, |git, (name, value)| git.with(name, value))
    }

    /// Adds places that a confined git may write.
    pub(crate) fn may_write(mut self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.confinement = self.confinement.map(|confinement| confinement.and(places));
        self
    }

    /// Lets git hold this lock until it ends, even when this process ends first.
    pub(crate) fn holding(mut self, lock: &Arc<File>) -> Self {
        self.keeps = Some(lock.clone());
        self
    }

    pub(crate) fn within(mut self, time_max: Duration) -> Self {
        self.time_max = time_max;
        self
    }

    /// Bytes for git's stdin.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// A longer limit, for work that takes long in a large repository and is stopped by dropping it.
    pub(crate) fn patiently(mut self) -> Self {
        self.time_max = TIME_MAX_PATIENTLY;
        self
    }

    /// A longer answer, for a list of all files of a repository.
    pub(crate) fn at_length(mut self) -> Self {
        self.answer_bytes_max = ANSWER_BYTES_MAX_AT_LENGTH;
        self
    }

    /// Adds a setting, as `git -c` does.
    pub(crate) fn set(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// Runs `git <args>` and returns its stdout.
    pub(crate) async fn ask<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Vec<u8>, GitFault> {
        let answer = self.answer(args).await?;
        match answer.code {
            0 => Ok(answer.stdout),
            _ => Err(GitFault::Failed(answer.complaint)),
        }
    }

    /// Runs `git <args>`; for questions to which git answers "there is none" with the exit code 1.
    /// Any other code than 0 and 1 is a fault.
    pub(crate) async fn look<A: AsRef<OsStr>>(
        &self,
        args: &[A],
    ) -> Result<Option<Vec<u8>>, GitFault> {
        let answer = self.answer(args).await?;
        match answer.code {
            0 => Ok(Some(answer.stdout)),
            1 => Ok(None),
            _ => Err(GitFault::Failed(answer.complaint)),
        }
    }

    /// Runs `git <args>`; for questions that git answers with "yes" (0) or "no" (1).
    pub(crate) async fn asks_yes<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<bool, GitFault> {
        Ok(self.look(args).await?.is_some())
    }

    /// Runs `git <args>`; for questions that are answered by the exit code.
    pub(crate) async fn answer<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<GitReport, GitFault> {
        let name = args.first().map(|arg| arg.as_ref().to_string_lossy()).unwrap_or_default();
        let failed = |words: &str| GitFault::Failed(format!("git {name}: {words}"));
        let ended = match process::run(self.program(args), &CancellationToken::new()).await {
            Ok(ended) => ended,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(match repository_above(self.directory) {
                    Above::Nothing => GitFault::Outside,
                    Above::NoFolder => {
                        failed(&format!("{} does not exist", self.directory.display()))
                    }
                    Above::Repository(_) => failed("git is not installed, or not on PATH"),
                });
            }
            Err(error) => return Err(failed(&error.to_string())),
        };
        let (stdout, missing) = ended.stdout.finish();
        let (words, _) = ended.stderr.finish();
        let mut words = String::from_utf8_lossy(&words).into_owned();
        if self.is_guarded {
            words = words.split_inclusive('\n').filter(|line| !line.contains(NO_LOCK)).collect();
        }
        match ended.ending {
            ProcessEnd::Exited(_) if missing > 0 => Err(failed(TOO_MUCH)),
            ProcessEnd::Exited(Some(0)) => {
                Ok(GitReport { code: 0, stdout, complaint: String::new() })
            }
            ProcessEnd::Exited(_) if says_outside(&words) && !self.is_guarded => {
                Err(match repository_above(self.directory) {
                    // Git also says this of a repository without a HEAD.
                    Above::Repository(at) if words.contains(NO_REPOSITORY) => {
                        let at = at.display();
                        failed(&format!("{} (although {at} exists)", complaint(&words)))
                    }
                    _ => GitFault::Outside,
                })
            }
            ProcessEnd::Exited(Some(code)) => {
                let complaint = format!("git {name}: {}", complaint(&words));
                Ok(GitReport { code, stdout, complaint })
            }
            ProcessEnd::Exited(None) => Err(failed(SIGNALLED)),
            ProcessEnd::TimedOut | ProcessEnd::Canceled => Err(failed(TOO_LONG)),
        }
    }

    fn program<A: AsRef<OsStr>>(&self, args: &[A]) -> Program {
        let settings = self.settings.iter().flat_map(|setting| ["-c".into(), (*setting).into()]);
        let mut env = environment::inherited();
        // Git's words are read below, so they must not be translated.
        let fixed = [("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")];
        env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        env.extend(self.extra.iter().cloned());
        Program {
            name: "git".into(),
            args: settings.chain(args.iter().map(|arg| arg.as_ref().to_owned())).collect(),
            cwd: self.directory.to_owned(),
            env,
            input: self.input.clone(),
            timeout: self.time_max,
            output: Output::Apart { bytes_max: self.answer_bytes_max },
            dies_with_us: false,
            leash: None,
            keeps: self.keeps.clone(),
            confinement: self.confinement.clone(),
        }
    }
}

/// Git's message about refs that it need not delete for its work to be done; `AFTER_COMMIT` names them.
const NO_LOCK: &str = "packed-refs.lock': Permission denied";

const NO_REPOSITORY: &str = "not a git repository";

fn says_outside(words: &str) -> bool {
    words.contains(NO_REPOSITORY) || words.contains("must be run in a work tree")
}

/// The result of looking for a repository as git does.
enum Above {
    /// The folder itself does not exist.
    NoFolder,
    Nothing,
    /// The `.git` that git would use.
    Repository(PathBuf),
}

/// Looks for `.git` as git does: upwards, on one file system. Git skips an empty folder of that name.
fn repository_above(directory: &Path) -> Above {
    let Ok(start) = directory.metadata() else { return Above::NoFolder };
    let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    for folder in real.ancestors() {
        if !folder.metadata().is_ok_and(|facts| facts.dev() == start.dev()) {
            break;
        }
        let at = folder.join(".git");
        let is_empty = || at.read_dir().is_ok_and(|mut entries| entries.next().is_none());
        if at.symlink_metadata().is_ok() && !is_empty() {
            return Above::Repository(at);
        }
    }
    Above::Nothing
}

/// Git's error without the warnings and hints around it, and with the command that makes git trust a repository of
/// another owner.
fn complaint(words: &str) -> String {
    let blames = |line: &&str| line.starts_with("fatal: ") || line.starts_with("error: ");
    let mut blamed: Vec<&str> = words.lines().filter(blames).collect();
    blamed.extend(words.lines().map(str::trim).filter(|line| line.contains("safe.directory ")));
    if blamed.is_empty() { words.trim().to_owned() } else { blamed.join("; ") }
}

/// The branch and the commit of the checkout around a folder of the user. Git is asked only where its files do not say.
pub(crate) async fn head_at(folder: &Path) -> Head {
    let read = match repository_above(folder) {
        Above::Repository(dot_git) => head::read(&dot_git),
        Above::NoFolder | Above::Nothing => None,
    };
    match read {
        Some(head) => head,
        None => head(Git::at(folder)).await,
    }
}

pub(crate) async fn head(git: Git<'_>) -> Head {
    let (branch, commit) = tokio::join!(
        git.ask(&["symbolic-ref", "-q", "HEAD"]),
        git.ask(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]),
    );
    let branch = branch.ok().map(one_line);
    let branch = branch.and_then(|full| full.strip_prefix("refs/heads/").map(str::to_owned));
    Head { branch, head: commit.ok().map(one_line) }
}

/// The remote called `origin` and its main branch; without a remote, the local branch `main` or `master`.
pub(crate) async fn origin(repo: &Path) -> Result<Origin, GitFault> {
    let git = Git::at(repo);
    let usual =
        ["for-each-ref", "--format=%(refname:short)", "refs/heads/main", "refs/heads/master"];
    let (url, remote, local) = tokio::join!(
        git.look(&["config", "--get", "remote.origin.url"]),
        branch_of_origin(repo),
        git.ask(&usual),
    );
    let url = url?.and_then(|url| public_url(&one_line(url)));
    let local = one_line(local?).lines().next().map(str::to_owned);
    Ok(Origin { url, default_branch: remote?.or(local) })
}

/// The main branch of `origin`.
async fn branch_of_origin(repo: &Path) -> Result<Option<String>, GitFault> {
    let ask = ["symbolic-ref", "-q", "--short", "refs/remotes/origin/HEAD"];
    let name = Git::at(repo).look(&ask).await?.map(one_line);
    Ok(name.and_then(|name| name.strip_prefix("origin/").map(str::to_owned)))
}

/// The repository whose top folder is `path`.
pub(crate) async fn repository(path: &Path) -> Result<RepositoryFound, RepositoryFault> {
    let none = |why: &str| RepositoryFault::None(why.into());
    let path = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => none("does not exist"),
        _ => RepositoryFault::Failed(format!("cannot be opened: {error}")),
    })?;
    if !path.is_dir() {
        return Err(none("is not a folder"));
    }
    let git = Git::at(&path);
    let (top, remote, head) = tokio::join!(
        git.ask(&["rev-parse", "--show-toplevel"]),
        branch_of_origin(&path),
        git.look(&["symbolic-ref", "-q", "HEAD"]),
    );
    let unread = |fault| match fault {
        GitFault::Outside => none("is not a git repository"),
        GitFault::Failed(words) => RepositoryFault::Failed(format!("cannot be read: {words}")),
    };
    let top = one_line(top.map_err(unread)?);
    if !Path::new(&top).canonicalize().is_ok_and(|top| top == path) {
        return Err(none(&format!("is inside the git repository {top}, not its top folder")));
    }
    let head = head.map_err(unread)?.map(one_line);
    let checked_out = head.and_then(|full| full.strip_prefix("refs/heads/").map(str::to_owned));
    let default_branch = remote.map_err(unread)?.or(checked_out);
    Ok(RepositoryFound { path, default_branch })
}

/// A remote's address for other readers: without password and token; `None` for a path of this machine.
pub(crate) fn public_url(url: &str) -> Option<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `git@host:path`; an address with a slash before the colon is a path.
        let (host, path) = url.split_once(':')?;
        let is_host = host.len() > 1 && !host.contains(['/', '\\']) && !path.starts_with('\\');
        return is_host.then(|| url.to_owned());
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, host) =
        host.rsplit_once('@').map_or((None, host), |(user, host)| (Some(user), host));
    match scheme {
        "ssh" | "git+ssh" => {
            let user = user.map(|user| user.split(':').next().unwrap_or_default());
            let user = user.map(|user| format!("{user}@")).unwrap_or_default();
            Some(format!("{scheme}://{user}{host}/{path}"))
        }
        "http" | "https" | "git" => Some(format!("{scheme}://{host}/{path}")),
        _ => None,
    }
}

fn one_line(answer: Vec<u8>) -> String {
    String::from_utf8_lossy(&answer).trim_end().to_owned()
}

/// The real path of `worktree` when git knows it as a working tree of this repository.
pub(crate) async fn registered_worktree(
    repo: &Path,
    worktree: &str,
) -> Result<Option<PathBuf>, GitFault> {
    let Ok(wanted) = repo.join(worktree).canonicalize() else { return Ok(None) };
    match worktrees(repo).await {
        Ok(known) => Ok(known.contains(&wanted).then_some(wanted)),
        Err(GitFault::Outside) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The real paths of all working trees of a repository that exist; the main one is first.
pub(crate) async fn worktrees(repo: &Path) -> Result<Vec<PathBuf>, GitFault> {
    let git = Git::at(repo);
    // Git before 2.36 has no `-z` here.
    let (answer, line_end) = match git.ask(&["worktree", "list", "--porcelain", "-z"]).await {
        Ok(answer) => (answer, 0),
        Err(_) => (git.ask(&["worktree", "list", "--porcelain"]).await?, b'\n'),
    };
    let mut found: Vec<PathBuf> = Vec::new();
    for line in answer.split(|byte| *byte == line_end) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            found.push(PathBuf::from(OsStr::from_bytes(path)));
        } else if line == b"bare" {
            found.pop();
        }
    }
    Ok(found.into_iter().filter_map(|path| path.canonicalize().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_secrets_and_paths() {
        let table = "
            https://github.com/acme/shop.git             https://github.com/acme/shop.git
            https://ana:s3cret@github.com/acme/shop      https://github.com/acme/shop
            https://ghp_token@github.com/acme/shop       https://github.com/acme/shop
            https://ana:p@ss@host.example:8443/x         https://host.example:8443/x
            https://host.example/x?token=abc             https://host.example/x
            ssh://git@github.com/acme/shop.git           ssh://git@github.com/acme/shop.git
            ssh://git:s3cret@host.example/x              ssh://git@host.example/x
            git@github.com:acme/shop.git                 git@github.com:acme/shop.git
            /home/ana/shop.git                           -
            ../shop                                      -
            file:///home/ana/shop                        -
            ./a:b                                        -
        ";
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let (given, wanted) = line.trim().split_once(' ').expect("two columns");
            let shown = public_url(given);
            assert_eq!(shown.as_deref().unwrap_or("-"), wanted.trim(), "{given}");
        }
    }
}
