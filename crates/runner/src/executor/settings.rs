//! The settings of an executor: `[executors.<name>]`.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorSettings {
    pub name: String,
    pub kind: ExecutorKind,
    /// Program and arguments, never a shell. `{model}`, `{prompt_file}`, `{output_file}`, `{workdir}`,
    /// `{mcp_config}`, `{mcp_codex}`, `{mcp_opencode}` and `{port}` are replaced.
    pub command: Vec<String>,
    /// The command for runs that may change the worktree.
    pub write_command: Vec<String>,
    pub prompt: PromptBy,
    pub output: OutputFrom,
    /// Globs of the models it serves.
    pub models: Vec<String>,
    /// The default model; empty: the program's own choice.
    pub default_model: String,
    /// Names of variables that are passed on.
    pub env: Vec<String>,
    /// Variables with values of their own, in which the placeholders of `command` and `{confined}` are
    /// replaced. A variable whose placeholder has no value in a run is not set.
    pub set: Vec<(String, String)>,
    /// How the agent reaches the board of its run.
    pub mcp: McpBy,
    /// Where the agent may write besides its scratch folder; `~/` is the user's home, and a folder with a trailing
    /// slash is created when it is missing.
    pub writable: Vec<String>,
    /// Whether the program confines its commands by itself, in a way that does not work inside our confinement.
    pub own_sandbox: bool,
    pub success_codes: Vec<i32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    #[default]
    Command,
    /// Speaks the Agent Client Protocol on its stdin and stdout.
    Acp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    #[default]
    Stdin,
    /// As the last argument.
    Arg,
    /// In the file that `{prompt_file}` names.
    File,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpBy {
    /// The agent starts `callboard mcp --server`, which forwards its messages.
    #[default]
    Stdio,
    Http,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum OutputFrom {
    /// stdout.
    #[default]
    Text,
    /// A text field of the JSON object on stdout.
    Json(String),
    /// The file that `{output_file}` names.
    File,
}

impl TryFrom<String> for OutputFrom {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "text" => Ok(Self::Text),
            None if text == "file" => Ok(Self::File),
            Some(("json", field)) if !field.is_empty() => Ok(Self::Json(field.to_owned())),
            _ => Err(format!("output must be text, json:<field> or file, got '{text}'")),
        }
    }
}

/// The settings of an executor in a file. A missing field is the built-in executor's, or the default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawExecutor {
    pub kind: Option<ExecutorKind>,
    pub command: Option<Vec<String>>,
    pub write_command: Option<Vec<String>>,
    pub prompt: Option<PromptBy>,
    pub output: Option<OutputFrom>,
    pub models: Option<Vec<String>>,
    pub default_model: Option<String>,
    pub env: Option<Vec<String>>,
    pub set: Option<BTreeMap<String, String>>,
    pub mcp: Option<McpBy>,
    pub writable: Option<Vec<String>>,
    pub own_sandbox: Option<bool>,
    pub success_codes: Option<Vec<i32>>,
}

impl ExecutorSettings {
    /// An executor of kind `command` with every default.
    pub fn command(name: &str, command: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            kind: ExecutorKind::default(),
            write_command: command.clone(),
            command,
            prompt: PromptBy::default(),
            output: OutputFrom::default(),
            models: Vec::new(),
            default_model: String::new(),
            env: Vec::new(),
            set: Vec::new(),
            mcp: McpBy::default(),
            writable: Vec::new(),
            own_sandbox: false,
            success_codes: vec![0],
        }
    }

    /// An executor that plays an agent from a shell script: for tests and for `callboard demo`.
    pub fn script(file: &str) -> Self {
        Self::command("script", vec!["sh".into(), file.into()])
    }
}

impl RawExecutor {
    pub(super) fn over(
        self,
        name: &str,
        base: Option<ExecutorSettings>,
    ) -> Result<ExecutorSettings, String> {
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_name_char) {
            return Err(format!("executors.{name}: a name has letters, digits, '.', '_' and '-'"));
        }
        let base = base.unwrap_or_else(|| ExecutorSettings::command(name, Vec::new()));
        let command = self.command.clone().unwrap_or(base.command);
        if command.first().is_none_or(String::is_empty) {
            return Err(format!("executors.{name}.command must name a program"));
        }
        let is_ours = |name: &&String| name.starts_with("CALLBOARD_");
        if let Some(ours) = self.env.iter().flatten().find(is_ours) {
            return Err(format!(
                "executors.{name}.env must not name {ours}: Callboard does not pass it on"
            ));
        }
        if let Some(ours) = self.set.iter().flat_map(BTreeMap::keys).find(is_ours) {
            return Err(format!("executors.{name}.set must not name {ours}: Callboard sets it"));
        }
        // A new command is also the new write command, unless the file sets one.
        let write_command = self.write_command.or(self.command).unwrap_or(base.write_command);
        Ok(ExecutorSettings {
            name: name.to_owned(),
            kind: self.kind.unwrap_or(base.kind),
            command,
            write_command,
            prompt: self.prompt.unwrap_or(base.prompt),
            output: self.output.unwrap_or(base.output),
            models: self.models.unwrap_or(base.models),
            default_model: self.default_model.unwrap_or(base.default_model),
            env: self.env.unwrap_or(base.env),
            set: self.set.map_or(base.set, |set| set.into_iter().collect()),
            mcp: self.mcp.unwrap_or(base.mcp),
            writable: self.writable.unwrap_or(base.writable),
            own_sandbox: self.own_sandbox.unwrap_or(base.own_sandbox),
            success_codes: self.success_codes.unwrap_or(base.success_codes),
        })
    }
}
