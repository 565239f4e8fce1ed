//! How clients talk to the engine: tool tables, toolsets, MCP, HTTP, the web page.
//!
//! No SQL, no process, no git here, and no rule: a handler reads arguments, calls one engine verb and renders the
//! result in its toolset's words. Only `mcp/` names the protocol's SDK.

pub mod args;
pub mod catalog;
mod check_argument;
pub mod error;
pub mod events;
pub mod front;
pub mod hooks;
pub mod http;
pub mod lookup;
pub mod mcp;
pub mod metrics;
pub mod output;
pub mod page;
pub mod places;
pub mod prompt;
mod question;
mod resource;
pub mod retry;
pub mod stdio;
mod task_name;
pub mod ticket;
pub mod tool;
pub mod toolsets;
mod traced;
pub mod web;
