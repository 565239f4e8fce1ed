//! Decisions that an agent logs itself.

use callboard_domain::crew::DecisionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::envelope::Data;
use super::pipeline::AgentCall;
use callboard_engine::time::rfc3339_ms;

#[derive(Deserialize, JsonSchema)]
pub(super) struct LogDecision {
    title: String,
    body: String,
}

/// Logs a decision beside the lines that the pipeline writes for each call.
pub(super) async fn log_decision(call: &AgentCall<'_>, args: LogDecision) -> Data {
    // The id is stable over retries, so a decision is logged once.
    let (agent, decision) = (&call.agent.id, DecisionId(call.id(0)));
    let text = (args.title, args.body);
    let logged = call.engine.decision_log(call.op, agent, decision, text).await?;
    Ok(json!({"logId": logged.it, "timestamp": rfc3339_ms(logged.now)}))
}
