//! Mail from one agent of a crew to another, or to people.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::AgentId;
use crate::ids::{Id, IdError, IdKind};
use crate::time::Timestamp;

pub const SUBJECT_CHARS_MAX: usize = 200;
pub const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailId(pub Id);

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
}

/// The subject of a reply.
pub fn reply_subject(subject: &str) -> String {
    let starts = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    let answer = if starts { subject.to_owned() } else { format!("Re: {subject}") };
    answer.chars().take(SUBJECT_CHARS_MAX).collect()
}

impl fmt::Display for MailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", IdKind::Mail.sign(), self.0)
    }
}

impl fmt::Debug for MailId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MailId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        text.strip_prefix(IdKind::Mail.sign()).and_then(Id::parse).map(Self).ok_or(IdError::Foreign)
    }
}

impl Serialize for MailId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MailId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a mail id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
