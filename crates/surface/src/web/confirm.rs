//! The confirmation of a verb that cannot be taken back: a native popover, which opens without a script. The popover says
//! what happens and what stays before its button does it.

use maud::{Markup, html};

use super::parts::icon;

/// A verb that asks once more.
pub(super) struct Confirm<'c> {
    /// The id of the popover; one for each on a page.
    pub id: &'c str,
    pub glyph: &'c str,
    /// The verb with its object: the words of both buttons and the title of the popover.
    pub verb: &'c str,
    /// What the button says once it is pressed.
    pub busy: &'c str,
    pub action: &'c str,
    /// Hidden fields of the form.
    pub fields: &'c [(&'c str, &'c str)],
    /// Whether the first button is a small one, for rows of a table.
    pub is_small: bool,
}

impl Confirm<'_> {
    /// The button that opens the popover, and the popover with what happens and what stays.
    pub fn shown(&self, words: &Markup) -> Markup {
        let title = format!("{}-title", self.id);
        let fields = html! {
            @for (name, value) in self.fields { input type="hidden" name=(name) value=(value); }
        };
        html! {
            button.button.button-bad.button-small[self.is_small] type="button" popovertarget=(self.id) {
                (icon(self.glyph)) (self.verb)
            }
            div.confirm #(self.id) popover role="dialog" aria-labelledby=(title) {
                div.popover-body.stack-tight {
                    h2 #(title) { (self.verb) "?" }
                    (words)
                    form.row method="post" action=(self.action) {
                        (fields)
                        button.button.button-bad data-busy=(self.busy) { (self.verb) }
                        button.button type="button" popovertarget=(self.id) popovertargetaction="hide" autofocus { "Keep as it is" }
                    }
                }
            }
        }
    }
}
