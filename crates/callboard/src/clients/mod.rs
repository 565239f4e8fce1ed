//! Files of other programs that `callboard init` writes, so that agents on this machine find the board. The table of
//! clients, a merger for each format, and the plan that judges every file before the first is written.
//!
//! A client file names the program `callboard` and nothing else of this machine; it holds no token and no actor.

pub mod block;
mod diff;
mod entry;
mod file;
mod homes;
mod hook_files;
mod json;
mod plan;
mod record;
mod splice;
mod table;
mod toml;

use std::path::PathBuf;

use callboard_domain::hex::hex;
use sha2::{Digest, Sha256};

pub use diff::shown;
pub use entry::HOOK_COMMAND;
pub use file::{ClientFile, FilePart};
pub use plan::{FilesPlan, FilesRoot};
pub use table::{CLIENTS, Client, FileScope, SERVER, ServerReach};

use self::homes::MovedHomes;
use crate::output::Failure;
use crate::place;

impl FilesRoot {
    /// The files of a project.
    pub fn of_project(root: PathBuf) -> Self {
        Self::new(FileScope::Project, root, MovedHomes::default())
    }

    /// The user's own files.
    pub fn of_user() -> Result<Self, Failure> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let home = home.ok_or_else(|| Failure::usage("--global needs HOME, the user's folder"))?;
        let moved = MovedHomes::read(|name| std::env::var_os(name));
        Ok(Self::new(FileScope::User, PathBuf::from(home), moved))
    }

    /// The record lies with the user's data: a repository must not bring one along.
    fn new(scope: FileScope, folder: PathBuf, moved: MovedHomes) -> Self {
        let name = hex(&Sha256::digest(folder.as_os_str().as_encoded_bytes())[..8]);
        let record = place::data_folder().map(|data| data.join(format!("clients/{name}.json")));
        Self { scope, folder, moved, record }
    }
}

/// The files that connect these clients; in a project with the block for agents.
pub fn files(
    clients: &[&'static Client],
    root: &FilesRoot,
    reach: &ServerReach,
) -> Result<Vec<ClientFile>, Failure> {
    let servers = clients.iter().map(|client| client.server_file(root, reach));
    let mut files = servers.collect::<Result<Vec<_>, _>>()?;
    if root.scope == FileScope::Project && !clients.is_empty() {
        files.push(for_agents());
    }
    Ok(files)
}

/// Every file that may hold something of ours for these clients.
pub fn written_files(
    clients: &[&'static Client],
    root: &FilesRoot,
) -> Result<Vec<ClientFile>, Failure> {
    let mut files = Vec::new();
    for client in clients {
        files.extend(client.written_files(root)?);
    }
    for client in clients {
        files.extend(client.hook_file(root)?);
    }
    let is_project = root.scope == FileScope::Project;
    // The block for agents serves every client.
    if is_project && clients.len() == CLIENTS.len() {
        files.push(for_agents());
    }
    if is_project && clients.iter().any(|client| client.name == "claude") {
        files.push(for_claude());
    }
    Ok(files)
}

pub fn for_agents() -> ClientFile {
    ClientFile { path: "AGENTS.md".into(), part: FilePart::Block(block::FOR_AGENTS) }
}

/// The line by which Claude Code reads AGENTS.md, too.
pub fn for_claude() -> ClientFile {
    ClientFile { path: "CLAUDE.md".into(), part: FilePart::Block(block::IMPORT) }
}
