//! Plans.

use callboard_domain::actor::Actor;
use callboard_domain::board::plan::{Plan, PlanId, PlanState};
use callboard_domain::time::Timestamp;

use super::cell::table;
use super::{Cells, RowReader, json};

/// The columns of a plan `l`.
pub(crate) const PLAN: &str =
    "l.id, l.actor, l.at, l.tasks, l.todos, l.state, l.decided_at, l.decided_by, l.made";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Plan, R::Error> {
    Ok(Plan {
        id: PlanId(row.id()?),
        by: row.actor()?,
        at: row.time()?,
        tasks: row.json("tasks")?,
        todos: row.json("todos")?,
        state: match row.str()? {
            "draft" => PlanState::Draft,
            "rejected" => PlanState::Rejected { at: row.time()?, by: row.actor()? },
            // A CHECK of the table allows only these three words, and demands `made` for the approved ones.
            _ => {
                PlanState::Approved { at: row.time()?, by: row.actor()?, tasks: row.json("made")? }
            }
        },
    })
}

table! {
    PLANS = "plans";
    fn values(org: i64, plan: &'a Plan) {
        id: plan.id.0,
        org: org,
        actor: &plan.by,
        at: plan.at,
        tasks: json(&plan.tasks),
        // The planner's own steps, which become no tasks.
        todos: json(&plan.todos),
        state: plan.state.as_str(),
        decided_at: decided(&plan.state).map(|(at, _)| at),
        decided_by: decided(&plan.state).map(|(_, by)| by),
        made: made(&plan.state),
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 4] = ["state", "decided_at", "decided_by", "made"];

fn decided(state: &PlanState) -> Option<(Timestamp, &Actor)> {
    match state {
        PlanState::Draft => None,
        PlanState::Approved { at, by, .. } | PlanState::Rejected { at, by } => Some((*at, by)),
    }
}

/// The ids of the tasks that an approval created, as JSON.
fn made(state: &PlanState) -> Option<String> {
    match state {
        PlanState::Approved { tasks, .. } => Some(json(tasks)),
        PlanState::Draft | PlanState::Rejected { .. } => None,
    }
}
