//! `front`'s types in the protocol's shapes, and failures as protocol errors. Pure.

use std::sync::Arc;

use callboard_engine::error::EngineError;
use rmcp::ErrorData;
use rmcp::model::{Prompt, PromptArgument, Resource, ResourceTemplate, Tool, ToolAnnotations};
use serde_json::json;

use super::caught::TraceId;
use crate::front;

pub(super) const JSON: &str = "application/json";

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
    Resource::new(info.uri, info.name).with_title(info.title).with_mime_type(JSON)
}

pub(super) fn resource_template(info: front::ResourceTemplate) -> ResourceTemplate {
    ResourceTemplate::new(info.uri_template, info.name)
        .with_title(info.title)
        .with_description(info.description)
        .with_mime_type(JSON)
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

/// What a caller may know of a failure; the rest goes to the log under the same trace id.
pub(super) fn failure(error: EngineError) -> ErrorData {
    match error {
        EngineError::Refused(refusal) => ErrorData::invalid_params(
            refusal.message(),
            Some(json!({
                "code": refusal.code(),
                "hint": refusal.hint(),
                "retryable": refusal.retryable(),
            })),
        ),
        EngineError::Unavailable(message) => ErrorData::internal_error(
            message,
            Some(json!({ "code": "UNAVAILABLE", "retryable": true })),
        ),
        EngineError::Internal(cause) => {
            let trace_id = TraceId::new();
            tracing::error!(%trace_id, cause, "a request failed");
            internal(trace_id)
        }
        EngineError::Canceled => ErrorData::internal_error("canceled", None),
    }
}

pub(super) fn internal(trace_id: TraceId) -> ErrorData {
    ErrorData::internal_error(
        format!("internal error, trace {trace_id}"),
        Some(json!({ "code": "INTERNAL_ERROR", "trace_id": trace_id.to_string() })),
    )
}

pub(super) fn no_such_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found(format!("resource not found: {uri}"), Some(json!({ "uri": uri })))
}
