//! The conflict of one file, above the changes: a person decides from it whether to rebase or to send the work back.

use callboard_engine::ConflictSeen;
use maud::{Markup, html};

use super::diff;
use super::query::address;
use super::review::Reviewing;

/// The page with the conflict of this file.
pub(super) fn conflict_address(reviewing: &Reviewing, path: &str) -> String {
    format!("{}{}#conflict", reviewing.address(), address(&[], &[("conflict", path)]))
}

/// The conflict that the reader asked for.
pub(super) fn conflict_of(reviewing: &Reviewing) -> Markup {
    html! { @if let Some((path, met)) = &reviewing.conflict {
        div.pad-top {
            section.file #conflict {
                div.box-head {
                    h2 { "Conflict in " bdi.mono { (path) } }
                    a.row-end href=(reviewing.address()) { "Close" }
                }
                @match met {
                    None => p.limit { "A merge meets no conflict in this file now." },
                    Some(ConflictSeen { conflict: Err(fault), .. }) => p.limit { "git: " (fault) },
                    Some(ConflictSeen { target, conflict: Ok(found), .. }) => (diff::conflict(path, target, found)),
                }
            }
        }
    } }
}
