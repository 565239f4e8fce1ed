//! `callboard call`: any tool, from a terminal.

use callboard_engine::context::OpContext;
use callboard_surface::error;
use callboard_surface::front::Unknown;
use callboard_surface::toolsets;
use serde_json::Value;

use super::context::Context;
use super::remote::{self, ServerArgs};
use crate::output::{Exit, Failure, exit_of};

/// Call a tool the way an agent does
///
/// Prints the structured result as JSON. A result that says no by itself (its success or ok is false)
/// is printed too, and the exit code is that of a refusal.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard call list '{\"ready\": true}'")]
pub struct CallArgs {
    /// The tool's name, as callboard mcp offers it to agents
    tool: String,
    /// Its arguments; - reads them from standard input
    #[arg(default_value = "{}", hide_default_value = true, value_name = "JSON")]
    arguments: String,
    /// Vocabularies to look for the tool in
    #[arg(long, default_value = "all")]
    toolsets: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn cmd_call(context: &Context, args: CallArgs) -> Result<(), Failure> {
    let toolsets = toolsets::parse(&args.toolsets).map_err(Failure::usage)?;
    let arguments = read_arguments(&args.arguments)?;
    if let Some(board) = args.server.board(context, Some(&args.toolsets)).await? {
        let answer = board.call(&args.tool, arguments).await;
        return told(context, &answer.map_err(|fault| remote::failure(&fault))?);
    }
    let open = context.open().await?;
    let front = open.app.front(&toolsets);
    let op = open.op_long("call")?;
    let answer = front.ask(&args.tool, arguments, |tool| OpContext { tool, ..op }).await;
    let (answer, speaker) = match answer {
        Ok(answered) => answered,
        Err(Unknown(name)) => {
            let tools = front.tools(&open.principal).await;
            return Err(unknown_tool(
                &name,
                &tools.iter().map(|tool| tool.name).collect::<Vec<_>>(),
            ));
        }
    };
    match answer {
        Ok(value) => answered(context, &value),
        Err(error) => Err(Failure::rendered(exit_of(&error), &error::render(&error, speaker))),
    }
}

fn answered(context: &Context, value: &Value) -> Result<(), Failure> {
    context.out.answer(value)?;
    match refused(value) {
        Some(exit) => Err(Failure::Silent(exit as u8)),
        None => Ok(()),
    }
}

/// Turns a server's answer into the result, a refusal of the tool, or one of the protocol.
fn told(context: &Context, answer: &Value) -> Result<(), Failure> {
    let (result, error) = (&answer["result"], &answer["error"]);
    let said = &result["structuredContent"];
    if result["isError"] == true {
        let code = said["code"].as_str().unwrap_or_default();
        return Err(Failure::rendered(exit_for(code), said));
    }
    if error.is_null() {
        return answered(context, said);
    }
    let code = error["data"]["code"].as_str().unwrap_or("INVALID_INPUT");
    Err(Failure::new(Exit::Usage, code, error["message"].as_str().unwrap_or_default()))
}

/// The exit code of a result that says no by itself: board and crew say `success`, relay says `ok`.
fn refused(answer: &Value) -> Option<Exit> {
    let says_no = ["success", "ok"].iter().any(|key| answer[*key] == Value::Bool(false));
    let code = [&answer["code"], &answer["error"]["code"], &answer["data"]["code"]];
    let code = code.into_iter().find_map(Value::as_str).unwrap_or_default();
    says_no.then(|| exit_for(code))
}

fn exit_for(code: &str) -> Exit {
    match code {
        code if code.ends_with("NOT_FOUND") => Exit::NotFound,
        code if code.contains("DENIED") || code.contains("NOT_ALLOWED") => Exit::Auth,
        "DEPS_NOT_CLOSED" | "CHECKS_NOT_PASSED" => Exit::Gate,
        "MERGE_FAILED" | "ALREADY_TERMINAL" | "AGENT_AT_WORK" | "ALREADY_CLAIMED" => Exit::Conflict,
        _ => Exit::Failure,
    }
}

fn read_arguments(text: &str) -> Result<Value, Failure> {
    let text = match text {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::io("cannot read standard input", &error))?,
        text => text.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the arguments are not JSON: {error}")))
}

fn unknown_tool(name: &str, known: &[&str]) -> Failure {
    let near = known.iter().find(|tool| strsim::damerau_levenshtein(tool, name) <= 2);
    let failure = Failure::new(Exit::Usage, "UNKNOWN_TOOL", format!("there is no tool '{name}'"));
    failure.hint(match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("tools are {}", known.join(", ")),
    })
}
