//! The task that a letter is about, and who besides its writer should hear an answer.

use super::AgentId;
use crate::actor::Actor;
use crate::ids::TaskName;

/// How many names of a text are looked up. Words such as `UTF-8` have the form of a name, too.
const NAMES_MAX: usize = 8;

/// Words in the form of a task's short name, in the order of the text, each once.
pub fn task_names(text: &str) -> Vec<TaskName> {
    let mut names = Vec::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_') {
        if let Some(name) = TaskName::parse(word)
            && !names.contains(&name)
        {
            names.push(name);
        }
        if names.len() == NAMES_MAX {
            break;
        }
    }
    names
}

/// The agent that an answer is offered to besides the writer of the letter: the holder of the letter's task now. The
/// writer gets the answer anyway, and people write no letters to each other here.
pub fn also_hears<'h>(writer: Option<&AgentId>, holder: Option<&'h Actor>) -> Option<&'h Actor> {
    holder.filter(|holder| !holder.is_human() && writer != Some(&AgentId::of(holder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tasks_are_found_between_other_words() {
        for (text, names) in [
            ("", ""),
            ("Which zone in LAN-12?", "LAN-12"),
            ("(LAN-12), lan-3: LAN-12 again", "LAN-12 lan-3"),
            ("UTF-8 and LAN-4", "UTF-8 LAN-4"),
            ("LAN-012 LAN- -7 LAN-1x", ""),
            ("A-1 A-2 A-3 A-4 A-5 A-6 A-7 A-8 A-9", "A-1 A-2 A-3 A-4 A-5 A-6 A-7 A-8"),
        ] {
            let found: Vec<String> = task_names(text).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), names, "{text}");
        }
    }

    #[test]
    fn an_answer_is_offered_to_an_agent_that_took_the_task_over() {
        for (writer, holder, also) in [
            (Some("ada"), Some("agent:eve"), Some("agent:eve")),
            (Some("ada"), Some("agent:ada"), None),
            (Some("ada"), Some("human:jo"), None),
            (Some("ada"), None, None),
            (None, Some("agent:eve"), Some("agent:eve")),
        ] {
            let writer = writer.map(|name| AgentId::parse(name).expect("a name"));
            let holder: Option<Actor> = holder.map(|actor| actor.parse().expect("an actor"));
            let found = also_hears(writer.as_ref(), holder.as_ref());
            assert_eq!(found.map(Actor::as_str), also, "{writer:?} {holder:?}");
        }
    }
}
