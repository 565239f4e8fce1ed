//! The SQL that lists jobs, in every database.

use callboard_domain::runs::job::JobKind;

use crate::JobQuery;

/// The end of a SELECT of jobs: the conditions and the order of a query. Kinds and states are our own constants, so
/// they stand in the text.
pub(crate) fn listed(query: &JobQuery, org: &str, limit: &str) -> String {
    let kinds: Vec<&str> = query.kinds.iter().copied().map(JobKind::as_str).collect();
    let state = query.state.map(|state| format!(" AND j.state = '{state}'")).unwrap_or_default();
    let (which, order) = match query.is_over {
        true => ("j.ended_at IS NOT NULL", "j.ended_at DESC, j.id DESC"),
        false => ("j.due_at IS NOT NULL", "j.created_at, j.id"),
    };
    format!(
        "WHERE j.org = {org} AND {which} AND j.kind IN ('{}'){state} ORDER BY {order} LIMIT {limit}",
        kinds.join("', '")
    )
}
