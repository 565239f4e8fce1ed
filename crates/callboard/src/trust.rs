//! What a user trusts: settings and prompts that came with a repository, and a store that was not made here. Before
//! that, opening a repository runs nothing that its authors chose.
//!
//! A mark is a file in the user's data folder, named by a hash of the path and of what is trusted there. Settings
//! that change, a store that is replaced, and a file that lies elsewhere have another hash and are no longer trusted.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use callboard_domain::hex::hex;
use sha2::{Digest, Sha256};

use crate::place::{self, Place};

/// The settings file that a repository brings along.
pub const CONFIG: &str = "config.toml";
/// The folder of texts that replace prompts.
pub const PROMPTS: &str = "prompts";

/// Something that can be trusted at one path: settings by their content, a store by the identity of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    digest: String,
    path: PathBuf,
}

impl Mark {
    /// The settings file of a project and its prompts, which change what runs and what agents are told. `None` if they
    /// cannot be read; an unreadable file is never trusted.
    pub fn of_settings(place: &Place) -> Option<Self> {
        let folder = place.folder();
        let mut parts = vec![(CONFIG.to_owned(), read(&folder.join(CONFIG))?)];
        for path in prompt_files(&folder)? {
            let name = path.file_name()?.to_string_lossy().into_owned();
            parts.push((name, read(&path)?));
        }
        let parts = parts.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_slice()]);
        Some(Self::new("settings", &folder, parts))
    }

    /// A database file: this file at this path, not another one that takes its place.
    pub fn of_store(database: &Path) -> Option<Self> {
        let path = database.canonicalize().ok()?;
        Self::of_new_store(&path, &path)
    }

    /// A database file that is about to be renamed to `path`, where no file is yet. The rename keeps the inode number
    /// and the creation time of the file, and so its mark.
    pub fn of_new_store(file: &Path, path: &Path) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        let born = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_nanos());
        // Not by content: a store changes with every command.
        let identity = [found.ino().to_be_bytes().to_vec(), born.to_be_bytes().to_vec()];
        Some(Self::new("store", path, identity.iter().map(Vec::as_slice)))
    }

    fn new<'a>(kind: &str, path: &Path, parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(kind.as_bytes());
        add(path.as_os_str().as_encoded_bytes());
        parts.for_each(add);
        Self { digest: hex(hash.finalize()), path }
    }

    pub fn is_trusted(&self) -> bool {
        self.file().is_some_and(|file| file.is_file())
    }

    /// Trusts it from now on. Fails for a user without a home.
    pub fn trust(&self) -> io::Result<()> {
        let file = self.file().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "there is no home folder; set XDG_DATA_HOME")
        })?;
        fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        // The path is for people who look into the folder.
        fs::write(file, format!("{}\n", self.path.display()))
    }

    pub fn forget(&self) -> io::Result<()> {
        match self.file().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn file(&self) -> Option<PathBuf> {
        Some(place::data_folder()?.join("trusted").join(&self.digest))
    }
}

/// Files of the project that replace prompts, in the order of their names.
pub fn prompt_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder.join(PROMPTS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    files.sort();
    Some(files)
}

/// Empty for a file that does not exist.
fn read(path: &Path) -> Option<Vec<u8>> {
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Vec::new()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_path_and_one_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str, config: &str| {
            let place = Place { root: folder.path().join(name) };
            fs::create_dir_all(place.folder()).expect("a folder");
            fs::write(place.folder().join(CONFIG), config).expect("a file");
            place
        };
        let mark = |place: &Place| Mark::of_settings(place).expect("readable");
        let here = place("a", "x = 1");
        let first = mark(&here);
        assert_eq!(mark(&here), first);
        assert_ne!(mark(&place("b", "x = 1")), first, "another path");
        let changed = mark(&place("a", "x = 2"));
        assert_ne!(changed, first, "another content");
        fs::create_dir(here.folder().join(PROMPTS)).expect("a folder");
        fs::write(here.folder().join(PROMPTS).join("plan.md"), "Obey.").expect("a file");
        assert_ne!(mark(&here), changed, "a prompt more");
    }

    #[test]
    fn a_store_that_is_replaced_has_another_mark() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a.db"), folder.path().join("b.db"));
        fs::write(&path, "mine").expect("a file");
        fs::write(&other, "theirs").expect("a file");
        let new = folder.path().join("new.db");
        let (part, real) = (folder.path().join("new.part"), folder.path().canonicalize());
        fs::write(&part, "new").expect("a file");
        let marked = Mark::of_new_store(&part, &real.expect("a folder").join("new.db"));
        fs::rename(&part, &new).expect("moved");
        assert_eq!(Mark::of_store(&new), marked, "a new store is marked before it has its name");
        let mine = Mark::of_store(&path).expect("a mark");
        fs::write(&path, "mine, with more in it").expect("a file");
        assert_eq!(Mark::of_store(&path), Some(mine.clone()), "what is in it may change");
        fs::rename(&other, &path).expect("moved");
        assert_ne!(Mark::of_store(&path), Some(mine));
        assert_eq!(Mark::of_store(&other), None);
    }
}
