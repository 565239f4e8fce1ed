//! The table of each kind of id, in both databases.

use callboard_domain::ids::IdKind;

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
