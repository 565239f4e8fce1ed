//! A real conversation with our own MCP server, over a duplex stream inside this process.

use std::time::Duration;

use callboard_engine::context::Principal;
use callboard_surface::stdio::{StdioIdentity, serve_streams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

use super::Finding;
use crate::compose::{self, App};
use crate::config::Settings;

const TIME_MAX: Duration = Duration::from_secs(5);
/// As large as a pipe on Linux.
const PIPE_BYTES: usize = 1 << 16;

/// Inside this process: a fault here is one of the server, not of the client's settings or of PATH.
pub(super) async fn shake(app: &App, settings: &Settings) -> Finding {
    match tokio::time::timeout(TIME_MAX, tools_over_mcp(app, settings)).await {
        Ok(Ok(tools)) => Finding::ok("mcp", format!("answers a client and offers {tools} tools")),
        Ok(Err(words)) => {
            Finding::fail("mcp", words, "report this fault with the output of callboard doctor")
        }
        Err(_) => Finding::fail(
            "mcp",
            "no answer within 5 s",
            "run CALLBOARD_LOG=debug callboard mcp and read its log",
        ),
    }
}

async fn tools_over_mcp(app: &App, settings: &Settings) -> Result<usize, String> {
    let actor = "agent:doctor".parse().map_err(|error| format!("{error}"))?;
    let identity = StdioIdentity::Fixed(Principal::local(actor));
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (input, output) = tokio::io::split(theirs);
    let stop = CancellationToken::new();
    let front = app.front(&settings.toolsets);
    let options = compose::mcp_options(settings, None, false);
    let server = tokio::spawn(serve_streams(front, options, identity, input, output, stop.clone()));
    let (answers, mut questions) = tokio::io::split(ours);
    let mut answers = BufReader::new(answers).lines();
    let mut ask = async |question: Value| -> Result<(), String> {
        let line = format!("{question}\n");
        questions.write_all(line.as_bytes()).await.map_err(|error| error.to_string())
    };
    ask(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "doctor", "version": env!("CARGO_PKG_VERSION")},
    }}))
    .await?;
    answer(&mut answers).await?;
    ask(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await?;
    let listed = answer(&mut answers).await?;
    stop.cancel();
    // How the server ends does not matter here.
    let _ = server.await;
    let tools = listed["result"]["tools"].as_array();
    tools.map(Vec::len).ok_or_else(|| format!("tools/list answered {listed}"))
}

async fn answer(
    lines: &mut tokio::io::Lines<impl tokio::io::AsyncBufRead + Unpin>,
) -> Result<Value, String> {
    let line = lines.next_line().await.map_err(|error| error.to_string())?;
    let line = line.ok_or("the server closed the connection")?;
    serde_json::from_str(&line).map_err(|error| format!("the answer is not JSON: {error}"))
}
