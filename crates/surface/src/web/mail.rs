//! Mail on the board: mail from agents to people, and replies. An agent that signs in has its own inbox. Opening a mail
//! does not mark it as read; a button or a reply does.

use axum::Form;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use callboard_domain::command::{MailReply, MailSend};
use callboard_domain::crew::{AgentId, Mail, MailId};
use callboard_domain::refusal::Refusal;
use callboard_engine::store::MailSeen;
use callboard_engine::{EngineError, MailFilter, MailPage};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Page, Tab, inside, said, time};

const MAILS_SHOWN: usize = 50;
const EXCERPT_CHARS: usize = 200;

#[derive(Default, Deserialize)]
pub(super) struct MailListRequest {
    /// Whether read mail is listed too.
    all: Option<String>,
    before: Option<String>,
    /// The recipient of a new mail.
    to: Option<String>,
}

/// A mail that was not sent yet, with the reason.
#[derive(Default)]
struct Draft {
    mail: Option<MailId>,
    to: String,
    subject: String,
    body: String,
    fault: Option<String>,
}

pub(super) async fn list(page: Page, Query(asked): Query<MailListRequest>) -> Response {
    let to = asked.to.clone().unwrap_or_default();
    inbox(&page, &asked, StatusCode::OK, Draft { to, ..Draft::default() }).await
}

async fn inbox(page: &Page, asked: &MailListRequest, status: StatusCode, draft: Draft) -> Response {
    let all = asked.all.is_some();
    let before = match asked.before.as_deref().map(str::parse::<MailId>) {
        None => None,
        Some(Ok(before)) => Some(before),
        Some(Err(_)) => return page.failure(Tab::Mail, &not_found("no such id")).await,
    };
    let (to, limit) = (page.inbox(), MAILS_SHOWN);
    let filter = MailFilter { to, include_read: all, before, limit };
    match page.engine.mail_list(&page.op(), filter).await {
        Ok(found) => {
            let content = html! {
                (views(all))
                (mails(page, &found, all, before.is_some()))
                @if page.acts() { (write_form(page, &draft)) }
            };
            page.answer(Tab::Mail, status, Tab::Mail.title(), &content).await
        }
        Err(error) => page.failure(Tab::Mail, &error).await,
    }
}

fn views(all: bool) -> Markup {
    let current = |is: bool| is.then_some("page");
    html! {
        nav.views aria-label="Which mail" {
            a href="/mail" aria-current=[current(!all)] { "Unread" }
            a href="/mail?all=1" aria-current=[current(all)] { "All" }
        }
    }
}

fn mails(page: &Page, found: &MailPage, all: bool, is_later: bool) -> Markup {
    let here = if all { "/mail?all=1" } else { "/mail" };
    let older = if all { "/mail?all=1&before=" } else { "/mail?before=" };
    let last = found.mails.last().filter(|_| found.more);
    html! {
        div #mails data-live {
            @if found.mails.is_empty() {
                p { @match (is_later, all) {
                    (true, _) => "No older mail.",
                    (false, true) => "No mail yet.",
                    (false, false) => "No unread mail.",
                } }
            }
            ul.rows { @for seen in &found.mails { (mail_item(page, seen, here)) } }
            @if let Some(MailSeen { mail, .. }) = last {
                p { a href={ (older) (mail.id) } { "Older mail" } }
            }
        }
    }
}

fn mail_item(page: &Page, MailSeen { mail, .. }: &MailSeen, here: &str) -> Markup {
    let excerpt: String = mail.body.chars().take(EXCERPT_CHARS).collect();
    html! {
        li {
            a.title href={ "/mail/" (mail.id) } { bdi { (mail.subject) } }
            p.facts {
                (read_mark(mail)) " from " (sender(mail)) " " (time(mail.created_at)) " "
                @if page.acts() && mail.read_at.is_none() { (read_form(mail.id, here)) }
            }
            p.excerpt { bdi { (excerpt) } @if excerpt.len() < mail.body.len() { "…" } }
        }
    }
}

/// A word and a glyph, so that nothing depends on colour.
fn read_mark(mail: &Mail) -> Markup {
    html! { @match mail.read_at {
        None => span.working { "● unread" },
        Some(_) => span { "○ read" },
    } }
}

fn read_form(mail: MailId, next: &str) -> Markup {
    html! {
        form.inline method="post" action={ "/mail/" (mail) "/read" } {
            input type="hidden" name="next" value=(next);
            button { "Mark as read" }
        }
    }
}

fn sender(mail: &Mail) -> Markup {
    html! { span.who { @match &mail.from { Some(from) => (from), None => "people" } } }
}

fn write_form(page: &Page, draft: &Draft) -> Markup {
    let mail = draft.mail.unwrap_or_else(|| MailId(page.engine.fresh_id()));
    html! {
        h2 #write { "Write to an agent" }
        @if let Some(words) = &draft.fault { p.fail role="alert" { (words) } }
        form.letter method="post" action="/mail" {
            // Idempotent: a form that is sent twice creates one mail.
            input type="hidden" name="mail" value=(mail);
            label for="to" { "To" }
            input #to name="to" required autocomplete="off" value=(draft.to);
            label for="subject" { "Subject" }
            input #subject name="subject" required maxlength="200" autocomplete="off"
                value=(draft.subject);
            label for="body" { "Text" }
            textarea #body name="body" rows="6" required { (draft.body) }
            button { "Send" }
        }
    }
}

pub(super) async fn show(page: Page, Path(id): Path<String>) -> Response {
    one(&page, &id, StatusCode::OK, Draft::default()).await
}

async fn one(page: &Page, id: &str, status: StatusCode, draft: Draft) -> Response {
    let found = match id.parse() {
        Ok(id) => page.engine.mail_get(&page.op(), id, page.inbox().as_ref()).await,
        Err(_) => Err(not_found("no such id")),
    };
    match found {
        Ok(seen) => {
            let content = html! {
                (letter(page, &seen))
                @if page.acts() && seen.mail.to == page.inbox() && seen.mail.from.is_some() {
                    (reply_form(page, seen.mail.id, &draft))
                }
            };
            page.answer(Tab::Mail, status, &seen.mail.subject, &content).await
        }
        Err(error) => page.failure(Tab::Mail, &error).await,
    }
}

fn letter(page: &Page, MailSeen { mail, from_type, .. }: &MailSeen) -> Markup {
    let to = mail.to.as_ref().map_or("people", AgentId::as_str);
    let here = format!("/mail/{}", mail.id);
    html! {
        div #letter data-live {
            p.facts { (read_mark(mail)) " " code.id { (mail.id) } }
            dl {
                dt { "From" }
                dd { (sender(mail)) @if let Some(kind) = from_type { " (" (kind.as_str()) ")" } }
                dt { "To" } dd { (to) }
                dt { "Sent" } dd { (time(mail.created_at)) }
                @if let Some(at) = mail.read_at { dt { "Read" } dd { (time(at)) } }
                @if let Some(original) = mail.in_reply_to {
                    dt { "Answers" } dd { a href={ "/mail/" (original) } { code { (original) } } }
                }
            }
            @if page.acts() && mail.read_at.is_none() && mail.to == page.inbox() {
                (read_form(mail.id, &here))
            }
            pre { (mail.body) }
        }
    }
}

fn reply_form(page: &Page, original: MailId, draft: &Draft) -> Markup {
    let mail = draft.mail.unwrap_or_else(|| MailId(page.engine.fresh_id()));
    html! {
        h2 { "Answer" }
        @if let Some(words) = &draft.fault { p.fail role="alert" { (words) } }
        form.letter method="post" action={ "/mail/" (original) "/reply" } {
            input type="hidden" name="mail" value=(mail);
            label for="body" { "Text" }
            textarea #body name="body" rows="6" required { (draft.body) }
            button { "Send the answer" }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct MailReadForm {
    #[serde(default)]
    next: String,
}

pub(super) async fn read(
    page: Page,
    Path(id): Path<String>,
    Form(form): Form<MailReadForm>,
) -> Response {
    let marked = match id.parse() {
        Ok(id) => page.engine.mail_read(&page.op(), id, page.inbox()).await,
        Err(_) => Err(not_found("no such id")),
    };
    match marked {
        Ok(_) => Redirect::to(inside(&form.next)).into_response(),
        Err(error) => page.failure(Tab::Mail, &error).await,
    }
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
            one(&page, &id, status, draft).await
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
    Ok(sent)
}

fn not_found(mail: &str) -> EngineError {
    Refusal::MailNotFound { mail: mail.into() }.into()
}
