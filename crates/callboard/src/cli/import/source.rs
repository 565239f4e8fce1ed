//! Where a backlog is read from: a file, a folder or a forge. No link inside a folder is followed, and no more is read
//! than an import takes.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use callboard_domain::import::{self, ImportFormat, ImportedTask, SourceFile};
use callboard_domain::limits::{IMPORT_BYTES_MAX, IMPORTED_AT_ONCE_MAX};

use crate::cli::context::Open;
use crate::output::{Exit, Failure};

/// Reads the tasks of a source.
pub async fn read(
    open: &Open,
    source: &str,
    from: Option<ImportFormat>,
) -> Result<Vec<ImportedTask>, Failure> {
    let path = Path::new(source);
    let is_folder = path.is_dir();
    let format = from.or_else(|| ImportFormat::of_path(source, is_folder));
    let format = format.ok_or_else(|| unknown(source, path.exists()))?;
    if let Some(forge) = format.forge() {
        let text = open.engine().forge_issues(&open.op("import"), forge, source).await?;
        let files = [SourceFile { name: source.to_owned(), text }];
        return import::read(format, &files).map_err(|fault| Failure::usage(fault.to_string()));
    }
    let mut files = Vec::new();
    let mut bytes = 0;
    for path in paths(path, is_folder, format)? {
        let text = text(&path)?;
        bytes += text.len();
        files.push(SourceFile { name: name(open.root.as_deref(), &path), text });
        // The reader refuses what is too much; more of it need not be in memory.
        if bytes > IMPORT_BYTES_MAX {
            break;
        }
    }
    if files.is_empty() {
        let message = format!("{source} has no files of the format {}", format.as_str());
        return Err(Failure::usage(message));
    }
    import::read(format, &files).map_err(|fault| Failure::usage(fault.to_string()))
}

/// The refusal of a source whose name tells no format.
fn unknown(source: &str, is_there: bool) -> Failure {
    if !is_there && source.split('/').filter(|part| !part.is_empty()).count() == 2 {
        let message = format!("there is no file {source}, and no forge is named");
        return Failure::usage(message).hint(format!(
            "for issues of a repository: callboard import {source} --from github, or gitlab"
        ));
    }
    let known = ImportFormat::ALL.map(ImportFormat::as_str).join(", ");
    Failure::usage(format!("'{source}' does not say which format it has"))
        .hint(format!("--from FORMAT, one of {known}"))
}

/// The files of a source, in the order of their names.
fn paths(path: &Path, is_folder: bool, format: ImportFormat) -> Result<Vec<PathBuf>, Failure> {
    if !is_folder {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = format.folders().iter().map(|below| path.join(below)).collect();
    // A link in a cloned repository could name any folder of this user.
    folders.retain(|folder| folder.is_dir() && !folder.is_symlink());
    if folders.is_empty() {
        folders.push(path.to_owned());
    }
    for folder in folders {
        let failed = |error| Failure::io(format!("cannot read {}", folder.display()), &error);
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            // The type of the entry itself: a link is no file here.
            let is_file = entry.file_type().map_err(failed)?.is_file();
            if is_file && path.extension().is_some_and(|known| known == format.extension()) {
                found.push(path);
            }
            if found.len() > IMPORTED_AT_ONCE_MAX {
                let message = format!("{} has too many files", folder.display());
                return Err(Failure::usage(message));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn text(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let failed = |error: &std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(Exit::NotFound, "FILE_NOT_FOUND", format!("there is no file {shown}"))
        }
        _ => Failure::io(format!("cannot read {shown}"), error),
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    let most = IMPORT_BYTES_MAX as u64 + 1;
    file.take(most).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() > IMPORT_BYTES_MAX {
        let message = format!("{shown} has more than {IMPORT_BYTES_MAX} bytes");
        return Err(Failure::usage(message));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::usage(format!("{shown} is not UTF-8 text")))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The path below the project, so that each machine gives a task one reference; elsewhere the file's name.
fn name(root: Option<&Path>, path: &Path) -> String {
    let whole = path.canonicalize().ok();
    let root = root.and_then(|root| root.canonicalize().ok());
    let below = whole.as_deref().zip(root).and_then(|(path, root)| path.strip_prefix(root).ok());
    let name = below.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
    name.to_string_lossy().into_owned()
}
