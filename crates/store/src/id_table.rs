//! The table of each kind of id, in both databases.

use callboard_domain::ids::IdKind;

pub(crate) fn id_table(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Decision => "decisions",
        IdKind::Knowledge => "knowledge",
        IdKind::Job => "jobs",
        IdKind::Mail => "mails",
        IdKind::Plan => "plans",
    }
}
