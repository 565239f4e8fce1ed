//! Ids as people type them: a part of the text stands for a range.

use callboard_domain::ids::{Id, TaskId};

/// The ids whose text starts with these characters.
pub(crate) fn id_range(typed: &str) -> Option<(Id, Id)> {
    // The first of the 26 characters only goes up to 7: together they hold 130 bits.
    let (low, high) = ("0".repeat(26), format!("7{}", "z".repeat(25)));
    let fill = |with: &str| {
        let text = format!("X-{typed}{}", with.get(typed.len()..)?);
        text.parse::<TaskId>().ok().map(|task| task.id)
    };
    Some((fill(&low)?, fill(&high)?))
}
