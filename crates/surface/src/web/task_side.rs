//! What stands beside a task: what it waits for and lets start, its attempts, what was learned, and its details. For an
//! epic also its tasks.

use callboard_domain::board::card::Mode;
use callboard_domain::board::plan::PlannedPriority;
use callboard_domain::knowledge::KnowledgeEntry;
use callboard_domain::task::Task;
use callboard_domain::task::attempt::{Attempt, AttemptKind};
use callboard_engine::{CardSeen, EpicTask};
use maud::{Markup, html};

use super::Page;
use super::parts::{State, actor, actor_named, ago, icon, outcome, tag, title_link};
use super::query::address;
use super::task::TaskSeen;

pub(super) fn side(page: &Page, seen: &TaskSeen) -> Markup {
    let attempts = seen.attempts.len();
    html! {
        @if attempts > 0 {
            section.box {
                h2.box-head { "Attempts " span.faint { (attempts) } }
                ul.lines { @for attempt in seen.attempts.iter().rev() { (attempt_line(seen, attempt)) } }
            }
        }
        (waits_for(page, seen))
        @if !seen.waiters.is_empty() {
            section.box {
                h2.box-head { @if seen.task().phase.is_closed() { "Let start" } @else { "Lets start" } }
                ul.lines { @for task in &seen.waiters { li.row {
                    (State::of(task).mark()) (title_link(task)) span.id { (task.name()) }
                    @if task.open_deps > 1 { span.faint { "waits for " (task.open_deps - 1) " more" } }
                } } }
            }
        }
        (details(seen))
        (learned(seen))
    }
}

fn waits_for(page: &Page, seen: &TaskSeen) -> Markup {
    let task = seen.task();
    html! {
        section.box {
            div.box-head {
                h2 { "Waits for" }
                a.row-end href={ "/graph?around=" (task.name()) } { "Graph" }
            }
            @if seen.deps.is_empty() { p.box-body.soft { "No other task." } }
            ul.lines { @for dep in &seen.deps { li.row {
                (State::of(dep).mark()) (title_link(dep)) span.id { (dep.name()) }
                span.faint { (State::of(dep).word().to_lowercase()) ", " (ago(dep.phase_at, seen.now)) }
                @if page.acts() && !task.phase.is_closed() {
                    form.row-end method="post" action={ "/tasks/" (task.name()) "/undep" } {
                        input type="hidden" name="dep" value=(dep.id);
                        button.button.button-bare.button-small aria-label="Remove this dependency" { (icon("cross")) }
                    }
                }
            } } }
        }
    }
}

fn attempt_line(seen: &TaskSeen, attempt: &Attempt) -> Markup {
    let (tone, word) = outcome(attempt, seen.now);
    // The token of a run is the one of its attempt.
    let run = seen.runs.iter().find(|run| run.run.fence == attempt.fence);
    let run = run.filter(|_| attempt.kind == AttemptKind::Job);
    html! {
        li {
            div.row { (actor(&attempt.actor)) (tag(tone, word)) span.faint.row-end { (ago(attempt.started_at, seen.now)) } }
            p.faint {
                (attempt.kind.as_str()) ", fence " (attempt.fence)
                @if let Some(model) = &attempt.model { ", " bdi { (model) } }
                @if let Some(run) = run { ", " a href={ "/jobs/" (run.job.id) } { "its run" } }
            }
        }
    }
}

fn details(seen: &TaskSeen) -> Markup {
    let CardSeen { record, card } = &seen.card;
    let task = &record.task;
    let attempt = record.newest.as_ref();
    let branch = card.branch.as_ref().or(attempt.and_then(|attempt| attempt.branch.as_ref()));
    html! {
        section.box {
            h2.box-head { "Details" }
            dl.facts.box-body {
                dt { "Id" } dd { code { (task.id) } }
                dt { "Status" } dd { (task.label) ", phase " (task.phase.as_str()) }
                dt { "Priority" } dd {
                    (task.priority) ", " (PlannedPriority::near(task.priority).word())
                    @if task.priority == 0 { " " span.urgent { "P0" } }
                }
                dt { "Worked on" } dd { (match card.mode { Mode::Auto => "by an agent alone", Mode::Pair => "with a person" }) }
                @if let Some(agent) = &card.agent { dt { "Agent" } dd { (agent) } }
                @if let Some(branch) = branch { dt { "Branch" } dd { code { (branch) } } }
                @if let Some(base) = &card.base_branch { dt { "Into" } dd { code { (base) } } }
                @if let Some(folder) = attempt.and_then(|attempt| attempt.worktree.as_ref()) { dt { "Worktree" } dd { code { (folder) } } }
                @for pull in &seen.pulls {
                    dt { "Pull request" } dd { (pull.status) ", " bdi { (pull.url) } }
                }
                dt { "Closing" } dd { (closing(task)) }
                @if let Some(words) = &record.execution_contract { dt { "Contract" } dd { bdi { (words) } } }
                dt { "Made" } dd { (ago(task.created_at, seen.now)) @if let Some(by) = &card.created_by { " by " (by) } }
                dt { "Changed" } dd { (ago(task.updated_at, seen.now)) }
            }
        }
    }
}

/// What gates the end of a task, in words.
fn closing(task: &Task) -> String {
    let checks = match task.checks.len() {
        0 => "no check gates it".to_owned(),
        1 => "1 check passes".to_owned(),
        many => format!("{many} checks pass"),
    };
    match &task.contract {
        Some(contract) if contract.kind.gates_done() => {
            format!("{checks}; contract {}", contract.kind.as_str())
        }
        _ => checks,
    }
}

/// The knowledge that a worker gets with the task, and the entries that the work brought.
fn learned(seen: &TaskSeen) -> Markup {
    let line = |entry: &KnowledgeEntry, words: Markup| {
        html! {
            li {
                a href={ "/knowledge" (address(&[], &[("q", &entry.title)])) } { bdi { (entry.title) } }
                p.faint { (words) }
            }
        }
    };
    html! {
        @if !seen.given.is_empty() {
            section.box {
                h2.box-head { "Given with it " span.faint { (seen.given.len()) } }
                ul.lines { @for hit in &seen.given {
                    (line(&hit.entry, html! { (format!("{:.2}", hit.score)) ", from " (actor_named(hit.entry.created_by.as_str())) }))
                } }
            }
        }
        @if !seen.brought.is_empty() {
            section.box {
                h2.box-head { "Learned from it " span.faint { (seen.brought.len()) } }
                ul.lines { @for entry in &seen.brought {
                    (line(entry, html! { (ago(entry.created_at, seen.now)) " by " (actor_named(entry.created_by.as_str())) }))
                } }
            }
        }
    }
}

/// The tasks of an epic by their state, and how far they are.
pub(super) fn parts(seen: &TaskSeen) -> Markup {
    let is_over = |part: &&EpicTask| part.row.task.phase.is_closed();
    let (closed, all) = (seen.parts.iter().filter(is_over).count(), seen.parts.len());
    let share = closed * 100 / all.max(1);
    let groups =
        [State::Working, State::Review, State::Ready, State::Blocked, State::Done, State::Canceled];
    html! {
        section.box {
            div.box-head {
                h2 { "Tasks of this epic" }
                svg.meter role="img" aria-label={ (closed) " of " (all) " closed" } { rect width={ (share) "%" } height="6" {} }
                span.faint { (closed) " of " (all) " closed" }
            }
            @if seen.parts.is_empty() { p.box-body.soft { "None yet." } }
            ul.lines { @for state in groups { @for EpicTask { row, worker, .. } in seen.parts.iter().filter(|part| State::of(&part.row.task) == state) {
                li.row {
                    (state.mark()) (title_link(&row.task))
                    span.row-end.row {
                        @if let Some(worker) = worker { (actor_named(worker.as_str())) }
                        span.faint { (state.word()) } span.id { (row.task.name()) }
                    }
                }
            } } }
            @if seen.more { p.box-body.faint { "And more: " a href={ "/board?q=epic:" (seen.task().name()) } { "all of them on the board" } "." } }
        }
    }
}
