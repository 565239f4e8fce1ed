//! Mail on the board: letters between people and agents in threads, the list beside the thread. An agent that signs in
//! has its own inbox. Opening a letter does not mark it as read; a button or an answer does.

use axum::Form;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::command::{MailReply, MailSend};
use callboard_domain::crew::{AgentId, Mail, MailId};
use callboard_domain::refusal::Refusal;
use callboard_domain::rights::PersonVerb;
use callboard_domain::time::Timestamp;
use callboard_engine::store::MailSeen;
use callboard_engine::{At, EngineError, LetterTask, MailBox, MailThreads, answerable};
use maud::{Markup, html};
use serde::Deserialize;

use super::frame::{Screen, View};
use super::jobs::short;
use super::mail_rows::{none, read_form, read_mark, row, who_named};
use super::parts::{Choice, Tone, actor, ago, empty, note, prose, tabs, task_link, title_link};
use super::task_verbs::why_not;
use super::{Page, inside, said};

const MAILS_SHOWN: usize = 50;
const KEYS: &[(&str, &str)] = &[
    ("j k", "next and previous letter"),
    ("c", "write a letter"),
    ("R", "answer"),
    ("e", "mark as read"),
];

#[derive(Clone, Default, Deserialize)]
pub(super) struct MailListRequest {
    /// `people`, `agents` or `all`.
    #[serde(default, rename = "box")]
    kind: String,
    /// As `box=all`, in addresses of earlier versions.
    all: Option<String>,
    before: Option<String>,
    /// The recipient of a new mail.
    to: Option<String>,
}

impl MailListRequest {
    fn kind(&self) -> MailBox {
        match &*self.kind {
            "agents" => MailBox::Sent,
            "all" => MailBox::All,
            _ if self.all.is_some() => MailBox::All,
            _ => MailBox::Unread,
        }
    }
}

/// The address of a box.
pub(super) fn path_of(kind: MailBox) -> &'static str {
    match kind {
        MailBox::Unread => "/mail",
        MailBox::Sent => "/mail?box=agents",
        MailBox::All => "/mail?box=all",
    }
}

/// An address of the screen that keeps the box.
pub(super) fn within(path: &str, kind: MailBox) -> String {
    match kind {
        MailBox::Unread => path.to_owned(),
        MailBox::Sent => format!("{path}?box=agents"),
        MailBox::All => format!("{path}?box=all"),
    }
}

/// A mail that was not sent yet, with the reason.
#[derive(Default)]
pub(super) struct Draft {
    mail: Option<MailId>,
    to: String,
    subject: String,
    body: String,
    fault: Option<String>,
}

/// The list with its first thread beside it, or with the form for a new letter.
pub(super) async fn list(page: Page, Query(asked): Query<MailListRequest>) -> Response {
    if let Some(to) = asked.to.clone() {
        return inbox(&page, &asked, StatusCode::OK, Draft { to, ..Draft::default() }).await;
    }
    let found = match threads(&page, &asked).await {
        Ok(found) => found,
        Err(error) => return page.failure(Screen::Mail, &error).await,
    };
    let Some(first) = found.it.threads.first().map(|thread| thread.next().mail.id.to_string())
    else {
        return inbox(&page, &asked, StatusCode::OK, Draft::default()).await;
    };
    one(&page, &first, &asked, (StatusCode::OK, false), Draft::default()).await
}

/// The list beside the form for a new letter.
async fn inbox(page: &Page, asked: &MailListRequest, status: StatusCode, draft: Draft) -> Response {
    // On a phone the form is a page of its own, for a reader who asked for it.
    let is_asked = asked.to.is_some() || draft.fault.is_some();
    match threads(page, asked).await {
        Ok(found) => {
            let aside = html! {
                @if page.acts() {
                    div.split-body {
                        @if is_asked { p.phone { a href=(path_of(asked.kind())) { "All letters" } } }
                        (write_form(page, &draft))
                    }
                } @else {
                    (empty("mail", "Choose a letter", &html! { p { "Letters are read here; a person who signs in can answer." } }))
                }
            };
            let content = html! {
                div.split.mail.has-chosen[is_asked] {
                    (listed(page, asked, &found, None)) div.split-pane { (aside) }
                }
            };
            shown(page, status, None, Screen::Mail.title(), content, &found).await
        }
        Err(error) => page.failure(Screen::Mail, &error).await,
    }
}

async fn threads(page: &Page, asked: &MailListRequest) -> Result<At<MailThreads>, EngineError> {
    let before = match asked.before.as_deref().map(str::parse::<MailId>) {
        None => None,
        Some(Ok(before)) => Some(before),
        Some(Err(_)) => return Err(not_found("no such id")),
    };
    let (op, to) = (page.op(), page.inbox());
    page.engine.mail_threads(&op, to, asked.kind(), before, MAILS_SHOWN).await
}

async fn shown(
    page: &Page,
    status: StatusCode,
    letter: Option<&str>,
    title: &str,
    content: Markup,
    found: &At<MailThreads>,
) -> Response {
    let mut view = View::of(Screen::Mail, title, content);
    if let Some(letter) = letter {
        view.trail = vec![
            (Screen::Mail.path().into(), Screen::Mail.title().into()),
            (format!("/mail/{letter}"), short(letter)),
        ];
    }
    view.facts = html! { span #mail-facts data-live { (found.it.unread) " unread" } };
    view.keys = KEYS;
    view.twin = "callboard mail list";
    page.show(status, view).await
}

/// The list with its boxes. `chosen` are the letters of the thread beside it.
fn listed(
    page: &Page,
    asked: &MailListRequest,
    found: &At<MailThreads>,
    chosen: Option<&[MailSeen]>,
) -> Markup {
    let kind = asked.kind();
    let is_own = page.inbox().is_some();
    let choice = |box_of: MailBox, word, count: Option<usize>| Choice {
        href: path_of(box_of).into(),
        word,
        count: count.map(|count| count.to_string()),
        is_current: kind == box_of,
    };
    let unread = Some(found.it.unread as usize).filter(|unread| *unread > 0);
    let mut boxes =
        vec![choice(MailBox::Unread, if is_own { "To you" } else { "To people" }, unread)];
    if !is_own {
        boxes.push(choice(MailBox::Sent, "To agents", None));
    }
    boxes.push(choice(MailBox::All, "All", None));
    let older = |before: MailId| {
        let path = within("/mail", kind);
        let sign = if path.contains('?') { '&' } else { '?' };
        format!("{path}{sign}before={before}")
    };
    html! {
        div.mail-list {
            div.bar {
                (tabs("Which mail", boxes))
                @if page.acts() { a.button.button-bare.bar-end href="/mail?to=#write" data-key="c" { "Write" kbd { "c" } } }
            }
            div #mails data-live {
                @if found.it.threads.is_empty() { (none(kind, asked.before.is_some())) }
                ul.letters data-rows { @for thread in &found.it.threads {
                    (row(page, thread, kind, chosen, found.now))
                } }
                @if let Some(before) = found.it.before { p.mail-older { a href=(older(before)) { "Older mail" } } }
            }
        }
    }
}

fn write_form(page: &Page, draft: &Draft) -> Markup {
    let mail = draft.mail.unwrap_or_else(|| MailId(page.engine.fresh_id()));
    let why = why_not(page, PersonVerb::Write);
    html! {
        h2 #write { "Write to an agent" }
        @if let Some(words) = &draft.fault { (fault(words)) }
        form.stack-tight method="post" action="/mail" {
            // Idempotent: a form that is sent twice creates one mail.
            input type="hidden" name="mail" value=(mail);
            div.field { label for="to" { "To" } input.input #to name="to" required autocomplete="off" value=(draft.to); }
            div.field {
                label for="subject" { "Subject" }
                input.input #subject name="subject" required maxlength="200" autocomplete="off" value=(draft.subject);
            }
            div.field { label for="body" { "Text" } textarea.input #body name="body" rows="6" required { (draft.body) } }
            div.row {
                button.button.button-main data-busy="Sending" disabled[why.is_some()] { "Send" }
                span.faint { @match &why {
                    Some(why) => (why),
                    None => "The agent reads the letter with its next step.",
                } }
            }
        }
    }
}

fn fault(words: &str) -> Markup {
    note(Tone::Failed, "warn", &html! { p role="alert" { (words) } })
}

pub(super) async fn show(
    page: Page,
    Path(id): Path<String>,
    Query(asked): Query<MailListRequest>,
) -> Response {
    one(&page, &id, &asked, (StatusCode::OK, true), Draft::default()).await
}

/// A thread beside the list. A reader who did not choose it sees the list first on a phone.
async fn one(
    page: &Page,
    id: &str,
    asked: &MailListRequest,
    (status, is_chosen): (StatusCode, bool),
    draft: Draft,
) -> Response {
    match both(page, id, asked).await {
        Ok(Opened { letters, about, found }) => {
            let original = answerable(&letters.it, page.inbox().as_ref());
            let subject = letters.it.first().map_or("", |seen| &seen.mail.subject);
            let content = html! {
                div.split.mail.has-chosen[is_chosen] {
                    (listed(page, asked, &found, Some(&letters.it)))
                    div.split-pane { @if is_chosen {
                        div.split-body {
                            p.phone { a href=(path_of(asked.kind())) { "All letters" } }
                            (thread(page, id, &letters, about.as_ref(), asked.kind()))
                            @if let Some(original) = original.filter(|_| page.acts()) {
                                (answer_form(page, original, about.as_ref(), &draft))
                            }
                        }
                    } @else {
                        // Another thread may become the first one, but not while this one is answered.
                        div.split-body #first data-live data-keep=(id) {
                            (thread(page, id, &letters, about.as_ref(), asked.kind()))
                            @if let Some(original) = original.filter(|_| page.acts()) {
                                (answer_form(page, original, about.as_ref(), &draft))
                            }
                        }
                    } }
                }
            };
            let title = if is_chosen { subject } else { Screen::Mail.title() };
            shown(page, status, Some(id).filter(|_| is_chosen), title, content, &found).await
        }
        Err(error) => page.failure(Screen::Mail, &error).await,
    }
}

/// A thread with its task, beside the list.
struct Opened {
    letters: At<Vec<MailSeen>>,
    about: Option<LetterTask>,
    found: At<MailThreads>,
}

async fn both(page: &Page, id: &str, asked: &MailListRequest) -> Result<Opened, EngineError> {
    let id = id.parse().map_err(|_| not_found("no such id"))?;
    let letters = page.engine.mail_thread(&page.op(), id, page.inbox().as_ref()).await?;
    let about = about(page, &letters.it).await?;
    Ok(Opened { letters, about, found: threads(page, asked).await? })
}

/// The task of a thread. Its writer is the one that an answer goes to.
pub(super) async fn about(
    page: &Page,
    letters: &[MailSeen],
) -> Result<Option<LetterTask>, EngineError> {
    let writer = answerable(letters, page.inbox().as_ref()).and_then(|mail| mail.from.as_ref());
    page.engine.letter_task(&page.op(), letters, writer).await
}

/// The letters of a thread, oldest first.
fn thread(
    page: &Page,
    chosen: &str,
    letters: &At<Vec<MailSeen>>,
    about: Option<&LetterTask>,
    kind: MailBox,
) -> Markup {
    let subject = letters.it.first().map_or("", |seen| &seen.mail.subject);
    let count = letters.it.len();
    html! {
        div #{ "thread-" (chosen) } data-live {
            @if about.is_some() || count > 1 {
                p.dots.faint {
                    @if let Some(about) = about { span { (title_link(&about.task)) } (task_link(about.task.name())) }
                    @if count > 1 { span { (count) " letters" } }
                }
            }
            h1 { bdi { (subject) } }
            @for seen in &letters.it { (letter(page, seen, seen.mail.id.to_string() == chosen, kind, letters.now)) }
        }
    }
}

pub(super) fn letter(
    page: &Page,
    MailSeen { mail, from_type, .. }: &MailSeen,
    is_chosen: bool,
    kind: MailBox,
    now: Timestamp,
) -> Markup {
    let here = within(&format!("/mail/{}", mail.id), kind);
    html! {
        article.letter id={ "letter-" (mail.id) } class=[is_chosen.then_some("is-chosen")] {
            div.dots {
                (who_named(mail))
                @if let Some(kind) = from_type { span { (kind.as_str()) } }
                @if mail.from.is_some() { span { "to " bdi { (mail.to.as_ref().map_or("people", AgentId::as_str)) } } }
                span { (ago(mail.created_at, now)) }
                (read_mark(mail))
                span.id title=(mail.id) { (short(&mail.id.to_string())) }
            }
            (prose(&mail.body))
            @if page.acts() && mail.read_at.is_none() && mail.to == page.inbox() {
                (read_form(&[mail.id], &here, Some("e")))
            }
        }
    }
}

/// The answer to a letter, where its thread is not open.
pub(super) fn reply_form(page: &Page, original: &Mail, draft: &Draft) -> Markup {
    answer_form(page, original, None, draft)
}

/// The answer to a letter. It is offered to the agent that holds the letter's task now as well.
fn answer_form(page: &Page, original: &Mail, about: Option<&LetterTask>, draft: &Draft) -> Markup {
    let mail = draft.mail.unwrap_or_else(|| MailId(page.engine.fresh_id()));
    let to = original.from.as_ref().map_or("", AgentId::as_str);
    let also = about.and_then(|about| Some((about.task.name(), about.also.as_ref()?)));
    let why = why_not(page, PersonVerb::Write);
    html! {
        section.box {
            h2.box-head { "Answer" }
            form.box-body.stack-tight method="post" action={ "/mail/" (original.id) "/reply" } {
                @if let Some(words) = &draft.fault { (fault(words)) }
                input type="hidden" name="mail" value=(mail);
                label.hidden for="body" { "Text" }
                textarea.input #body name="body" rows="4" required data-key="R" placeholder={ "To " (to) } { (draft.body) }
                @if let Some((task, also)) = also {
                    input type="hidden" name="also_mail" value=(MailId(page.engine.fresh_id()));
                    label.row {
                        input type="checkbox" name="also" value=(also) checked;
                        span { "also to " (actor(also)) ", who holds " (task) " now" }
                    }
                }
                div.row {
                    button.button.button-main data-busy="Sending" disabled[why.is_some()] { span { "Send to " bdi { (to) } } }
                    span.faint { @match &why {
                        Some(why) => (why),
                        None => "The letter then counts as read.",
                    } }
                }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct MailReadForm {
    #[serde(default)]
    next: String,
    /// Other letters of the thread, parted by spaces.
    #[serde(default)]
    also: String,
}

pub(super) async fn read(
    page: Page,
    Path(id): Path<String>,
    Form(form): Form<MailReadForm>,
) -> Response {
    for id in std::iter::once(&*id).chain(form.also.split_whitespace()).take(MAILS_SHOWN) {
        let marked = match id.parse() {
            Ok(id) => page.engine.mail_read(&page.op(), id, page.inbox()).await,
            Err(_) => Err(not_found("no such id")),
        };
        if let Err(error) = marked {
            return page.failure(Screen::Mail, &error).await;
        }
    }
    Redirect::to(inside(&form.next)).into_response()
}

#[derive(Deserialize)]
pub(super) struct Written {
    mail: String,
    #[serde(default)]
    to: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    body: String,
    /// The agent that gets the answer as well, as the form offered it, and the id of its letter.
    #[serde(default)]
    also: String,
    #[serde(default)]
    also_mail: String,
}

impl Written {
    /// The body with plain line feeds: browsers end lines with CRLF.
    fn body(&self) -> String {
        self.body.replace("\r\n", "\n")
    }

    /// The draft to show again when the mail was not sent.
    fn draft(self, error: &EngineError) -> (StatusCode, Draft) {
        let (status, words) = said(error);
        let mail = self.mail.parse().ok();
        let body = self.body();
        (status, Draft { mail, to: self.to, subject: self.subject, body, fault: Some(words) })
    }
}

pub(super) async fn send(page: Page, Form(form): Form<Written>) -> Response {
    let sent = match (form.mail.parse(), AgentId::parse(form.to.trim())) {
        (Ok(mail), Some(to)) => {
            let (subject, body) = (form.subject.clone(), form.body());
            let send = MailSend { mail, from: page.inbox(), to: Some(to), subject, body };
            page.engine.mail_send(&page.op(), send).await
        }
        (Ok(_), None) => Err(Refusal::AgentNotFound { agent: form.to.trim().to_owned() }.into()),
        (Err(_), _) => Err(not_found("no such id")),
    };
    match sent {
        Ok(mail) => Redirect::to(&format!("/mail/{}", mail.id)).into_response(),
        Err(error) => {
            let (status, draft) = form.draft(&error);
            inbox(&page, &MailListRequest::default(), status, draft).await
        }
    }
}

pub(super) async fn reply(
    page: Page,
    Path(id): Path<String>,
    Form(form): Form<Written>,
) -> Response {
    match answered(&page, &id, &form).await {
        Ok(mail) => Redirect::to(&format!("/mail/{}", mail.id)).into_response(),
        Err(error) => {
            let (status, draft) = form.draft(&error);
            one(&page, &id, &MailListRequest::default(), (status, true), draft).await
        }
    }
}

/// Sends a reply, which marks the original as read.
async fn answered(page: &Page, id: &str, form: &Written) -> Result<Mail, EngineError> {
    let (Ok(original), Ok(mail)) = (id.parse(), form.mail.parse()) else {
        return Err(not_found("no such id"));
    };
    let reply = MailReply { mail, original, by: page.inbox(), body: form.body() };
    let sent = page.engine.mail_reply(&page.op(), reply).await?;
    page.engine.mail_read(&page.op(), original, page.inbox()).await?;
    if !form.also.is_empty() {
        pass_on(page, &sent, form).await?;
    }
    Ok(sent)
}

/// Sends the words of an answer to the agent that the form named, if that agent still holds the task. A task that went
/// on to another agent since is not told anything: the person chose whom to tell.
async fn pass_on(page: &Page, sent: &Mail, form: &Written) -> Result<(), EngineError> {
    let op = page.op();
    let mail = form.also_mail.parse().map_err(|_| not_found("no such id"))?;
    let letters = page.engine.mail_thread(&op, sent.id, page.inbox().as_ref()).await?.it;
    let Some(about) = about(page, &letters).await? else { return Ok(()) };
    match about.also.filter(|also| also.as_str() == form.also) {
        Some(also) => {
            let words = (mail, &*sent.subject, form.body());
            page.engine.letter_pass_on(&op, &also, about.task.id, words).await
        }
        None => Ok(()),
    }
}

fn not_found(mail: &str) -> EngineError {
    Refusal::MailNotFound { mail: mail.into() }.into()
}
