//! The board's settings that hold now: flags and variables first, then changes that the store keeps, then files, then
//! the default.
//!
//! Settings are read from the store at each use. That is one look-up by key, and no use is more frequent than the start
//! of a wait, an admission or a merge. A cache would save less than a stale value would cost.

use std::path::PathBuf;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::board::settings::{BoardSettings, SettingKey, SettingsKept};
use callboard_domain::command::{Command, SettingsUpdate};
use callboard_domain::event::{EventName, LoggedEvent};
use callboard_domain::retry::judge_first;
use callboard_domain::time::Timestamp;
use callboard_store::{BackQuery, EventQuery};
use serde_json::Value;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// The configuration of the board with which a server was started.
#[derive(Clone, Debug)]
pub struct BoardRule {
    /// Settings from files, and defaults.
    pub base: BoardSettings,
    /// Settings from flags and variables; they override the store.
    pub pinned: SettingsKept,
    /// The names of the executors.
    pub agents: Vec<String>,
    /// The folder for worktrees of tasks, relative to a repository's top.
    pub worktree_dir: PathBuf,
    /// Folders in which repositories of projects must lie; empty: anywhere, for a local user without tokens.
    pub repo_roots: Vec<PathBuf>,
    pub push_after_merge: bool,
    /// How long a task's runs may take altogether, lost ones included.
    pub run_ttl: Duration,
    pub attempts_max: u32,
    pub lease_s: u32,
    pub heartbeat: Duration,
    /// How long an agent may take to start.
    pub start_timeout: Duration,
    /// Whether reads are logged as well.
    pub audit_reads: bool,
    /// Whether the workspace of a merged task is removed at once, if nothing in it is unique.
    pub remove_after_merge: bool,
    /// The disk space that the worktrees of a repository may use without a warning; `None`: any.
    pub disk_quota_bytes: Option<u64>,
}

impl Default for BoardRule {
    fn default() -> Self {
        let agents = ["claude", "codex", "copilot", "gemini", "kimi", "opencode"];
        Self {
            base: BoardSettings::default(),
            pinned: Vec::new(),
            agents: agents.map(str::to_owned).to_vec(),
            worktree_dir: ".callboard/worktrees".into(),
            repo_roots: Vec::new(),
            push_after_merge: false,
            run_ttl: Duration::from_secs(14_400),
            attempts_max: 3,
            lease_s: 60,
            heartbeat: Duration::from_secs(15),
            start_timeout: Duration::from_secs(60),
            audit_reads: false,
            remove_after_merge: true,
            disk_quota_bytes: None,
        }
    }
}

impl BoardRule {
    /// All settings, with the values that the store keeps. A kept value that is no longer valid is ignored.
    fn settings(&self, kept: &SettingsKept) -> BoardSettings {
        let mut settings = self.base.clone();
        for (key, value) in kept.iter().chain(&self.pinned) {
            if let Err(words) = settings.set(*key, value, &self.agents) {
                tracing::warn!(words, "an invalid setting is ignored");
            }
        }
        settings
    }
}

/// How many changes of settings are read to find the newest one of each.
const CHANGES_READ: usize = 200;

/// Where the value of a setting comes from, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A flag or a variable of this server. A change in the store has no effect here.
    Pinned,
    /// A change while servers ran.
    Store,
    File,
    Default,
}

/// A setting as it holds here.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingSeen {
    pub key: SettingKey,
    pub value: Value,
    pub origin: SettingOrigin,
    /// Who changed the value in the store, and when; `None` for another origin, and for a change before the newest
    /// `CHANGES_READ` ones.
    pub changed: Option<(Actor, Timestamp)>,
}

/// The result of an update.
#[derive(Clone, Debug)]
pub struct SettingsUpdated {
    /// The settings that changed.
    pub updated: SettingsKept,
    /// All settings as they hold here.
    pub settings: BoardSettings,
    /// The settings of `updated` that flags or variables of this server override.
    pub pinned: Vec<SettingKey>,
}

impl Engine {
    pub fn board_rule(&self) -> &BoardRule {
        &self.parts.board
    }

    /// The settings of the board for an org at this moment.
    pub async fn board_settings(&self, org: &str) -> Result<BoardSettings, EngineError> {
        let kept = self.parts.store.settings(org).await?;
        Ok(self.parts.board.settings(&kept))
    }

    pub async fn settings_get(&self, op: &OpContext) -> Result<BoardSettings, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        self.board_settings(&op.principal.org).await
    }

    /// Every setting with its origin. A file that says the default counts as the default.
    pub async fn settings_seen(&self, op: &OpContext) -> Result<Vec<SettingSeen>, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let rule = &self.parts.board;
        let kept = self.parts.store.settings(&op.principal.org).await?;
        let settings = rule.settings(&kept);
        let has = |all: &SettingsKept, key| all.iter().any(|(known, _)| *known == key);
        let usual = BoardSettings::default();
        let names = Some(vec![EventName::SettingsUpdated]);
        let changes = BackQuery { names, ..BackQuery::of(op.principal.org.clone(), CHANGES_READ) };
        let changes = match kept.is_empty() {
            true => Vec::new(),
            false => self.parts.store.events_back(changes).await?,
        };
        let change_of = |key: SettingKey| {
            let is_its = |event: &&LoggedEvent| {
                event.read().changes().is_some_and(|changes| changes.contains_key(key.as_str()))
            };
            changes.iter().find(is_its).map(|event| (event.actor.clone(), event.at))
        };
        let seen = |key: &SettingKey| {
            let origin = match () {
                () if has(&rule.pinned, *key) => SettingOrigin::Pinned,
                () if has(&kept, *key) => SettingOrigin::Store,
                () if rule.base.get(*key) != usual.get(*key) => SettingOrigin::File,
                () => SettingOrigin::Default,
            };
            let changed = (origin == SettingOrigin::Store).then(|| change_of(*key)).flatten();
            SettingSeen { key: *key, value: settings.get(*key), origin, changed }
        };
        Ok(SettingKey::ALL.iter().map(seen).collect())
    }

    pub async fn settings_update(
        &self,
        op: &OpContext,
        set: Vec<(SettingKey, Value)>,
    ) -> Result<SettingsUpdated, EngineError> {
        let rule = &self.parts.board;
        let (base, agents) = (rule.base.clone(), rule.agents.clone());
        let update = SettingsUpdate { base, agents, set };
        let applied = self.act(op, Command::SettingsUpdate(Box::new(update))).await?;
        // The values that the first call found are no longer in the settings.
        judge_first(applied.replayed, op.tool)?;
        let updated = match applied.last_seq {
            Some(seq) => self.settings_changed_by(&op.principal.org, seq).await?,
            None => Vec::new(),
        };
        let is_pinned = |key: &SettingKey| rule.pinned.iter().any(|(pinned, _)| pinned == key);
        Ok(SettingsUpdated {
            pinned: updated.iter().map(|(key, _)| *key).filter(is_pinned).collect(),
            updated,
            settings: self.board_settings(&op.principal.org).await?,
        })
    }

    /// The changes that an event records, whatever came after it.
    async fn settings_changed_by(&self, org: &str, seq: u64) -> Result<SettingsKept, EngineError> {
        let query = EventQuery { org: Some(org.into()), after: seq - 1, task: None, limit: 1 };
        let events = self.parts.store.events(query).await?;
        let changes = events.first().and_then(|event| event.read().changes());
        let changes = changes.into_iter().flatten();
        let new = |(key, change): (&String, &Value)| {
            Some((SettingKey::parse(key)?, change["new"].clone()))
        };
        Ok(changes.filter_map(new).collect())
    }
}
