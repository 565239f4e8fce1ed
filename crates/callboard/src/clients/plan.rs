//! What `init` changes: every file is read and judged first, and nothing is written if one of them cannot be.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::entry::BrokenFile;
use super::file::ClientFile;
use super::homes::{ClientHome, MovedHomes};
use super::record::{FilesRecord, WrittenParts};
use super::table::{CLIENTS, FileScope};
use crate::output::{Exit, Failure};

/// Files of clients are committed and read by other programs. An existing file keeps its mode.
const MODE_NEW: u32 = 0o644;

/// Where the files are, and where the record of what was done to them is.
#[derive(Clone, Debug)]
pub struct FilesRoot {
    pub scope: FileScope,
    /// The project's folder, or the user's home.
    pub folder: PathBuf,
    /// The folders of clients that variables move out of the user's home.
    pub moved: MovedHomes,
    /// `None` for a user without a data folder: files are then edited back instead of given back.
    pub record: Option<PathBuf>,
}

/// One file before and after; `None` is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: PathBuf,
    pub before: Option<String>,
    pub after: Option<String>,
}

pub struct FilesPlan {
    root: FilesRoot,
    changes: Vec<FileChange>,
    /// Files in which a part of ours stays after a removal, because `init` did not write it.
    left: Vec<PathBuf>,
    recorded: FilesRecord,
    record: FilesRecord,
}

impl FilesPlan {
    fn new(root: &FilesRoot) -> Self {
        let recorded = root.record();
        let record = recorded.clone();
        Self { root: root.clone(), changes: Vec::new(), left: Vec::new(), recorded, record }
    }

    /// The plan that puts our part into each file.
    pub fn to_connect(root: &FilesRoot, files: &[ClientFile]) -> Result<Self, Failure> {
        let mut plan = Self::new(root);
        for (path, files) in by_path(files) {
            let before = root.read(path)?;
            let mut after = before.clone().unwrap_or_default();
            for file in &files {
                after = file.merge(&after).map_err(|broken| root.refused(path, &broken))?;
            }
            let is_changed = before.as_ref() != Some(&after);
            // The record names what stood before the first `init`; later ones keep it.
            if !is_changed && plan.record.has(path) {
                continue;
            }
            let known = parts_at(root, path);
            let files: Vec<&ClientFile> = known.iter().chain(files).collect();
            let original = match &before {
                None => None,
                Some(text) if !plan.record.has(path) => Some(text.clone()),
                Some(text) => match plan.record.original(path, text) {
                    Some(original) => original,
                    None => {
                        let wrote = plan.record.wrote(path);
                        stripped(root, path, &files, text, wrote, plan.record.is_made(path))?
                    }
                },
            };
            let wrote = written(&files, original.as_deref().unwrap_or_default(), &after)
                .map_err(|broken| root.refused(path, &broken))?;
            plan.record.keep(path, original.as_deref(), &after, wrote);
            if is_changed {
                plan.changes.push(FileChange { path: path.to_owned(), before, after: Some(after) });
            }
        }
        Ok(plan)
    }

    /// The plan that takes out what `init` wrote. A file that stands as `init` left it is given back byte for byte; an
    /// edited one keeps the edits. Where `init` never ran, what stands exactly as it writes it is taken out.
    pub fn to_remove(root: &FilesRoot, files: &[ClientFile]) -> Result<Self, Failure> {
        let mut plan = Self::new(root);
        let has_record = !plan.recorded.is_empty();
        for (path, files) in by_path(files) {
            let Some(before) = root.read(path)? else {
                plan.record.forget(path);
                continue;
            };
            let after = match plan.record.original(path, &before) {
                Some(original) => original,
                // The file was edited since, so the text of the record would undo the edits.
                None => {
                    let wrote = match has_record {
                        true => plan.record.wrote(path),
                        false => Some(equal_parts(root, path, &files, &before)?),
                    };
                    stripped(root, path, &files, &before, wrote, plan.record.is_made(path))?
                }
            };
            plan.record.forget(path);
            if let Some(text) = &after
                && stands_in(root, path, &files, text)?
            {
                plan.left.push(path.to_owned());
                if has_record {
                    // The next removal leaves it, too.
                    plan.record.keep(path, Some(text), text, WrittenParts::new());
                }
            }
            if after.as_ref() != Some(&before) {
                plan.changes.push(FileChange {
                    path: path.to_owned(),
                    before: Some(before),
                    after,
                });
            }
        }
        Ok(plan)
    }

    pub fn left(&self) -> &[PathBuf] {
        &self.left
    }

    pub fn changes(&self) -> &[FileChange] {
        &self.changes
    }

    /// Writes every file, each in one step. The record goes first: it counts only for the text it names.
    pub fn carry_out(self) -> Result<(), Failure> {
        let Self { root, changes, recorded, record, .. } = self;
        if let Some(path) = root.record.as_ref().filter(|_| record != recorded) {
            match record.text() {
                Some(text) => write(path, &text, 0o600)?,
                None => remove(path)?,
            }
        }
        for change in &changes {
            let path = root.place(&change.path)?;
            match &change.after {
                Some(text) => write(&path, text, MODE_NEW)?,
                None => {
                    remove(&path)?;
                    root.remove_empty_folders(&change.path);
                }
            }
        }
        Ok(())
    }
}

impl FilesRoot {
    fn record(&self) -> FilesRecord {
        self.record.as_deref().map(FilesRecord::read).unwrap_or_default()
    }

    /// The text of a file; `None` where there is none.
    pub fn read(&self, path: &Path) -> Result<Option<String>, Failure> {
        let place = self.place(path)?;
        match fs::read(&place) {
            Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
                self.refused(path, &BrokenFile { line, words: "the text is not UTF-8".into() })
            }),
            Err(error) => match error.kind() {
                ErrorKind::NotFound => Ok(None),
                ErrorKind::IsADirectory => Err(self.in_the_way(path, "is a folder")),
                ErrorKind::NotADirectory => Err(self.in_the_way(path, "would be below a file")),
                _ => Err(Failure::io(format!("cannot read {}", place.display()), &error)),
            },
        }
    }

    /// The refusal of a path at which no file can be.
    fn in_the_way(&self, path: &Path, why: &str) -> Failure {
        let words = format!("{} {why}", self.shown(path));
        Failure::new(Exit::Failure, "CLIENT_FILE_INVALID", words)
            .hint("nothing was written; move it away, or leave its client out of --clients")
    }

    /// Whether a file is the user's own, or stands as `init` wrote it here.
    pub fn is_ours(&self, path: &Path) -> bool {
        let is_written = || {
            let text = self.read(path).ok().flatten()?;
            let record = self.record();
            let wrote = record.wrote(path)?;
            Some(!wrote.is_empty() && record.original(path, &text).is_some())
        };
        self.scope == FileScope::User || is_written() == Some(true)
    }

    /// The path of a file in a client's folder of the user.
    pub fn of_client(&self, home: &ClientHome, file: &str) -> Result<PathBuf, Failure> {
        home.path(file, &self.folder, &self.moved)
    }

    /// A path as people read it: the user's own files are not below the current folder.
    pub fn shown(&self, path: &Path) -> String {
        let is_home = self.scope == FileScope::User && path.is_relative();
        format!("{}{}", if is_home { "~/" } else { "" }, path.display())
    }

    pub fn refused(&self, path: &Path, broken: &BrokenFile) -> Failure {
        let words = format!("{}:{}: {}", self.shown(path), broken.line, broken.words);
        Failure::new(Exit::Failure, "CLIENT_FILE_INVALID", words)
            .hint("nothing was written; mend the file, or leave its client out of --clients")
    }

    /// Removes the folders above a removed file that are empty now, up to a folder that a variable names. A folder that
    /// holds something cannot be removed.
    fn remove_empty_folders(&self, path: &Path) {
        let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        for folder in above.map(|folder| self.folder.join(folder)) {
            if self.moved.names(&folder) || fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }

    /// Where a file really is. Links of a repository must not lead `init` out of the project; a user's own links may
    /// lead anywhere.
    fn place(&self, path: &Path) -> Result<PathBuf, Failure> {
        let at = |error: &std::io::Error| {
            Failure::io(format!("cannot open {}", self.folder.join(path).display()), error)
        };
        let root = match path.is_absolute() {
            true => PathBuf::from("/"),
            false => self.folder.canonicalize().map_err(|error| at(&error))?,
        };
        let mut real = root.clone();
        for part in path.components() {
            let name = match part {
                Component::Normal(name) => name,
                // What stands before has no links left, so the folder above is the parent of the path.
                Component::ParentDir => {
                    real.pop();
                    continue;
                }
                Component::Prefix(_) | Component::RootDir | Component::CurDir => continue,
            };
            let next = real.join(name);
            // Part by part: a link in the middle of the path leads out as well as one at its end.
            real = match next.symlink_metadata() {
                Ok(found) if found.is_symlink() => match next.canonicalize() {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        return Err(self.in_the_way(path, "is a link to nothing"));
                    }
                    found => found.map_err(|error| at(&error))?,
                },
                _ => next,
            };
            if self.scope == FileScope::Project && !real.starts_with(&root) {
                let words = format!("{} is a link that leads out of the project", path.display());
                return Err(Failure::new(Exit::Failure, "CLIENT_FILE_OUTSIDE", words)
                    .hint("replace the link by a file, or leave the client out of --clients"));
            }
        }
        Ok(real)
    }
}

/// The files by path, in the order of their first mention.
fn by_path(files: &[ClientFile]) -> Vec<(&Path, Vec<&ClientFile>)> {
    let mut groups: Vec<(&Path, Vec<&ClientFile>)> = Vec::new();
    let mut places: BTreeMap<&Path, usize> = BTreeMap::new();
    for file in files {
        let place = *places.entry(&file.path).or_insert_with(|| {
            groups.push((&file.path, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(file);
    }
    groups
}

/// Every part of ours that a file can hold, also for clients that are not asked about now. A fault of another file, or of
/// a variable of another client, says nothing about this one.
fn parts_at(root: &FilesRoot, path: &Path) -> Vec<ClientFile> {
    let of_clients = CLIENTS.iter().flat_map(|client| {
        let servers = client.written_files(root).unwrap_or_default();
        servers.into_iter().chain(client.hook_file(root).ok().flatten())
    });
    of_clients.filter(|file| file.path == path).collect()
}

/// The parts that differ between two texts, each with what stood in its place.
fn written(files: &[&ClientFile], before: &str, after: &str) -> Result<WrittenParts, BrokenFile> {
    let mut wrote = WrittenParts::new();
    for file in files {
        let stood = file.parts(before)?;
        let mut parts = file.parts(after)?;
        parts.retain(|name, part| stood.get(name) != Some(part));
        let before = |name: &String| stood.get(name).cloned().unwrap_or_default();
        wrote.extend(parts.into_keys().map(|name| (name.clone(), before(&name))));
    }
    Ok(wrote)
}

fn equal_parts(
    root: &FilesRoot,
    path: &Path,
    files: &[&ClientFile],
    text: &str,
) -> Result<WrittenParts, Failure> {
    let mut equal = WrittenParts::new();
    for file in files {
        equal.extend(file.equal_parts(text).map_err(|broken| root.refused(path, &broken))?);
    }
    Ok(equal)
}

fn stands_in(
    root: &FilesRoot,
    path: &Path,
    files: &[&ClientFile],
    text: &str,
) -> Result<bool, Failure> {
    for file in files {
        if file.stands_in(text).map_err(|broken| root.refused(path, &broken))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The text without the parts that were written, or without all of ours; `None` when the file holds nothing else, and was
/// not there before `init`.
fn stripped(
    root: &FilesRoot,
    path: &Path,
    files: &[&ClientFile],
    before: &str,
    wrote: Option<WrittenParts>,
    made: Option<bool>,
) -> Result<Option<String>, Failure> {
    let (mut text, mut has_others) = (before.to_owned(), true);
    for file in files {
        let broken = |broken| root.refused(path, &broken);
        let wrote = match &wrote {
            Some(wrote) => Cow::Borrowed(wrote),
            None => {
                let parts = file.parts(&text).map_err(broken)?;
                Cow::Owned(parts.into_keys().map(|name| (name, Value::Null)).collect())
            }
        };
        let left = file.without(&text, &wrote).map_err(broken)?;
        (text, has_others) = (left.text, left.has_others);
        if !has_others && made != Some(false) {
            break;
        }
    }
    let is_gone = !has_others && text != before && made != Some(false);
    Ok((!is_gone).then_some(text))
}

/// Writes a file in one step: a reader sees the old text or the new one.
fn write(path: &Path, text: &str, mode_new: u32) -> Result<(), Failure> {
    let fault =
        |error: std::io::Error| Failure::io(format!("cannot write {}", path.display()), &error);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(fault)?;
    let mode = fs::metadata(path).map_or(mode_new, |found| found.permissions().mode());
    // In the folder of the file: a rename is one step only within a file system.
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
    file.write_all(text.as_bytes()).map_err(fault)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(fault)?;
    file.as_file().sync_all().map_err(fault)?;
    file.persist(path).map_err(|error| fault(error.error)).map(drop)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}
