//! Checks of the machine: programs, disk, port.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use callboard_runner::{SandboxHeld, program_on_path};

use super::Finding;

/// Below this a commit may fail soon: the write-ahead log and the backup before a migration need room.
const DISK_FAIL_BYTES: u64 = 50 << 20;
const DISK_WARN_BYTES: u64 = 1 << 30;

/// A warning, because tasks without worktrees need no git.
pub(super) fn git() -> Finding {
    match program_on_path("git") {
        Some(path) => Finding::ok("git", path.display().to_string()),
        None => Finding::warn(
            "git",
            "git is not on PATH; worktrees and reviews need git",
            "install git with your package manager",
        ),
    }
}

/// `name` is `graph.check_shell`.
pub(super) fn shell(name: &str) -> Finding {
    match program_on_path(name) {
        Some(path) => Finding::ok("check shell", path.display().to_string()),
        None => Finding::fail(
            "check shell",
            format!("'{name}' is not on PATH, so no command check can run"),
            "set graph.check_shell to a shell that is installed",
        ),
    }
}

pub(super) fn sandbox() -> Finding {
    let name = "sandbox";
    match SandboxHeld::here() {
        SandboxHeld::FilesAndPorts => Finding::ok(
            name,
            "Landlock confines agents and the checks of their work: files and TCP ports",
        ),
        SandboxHeld::Files => Finding::warn(
            name,
            "Landlock of this kernel confines agents to files, not to TCP ports",
            "use Linux 6.7 or newer",
        ),
        SandboxHeld::Nothing => Finding::warn(
            name,
            "this system cannot confine agents; they have the rights of the server's user",
            "use Linux 6.2 or newer with Landlock; relay.sandbox = \"os\" runs no agent without it",
        ),
    }
}

pub(super) fn disk(folder: &Path) -> Finding {
    let Ok(disk) = rustix::fs::statvfs(folder) else {
        return Finding::warn("disk", "the free space cannot be read", "run df -h");
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let words = format!("{} MB free", free >> 20);
    let fix = format!("free some space on the disk of {}", folder.display());
    match free {
        0..DISK_FAIL_BYTES => Finding::fail("disk", words, fix),
        DISK_FAIL_BYTES..DISK_WARN_BYTES => Finding::warn("disk", words, fix),
        _ => Finding::ok("disk", words),
    }
}

/// Binds the address for a moment. A server of this project that runs already is the usual reason for a warning.
pub(super) fn port(address: SocketAddr) -> Finding {
    match TcpListener::bind(address) {
        Ok(_) => Finding::ok("port", format!("{address} is free")),
        Err(error) => Finding::warn(
            "port",
            format!("{address} cannot be used: {error}"),
            "callboard up takes a free port; or callboard serve --listen 127.0.0.1:0",
        ),
    }
}
