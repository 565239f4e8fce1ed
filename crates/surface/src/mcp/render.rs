//! `front`'s types in the protocol's shapes, and failures as protocol errors. Pure.

use std::sync::Arc;

use callboard_domain::refusal::brief;
use callboard_engine::error::EngineError;
use rmcp::ErrorData;
use rmcp::model::{Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolAnnotations};
use serde_json::json;

use crate::error::{self, Speaker, TraceId};
use crate::front::{self, Unknown};
use crate::lookup::LookupError;
use crate::toolsets;

/// All four hints are always written: for a missing hint the protocol's default is the more harmful case.
pub(super) fn tool(info: front::ToolInfo) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(info.hints.read_only)
        .destructive(info.hints.destructive)
        .idempotent(info.hints.idempotent)
        .open_world(info.hints.open_world);
    Tool::new(info.name, info.description, Arc::new(info.input_schema))
        .with_title(info.title)
        .with_raw_output_schema(Arc::new(info.output_schema))
        .with_annotations(hints)
}

pub(super) fn resource(info: front::ResourceInfo) -> Resource {
    Resource::new(info.uri, info.name).with_title(info.title).with_mime_type(info.media_type)
}

pub(super) fn resource_template(info: front::ResourceTemplate) -> ResourceTemplate {
    ResourceTemplate::new(info.uri_template, info.name)
        .with_title(info.title)
        .with_description(info.description)
        .with_mime_type(info.media_type)
}

pub(super) fn prompt(info: front::PromptInfo) -> Prompt {
    let arguments = info
        .arguments
        .iter()
        .map(|argument| {
            PromptArgument::new(argument.name)
                .with_description(argument.description)
                .with_required(argument.required)
        })
        .collect();
    Prompt::new(info.name, Some(info.description), Some(arguments)).with_title(info.title)
}

/// A failure outside a tool call, as a protocol error with the words of the tool error.
pub(super) fn failure(error: EngineError) -> ErrorData {
    // No tool was called, so no toolset's words apply.
    let speaker = Speaker { voice: &toolsets::PLAIN.voice, tool: "" };
    let body = error::render(&error, speaker);
    let message = body["message"].as_str().unwrap_or_default().to_owned();
    match error {
        // A refusal is the caller's to mend, so it is no internal error.
        EngineError::Refused(_) => ErrorData::invalid_params(message, Some(body)),
        EngineError::Unavailable(_)
        | EngineError::Git(_)
        | EngineError::Damaged(_)
        | EngineError::Internal(_)
        | EngineError::Canceled => ErrorData::internal_error(message, Some(body)),
    }
}

/// A lookup that failed, as a protocol error; `kind` is the word for what was looked up.
pub(super) fn unknown(kind: &str, error: LookupError) -> ErrorData {
    match error {
        LookupError::Absent(Unknown(name)) => {
            ErrorData::invalid_params(format!("unknown {kind}: {}", brief(&name)), None)
        }
        LookupError::Failed(error) => failure(error),
    }
}

pub(super) fn internal(trace_id: TraceId) -> ErrorData {
    let body = error::broken("INTERNAL_ERROR", trace_id);
    ErrorData::internal_error(body["message"].as_str().unwrap_or_default().to_owned(), Some(body))
}

/// The SDK assigns the error number of the client's era.
pub(super) fn no_such_resource(missing: &front::NoResource) -> ErrorData {
    let front::NoResource { uri, code, state, retryable, hint } = missing;
    let mut data = json!({ "uri": uri, "code": code });
    if let Some(state) = state {
        data["state"] = (*state).into();
    }
    if let Some(retryable) = retryable {
        data["retryable"] = (*retryable).into();
    }
    let mut message = format!("resource not found: {}", brief(uri));
    if let Some(hint) = hint {
        data["hint"] = hint.as_str().into();
        // Many clients show only the message.
        message = format!("{message}. {hint}");
    }
    ErrorData::resource_not_found(message, Some(data))
}
