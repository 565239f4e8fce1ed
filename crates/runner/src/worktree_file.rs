//! Reads a file of a worktree, and nothing outside it, whatever the path says and even while folders and links are
//! moved.
//!
//! Each path component is opened in the folder opened before, and the kernel never follows links: their targets are
//! walked like the path itself. So no check is outdated when the file is opened, and every name on the way is seen,
//! also behind links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use callboard_engine::ports::FileFault;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// The limit of the kernel.
const LINKS_MAX: usize = 40;

pub(crate) fn read(root: &Path, path: &str, bytes_max: u64) -> Result<String, FileFault> {
    let file = open(root, path)?;
    let facts = file.metadata().map_err(|error| FileFault::Failed(error.to_string()))?;
    if facts.len() > bytes_max {
        return Err(FileFault::TooLarge(bytes_max));
    }
    let mut bytes = Vec::new();
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| FileFault::Failed(error.to_string()))?;
    // The file may have grown since.
    if bytes.len() as u64 > bytes_max {
        return Err(FileFault::TooLarge(bytes_max));
    }
    String::from_utf8(bytes).map_err(|_| FileFault::NotText)
}

/// Opens a plain file.
pub(crate) fn open(root: &Path, path: &str) -> Result<File, FileFault> {
    if leaves(Path::new(path)) {
        return Err(FileFault::Outside);
    }
    let mut folders = vec![open_root(root)?];
    let mut rest = steps(OsStr::new(path));
    let mut links = 0;
    while let Some(step) = rest.pop() {
        if step == ".." {
            folders.pop();
            if folders.is_empty() {
                return Err(FileFault::Outside);
            }
            continue;
        }
        if is_git(&step) {
            return Err(FileFault::Outside);
        }
        let here = folders.last().ok_or(FileFault::Outside)?;
        match open_step(here, &step)? {
            PathStep::Folder(folder) => folders.push(folder),
            PathStep::File(file) if rest.is_empty() => return Ok(file),
            PathStep::File(_) => return Err(FileFault::NotFound),
            PathStep::Link(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(FileFault::NotFound);
                }
                let target = Path::new(&target);
                let inside = if target.is_absolute() {
                    folders.truncate(1);
                    target.strip_prefix(root).map_err(|_| FileFault::Outside)?
                } else {
                    target
                };
                rest.extend(steps(inside.as_os_str()));
            }
        }
    }
    Err(FileFault::NotPlain)
}

/// Whether a path leaves the root, by its components alone, before anything is opened.
fn leaves(path: &Path) -> bool {
    let mut depth: usize = 0;
    for part in path.components() {
        match part {
            Component::Normal(name) if is_git(name) => return true,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

/// Some file systems are case insensitive.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// The components of a path, the last one first.
fn steps(path: &OsStr) -> Vec<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/').rev();
    let parts = parts.filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

fn open_root(root: &Path) -> Result<OwnedFd, FileFault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => FileFault::NotFound,
        error => FileFault::Failed(error.to_string()),
    })
}

enum PathStep {
    Folder(OwnedFd),
    File(File),
    Link(OsString),
}

fn open_step(here: &OwnedFd, name: &OsStr) -> Result<PathStep, FileFault> {
    // Pipes must not block, and a terminal must not become ours.
    let quietly = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened =
        rustix::fs::openat(here, name, OFlags::RDONLY | OFlags::NOFOLLOW | quietly, Mode::empty());
    match opened {
        Ok(opened) => {
            let facts = rustix::fs::fstat(&opened);
            let facts = facts.map_err(|error| FileFault::Failed(error.to_string()))?;
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => Ok(PathStep::Folder(opened)),
                FileType::RegularFile => Ok(PathStep::File(File::from(opened))),
                _ => Err(FileFault::NotPlain),
            }
        }
        Err(Errno::LOOP | Errno::MLINK) => {
            match rustix::fs::readlinkat(here, name, Vec::new()) {
                Ok(target) => Ok(PathStep::Link(OsString::from_vec(target.into_bytes()))),
                // The name was a link a moment ago.
                Err(_) => Err(FileFault::NotFound),
            }
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::NAMETOOLONG) => {
            Err(FileFault::NotFound)
        }
        // The name is a socket.
        Err(Errno::NXIO) => Err(FileFault::NotPlain),
        Err(error) => Err(FileFault::Failed(error.to_string())),
    }
}
