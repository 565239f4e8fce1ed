//! A board to play on: a repository with one commit, a scripted agent that does nothing, a small crew, no terminal.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::peer::{board, command, git, repository_of};
use crate::schema::Schema;

/// Programs that would outlive a test or open a window.
const ABSENT: &[&str] = &["tmux", "code", "cursor", "xdg-open"];

pub struct Ground {
    pub folder: tempfile::TempDir,
    pub schema: Option<Schema>,
    pub commit: String,
}

impl Ground {
    pub fn new(schema: Option<Schema>) -> Self {
        let folder = board();
        let executor = repository_of(folder.path(), "cat > /dev/null\necho '<complete/>'\n");
        let settings = format!(
            "[general]\nauto_review = false\ndefault_worker_agent = \"mine\"\n\n{executor}"
        );
        fs::write(folder.path().join(".callboard/config.local.toml"), settings).unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ABSENT {
            fs::write(bin.join(name), "#!/bin/sh\nexit 1\n").unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let commit = git(folder.path(), &["rev-parse", "HEAD"]);
        let ground = Self { folder, schema, commit };
        let epic = ground.ok(&["epic", "add", "All of it"]);
        ground.ok(&["agent", "add", "boss", "--type", "SUPERVISOR", "--epic", epic.trim()]);
        ground.ok(&["agent", "add", "w1", "--type", "WORKER"]);
        ground
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program on this board's store.
    pub fn program(&self) -> Command {
        let mut program = command(self.path());
        let path = std::env::var("PATH").unwrap_or_default();
        program.env("PATH", format!("{}:{path}", self.path().join("bin").display()));
        program.env("USER", "ana");
        if let Some(schema) = &self.schema {
            program.args(["--store", schema.url()]);
        }
        program
    }

    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.program().args(arguments).output().unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The store is whole, as `callboard doctor` judges it.
    pub fn judge_store(&self) {
        let report = self.program().args(["doctor", "--json"]).output().unwrap();
        let text = String::from_utf8_lossy(&report.stdout);
        assert!(report.status.success(), "{text}{}", String::from_utf8_lossy(&report.stderr));
    }
}
