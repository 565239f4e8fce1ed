//! The log of a run for people. No secret gets into it.

use std::fmt::Write;

use callboard_domain::runs::notes::{EXIT, NOTE, VARIABLES};
use callboard_domain::runs::usage::RunUsage;
use callboard_engine::ports;

use crate::environment::Variables;
use crate::tail::CutOutput;

/// Values that must not be shown. Longest first: one may be part of another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    values: Vec<(String, String)>,
}

/// A shorter value is a switch or a number, and hiding it would garble everything.
const SECRET_CHARS_MIN: usize = 6;

impl Secrets {
    pub(crate) fn add_variables(&mut self, variables: &Variables) {
        for (name, value) in variables {
            self.add(&name.to_string_lossy(), &value.to_string_lossy());
        }
    }

    /// Adds the credentials between `://` and `@` in an address.
    pub(crate) fn add_url(&mut self, url: &str) {
        let Some((_, rest)) = url.split_once("://") else { return };
        let host = rest.split('/').next().unwrap_or_default();
        let Some((user, _)) = host.rsplit_once('@') else { return };
        let secret = user.split_once(':').map_or(user, |(_, password)| password);
        self.add("credential", secret);
    }

    fn add(&mut self, name: &str, value: &str) {
        let forms = forms(value.trim()).map(|form| (format!("[{name}]"), form));
        self.values.extend(forms);
        self.values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
    }

    pub(crate) fn hidden(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.values {
            if text.contains(value) {
                text = text.replace(value, name);
            }
        }
        text
    }

    /// The text without a trailing part that may be the beginning of a secret.
    pub(crate) fn without_half<'t>(&self, text: &'t str) -> &'t str {
        let half = |value: &String| {
            let halves = (1..value.len()).rev().filter(|at| value.is_char_boundary(*at));
            halves.map(|at| &value[..at]).find(|half| text.ends_with(half)).map_or(0, str::len)
        };
        let longest = self.values.iter().map(|(_, value)| half(value)).max().unwrap_or(0);
        &text[..text.len() - longest]
    }

    fn longest(&self) -> usize {
        self.values.first().map_or(0, |(_, value)| value.len())
    }
}

/// The value as it is, and as JSON escapes it.
fn forms(value: &str) -> impl Iterator<Item = String> {
    let quoted = serde_json::Value::from(value).to_string();
    let inner = quoted[1..quoted.len() - 1].to_owned();
    let escaped = (inner != value).then_some(inner);
    let forms = std::iter::once(value.to_owned()).chain(escaped);
    forms.filter(|form| form.chars().count() >= SECRET_CHARS_MIN)
}

/// Notes of ours, then the output of the agent.
#[derive(Default)]
pub(crate) struct RunLog {
    notes: String,
    streams: String,
    pub(crate) secrets: Secrets,
    /// The tokens and the cost that the agent reported.
    pub(crate) usage: Option<RunUsage>,
}

impl RunLog {
    pub(crate) fn note(&mut self, line: impl AsRef<str>) {
        let _ = writeln!(self.notes, "{NOTE}{}", line.as_ref());
    }

    /// Notes which variables the program gets, by their names alone.
    pub(crate) fn variables(&mut self, variables: &Variables) {
        let mut names: Vec<_> = variables.iter().map(|(name, _)| name.to_string_lossy()).collect();
        names.sort_unstable();
        names.dedup();
        self.note(format!("{VARIABLES}{}", names.join(", ")));
    }

    /// Notes how the program ended; nothing for one that did not start.
    pub(crate) fn exit(&mut self, words: Option<&str>) {
        if let Some(words) = words {
            self.note(format!("{EXIT}{words}"));
        }
    }

    pub(crate) fn stream(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            let _ = write!(self.streams, "----- {name} -----\n{text}{end}");
        }
    }

    /// The whole log, of at most about `bytes_max`, without any secret or part of one.
    pub(crate) fn finish(self, bytes_max: usize) -> String {
        let text = self.secrets.hidden(&format!("{}{}", self.notes, self.streams));
        if text.len() <= bytes_max {
            return text;
        }
        let (head, tail) = (bytes_max / 2, text.len() - bytes_max / 2);
        let head = &text[..text.floor_char_boundary(head)];
        let tail = &text[text.ceil_char_boundary(tail)..];
        // A placeholder may be cut in half; of a secret nothing is left.
        let missing = text.len() - head.len() - tail.len();
        format!("{head}\n[{missing} bytes left out]\n{tail}")
    }

    /// The log of a running run; `text` is the end of its output and may begin and end in the middle of a secret.
    pub(crate) fn so_far(&self, text: &str, is_cut: bool) -> String {
        let notes = self.secrets.hidden(&self.notes);
        let hidden = self.secrets.hidden(text);
        let margin = if is_cut { self.secrets.longest().min(hidden.len()) } else { 0 };
        let shown = &hidden[hidden.ceil_char_boundary(margin)..];
        let mark = if is_cut { ports::CUT } else { "" };
        format!("{notes}{}{mark}{}", ports::SO_FAR, self.secrets.without_half(shown))
    }

    /// Cuts a text whose middle is missing so that no half of a secret stands at the cut.
    pub(crate) fn shown(&self, text: &str) -> String {
        let Some((head, tail)) = text.split_once(CUT) else { return text.to_owned() };
        let margin = self.secrets.longest();
        let head = &head[..head.floor_char_boundary(head.len().saturating_sub(margin))];
        let tail = &tail[tail.ceil_char_boundary(margin.min(tail.len()))..];
        format!("{head}\n[more was written here]\n{tail}")
    }
}

/// A mark that cannot occur in text: NUL in output is replaced.
const CUT: &str = "\u{0}cut\u{0}";

/// Both ends of an output as text, with a mark where the middle is missing.
pub(crate) fn text_of(ends: &CutOutput) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
    if ends.missing == 0 {
        return text(&ends.head) + &text(&ends.tail);
    }
    format!("{}{CUT}{}", text(&ends.head), text(&ends.tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let variables =
            [("KEY", "s3cret"), ("LONG", "s3cret-and-more"), ("N", "1"), ("Q", "a\"bcdef")];
        let mut secrets = Secrets::default();
        secrets.add_variables(&variables.map(|(name, value)| (name.into(), value.into())).into());
        secrets
    }

    #[test]
    fn secrets_are_named_instead() {
        let hidden = secrets().hidden(r#"x s3cret s3cret-and-more 1 a"bcdef {"a\"bcdef"}"#);
        assert_eq!(hidden, r#"x [KEY] [LONG] 1 [Q] {"[Q]"}"#);
        let mut of_url = Secrets::default();
        of_url.add_url("https://ana:hunter22@host/x");
        assert_eq!(of_url.hidden("https://ana:hunter22@host"), "https://ana:[credential]@host");
    }

    #[test]
    fn a_cut_leaves_no_half_of_a_secret() {
        let log = RunLog { secrets: secrets(), ..RunLog::default() };
        let ends = CutOutput {
            head: b"start s3cr".to_vec(),
            missing: 9,
            tail: b"t-and-more end".to_vec(),
        };
        let shown = log.shown(&text_of(&ends));
        assert!(!shown.contains("s3c") && !shown.contains("t-and"), "{shown}");
        assert!(shown.contains("[more was written here]"), "{shown}");
    }

    #[test]
    fn what_was_printed_so_far_shows_no_half_of_a_secret() {
        let log = RunLog { secrets: secrets(), ..RunLog::default() };
        let table = [
            ("go s3cret on", false, "go [KEY] on"),
            ("go s3cr", false, "go "),
            ("go s3cret-and-m", false, "go [KEY]-and-m"),
            ("t-and-more, go on", true, "on"),
        ];
        for (printed, is_cut, shown) in table {
            let so_far = log.so_far(printed, is_cut);
            assert_eq!(so_far.lines().last(), Some(shown), "{printed}");
        }
    }

    #[test]
    fn a_long_log_keeps_both_ends() {
        let mut log = RunLog { secrets: secrets(), ..RunLog::default() };
        log.note("first");
        log.stream("stdout", &"x".repeat(10_000));
        log.stream("stderr", "last s3cret");
        let text = log.finish(1000);
        assert!(text.starts_with("callboard: first\n----- stdout -----\n"), "{text}");
        assert!(text.ends_with("last [KEY]\n") && text.len() < 1100, "{text}");
    }
}
