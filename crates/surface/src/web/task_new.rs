//! The form of a new task: what is wanted, what proves it, what must come first. Beside it stands what will happen; the
//! button `Look` writes that anew without a script, and a script does so while the form is written.

use axum::Form;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::board::card::{Card, Mode};
use callboard_domain::board::outlook::{CheckUsed, OutlookLine, OutlookSign, TaskOutlook, outlook};
use callboard_domain::board::plan::PlannedPriority;
use callboard_domain::board::why::WhyPart;
use callboard_domain::ids::TaskId;
use callboard_domain::limits::CHECKS_MAX;
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::task::Task;
use callboard_domain::task::contract::{VerificationContract, VerificationKind};
use callboard_engine::{EngineError, TaskDraft};
use maud::{Markup, html};

use super::frame::{Screen, View};
use super::parts::{State, Tone, ago, icon, task_link, title_link};
use super::task::found;
use super::task_new_deps::Deps;
use super::task_verbs::{check_lines, new_checks, once, plain, why_not};
use super::{Page, done, said};

pub(super) const DEFAULT_PRIORITY: u16 = 500;
/// How many lines for checks a new form has at least; one of them is always empty.
const LINES_MIN: usize = 2;
/// How many commands of other tasks are offered.
const USED_SHOWN: usize = 3;
const EPICS_OFFERED: usize = 50;

type Pairs = Vec<(String, String)>;

/// A new task as its form sends it. A link can fill every field in.
#[derive(Clone, Default)]
struct TaskForm {
    once: String,
    title: String,
    body: String,
    checks: Vec<CheckLine>,
    /// How many lines for checks the form has.
    lines: usize,
    /// The deps that were found before, by their names.
    deps: Vec<String>,
    /// What was typed for more deps, separated by commas.
    typed: String,
    criteria: String,
    epic: String,
    priority: Option<u16>,
    agent: String,
    base: String,
    /// `auto` or `pair`.
    mode: String,
    /// The kind of a verification; empty: from the checks.
    contract: String,
    /// Whether the form of another task follows.
    another: bool,
    /// A task whose fields the form begins with.
    from: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CheckLine {
    is_person: bool,
    text: String,
}

impl CheckLine {
    fn of(line: &str) -> Self {
        match line.trim_start().strip_prefix("manual:") {
            Some(text) => Self { is_person: true, text: text.trim().to_owned() },
            None => Self { is_person: false, text: line.trim().to_owned() },
        }
    }

    /// The check as `NewCheck::of_line` reads it.
    fn line(&self) -> String {
        match self.is_person {
            true => format!("manual: {}", self.text.trim()),
            false => self.text.trim().to_owned(),
        }
    }
}

impl TaskForm {
    fn of(pairs: Pairs) -> Self {
        let mut form = Self::default();
        let mut lines: Vec<CheckLine> = vec![CheckLine::default(); CHECKS_MAX];
        // The line that a button takes away, and how many lines the form had.
        let (mut drop, mut shown) = (None, 0_usize);
        for (name, value) in pairs {
            let place = |prefix: &str| {
                let number: usize = name.strip_prefix(prefix)?.parse().ok()?;
                number.checked_sub(1).filter(|place| *place < CHECKS_MAX)
            };
            if let Some(place) = place("check") {
                lines[place].text = value;
                continue;
            }
            if let Some(place) = place("kind") {
                lines[place].is_person = value == "person";
                continue;
            }
            match name.as_str() {
                "once" => form.once = value,
                "title" => form.title = value,
                "body" => form.body = plain(&value),
                // A link has all checks in one field, one a line.
                "checks" => form.checks.extend(plain(&value).lines().map(CheckLine::of)),
                "lines" => form.lines = value.parse().unwrap_or_default(),
                "shown" => shown = value.parse().unwrap_or_default(),
                "drop" => {
                    drop = value.parse::<usize>().ok().and_then(|number| number.checked_sub(1))
                }
                "dep" => form.deps.push(value),
                "deps" => form.typed = value,
                "criteria" => form.criteria = plain(&value),
                "epic" => form.epic = value,
                "priority" => form.priority = value.parse().ok(),
                "agent" => form.agent = value,
                "base" => form.base = value,
                "mode" => form.mode = value,
                "contract" => form.contract = value,
                "another" => form.another = !value.is_empty(),
                "from" => form.from = value,
                _ => {}
            }
        }
        if let Some(place) = drop.filter(|place| *place < CHECKS_MAX) {
            lines.remove(place);
            form.lines = shown.saturating_sub(1);
        }
        form.checks.extend(lines);
        form.checks.retain(|line| !line.text.trim().is_empty());
        form.checks.truncate(CHECKS_MAX);
        form
    }

    fn check_text(&self) -> String {
        self.checks.iter().map(CheckLine::line).collect::<Vec<_>>().join("\n")
    }
}

pub(super) async fn new(page: Page, Query(pairs): Query<Pairs>) -> Response {
    match begun(&page, TaskForm::of(pairs)).await {
        Ok(form) => asked(&page, StatusCode::OK, &form, None).await,
        Err(error) => page.failure(Screen::Board, &error).await,
    }
}

/// The form with the fields of the task that it begins with, where the address gives no others.
async fn begun(page: &Page, form: TaskForm) -> Result<TaskForm, EngineError> {
    if form.from.is_empty() {
        return Ok(form);
    }
    let id = found(page, &form.from).await?;
    let (record, card) = (
        page.engine.task_get(&page.op(), id).await?.it,
        page.engine.card_of(&page.op(), id).await?,
    );
    let or = |given: &str, known: &str| if given.is_empty() { known } else { given }.to_owned();
    let names: Vec<String> =
        record.deps.iter().filter(|dep| !dep.removed).map(|dep| dep.id.to_string()).collect();
    let mode = if card.mode == Mode::Auto { "auto" } else { "pair" };
    let checks = check_lines(&record.task.checks);
    Ok(TaskForm {
        title: or(&form.title, &record.task.title),
        body: or(&form.body, &record.body),
        checks: match form.checks.is_empty() {
            true => checks.lines().map(CheckLine::of).collect(),
            false => form.checks.clone(),
        },
        deps: if form.deps.is_empty() { names } else { form.deps.clone() },
        criteria: or(&form.criteria, &card.criteria.join("\n")),
        priority: form.priority.or(Some(record.task.priority)),
        agent: or(&form.agent, card.agent.as_deref().unwrap_or_default()),
        base: or(&form.base, card.base_branch.as_deref().unwrap_or_default()),
        mode: or(&form.mode, mode),
        from: String::new(),
        ..form
    })
}

pub(super) async fn create(page: Page, Form(pairs): Form<Pairs>) -> Response {
    let form = TaskForm::of(pairs);
    match made(&page, &form).await {
        Ok(words) if form.another => done("/tasks/new", &words.1),
        Ok((path, words)) => done(&path, &words),
        Err(error) => {
            let (status, words) = said(&error);
            asked(&page, status, &form, Some(&words)).await
        }
    }
}

/// Makes the task. Returns its address and a word about it.
async fn made(page: &Page, form: &TaskForm) -> Result<(String, String), EngineError> {
    let deps = Deps::of(page, &form.deps, &form.typed).await?;
    if let Some(typed) = deps.unknown.first() {
        let words = format!("no task is called {typed}; nothing was made");
        return Err(Refusal::invalid_field("deps", words).into());
    }
    if let Some(typed) = deps.vague.first() {
        let words = format!("several tasks fit {typed}: take the short name of one");
        return Err(Refusal::invalid_field("deps", words).into());
    }
    let deps: Vec<TaskId> = deps.tasks.iter().map(|task| task.id).collect();
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let parent = match given(&form.epic) {
        Some(epic) => Some(found(page, &epic).await?),
        None => None,
    };
    let card = Card {
        mode: if form.mode == "auto" { Mode::Auto } else { Mode::Pair },
        criteria: form.criteria.lines().filter_map(given).collect(),
        agent: given(&form.agent),
        base_branch: given(&form.base),
        ..Card::default()
    };
    let draft = TaskDraft {
        title: form.title.clone(),
        body: form.body.clone(),
        priority: form.priority,
        parent,
        deps,
        checks: new_checks(&form.check_text()),
        verification: VerificationKind::parse(&form.contract).map(VerificationContract::of),
        card,
        ..TaskDraft::default()
    };
    let op = once(page, &form.once)?;
    let task = page.engine.task_create(&op, draft).await?.it.task;
    let name = task.name();
    Ok((format!("/tasks/{name}"), format!("{name} was made.")))
}

async fn asked(page: &Page, status: StatusCode, form: &TaskForm, fault: Option<&str>) -> Response {
    let content = match content(page, form, fault).await {
        // The trail stands in the place of the heading.
        Ok(content) => html! { h1.hidden { "New task" } (content) },
        Err(error) => return page.failure(Screen::Board, &error).await,
    };
    let mut view = View::of(Screen::Board, "New task", content);
    view.trail = vec![
        (Screen::Board.path().into(), Screen::Board.title().into()),
        ("/tasks/new".into(), "New task".into()),
    ];
    view.twin = "callboard task add TITLE --check \"cargo test\" --dep ID";
    page.show(status, view).await
}

async fn content(page: &Page, form: &TaskForm, fault: Option<&str>) -> Result<Markup, EngineError> {
    if !page.acts() {
        return Ok(html! {
            div.pad.text { p { "Sign in to make tasks: run " code { "callboard open" } " in a terminal." } }
        });
    }
    if let Some(why) = why_not(page, PersonVerb::Write) {
        return Ok(html! { div.pad.text { p { "A new task " (why) "." } } });
    }
    let deps = Deps::of(page, &form.deps, &form.typed).await?;
    let used = page.engine.checks_used(&page.op()).await?;
    let epics = page.engine.epic_list(&page.op(), EPICS_OFFERED).await?;
    let epics: Vec<Task> = epics.into_iter().map(|epic| epic.record.task).collect();
    let alike = match form.title.trim() {
        "" => Vec::new(),
        title => page.engine.task_alike(&page.op(), title).await?,
    };
    let now = page.engine.now();
    let beside = html! {
        section.box {
            h2.box-head { "What will happen" }
            ul.readiness.box-body { @for line in lines(form, &deps, &used) { (line_of(&line)) } }
        }
        @if !alike.is_empty() {
            section.box {
                h2.box-head { "Much alike" }
                ul.lines { @for task in &alike { li.row {
                    (State::of(task).mark()) (title_link(task)) span.id { (task.name()) }
                    span.faint { (State::of(task).word().to_lowercase()) ", " (ago(task.phase_at, now)) }
                } } }
            }
        }
        section.stack-tight {
            h2 { "The same from a terminal" }
            pre.code { (twin(form, &deps)) }
        }
    };
    Ok(html! {
        div.sided.pad-top {
            (fields(page, form, (&deps, &used, &epics), fault))
            aside.stack #outlook data-live aria-label="What will happen" { (beside) }
        }
    })
}

fn lines(form: &TaskForm, deps: &Deps, used: &[CheckUsed]) -> Vec<OutlookLine> {
    let command = |line: &CheckLine| (!line.is_person).then(|| line.text.trim().to_owned());
    let facts = TaskOutlook {
        deps: deps.tasks.iter().collect(),
        unknown: deps.unknown.clone(),
        vague: deps.vague.clone(),
        checks: form.checks.iter().map(command).collect(),
        is_auto: form.mode == "auto",
    };
    outlook(&facts, used)
}

fn line_of(line: &OutlookLine) -> Markup {
    let glyph = match line.sign {
        OutlookSign::Waits => "lock",
        OutlookSign::Starts => "next",
        OutlookSign::Proves => "check",
        OutlookSign::Warns => "warn",
        OutlookSign::Person => "person",
    };
    html! {
        li class=(Tone::of(line.tone).class()) {
            (icon(glyph))
            span { @for part in &line.words { @match part {
                WhyPart::Text(text) => bdi { (text) },
                WhyPart::Task(name) => (task_link(*name)),
                WhyPart::Code(code) => code { (code) },
            } } }
        }
    }
}

/// The command that makes the task.
fn twin(form: &TaskForm, deps: &Deps) -> String {
    let quoted = |text: &str| format!("'{}'", text.trim().replace('\'', "'\\''"));
    let title = if form.title.trim().is_empty() { "TITLE".to_owned() } else { quoted(&form.title) };
    let mut words = format!("callboard task add {title}");
    for check in &form.checks {
        words += &format!(" \\\n  --check {}", quoted(&check.line()));
    }
    for dep in &deps.tasks {
        words += &format!(" \\\n  --dep {}", dep.name());
    }
    if let Some(priority) = form.priority.filter(|priority| *priority != DEFAULT_PRIORITY) {
        words += &format!(" \\\n  --priority {priority}");
    }
    if let Some(kind) = VerificationKind::parse(&form.contract) {
        words += &format!(" \\\n  --verify {}", kind.as_str());
    }
    words
}

fn fields(
    page: &Page,
    form: &TaskForm,
    (deps, used, epics): (&Deps, &[CheckUsed], &[Task]),
    fault: Option<&str>,
) -> Markup {
    let executors = page.engine.executors().unwrap_or_default();
    let key = match form.once.as_str() {
        "" => page.engine.fresh_id().to_string(),
        key => key.to_owned(),
    };
    let count = form.lines.max(form.checks.len() + 1).clamp(LINES_MIN, CHECKS_MAX);
    let found: String = (1..=count).map(|n| format!(" kind{n} check{n}")).collect();
    let text = |name: &str, label: &str, hint: &str, rows: u8, value: &str| {
        html! { div.field {
            label for=(name) { (label) }
            textarea.input id=(name) name=(name) rows=(rows) aria-describedby={ (name) "-hint" } { (value) }
            p.faint id={ (name) "-hint" } { (hint) }
        } }
    };
    // What is typed and not found stays in its field.
    let typed: Vec<&str> = deps.unknown.iter().chain(&deps.vague).map(String::as_str).collect();
    html! {
        form.text.stack method="post" action="/tasks/new" data-find={ "title deps dep mode priority contract" (found) } {
            @if let Some(words) = fault { p.fault role="alert" { (words) } }
            input type="hidden" name="once" value=(key);
            // Enter presses the first button of a form, which must not be the one for another line.
            button.hidden tabindex="-1" aria-hidden="true" { "Make the task" }
            div.field {
                label for="title" { "What is wanted" }
                input.input.task-title #title name="title" required maxlength="500" autofocus value=(form.title);
            }
            (text("body", "Intent", "What the agent reads, as Markdown: what done looks like, and what not to touch.", 5, &form.body))
            (check_fields(form, count, used))
            fieldset.field {
                legend { "Waits for" }
                @if !deps.tasks.is_empty() {
                    ul.chips { @for dep in &deps.tasks { li { label.chip {
                        input type="checkbox" name="dep" value=(dep.name()) checked;
                        (State::of(dep).mark()) bdi { (dep.title) } span.id { (dep.name()) }
                    } } } }
                }
                input.input #deps name="deps" value=(typed.join(", ")) autocomplete="off" aria-label="More tasks that must be done first"
                    placeholder="Title, short name or the end of an id" aria-describedby="deps-hint";
                p.faint #deps-hint { "Several are separated by commas." }
            }
            div.row.fields {
                div.field {
                    label for="mode" { "Who works on it" }
                    select.input #mode name="mode" {
                        option value="pair" { "an agent with a person" }
                        option value="auto" selected[form.mode == "auto"] { "an agent alone" }
                    }
                }
                div.field {
                    label for="priority" { "Priority" }
                    (priority_field("priority", form.priority.unwrap_or(DEFAULT_PRIORITY)))
                }
                div.field {
                    label for="epic" { "Part of" }
                    input.input #epic name="epic" value=(form.epic) list="epics" autocomplete="off" placeholder="no epic";
                    datalist #epics { @for epic in epics { option value=(epic.name()) label=(epic.title) {} } }
                }
            }
            details open[!form.criteria.is_empty() || !form.base.is_empty() || !form.agent.is_empty() || !form.contract.is_empty()] {
                summary { "More" }
                div.stack {
                    (text("criteria", "Done when", "Acceptance criteria, one a line. No gate reads them.", 3, &form.criteria))
                    div.field {
                        label for="base" { "Base branch" }
                        input.input #base name="base" value=(form.base) autocomplete="off" aria-describedby="base-hint";
                        p.faint #base-hint { "The branch that the work starts from and goes to." }
                    }
                    div.row {
                        div.field {
                            label for="agent" { "Agent" }
                            select.input #agent name="agent" {
                                option value="" { "the one in the settings" }
                                @for name in &executors { option selected[*name == form.agent] { (name) } }
                            }
                        }
                        div.field {
                            label for="contract" { "Shown before it is done" }
                            select.input #contract name="contract" {
                                option value="" { "from the checks" }
                                @for kind in VerificationKind::ALL {
                                    option value=(kind.as_str()) selected[kind.as_str() == form.contract] { (contract_words(kind)) }
                                }
                            }
                        }
                    }
                }
            }
            div.row {
                button.button.button-main data-busy="Making" { "Make the task" }
                button.button name="another" value="1" { "Make it and write another" }
                button.button.button-bare formmethod="get" formnovalidate { "Look what will happen" }
            }
        }
    }
}

/// The priorities by their words. A number between them, from a link or a command, is a choice as well.
pub(super) fn priority_field(id: &str, priority: u16) -> Markup {
    let known = [PlannedPriority::High, PlannedPriority::Medium, PlannedPriority::Low];
    let is_named = known.iter().any(|known| known.number() == priority);
    html! {
        select.input #(id) name="priority" {
            option value="0" selected[priority == 0] { "P0, before all others" }
            @for known in known {
                option value=(known.number()) selected[priority == known.number()] { (known.word()) ", " (known.number()) }
            }
            @if !is_named && priority > 0 { option value=(priority) selected { (priority) } }
        }
    }
}

fn contract_words(kind: VerificationKind) -> &'static str {
    match kind {
        VerificationKind::None => "nothing",
        VerificationKind::Manual => "the approval of a person",
        VerificationKind::GithubPr => "a merged pull request",
        VerificationKind::GitlabMr => "a merged merge request",
        VerificationKind::Commands => "checks that Callboard ran",
    }
}

/// The lines of the checks. Another line is a button that shows the form anew, with one more.
fn check_fields(form: &TaskForm, count: usize, used: &[CheckUsed]) -> Markup {
    let empty = CheckLine::default();
    html! {
        fieldset.field {
            legend { "Checks " span.faint { "nothing closes before they pass" } }
            input type="hidden" name="shown" value=(count);
            @for n in 1..=count {
                @let line = form.checks.get(n - 1).unwrap_or(&empty);
                div.check-field {
                    select.input name={ "kind" (n) } aria-label={ "Kind of check " (n) } {
                        option value="command" { "command" }
                        option value="person" selected[line.is_person] { "for a person" }
                    }
                    input.input.mono name={ "check" (n) } value=(line.text) autocomplete="off" list="used"
                        aria-label={ "Check " (n) } placeholder=[(n == 1).then_some("cargo test")];
                    button.button.button-bare.button-small name="drop" value=(n) formmethod="get" formnovalidate
                        aria-label={ "Remove check " (n) } { (icon("cross")) }
                }
            }
            datalist #used { @for known in used { option value=(known.command) {} } }
            div.row {
                @if count < CHECKS_MAX {
                    button.button.button-small name="lines" value=(count + 1) formmethod="get" formnovalidate { (icon("plus")) "Another line" }
                }
                @if !used.is_empty() {
                    span.faint { "Used here before: " @for (n, known) in used.iter().take(USED_SHOWN).enumerate() {
                        @if n > 0 { ", " } code { (known.command) }
                    } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> TaskForm {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        TaskForm::of(pairs.iter().map(owned).collect())
    }

    #[test]
    fn lines_of_checks_keep_their_kinds_and_order() {
        for (pairs, wanted) in [
            (
                vec![("checks", "cargo test\n\nmanual: reads well\n")],
                "cargo test\nmanual: reads well",
            ),
            (
                vec![("kind1", "command"), ("check1", "a"), ("kind2", "person"), ("check2", "b")],
                "a\nmanual: b",
            ),
            (vec![("check2", "b"), ("check1", "a"), ("check3", " ")], "a\nb"),
            (vec![("checks", "a"), ("check1", "b")], "a\nb"),
            (
                vec![
                    ("check1", "a"),
                    ("kind2", "person"),
                    ("check2", "b"),
                    ("check3", "c"),
                    ("drop", "2"),
                ],
                "a\nc",
            ),
            (vec![("check1", "a"), ("drop", "0"), ("drop", "x")], "a"),
            (vec![("check0", "a"), ("check51", "b"), ("checkx", "c"), ("check-1", "d")], ""),
        ] {
            assert_eq!(form(&pairs).check_text(), wanted, "{pairs:?}");
        }
    }

    #[test]
    fn the_command_makes_the_same_task() {
        let form = form(&[
            ("title", "Don't panic"),
            ("check1", "cargo test"),
            ("kind2", "person"),
            ("check2", "reads well"),
            ("priority", "300"),
            ("contract", "manual"),
        ]);
        assert_eq!(
            twin(&form, &Deps::default()),
            "callboard task add 'Don'\\''t panic' \\\n  --check 'cargo test' \\\n  --check 'manual: \
             reads well' \\\n  --priority 300 \\\n  --verify manual"
        );
        assert_eq!(twin(&TaskForm::default(), &Deps::default()), "callboard task add TITLE");
    }
}
