//! Keeps a program from writing anywhere but where it may. Landlock, a part of the Linux kernel,
//! does it without a helper program and without rights; elsewhere there is nothing of the kind.
//!
//! Reading files, running programs and the network stay open. Processes outside of the sandbox cannot be
//! looked into, also not by root.

use std::io;
use std::path::PathBuf;

/// Who sees to it that an agent only reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// The system where it can, and the agent's own switches.
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

/// Where a confined program may write. A path that ends in a slash is a folder and is made; what
/// else does not exist cannot be written either.
#[derive(Clone, Debug)]
pub(crate) struct Confinement {
    writable: Vec<PathBuf>,
}

/// Devices that are no place to keep anything.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

impl Confinement {
    /// `None` where the system has nothing of the kind.
    pub(crate) fn new(writable: Vec<PathBuf>) -> Option<Self> {
        system::is_there().then_some(Self { writable })
    }

    /// The same with more places.
    pub(crate) fn and(&self, more: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { writable: self.writable.iter().cloned().chain(more).collect() }
    }

    /// Calls `spawn` on a thread that is confined, and with it whatever it spawns, for good. Only
    /// the thread is: nothing of ours is kept from writing.
    pub(crate) fn around<T: Send>(
        &self,
        spawn: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let runtime = tokio::runtime::Handle::current();
        let is_folder = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b"/");
        for folder in self.writable.iter().filter(is_folder) {
            // One that cannot be made stays closed, and the program says so best.
            let _ = std::fs::create_dir_all(folder);
        }
        std::thread::scope(|scope| {
            let confined = scope.spawn(|| {
                system::enter(&self.writable).map_err(io::Error::other)?;
                let _entered = runtime.enter();
                spawn()
            });
            confined.join().unwrap_or_else(|_| Err(io::Error::other("the confined thread died")))
        })
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::path::{Path, PathBuf};

    use landlock::{
        ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
    };

    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

    use super::DEVICES;

    /// The first version that also keeps files from being cut short.
    const ENOUGH: ABI = ABI::V3;

    /// Rights of root that reach into processes outside of the sandbox. With the first two, Linux 6.18 shows
    /// their environment in `/proc` before Landlock is asked.
    const REACHING_OUT: [CapabilitySet; 3] =
        [CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_PTRACE];

    pub(super) fn is_there() -> bool {
        handled().is_ok()
    }

    pub(super) fn enter(writable: &[PathBuf]) -> Result<(), RulesetError> {
        let mut rules = handled()?;
        let devices = DEVICES.iter().map(Path::new);
        for path in writable.iter().map(PathBuf::as_path).chain(devices) {
            let Ok(opened) = PathFd::new(path) else { continue };
            let access: BitFlags<AccessFs> = AccessFs::from_write(ENOUGH);
            // A file has no entries that could be made or removed.
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(ENOUGH) };
            rules = rules.add_rule(PathBeneath::new(opened, access))?;
        }
        for right in REACHING_OUT {
            // Whoever may not give a right up is no root, and what is started has none of them.
            let _ = remove_capability_from_bounding_set(right);
        }
        rules.restrict_self().map(drop)
    }

    fn handled() -> Result<RulesetCreated, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_write(ENOUGH))?
            // Newer kernels also keep it from signalling us.
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::Signal)?
            .create()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::PathBuf;

    pub(super) fn is_there() -> bool {
        false
    }

    pub(super) fn enter(_: &[PathBuf]) -> Result<(), std::convert::Infallible> {
        Ok(())
    }
}
