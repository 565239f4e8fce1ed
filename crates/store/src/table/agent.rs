//! A crew's agents.

use callboard_domain::crew::{Agent, AgentId};
use callboard_domain::rights::AgentType;

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of an agent `a`, with its epic `e` and its task `t`.
pub(crate) const AGENT: &str = "a.id, a.type, a.epic, e.prefix, a.task, t.prefix, a.idle_since, \
     a.last_active_at, a.created_at, a.updated_at, a.failed_at";
pub(crate) const AGENT_FROM: &str = "crew_agents a LEFT JOIN tasks e ON e.id = a.epic \
     LEFT JOIN tasks t ON t.id = a.task";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Agent, R::Error> {
    Ok(Agent {
        id: row.word("agent", AgentId::parse)?,
        kind: row.word("type", AgentType::parse)?,
        epic: row.task_if()?,
        task: row.task_if()?,
        idle_since: row.time_if()?,
        last_active_at: row.time()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        failed_at: row.time_if()?,
    })
}

table! {
    AGENTS = "crew_agents";
    fn values(org: i64, agent: &'a Agent) {
        org: org,
        id: agent.id.as_str(),
        type: agent.kind.as_str(),
        epic: agent.epic,
        task: agent.task,
        // Set only while `task` is not: a CHECK of the table holds that an agent with a task is not idle.
        idle_since: agent.idle_since,
        last_active_at: agent.last_active_at,
        created_at: agent.created_at,
        updated_at: agent.updated_at,
        // Its last run ended without a result. Such a worker gets no task by itself, until it is assigned one.
        failed_at: agent.failed_at,
    }
}

table! {
    // The key alone, for the DELETE of an agent that left its crew. Its mail and decisions stay.
    AGENT_KEYS = "crew_agents";
    fn key_values(org: i64, id: &'a AgentId) {
        org: org,
        id: id.as_str(),
    }
}
