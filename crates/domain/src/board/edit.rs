//! The fields of a task as the form of an edit showed them. An edit names them, and an edit of a field that another
//! person has changed since is refused in the transaction.

use std::fmt;
use std::str::FromStr;

use crate::board::card::Card;
use crate::hash::fnv1a;
use crate::ids::TaskId;
use crate::refusal::Refusal;
use crate::task::{Check, CheckKind, Task};

/// The fields that the form of an edit has, as its texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditFields {
    pub title: String,
    pub body: String,
    pub priority: String,
    /// One check a line.
    pub checks: String,
    pub mode: String,
    /// One criterion a line.
    pub criteria: String,
    pub agent: String,
    pub base_branch: String,
    /// The whole id; empty for a task without an epic.
    pub parent: String,
}

impl EditFields {
    pub fn of(task: &Task, card: &Card, body: &str) -> Self {
        let checks: Vec<String> = task.checks.iter().map(check_line).collect();
        Self {
            title: task.title.clone(),
            body: body.to_owned(),
            priority: task.priority.to_string(),
            checks: checks.join("\n"),
            mode: card.mode.as_str().to_owned(),
            criteria: card.criteria.join("\n"),
            agent: card.agent.clone().unwrap_or_default(),
            base_branch: card.base_branch.clone().unwrap_or_default(),
            parent: task.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        }
    }

    /// The fields by the names that the event of an update has.
    pub fn named(&self) -> [(&'static str, &str); 9] {
        [
            ("title", &self.title),
            ("body", &self.body),
            ("priority", &self.priority),
            ("checks", &self.checks),
            ("mode", &self.mode),
            ("criteria", &self.criteria),
            ("agent", &self.agent),
            ("base_branch", &self.base_branch),
            ("parent", &self.parent),
        ]
    }

    /// The names of the fields in which two forms differ. Browsers write the ends of lines anew, and spaces around a text
    /// mean nothing.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        EditMark::of(self).differences(&EditMark::of(other))
    }
}

/// A check as `NewCheck::of_line` reads it.
pub fn check_line(check: &Check) -> String {
    match &check.kind {
        CheckKind::Command { cmd, .. } => cmd.clone(),
        CheckKind::Manual => format!("manual: {}", check.desc),
    }
}

/// A hash of each field, in the order of `EditFields::named`: a form can carry them where the texts are long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditMark([u64; 9]);

impl EditMark {
    pub fn of(fields: &EditFields) -> Self {
        Self(fields.named().map(|(_, text)| hash(text)))
    }

    /// The names of the fields in which two marks differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let names = EditFields::default().named().map(|(name, _)| name);
        let all = names.into_iter().zip(self.0.iter().zip(&other.0));
        all.filter(|(_, (one, other))| one != other).map(|(name, _)| name).collect()
    }

    /// Refuses an edit of fields that changed since the mark was made.
    pub fn judge(&self, task: TaskId, now: &EditFields, edited: &[&str]) -> Result<(), Refusal> {
        let mut fields = self.differences(&Self::of(now));
        fields.retain(|name| edited.contains(name));
        match fields.is_empty() {
            true => Ok(()),
            false => Err(Refusal::TaskChanged { task, fields }),
        }
    }
}

/// The hash of a text without carriage returns and without space around it. A form that was made up loses nothing but
/// its own warning.
fn hash(text: &str) -> u64 {
    fnv1a(text.trim().bytes().filter(|byte| *byte != b'\r'))
}

/// As a form carries it: the hashes as hexadecimal numbers, with points between them.
impl fmt::Display for EditMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hashes = self.0.map(|hash| format!("{hash:x}"));
        f.write_str(&hashes.join("."))
    }
}

impl FromStr for EditMark {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let hashes: Result<Vec<u64>, _> =
            text.split('.').map(|hash| u64::from_str_radix(hash, 16)).collect();
        let hashes = hashes.ok().and_then(|hashes| hashes.try_into().ok());
        hashes.map(Self).ok_or_else(|| {
            Refusal::invalid_field("shown", "shown is no mark of a form; open the task again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Id, Prefix};

    fn fields(title: &str, body: &str) -> EditFields {
        EditFields { title: title.into(), body: body.into(), ..EditFields::default() }
    }

    /// What the form showed, what stands now, which fields are edited, and which of them are refused.
    #[test]
    fn an_edit_of_a_field_that_changed_since_is_refused() {
        let task = TaskId { prefix: Prefix::fallback(), id: Id(1) };
        let shown = fields("A", "one\ntwo");
        for (now, edited, refused) in [
            (fields("A", "one\ntwo"), &["title", "body"][..], &[][..]),
            (fields(" A ", "one\r\ntwo\n"), &["title", "body"], &[]),
            (fields("B", "one\ntwo"), &["body"], &[]),
            (fields("B", "one\ntwo"), &["title", "body"], &["title"]),
            (fields("B", "three"), &["title", "body"], &["title", "body"]),
            (fields("B", "three"), &["priority"], &[]),
        ] {
            let mark = EditMark::of(&shown);
            assert_eq!(mark.to_string().parse(), Ok(mark));
            let expected = match refused {
                [] => Ok(()),
                fields => Err(Refusal::TaskChanged { task, fields: fields.to_vec() }),
            };
            assert_eq!(mark.judge(task, &now, edited), expected, "{now:?} {edited:?}");
        }
    }

    #[test]
    fn a_mark_that_no_form_made_is_refused_by_its_field() {
        for text in ["", "1.2", "1.2.3.4.5.6.7.8.9.a", "x.2.3.4.5.6.7.8.9"] {
            match text.parse::<EditMark>() {
                Err(Refusal::InvalidInput { field, .. }) => {
                    assert_eq!(field.as_deref(), Some("shown"))
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
