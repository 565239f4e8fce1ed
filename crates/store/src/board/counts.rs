//! Kept counts: how many tasks a project has in each state, and how many jobs for patches an org has. Triggers of the
//! migration `lists` change them in the transaction that changes a row. This file reads them and counts again for
//! `doctor`.

use std::collections::BTreeMap;

use callboard_domain::policy::Phase;

use crate::TasksByState;
use crate::table::{Cells, RowReader};

/// The state that a task `t` is counted as. The triggers have the same expression.
const STATE: &str = "CASE WHEN t.phase <> 'initial' THEN t.phase \
     WHEN t.open_deps > 0 OR t.blocked IS NOT NULL THEN 'blocked' \
     WHEN t.open_blockers > 0 THEN 'blocker' ELSE 'ready' END";

/// Counts that differ from the rows: the scope, and the name of the count.
pub(crate) fn wrong_sql() -> String {
    format!(
        "SELECT scope, list || ' ' || state FROM (
             SELECT list, scope, state, count AS many FROM list_counts
             UNION ALL SELECT CASE WHEN t.is_plan THEN 'plan' ELSE 'task' END, t.project, {STATE}, -1
                 FROM tasks t WHERE t.removed_at IS NULL
             UNION ALL SELECT 'run', j.org, j.state, -1 FROM jobs j WHERE j.kind = 'run') AS counted
         GROUP BY list, scope, state HAVING sum(many) <> 0 ORDER BY scope, 2"
    )
}

/// The counts of tasks and plans: project, list, state, count. Values: the org, and the project if there is one. The
/// `CROSS JOIN` makes SQLite begin at the projects.
pub(crate) fn tasks_sql(sign: char, of_project: bool) -> String {
    let project = if of_project { format!("AND j.id = {sign}2") } else { String::new() };
    format!(
        "SELECT j.id, c.list, c.state, CAST(sum(c.count) AS bigint) FROM projects j CROSS JOIN list_counts c \
         WHERE j.org = {sign}1 {project} AND c.list IN ('task', 'plan') AND c.scope = j.id \
         GROUP BY j.id, c.list, c.state"
    )
}

/// The counts of tasks of every org, without plans: state, count.
pub(crate) const EVERYWHERE: &str = "SELECT c.state, CAST(sum(c.count) AS bigint) FROM list_counts c \
     WHERE c.list = 'task' GROUP BY c.state";

/// The counts of jobs for patches: state, count. Values: the org.
pub(crate) fn runs_sql(sign: char) -> String {
    format!(
        "SELECT c.state, CAST(sum(c.count) AS bigint) FROM list_counts c \
         WHERE c.list = 'run' AND c.scope = {sign}1 GROUP BY c.state"
    )
}

/// The tasks and plans of some projects by phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PhaseCounts(pub BTreeMap<(i64, &'static str), u64>);

impl PhaseCounts {
    /// Adds one row of `tasks_sql`.
    pub fn add<R: Cells>(&mut self, row: &mut RowReader<'_, R>) -> Result<(), R::Error> {
        let (project, _list, state, many) = (row.int()?, row.text()?, row.text()?, row.int()?);
        let phase = Phase::parse(&state).unwrap_or(Phase::Initial);
        *self.0.entry((project, phase.as_str())).or_default() += many.max(0).unsigned_abs();
        Ok(())
    }

    /// The projects that have tasks of a phase, with their number.
    pub fn of(&self, phase: Phase) -> impl Iterator<Item = (i64, u64)> {
        let of_phase = move |((project, of), many): (&(i64, &'static str), &u64)| {
            (*of == phase.as_str() && *many > 0).then_some((*project, *many))
        };
        self.0.iter().filter_map(of_phase)
    }

    /// Takes one task out of the count.
    pub fn without(&mut self, project: i64, phase: Phase) {
        if let Some(many) = self.0.get_mut(&(project, phase.as_str())) {
            *many = many.saturating_sub(1);
        }
    }
}

impl TasksByState {
    /// Adds one row of `EVERYWHERE`.
    pub(crate) fn add<R: Cells>(&mut self, row: &mut RowReader<'_, R>) -> Result<(), R::Error> {
        let (state, many) = (row.text()?, row.int()?.max(0).unsigned_abs());
        let of_state = match Phase::parse(&state) {
            // A blocker comment leaves a task ready.
            Some(Phase::Initial) | None if state == "blocked" => &mut self.blocked,
            Some(Phase::Initial) | None => &mut self.ready,
            Some(Phase::Working) => &mut self.working,
            Some(Phase::Review) => &mut self.review,
            Some(Phase::ClosedDone) => &mut self.done,
            Some(Phase::ClosedCanceled) => &mut self.canceled,
        };
        *of_state += many;
        Ok(())
    }
}
