//! Keeps a program from writing outside its places, and from TCP ports that it does not need. Landlock, a part of the
//! Linux kernel, does this without a helper program and without privileges; other systems have no equivalent.
//!
//! Reading files, running programs, UDP, listening and sockets with a path stay open. Processes outside the sandbox
//! cannot be inspected, not even by root.

#[cfg(target_os = "linux")]
mod detours;
#[cfg(target_os = "linux")]
#[path = "sandbox/landlock.rs"]
mod system;

mod ports;

use std::io;
use std::path::PathBuf;

use callboard_engine::ports::ConfinedBy;

pub use ports::SandboxPorts;
pub(crate) use ports::port_of_its_own;
pub(crate) use system::Rules;

/// What keeps a reading agent from writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// The system where it can confine, and the agent's own switches.
    #[default]
    Auto,
    /// The system, or the run fails.
    Os,
    /// The agent's own switches alone.
    Executor,
}

impl SandboxMode {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "os" => Some(Self::Os),
            "executor" => Some(Self::Executor),
            _ => None,
        }
    }
}

/// How far this system can confine a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxHeld {
    Nothing,
    Files,
    FilesAndPorts,
}

impl SandboxHeld {
    pub fn here() -> Self {
        match (system::is_there(), system::knows_ports()) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Files,
            (true, true) => Self::FilesAndPorts,
        }
    }
}

impl SandboxMode {
    /// What confines an agent under this setting. `own_sandbox`: its program confines itself, in a way that does not work
    /// inside our confinement.
    pub(crate) fn confines(self, own_sandbox: bool, held: SandboxHeld) -> ConfinedBy {
        match (self, own_sandbox, held) {
            (Self::Executor, true, _) | (Self::Auto, true, _) => ConfinedBy::OwnSandbox,
            (Self::Executor, false, _) => ConfinedBy::OwnSwitches,
            (Self::Auto | Self::Os, _, SandboxHeld::FilesAndPorts) => ConfinedBy::FilesAndPorts,
            (Self::Auto | Self::Os, _, SandboxHeld::Files) => ConfinedBy::Files,
            (Self::Auto, false, SandboxHeld::Nothing) => ConfinedBy::OwnSwitches,
            (Self::Os, _, SandboxHeld::Nothing) => ConfinedBy::NoRun,
        }
    }
}

/// Where a confined program may write, and to which ports it may connect. A path that ends in a slash is a folder and
/// is created; any other missing path cannot be written either.
#[derive(Clone, Debug)]
pub(crate) struct Confinement {
    writable: Vec<PathBuf>,
    ports: SandboxPorts,
}

/// Devices that store nothing.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

impl Confinement {
    /// `None` where the system cannot confine.
    pub(crate) fn new(writable: Vec<PathBuf>, ports: SandboxPorts) -> Option<Self> {
        system::is_there().then_some(Self { writable, ports })
    }

    /// This confinement with more writable places.
    pub(crate) fn and(&self, more: impl IntoIterator<Item = PathBuf>) -> Self {
        let writable = self.writable.iter().cloned().chain(more).collect();
        Self { writable, ports: self.ports.clone() }
    }

    /// The network rules, for the log of a run.
    pub(crate) fn network(&self) -> String {
        match &self.ports {
            SandboxPorts::Any => "TCP to every port (relay.sandbox_ports = any)".into(),
            SandboxPorts::Only(_) if !system::knows_ports() => {
                "TCP to every port: this kernel has no rules for ports".into()
            }
            ports => format!("TCP to ports {ports} only; relay.sandbox_ports adds others"),
        }
    }

    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.writable
    }

    /// Makes the rules, which the new process enters between fork and exec.
    pub(crate) fn rules(&self) -> io::Result<Rules> {
        let is_folder = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b"/");
        for folder in self.writable.iter().filter(is_folder) {
            // A folder that cannot be created stays closed; the program itself reports that best.
            let _ = std::fs::create_dir_all(folder);
        }
        Rules::new(&self.writable, &self.ports)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::path::PathBuf;

    use super::SandboxPorts;

    pub(super) fn is_there() -> bool {
        false
    }

    pub(super) fn knows_ports() -> bool {
        false
    }

    pub(crate) struct Rules;

    impl Rules {
        pub(super) fn new(_: &[PathBuf], _: &SandboxPorts) -> io::Result<Self> {
            Ok(Self)
        }

        pub(crate) fn enter(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_and_the_system_decide_what_confines() {
        use ConfinedBy as By;
        use SandboxHeld as Held;
        let table = [
            (SandboxMode::Auto, false, Held::FilesAndPorts, By::FilesAndPorts),
            (SandboxMode::Auto, false, Held::Files, By::Files),
            (SandboxMode::Auto, false, Held::Nothing, By::OwnSwitches),
            (SandboxMode::Auto, true, Held::FilesAndPorts, By::OwnSandbox),
            (SandboxMode::Os, true, Held::FilesAndPorts, By::FilesAndPorts),
            (SandboxMode::Os, false, Held::Nothing, By::NoRun),
            (SandboxMode::Executor, false, Held::FilesAndPorts, By::OwnSwitches),
            (SandboxMode::Executor, true, Held::Nothing, By::OwnSandbox),
        ];
        for (mode, own_sandbox, held, by) in table {
            assert_eq!(mode.confines(own_sandbox, held), by, "{mode:?} {own_sandbox} {held:?}");
        }
    }
}
