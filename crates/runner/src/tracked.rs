//! Whether git tracks files of a folder.

use std::path::Path;

use crate::executor::find_program;
use crate::git::{Git, GitFault};

/// The files of `names` in `folder` that git tracks. No file is tracked outside a repository, or on a machine without
/// git; a repository that git cannot read is an error.
pub async fn tracked(folder: &Path, names: &[&str]) -> Result<Vec<String>, String> {
    let path = std::env::var_os("PATH");
    if find_program("git", path.as_deref()).is_none() {
        return Ok(Vec::new());
    }
    let args = [["ls-files", "-z", "--"].as_slice(), names].concat();
    match Git::at(folder).ask(&args).await {
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            Ok(found.split_terminator('\0').map(str::to_owned).collect())
        }
        Err(GitFault::Outside) => Ok(Vec::new()),
        Err(fault) => Err(fault.words()),
    }
}
