//! Lines in the server's log about commits of this process: recipient and subject of each mail, never its body.

use callboard_domain::event::{EventName, LoggedEvent};

/// Called after the commit, so that no line speaks of a mail that was rolled back. The keys are those of the event.
pub(crate) fn committed(events: &[LoggedEvent]) {
    for event in events.iter().filter(|event| event.name == EventName::MailSent) {
        let data = event.read();
        tracing::info!(
            mailId = data.mail().map(|mail| mail.to_string()).unwrap_or_default(),
            toAgentId = data.mail_to(),
            isForHuman = data.is_for_human(),
            subject = data.subject().unwrap_or_default(),
            "mail.sent"
        );
    }
}
