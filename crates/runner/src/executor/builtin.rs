//! The agents Callboard knows by name. Their argument lists are defaults that settings replace.

use super::settings::{ExecutorKind, ExecutorSettings, OutputFrom};

/// Variables that every agent needs to reach its model from behind a proxy.
const NETWORK: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
];

/// The first of these that serves a model, and whose program is found, gets a job for it.
pub(super) fn all() -> Vec<ExecutorSettings> {
    vec![claude(), codex(), gemini(), opencode(), copilot(), kimi()]
}

/// One agent: `command` for runs that only look, `write_command` for work in a worktree, `env` for variables that are
/// passed on, `writable` for the agent's own files below the home folder.
struct BuiltinAgent {
    name: &'static str,
    command: &'static str,
    write_command: &'static str,
    models: &'static [&'static str],
    env: &'static [&'static str],
    set: &'static [(&'static str, &'static str)],
    writable: &'static [&'static str],
}

impl BuiltinAgent {
    fn settings(self) -> ExecutorSettings {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let env = [self.env, &NETWORK].concat();
        ExecutorSettings {
            write_command: words(self.write_command),
            models: owned(self.models),
            env: owned(&env),
            set: self
                .set
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            writable: owned(self.writable),
            ..ExecutorSettings::command(self.name, words(self.command))
        }
    }
}

/// Claude Code. `--strict-mcp-config` keeps the user's own servers out of a run.
fn claude() -> ExecutorSettings {
    let agent = BuiltinAgent {
        name: "claude",
        command: "claude -p --output-format json --model {model} --strict-mcp-config \
                  --disallowedTools Bash,Edit,Write,NotebookEdit",
        write_command: "claude -p --output-format json --model {model} \
                        --mcp-config {mcp_config} --strict-mcp-config \
                        --permission-mode bypassPermissions",
        models: &["claude*", "sonnet*", "opus*", "haiku*"],
        env: &["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"],
        // Claude Code lets root bypass the permissions only where this variable says that a sandbox holds the agent.
        set: &[("IS_SANDBOX", "{confined}")],
        writable: &["~/.claude/", "~/.claude.json"],
    };
    ExecutorSettings { output: OutputFrom::Json("result".into()), ..agent.settings() }
}

/// Codex. Its answer is the last message, which it writes into a file.
fn codex() -> ExecutorSettings {
    let agent = BuiltinAgent {
        name: "codex",
        command: "codex exec --sandbox read-only --skip-git-repo-check --color never \
                  --model {model} --output-last-message {output_file} -",
        write_command: "codex exec --sandbox workspace-write --skip-git-repo-check --color never \
                        -c mcp_servers.callboard={mcp_codex} \
                        --model {model} --output-last-message {output_file} -",
        models: &["gpt*", "o1*", "o3*", "o4*", "codex*"],
        env: &["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_HOME"],
        set: &[],
        writable: &["~/.codex/"],
    };
    // Codex runs commands in a user namespace, which cannot be created inside Landlock.
    ExecutorSettings { output: OutputFrom::File, own_sandbox: true, ..agent.settings() }
}

/// Gemini CLI. It learns of the board's server by a settings file.
fn gemini() -> ExecutorSettings {
    let agent = BuiltinAgent {
        name: "gemini",
        command: "gemini --model {model} --output-format json --approval-mode plan",
        write_command: "gemini --model {model} --output-format json --approval-mode yolo",
        models: &["gemini*"],
        env: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        // Settings of the lowest precedence; the user's settings are added to them.
        set: &[("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "{mcp_config}")],
        writable: &["~/.gemini/"],
    };
    ExecutorSettings { output: OutputFrom::Json("response".into()), ..agent.settings() }
}

fn opencode() -> ExecutorSettings {
    BuiltinAgent {
        name: "opencode",
        command: "opencode run --agent plan --model {model}",
        write_command: "opencode run --model {model}",
        models: &["*/*"],
        env: &["OPENCODE_CONFIG", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"],
        set: &[("OPENCODE_CONFIG_CONTENT", "{mcp_opencode}")],
        writable: &["~/.local/share/opencode/", "~/.local/state/opencode/", "~/.cache/opencode/"],
    }
    .settings()
}

fn copilot() -> ExecutorSettings {
    let agent = BuiltinAgent {
        name: "copilot",
        command: "copilot --acp --model {model}",
        write_command: "copilot --acp --model {model}",
        models: &["copilot*"],
        env: &["GH_TOKEN", "GITHUB_TOKEN", "COPILOT_GITHUB_TOKEN"],
        set: &[],
        writable: &["~/.copilot/"],
    };
    ExecutorSettings { kind: ExecutorKind::Acp, ..agent.settings() }
}

fn kimi() -> ExecutorSettings {
    let agent = BuiltinAgent {
        name: "kimi",
        command: "kimi acp",
        write_command: "kimi acp",
        models: &["kimi*", "moonshot*"],
        env: &["KIMI_API_KEY", "KIMI_BASE_URL", "MOONSHOT_API_KEY"],
        set: &[],
        writable: &["~/.kimi/", "~/.kimi-code/"],
    };
    ExecutorSettings { kind: ExecutorKind::Acp, ..agent.settings() }
}
