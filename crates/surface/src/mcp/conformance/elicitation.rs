//! Fixtures of the legacy era that ask the client back in the middle of a call.

use rmcp::model::{CustomRequest, JsonObject, ServerRequest};
use serde_json::{Value, json};

use super::{Called, Context, text};

/// Asks the client's model.
pub(super) async fn sampling(arguments: &JsonObject, ctx: &Context) -> Called {
    let prompt = arguments.get("prompt").cloned().unwrap_or_default();
    let said = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    let params = json!({ "messages": [said], "maxTokens": 100 });
    let answer = ask(ctx, "sampling/createMessage", params).await;
    let words = answer.pointer("/content/text").and_then(Value::as_str).unwrap_or_default();
    text(&format!("LLM response: {words}"))
}

/// Asks the user to fill in a form.
pub(super) async fn message(arguments: &JsonObject, ctx: &Context) -> Called {
    let schema = json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    });
    let message = arguments.get("message").cloned().unwrap_or_default();
    let answer = elicit(ctx, message, schema).await;
    text(&format!("User response: {answer}"))
}

/// SEP-1034: a form may have a default for each kind of field.
pub(super) async fn defaults(ctx: &Context) -> Called {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": { "type": "boolean", "default": true },
        },
    });
    let answer = elicit(ctx, json!("All of these have defaults."), schema).await;
    text(&format!("Elicitation completed: {answer}"))
}

/// SEP-1330: the five ways to offer a choice.
pub(super) async fn enums(ctx: &Context) -> Called {
    let schema = json!({
        "type": "object",
        "properties": {
            "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
            "titledSingle": { "type": "string", "oneOf": titled("Option") },
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {
                "type": "array",
                "items": { "type": "string", "enum": ["option1", "option2", "option3"] },
            },
            "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
        },
    });
    let answer = elicit(ctx, json!("Choose."), schema).await;
    text(&format!("Elicitation completed: {answer}"))
}

fn titled(word: &str) -> Value {
    json!([
        { "const": "value1", "title": format!("First {word}") },
        { "const": "value2", "title": format!("Second {word}") },
        { "const": "value3", "title": format!("Third {word}") },
    ])
}

async fn elicit(ctx: &Context, message: Value, schema: Value) -> Value {
    let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
    ask(ctx, "elicitation/create", params).await
}

/// The client's answer as it came; a refusal is part of the test's text.
async fn ask(ctx: &Context, method: &str, params: Value) -> Value {
    // A custom request: the schemas are the suite's, and no type of the SDK has to fit them.
    let request = ServerRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    match ctx.peer.send_request(request).await {
        Ok(answer) => serde_json::to_value(answer).unwrap_or_default(),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
