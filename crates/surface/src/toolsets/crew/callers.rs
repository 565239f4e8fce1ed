//! The callers of this toolset: agents of a crew. The type that the store has on record decides which tools an agent
//! sees.

use async_trait::async_trait;
use callboard_domain::crew::AgentId;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::AgentType;
use callboard_engine::Engine;
use callboard_engine::context::{OpContext, Principal};
use serde_json::Value;

use super::permission::{is_for, may_call};
use super::{envelope, words};
use crate::hooks::Callers;

pub(super) struct Agents;

#[async_trait]
impl Callers for Agents {
    async fn on_record(&self, engine: &Engine, mut principal: Principal) -> Principal {
        let op = OpContext::new(principal.clone(), "tools");
        match engine.agent_find(&op, &AgentId::of(&principal.actor)).await {
            Ok(Some(agent)) => principal.rights.agent_type = Some(agent.kind),
            Ok(None) => {}
            // The list is then made from the connection's own type; each call is judged by the store anyway.
            Err(error) => tracing::warn!(%error, "cannot find out which tools an agent may call"),
        }
        principal
    }

    /// The patterns of the agent's type allow the tool, and the tool would not refuse that type.
    fn see(&self, principal: &Principal, tool: &str) -> bool {
        let is_shown = |kind: AgentType| may_call(kind, tool) && is_for(kind, tool);
        principal.rights.agent_type.is_some_and(is_shown)
    }

    fn refused(&self, engine: &Engine, refusal: &Refusal) -> Value {
        envelope::no(&words::said(refusal), engine.now())
    }
}
