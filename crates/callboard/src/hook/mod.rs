//! `callboard hook`: what clients' hooks call at moments of an agent's session. It reads the client's message, asks the
//! board, lets `domain` decide, and answers in the client's shape.
//!
//! A hook must never stand in an agent's way for a fault of its own: whatever fails here is silence. It says nothing of
//! a store that the user does not trust, because its texts would reach the agent as instructions.

mod facts;
mod guest;
mod input;
mod session;
mod shapes;

use callboard_domain::actor::Actor;
use callboard_domain::hook::{HookAnswer, HookEvent, answer};
use serde_json::Value;

pub use session::ClientNote;
pub use shapes::ClientShape;

use crate::compose::App;
use crate::config::{FlagValue, Resolved, Settings};
use crate::identity;
use crate::output::Failure;
use crate::place::Place;
use facts::HookBoard;
use session::{HookMemory, actor_of_client};

/// Stands for a client whose actor is not known yet; it never acts.
const NEW_ACTOR: &str = "agent:new";

/// The text for the client; `None` to print nothing.
pub async fn hook(
    shape: &ClientShape,
    event: HookEvent,
    message: &Value,
    org: &str,
    named: Option<Actor>,
) -> Result<Option<String>, Failure> {
    let input = shape.read(message);
    if let Some(cwd) = &input.cwd {
        // A client may run its hooks elsewhere. A folder that is gone leaves the one of this process.
        let _ = std::env::set_current_dir(cwd);
    }
    if event == HookEvent::BeforeEdit && input.edits.is_empty() {
        return Ok(None);
    }
    let Some(place) = Place::find()? else { return Ok(None) };
    if guest::has_own_hooks(shape, message, &place) {
        return Ok(None);
    }
    let known = named.or_else(|| actor_of_client(&place));
    // A session may start before its MCP server: an actor that holds nothing is told the next task.
    let unnamed = (event == HookEvent::SessionStart).then(|| NEW_ACTOR.parse().ok()).flatten();
    let Some(actor) = known.or(unnamed) else { return Ok(None) };
    let mut memory = HookMemory::read(&place, &actor);
    if event == HookEvent::AfterTool && !memory.is_due() {
        return Ok(None);
    }
    // A model takes longer to load than a hook may take.
    let quick = FlagValue { flag: "hook", key: "knowledge.embedder", value: "off".into() };
    let settings = Settings::of(&Resolved::read(Some(&place), &[quick])?)?;
    let app = App::open(&settings, Some(&place), org).await?;
    if !app.is_trusted {
        return Ok(None);
    }
    let principal = identity::Connection {
        org: org.to_owned(),
        rights: callboard_domain::rights::Rights::default(),
        client: None,
    }
    .principal(actor.clone());
    let board = HookBoard { engine: &app.engine, principal: &principal, root: &place.root };
    let remembered = memory.clone();
    let mut facts = board.facts(event, &input, &mut memory).await?;
    facts.requires_claim = settings.hooks_require_claim;
    if memory != remembered {
        memory.write(&place, &actor).map_err(|error| Failure::io("cannot remember", &error))?;
    }
    let answered: HookAnswer = answer(event, &facts);
    Ok(shape.write(event, &answered))
}
