//! The rules of a confined program, created before it is started and entered by the new process itself.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use seccompiler::BpfProgram;

use super::{DEVICES, SandboxPorts, detours};

/// The first version that also prevents truncation of files.
const ENOUGH: ABI = ABI::V3;

/// Capabilities of root that reach into processes outside the sandbox. With the first two, Linux 6.18 shows their
/// environment in `/proc` before Landlock is asked.
const REACHING_OUT: [CapabilitySet; 3] =
    [CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN, CapabilitySet::SYS_PTRACE];

pub(super) fn is_there() -> bool {
    handled(&SandboxPorts::Any).is_ok()
}

/// Whether the kernel has rules for TCP (Landlock version 4, Linux 6.7).
pub(super) fn knows_ports() -> bool {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules.handle_access(AccessNet::ConnectTcp).is_ok()
}

pub(crate) struct Rules {
    landlock: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
}

impl Rules {
    pub(super) fn new(writable: &[PathBuf], ports: &SandboxPorts) -> io::Result<Self> {
        let landlock = rules(writable, ports).map_err(io::Error::other)?;
        let is_narrow = *ports != SandboxPorts::Any && knows_ports();
        let filters = if is_narrow { detours::filters()? } else { Vec::new() };
        Ok(Self { landlock: Some(landlock), filters })
    }

    /// Confines the calling thread and its future children, for good. Makes only system calls: between fork and exec no
    /// memory may be allocated.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        for right in REACHING_OUT {
            // A process that may not drop a capability is not root's, and the started program has none.
            let _ = remove_capability_from_bounding_set(right);
        }
        let refused = || io::Error::from_raw_os_error(libc::EACCES);
        let landlock = self.landlock.take().ok_or_else(refused)?;
        landlock.restrict_self().map_err(|_| refused())?;
        // Landlock has already set `no_new_privs`, which a filter needs.
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(|_| refused())?;
        }
        Ok(())
    }
}

fn rules(writable: &[PathBuf], ports: &SandboxPorts) -> Result<RulesetCreated, RulesetError> {
    let mut rules = handled(ports)?;
    let devices = DEVICES.iter().map(Path::new);
    for path in writable.iter().map(PathBuf::as_path).chain(devices) {
        let Ok(opened) = PathFd::new(path) else { continue };
        let access: BitFlags<AccessFs> = AccessFs::from_write(ENOUGH);
        // A file has no entries that could be created or removed.
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(ENOUGH) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    if let SandboxPorts::Only(ranges) = ports {
        for port in ranges.iter().cloned().flatten() {
            rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
    }
    Ok(rules)
}

/// Rules for files are required; older kernels go without the rest.
fn handled(ports: &SandboxPorts) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(ENOUGH))?
        .set_compatibility(CompatLevel::BestEffort)
        // From version 6 on, no signal and no abstract socket reaches a process outside the sandbox.
        .scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    let rules = match ports {
        SandboxPorts::Any => rules,
        SandboxPorts::Only(_) => rules.handle_access(AccessNet::ConnectTcp)?,
    };
    rules.create()
}
