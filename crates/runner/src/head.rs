//! Reads the branch and the commit of a checkout from its files, as git does. A git process takes 2 ms, which is most of
//! a `begin`. Only plain cases are read here; for all others the caller asks git. Worktrees of agents are never read
//! here: `guarded.rs` opens those.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use callboard_engine::ports::Head;
use rustix::fs::{Mode, OFlags};

/// Larger files are left to git.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The head of the checkout whose `.git` is `dot_git`. `None` for whatever only git can answer: another owner, which
/// git judges by `safe.directory`, another kind of ref storage, a branch without a commit, a damaged repository.
pub(crate) fn read(dot_git: &Path) -> Option<Head> {
    let own = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| path.metadata().is_ok_and(|facts| facts.uid() == own);
    let folder = git_folder(dot_git)?;
    if ![dot_git.parent()?, dot_git, &folder].into_iter().all(is_own) {
        return None;
    }
    let head = text(&folder.join("HEAD"))?;
    let Some(full) = head.strip_prefix("ref: ") else {
        return Some(Head { branch: None, head: Some(commit(&head)?) });
    };
    let branch = full.trim_end().strip_prefix("refs/heads/")?;
    let common = common_folder(&folder)?;
    let loose = text(&common.join("refs/heads").join(branch)).and_then(|text| commit(&text));
    let head = loose.or_else(|| packed(&common, full.trim_end()))?;
    Some(Head { branch: Some(branch.to_owned()), head: Some(head) })
}

/// The folder of a checkout's own files. A linked worktree has a file `.git` that names this folder.
fn git_folder(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let named = text(dot_git)?;
    Some(dot_git.parent()?.join(named.strip_prefix("gitdir: ")?.trim_end()))
}

/// The folder that all worktrees of a repository share, which has the branches.
fn common_folder(folder: &Path) -> Option<PathBuf> {
    let named = folder.join("commondir");
    if !named.exists() {
        return Some(folder.to_owned());
    }
    Some(folder.join(text(&named)?.trim_end()))
}

fn packed(common: &Path, full: &str) -> Option<String> {
    let refs = text(&common.join("packed-refs"))?;
    let mut lines = refs.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == full).and_then(|(id, _)| commit(id))
}

/// The id of a commit with SHA-1 or SHA-256.
fn commit(text: &str) -> Option<String> {
    let id = text.trim_end();
    let is_id = matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// The text of a plain file. A pipe of that name must not stop the caller.
fn text(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.len() > FILE_BYTES_MAX {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    /// What is read from a `.git` with these files.
    fn read_of(files: &[(&str, &str)]) -> Option<(Option<String>, Option<String>)> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder above")).expect("mkdir");
            std::fs::write(path, text).expect("a file");
        }
        read(&folder.path().join(".git")).map(|Head { branch, head }| (branch, head))
    }

    #[test]
    fn plain_cases_are_read_and_others_left_to_git() {
        let id = format!("{ID}\n");
        let packed = format!("# pack-refs with: peeled\n{ID} refs/heads/main\n^{ID}\n");
        let on = |branch: Option<&str>| Some((branch.map(str::to_owned), Some(ID.to_owned())));
        let cases: [(&str, &[(&str, &str)], _); 9] = [
            (
                "a branch",
                &[(".git/HEAD", "ref: refs/heads/a/b\n"), (".git/refs/heads/a/b", &id)],
                on(Some("a/b")),
            ),
            (
                "a packed branch",
                &[(".git/HEAD", "ref: refs/heads/main\n"), (".git/packed-refs", &packed)],
                on(Some("main")),
            ),
            ("a commit without a branch", &[(".git/HEAD", &id)], on(None)),
            (
                "a linked worktree",
                &[
                    (".git", "gitdir: real/worktrees/x\n"),
                    ("real/worktrees/x/HEAD", "ref: refs/heads/x\n"),
                    ("real/worktrees/x/commondir", "../..\n"),
                    ("real/refs/heads/x", &id),
                ],
                on(Some("x")),
            ),
            ("a branch without a commit", &[(".git/HEAD", "ref: refs/heads/main\n")], None),
            ("another ref storage", &[(".git/HEAD", "ref: refs/heads/.invalid\n")], None),
            ("a ref that is no branch", &[(".git/HEAD", "ref: refs/bisect/x\n")], None),
            ("a damaged HEAD", &[(".git/HEAD", "0123\n")], None),
            ("no HEAD", &[(".git/config", "")], None),
        ];
        for (what, files, wanted) in cases {
            assert_eq!(read_of(files), wanted, "{what}");
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_does_not_stop_the_reader() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(".git")).expect("mkdir");
        let pipe = folder.path().join(".git/HEAD");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .expect("a pipe");
        assert!(read(&folder.path().join(".git")).is_none());
    }
}
