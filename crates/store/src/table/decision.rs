//! A crew's log of decisions.

use callboard_domain::crew::{AgentId, Decision, DecisionId};

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of a decision `d`.
pub(crate) const DECISION: &str = "d.id, d.agent, d.decision, d.reasoning, d.context, d.at";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Decision, R::Error> {
    Ok(Decision {
        id: DecisionId(row.id()?),
        agent: row.word("agent", AgentId::parse)?,
        decision: row.text()?,
        reasoning: row.text()?,
        context: row.text_if()?,
        at: row.time()?,
    })
}

table! {
    DECISIONS = "decisions";
    fn values(org: i64, decision: &'a Decision) {
        id: decision.id.0,
        org: org,
        agent: decision.agent.as_str(),
        decision: &decision.decision,
        reasoning: &decision.reasoning,
        context: &decision.context,
        at: decision.at,
    }
}
