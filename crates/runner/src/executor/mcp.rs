//! The MCP server an agent is given, in the forms that agents read: a program that passes everything on to
//! the door of the run.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use callboard_engine::ports::DoorKey;
use serde_json::{Value, json};

use crate::environment::Variables;

const NAME: &str = "callboard";

/// What an agent starts to reach its board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoardServer {
    program: PathBuf,
    url: String,
    token_file: PathBuf,
}

impl BoardServer {
    /// Keeps the token in `folder`, where nobody but this user reads it.
    pub(crate) fn place(program: &Path, folder: &Path, key: &DoorKey) -> io::Result<Self> {
        let token_file = folder.join("token");
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&token_file)?;
        file.write_all(key.token.as_bytes())?;
        Ok(Self { program: program.to_owned(), url: key.url.clone(), token_file })
    }

    /// For programs of Callboard that the agent starts by itself.
    pub(crate) fn variables(&self) -> Variables {
        vec![
            ("CALLBOARD_SERVER".into(), self.url.clone().into()),
            ("CALLBOARD_TOKEN_FILE".into(), self.token_file.clone().into()),
        ]
    }

    fn args(&self) -> [&str; 5] {
        let token_file = self.token_file.to_str().unwrap_or_default();
        ["mcp", "--server", &self.url, "--token-file", token_file]
    }
}

/// A file in the form of `mcpServers`.
pub(crate) fn config(server: Option<&BoardServer>) -> Value {
    let entry = |server: &BoardServer| json!({"command": server.program, "args": server.args()});
    let entries: serde_json::Map<String, Value> =
        server.map(|server| (NAME.to_owned(), entry(server))).into_iter().collect();
    json!({"mcpServers": entries})
}

/// As the Agent Client Protocol has them in `session/new`.
pub(crate) fn session_servers(server: Option<&BoardServer>) -> Value {
    let entry = |server: &BoardServer| json!({"name": NAME, "command": server.program, "args": server.args(), "env": []});
    server.map(entry).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn agents_read_one_form_and_the_protocol_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = DoorKey { url: "http://127.0.0.1:1".into(), token: "cb_secret".into() };
        let server = BoardServer::place(Path::new("/bin/callboard"), folder.path(), &key);
        let server = server.expect("written");
        let file = config(Some(&server));
        assert_eq!(file["mcpServers"]["callboard"]["command"], "/bin/callboard");
        assert_eq!(file["mcpServers"]["callboard"]["args"][2], "http://127.0.0.1:1");
        let session = session_servers(Some(&server));
        assert_eq!(session[0]["args"], file["mcpServers"]["callboard"]["args"]);
        assert!(!file.to_string().contains("cb_secret"));
        let token = folder.path().join("token");
        assert_eq!(fs::read_to_string(&token).expect("reads"), "cb_secret");
        let mode = fs::metadata(&token).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(config(None), json!({"mcpServers": {}}));
    }
}
