//! Lines in the server's log about commits of this process: recipient and subject of each mail, never its body.

use callboard_domain::event::{EventName, LoggedEvent};

pub(crate) fn committed(events: &[LoggedEvent]) {
    for LoggedEvent { data, .. } in events.iter().filter(|event| event.name == EventName::MailSent)
    {
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        tracing::info!(
            mailId = text("mailId"),
            toAgentId = data["toAgentId"].as_str(),
            isForHuman = data["isForHuman"].as_bool(),
            subject = text("subject"),
            "mail.sent"
        );
    }
}
