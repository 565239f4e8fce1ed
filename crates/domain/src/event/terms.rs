//! The conditions of a reader of the log.

use super::EventName;
use crate::ids::TaskId;
use crate::time::Timestamp;

/// Conditions on events. An event fits when every condition holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTerms {
    /// Actors, each with its kind (`agent:claude-1`) or without.
    pub actors: Vec<EventTerm>,
    /// Names of events, or their beginnings: `task.` fits every event of tasks.
    pub verbs: Vec<EventTerm>,
    /// Texts in the actor, the event's name or the task's title.
    pub words: Vec<EventTerm>,
    pub task: Option<TaskId>,
    pub since: Option<Timestamp>,
}

/// One text of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTerm {
    /// Events that fit the text are left out.
    pub is_not: bool,
    pub text: String,
}

impl EventTerms {
    /// The names that fit. Renewals fit only a verb that asks for them.
    pub fn names(&self) -> Vec<EventName> {
        let asks = self.verbs.iter().any(|verb| !verb.is_not);
        let fits = |name: &EventName| {
            let each = |verb: &EventTerm| name.as_str().starts_with(&verb.text) != verb.is_not;
            self.verbs.iter().all(each) && (asks || !name.is_renewal())
        };
        EventName::ALL.iter().copied().filter(fits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_choose_the_names_of_events() {
        let table = [
            ("mail.", "mail.sent mail.read"),
            ("mail. -mail.read", "mail.sent"),
            ("attempt.h", "attempt.heartbeat"),
            ("attempt. -attempt.heartbeat -attempt.started", "attempt.ended attempt.expired"),
            ("nothing", ""),
        ];
        for (verbs, names) in table {
            let term = |text: &str| EventTerm {
                is_not: text.starts_with('-'),
                text: text.trim_start_matches('-').to_owned(),
            };
            let terms =
                EventTerms { verbs: verbs.split(' ').map(term).collect(), ..EventTerms::default() };
            let found: Vec<&str> = terms.names().into_iter().map(EventName::as_str).collect();
            assert_eq!(found.join(" "), names, "{verbs}");
        }
        let every = EventTerms::default().names();
        assert_eq!(every.len(), EventName::ALL.len() - 2, "renewals are left out");
    }
}
