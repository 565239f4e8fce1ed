//! Fixtures of the modern era that answer `input_required` and finish when the client comes back.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, GetPromptResponse, InputRequiredResult,
    InputResponses,
};
use serde_json::{Map, Value, json};

use super::{Called, Context, parsed, said, text, with_type};

pub(super) const TOOLS: &[&str] = &[
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_streaming_elicitation",
];

/// `None` for a tool that is not one of these.
pub(super) fn call(request: &CallToolRequestParams, ctx: &Context) -> Option<Called> {
    let given = request.input_responses.as_ref();
    // The modern era keeps no state on the server: the client sends back what it was given.
    let state = request.request_state.as_deref();
    Some(match request.name.as_ref() {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            match answer(given, "user_name", "name") {
                Some(name) => text(&format!("Hello, {name}!")),
                None => {
                    ask(json!({ "user_name": asked("What is your name?", "name", "string") }), None)
                }
            }
        }
        "test_input_required_result_sampling" => match object(given, "capital_question") {
            Some(answer) => text(&Value::Object(answer.clone()).to_string()),
            None => {
                ask(json!({ "capital_question": sample("What is the capital of France?") }), None)
            }
        },
        "test_input_required_result_list_roots" => match object(given, "client_roots") {
            Some(roots) => text(&Value::Object(roots.clone()).to_string()),
            None => ask(json!({ "client_roots": roots() }), None),
        },
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => confirm(given, state),
        "test_input_required_result_multiple_inputs" => several(given, state),
        "test_input_required_result_multi_round" => rounds(given, state),
        "test_input_required_result_capabilities" => only_declared(ctx),
        _ => return None,
    })
}

/// A prompt that needs an answer before it has its text.
pub(super) fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    match answer(request.input_responses.as_ref(), "user_context", "context") {
        Some(context) => {
            let message = said(&format!("Use this context: {context}"));
            Ok(with_type(parsed(json!({ "messages": [message] }))).into())
        }
        None => {
            let question = asked("What context should the prompt use?", "context", "string");
            Ok(required(json!({ "user_context": question }), None).into())
        }
    }
}

/// One question with a state. The suite also sends a state that this server did not make, which is refused.
fn confirm(given: Option<&InputResponses>, state: Option<&str>) -> Called {
    const STATE: &str = "callboard-conformance-confirm";
    match (given, state) {
        (None, None) => {
            ask(json!({ "confirm": asked("Please confirm", "ok", "boolean") }), Some(STATE))
        }
        (_, Some(STATE)) if object(given, "confirm").is_some() => text("state-ok"),
        (_, _) => Err(bad_state()),
    }
}

/// Three questions at once; until all are answered, all are asked again.
fn several(given: Option<&InputResponses>, state: Option<&str>) -> Called {
    const STATE: &str = "callboard-conformance-several";
    let all = ["user_name", "greeting", "client_roots"];
    if state == Some(STATE) && all.iter().all(|key| object(given, key).is_some()) {
        return text("All inputs received.");
    }
    let requests = json!({
        "user_name": asked("What is your name?", "name", "string"),
        "greeting": sample("Generate a greeting"),
        "client_roots": roots(),
    });
    ask(requests, Some(STATE))
}

/// Two questions, one after the other. The state says which round an answer belongs to.
fn rounds(given: Option<&InputResponses>, state: Option<&str>) -> Called {
    const FIRST: &str = "callboard-conformance-round-1";
    const SECOND: &str = "callboard-conformance-round-2";
    match state {
        None => ask(
            json!({ "step1": asked("Step 1: What is your name?", "name", "string") }),
            Some(FIRST),
        ),
        Some(FIRST) if object(given, "step1").is_some() => ask(
            json!({ "step2": asked("Step 2: What is your favorite color?", "color", "string") }),
            Some(SECOND),
        ),
        Some(SECOND) if object(given, "step2").is_some() => text("Both steps are done."),
        Some(_) => Err(bad_state()),
    }
}

/// A server may ask only for what the client says it can do.
fn only_declared(ctx: &Context) -> Called {
    let declared = ctx.client_capabilities().unwrap_or_default();
    let mut requests = Map::new();
    if declared.elicitation.is_some() {
        requests.insert("user_name".into(), asked("What is your name?", "name", "string"));
    }
    if declared.sampling.is_some() {
        requests.insert("greeting".into(), sample("Generate a greeting"));
    }
    if requests.is_empty() {
        return text("The client can give no input.");
    }
    ask(Value::Object(requests), None)
}

fn ask(requests: Value, state: Option<&str>) -> Called {
    Ok(required(requests, state).into())
}

fn required(requests: Value, state: Option<&str>) -> InputRequiredResult {
    InputRequiredResult::new(Some(parsed(requests)), state.map(String::from))
}

/// The refusal of a state that was tampered with.
fn bad_state() -> ErrorData {
    ErrorData::invalid_params("requestState was not made by this server", None)
}

/// The client's response under `key`, if it is an object.
fn object<'a>(given: Option<&'a InputResponses>, key: &str) -> Option<&'a Map<String, Value>> {
    given?.get(key)?.as_object()
}

/// The text of one field of an accepted form.
pub(super) fn answer<'a>(
    given: Option<&'a InputResponses>,
    key: &str,
    field: &str,
) -> Option<&'a str> {
    object(given, key)?.get("content")?.get(field)?.as_str()
}

/// A form with one required field.
pub(super) fn asked(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": { field: { "type": kind } },
                "required": [field],
            },
        },
    })
}

fn sample(question: &str) -> Value {
    let said = json!({ "role": "user", "content": { "type": "text", "text": question } });
    let params = json!({ "messages": [said], "maxTokens": 100 });
    json!({ "method": "sampling/createMessage", "params": params })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}
