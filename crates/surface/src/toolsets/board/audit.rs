//! The event log, for administrators of the board.

use callboard_domain::board::audit::{AuditRow, Capability};
use callboard_domain::refusal::Refusal;
use callboard_engine::AuditFilter;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::envelope::Reply;
use crate::page::lean;
use crate::tool::Call;
use callboard_engine::time::rfc3339_us;

/// Events on a page without `limit`.
const TAIL_DEFAULT: u32 = 50;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Tail {
    #[serde(default)]
    #[schemars(schema_with = "parts")]
    capability: Option<Capability>,
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
    /// next_cursor of an earlier answer
    cursor: Option<String>,
}

/// The words of a capability. The domain's type has no schema of its own.
fn parts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": Capability::ALL.map(Capability::as_str)})
}

pub(super) async fn audit_tail(call: &Call<'_>, args: Tail) -> Reply {
    let filter = AuditFilter {
        capability: args.capability,
        before: args.cursor.as_deref().map(number).transpose()?,
        limit: args.limit.unwrap_or(TAIL_DEFAULT) as usize,
    };
    let page = call.engine.audit_tail(call.op, filter).await?;
    let events: Vec<Value> = page.rows.iter().map(event).collect();
    let count = events.len();
    let mut reply =
        json!({"events": events, "count": count, "next_cursor": page.next.map(event_id)});
    // Only a board with `retention.events_days` has this key: the last page is not the beginning then.
    if let Some(seq) = page.whole_from {
        reply["whole_from"] = event_id(seq).into();
    }
    Ok(reply)
}

/// The event's number in the log, in the reference's form.
fn event_id(seq: u64) -> String {
    format!("evt_{seq}")
}

fn number(cursor: &str) -> Result<u64, Refusal> {
    let number = cursor.trim().strip_prefix("evt_").and_then(|seq| seq.parse().ok());
    let words = "cursor must be the next_cursor of an earlier answer, like evt_7";
    number.ok_or_else(|| Refusal::invalid(words))
}

/// One line of the log; keys without a value are left out, `success` never.
fn event(row: &AuditRow) -> Value {
    let mut event = lean(json!({
        "event_id": event_id(row.seq),
        "occurred_at": rfc3339_us(row.at),
        "actor_type": row.actor.as_str().split(':').next(),
        "actor_id": row.actor,
        "capability": row.capability.as_str(),
        "command_name": row.command,
        "code": row.code,
        "task_id": row.task,
    }));
    event["success"] = row.success.into();
    event
}
