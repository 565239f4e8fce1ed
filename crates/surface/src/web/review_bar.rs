//! The bar that decides: progress, which changes are shown and how, and the three verdicts.

use callboard_domain::decide::MergeWaits;
use callboard_domain::policy::Phase;
use callboard_domain::rights::PersonVerb;
use callboard_engine::merge_message;
use callboard_engine::ports::WorkCommit;
use maud::{Markup, html};

use super::Page;
use super::parts::{icon, task_link};
use super::query::address;
use super::review::{ReviewAsked, Reviewing, short};
use super::review_panels::conflict_links;
use super::task_verbs::why_not;

pub(super) fn decide(page: &Page, reviewing: &Reviewing, asked: &ReviewAsked) -> Markup {
    let files = reviewing.files();
    let viewed = files.iter().filter(|(path, blob)| reviewing.is_viewed(path, *blob)).count();
    let share = viewed * 100 / files.len().max(1);
    let is_merged = reviewing.seen.merged_as().is_some();
    html! {
        div.decide {
            div.progress #viewed data-live { @if !is_merged {
                svg.meter role="img" aria-label={ (viewed) " of " (files.len()) " files viewed" } {
                    rect width={ (share) "%" } height="6" {}
                }
                span.number { (viewed) " of " (files.len()) " viewed" }
            } }
            @if !is_merged { (shown_changes(reviewing, asked)) }
            (shown_how(reviewing, asked))
            div.hints.faint aria-hidden="true" {
                span { kbd { "]" } " file" }
                @if !is_merged { span { kbd { "c" } " comment" } span { kbd { "v" } " viewed" } }
            }
            div.row.row-end #verdicts data-live data-waits {
                (verdicts(page, reviewing))
                // On a wide screen the link stands beside the place among the reviews.
                @if let Some(next) = &reviewing.place.next {
                    a.button.button-bare.only-narrow href={ "/tasks/" (next.name()) "/review" } title=(next.title) {
                        (icon("next")) span.hidden { "Next review" }
                    }
                }
            }
            (reasons(page, reviewing))
        }
    }
}

/// All changes, or those since the reader's last look.
fn shown_changes(reviewing: &Reviewing, asked: &ReviewAsked) -> Markup {
    let (here, since_last) = (reviewing.address(), asked.since == "last" && asked.range.is_empty());
    let since_commit = asked.since_commit() && asked.range.is_empty();
    let is_all = !since_last && !since_commit && asked.range.is_empty();
    let has_commits = reviewing.commits.iter().any(|commits| commits.len() > 2);
    let ways = [("view", &*asked.view), ("ws", &*asked.ws)];
    let ways: Vec<_> = ways.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    html! {
        @if reviewing.look.is_some() || since_commit || has_commits || reviewing.range.is_some() {
            nav.segments aria-label="Which changes" {
                a href={ (here) (address(&ways, &[])) } aria-current=[is_all.then_some("page")] { "All" }
                @if reviewing.look.is_some() {
                    a href={ (here) (address(&ways, &[("since", "last")])) } aria-current=[since_last.then_some("page")] {
                        "Since your last look"
                        @if let Some(files) = reviewing.since_look {
                            ": " (files) @if files == 1 { " file" } @else { " files" }
                        }
                    }
                }
                @if since_commit {
                    a href={ (here) (address(&ways, &[("since", &asked.since)])) } aria-current="page" { "Since " (short(&asked.since)) }
                }
                @if let Some((from, to)) = &reviewing.range {
                    a href={ (here) (address(&ways, &[("range", &asked.range)])) } aria-current="page" {
                        (short(from)) " to " (short(to))
                    }
                }
            }
            @if has_commits { (choose_range(reviewing, &ways)) }
        }
    }
}

/// The form that chooses two commits of the work. A range lies in one repository.
fn choose_range(reviewing: &Reviewing, ways: &[(&str, &str)]) -> Markup {
    let commits = || reviewing.commits.iter().flatten();
    let is_last = |id: &str| match &reviewing.range {
        Some((_, to)) => to == id,
        None => commits().next().is_some_and(|commit| commit.id == id),
    };
    let is_first = |id: &str| match &reviewing.range {
        Some((from, _)) => from == id,
        None => reviewing
            .commits
            .first()
            .and_then(|all| all.last())
            .is_some_and(|commit| commit.id == id),
    };
    let choice = |commit: &WorkCommit, is_chosen: bool| {
        html! {
            option value=(commit.id) selected[is_chosen] {
                (short(&commit.id)) " " @if commit.subject.is_empty() { "where the work begins" } @else { (commit.subject) }
            }
        }
    };
    html! {
        details.menu.verb {
            summary.button.button-bare.button-small { "Commits" }
            form.stack-tight action=(reviewing.address()) {
                @for (name, value) in ways { input type="hidden" name=(name) value=(value); }
                div.field.stack-tight {
                    label for="range-first" { "Changes after" }
                    select.input #range-first name="first" { @for commit in commits() { (choice(commit, is_first(&commit.id))) } }
                }
                div.field.stack-tight {
                    label for="range-last" { "up to" }
                    select.input #range-last name="last" {
                        @for commit in commits().filter(|commit| !commit.subject.is_empty()) { (choice(commit, is_last(&commit.id))) }
                    }
                }
                button.button.button-main { "Show these changes" }
            }
        }
    }
}

/// Spaces shown or not, one column or two.
fn shown_how(reviewing: &Reviewing, asked: &ReviewAsked) -> Markup {
    let here = reviewing.address();
    let with = |name: &str, value: &str| {
        let kept = asked.kept();
        let kept: Vec<_> = kept.into_iter().filter(|(known, _)| *known != name).collect();
        let mut more = vec![(name, value)];
        more.retain(|(_, value)| !value.is_empty());
        if !asked.file.is_empty() {
            more.push(("file", &asked.file));
        }
        format!("{here}{}", address(&kept, &more))
    };
    let (no_space, is_split) = (asked.ws == "0", asked.view == "split");
    html! {
        a.quiet href=(with("ws", if no_space { "" } else { "0" })) {
            @if no_space { "Show spaces" } @else { "Hide spaces" }
        }
        a.quiet.only-wide href=(with("view", if is_split { "" } else { "split" })) {
            @if is_split { "One column" } @else { "Side by side" }
        }
    }
}

/// A verdict that the reader may not give: the button stays.
fn denied(glyph: &str, words: &str, why: &str) -> Markup {
    html! { button.button disabled title=(why) { (icon(glyph)) (words) } }
}

/// Why the reader may not merge now: by right, or because the merge waits for people.
fn why_not_merge(page: &Page, reviewing: &Reviewing) -> Option<String> {
    why_not(page, PersonVerb::Merge).or_else(|| merge_waits(reviewing.waits))
}

/// Why the reader may not approve now: by right, or because checks wait for people, without which an approval is
/// refused.
fn why_not_approve(page: &Page, reviewing: &Reviewing) -> Option<String> {
    let checks = || checks_wait(reviewing.waits).map(|checks| format!("waits for {checks}"));
    why_not(page, PersonVerb::Approve).or_else(checks)
}

/// Which verdicts the reader has no right to, in words below the buttons. The panel of the merge says what a merge waits
/// for.
fn reasons(page: &Page, reviewing: &Reviewing) -> Markup {
    let acts = page.acts() && reviewing.task().phase == Phase::Review;
    let verbs = [
        ("Send back", why_not(page, PersonVerb::SendBack)),
        ("Approve", why_not(page, PersonVerb::Approve)),
        ("Merge", why_not(page, PersonVerb::Merge)),
    ];
    let denied = verbs.into_iter().filter(|_| acts).filter_map(|(word, why)| Some((word, why?)));
    html! {
        p.why.faint #reasons data-live { @for (word, why) in denied { span { (word) " " (why) ". " } } }
    }
}

fn verdicts(page: &Page, reviewing: &Reviewing) -> Markup {
    let task = reviewing.task();
    if task.phase != Phase::Review {
        let review = reviewing.seen.card.card.review.as_ref();
        let merged = review.and_then(|review| review.merge_commit.as_deref());
        return html! { span.soft { @match (task.phase.is_closed(), merged) {
            (true, Some(commit)) => { "Merged as " code { (short(commit)) } "." }
            (true, None) => "The task is closed.",
            (false, _) => "The agent is still at work.",
        } } };
    }
    if reviewing.merging.as_ref().is_some_and(|seen| seen.outcome.is_none()) {
        return html! { span.soft { "The merge runs; its steps stand above." } };
    }
    if !page.acts() {
        return html! { span.soft { "Sign in to decide: " code { "callboard open" } } };
    }
    let once = reviewing.marks(page);
    html! {
        @match why_not(page, PersonVerb::SendBack) {
            Some(why) => (denied("back", "Send back", &why)),
            None => (send_back(reviewing, &once)),
        }
        @if !reviewing.waits.is_approved {
            @match why_not_approve(page, reviewing) {
                Some(why) => (denied("check", "Approve", &why)),
                None => (approve(page, reviewing, &once)),
            }
        }
        @match why_not_merge(page, reviewing) {
            Some(why) => { (rebase(page, reviewing, &once)) (denied("merge", "Merge", &why)) }
            None => (merge(reviewing, &once)),
        }
    }
}

fn send_back(reviewing: &Reviewing, once: &Markup) -> Markup {
    let drafts = reviewing.drafts.len();
    html! {
        details.menu.verb #send-back {
            summary.button data-key="b" {
                (icon("back")) "Send back" @if drafts > 0 { span.tag.is-person { (drafts) } } kbd { "b" }
            }
            form.stack-tight method="post" action={ (reviewing.address()) "/reject" } {
                (once)
                div.field {
                    label for="reject-text" { "Your words to the agent" }
                    textarea.input #reject-text name="text" rows="4" required[drafts == 0] {}
                }
                @if drafts > 0 {
                    details open {
                        summary { "Goes along: " (drafts) @if drafts == 1 { " comment" } @else { " comments" } }
                        pre.code { (reviewing.preview) }
                    }
                }
                div.row {
                    button.button.button-main name="to" value="work" data-busy="Sending" { "Send back to work" kbd aria-hidden="true" { "Ctrl Enter" } }
                    button.button name="to" value="queue" { "Send to the queue" }
                }
            }
        }
    }
}

fn approve(page: &Page, reviewing: &Reviewing, once: &Markup) -> Markup {
    html! {
        details.menu.verb #approve {
            summary.button.button-main[reviewing.waits.for_approval()] data-key="a" { (icon("check")) "Approve" kbd { "a" } }
            form.stack-tight method="post" action={ (reviewing.address()) "/approve" } {
                (once)
                div.field {
                    label for="approve-text" { "A word about it, if you like" }
                    textarea.input #approve-text name="text" rows="2" {}
                }
                div.row {
                    button.button.button-main data-busy="Approving" { "Approve" }
                    @if why_not(page, PersonVerb::Merge).is_none() {
                        button.button name="merge" value="1" data-busy="Merging" { "Approve and merge" }
                    }
                }
            }
        }
    }
}

/// The way out of a conflict while the merge, which offers the rebase, is disabled.
fn rebase(page: &Page, reviewing: &Reviewing, once: &Markup) -> Markup {
    let has_conflict = !reviewing.seen.foresight().conflicts.is_empty();
    html! { @if has_conflict && why_not(page, PersonVerb::Rebase).is_none() {
        form method="post" action={ (reviewing.address()) "/rebase" } {
            (once) button.button data-busy="Rebasing" { "Rebase" }
        }
    } }
}

/// The branches that a merge goes to.
fn target(reviewing: &Reviewing) -> Markup {
    let parts = reviewing.changes.iter().flatten();
    let mut targets: Vec<&str> = parts.map(|part| &*part.part.target).collect();
    targets.dedup();
    html! {
        @for (n, target) in targets.iter().enumerate() { @if n > 0 { ", " } code { (target) } }
        @if targets.is_empty() { "the target" }
    }
}

/// The checks that wait for a person, in words.
fn checks_wait(waits: MergeWaits) -> Option<String> {
    match waits.checks {
        0 => None,
        1 => Some("1 check for a person".to_owned()),
        many => Some(format!("{many} checks for a person")),
    }
}

/// What a merge still waits for, in words.
fn merge_waits(waits: MergeWaits) -> Option<String> {
    let approval = waits.for_approval().then(|| "an approval".to_owned());
    let waits: Vec<String> = checks_wait(waits).into_iter().chain(approval).collect();
    (!waits.is_empty()).then(|| format!("waits for {}", waits.join(" and ")))
}

fn merge(reviewing: &Reviewing, once: &Markup) -> Markup {
    let has_conflict = !reviewing.seen.foresight().conflicts.is_empty();
    let has_commands = reviewing.task().checks.iter().any(|check| check.is_command());
    html! {
        details.menu.verb #merge {
            summary.button.button-main[!reviewing.waits.for_approval() && !has_conflict] data-key="m" { (icon("merge")) "Merge" kbd { "m" } }
            form.stack-tight method="post" action={ (reviewing.address()) "/merge" } {
                (once)
                @if has_conflict { p { "Conflicts in " (conflict_links(reviewing)) ". A rebase comes first." } }
                p {
                    "One commit goes to " (target(reviewing)) @if has_commands { ", after the checks pass on the merged files" } ":"
                }
                pre.code { (merge_message(&reviewing.seen.card.record)) }
                @if !reviewing.lets_start.is_empty() {
                    p.soft { "Then can start: " @for (n, task) in reviewing.lets_start.iter().enumerate() {
                        @if n > 0 { ", " } (task_link(task.name()))
                    } }
                }
                div.row {
                    @if has_conflict {
                        button.button.button-main data-busy="Rebasing" formaction={ (reviewing.address()) "/rebase" } { "Rebase first" }
                    }
                    button.button.button-main[!has_conflict] data-busy="Merging" { "Merge" }
                }
            }
        }
    }
}
