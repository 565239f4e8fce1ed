//! Finding `.callboard/`. Looks at files only: no git process is started.

use std::fs;
use std::path::{Path, PathBuf};

use crate::output::{Exit, Failure};

pub const FOLDER: &str = ".callboard";
pub const ROOT_VARIABLE: &str = "CALLBOARD_PROJECT_ROOT";

/// A project's folder on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The folder that holds `.callboard/`.
    pub root: PathBuf,
}

impl Place {
    /// The place that the variable names, else the first one upwards from the working directory.
    pub fn find() -> Result<Option<Self>, Failure> {
        match root_variable()? {
            // A folder that was named is not left for one above it.
            Some(root) => Ok(root.join(FOLDER).is_dir().then_some(Self { root })),
            None => Ok(Self::above(&main_checkout_of(&working_directory()?))),
        }
    }

    /// The place for a client's server. A variable that names no folder is not a fault here: the server then answers
    /// without a project and says where it looked.
    pub fn for_client() -> Result<Option<Self>, Failure> {
        match named_root() {
            Some(root) if root.canonicalize().is_err() => Ok(None),
            _ => Self::find(),
        }
    }

    /// The first place upwards from a folder that a client names.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        Self::above(&main_checkout_of(&folder.canonicalize().ok()?))
    }

    /// Where `find` looks, in words.
    pub fn looked_at() -> Result<String, Failure> {
        Ok(match named_root() {
            Some(root) if !root.exists() => {
                format!(
                    "in {}, which {ROOT_VARIABLE} names and which does not exist",
                    root.display()
                )
            }
            Some(root) => format!("in {}, which {ROOT_VARIABLE} names", root.display()),
            None => format!("in {} or in any folder above it", working_directory()?.display()),
        })
    }

    /// The place where `init` makes one: the variable, the repository's main checkout, or the working directory.
    pub fn to_make() -> Result<Self, Failure> {
        if let Some(root) = root_variable()? {
            return Ok(Self { root });
        }
        let here = main_checkout_of(&working_directory()?);
        let root = here.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&here);
        Ok(Self { root: root.to_owned() })
    }

    fn above(start: &Path) -> Option<Self> {
        let root = start.ancestors().find(|folder| folder.join(FOLDER).is_dir())?;
        Some(Self { root: root.to_owned() })
    }

    pub fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    pub fn is_in_git(&self) -> bool {
        self.root.ancestors().any(|folder| folder.join(".git").exists())
    }

    /// The folder's own name, after which project and prefix are named.
    pub fn name(&self) -> String {
        self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The folder for data of a user instead of a project; `None` for a user without a home.
pub fn data_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    data.map(|folder| folder.join("callboard"))
}

pub fn missing() -> Failure {
    let message = "no .callboard folder here or in any folder above";
    Failure::new(Exit::NotFound, "PROJECT_NOT_FOUND", message).hint("callboard init")
}

fn named_root() -> Option<PathBuf> {
    std::env::var_os(ROOT_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn root_variable() -> Result<Option<PathBuf>, Failure> {
    let Some(given) = named_root() else { return Ok(None) };
    given.canonicalize().map(Some).map_err(|error| {
        Failure::usage(format!("{ROOT_VARIABLE}={} cannot be opened: {error}", given.display()))
    })
}

fn working_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|error| Failure::io("cannot find the working directory", &error))
}

/// The corresponding folder in the main checkout if `folder` is inside a linked worktree, whose own `.callboard/` is
/// only a copy that git checked out. Any other folder stays as it is.
fn main_checkout_of(folder: &Path) -> PathBuf {
    let mapped = || {
        let top = folder.ancestors().find(|above| above.join(".git").exists())?;
        let main = main_checkout_of_worktree(top)?;
        Some(main.join(folder.strip_prefix(top).ok()?))
    };
    mapped().unwrap_or_else(|| folder.to_owned())
}

/// The main checkout of a linked worktree. Its `.git` is a file that names its git folder, and `commondir` in there
/// names the repository's. A submodule has the file too, but no `commondir`.
fn main_checkout_of_worktree(top: &Path) -> Option<PathBuf> {
    let link = fs::read_to_string(top.join(".git")).ok()?;
    let git_folder = top.join(link.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_folder.join("commondir")).ok()?;
    let common = git_folder.join(common.trim()).canonicalize().ok()?;
    // A bare repository has no main checkout; its worktrees then stand for themselves.
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_linked_worktree_is_somewhere_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let top = folder.path().canonicalize().expect("a real path");
        let make = |path: &str, text: &str| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        make("main/.git/HEAD", "");
        make("main/.git/worktrees/side/commondir", "../..\n");
        make("side/.git", &format!("gitdir: {}/main/.git/worktrees/side\n", top.display()));
        make("main/.git/modules/part/HEAD", "");
        make("main/part/.git", "gitdir: ../.git/modules/part\n");
        make("bare.git/worktrees/loose/commondir", "../..");
        make("loose/.git", &format!("gitdir: {}/bare.git/worktrees/loose\n", top.display()));
        make("odd/.git", "not what git writes");
        let moved = [
            ("side", "main"),
            ("side/src/deep", "main/src/deep"),
            ("main/src", "main/src"),
            ("main/part/src", "main/part/src"),
            ("loose", "loose"),
            ("odd", "odd"),
            ("plain", "plain"),
        ];
        for (from, to) in moved {
            assert_eq!(main_checkout_of(&top.join(from)), top.join(to), "{from}");
        }
    }
}
