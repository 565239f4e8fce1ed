//! The diff of a review page, from patches that a real git makes: how they are read, the HTML of a few files, and the
//! caps of a page.
#![allow(clippy::disallowed_methods, reason = "the tests call git themselves")]

mod read;
mod shown;

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// A repository with a commit; later changes are uncommitted.
struct Repo {
    folder: TempDir,
}

impl Repo {
    fn new(files: &[(&str, &str)]) -> Self {
        let repo = Self { folder: tempfile::tempdir().expect("a folder") };
        repo.git(&["init", "-q", "-b", "main"]);
        files.iter().for_each(|(path, text)| repo.write(path, text));
        repo.git(&["add", "-A"]);
        repo.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        repo
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("makes folders");
        fs::write(path, text).expect("writes a file");
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        let settings = ["user.name=t", "user.email=t@example.org", "core.autocrlf=false"];
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        let output = command.args(args).current_dir(self.path()).output().expect("git runs");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {words}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The patch of everything that changed since the commit.
    fn patch(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["diff", "--cached", "--find-renames", "--full-index", "--no-color", "HEAD"])
    }
}
