//! How each agent is started for a person, and where it looks for its MCP servers.

use std::path::Path;

use callboard_engine::ports::{PairBackend, PairOrder};
use serde_json::{Value, json};

use super::open_with::quoted;
use crate::environment::Variables;

/// The file of MCP servers that most agents and editors read when told of it.
const SERVERS: &str = ".callboard/mcp.json";
const OPENCODE: &str = ".callboard/opencode.json";

const FIRST_WORDS: &str = "Read .callboard/start_prompt.md and follow it.";

pub(super) struct PairAgent {
    /// An executor's name.
    name: String,
    words: Vec<String>,
}

impl PairAgent {
    pub(super) fn of(order: &PairOrder) -> Self {
        let program = order.program.clone().unwrap_or_else(|| order.agent.clone());
        let how: &[&str] = match order.agent.as_str() {
            _ if order.program.is_some() => &[],
            // The flag takes every following word, so it comes last.
            "claude" => &[FIRST_WORDS, "--mcp-config", SERVERS],
            "gemini" => &["--prompt-interactive", FIRST_WORDS],
            "opencode" => &["--prompt", FIRST_WORDS],
            "copilot" => &["--additional-mcp-config", "@.callboard/mcp.json", "-i", FIRST_WORDS],
            _ => &[],
        };
        let mut words = vec![program];
        words.extend(how.iter().map(|word| (*word).to_owned()));
        if order.agent == "codex" && order.program.is_none() {
            let (program, args) = server(order);
            // Codex reads TOML, whose strings and lists are those of JSON here.
            let set = |key: &str, value: Value| format!("mcp_servers.callboard.{key}={value}");
            words.extend(["-c".into(), set("command", json!(program))]);
            words.extend(["-c".into(), set("args", json!(args)), FIRST_WORDS.into()]);
        }
        Self { name: order.agent.clone(), words }
    }

    /// The command line for a shell.
    pub(super) fn command_line(&self) -> String {
        self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn variables(&self, place: &Path) -> Variables {
        match self.name.as_str() {
            "opencode" => vec![("OPENCODE_CONFIG".into(), place.join(OPENCODE).into())],
            _ => Vec::new(),
        }
    }

    /// The files in the worktree by which the agent, or the editor, finds our server.
    pub(super) fn files(&self, order: &PairOrder) -> Vec<(&'static str, String)> {
        let text = |value: Value| format!("{value:#}\n");
        let (program, args) = server(order);
        let server = json!({"command": program, "args": args});
        let servers = || text(json!({"mcpServers": {"callboard": server}}));
        let mut files = vec![(SERVERS, servers())];
        match self.name.as_str() {
            "gemini" => files.push((".gemini/settings.json", servers())),
            "kimi" => files.push((".kimi-code/mcp.json", servers())),
            "opencode" => {
                let server = json!({"type": "local", "command": order.server, "enabled": true});
                files.push((OPENCODE, text(json!({"mcp": {"callboard": server}}))));
            }
            _ => {}
        }
        match order.backend {
            PairBackend::Tmux => {}
            PairBackend::Vscode => {
                let server = json!({"type": "stdio", "command": program, "args": args});
                let settings = json!({"servers": {"callboard": server}});
                files.push((".vscode/mcp.json", text(settings)));
            }
            PairBackend::Cursor => files.push((".cursor/mcp.json", servers())),
        }
        files
    }
}

fn server(order: &PairOrder) -> (&str, &[String]) {
    order.server.split_first().map_or(("", &[]), |(program, args)| (program, args))
}

#[cfg(test)]
mod tests {
    use callboard_engine::ports::Worktree;

    use super::*;

    fn order(agent: &str, program: Option<&str>) -> PairOrder {
        let place = std::path::PathBuf::from("/srv/shop");
        let worktree =
            Worktree { repo: place.clone(), path: place.clone(), branch: "callboard/CB-1".into() };
        PairOrder {
            task: "CB-1".into(),
            title: "Add login".into(),
            backend: PairBackend::Tmux,
            worktree,
            project_root: place,
            prompt: String::new(),
            agent: agent.into(),
            program: program.map(str::to_owned),
            server: ["callboard", "mcp", "--task", "CB-1"].map(str::to_owned).into(),
            variables: Vec::new(),
        }
    }

    /// The command line, and the files that tell the agent of our server. The words are from the programs' own
    /// `--help`.
    #[test]
    fn each_agent_is_started_in_its_own_way() {
        let read = "'Read .callboard/start_prompt.md and follow it.'";
        let servers = ".callboard/mcp.json";
        let table = [
            ("claude", format!("claude {read} --mcp-config {servers}"), vec![servers]),
            (
                "codex",
                format!(
                    "codex -c 'mcp_servers.callboard.command=\"callboard\"' \
                     -c 'mcp_servers.callboard.args=[\"mcp\",\"--task\",\"CB-1\"]' {read}"
                ),
                vec![servers],
            ),
            (
                "gemini",
                format!("gemini --prompt-interactive {read}"),
                vec![servers, ".gemini/settings.json"],
            ),
            ("opencode", format!("opencode --prompt {read}"), vec![servers, OPENCODE]),
            (
                "copilot",
                format!("copilot --additional-mcp-config @{servers} -i {read}"),
                vec![servers],
            ),
            ("kimi", "kimi".into(), vec![servers, ".kimi-code/mcp.json"]),
        ];
        for (name, typed, written) in table {
            let order = order(name, None);
            let agent = PairAgent::of(&order);
            assert_eq!(agent.command_line(), typed);
            let files: Vec<&str> = agent.files(&order).into_iter().map(|(path, _)| path).collect();
            assert_eq!(files, written, "{name}");
        }
        let own = PairAgent::of(&order("mine", Some("/opt/my agent")));
        assert_eq!(own.command_line(), "'/opt/my agent'");
    }
}
