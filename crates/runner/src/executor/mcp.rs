//! The MCP server of a run, in the forms that agents read. An agent reaches the door of its run over HTTP,
//! or starts this program with arguments that the settings give, which forwards its messages to the door.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use callboard_engine::ports::DoorKey;
use serde_json::{Value, json};

use super::settings::McpBy;
use crate::agent::AgentSettings;
use crate::environment::Variables;

/// The name under which agents know their board.
pub(super) const SERVER: &str = "callboard";
/// The variable by which Codex is told a token; Codex takes none in its settings.
const TOKEN: &str = "CALLBOARD_TOKEN";

/// How an agent reaches its board.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BoardServer {
    by: McpBy,
    program: PathBuf,
    args: Vec<String>,
    key: DoorKey,
    token_file: PathBuf,
}

impl BoardServer {
    /// Keeps the token in `folder`, readable for this user alone.
    pub(crate) fn place(
        settings: &AgentSettings,
        by: McpBy,
        folder: &Path,
        key: &DoorKey,
    ) -> io::Result<Self> {
        let token_file = folder.join("token");
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&token_file)?;
        file.write_all(key.token.as_bytes())?;
        let program = settings.program.clone();
        let args = (settings.server_args)(&key.url, token_file.to_str().unwrap_or_default());
        Ok(Self { by, program, args, key: key.clone(), token_file })
    }

    /// Variables for programs of Callboard that the agent starts by itself.
    pub(crate) fn variables(&self) -> Variables {
        let mut variables: Variables = vec![
            ("CALLBOARD_SERVER".into(), self.key.url.clone().into()),
            ("CALLBOARD_TOKEN_FILE".into(), self.token_file.clone().into()),
        ];
        if self.by == McpBy::Http {
            variables.push((TOKEN.into(), self.key.token.clone().into()));
        }
        variables
    }

    fn address(&self) -> String {
        format!("{}/mcp", self.key.url)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.key.token)
    }

    /// The inline table that Codex takes for `mcp_servers.callboard`. Strings and arrays of JSON are
    /// strings and arrays of TOML.
    pub(super) fn codex(&self) -> String {
        match self.by {
            McpBy::Stdio => {
                format!("{{command={}, args={}}}", json!(self.program), json!(self.args))
            }
            McpBy::Http => {
                let (url, token) = (json!(self.address()), json!(TOKEN));
                format!("{{url={url}, bearer_token_env_var={token}}}")
            }
        }
    }

    /// Settings of opencode that name this server alone.
    pub(super) fn opencode(&self) -> String {
        let server = match self.by {
            McpBy::Stdio => {
                let program = self.program.to_str().unwrap_or_default().to_owned();
                let command = [&[program][..], &self.args].concat();
                json!({"type": "local", "command": command})
            }
            McpBy::Http => {
                let headers = json!({"Authorization": self.bearer()});
                json!({"type": "remote", "url": self.address(), "headers": headers, "oauth": false})
            }
        };
        json!({"mcp": {SERVER: server}}).to_string()
    }
}

/// The content of a file in the form of `mcpServers`.
pub(crate) fn config(server: Option<&BoardServer>) -> Value {
    let entry = |server: &BoardServer| match server.by {
        McpBy::Stdio => json!({"command": server.program, "args": server.args}),
        McpBy::Http => {
            let headers = json!({"Authorization": server.bearer()});
            json!({"type": "http", "url": server.address(), "headers": headers})
        }
    };
    let entries: serde_json::Map<String, Value> =
        server.map(|server| (SERVER.to_owned(), entry(server))).into_iter().collect();
    json!({"mcpServers": entries})
}

/// The servers of `session/new` in the Agent Client Protocol.
pub(crate) fn session_servers(server: Option<&BoardServer>) -> Value {
    let entry = |server: &BoardServer| match server.by {
        McpBy::Stdio => {
            json!({"name": SERVER, "command": server.program, "args": server.args, "env": []})
        }
        McpBy::Http => {
            let headers = json!([{"name": "Authorization", "value": server.bearer()}]);
            json!({"type": "http", "name": SERVER, "url": server.address(), "headers": headers})
        }
    };
    server.map(entry).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn settings() -> AgentSettings {
        AgentSettings {
            program: "/bin/callboard".into(),
            server_args: |url, token_file| {
                ["--at", url, "--with", token_file].map(str::to_owned).into()
            },
            ..AgentSettings::new("/home".into(), "/home".into())
        }
    }

    #[test]
    fn agents_read_one_form_and_the_protocol_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_secret".into() };
        let server =
            BoardServer::place(&settings(), McpBy::Stdio, folder.path(), &key).expect("written");
        let file = config(Some(&server));
        assert_eq!(file["mcpServers"]["callboard"]["command"], "/bin/callboard");
        assert_eq!(file["mcpServers"]["callboard"]["args"][1], "http://127.0.0.1:1");
        let session = session_servers(Some(&server));
        assert_eq!(session[0]["args"], file["mcpServers"]["callboard"]["args"]);
        assert!(!file.to_string().contains("cb_secret"));
        let token = folder.path().join("token");
        assert_eq!(fs::read_to_string(&token).expect("reads"), "cb_secret");
        let mode = fs::metadata(&token).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(config(None), json!({"mcpServers": {}}));
    }

    /// A server over HTTP is named with its token, except to Codex, which reads the token in a variable.
    #[test]
    fn each_agent_gets_its_own_form_of_each_transport() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_secret".into() };
        let [stdio, http] = [("a", McpBy::Stdio), ("b", McpBy::Http)].map(|(name, by)| {
            let folder = folder.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            BoardServer::place(&settings(), by, &folder, &key).expect("written")
        });
        assert!(
            stdio
                .codex()
                .starts_with(r#"{command="/bin/callboard", args=["--at","http://127.0.0.1:1","#)
        );
        assert_eq!(
            http.codex(),
            r#"{url="http://127.0.0.1:1/mcp", bearer_token_env_var="CALLBOARD_TOKEN"}"#
        );
        let read = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
        assert_eq!(read(stdio.opencode())["mcp"]["callboard"]["command"][0], "/bin/callboard");
        let remote = &read(http.opencode())["mcp"]["callboard"];
        assert_eq!(remote["headers"]["Authorization"], "Bearer cb_secret");
        assert_eq!(config(Some(&http))["mcpServers"]["callboard"]["type"], "http");
        assert_eq!(session_servers(Some(&http))[0]["type"], "http");
        let names = |server: &BoardServer| {
            let variables = server.variables();
            variables.into_iter().any(|(name, value)| name == TOKEN && value == "cb_secret")
        };
        assert!(!names(&stdio) && names(&http));
    }
}
