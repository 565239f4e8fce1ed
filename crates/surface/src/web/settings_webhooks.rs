//! The newest messages to webhooks: what each was about, how its last try ended, and a button that sends it again.

use callboard_domain::runs::delivery::{Delivery, delivery_word, destination};
use callboard_domain::runs::job::{Job, JobState};
use callboard_domain::time::Timestamp;
use maud::{Markup, html};

use super::Page;
use super::parts::{Tone, ago, icon, tag};
use super::settings::section;

pub(super) const DELIVERIES_SHOWN: usize = 100;

pub(super) fn webhooks(page: &Page, deliveries: &[(Job, Delivery)], now: Timestamp) -> Markup {
    let may = page.acts() && page.is_admin();
    let body = html! {
        @if deliveries.is_empty() {
            p.box-body.soft { "No message was sent yet. " code { "relay.webhook_default" } " is told of the end of jobs, " code { "crew.webhook" } " of mail and new tasks." }
        } @else {
            table.table {
                thead { tr {
                    th scope="col" { "About" } th scope="col" { "To" } th scope="col" { "State" }
                    th scope="col" { "Last try" } th scope="col" { span.hidden { "Verbs" } }
                } }
                tbody #deliveries data-live data-rows {
                    @for (job, letter) in deliveries { (delivery(job, letter, may, now)) }
                }
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
