//! Prompts that a project wrote for itself: texts that replace the usual ones.

use super::moment::Moment;

/// The size of one text.
/// A prompt is sent to the model as a whole.
pub const OWN_BYTES_MAX: usize = 32 * 1024;

/// Texts by the name of the prompt they replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPrompts(Vec<(&'static str, String)>);

impl OwnPrompts {
    pub fn new(texts: Vec<(&'static str, String)>) -> Self {
        Self(texts)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, text)| text.as_str())
    }
}

/// Fills a project's text with the facts: `{task}`, `{actor}`, `{role}`, `{review}`, `{goal}`, and `{usual}` for the
/// text it replaces. One pass: a title that holds `{usual}` is not filled in.
pub(super) fn filled(own: &str, moment: &Moment, usual: &str) -> String {
    let mut text = String::with_capacity(own.len());
    let mut rest = own;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after
            .split_once('}')
            .and_then(|(name, left)| Some((fact(name, moment, usual)?, left)))
        {
            Some((fact, left)) => {
                text.push_str(&fact);
                rest = left;
            }
            None => {
                // A brace that opens no known fact is text: prompts may hold JSON.
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// The text for a name in braces; `None` for a name that is no fact.
fn fact(name: &str, moment: &Moment, usual: &str) -> Option<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".into());
    Some(match name {
        "task" => or_none(moment.task_or_next().map(|task| task.to_string())),
        "actor" => moment.actor.to_string(),
        "role" => or_none(moment.role.map(|role| role.as_str().to_owned())),
        "goal" => or_none(moment.goal.clone()),
        "review" => moment.queue().unwrap_or_else(|none| none),
        "usual" => usual.to_owned(),
        _ => return None,
    })
}
