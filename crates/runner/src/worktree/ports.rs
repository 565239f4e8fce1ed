//! Which task has which ports, for all projects of a user on this machine: a file for each block, named by its first
//! port, with the task and its worktree. A block is free again when that worktree is gone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use callboard_domain::board::recipe::{PortBlock, PortRange};
use rustix::fs::{FlockOperation, flock};

struct LeasedPorts {
    block: PortBlock,
    task: String,
    worktree: PathBuf,
}

impl LeasedPorts {
    /// `None` for a file that is not ours.
    fn read(path: &Path) -> Option<Self> {
        let first = path.file_name()?.to_str()?.parse().ok()?;
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let count = lines.next()?.parse().ok()?;
        let (task, worktree) = (lines.next()?.to_owned(), lines.next()?.into());
        Some(Self { block: PortBlock { first, count }, task, worktree })
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let Self { block, task, worktree } = self;
        // One name for all drafts is enough: the lock admits one writer at a time.
        let draft = folder.join(".new");
        fs::write(&draft, format!("{}\n{task}\n{}\n", block.count, worktree.display()))?;
        fs::rename(draft, folder.join(block.first.to_string()))
    }
}

/// The block of a task, the one that it has or the first free one in its order. `None` when all are taken.
pub(super) fn take(
    folder: &Path,
    range: PortRange,
    task: &str,
    worktree: &Path,
) -> io::Result<Option<PortBlock>> {
    if range.blocks() == 0 {
        return Ok(None);
    }
    fs::create_dir_all(folder)?;
    // Processes of several projects take blocks from one folder.
    let _turn = lock(folder)?;
    let mut held: Vec<LeasedPorts> = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        match LeasedPorts::read(&entry.path()) {
            Some(known) if known.worktree.exists() => held.push(known),
            Some(_) => drop(fs::remove_file(entry.path())),
            None => {}
        }
    }
    let in_range = |block: &PortBlock| {
        block.count == range.count && block.first >= range.first && block.last() <= range.last
    };
    // A task keeps its block while its worktree lives, so that addresses in its files stay right.
    if let Some(own) = held.iter().find(|held| held.task == task && in_range(&held.block)) {
        return Ok(Some(own.block));
    }
    let meets = |a: &PortBlock, b: &PortBlock| a.first <= b.last() && b.first <= a.last();
    let mut order = range.order_for(task);
    let free = order.find(|block| !held.iter().any(|held| meets(&held.block, block)));
    let Some(block) = free else { return Ok(None) };
    LeasedPorts { block, task: task.to_owned(), worktree: worktree.to_owned() }.write(folder)?;
    Ok(Some(block))
}

fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_worktrees_share_a_port_and_a_task_keeps_its_own() {
        let bed = tempfile::tempdir().expect("a folder");
        let folder = bed.path().join("ports");
        let range = PortRange { first: 20_000, last: 20_049, count: 10 };
        let place = |n: u32| {
            let path = bed.path().join(n.to_string());
            fs::create_dir_all(&path).expect("a worktree");
            path
        };
        let take =
            |n: u32, range| take(&folder, range, &format!("SHOP-{n}"), &place(n)).expect("reads");
        let blocks: Vec<PortBlock> = (1..=5).filter_map(|n| take(n, range)).collect();
        let firsts: HashSet<u16> = blocks.iter().map(|block| block.first).collect();
        assert_eq!(firsts.len(), 5, "{blocks:?}");
        assert_eq!(take(6, range), None, "all are taken");
        for (n, block) in (1..).zip(&blocks) {
            assert_eq!(take(n, range), Some(*block), "a task keeps its own");
        }
        fs::remove_dir(place(3)).expect("removes");
        assert_eq!(take(6, range), Some(blocks[2]), "freed with its worktree");
        // Another project with larger blocks meets none of these.
        let wide = PortRange { first: 20_030, last: 20_079, count: 25 };
        assert_eq!(take(7, wide), Some(PortBlock { first: 20_055, count: 25 }));
        assert_eq!(take(8, PortRange { count: 0, ..range }), None);
    }
}
