//! What a person does with a task: one form for each verb. A form holds a fresh key, so that a form that is sent twice
//! acts once.

use std::time::Duration;

use axum::Form;
use axum::extract::Path;
use axum::response::Response;
use callboard_domain::board::edit::check_line;
use callboard_domain::command::{NewCheck, Start, TaskEdit, TerminalStart};
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::RetryKey;
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::Check;
use callboard_domain::task::comment::Comment;
use callboard_engine::context::OpContext;
use callboard_engine::{EngineError, WorkWish};
use maud::{Markup, html};
use serde::Deserialize;

use super::parts::icon;
use super::task::{TaskSeen, found, seen, shown};
use super::task_form::{RefusedEdit, update};
use super::{Page, Screen, done, said};

/// How long a form waits for the checks of a task before it says that they run.
const CHECKS_WAIT: Duration = Duration::from_secs(3);
const PRIORITY_STEP: u16 = 100;
/// Why an agent cannot be stopped that the board did not start.
pub(super) const ELSEWHERE: &str =
    "its agent connected by itself: end it where it runs, or take the task back";

/// A verb of a person, in the words of its button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Run,
    Stop,
    Tell,
    Note,
    Check,
    Sooner,
    Later,
    Dep,
    Block,
    Unblock,
    Release,
    Reopen,
    Remove,
}

impl Verb {
    const ALL: &'static [Self] = &[
        Self::Run,
        Self::Stop,
        Self::Tell,
        Self::Note,
        Self::Check,
        Self::Sooner,
        Self::Later,
        Self::Dep,
        Self::Block,
        Self::Unblock,
        Self::Release,
        Self::Reopen,
        Self::Remove,
    ];

    /// The last part of the form's address, the glyph and the words of its button.
    pub fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Run => ("run", "run", "Start an agent"),
            Self::Stop => ("stop", "stop", "Stop its agent"),
            Self::Tell => ("tell", "comment", "Write to its agent"),
            Self::Note => ("note", "words", "Add a note"),
            Self::Check => ("check", "again", "Run the checks"),
            Self::Sooner => ("sooner", "next", "Sooner"),
            Self::Later => ("later", "clock", "Later"),
            Self::Dep => ("dep", "link", "Wait for another task"),
            Self::Block => ("block", "lock", "Block"),
            Self::Unblock => ("unblock", "check", "Unblock"),
            Self::Release => ("release", "back", "Take the task back"),
            Self::Reopen => ("reopen", "again", "Reopen"),
            Self::Remove => ("remove", "cross", "Remove"),
        }
    }
}

impl Verb {
    /// The verb in the table of rights.
    pub fn needs(self) -> PersonVerb {
        match self {
            Self::Run | Self::Stop | Self::Release => PersonVerb::RunAgent,
            Self::Tell | Self::Note => PersonVerb::Write,
            Self::Check => PersonVerb::RunChecks,
            Self::Sooner | Self::Later | Self::Dep | Self::Block | Self::Unblock | Self::Reopen => {
                PersonVerb::Edit
            }
            Self::Remove => PersonVerb::Remove,
        }
    }

    /// Whether the button stays, disabled, for a reader who may not use the verb.
    fn is_main(self) -> bool {
        matches!(self, Self::Run | Self::Stop | Self::Check | Self::Unblock | Self::Reopen)
    }
}

/// The verb of a form's address in the table of rights; `None` for an address that is no verb.
fn person_verb(path: &str) -> Option<PersonVerb> {
    match path {
        "edit" | "undep" => Some(PersonVerb::Edit),
        "attest" => Some(PersonVerb::Attest),
        "resolve" => Some(PersonVerb::Write),
        _ => Verb::ALL.iter().find(|verb| verb.words().0 == path).map(|verb| verb.needs()),
    }
}

/// Why the reader may not use a verb: the profile that it needs, and the reader's own.
pub(super) fn why_not(page: &Page, verb: PersonVerb) -> Option<String> {
    match page.reader.rights.judge_verb("web", verb).err()? {
        Refusal::ProfileDenied { needed, held, .. } => {
            Some(format!("needs {}, you are {}", needed.as_str(), held.as_str()))
        }
        refusal => Some(refusal.message()),
    }
}

/// As `why_not`, for one task: a reader may be bound to another one.
pub(super) fn why_not_on(page: &Page, verb: PersonVerb, task: TaskId) -> Option<String> {
    let bound = || page.reader.rights.judge_task(task).err().map(|refusal| refusal.message());
    why_not(page, verb).or_else(bound)
}

/// The words of the button that writes to the agent of a task. Without an agent the next one reads the message.
pub(super) fn write_words(is_held: bool) -> &'static str {
    if is_held { "Write to its agent" } else { "Write to its next agent" }
}

/// The verbs that make sense now: those in the row, and those below `More`. An agent that connected by itself has no
/// process that the board could stop; its task can be taken back.
pub(super) fn verbs_of(seen: &TaskSeen) -> (Vec<Verb>, Vec<Verb>) {
    let task = seen.task();
    let (is_live, is_held) = (seen.is_live(), seen.is_held());
    if task.is_plan {
        return (vec![Verb::Note], vec![Verb::Remove]);
    }
    if task.phase.is_closed() {
        return (vec![Verb::Reopen], vec![Verb::Note, Verb::Remove]);
    }
    let is_in_review = task.phase == Phase::Review;
    let (mut shown, mut others) = (Vec::new(), Vec::new());
    match () {
        () if seen.stops => shown.push(Verb::Stop),
        () if is_live && !is_in_review => {}
        // The one next step of work in review is to read it.
        () if is_in_review => others.push(Verb::Run),
        () => shown.push(Verb::Run),
    }
    shown.push(Verb::Tell);
    others.extend([Verb::Note, Verb::Sooner, Verb::Later, Verb::Dep]);
    others.push(if task.blocked.is_some() { Verb::Unblock } else { Verb::Block });
    others.extend(is_held.then_some(Verb::Release));
    others.push(Verb::Remove);
    (shown, others)
}

/// The form of a verb. A verb that needs words or a confirmation opens a small panel first. A verb that the reader may
/// not use is left out, or stays with the reason.
pub(super) fn form(page: &Page, seen: &TaskSeen, verb: Verb) -> Markup {
    form_to(page, seen, verb, "")
}

/// As `form`; `next` is the page that follows, the task's own if it is empty.
pub(super) fn form_to(page: &Page, seen: &TaskSeen, verb: Verb, next: &str) -> Markup {
    let (path, glyph, words) = verb.words();
    let task = seen.task();
    let words = match verb {
        Verb::Tell => write_words(seen.is_held()),
        _ => words,
    };
    if let Some(why) = why_not(page, verb.needs()) {
        return html! { @if verb.is_main() {
            span.row { button.button disabled { (icon(glyph)) (words) } span.faint { (why) } }
        } };
    }
    let action = format!("/tasks/{}/{path}", task.name());
    let once = page.engine.fresh_id().to_string();
    let hidden = html! {
        input type="hidden" name="once" value=(once);
        @if !next.is_empty() { input type="hidden" name="next" value=(next); }
    };
    let field = |label: &str, required: bool| {
        html! { div.field {
            label for={ (path) "-text" } { (label) }
            textarea.input id={ (path) "-text" } name="text" rows="3" required[required] {}
        } }
    };
    let panel = |inner: Markup, button: &str, is_bad: bool| {
        html! {
            details.menu.verb {
                summary.button data-key=[(verb == Verb::Tell).then_some("w")] {
                    (icon(glyph)) (words) @if verb == Verb::Tell { kbd { "w" } }
                }
                form.stack-tight method="post" action=(action) {
                    (hidden) (inner)
                    div { button.button.button-main[!is_bad].button-bad[is_bad] data-busy="Sending" { (button) } }
                }
            }
        }
    };
    match verb {
        Verb::Run => panel(run_fields(page), "Start the agent", false),
        Verb::Tell => panel(field("The agent reads this with its next step", true), "Send", false),
        Verb::Note => {
            panel(field("A note for everyone who works on this task", true), "Add the note", false)
        }
        Verb::Block => panel(field("Why the task cannot go on", true), "Block the task", false),
        Verb::Dep => panel(
            html! { div.field {
                label for="dep-id" { "The task that must be done first" }
                input.input #dep-id name="dep" required placeholder="SHOP-3" autocomplete="off";
            } },
            "Add",
            false,
        ),
        Verb::Stop => panel(
            html! { p { "Its processes end. The worktree and the branch stay." } },
            "Stop the agent",
            true,
        ),
        Verb::Release => panel(
            html! {
                p { "The holder loses the task: its later writes are refused. The task is free again." }
                @if !seen.stops { p.soft { "The board cannot stop its process: its agent connected by itself." } }
            },
            "Take the task back",
            true,
        ),
        Verb::Remove => panel(
            html! { p { "The task goes, with its history. Its worktree and branch stay." } },
            "Remove the task",
            true,
        ),
        Verb::Check | Verb::Sooner | Verb::Later | Verb::Unblock | Verb::Reopen => html! {
            form method="post" action=(action) {
                (hidden)
                button.button data-key=[(verb == Verb::Check).then_some("c")] data-busy="Sending" { (icon(glyph)) (words) }
            }
        },
    }
}

fn run_fields(page: &Page) -> Markup {
    let executors = page.engine.executors().unwrap_or_default();
    html! {
        div.field {
            label for="run-agent" { "Agent" }
            select.input #run-agent name="agent" {
                option value="" { "the one in the settings" }
                @for name in executors { option { (name) } }
            }
        }
        div.field {
            label for="run-text" { "Words for this run, if any" }
            textarea.input #run-text name="text" rows="2" {}
        }
    }
}

#[derive(Default, Deserialize)]
pub(super) struct VerbForm {
    #[serde(default)]
    once: String,
    /// The page to go on with.
    #[serde(default)]
    next: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    dep: String,
    /// The comment that is resolved.
    #[serde(default)]
    comment: String,
    #[serde(default)]
    check: Option<usize>,
    #[serde(default)]
    result: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub priority: Option<u16>,
    pub body: Option<String>,
    pub checks: Option<String>,
    pub mode: Option<String>,
    pub criteria: Option<String>,
    pub executor: Option<String>,
    pub base: Option<String>,
    pub epic: Option<String>,
    /// The mark of the fields that the form of an edit showed.
    #[serde(default)]
    pub shown: String,
}

impl VerbForm {
    /// A form without words that acts once.
    pub fn keyed(once: String) -> Self {
        Self { once, ..Self::default() }
    }

    /// The text with plain line feeds: browsers end lines with CRLF.
    fn text(&self) -> String {
        plain(&self.text)
    }
}

pub(super) fn plain(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Carries out a form of a task, then shows the task with a word about it.
pub(super) async fn act(
    page: Page,
    Path((text, verb)): Path<(String, String)>,
    Form(form): Form<VerbForm>,
) -> Response {
    let id = match found(&page, &text).await {
        Ok(id) => id,
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    match carry_out(&page, id, &verb, &form).await {
        Ok(words) if verb == "remove" => done(Screen::Board.path(), &words),
        Ok(words) if !form.next.is_empty() => done(&form.next, &words),
        Ok(words) => done(&format!("/tasks/{text}"), &words),
        Err(error) => match seen(&page, id).await {
            Ok(mut seen) => {
                let (status, words) = said(&error);
                seen.refused = (verb == "edit").then(|| RefusedEdit::of(form, &error));
                shown(&page, status, &seen, Some(&words)).await
            }
            Err(_) => page.failure(Screen::Board, &error).await,
        },
    }
}

pub(super) async fn carry_out(
    page: &Page,
    id: TaskId,
    verb: &str,
    form: &VerbForm,
) -> Result<String, EngineError> {
    let engine = &page.engine;
    if let Some(verb) = person_verb(verb) {
        page.reader.rights.judge_verb("web", verb)?;
    }
    // The cards of a board share one key; each verb on each task acts once under it.
    let key = match form.once.as_str() {
        "" => String::new(),
        key => format!("{key}-{verb}-{}", id.id),
    };
    let op = once(page, &key)?;
    Ok(match verb {
        "run" => {
            engine.work_submit(&op, id, start(form)).await?;
            "An agent was asked to start.".into()
        }
        "stop" => {
            engine.agent_stop(&op, id).await?;
            "The agent was stopped.".into()
        }
        "tell" => {
            engine.task_tell(&op, id, form.text()).await?;
            "Sent. The agent reads your words with its next step.".into()
        }
        "note" => {
            engine.task_note(&op, id, form.text()).await?;
            "The note was added.".into()
        }
        "check" => return check(page, op, id, form.check).await,
        "attest" => {
            let index = form.check.ok_or_else(|| missing("check"))?;
            engine.check_attest(&op, id, index, form.result == "pass").await?;
            "Your verdict was kept.".into()
        }
        "sooner" | "later" => {
            let now = engine.task_get(&op, id).await?.it.task.priority;
            let priority = match verb {
                "sooner" => now.saturating_sub(PRIORITY_STEP),
                _ => now.saturating_add(PRIORITY_STEP).min(1000),
            };
            let edit = TaskEdit { priority: Some(priority), ..unchanged(id) };
            engine.task_edit(&op, edit).await?;
            format!("Priority {now} became {priority}; smaller comes first.")
        }
        "dep" => {
            let dep = found(page, form.dep.trim()).await?;
            engine.dependency_add(&op, id, dep).await?;
            "The task now waits for the other one.".into()
        }
        "undep" => {
            let dep = found(page, form.dep.trim()).await?;
            engine.dependency_remove(&op, id, dep).await?;
            "The dependency was removed.".into()
        }
        "resolve" => {
            let comment = form.comment.parse().map_err(|_| missing("comment"))?;
            // A comment of another task is not resolved from the page of this one.
            let is_of_task = |known: &Comment| known.id == comment;
            if !engine.comment_list(&op, id).await?.iter().any(is_of_task) {
                return Err(missing("comment"));
            }
            let words = Some(form.text()).filter(|text| !text.trim().is_empty());
            engine.comment_resolve(&op, comment, words).await?;
            "The comment is resolved.".into()
        }
        "block" => {
            engine.task_block(&op, id, form.text()).await?;
            "The task is blocked.".into()
        }
        "unblock" => {
            engine.task_unblock(&op, id).await?;
            "The task can go on.".into()
        }
        "release" => {
            engine.task_take_back(&op, id).await?;
            "The task is free again.".into()
        }
        "reopen" => {
            // `task_reopen` is for work in review; a closed task moves back to the initial status.
            engine.task_transition(&op, id, engine.policy().initial().name.clone()).await?;
            "The task is open again.".into()
        }
        "edit" => {
            let Some(update) = update(page, &op, id, form).await? else {
                return Ok("Nothing was changed: the form has the fields of the task.".into());
            };
            engine.card_update(&op, update).await?;
            "Saved.".into()
        }
        "remove" => {
            let left = engine.card_remove(&op, id).await?;
            match left.is_empty() {
                true => "The task was removed.".into(),
                false => format!("The task was removed. Left in place: {}.", left.join(", ")),
            }
        }
        _ => return Err(missing("verb")),
    })
}

fn missing(field: &str) -> EngineError {
    let message = format!("{field} is missing or unknown; open the page again and use its buttons");
    Refusal::InvalidInput { field: Some(field.into()), message }.into()
}

/// A context whose change is made once, however often its form is sent.
pub(super) fn once(page: &Page, key: &str) -> Result<OpContext, EngineError> {
    let mut op = page.op();
    if !key.is_empty() {
        op.retry_key = Some(RetryKey::token("once", key)?);
    }
    Ok(op)
}

fn start(form: &VerbForm) -> WorkWish {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    WorkWish {
        instructions: given(&form.text()),
        model: None,
        start: Start::Terminal(TerminalStart {
            agent: given(&form.agent),
            take: false,
            reopen: false,
            held_s: 0,
        }),
    }
}

/// Runs the checks, or one of them. Long ones go on after the answer; their results arrive as events.
async fn check(
    page: &Page,
    op: OpContext,
    id: TaskId,
    only: Option<usize>,
) -> Result<String, EngineError> {
    let engine = page.engine.clone();
    let only = only.into_iter().collect();
    let run = tokio::spawn(async move { engine.check_run(&op, id, only).await });
    match tokio::time::timeout(CHECKS_WAIT, run).await {
        Ok(Ok(ran)) => {
            let checks = ran?.it.task.checks;
            let passed = checks.iter().filter(|check| check.result() == "pass").count();
            Ok(format!("The checks ran: {passed} of {} pass.", checks.len()))
        }
        Ok(Err(error)) => Err(EngineError::Internal(error.to_string())),
        Err(_) => Ok("The checks run. Each result appears here when it is there.".into()),
    }
}

fn unchanged(task: TaskId) -> TaskEdit {
    TaskEdit { task, title: None, body: None, priority: None, checks: None }
}

/// One check a line.
pub(super) fn new_checks(lines: &str) -> Vec<NewCheck> {
    lines.lines().filter(|line| !line.trim().is_empty()).map(NewCheck::of_line).collect()
}

/// The checks as `new_checks` reads them.
pub(super) fn check_lines(checks: &[Check]) -> String {
    checks.iter().map(check_line).collect::<Vec<_>>().join("\n")
}
