//! The rows of the list of mail: who wrote, what about, and whether it was read.

use callboard_domain::crew::{Mail, MailId};
use callboard_domain::time::Timestamp;
use callboard_engine::store::MailSeen;
use callboard_engine::{MailBox, MailThread};
use maud::{Markup, html};

use super::Page;
use super::mail::{path_of, within};
use super::parts::{actor_named, age, avatar, empty, icon};

const EXCERPT_CHARS: usize = 200;

/// What stands in the place of rows.
pub(super) fn none(kind: MailBox, is_later: bool) -> Markup {
    let (title, words) = match (is_later, kind) {
        (true, _) => ("No older mail.", "The newest letters are on the first page."),
        (false, MailBox::All) => {
            ("No mail yet.", "Agents write to people with their mail tool; you can write first.")
        }
        (false, MailBox::Sent) => (
            "No letters to agents yet.",
            "Agents of the crew read their mail with their next step.",
        ),
        (false, MailBox::Unread) => ("No unread mail.", "All letters are in the box All."),
    };
    empty("mail", title, &html! { p { (words) } })
}

/// The row of a thread: its next letter.
pub(super) fn row(
    page: &Page,
    thread: &MailThread,
    kind: MailBox,
    chosen: Option<&[MailSeen]>,
    now: Timestamp,
) -> Markup {
    let MailSeen { mail, .. } = thread.next();
    let excerpt: String = mail.body.chars().take(EXCERPT_CHARS).collect();
    let is_here = chosen.is_some_and(|letters| letters.iter().any(|seen| seen.mail.id == mail.id));
    let unread: Vec<MailId> = thread
        .letters
        .iter()
        .filter(|seen| seen.mail.read_at.is_none() && seen.mail.to == page.inbox())
        .map(|seen| seen.mail.id)
        .collect();
    html! {
        li id={ "row-" (mail.id) } class=[is_here.then_some("is-chosen")] {
            (avatar(&writer(mail)))
            a.title.cover href=(within(&format!("/mail/{}", mail.id), kind)) data-row
                aria-current=[is_here.then_some("true")] { bdi { (mail.subject) } }
            (age(mail.created_at, now))
            p.excerpt {
                (read_mark(mail)) " " (who(mail))
                @if thread.letters.len() > 1 { ", " (thread.letters.len()) " letters" }
                " · " bdi { (excerpt) }
            }
            @if page.acts() && !unread.is_empty() { (read_form(&unread, path_of(kind), None)) }
        }
    }
}

/// A word, so that nothing depends on colour.
pub(super) fn read_mark(mail: &Mail) -> Markup {
    html! { @match mail.read_at {
        None => span.tone.is-now { "unread" },
        Some(_) => span.faint { "read" },
    } }
}

/// The actor that wrote a letter; people share one sign.
fn writer(mail: &Mail) -> String {
    match (&mail.from, &mail.to) {
        (Some(from), _) => format!("agent:{from}"),
        (None, Some(_)) => "human:people".into(),
        (None, None) => "system:server".into(),
    }
}

/// The writer in the words of a list; to whom, where people wrote.
fn who(mail: &Mail) -> Markup {
    html! { @match (&mail.from, &mail.to) {
        (Some(from), _) => bdi { (from) },
        (None, Some(to)) => { "people to " bdi { (to) } },
        (None, None) => "the server",
    } }
}

/// Marks these letters as read.
pub(super) fn read_form(mails: &[MailId], next: &str, key: Option<&str>) -> Markup {
    html! { @if let [first, others @ ..] = mails {
        form.above method="post" action={ "/mail/" (first) "/read" } {
            input type="hidden" name="next" value=(next);
            @if !others.is_empty() {
                input type="hidden" name="also" value=(others.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
            }
            @match key {
                Some(key) => button.button.button-small data-key=(key) { (icon("check")) "Mark as read" kbd { (key) } },
                // A row has no room for the words.
                None => button.button.button-small.button-bare aria-label="Mark as read" title="Mark as read" { (icon("check")) },
            }
        }
    } }
}

/// As `who`, with the sign of the writer.
pub(super) fn who_named(mail: &Mail) -> Markup {
    html! { @match (&mail.from, &mail.to) {
        (Some(from), _) => (actor_named(&format!("agent:{from}"))),
        (None, Some(to)) => span.row { "people to" (actor_named(&format!("agent:{to}"))) },
        (None, None) => span { "the server" },
    } }
}
