//! The workspace recipe of a project: the settings by which a fresh worktree becomes ready for work. What it places, and
//! how its commands run, is in `worktree/ready.rs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_domain::board::recipe::PortRange;
use callboard_domain::hex::hex;
use sha2::{Digest, Sha256};

#[derive(Clone, Debug)]
pub struct Recipe {
    /// The command that makes a worktree ready; runs once in each.
    pub setup: Option<String>,
    /// The command that runs before a worktree is removed.
    pub teardown: Option<String>,
    /// The limit of each of the two commands.
    pub timeout: Duration,
    /// Ignored folders of the main checkout that each worktree gets as links.
    pub links: Vec<String>,
    /// The links through which confined commands may write into the main checkout.
    pub writable: Vec<String>,
    pub shell: String,
    pub log_tail_bytes: usize,
    /// The repository that the commands and the links are for; `None`: every one.
    pub root: Option<PathBuf>,
    pub ports: PortRange,
    /// Where this machine records which task has which ports; `None`: tasks get no ports.
    pub ports_folder: Option<PathBuf>,
}

impl Default for Recipe {
    /// No commands, no links and no ports.
    fn default() -> Self {
        Self {
            setup: None,
            teardown: None,
            timeout: Duration::from_secs(600),
            links: Vec::new(),
            writable: Vec::new(),
            shell: "sh".into(),
            log_tail_bytes: 65_536,
            root: None,
            ports: PortRange::default(),
            ports_folder: None,
        }
    }
}

impl Recipe {
    /// Whether the commands and the links are for this repository. The recipe is a setting of one repository, while a
    /// board may have projects in others.
    pub(crate) fn is_for(&self, repo: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.root.as_deref().is_none_or(|root| real(root) == real(repo))
    }

    pub(crate) fn setup_in(&self, repo: &Path) -> Option<&str> {
        self.setup.as_deref().filter(|_| self.is_for(repo))
    }

    pub(crate) fn links_in(&self, repo: &Path) -> &[String] {
        if self.is_for(repo) { &self.links } else { &[] }
    }

    /// The folders of the main checkout that a confined command in this worktree may write.
    pub(crate) fn writable_in(&self, repo: &Path, worktree: &Path) -> Vec<PathBuf> {
        let Ok(repo) = repo.canonicalize() else { return Vec::new() };
        let is_opened = |name: &&String| self.writable.contains(name);
        let targets = self.links_in(&repo).iter().filter(is_opened).map(|name| {
            let name = name.trim_end_matches('/');
            (worktree.join(name), repo.join(name))
        });
        // The agent may have replaced the link; and a folder of the main checkout that is a link itself leads elsewhere.
        let is_ours = |(link, target): &(PathBuf, PathBuf)| {
            link.read_link().is_ok_and(|to| to == *target)
                && target.canonicalize().is_ok_and(|real| real == *target)
        };
        targets.filter(is_ours).map(|(_, target)| target).collect()
    }

    /// Names the recipe: after a change, ready worktrees are made ready again. `include` is the file with the copies.
    pub(crate) fn digest(&self, repo: &Path, include: &[u8]) -> String {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(self.setup_in(repo).unwrap_or_default().as_bytes());
        self.links_in(repo).iter().for_each(|link| add(link.as_bytes()));
        add(include);
        hex(hash.finalize())
    }
}
