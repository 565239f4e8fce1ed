//! Finding rows by a part of their id, in both databases: the table of each kind of id, and the statements for prefixes.

use callboard_domain::ids::{IdKind, TaskId};

use crate::skip::each_once;

/// Each of these tables has the columns `id` and `org`, so one query shape finds the ids of every kind.
pub(crate) fn id_table(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Decision => "decisions",
        IdKind::Knowledge => "knowledge",
        IdKind::Job => "jobs",
        IdKind::Mail => "mails",
        IdKind::Plan => "plans",
    }
}

/// The end of an id has no index, so the newest ids are compared. The bound keeps the cost of a typo known.
pub(crate) const ENDS_SEARCHED: i64 = 10_000;

/// The prefixes of an org's tasks: they are few, their tasks are many. Values: the org.
pub(crate) fn prefixes_sql(sign: char) -> String {
    let index = by_number(sign);
    each_once("t.prefix", &format!("FROM tasks t {index} WHERE t.org = {sign}1"))
}

/// The newest tasks with a prefix. Values: the org, the prefix, the limit.
pub(crate) fn of_prefix_sql(sign: char) -> String {
    format!(
        "SELECT t.id, t.prefix FROM tasks t {} \
         WHERE t.org = {sign}1 AND t.prefix = {sign}2 AND t.removed_at IS NULL \
         ORDER BY t.number DESC LIMIT {sign}3",
        by_number(sign)
    )
}

/// SQLite would begin at another index of the org.
fn by_number(sign: char) -> &'static str {
    if sign == '?' { "INDEXED BY tasks_by_number" } else { "" }
}

pub(crate) fn begins_with(prefix: &str, typed: &str) -> bool {
    prefix.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
}

pub(crate) fn newest_first(mut found: Vec<TaskId>, limit: usize) -> Vec<TaskId> {
    found.sort_by_key(|task| std::cmp::Reverse(task.id));
    found.truncate(limit);
    found
}
