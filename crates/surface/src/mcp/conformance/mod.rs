//! Fixtures for the official conformance suite: tools and prompts `test_*`, resources `test://`.
//!
//! Served only under the hidden flag, besides the normal catalogue and never in it. Only those in `tasks` touch the
//! engine. The shapes are the suite's, so most of them are plain JSON.

mod elicitation;
mod input;
mod tasks;

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CustomNotification, GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject,
    ProgressNotificationParam, Prompt, Resource, ResourceContents, ResourceTemplate,
    SamplingCapability, ServerNotification, Tool,
};
use rmcp::service::{RequestContext, SubscriptionSink};
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

pub(super) use tasks::Host;

type Context = RequestContext<RoleServer>;
type Called = Result<CallToolResponse, ErrorData>;

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// Silence.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// The pause between messages: the suite expects some to arrive during the call.
const STEP: Duration = Duration::from_millis(50);

/// A list that a fixture says has changed; no list really does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Tools,
    Prompts,
}

/// One for all sessions of a server: a call on one connection announces a change on the streams of others.
pub(super) struct Fixtures {
    changes: broadcast::Sender<Change>,
}

impl Fixtures {
    pub(super) fn new() -> Self {
        // A stream that lags by more than 16 changes skips some.
        Self { changes: broadcast::Sender::new(16) }
    }

    pub(super) fn tools(&self) -> Vec<Tool> {
        let plain = PLAIN_TOOLS.iter().chain(input::TOOLS).map(|name| tool(name, no_arguments()));
        let with_text = |name: &'static str, argument: &str| {
            tool(
                name,
                json!({
                    "type": "object",
                    "properties": { argument: { "type": "string" } },
                    "required": [argument],
                }),
            )
        };
        plain
            .chain([
                with_text("test_sampling", "prompt"),
                with_text("test_elicitation", "message"),
                tool("json_schema_2020_12_tool", schema_2020_12()),
                tool("test_x_mcp_header", schema_with_headers()),
            ])
            .chain(tasks::tools())
            .collect()
    }

    pub(super) fn tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    /// `None` for a tool that is not one of these.
    pub(super) async fn call(
        &self,
        request: &CallToolRequestParams,
        ctx: &Context,
        host: &Host<'_>,
    ) -> Option<Called> {
        let arguments = request.arguments.clone().unwrap_or_default();
        if let Some(called) = input::call(request, ctx) {
            return Some(called);
        }
        if let Some(called) = tasks::call(request, &arguments, ctx, host).await {
            return Some(called);
        }
        Some(match request.name.as_ref() {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => content(json!([image()])),
            "test_audio_content" => {
                content(json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]))
            }
            "test_embedded_resource" => content(json!([embedded(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )])),
            "test_multiple_content_types" => content(json!([
                { "type": "text", "text": "Multiple content types test:" },
                image(),
                embedded(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ])),
            "test_error_handling" => {
                let message = "This tool intentionally returns an error for testing";
                Ok(CallToolResult::error(vec![ContentBlock::text(message)]).into())
            }
            "test_tool_with_logging" => with_logging(ctx).await,
            // The modern era logs only at the level that a request asks for, and this one never asks.
            "test_logging_tool" => text("Nothing was logged."),
            "test_tool_with_progress" => with_progress(ctx).await,
            "test_sampling" => elicitation::sampling(&arguments, ctx).await,
            "test_elicitation" => elicitation::message(&arguments, ctx).await,
            "test_elicitation_sep1034_defaults" => elicitation::defaults(ctx).await,
            "test_elicitation_sep1330_enums" => elicitation::enums(ctx).await,
            // Time for the suite to lose its connection; the answer then comes from the replay.
            "test_reconnection" => {
                tokio::time::sleep(STEP).await;
                text("Reconnection test completed.")
            }
            "test_missing_capability" => needs_sampling(ctx),
            "test_trigger_tool_change" => self.announced(Change::Tools),
            "test_trigger_prompt_change" => self.announced(Change::Prompts),
            // The arguments come back as text, so that the suite sees what arrived.
            "json_schema_2020_12_tool" | "test_x_mcp_header" => {
                text(&Value::Object(arguments).to_string())
            }
            _ => return None,
        })
    }

    fn announced(&self, change: Change) -> Called {
        // The send fails without a listener, which is fine.
        let _ = self.changes.send(change);
        text("Announced.")
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Passes the next change on to a listen stream; pending forever when there are no fixtures.
    pub(super) async fn announce(
        changes: &mut Option<broadcast::Receiver<Change>>,
        sink: &SubscriptionSink,
    ) {
        let change = match changes {
            Some(changes) => changes.recv().await,
            None => std::future::pending().await,
        };
        // A stream that did not ask for this kind of change refuses it.
        let _ = match change {
            Ok(Change::Tools) => sink.notify_tool_list_changed().await,
            Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
            Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        };
    }

    pub(super) fn resources(&self) -> Vec<Resource> {
        [
            ("test://static-text", "text/plain"),
            ("test://static-binary", "image/png"),
            ("test://watched-resource", "text/plain"),
        ]
        .into_iter()
        .map(|(uri, mime_type)| {
            Resource::new(uri, uri)
                .with_description("A conformance fixture.")
                .with_mime_type(mime_type)
        })
        .collect()
    }

    pub(super) fn resource_templates(&self) -> Vec<ResourceTemplate> {
        vec![
            ResourceTemplate::new("test://template/{id}/data", "template")
                .with_description("A conformance fixture.")
                .with_mime_type("application/json"),
        ]
    }

    pub(super) fn resource_read(&self, uri: &str) -> Option<ResourceContents> {
        let text = |text: &str| ResourceContents::text(text, uri);
        match uri {
            "test://static-text" => Some(text("This is the content of the static text resource.")),
            "test://watched-resource" => Some(text("Watched resource content.")),
            "test://static-binary" => {
                Some(ResourceContents::blob(PNG, uri).with_mime_type("image/png"))
            }
            uri => {
                let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
                let data = format!("Data for ID: {id}");
                let data = json!({ "id": id, "templateTest": true, "data": data });
                Some(text(&data.to_string()).with_mime_type("application/json"))
            }
        }
    }

    /// The one resource that the suite subscribes to. It never changes.
    pub(super) fn is_watchable(&self, uri: &str) -> bool {
        uri == "test://watched-resource"
    }

    pub(super) fn prompts(&self) -> Vec<Prompt> {
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments: Vec<Value> = arguments
                .iter()
                .map(|name| json!({ "name": name, "description": name, "required": true }))
                .collect();
            parsed(json!({
                "name": name,
                "description": "A conformance fixture.",
                "arguments": arguments,
            }))
        };
        vec![
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_input_required_result_prompt", &[]),
        ]
    }

    pub(super) fn prompt(
        &self,
        request: &GetPromptRequestParams,
    ) -> Option<Result<GetPromptResponse, ErrorData>> {
        let given = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
        };
        let messages = match request.name.as_str() {
            "test_simple_prompt" => json!([said("This is a simple prompt for testing.")]),
            "test_prompt_with_arguments" => {
                let (arg1, arg2) = (given("arg1"), given("arg2"));
                json!([said(&format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))])
            }
            "test_prompt_with_embedded_resource" => {
                let text = "Embedded resource content for testing.";
                let resource = embedded(given("resourceUri"), "text/plain", text);
                json!([
                    { "role": "user", "content": resource },
                    said("Please process the embedded resource above."),
                ])
            }
            "test_prompt_with_image" => json!([
                { "role": "user", "content": image() },
                said("Please analyze the image above."),
            ]),
            "test_input_required_result_prompt" => return Some(input::prompt(request)),
            _ => return None,
        };
        let result: GetPromptResult = parsed(json!({ "messages": messages }));
        Some(Ok(with_type(result).into()))
    }
}

/// Read from JSON, a prompt's result lacks the `resultType` that the modern era requires on every result.
fn with_type(result: GetPromptResult) -> GetPromptResult {
    GetPromptResult::new(result.messages)
}

const PLAIN_TOOLS: &[&str] = &[
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_missing_capability",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
];

fn tool(name: &'static str, schema: Value) -> Tool {
    let schema: JsonObject = parsed(schema);
    Tool::new(name, "A conformance fixture.", schema)
}

fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// A schema with the keywords that our own schemas avoid: a server must publish them as they are.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        }},
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// Two arguments that a modern client repeats as HTTP headers; the transport compares both.
fn schema_with_headers() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "priority": { "type": "integer", "x-mcp-header": "Priority" },
            "query": { "type": "string" },
        },
    })
}

/// Fixtures are written as JSON; one that does not fit its type fails on first use.
fn parsed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the fixture has the shape of its type")
}

fn text(text: &str) -> Called {
    content(json!([{ "type": "text", "text": text }]))
}

fn content(blocks: Value) -> Called {
    Ok(CallToolResult::success(parsed(blocks)).into())
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn embedded(uri: &str, mime_type: &str, text: &str) -> Value {
    let resource = json!({ "uri": uri, "mimeType": mime_type, "text": text });
    json!({ "type": "resource", "resource": resource })
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "content": { "type": "text", "text": text } })
}

/// Three log messages during the call. Logging belongs to the legacy era.
async fn with_logging(ctx: &Context) -> Called {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        let params = json!({ "level": "info", "data": message, "logger": "callboard" });
        let message = CustomNotification::new("notifications/message", Some(params));
        let notification = ServerNotification::CustomNotification(message);
        // A client that went away also stops this call.
        let _ = ctx.peer.send_notification(notification).await;
        tokio::time::sleep(STEP).await;
    }
    text("Logging test completed.")
}

/// Three reports, if the client asked for progress.
async fn with_progress(ctx: &Context) -> Called {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(token) = ctx.meta.get_progress_token() {
            let params = ProgressNotificationParam::new(token, progress).with_total(100.0);
            let _ = ctx.peer.notify_progress(params).await;
        }
        tokio::time::sleep(STEP).await;
    }
    text("Progress test completed.")
}

/// A call that a client without sampling gets refused, with the name of the missing capability.
fn needs_sampling(ctx: &Context) -> Called {
    let declared = ctx.client_capabilities().unwrap_or_default();
    if declared.sampling.is_some() {
        return text("The client can sample.");
    }
    let mut required = ClientCapabilities::default();
    required.sampling = Some(SamplingCapability::default());
    Err(ErrorData::missing_required_client_capability(required))
}
