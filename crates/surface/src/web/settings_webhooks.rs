//! The newest messages to webhooks: what each was about, how its last try ended, and a button that sends it again.

use callboard_domain::refusal::Refusal;
use callboard_domain::runs::delivery::{Delivery, delivery_word, destination};
use callboard_domain::runs::job::{Job, JobId, JobState};
use callboard_domain::time::Timestamp;
use callboard_engine::EngineError;
use maud::{Markup, html};

use super::Page;
use super::parts::{Tone, ago, icon, tag};
use super::settings::section;

const DELIVERIES_SHOWN: usize = 100;

/// A page of messages.
pub(super) struct Deliveries {
    list: Vec<(Job, Delivery)>,
    /// The last message of the page, when there are older ones.
    next: Option<JobId>,
    is_older: bool,
}

impl Deliveries {
    /// The newest messages, or those behind the one that the address names.
    pub async fn read(page: &Page, before: &str) -> Result<Self, EngineError> {
        let (engine, op) = (&page.engine, page.op());
        let unknown = || EngineError::from(Refusal::JobNotFound { job: "no such message".into() });
        let before: Option<JobId> = match before.trim() {
            "" => None,
            id => Some(id.parse().map_err(|_| unknown())?),
        };
        let limit = DELIVERIES_SHOWN + 1;
        let mut list = match before {
            None => engine.delivery_list(&op, limit).await?,
            Some(job) => engine.delivery_list_below(&op, job, limit).await?,
        };
        let more = list.len() > DELIVERIES_SHOWN;
        list.truncate(DELIVERIES_SHOWN);
        let next = list.last().filter(|_| more).map(|(job, _)| job.id);
        Ok(Self { list, next, is_older: before.is_some() })
    }
}

pub(super) fn webhooks(page: &Page, deliveries: &Deliveries, now: Timestamp) -> Markup {
    let may = page.acts() && page.is_admin();
    let Deliveries { list, next, is_older } = deliveries;
    let body = html! {
        @if *is_older { p.box-body { a href="/settings#webhooks" { "The newest messages" } } }
        @if list.is_empty() && !is_older {
            p.box-body.soft { "No message was sent yet. " code { "relay.webhook_default" } " is told of the end of jobs, " code { "crew.webhook" } " of mail and new tasks." }
        } @else {
            // An older page does not change.
            table.table {
                thead { tr {
                    th scope="col" { "About" } th scope="col" { "To" } th scope="col" { "State" }
                    th scope="col" { "Last try" } th scope="col" { span.hidden { "Verbs" } }
                } }
                tbody #deliveries data-live[!is_older] data-rows {
                    @for (job, letter) in list { (delivery(job, letter, may, now)) }
                }
            }
            @if let Some(next) = next {
                p.box-body { a href={ "/settings?before=" (next) "#webhooks" } { "Older messages" } }
            }
        }
    };
    let about = html! { "the newest " (DELIVERIES_SHOWN) " messages; " code { "callboard webhook secret" } " prints the key" };
    section("webhooks", "Webhooks", &about, &body)
}

fn delivery(job: &Job, letter: &Delivery, may: bool, now: Timestamp) -> Markup {
    let tone = match &job.state {
        JobState::Queued { .. } => Tone::Plain,
        JobState::Running { .. } | JobState::Stale { .. } => Tone::Now,
        JobState::Done { .. } => Tone::Proved,
        JobState::Failed { .. } | JobState::Canceled { .. } | JobState::Expired { .. } => {
            Tone::Failed
        }
    };
    html! {
        tr #{ "delivery-" (job.id) } {
            td { (letter.kind) " " code.faint { (letter.about) } }
            td { bdi { (destination(&letter.url)) } }
            td { (tag(tone, delivery_word(&job.state))) " " span.faint { (job.tries) @if job.tries == 1 { " try" } @else { " tries" } } }
            td { @if let Some(tried) = &letter.tried { bdi { (tried.outcome) } ", " (ago(tried.at, now)) } }
            td { @if may {
                form method="post" action={ "/settings/redeliver/" (job.id) } {
                    button.button.button-small data-busy="Sending" { (icon("again")) "Send again" }
                }
            } }
        }
    }
}
