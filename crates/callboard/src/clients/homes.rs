//! The folders in which clients keep a user's own files, and the variables that move them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::output::Failure;

/// A folder of a client: its usual place, and the variables that name another one.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientHome {
    /// From the user's home.
    usual: &'static str,
    /// A variable and the path below the folder that it names; the first variable that is set counts.
    moved_by: &'static [(&'static str, &'static str)],
}

pub const CLAUDE: ClientHome =
    ClientHome { usual: ".claude", moved_by: &[("CLAUDE_CONFIG_DIR", "")] };
/// The folder of `.claude.json`. `claude mcp add --scope user` of Claude Code 2.1.325 writes
/// `$CLAUDE_CONFIG_DIR/.claude.json`: the file moves with the variable.
pub const CLAUDE_STATE: ClientHome =
    ClientHome { usual: "", moved_by: &[("CLAUDE_CONFIG_DIR", "")] };
pub const CODEX: ClientHome = ClientHome { usual: ".codex", moved_by: &[("CODEX_HOME", "")] };
/// Cursor reads no variable.
pub const CURSOR: ClientHome = ClientHome { usual: ".cursor", moved_by: &[] };
/// The variable names the folder above `.gemini`.
pub const GEMINI: ClientHome =
    ClientHome { usual: ".gemini", moved_by: &[("GEMINI_CLI_HOME", ".gemini")] };
pub const COPILOT: ClientHome = ClientHome { usual: ".copilot", moved_by: &[("COPILOT_HOME", "")] };
pub const OPENCODE: ClientHome =
    ClientHome { usual: ".config/opencode", moved_by: &[("XDG_CONFIG_HOME", "opencode")] };
#[cfg(target_os = "macos")]
pub const VSCODE: ClientHome = ClientHome {
    usual: "Library/Application Support/Code",
    moved_by: &[("VSCODE_PORTABLE", "user-data"), ("VSCODE_APPDATA", "Code")],
};
#[cfg(not(target_os = "macos"))]
pub const VSCODE: ClientHome = ClientHome {
    usual: ".config/Code",
    moved_by: &[
        ("VSCODE_PORTABLE", "user-data"),
        ("VSCODE_APPDATA", "Code"),
        ("XDG_CONFIG_HOME", "Code"),
    ],
};

const ALL: [&ClientHome; 8] =
    [&CLAUDE, &CLAUDE_STATE, &CODEX, &CURSOR, &GEMINI, &COPILOT, &OPENCODE, &VSCODE];

/// The variables that are set, each with the folder that it names. An empty variable counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedHomes(BTreeMap<&'static str, PathBuf>);

impl MovedHomes {
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let names = ALL.iter().flat_map(|home| home.moved_by).map(|(name, _)| *name);
        let set = |name| Some((name, variable(name).filter(|value| !value.is_empty())?.into()));
        Self(names.filter_map(set).collect())
    }

    /// Whether a variable names this folder. Such a folder stays when it is empty: Codex does not start without it.
    pub fn names(&self, folder: &Path) -> bool {
        self.0.values().any(|named| named == folder)
    }
}

impl ClientHome {
    /// The path of a file in this folder: from the user's home, or absolute where a variable leads out of the home.
    pub fn path(&self, file: &str, home: &Path, moved: &MovedHomes) -> Result<PathBuf, Failure> {
        let set = |(name, below): &(&'static str, &'static str)| {
            moved.0.get(name).map(|folder| (*name, folder.join(below)))
        };
        let Some((name, folder)) = self.moved_by.iter().find_map(set) else {
            return Ok(Path::new(self.usual).join(file));
        };
        if !folder.is_absolute() {
            let words = format!("{name} names the relative folder {}", moved.0[name].display());
            return Err(Failure::usage(words)
                .hint(format!("set {name} to a path that begins with /, or unset it")));
        }
        let path = folder.join(file);
        // One name for one file: the record then finds it with and without the variable.
        let below = path.strip_prefix(home).ok().map(|path| path.components().collect());
        let is_below = |path: &PathBuf| path.components().all(|part| part != Component::ParentDir);
        Ok(below.filter(is_below).unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_move_the_folders() {
        let rows = [
            (&CLAUDE, "", ".claude/f"),
            (&CLAUDE, "CLAUDE_CONFIG_DIR=/c", "/c/f"),
            (&CLAUDE_STATE, "", "f"),
            (&CLAUDE_STATE, "CLAUDE_CONFIG_DIR=/c", "/c/f"),
            (&CODEX, "", ".codex/f"),
            (&CODEX, "CODEX_HOME=", ".codex/f"),
            (&CODEX, "CODEX_HOME=/c/", "/c/f"),
            (&CODEX, "CODEX_HOME=/home/ana/.codex", ".codex/f"),
            (&CODEX, "CODEX_HOME=/home/ana/deep/./codex/", "deep/codex/f"),
            (&CODEX, "CODEX_HOME=/home/ana/../bob", "/home/ana/../bob/f"),
            (&CODEX, "CODEX_HOME=/home/anabel", "/home/anabel/f"),
            (&CODEX, "CODEX_HOME=c", "error"),
            (&CODEX, "CODEX_HOME=./c", "error"),
            (&CODEX, "CODEX_HOME=~/c", "error"),
            (&CODEX, "COPILOT_HOME=c", ".codex/f"),
            (&CURSOR, "XDG_CONFIG_HOME=/x", ".cursor/f"),
            (&GEMINI, "", ".gemini/f"),
            (&GEMINI, "GEMINI_CLI_HOME=/g", "/g/.gemini/f"),
            (&COPILOT, "", ".copilot/f"),
            (&COPILOT, "COPILOT_HOME=/c", "/c/f"),
            (&OPENCODE, "", ".config/opencode/f"),
            (&OPENCODE, "XDG_CONFIG_HOME=/x", "/x/opencode/f"),
            (&VSCODE, "VSCODE_APPDATA=/a XDG_CONFIG_HOME=/x", "/a/Code/f"),
            (&VSCODE, "VSCODE_PORTABLE=/p VSCODE_APPDATA=/a", "/p/user-data/f"),
            #[cfg(not(target_os = "macos"))]
            (&VSCODE, "", ".config/Code/f"),
            #[cfg(not(target_os = "macos"))]
            (&VSCODE, "XDG_CONFIG_HOME=/x", "/x/Code/f"),
        ];
        for (home, set, wanted) in rows {
            let set: BTreeMap<&str, &str> =
                set.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
            let moved = MovedHomes::read(|name| set.get(name).map(OsString::from));
            match home.path("f", Path::new("/home/ana"), &moved) {
                Ok(path) => assert_eq!(path.to_str(), Some(wanted), "{set:?}"),
                Err(Failure::Said(said)) => {
                    assert_eq!(wanted, "error", "{set:?}: {}", said.message);
                    assert!(said.message.contains("CODEX_HOME"), "{}", said.message);
                }
                Err(_) => panic!("{set:?}: no words"),
            }
        }
    }
}
