//! The MCP servers an agent is given, in the forms that agents read.

use callboard_engine::ports::McpServer;
use serde_json::{Value, json};

fn name(server: &McpServer) -> &str {
    match server {
        McpServer::Stdio { name, .. } | McpServer::Http { name, .. } => name,
    }
}

/// A file in the form of `mcpServers`.
pub(crate) fn config(servers: &[McpServer]) -> Value {
    let entry = |server: &McpServer| match server {
        McpServer::Stdio { program, args, env, .. } => {
            let env: serde_json::Map<String, Value> =
                env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            json!({"command": program, "args": args, "env": env})
        }
        McpServer::Http { url, token, .. } => {
            json!({"type": "http", "url": url, "headers": {"Authorization": format!("Bearer {token}")}})
        }
    };
    let entries: serde_json::Map<String, Value> =
        servers.iter().map(|server| (name(server).to_owned(), entry(server))).collect();
    json!({"mcpServers": entries})
}

/// As the Agent Client Protocol has them in `session/new`.
pub(crate) fn session_servers(servers: &[McpServer]) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Vec<Value> {
        pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    let entry = |server: &McpServer| match server {
        McpServer::Stdio { name, program, args, env } => {
            json!({"name": name, "command": program, "args": args, "env": pairs(env)})
        }
        McpServer::Http { name, url, token } => {
            let header = ("Authorization".to_owned(), format!("Bearer {token}"));
            json!({"type": "http", "name": name, "url": url, "headers": pairs(&[header])})
        }
    };
    servers.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_read_one_form_and_the_protocol_another() {
        let servers = [
            McpServer::Stdio {
                name: "callboard".into(),
                program: "/bin/callboard".into(),
                args: vec!["mcp".into()],
                env: vec![("A".into(), "b".into())],
            },
            McpServer::Http {
                name: "shared".into(),
                url: "http://127.0.0.1/mcp".into(),
                token: "t".into(),
            },
        ];
        let file = config(&servers);
        assert_eq!(file["mcpServers"]["callboard"]["env"]["A"], "b");
        assert_eq!(file["mcpServers"]["shared"]["headers"]["Authorization"], "Bearer t");
        let session = session_servers(&servers);
        assert_eq!(session[0]["env"][0], json!({"name": "A", "value": "b"}));
        assert_eq!(session[1]["type"], "http");
    }
}
