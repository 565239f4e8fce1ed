//! Mail from one agent of a crew to another, or to people.

use serde::{Deserialize, Serialize};

use super::AgentId;
use crate::ids::{IdKind, id};
use crate::refusal::Refusal;
use crate::time::Timestamp;

pub const SUBJECT_CHARS_MAX: usize = 200;
pub const BODY_BYTES_MAX: usize = 64 * 1024;

id!(MailId, IdKind::Mail.sign(), "not a mail id");

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    pub id: MailId,
    /// `None`: a person, or the server itself.
    pub from: Option<AgentId>,
    /// `None`: people.
    pub to: Option<AgentId>,
    pub subject: String,
    pub body: String,
    pub in_reply_to: Option<MailId>,
    pub created_at: Timestamp,
    /// When the recipient first read it.
    pub read_at: Option<Timestamp>,
}

impl Mail {
    /// Whether `who` sent or received the mail; `None`: people.
    pub fn is_between(&self, who: Option<&AgentId>) -> bool {
        self.to.as_ref() == who || self.from.as_ref() == who
    }

    /// Refuses a reader that neither sent nor received the mail; `None`: people.
    pub fn judge_reader(&self, who: Option<&AgentId>) -> Result<(), Refusal> {
        match self.is_between(who) {
            true => Ok(()),
            false => Err(Refusal::MailOfAnother { mail: self.id }),
        }
    }
}

/// The subject of a reply.
pub fn reply_subject(subject: &str) -> String {
    let starts = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    let answer = if starts { subject.to_owned() } else { format!("Re: {subject}") };
    answer.chars().take(SUBJECT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

    #[test]
    fn a_mail_is_for_those_who_wrote_or_got_it() {
        let agent = |name: &str| AgentId::parse(name).expect("a name");
        let mail = |from: Option<&str>, to: Option<&str>| Mail {
            id: MailId(Id(1)),
            from: from.map(agent),
            to: to.map(agent),
            subject: String::new(),
            body: String::new(),
            in_reply_to: None,
            created_at: Timestamp(0),
            read_at: None,
        };
        let (a, b, c) = (agent("a"), agent("b"), agent("c"));
        for (mail, theirs, others) in [
            (mail(Some("a"), Some("b")), [Some(&a), Some(&b)], [Some(&c), None]),
            (mail(Some("a"), None), [Some(&a), None], [Some(&b), Some(&c)]),
            (mail(None, Some("b")), [None, Some(&b)], [Some(&a), Some(&c)]),
        ] {
            assert!(theirs.into_iter().all(|who| mail.is_between(who)), "{mail:?}");
            assert!(!others.into_iter().any(|who| mail.is_between(who)), "{mail:?}");
        }
    }

    #[test]
    fn an_answer_says_so_once() {
        for (subject, answer) in [
            ("Help", "Re: Help"),
            ("Re: Help", "Re: Help"),
            ("RE: Help", "RE: Help"),
            ("Recipe", "Re: Recipe"),
            ("é", "Re: é"),
        ] {
            assert_eq!(reply_subject(subject), answer);
        }
        assert_eq!(reply_subject(&"x".repeat(200)).chars().count(), SUBJECT_CHARS_MAX);
    }
}
