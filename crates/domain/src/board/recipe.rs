//! The rules of a workspace recipe: the variables that everything in a task's worktree sees, the block of ports of a
//! task, and the paths that a recipe may place in a worktree.

use crate::task::Task;

/// The first port of the task's block.
pub const PORT: &str = "CALLBOARD_PORT";
/// The number of ports in the block.
pub const PORT_COUNT: &str = "CALLBOARD_PORT_COUNT";
/// The task's name in a form for folders, containers and databases.
pub const SLUG: &str = "CALLBOARD_SLUG";

/// Ports that belong to one task alone while its worktree exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortBlock {
    pub first: u16,
    pub count: u16,
}

impl PortBlock {
    pub fn last(self) -> u16 {
        self.first.saturating_add(self.count.saturating_sub(1))
    }
}

/// All ports that tasks may get, cut into blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
    /// The ports of one block; 0: tasks get no ports.
    pub count: u16,
}

impl Default for PortRange {
    /// Below the ports that systems give to servers on port 0.
    fn default() -> Self {
        Self { first: 20_000, last: 29_999, count: 10 }
    }
}

impl PortRange {
    /// The number of whole blocks.
    pub fn blocks(self) -> u32 {
        let ports = u32::from(self.last.saturating_sub(self.first)) + 1;
        ports.checked_div(self.count.into()).unwrap_or(0)
    }

    /// The blocks in the order in which a task tries them: each once, from a place that depends on the task's name
    /// alone. So a task gets the same block again unless another live task has it.
    pub fn order_for(self, task: &str) -> impl Iterator<Item = PortBlock> {
        let blocks = self.blocks();
        // FNV-1a: the same on every machine and in every version.
        let hash = task
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let start = hash.checked_rem(blocks).unwrap_or(0);
        (0..blocks).map(move |n| {
            let ahead = (start + n) % blocks * u32::from(self.count);
            let first = u32::from(self.first) + ahead;
            PortBlock { first: u16::try_from(first).unwrap_or(u16::MAX), count: self.count }
        })
    }
}

/// `shop-12`: letters, digits and dashes, and no two tasks of a board share it.
pub fn slug(task: &Task) -> String {
    task.name().to_string().to_lowercase()
}

/// The variables of everything that runs in a worktree of the task.
pub fn variables(slug: &str, ports: Option<PortBlock>) -> Vec<(String, String)> {
    let mut variables = vec![(SLUG.to_owned(), slug.to_owned())];
    if let Some(ports) = ports {
        variables.push((PORT.to_owned(), ports.first.to_string()));
        variables.push((PORT_COUNT.to_owned(), ports.count.to_string()));
    }
    variables
}

/// Why a recipe may not place a path in a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    Empty,
    /// Absolute, or with `..`.
    Leaves,
    /// A part of it is called `.git` or `.callboard`.
    Reserved,
    /// It cannot be written as one line.
    Unprintable,
}

impl PathFault {
    pub fn words(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::Leaves => "is not a plain path below the repository",
            Self::Reserved => "is a folder of git or of Callboard",
            Self::Unprintable => "has control characters in its name",
        }
    }
}

/// Judges a path relative to the repository, with `/` between its parts, that a recipe would link or copy into a
/// worktree. Some file systems take `.GIT` for `.git`.
pub fn judge_placed(path: &str) -> Result<(), PathFault> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.chars().any(char::is_control) {
        return Err(PathFault::Unprintable);
    }
    for part in path.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return Err(PathFault::Leaves);
        }
        if [".git", ".callboard"].iter().any(|name| part.eq_ignore_ascii_case(name)) {
            return Err(PathFault::Reserved);
        }
    }
    Ok(())
}
