//! The page of a review after a form that was refused: the reason, both versions, and one button to go on.

use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::actor::Actor;
use callboard_domain::board::card::ReviewState;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::time::Timestamp;
use callboard_engine::EngineError;
use maud::{Markup, html};

use super::parts::{Tone, actor, ago, note};
use super::review::{ReviewAsked, Reviewing, short, shown};
use super::review_verbs::ReviewForm;
use super::{Page, said};

/// The page again with the reason why nothing changed.
pub(super) async fn refused(
    page: &Page,
    id: TaskId,
    (verb, form): (&str, &ReviewForm),
    error: &EngineError,
) -> Response {
    let mut asked = ReviewAsked::of_form(verb, form);
    match error {
        EngineError::Refused(Refusal::ReviewDecided { saw, now, .. }) => {
            let note =
                |reviewing: &Reviewing| Some(decided(page, reviewing, (verb, form), (*saw, now)));
            shown(page, id, &asked, StatusCode::CONFLICT, note).await
        }
        EngineError::Refused(Refusal::WorkMoved { read, now, .. }) => {
            (asked.range, asked.file) = (String::new(), String::new());
            (asked.from, asked.since) = (None, read.clone());
            let heads = (read.as_str(), now.as_deref());
            let note = |reviewing: &Reviewing| Some(moved(page, reviewing, (verb, form), heads));
            shown(page, id, &asked, StatusCode::CONFLICT, note).await
        }
        _ => {
            let (status, words) = said(error);
            let untouched = if is_merge(verb, form) { "published" } else { "changed" };
            let words = html! {
                p role="alert" { (words.trim_end_matches('.')) ". Nothing was " (untouched) "." }
                @if !form.text.is_empty() && asked.words.is_empty() { pre.code { (form.text) } }
            };
            shown(page, id, &asked, status, |_| Some(note(Tone::Failed, "warn", &words))).await
        }
    }
}

/// Whether a form asked for a merge.
fn is_merge(verb: &str, form: &ReviewForm) -> bool {
    verb == "merge" || (verb == "approve" && !form.merge.is_empty())
}

/// Which verdict the reader saw, which one stands now, and one button to go on.
fn decided(
    page: &Page,
    reviewing: &Reviewing,
    form: (&str, &ReviewForm),
    (saw, now): (ReviewState, &Option<(ReviewState, Actor, Timestamp)>),
) -> Markup {
    let before = match saw {
        ReviewState::Requested => "no verdict",
        ReviewState::Approved => "an approval",
        ReviewState::Rejected => "a rejection",
    };
    let words = html! {
        p role="alert" {
            "Nothing was changed: the review that you opened had " (before) ". "
            @match now {
                Some((ReviewState::Approved, by, at)) => { (actor(by)) " approved it " (ago(*at, reviewing.now)) "." }
                Some((ReviewState::Rejected, by, at)) => { (actor(by)) " sent it back " (ago(*at, reviewing.now)) "." }
                Some((ReviewState::Requested, by, at)) => { (actor(by)) " requested a new review " (ago(*at, reviewing.now)) "." }
                None => "The verdict was withdrawn since.",
            }
        }
        (go_on(page, reviewing, form))
    };
    note(Tone::Late, "warn", &words)
}

/// Which head the reader read, which one stands now, and one button to go on. The diff below begins at the head that
/// was read.
fn moved(
    page: &Page,
    reviewing: &Reviewing,
    form: (&str, &ReviewForm),
    (read, now): (&str, Option<&str>),
) -> Markup {
    let words = html! {
        p role="alert" {
            "Nothing was changed: you read commit " code { (short(read)) } ". "
            @match now {
                Some(now) if now == read => "Files changed since, and the changes are not committed.",
                Some(now) => { "The work is at commit " code { (short(now)) } " now." }
                None => "The work cannot be read now.",
            }
            @if now.is_some() { " Below stands what is new; " a href=(reviewing.address()) { "show all of it" } "." }
        }
        (go_on(page, reviewing, form))
    };
    note(Tone::Late, "warn", &words)
}

/// The form that was refused, once more for the review as it stands now. The words of the form are kept.
fn go_on(page: &Page, reviewing: &Reviewing, (verb, form): (&str, &ReviewForm)) -> Markup {
    let button = match verb {
        "approve" if form.merge.is_empty() => "Approve all the same",
        "approve" => "Approve and merge all the same",
        "reject" => "Send back all the same",
        _ => "Merge all the same",
    };
    let again = reviewing.task().phase == Phase::Review;
    html! {
        @if !form.text.is_empty() && !again { pre.code { (form.text) } }
        @if again {
            form method="post" action={ (reviewing.address()) "/" (verb) } {
                (reviewing.marks(page))
                @for (name, value) in [("text", &form.text), ("to", &form.to), ("merge", &form.merge)] {
                    @if !value.is_empty() { input type="hidden" name=(name) value=(value); }
                }
                button.button { (button) }
            }
        } @else {
            p { a.button href=(reviewing.address()) { "Go on with the review as it stands" } }
        }
    }
}
