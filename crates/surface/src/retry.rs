//! Retry keys: a call with a key is carried out once, and its answer is kept and returned again.

use std::future::Future;

use callboard_engine::context::OpContext;
use callboard_engine::{Engine, EngineError};
use serde_json::Value;

use crate::tool::Tool;

/// A client's input for a tool: arguments of any type, and perhaps a key.
#[derive(Clone, Debug, Default)]
pub struct ToolRequest {
    pub arguments: Value,
    /// The key as it was sent; not judged yet.
    pub key: Option<Value>,
}

impl From<Value> for ToolRequest {
    fn from(arguments: Value) -> Self {
        Self { arguments, key: None }
    }
}

/// The kept answer of the first call with this key, else the answer of `work`. A refusal is not kept: nothing was done,
/// and the key may be tried again.
pub(crate) async fn once(
    engine: &Engine,
    op: &OpContext,
    tool: &Tool,
    work: impl Future<Output = Result<Value, EngineError>>,
) -> Result<Value, EngineError> {
    // A read with a key reads again: a kept answer would be an old one.
    if op.retry_key.is_none() || tool.hints.read_only {
        return work.await;
    }
    if let Some(kept) = engine.answer_find(op).await? {
        let broken = |error| EngineError::Internal(format!("a kept answer is not JSON: {error}"));
        return serde_json::from_str(&kept).map_err(broken);
    }
    let answer = work.await?;
    // Toolsets with an envelope refuse in an answer, and a refusal is not kept. Other answers have no such key.
    if answer["success"] != Value::Bool(false) {
        engine.answer_keep(op, &answer.to_string()).await;
    }
    Ok(answer)
}
