//! What happened to a task: notes, letters and events in one list, and the box to write in.

use callboard_domain::board::feed::{FeedLine, FeedShow, FeedSign};
use callboard_domain::rights::PersonVerb;
use callboard_domain::time::Timestamp;
use callboard_engine::FeedEntry;
use callboard_engine::store::MailSeen;
use maud::{Markup, html};

use super::Page;
use super::parts::{Choice, Tone, actor, age, ago, avatar, bare_name, icon, prose, tabs};
use super::query::address;
use super::task::TaskSeen;
use super::task_verbs::why_not;

/// The feed with its tabs. Each tab is a link.
pub(super) fn activity(seen: &TaskSeen) -> Markup {
    let (feed, asked) = (&seen.feed, &seen.asked);
    let here = format!("/tasks/{}", seen.task().name());
    let of = |show: FeedShow| match show {
        FeedShow::All => here.clone(),
        show => format!("{here}?show={}", show.as_str()),
    };
    let choice = |show: FeedShow, word| Choice {
        href: of(show),
        word,
        count: None,
        is_current: asked.show() == show,
    };
    let choices = [
        choice(FeedShow::All, "All"),
        choice(FeedShow::Notes, "Notes"),
        choice(FeedShow::Mail, "Mail"),
        choice(FeedShow::Events, "Events"),
    ];
    let older = feed.next.map(|next| {
        let next = next.to_string();
        let show = [("show", asked.show().as_str())];
        let kept = if asked.show() == FeedShow::All { &[][..] } else { &show[..] };
        format!("{here}{}#activity", address(kept, &[("before", &next)]))
    });
    html! {
        section.box #activity {
            div.box-head { h2 { "Activity" } span.row-end { (tabs("Which entries", choices)) } }
            @if asked.before().is_some() {
                p.box-body.faint { "Older entries. " a href={ (of(asked.show())) "#activity" } { "The newest" } }
            }
            @if feed.entries.is_empty() { p.box-body.soft { (nothing(asked.show())) } }
            ol.feed data-rows { @for entry in &feed.entries {
                @match entry {
                    FeedEntry::Line(line) => (item(line, seen.now)),
                    FeedEntry::Letter(letter) => (letter_item(letter, seen.now)),
                }
            } }
            @if let (Some(href), Some(next)) = (older, feed.next) {
                p.box-body { a href=(href) { "Older, below " (next) } }
            }
        }
    }
}

fn nothing(show: FeedShow) -> &'static str {
    match show {
        FeedShow::All | FeedShow::Events => "Nothing happened here.",
        FeedShow::Notes => {
            "No notes yet. People and agents leave them for whoever works on it next."
        }
        FeedShow::Mail => "No letters between its workers and you.",
    }
}

fn item(line: &FeedLine, now: Timestamp) -> Markup {
    let glyph = match line.sign {
        FeedSign::Actor => None,
        FeedSign::Passed => Some("pip-pass"),
        FeedSign::Failed => Some("failed"),
        FeedSign::Refused | FeedSign::Blocked => Some("lock"),
        FeedSign::Expired => Some("clock"),
        FeedSign::Asks => Some("ask"),
        FeedSign::Review => Some("review"),
        FeedSign::Merged => Some("merge"),
    };
    let tone = Tone::of(line.tone);
    html! {
        li #{ "event-" (line.seq) } {
            @match glyph {
                Some(glyph) => span class={ "glyph " (tone.class()) } { (icon(glyph)) },
                None => (avatar(line.who.as_str())),
            }
            span {
                b { bdi { (bare_name(line.who.as_str())) } } " " bdi { (line.words) }
                @if let Some(job) = line.job { " " a href={ "/jobs/" (job) } { "the run" } }
            }
            (age(line.at, now))
            @if let Some(text) = &line.said { div.feed-said { (prose(text)) } }
        }
    }
}

fn letter_item(letter: &MailSeen, now: Timestamp) -> Markup {
    let mail = &letter.mail;
    // A letter without a sender is from people, and a letter without a receiver is to people.
    let from = mail.from.as_ref().map(|from| from.actor());
    let name = from.as_ref().map_or("human:people", |from| from.as_str());
    html! {
        li #{ "mail-" (mail.id) } {
            (avatar(name))
            span {
                b { bdi { (bare_name(name)) } } " wrote to "
                @match &mail.to { Some(to) => bdi { (to.as_str()) }, None => "people" }
            }
            (age(mail.created_at, now))
            div.feed-said {
                p.row {
                    a href={ "/mail/" (mail.id) } { bdi { (mail.subject) } }
                    span.faint.row-end { @match mail.read_at {
                        Some(at) => { "read " (ago(at, now)) }
                        None => "unread",
                    } }
                }
                (prose(&mail.body))
            }
        }
    }
}

/// The box to write in: a message to the agent, or a note for everybody.
pub(super) fn write_box(page: &Page, seen: &TaskSeen) -> Markup {
    let task = seen.task();
    if !page.acts() || why_not(page, PersonVerb::Write).is_some() {
        return html! {};
    }
    let path = format!("/tasks/{}", task.name());
    let live = seen.card.record.newest.as_ref().filter(|attempt| attempt.is_live(seen.now));
    let holder = task.assignee.as_ref().or(live.map(|live| &live.actor));
    let has_agent = !task.is_plan && !task.phase.is_closed();
    html! {
        section.box aria-labelledby="write-title" {
            h2.box-head #write-title {
                @match holder.filter(|_| has_agent) {
                    Some(holder) => { "Write to " (actor(holder)) }
                    None if has_agent => "Write to its next agent",
                    None => "Write a note",
                }
            }
            form.box-body.stack-tight method="post" action={ (path) @if has_agent { "/tell" } @else { "/note" } } {
                input type="hidden" name="once" value=(page.engine.fresh_id());
                label.hidden for="write-text" { "Words" }
                textarea.input #write-text name="text" rows="3" required
                    placeholder=(if has_agent { "The agent reads this with its next step" } else { "A note stays with the task" }) {}
                div.row {
                    @if has_agent { button.button.button-main data-busy="Sending" { "Send" kbd aria-hidden="true" { "Ctrl Enter" } } }
                    button.button formaction={ (path) "/note" } data-busy="Keeping" {
                        @if has_agent { "Keep as a note only" } @else { "Add the note" }
                    }
                }
            }
        }
    }
}
