//! A crew of agents: mail, introspection, and work on epics. Every call is judged by its agent's type,
//! written to a log of decisions, tried again when it breaks on its way, and reported when that does not
//! help. The table is in the reference's order.

pub mod envelope;
mod mail;
mod pipeline;
mod system;
mod words;

use callboard_domain::crew::permission::may_call;
use callboard_domain::rights::AgentType;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::tool::{Tool, Toolset};
use pipeline::seated;

pub const NAME: &str = "crew";

pub static TOOLSET: Toolset = Toolset {
    name: NAME,
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: envelope::TRANSIENT_ERROR,
        unavailable_hint: None,
        canceled: envelope::INTERNAL_ERROR,
        internal: envelope::INTERNAL_ERROR,
    },
    instructions: "You are one of a crew of agents. mcp__agent__get_status says who you are, \
        mcp__mail__list_inbox what others wrote to you. Every answer has success, and data or error.",
    audit: None,
};

const KEYS: &[&str] = &["success", "timestamp"];

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("mcp__mail__list_inbox", "List inbox",
        "Lists mail that was sent to you, the newest first. Does not mark it as read.",
        Hints::READ, schema_of::<mail::ListInbox>, KEYS, seated!(mail::list_inbox)).for_crew(),
    Tool::new("mcp__mail__read", "Read mail",
        "Reads one mail whole and marks it as read.",
        Hints::WRITE_AGAIN, schema_of::<mail::Read>, KEYS, seated!(mail::read)).for_crew(),
    Tool::new("mcp__mail__send", "Send mail",
        "Sends mail to another agent (toAgentId), or to people (toHuman: true).",
        Hints::WRITE, schema_of::<mail::Send>, KEYS, seated!(mail::send)).for_crew(),
    Tool::new("mcp__mail__reply", "Reply to mail",
        "Answers mail that you received; it goes to whoever sent that.",
        Hints::WRITE, schema_of::<mail::Reply>, KEYS, seated!(mail::reply)).for_crew(),
    Tool::new("mcp__system__log_decision", "Log decision",
        "Writes down a decision and why you took it.",
        Hints::WRITE, schema_of::<system::LogDecision>, KEYS, seated!(system::log_decision)).for_crew(),
];

/// What an agent of this type is shown.
pub(crate) fn is_shown(kind: AgentType, tool: &str) -> bool {
    may_call(kind, tool) && (kind == AgentType::Worker || tool != "mcp__agent__get_task")
}
