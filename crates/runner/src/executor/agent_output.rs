//! The transcript of an agent's session, within bounds: an agent that talks without end costs no more memory than the
//! settings allow.

use std::collections::VecDeque;
use std::sync::Arc;

use callboard_domain::runs::notes::SessionNote;
use serde_json::{Value, json};

use super::acp::{command_in, one_line};
use crate::printed::Printed;
use crate::run_log::text_of;
use crate::tail::Tail;

/// How much of the beginning of a transcript is kept when it exceeds the cap.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many tool calls a request for permission may refer to.
const TOOLS_MAX: usize = 1000;
/// The size of one tool call. A larger one counts as reaching outside.
const TOOL_BYTES_MAX: usize = 64 * 1024;
/// The size of an id that an agent gives a tool call.
const ID_BYTES_MAX: usize = 1000;

/// A text within bounds, and whether its last line is unfinished.
struct Text {
    kept: Tail,
    is_in_line: bool,
}

impl Text {
    fn new(head_bytes_max: usize, bytes_max: usize) -> Self {
        Self { kept: Tail::with_head(head_bytes_max, bytes_max), is_in_line: false }
    }

    fn push(&mut self, text: &str) {
        if let Some(last) = text.bytes().last() {
            self.kept.push(text.as_bytes());
            self.is_in_line = last != b'\n';
        }
    }
}

pub(super) struct AgentOutput {
    /// The agent's text. An answer that exceeds the cap keeps its end, as a program's output does.
    text: Text,
    /// The agent's text and its tool calls.
    transcript: Text,
    /// Tool calls by id with their last known state, the newest last: a request for permission may leave out facts that
    /// were reported before.
    tools: VecDeque<(String, Value)>,
    /// Readers of the live output.
    printed: Option<Arc<Printed>>,
}

impl AgentOutput {
    pub(super) fn new(bytes_max: usize, printed: Option<Arc<Printed>>) -> Self {
        Self {
            text: Text::new(0, bytes_max),
            transcript: Text::new(HEAD_BYTES_MAX, bytes_max),
            tools: VecDeque::new(),
            printed,
        }
    }

    /// Takes the agent's text.
    pub(super) fn answer(&mut self) -> String {
        let text = std::mem::replace(&mut self.text, Text::new(0, 0));
        String::from_utf8_lossy(&text.kept.ends().last()).into_owned()
    }

    pub(super) fn transcript(self) -> String {
        text_of(&self.transcript.kept.ends())
    }

    /// Adds a line of our own to the transcript.
    pub(super) fn note(&mut self, note: SessionNote, words: &str) {
        if self.transcript.is_in_line {
            self.write("\n");
        }
        self.write(&format!("{}{words}\n", note.as_str()));
    }

    /// Ends the current line, so that the agent's next text begins on a new one.
    pub(super) fn end_line(&mut self) {
        if self.text.is_in_line {
            self.text.push("\n");
        }
    }

    fn write(&mut self, words: &str) {
        self.transcript.push(words);
        if let Some(printed) = &self.printed {
            printed.push(words.as_bytes());
        }
    }

    /// The known facts of a tool call.
    pub(super) fn tool(&self, id: &str) -> Value {
        let known = self.tools.iter().rev().find(|(known, _)| known == id);
        known.map(|(_, tool)| tool.clone()).unwrap_or_default()
    }

    pub(super) fn update(&mut self, update: &Value) {
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => {
                let chunk = update["content"]["text"].as_str().unwrap_or_default();
                self.text.push(chunk);
                self.write(chunk);
            }
            "tool_call" => {
                self.end_line();
                self.note(SessionNote::Tool, &one_line(&update["title"]));
                let id = update["toolCallId"].as_str().unwrap_or_default();
                if self.tools.len() >= TOOLS_MAX {
                    self.tools.pop_front();
                }
                if id.len() <= ID_BYTES_MAX {
                    self.tools.push_back((id.to_owned(), bounded(&Value::Null, update)));
                }
            }
            "tool_call_update" => {
                let id = update["toolCallId"].as_str().unwrap_or_default();
                let known = self.tools.iter_mut().rev().find(|(known, _)| known == id);
                let Some((_, tool)) = known else { return };
                let title = one_line(&update["title"]);
                let is_news = update["title"].is_string() && title != one_line(&tool["title"]);
                *tool = bounded(tool, update);
                // Some agents name their tool call only in an update.
                if is_news {
                    self.note(SessionNote::Tool, &title);
                }
            }
            _ => {}
        }
    }
}

/// A tool call after an update, reduced to the facts by which a request for permission is judged.
fn bounded(known: &Value, update: &Value) -> Value {
    let paths = |items: &Value| -> Value {
        let items = items.as_array().into_iter().flatten();
        items.filter_map(|item| item["path"].as_str()).map(|path| json!({"path": path})).collect()
    };
    let part = |name: &str, read: &dyn Fn(&Value) -> Value| match &update[name] {
        Value::Null => known[name].clone(),
        given => read(given),
    };
    let tool = json!({
        "title": part("title", &|title| one_line(title).into()),
        "kind": part("kind", &Value::clone),
        "rawInput": part("rawInput", &|input| json!({"command": command_in(input)})),
        "locations": part("locations", &paths),
        "content": part("content", &paths),
    });
    match tool.to_string().len() {
        0..=TOOL_BYTES_MAX => tool,
        _ => json!({"title": tool["title"], "kind": "other", "locations": [{"path": ".."}]}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"text": text}})
    }

    #[test]
    fn what_is_kept_of_an_endless_agent_is_bounded() {
        let mut heard = AgentOutput::new(1000, None);
        heard.update(&chunk("the beginning\n"));
        for n in 0..20_000 {
            heard.update(&chunk(&"x".repeat(100)));
            let content = json!([{"path": "a.txt", "newText": "y".repeat(200)}]);
            heard.update(&json!({
                "sessionUpdate": "tool_call", "toolCallId": n.to_string(), "title": "Edit",
                "content": content, "rawInput": {"command": "ls", "more": "z".repeat(200)}
            }));
        }
        heard.update(&chunk("the end"));
        let tools: usize = heard.tools.iter().map(|(_, tool)| tool.to_string().len()).sum();
        assert!(
            heard.tools.len() <= TOOLS_MAX && tools < TOOLS_MAX * 200,
            "{tools} bytes of tools"
        );
        assert_eq!(heard.tool("19999")["content"], json!([{"path": "a.txt"}]));
        assert_eq!(heard.tool("0"), Value::Null);
        let answer = heard.answer();
        assert!(answer.len() == 1000 && answer.ends_with("the end"), "{answer}");
        let transcript = heard.transcript();
        assert!(transcript.starts_with("the beginning\n") && transcript.ends_with("the end"));
        assert!(transcript.len() < HEAD_BYTES_MAX + 2000, "{} bytes", transcript.len());
    }

    #[test]
    fn a_tool_call_that_is_too_large_is_not_taken_for_harmless() {
        let mut heard = AgentOutput::new(1000, None);
        let paths: Vec<Value> = (0..10_000).map(|n| json!({"path": format!("{n:0>10}")})).collect();
        heard.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", "locations": paths
        }));
        let tool = heard.tool("t");
        assert_eq!((&tool["kind"], &tool["locations"][0]["path"]), (&json!("other"), &json!("..")));
    }
}
