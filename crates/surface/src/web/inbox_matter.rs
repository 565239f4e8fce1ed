//! One matter of the inbox: what happened, what its agent printed last, and the verbs that decide it, in place.

use std::time::Duration;

use callboard_domain::board::inbox::{InboxFact, InboxRow};
use callboard_domain::board::plan::Plan;
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::JobId;
use callboard_domain::runs::notes::lines_before_output;
use callboard_domain::runs::steps::{RunStep, RunStepKind};
use callboard_domain::task::attempt::AttemptState;
use callboard_domain::time::Timestamp;
use callboard_engine::store::MailSeen;
use callboard_engine::{At, EngineError, LogLine, LogQuery, MailBox, answerable};
use maud::{Markup, html};

use super::Page;
use super::board::why_line;
use super::frame::Screen;
use super::inbox::looks;
use super::job_verbs::answer_form;
use super::mail::{Draft, letter, reply_form};
use super::parts::{
    Tone, actor, ago, countdown, icon, lease, log_tail, note, pips, prose, span, title_link,
};
use super::task::{TaskSeen, seen};
use super::task_comments::open_comments;
use super::task_verbs::{Verb, form_to};

/// How long a page waits for git.
const GIT_WITHIN: Duration = Duration::from_millis(200);
/// How many lines of output stand beside a question.
const LINES_SHOWN: usize = 6;
/// How many tasks of a plan are listed.
const PLANNED_SHOWN: usize = 20;

/// The chosen row with everything that its verbs need.
pub(super) struct InboxMatter<'r> {
    row: &'r InboxRow,
    /// The page that follows an action: the next row.
    next: String,
    now: Timestamp,
    task: Option<TaskSeen>,
    /// The run that asks, failed or is silent.
    job: Option<JobId>,
    /// The last lines that its agent printed.
    lines: Vec<LogLine>,
    /// Earlier answers to the agent's questions: allowed, refused.
    answered: (usize, usize),
    /// How many files the work changed, with added and removed lines, where git said so in time.
    changed: Option<(usize, u64, u64)>,
    plan: Option<Plan>,
    letters: Option<At<Vec<MailSeen>>>,
}

impl<'r> InboxMatter<'r> {
    pub async fn of(
        page: &Page,
        row: &'r InboxRow,
        next: String,
        now: Timestamp,
    ) -> Result<InboxMatter<'r>, EngineError> {
        let (op, engine) = (page.op(), &page.engine);
        let task = match &row.task {
            Some(task) => Some(seen(page, task.id).await?),
            None => None,
        };
        let mut matter = Self {
            row,
            next,
            now,
            task,
            job: None,
            lines: Vec::new(),
            answered: (0, 0),
            changed: None,
            plan: None,
            letters: None,
        };
        if let (Some(task), InboxFact::Question { .. } | InboxFact::Review { .. }) =
            (&matter.task, &row.fact)
        {
            matter.changed = changed(page, task).await;
        }
        match &row.fact {
            InboxFact::Question { job, .. } | InboxFact::RunFailed { job, .. } => {
                matter.job = Some(*job);
                let window = engine.run_log_lines(&op, *job, &LogQuery::default()).await?.1;
                matter.lines = window.map(|window| output(window.lines)).unwrap_or_default();
                matter.answered = answered(&engine.job_look(&op, *job).await?.it.steps);
            }
            InboxFact::Silent | InboxFact::CheckStreak { .. } => {
                if let Some(task) = &row.task
                    && let Some(log) =
                        engine.work_log_lines(&op, task.id, None, &LogQuery::default()).await?
                {
                    matter.job = Some(log.job);
                    matter.lines = output(log.window.lines);
                }
            }
            InboxFact::Plan { plan, .. } => matter.plan = gone(engine.plan_get(&op, *plan).await)?,
            InboxFact::Mail { mail, .. } => {
                let thread = engine.mail_thread(&op, *mail, page.inbox().as_ref()).await;
                matter.letters = gone(thread)?;
            }
            InboxFact::Conflict { .. }
            | InboxFact::Approved
            | InboxFact::Review { .. }
            | InboxFact::VerificationFailed { .. }
            | InboxFact::WorkerFailed { .. }
            | InboxFact::DiskOver { .. }
            | InboxFact::Blocked { .. }
            | InboxFact::Comment { .. } => {}
        }
        Ok(matter)
    }

    pub fn shown(&self, page: &Page) -> Markup {
        let (row, task) = (self.row, self.task.as_ref());
        let (tone, _, word) = looks(row.cause);
        html! {
            div.stack-tight {
                p.dots {
                    span class={ "tone " (tone.class()) } { (word) }
                    @if let Some(who) = &row.actor { (actor(who)) }
                    @if let Some(task) = task { (title_link(task.task())) span.id { (task.task().name()) } }
                    span.faint { "for " (span(self.now.ms_since(row.since))) }
                }
                h2.inbox-title { bdi { (row.title) } }
            }
            (self.decision(page))
            @if !self.lines.is_empty() {
                section.stack-tight { h3 { "What it was doing" } (log_tail(&self.lines, LINES_SHOWN)) }
            }
            @if let Some(task) = task { (self.standing(task)) }
            div.row {
                @if let Some(job) = self.job {
                    a.button href={ "/jobs/" (job) } data-key="l" { (icon("job")) "Open the run" kbd { "l" } }
                }
                @if let Some(task) = task {
                    a.button href={ "/tasks/" (task.task().name()) } data-key="o" { (icon("words")) "Open the task" kbd { "o" } }
                }
                @if page.acts() { (snooze_form(row, &self.next)) }
            }
        }
    }

    /// What happened, and the verbs that decide it.
    fn decision(&self, page: &Page) -> Markup {
        let (row, task) = (self.row, self.task.as_ref());
        let verbs = |verbs: &[Verb]| {
            html! {
                @if let Some(task) = task.filter(|_| page.acts()) {
                    div.row { @for verb in verbs { (form_to(page, task, *verb, &self.next)) } }
                }
            }
        };
        // An agent that connected by itself has no process that the board could stop.
        let stops = |verbs: &[Verb]| {
            let can = task.is_some_and(|task| task.stops);
            verbs.iter().copied().filter(|verb| can || *verb != Verb::Stop).collect::<Vec<Verb>>()
        };
        let review = |words: &str| {
            html! {
                @if let Some(task) = task {
                    p.row {
                        a.button.button-main href={ "/tasks/" (task.task().name()) "/review" } data-key="r" {
                            (icon("review")) (words) kbd { "r" }
                        }
                    }
                }
            }
        };
        match &row.fact {
            InboxFact::Question { job, number, text, command } => {
                self.question(page, *job, *number, text, command.as_deref())
            }
            InboxFact::Silent => html! {
                (note(Tone::Late, "sleep", &html! { (sentence(&row.consequence)) }))
                (verbs(&stops(&[Verb::Tell, Verb::Stop, Verb::Release])))
            },
            InboxFact::Conflict { .. } => {
                html! { (note(Tone::Failed, "warn", &html! { (sentence(&row.consequence)) })) (review("Open review")) }
            }
            InboxFact::Approved => review("Open review and merge"),
            InboxFact::Review { .. } => html! {
                @if let Some(words) = task.and_then(|task| task.card.summary()) { (prose(words)) }
                @if let Some(why) = task.and_then(|task| task.why.as_ref()) { (why_line(why)) }
                (review("Open review"))
            },
            InboxFact::VerificationFailed { reason } => html! {
                (note(Tone::Failed, "failed", &html! { (reason.as_deref().unwrap_or("The verification failed.")) }))
                (verbs(&[Verb::Check, Verb::Tell, Verb::Run]))
            },
            InboxFact::CheckStreak { check, times } => html! {
                (note(Tone::Failed, "failed", &html! { code { (check) } " failed " (times) " times in a row. A hint often helps more than another try." }))
                (verbs(&stops(&[Verb::Tell, Verb::Stop, Verb::Check])))
            },
            InboxFact::RunFailed { reason, .. } => html! {
                (note(Tone::Failed, "failed", &html! { bdi { (reason) } }))
                (verbs(&[Verb::Run]))
            },
            InboxFact::WorkerFailed { agent } => html! {
                (note(Tone::Failed, "failed", &html! { "The worker " bdi { (agent) } " failed." }))
                p.row { a.button href=(Screen::Agents.path()) { (icon("agents")) "Agents" } }
            },
            InboxFact::Blocked { reason } => html! {
                (note(Tone::Late, "lock", &html! { bdi { (reason) } }))
                (verbs(&[Verb::Unblock, Verb::Tell]))
            },
            InboxFact::Comment { body, .. } => html! {
                @match task {
                    Some(task) => (open_comments(page, task, &self.next)),
                    None => (note(Tone::Late, "comment", &prose(body))),
                }
                (verbs(&[Verb::Tell, Verb::Note]))
            },
            InboxFact::DiskOver { .. } => html! {
                (note(Tone::Late, "warn", &html! { (sentence(&row.consequence)) }))
                p { code { "callboard gc --yes" } " removes what can go." }
            },
            InboxFact::Plan { plan, .. } => html! {
                @if let Some(plan) = &self.plan { (planned(plan)) }
                div.row {
                    @if let Some(plan) = self.plan.as_ref().filter(|_| page.acts()) {
                        form method="post" action={ "/plans/" (plan.id) "/approve" } {
                            input type="hidden" name="once" value=(page.engine.fresh_id());
                            button.button.button-main data-key="a" data-busy="Making" { (icon("check")) "Make these tasks" kbd { "a" } }
                        }
                    }
                    a.button href={ "/plans/" (plan) } data-key="r" { (icon("plan")) "Read the plan, comment, or put it away" kbd { "r" } }
                }
            },
            InboxFact::Mail { mail, .. } => self.mail(page, &mail.to_string()),
        }
    }

    /// The exact command, the two answers, and what silence means.
    fn question(
        &self,
        page: &Page,
        job: JobId,
        number: u32,
        text: &str,
        command: Option<&str>,
    ) -> Markup {
        html! {
            section.asked {
                p.asked-head {
                    (icon("ask")) bdi { (text) }
                    @if let Some(deadline) = self.row.deadline {
                        span.row-end { (countdown("refused", (self.row.since, deadline), self.now)) }
                    }
                }
                @if let Some(command) = command { pre { (command) } }
                @if page.acts() {
                    (answer_form(page, job, number, &self.next))
                    p.faint { "No answer counts as no, and the agent goes on." }
                }
            }
        }
    }

    /// The letters of the thread, and the answer.
    fn mail(&self, page: &Page, chosen: &str) -> Markup {
        let Some(letters) = &self.letters else {
            return html! { p.soft { "The letter is gone." } };
        };
        let original = answerable(&letters.it, page.inbox().as_ref());
        html! {
            @for seen in &letters.it {
                (letter(page, seen, seen.mail.id.to_string() == chosen, MailBox::Unread, letters.now))
            }
            @if let Some(original) = original.filter(|_| page.acts()) { (reply_form(page, original, &Draft::default())) }
        }
    }

    fn standing(&self, task: &TaskSeen) -> Markup {
        let attempt = task.card.record.newest.as_ref();
        let live = attempt.filter(|attempt| attempt.is_live(task.now) && attempt.lease().is_some());
        let (allowed, refused) = self.answered;
        html! {
            section.stack-tight {
                h3 { "Where it stands" }
                dl.facts {
                    dt { "Task" } dd { (task.state().badge()) }
                    @if let Some(attempt) = attempt {
                        dt { "Attempt" } dd { "fence " (attempt.fence) ", began " (ago(attempt.started_at, task.now)) }
                    }
                    @if let Some(attempt) = live { dt { "Lease" } dd { (lease(attempt, task.now)) } }
                    @if let Some(AttemptState::Live { heartbeat_at, progress, .. }) = attempt.map(|attempt| &attempt.state) {
                        dt { "Heard" } dd { (ago(*heartbeat_at, task.now)) @if let Some(words) = progress { ": " bdi { (words) } } }
                    }
                    @if !task.task().checks.is_empty() { dt { "Checks" } dd { (pips(&task.task().checks)) } }
                    @if let Some((files, added, removed)) = self.changed.filter(|(files, ..)| *files > 0) {
                        dt { "Changed" } dd {
                            (files) @if files == 1 { " file, " } @else { " files, " }
                            span.added { "+" (added) } " " span.removed { "−" (removed) }
                        }
                    }
                    @if allowed + refused > 0 {
                        dt { "Asked before" } dd { (allowed) " allowed, " (refused) " refused" }
                    }
                }
            }
        }
    }
}

/// What the work changed so far. A page does not wait long for git.
async fn changed(page: &Page, task: &TaskSeen) -> Option<(usize, u64, u64)> {
    let op = page.op();
    let asked = page.engine.workspace_diff(&op, &task.card, false);
    let parts = tokio::time::timeout(GIT_WITHIN, asked).await.ok()?.ok()?;
    let files = parts.iter().flat_map(|part| &part.diff.files);
    Some(files.fold((0, 0, 0), |(files, added, removed), file| {
        let (plus, minus) = file.lines.unwrap_or_default();
        (files + 1, added + plus, removed + minus)
    }))
}

/// The lines that the agent printed. A window that begins later has no notes.
fn output(mut lines: Vec<LogLine>) -> Vec<LogLine> {
    if lines.first().is_some_and(|line| line.number == 1) {
        let before = lines_before_output(lines.iter().map(|line| line.text.as_str()));
        lines.drain(..before);
    }
    lines
}

/// `None` in the place of what was removed since the inbox was read.
fn gone<T>(found: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(EngineError::Refused(Refusal::PlanNotFound { .. } | Refusal::MailNotFound { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// How many questions of a run were allowed, and how many refused.
fn answered(steps: &[RunStep]) -> (usize, usize) {
    let answers = steps.iter().filter_map(|step| match step.kind {
        RunStepKind::Question { granted, .. } => granted,
        _ => None,
    });
    answers.fold((0, 0), |(yes, no), granted| if granted { (yes + 1, no) } else { (yes, no + 1) })
}

fn planned(plan: &Plan) -> Markup {
    let more = plan.tasks.len().saturating_sub(PLANNED_SHOWN);
    html! {
        ol.prose { @for task in plan.tasks.iter().take(PLANNED_SHOWN) { li { bdi { (task.title) } } } }
        @if more > 0 { p.faint { (more) " more" } }
        p.faint { "Nothing is made before a yes; then all of them, or none." }
    }
}

/// Words of a row as a sentence of their own.
fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

fn snooze_form(row: &InboxRow, next: &str) -> Markup {
    // On a letter the key marks it as read.
    let has_key = !matches!(row.fact, InboxFact::Mail { .. });
    html! {
        details.menu.snooze {
            summary.button.button-bare data-key=[has_key.then_some("e")] {
                (icon("clock")) "Snooze" @if has_key { kbd { "e" } }
            }
            form.stack-tight method="post" action="/inbox/snooze" {
                input type="hidden" name="key" value=(row.key);
                input type="hidden" name="next" value=(next);
                button.button name="for" value="hour" { "For an hour" }
                button.button name="for" value="day" { "Until tomorrow" }
                button.button name="for" value="change" { "Until it changes" }
            }
        }
    }
}
