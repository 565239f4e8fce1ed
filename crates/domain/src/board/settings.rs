//! Settings that people may change while servers run: how the board treats agents, reviews and merges. A table of
//! keys, the typed whole, and the rules for values. The engine finds the values.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::board::branch::is_branch_name;
use crate::board::card::Terminal;
use crate::policy::fold;
use crate::words::words;

macro_rules! setting_keys {
    ($($variant:ident => $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SettingKey { $($variant),* }

        impl SettingKey {
            pub const ALL: &'static [SettingKey] = &[$(SettingKey::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(SettingKey::$variant => $name),* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($name => Some(SettingKey::$variant),)* _ => None }
            }
        }
    };
}

setting_keys! {
    AutoReview => "general.auto_review",
    AutoApprove => "general.auto_approve",
    RequireReviewApproval => "general.require_review_approval",
    SerializeMerges => "general.serialize_merges",
    DefaultBaseBranch => "general.default_base_branch",
    AutoSyncBaseBranch => "general.auto_sync_base_branch",
    WorktreeBaseRefStrategy => "general.worktree_base_ref_strategy",
    MaxConcurrentAgents => "general.max_concurrent_agents",
    DefaultWorkerAgent => "general.default_worker_agent",
    DefaultPairTerminalBackend => "general.default_pair_terminal_backend",
    DefaultModelClaude => "general.default_model_claude",
    DefaultModelOpencode => "general.default_model_opencode",
    DefaultModelCodex => "general.default_model_codex",
    DefaultModelGemini => "general.default_model_gemini",
    DefaultModelKimi => "general.default_model_kimi",
    DefaultModelCopilot => "general.default_model_copilot",
    TasksWaitDefaultTimeoutSeconds => "general.tasks_wait_default_timeout_seconds",
    TasksWaitMaxTimeoutSeconds => "general.tasks_wait_max_timeout_seconds",
    SkipPairInstructions => "ui.skip_pair_instructions",
}

impl Serialize for SettingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for SettingKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a setting"))
    }
}

words! {
    /// The commit where a task's branch begins.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum BaseRef {
        /// The remote's branch when there is one.
        #[default]
        Remote => "remote",
        /// The local branch only when it has commits that the remote's lacks.
        LocalIfAhead => "local_if_ahead",
        Local => "local",
    }
}

/// The agents that have a default model of their own, in the order of their keys.
const MODELLED: [(&str, SettingKey); 6] = [
    ("claude", SettingKey::DefaultModelClaude),
    ("opencode", SettingKey::DefaultModelOpencode),
    ("codex", SettingKey::DefaultModelCodex),
    ("gemini", SettingKey::DefaultModelGemini),
    ("kimi", SettingKey::DefaultModelKimi),
    ("copilot", SettingKey::DefaultModelCopilot),
];

pub const AGENTS_MAX: u32 = 10;
pub const WAIT_S_MAX: u32 = 3600;
const TEXT_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardSettings {
    /// A reviewer agent looks at work whose review is requested.
    pub auto_review: bool,
    /// Grants permission prompts of planning agents; workers are limited to their worktree anyway.
    pub auto_approve: bool,
    /// Merging needs an approval first.
    pub require_review_approval: bool,
    /// One merge at a time in a repository.
    pub serialize_merges: bool,
    pub default_base_branch: String,
    /// The base branch is fetched before work begins.
    pub auto_sync_base_branch: bool,
    pub base_ref: BaseRef,
    /// Live runs of a server instance.
    pub max_concurrent_agents: u32,
    /// The executor for tasks that name none.
    pub default_worker_agent: String,
    pub pair_terminal: Terminal,
    pub tasks_wait_default_s: u32,
    pub tasks_wait_max_s: u32,
    /// Pair sessions start without instructions.
    pub skip_pair_instructions: bool,
    models: [Option<String>; 6],
}

impl Default for BoardSettings {
    fn default() -> Self {
        Self {
            auto_review: true,
            auto_approve: false,
            require_review_approval: false,
            serialize_merges: true,
            default_base_branch: "main".into(),
            auto_sync_base_branch: true,
            base_ref: BaseRef::default(),
            max_concurrent_agents: 3,
            default_worker_agent: "claude".into(),
            pair_terminal: Terminal::default(),
            tasks_wait_default_s: 900,
            tasks_wait_max_s: 900,
            skip_pair_instructions: false,
            models: Default::default(),
        }
    }
}

impl BoardSettings {
    /// The model of an agent whose caller names none; `None`: the agent's own choice.
    pub fn default_model(&self, agent: &str) -> Option<&str> {
        let place = MODELLED.iter().position(|(name, _)| *name == agent)?;
        self.models[place].as_deref()
    }

    /// How long a wait lasts that asks for `wanted` seconds, or for none.
    pub fn wait_s(&self, wanted: Option<f64>) -> f64 {
        let longest = f64::from(self.tasks_wait_max_s);
        wanted.unwrap_or(f64::from(self.tasks_wait_default_s)).min(longest)
    }

    pub fn get(&self, key: SettingKey) -> Value {
        match key {
            SettingKey::AutoReview => json!(self.auto_review),
            SettingKey::AutoApprove => json!(self.auto_approve),
            SettingKey::RequireReviewApproval => json!(self.require_review_approval),
            SettingKey::SerializeMerges => json!(self.serialize_merges),
            SettingKey::DefaultBaseBranch => json!(self.default_base_branch),
            SettingKey::AutoSyncBaseBranch => json!(self.auto_sync_base_branch),
            SettingKey::WorktreeBaseRefStrategy => json!(self.base_ref.as_str()),
            SettingKey::MaxConcurrentAgents => json!(self.max_concurrent_agents),
            SettingKey::DefaultWorkerAgent => json!(self.default_worker_agent),
            SettingKey::DefaultPairTerminalBackend => json!(self.pair_terminal.as_str()),
            SettingKey::DefaultModelClaude
            | SettingKey::DefaultModelOpencode
            | SettingKey::DefaultModelCodex
            | SettingKey::DefaultModelGemini
            | SettingKey::DefaultModelKimi
            | SettingKey::DefaultModelCopilot => json!(self.models[model_place(key)]),
            SettingKey::TasksWaitDefaultTimeoutSeconds => json!(self.tasks_wait_default_s),
            SettingKey::TasksWaitMaxTimeoutSeconds => json!(self.tasks_wait_max_s),
            SettingKey::SkipPairInstructions => json!(self.skip_pair_instructions),
        }
    }

    /// Sets a value, or says what the value must be. `agents` are the executors that exist.
    pub fn set(&mut self, key: SettingKey, value: &Value, agents: &[String]) -> Result<(), String> {
        let judged = GivenValue { key, value };
        match key {
            SettingKey::AutoReview => self.auto_review = judged.boolean()?,
            SettingKey::AutoApprove => self.auto_approve = judged.boolean()?,
            SettingKey::RequireReviewApproval => self.require_review_approval = judged.boolean()?,
            SettingKey::SerializeMerges => self.serialize_merges = judged.boolean()?,
            SettingKey::DefaultBaseBranch => self.default_base_branch = judged.branch()?,
            SettingKey::AutoSyncBaseBranch => self.auto_sync_base_branch = judged.boolean()?,
            SettingKey::WorktreeBaseRefStrategy => {
                self.base_ref = judged.word(BaseRef::ALL, BaseRef::as_str)?;
            }
            SettingKey::MaxConcurrentAgents => {
                self.max_concurrent_agents = judged.number(AGENTS_MAX)?;
            }
            SettingKey::DefaultWorkerAgent => self.default_worker_agent = judged.agent(agents)?,
            SettingKey::DefaultPairTerminalBackend => {
                self.pair_terminal = judged.word(Terminal::ALL, Terminal::as_str)?;
            }
            SettingKey::DefaultModelClaude
            | SettingKey::DefaultModelOpencode
            | SettingKey::DefaultModelCodex
            | SettingKey::DefaultModelGemini
            | SettingKey::DefaultModelKimi
            | SettingKey::DefaultModelCopilot => {
                self.models[model_place(key)] = judged.optional_text()?;
            }
            SettingKey::TasksWaitDefaultTimeoutSeconds => {
                self.tasks_wait_default_s = judged.number(WAIT_S_MAX)?;
            }
            SettingKey::TasksWaitMaxTimeoutSeconds => {
                self.tasks_wait_max_s = judged.number(WAIT_S_MAX)?;
            }
            SettingKey::SkipPairInstructions => self.skip_pair_instructions = judged.boolean()?,
        }
        Ok(())
    }
}

fn model_place(key: SettingKey) -> usize {
    MODELLED.iter().position(|(_, of)| *of == key).expect("asked only for keys of models")
}

/// A value from a caller, on its way into a setting.
struct GivenValue<'v> {
    key: SettingKey,
    value: &'v Value,
}

impl GivenValue<'_> {
    fn wrong<T>(&self, wanted: &str) -> Result<T, String> {
        let got: String = self.value.to_string().chars().take(80).collect();
        Err(format!("{} must be {wanted}, got {got}", self.key.as_str()))
    }

    fn boolean(&self) -> Result<bool, String> {
        match self.value {
            Value::Bool(yes) => Ok(*yes),
            Value::String(text) if fold(text) == "true" => Ok(true),
            Value::String(text) if fold(text) == "false" => Ok(false),
            _ => self.wrong("true or false"),
        }
    }

    fn number(&self, max: u32) -> Result<u32, String> {
        let number = match self.value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| u32::try_from(number).ok());
        match number.filter(|number| (1..=max).contains(number)) {
            Some(number) => Ok(number),
            None => self.wrong(&format!("1..{max}")),
        }
    }

    fn text(&self) -> Option<&str> {
        let text = self.value.as_str().map(str::trim)?;
        (text.chars().count() <= TEXT_CHARS_MAX && !text.contains(char::is_control)).then_some(text)
    }

    fn optional_text(&self) -> Result<Option<String>, String> {
        match (self.value, self.text()) {
            (Value::Null, _) => Ok(None),
            (_, Some(text)) => Ok(Some(text.to_owned()).filter(|text| !text.is_empty())),
            (_, None) => {
                self.wrong(&format!("a text of at most {TEXT_CHARS_MAX} characters, or null"))
            }
        }
    }

    fn branch(&self) -> Result<String, String> {
        match self.text().filter(|text| text.len() <= TEXT_CHARS_MAX && is_branch_name(text)) {
            Some(text) => Ok(text.to_owned()),
            None => self.wrong("the name of a branch"),
        }
    }

    fn agent(&self, agents: &[String]) -> Result<String, String> {
        let found = self.text().and_then(|text| agents.iter().find(|agent| *agent == text));
        match found {
            Some(agent) => Ok(agent.clone()),
            None => self.wrong(&format!("one of {}", agents.join(", "))),
        }
    }

    fn word<T: Copy, const N: usize>(
        &self,
        all: [T; N],
        name: fn(T) -> &'static str,
    ) -> Result<T, String> {
        let given = self.text().map(fold);
        match all.into_iter().find(|word| given.as_deref() == Some(name(*word))) {
            Some(word) => Ok(word),
            None => self.wrong(&format!("one of {}", all.map(name).join(", "))),
        }
    }
}

/// Settings with a stored value.
pub type SettingsKept = Vec<(SettingKey, Value)>;

#[cfg(test)]
mod tests {
    use super::*;

    fn agents() -> Vec<String> {
        ["claude", "ours"].map(str::to_owned).to_vec()
    }

    #[test]
    fn every_key_reads_back_what_it_says() {
        let settings = BoardSettings::default();
        let mut again = BoardSettings { auto_review: false, ..settings.clone() };
        for key in SettingKey::ALL {
            assert_eq!(SettingKey::parse(key.as_str()), Some(*key));
            again.set(*key, &settings.get(*key), &agents()).expect("its own value fits");
        }
        assert_eq!(again, settings);
        assert_eq!(SettingKey::ALL.len(), 19);
    }

    #[test]
    fn values_are_judged_and_refusals_name_the_range() {
        let table = r#"
            general.max_concurrent_agents                 4           4
            general.max_concurrent_agents                 "7"         7
            general.max_concurrent_agents                 11          1..10
            general.max_concurrent_agents                 0           1..10
            general.max_concurrent_agents                 2.5         1..10
            general.tasks_wait_max_timeout_seconds        3600        3600
            general.tasks_wait_max_timeout_seconds        3601        1..3600
            general.auto_review                           "FALSE"     false
            general.auto_review                           1           true_or_false
            general.worktree_base_ref_strategy            "Local-If-Ahead" "local_if_ahead"
            general.worktree_base_ref_strategy            "newest"    remote,_local_if_ahead,_local
            general.default_pair_terminal_backend         "vscode"    "vscode"
            general.default_pair_terminal_backend         "screen"    tmux,_vscode,_cursor
            general.default_worker_agent                  "ours"      "ours"
            general.default_worker_agent                  "theirs"    claude,_ours
            general.default_base_branch                   "rel/1.x"   "rel/1.x"
            general.default_base_branch                   ""          branch
            general.default_base_branch                   "a..b"      branch
            general.default_model_codex                   "o5"        "o5"
            general.default_model_codex                   ""          null
            general.default_model_codex                   null        null
            general.default_model_codex                   7           a_text
            ui.skip_pair_instructions                     true        true
        "#;
        for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let key = SettingKey::parse(words[0]).expect("a key");
            let given: Value = serde_json::from_str(words[1]).expect("a value");
            let mut settings = BoardSettings::default();
            match settings.set(key, &given, &agents()) {
                Ok(()) => assert_eq!(settings.get(key).to_string(), words[2], "{line}"),
                Err(said) => {
                    assert!(said.starts_with(key.as_str()), "{said}");
                    assert!(
                        said.contains(&words[2].replace('_', " "))
                            || said.contains(words[2])
                            || said.replace(' ', "_").contains(words[2]),
                        "{line}: {said}"
                    );
                    assert_eq!(settings, BoardSettings::default(), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_wait_is_never_longer_than_allowed() {
        let settings = BoardSettings { tasks_wait_max_s: 2, ..BoardSettings::default() };
        assert_eq!(settings.wait_s(None), 2.0);
        assert_eq!(settings.wait_s(Some(99_999.0)), 2.0);
        assert_eq!(settings.wait_s(Some(0.5)), 0.5);
    }
}
