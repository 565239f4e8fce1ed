//! The form that edits a task.

use maud::{Markup, html};

use super::task::TaskSeen;
use super::task_verbs::check_lines;

/// The form that edits a task.
pub(super) fn edit(seen: &TaskSeen) -> Markup {
    let task = seen.task();
    html! {
        form.stack method="post" action={ "/tasks/" (task.name()) "/edit" } {
            div.field {
                label for="edit-title" { "Title" }
                input.input #edit-title name="title" required maxlength="500" value=(task.title);
            }
            div.field {
                label for="edit-body" { "Intent" }
                textarea.input #edit-body name="body" rows="6" { (seen.card.record.body) }
            }
            div.field {
                label for="edit-checks" { "Checks, one a line" }
                textarea.input #edit-checks name="checks" rows="3" { (check_lines(&task.checks)) }
                p.faint { "Changed checks start without a result." }
            }
            div.field {
                label for="edit-priority" { "Priority, 0 to 1000; smaller comes first" }
                input.input #edit-priority name="priority" type="number" min="0" max="1000" value=(task.priority);
            }
            div { button.button.button-main data-busy="Saving" { "Save" } }
        }
    }
}
