//! `callboard hook`.

use std::io::{IsTerminal, Read};

use callboard_domain::hook::HookEvent;
use callboard_domain::surrogate::whole_pairs;
use serde_json::Value;

use super::context::Context;
use crate::hook::{self, ClientShape};
use crate::output::Failure;

/// Messages of clients hold whole files; beyond this they are cut, and cannot be read.
const MESSAGE_BYTES_MAX: u64 = 16 << 20;

/// Answer a hook of an agent's client
///
/// Clients call this with a message on standard input; `callboard init --hooks` writes their hook
/// files. Says at the start of a session which task is at hand, refuses edits outside the worktree
/// of the task that the agent holds, sends heartbeats, and reminds an agent that stops early.
/// Outside of a project, and on any fault, it does nothing. The exit code is 0 even for wrong
/// arguments, because clients take another one as a refusal.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard hook session-start --client claude </dev/null")]
pub struct HookArgs {
    /// The moment: session-start, before-edit, after-tool, before-compact, turn-end, status-line
    #[arg(value_parser = HookEvent::ALL.map(HookEvent::as_str), hide_possible_values = true)]
    event: String,
    /// The client: claude, codex, cursor, gemini, copilot, opencode
    #[arg(long, value_name = "NAME")]
    client: String,
}

pub async fn cmd_hook(context: &Context, args: HookArgs) -> Result<(), Failure> {
    let (Some(event), Some(shape)) =
        (HookEvent::parse(&args.event), ClientShape::find(&args.client))
    else {
        // No failure: clients take exit code 2 of a hook as a refusal.
        let words = format!("callboard hook: --client '{}' has no hooks", args.client);
        context.out.note(&words);
        return Ok(());
    };
    let mut text = String::new();
    let input = std::io::stdin();
    let read = match input.is_terminal() {
        // A person who tries the command has no message to type.
        true => Ok(0),
        false => input.lock().take(MESSAGE_BYTES_MAX).read_to_string(&mut text),
    };
    let message = match read.map(|_| serde_json::from_slice::<Value>(&whole_pairs(text.as_bytes())))
    {
        Ok(Ok(message)) => message,
        Ok(Err(_)) | Err(_) => Value::Null,
    };
    let named = context.actor_named().unwrap_or_default();
    match hook::hook(shape, event, &message, context.org(), named).await {
        Ok(Some(said)) => context.out.line(&said),
        Ok(None) => Ok(()),
        // The agent goes on. The client keeps the reason in its log of hooks.
        Err(failure) => {
            context.out.note(&format!("callboard hook {}: {failure}", args.event));
            Ok(())
        }
    }
}
