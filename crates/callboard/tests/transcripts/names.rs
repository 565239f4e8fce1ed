//! Short names for ids, times, trees and log files: readable, and equal in every run. Names are given in the order of
//! first appearance.

use serde_json::Value;

/// When every transcript begins: 2026-01-01T00:00:00Z, in microseconds.
pub const START: i64 = 1_767_225_600_000_000;

#[derive(Default)]
pub struct Names {
    tasks: Vec<String>,
    attempts: Vec<String>,
    hashes: Vec<String>,
    logs: Vec<String>,
    comments: Vec<String>,
    jobs: Vec<String>,
    knowledge: Vec<String>,
    plans: Vec<String>,
    messages: Vec<String>,
    mails: Vec<String>,
    decisions: Vec<String>,
}

impl Names {
    /// From the server's text to the reader's.
    pub fn shorten(&mut self, text: &str) -> String {
        self.each_word(text, |names, word| names.short(word))
    }

    /// From the transcript's text to the server's.
    pub fn expand(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.each_word(text, |names, word| names.long(word)).into(),
            Value::Array(items) => items.iter().map(|item| self.expand(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| (k.clone(), self.expand(v))).collect())
            }
            other => other.clone(),
        }
    }

    pub fn task(&self, name: &str) -> String {
        self.long(name).unwrap_or_else(|| name.to_owned())
    }

    fn each_word(
        &mut self,
        text: &str,
        mut replace: impl FnMut(&mut Self, &str) -> Option<String>,
    ) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:/".contains(c);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let run = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(run);
            // A full stop or colon at the end belongs to the sentence.
            let bare = word.trim_end_matches(['.', ':']);
            match replace(self, bare) {
                Some(name) => {
                    out.push_str(&name);
                    out.push_str(&word[bare.len()..]);
                }
                None => out.push_str(word),
            }
            rest = tail;
        }
        out
    }

    fn short(&mut self, word: &str) -> Option<String> {
        if let Some(rest) = word.strip_prefix("callboard://tasks/") {
            return Some(format!("callboard://tasks/{}", self.short(rest)?));
        }
        if let Some(rest) = word.strip_prefix("mcp://jobs/") {
            let (job, what) = rest.split_once('/')?;
            return Some(format!("mcp://jobs/{}/{what}", self.short(job)?));
        }
        if let Some(job) = word.strip_prefix("callboard/") {
            return Some(format!("callboard/{}", self.short(job)?));
        }
        if word.starts_with(".callboard/runs/") {
            return Some(format!("log{}", number_of(&mut self.logs, word)));
        }
        if let Some(time) = offset(word) {
            return Some(time);
        }
        if word.len() == 40 && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Some(format!("hash{}", number_of(&mut self.hashes, word)));
        }
        if word.contains('/') {
            return each_part(word, |part| self.short(part));
        }
        for prefix in ["callboard-", "ws_"] {
            if let Some(rest) = word.strip_prefix(prefix) {
                return Some(format!("{prefix}{}", self.short(rest)?));
            }
        }
        let (kind, id) = word.rsplit_once(['-', '_'])?;
        if id.len() != 26 || !id.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return None;
        }
        match kind {
            "ses" => Some(format!("S{}", number_of(&mut self.attempts, id))),
            "att" => Some(format!("A{}", number_of(&mut self.attempts, id))),
            "cmt" => Some(format!("C{}", number_of(&mut self.comments, id))),
            "job" => Some(format!("J{}", number_of(&mut self.jobs, id))),
            "mail" => Some(format!("mail{}", number_of(&mut self.mails, id))),
            "msg" => Some(format!("M{}", number_of(&mut self.messages, id))),
            "kn" => Some(format!("K{}", number_of(&mut self.knowledge, id))),
            "log" => Some(format!("D{}", number_of(&mut self.decisions, id))),
            "plan" => Some(format!("P{}", number_of(&mut self.plans, id))),
            _ => Some(format!("T{}", number_of(&mut self.tasks, word))),
        }
    }

    fn long(&self, word: &str) -> Option<String> {
        if let Some((job, what)) = word.strip_prefix("mcp://jobs/").and_then(|w| w.split_once('/'))
        {
            return Some(format!("mcp://jobs/{}/{what}", self.long(job)?));
        }
        if word.contains('/') {
            return each_part(word, |part| self.long(part));
        }
        let (kind, number) = match word.strip_prefix("mail") {
            Some(number) => ("mail", number),
            None => word.split_at_checked(1)?,
        };
        let index = number.parse::<usize>().ok()?.checked_sub(1)?;
        match kind {
            "T" => self.tasks.get(index).cloned(),
            "S" => self.attempts.get(index).map(|id| format!("ses_{id}")),
            "A" => self.attempts.get(index).map(|id| format!("att_{id}")),
            "C" => self.comments.get(index).map(|id| format!("cmt_{id}")),
            "J" => self.jobs.get(index).map(|id| format!("job_{id}")),
            "K" => self.knowledge.get(index).map(|id| format!("kn_{id}")),
            "mail" => self.mails.get(index).map(|id| format!("mail-{id}")),
            "P" => self.plans.get(index).map(|id| format!("plan_{id}")),
            _ => None,
        }
    }
}

/// Renames the parts of a path; `None` when no part has another name.
fn each_part(word: &str, mut name: impl FnMut(&str) -> Option<String>) -> Option<String> {
    let mut renamed = false;
    let parts = word.split('/').map(|part| match name(part) {
        Some(name) => {
            renamed = true;
            name
        }
        None => part.to_owned(),
    });
    let whole = parts.collect::<Vec<_>>().join("/");
    renamed.then_some(whole)
}

fn number_of(known: &mut Vec<String>, word: &str) -> usize {
    match known.iter().position(|other| other == word) {
        Some(index) => index + 1,
        None => {
            known.push(word.into());
            known.len()
        }
    }
}

/// `2026-01-01T00:15:00.000Z` as time since the start: `00:15:00`.
fn offset(word: &str) -> Option<String> {
    let at: jiff::Timestamp = word.strip_suffix('Z').and_then(|_| word.parse().ok())?;
    let ms = (at.as_microsecond() - START) / 1000;
    let (h, m, s, rest) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    Some(format!("{h:02}:{m:02}:{s:02}{fraction}"))
}
