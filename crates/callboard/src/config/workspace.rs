//! The settings of the workspace recipe, judged before a worktree is made.

use std::time::Duration;

use callboard_domain::board::recipe::{PortRange, judge_placed};

use super::settings::Reader;

/// How worktrees of tasks are made ready.
#[derive(Clone, Debug)]
pub struct WorkspaceChoice {
    pub setup: Option<String>,
    pub teardown: Option<String>,
    pub timeout: Duration,
    /// Folders below the repository, without a slash at the end.
    pub links: Vec<String>,
    /// Those of `links` that confined programs may write to: a link leads out of the worktree.
    pub writable_links: Vec<String>,
    pub ports: PortRange,
}

impl Reader<'_> {
    pub(super) fn workspace(&self) -> Result<WorkspaceChoice, String> {
        let command = |name| self.filled(name).map(str::to_owned);
        let folders = |name: &str| -> Result<Vec<String>, String> {
            let plain = self.list(name).iter().map(|link| link.trim_end_matches('/').to_owned());
            plain
                .map(|link| match judge_placed(&link) {
                    Ok(()) => Ok(link),
                    Err(fault) => Err(self.at(name, &format!("'{link}' {}", fault.words()))),
                })
                .collect()
        };
        let (links, writable_links) =
            (folders("workspace.link")?, folders("workspace.link_writable")?);
        if let Some(other) = writable_links.iter().find(|link| !links.contains(link)) {
            let words = format!("'{other}' is not in workspace.link");
            return Err(self.at("workspace.link_writable", &words));
        }
        Ok(WorkspaceChoice {
            setup: command("workspace.setup"),
            teardown: command("workspace.teardown"),
            timeout: Duration::from_secs(self.number("workspace.setup_timeout").into()),
            links,
            writable_links,
            ports: self.port_range()?,
        })
    }

    fn port_range(&self) -> Result<PortRange, String> {
        let name = "workspace.ports";
        let count = u16::try_from(self.number("workspace.port_count")).unwrap_or(0);
        let ends = self.text(name).split_once('-').and_then(|(first, last)| {
            // Below 1024 only root may listen.
            let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port >= 1024);
            Some((port(first)?, port(last)?))
        });
        match ends {
            Some((first, last)) if first <= last => Ok(PortRange { first, last, count }),
            _ => Err(self.at(name, "must be a range of ports from 1024 on, such as 20000-29999")),
        }
    }
}
