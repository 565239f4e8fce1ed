//! Puts files and links into a worktree, and nothing outside it, even while folders and links are moved there. Each folder
//! is opened in the folder opened before, and no link is ever followed: neither on the way to a source in the main
//! checkout, nor on the way to its place in the worktree.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What became of a link or a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlacedFile {
    Done,
    /// Something stands at its place already, and is left as it is.
    Taken,
    /// The source is missing, or is no plain file, or a link leads to it.
    NoSource,
}

/// Copies the plain file `path` from one root to the same path below another. Never replaces a file.
pub(crate) fn copy(from: &Path, to: &Path, path: &str) -> io::Result<PlacedFile> {
    let (folders, name) = split(path);
    let Some(source) = open_folder(from, &folders, false)? else { return Ok(PlacedFile::NoSource) };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = match rustix::fs::openat(source, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(PlacedFile::NoSource),
        Err(error) => return Err(error.into()),
    };
    let facts = source.metadata()?;
    if !facts.is_file() {
        return Ok(PlacedFile::NoSource);
    }
    let Some(folder) = open_folder(to, &folders, true)? else { return Ok(PlacedFile::Taken) };
    let mode = Mode::from_raw_mode(std::os::unix::fs::MetadataExt::mode(&facts) & 0o777);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat(&folder, name, flags, mode) {
        Ok(file) => {
            let copied = io::copy(&mut source, &mut File::from(file));
            if copied.is_err() {
                // Half a file would pass for a whole one the next time.
                let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
            }
            copied.map(|_| PlacedFile::Done)
        }
        Err(Errno::EXIST) => Ok(PlacedFile::Taken),
        Err(error) => Err(error.into()),
    }
}

/// Makes a link at `path` below `to` that leads to the folder of that path below `from`. Never replaces anything. A link
/// that leads there already is as good as a new one.
pub(crate) fn link(from: &Path, to: &Path, path: &str) -> io::Result<PlacedFile> {
    let (folders, name) = split(path);
    let parts: Vec<&str> = folders.iter().copied().chain([name]).collect();
    if open_folder(from, &parts, false)?.is_none() {
        return Ok(PlacedFile::NoSource);
    }
    let target = from.join(path);
    let Some(folder) = open_folder(to, &folders, true)? else { return Ok(PlacedFile::Taken) };
    match rustix::fs::symlinkat(&target, &folder, name) {
        Ok(()) => Ok(PlacedFile::Done),
        Err(Errno::EXIST) => {
            let leads = rustix::fs::readlinkat(&folder, name, Vec::new());
            let is_ours =
                leads.is_ok_and(|leads| leads.as_bytes() == target.as_os_str().as_encoded_bytes());
            Ok(if is_ours { PlacedFile::Done } else { PlacedFile::Taken })
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes a file of ours in the folder `.callboard` of a worktree, atomically.
pub(crate) fn write_ours(root: &Path, name: &str, text: &[u8]) -> io::Result<()> {
    let Some(folder) = open_folder(root, &[".callboard"], true)? else {
        return Err(io::Error::other(".callboard is not a folder"));
    };
    let draft = format!(".{name}.new");
    match rustix::fs::unlinkat(&folder, &draft, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&folder, &draft, flags, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(text)?;
    Ok(rustix::fs::renameat(&folder, &draft, &folder, name)?)
}

/// A folder below a root, made where `makes` says so. `None` where something on the way is missing, or no folder.
fn open_folder(root: &Path, parts: &[&str], makes: bool) -> io::Result<Option<OwnedFd>> {
    let mut folder = rustix::fs::open(root, FOLDER, Mode::empty())?;
    for part in parts {
        if makes {
            match rustix::fs::mkdirat(&folder, *part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = match rustix::fs::openat(&folder, *part, FOLDER, Mode::empty()) {
            Ok(inner) => inner,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(folder))
}

/// Whether something, also a link that leads nowhere, stands at a path below a root.
pub(crate) fn exists(root: &Path, path: &str) -> bool {
    let (folders, name) = split(path);
    let Ok(Some(folder)) = open_folder(root, &folders, false) else { return false };
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn split(path: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let name = parts.pop().unwrap_or_default();
    (parts, name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_read_or_written_through_a_link() {
        let bed = tempfile::tempdir().expect("a folder");
        let (main, tree, out) = (bed.path().join("m"), bed.path().join("t"), bed.path().join("o"));
        for folder in [&main, &tree, &out] {
            fs::create_dir_all(folder.join("deep")).expect("a folder");
        }
        fs::write(out.join("secret"), "no").expect("a file");
        fs::write(main.join("deep/plain"), "yes").expect("a file");
        symlink(out.join("secret"), main.join("leads-out")).expect("a link");
        symlink(&out, main.join("folder-out")).expect("a link");
        assert_eq!(copy(&main, &tree, "leads-out").expect("judged"), PlacedFile::NoSource);
        assert_eq!(copy(&main, &tree, "folder-out/secret").expect("judged"), PlacedFile::NoSource);
        assert_eq!(link(&main, &tree, "folder-out").expect("judged"), PlacedFile::NoSource);
        assert_eq!(link(&main, &tree, "folder-out/deep").expect("judged"), PlacedFile::NoSource);

        fs::remove_dir(tree.join("deep")).expect("removes");
        symlink(&out, tree.join("deep")).expect("a link");
        assert_eq!(copy(&main, &tree, "deep/plain").expect("judged"), PlacedFile::Taken);
        assert!(!out.join("plain").exists(), "nothing was written outside");
        symlink(&out, tree.join(".callboard")).expect("a link");
        assert!(write_ours(&tree, "workspace.env", b"x").is_err());
        assert_eq!(fs::read_dir(&out).expect("a folder").count(), 2, "nothing was written outside");
    }

    #[test]
    fn a_file_and_a_link_are_placed_once_and_replace_nothing() {
        let bed = tempfile::tempdir().expect("a folder");
        let (main, tree) = (bed.path().join("m"), bed.path().join("t"));
        fs::create_dir_all(main.join("a/b")).expect("a folder");
        fs::create_dir_all(&tree).expect("a folder");
        fs::write(main.join("a/b/.env"), "KEY=1").expect("a file");
        assert_eq!(copy(&main, &tree, "a/b/.env").expect("copies"), PlacedFile::Done);
        fs::write(tree.join("a/b/.env"), "KEY=mine").expect("a file");
        assert_eq!(copy(&main, &tree, "a/b/.env").expect("judged"), PlacedFile::Taken);
        assert_eq!(fs::read_to_string(tree.join("a/b/.env")).expect("text"), "KEY=mine");
        assert_eq!(copy(&main, &tree, "missing").expect("judged"), PlacedFile::NoSource);

        assert_eq!(link(&main, &tree, "a/b/").expect("judged"), PlacedFile::Taken);
        fs::create_dir(main.join("lib")).expect("a folder");
        assert_eq!(link(&main, &tree, "lib").expect("links"), PlacedFile::Done);
        assert_eq!(link(&main, &tree, "lib").expect("judged"), PlacedFile::Done);
        assert_eq!(tree.join("lib").read_link().expect("a link"), main.join("lib"));
        assert!(exists(&tree, "lib") && !exists(&tree, "other") && !exists(&tree, "lib/x"));
    }
}
