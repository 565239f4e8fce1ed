//! Short names instead of ids, in text for people.

use std::sync::Arc;

use callboard_domain::ids::{TaskId, TaskName};
use callboard_engine::Engine;
use callboard_engine::context::{OpContext, Principal};

use super::context::Open;

/// Looks up the short names of tasks for one command.
#[derive(Clone)]
pub struct Names {
    engine: Arc<Engine>,
    principal: Principal,
}

impl Open {
    pub fn names(&self) -> Names {
        Names { engine: self.engine().clone(), principal: self.principal.clone() }
    }
}

impl Names {
    /// The text with names for the ids of tasks. An id without a task stays, and so does an id that is part of a path.
    pub async fn in_text(&self, text: &str) -> String {
        let (mut named, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, id, after)) = next_id(rest) {
            named.push_str(before);
            match self.of(id).await {
                Some(name) => named.push_str(&name.to_string()),
                None => named.push_str(&id.to_string()),
            }
            rest = after;
        }
        named + rest
    }

    async fn of(&self, id: TaskId) -> Option<TaskName> {
        let op = OpContext::new(self.principal.clone(), "get");
        self.engine.task_get(&op, id).await.ok().map(|seen| seen.it.task.name())
    }
}

/// The first id in a text, with the text before it and the text after it.
fn next_id(text: &str) -> Option<(&str, TaskId, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_/.".contains(c);
    let mut from = 0;
    for word in text.split(|c| !is_part(c)) {
        let start = from;
        from += word.len() + text[from + word.len()..].chars().next().map_or(0, char::len_utf8);
        // The full stop of a sentence is no part of the id.
        let bare = word.trim_end_matches('.');
        if let Ok(id) = bare.parse() {
            return Some((&text[..start], id, &text[start + bare.len()..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::next_id;

    #[test]
    fn ids_are_matched_as_whole_words() {
        let id = "SHOP-00000000000000000000000001";
        for (text, found) in [
            (format!("'{id}' waits"), Some(("'", "' waits"))),
            (format!("é {id}."), Some(("é ", "."))),
            (format!("runs/{id}.log, then {id}"), Some((&*format!("runs/{id}.log, then "), ""))),
            (format!("in worktrees/{id}/a"), None),
            (format!("{id}-20261117.log"), None),
            ("SHOP-3 job_00000000000000000000000003".to_owned(), None),
        ] {
            let around = next_id(&text).map(|(before, _, after)| (before, after));
            assert_eq!(around, found, "{text}");
        }
    }
}
