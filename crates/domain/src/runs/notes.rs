//! The notes at the beginning of a run's log: how the run was confined, the names of its variables, how its program ended.
//! The runner writes them before anything that an agent printed, so no output of an agent can pass for a note.

use crate::words::words;

/// Stands before each note.
pub const NOTE: &str = "callboard: ";
/// What confines the run, in words; one or two notes.
pub const SANDBOX: &str = "sandbox: ";
/// The names of the variables that the program got, without their values.
pub const VARIABLES: &str = "variables: ";
/// How the program ended: its exit code, or the signal.
pub const EXIT: &str = "exit: ";
/// The beginning of the last line in the log of a confined check that failed.
pub const CHECK_CONFINED: &str = "[this check ran confined: ";
/// More than all notes of a run take.
pub const NOTES_BYTES_MAX: usize = 16 * 1024;

/// What the notes of a job's first run say. A note that is missing leaves its field empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNotes {
    pub executor: Option<String>,
    pub sandbox: Vec<String>,
    pub variables: Vec<String>,
    pub exit: Option<String>,
}

impl RunNotes {
    /// Reads the notes at the beginning of a log. The first line that is no note ends them.
    pub fn read(log: &str) -> Self {
        let mut notes = Self::default();
        for note in log.lines().map_while(|line| line.strip_prefix(NOTE)) {
            if let Some(words) = note.strip_prefix(SANDBOX) {
                notes.sandbox.push(words.to_owned());
            } else if let Some(names) = note.strip_prefix(VARIABLES) {
                notes.variables = names.split(", ").map(str::to_owned).collect();
            } else if let Some(words) = note.strip_prefix(EXIT) {
                notes.exit = Some(words.to_owned());
            } else if notes.executor.is_none() {
                notes.executor = executor(note).map(str::to_owned);
            }
        }
        notes
    }
}

words! {
    /// A line that the server adds between the words of an agent's session: `[tool] Read a.txt`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SessionNote {
        /// The agent calls a tool.
        Tool => "[tool] ",
        /// A message reached the agent.
        Told => "[told] ",
        /// The model that the agent was asked to use.
        Model => "[model] ",
        /// The answers to a question of the agent.
        Granted => "[granted] ",
        Refused => "[refused] ",
    }
}

/// The author of a line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAuthor {
    /// Notes of the server, and marks between streams.
    Server,
    /// Notes of the server between the words of the agent.
    Session(SessionNote),
    /// The agent, or a program that it ran.
    Agent,
}

impl LineAuthor {
    /// Reads the author from the line. An agent can print a line that looks like a note: the author serves display alone.
    pub fn of(line: &str) -> Self {
        if line.starts_with(NOTE) || is_mark(line) {
            return Self::Server;
        }
        let note = SessionNote::ALL.into_iter().find(|note| line.starts_with(note.as_str()));
        note.map_or(Self::Agent, Self::Session)
    }
}

/// Whether a line stands between two streams: `----- stdout -----`.
fn is_mark(line: &str) -> bool {
    line.starts_with("----- ") && line.ends_with(" -----")
}

/// How many lines of a log stand before the output of the agent: the notes, and behind them the mark of a stream.
pub fn lines_before_output<'l>(log: impl IntoIterator<Item = &'l str>) -> usize {
    let mut lines = log.into_iter().peekable();
    let mut count = 0;
    while lines.next_if(|line| line.starts_with(NOTE)).is_some() {
        count += 1;
    }
    count + usize::from(lines.peek().is_some_and(|line| is_mark(line)))
}

/// The executor in `job_…, attempt 1, executor claude` or `executor claude with its own model`.
fn executor(note: &str) -> Option<&str> {
    let name = match note.strip_prefix("executor ") {
        Some(rest) => rest.split(" with ").next(),
        None => note.split_once(", executor ").map(|(_, name)| name),
    };
    name.filter(|name| !name.is_empty() && !name.contains(' '))
}

/// How a program ended, for the note.
pub fn exit_words(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => code.to_string(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_begins_behind_the_notes_and_one_mark() {
        for (log, before) in [
            ("callboard: job_1\ncallboard: exit: 0\n----- so far -----\nhello", 3),
            ("callboard: job_1\nhello\ncallboard: exit: 0", 1),
            ("----- stdout -----\n----- stderr -----", 1),
            ("hello\n----- stdout -----", 0),
            ("callboard: job_1", 1),
            ("", 0),
        ] {
            assert_eq!(lines_before_output(log.lines()), before, "{log}");
        }
    }

    #[test]
    fn each_line_has_an_author() {
        for (line, author) in [
            ("callboard: exit: 0", LineAuthor::Server),
            ("----- stdout -----", LineAuthor::Server),
            ("[tool] Read a.txt", LineAuthor::Session(SessionNote::Tool)),
            ("[refused] rm -rf /", LineAuthor::Session(SessionNote::Refused)),
            ("[tool]", LineAuthor::Agent),
            ("[x] done", LineAuthor::Agent),
            (" callboard: exit: 0", LineAuthor::Agent),
            ("-----", LineAuthor::Agent),
            ("", LineAuthor::Agent),
        ] {
            assert_eq!(LineAuthor::of(line), author, "{line}");
        }
    }

    #[test]
    fn notes_are_read_up_to_the_output_of_the_agent() {
        let of_work = "callboard: job_1, attempt 1, executor claude\n\
             callboard: sandbox: files\ncallboard: sandbox: TCP to port 443\n\
             callboard: variables: PATH, HOME\ncallboard: exit: 0\ncallboard: the agent ended its turn\n\
             ----- stdout -----\ncallboard: sandbox: none at all\ncallboard: exit: 7\n";
        let of_patch = "callboard: job_1, attempt 1\ncallboard: executor codex with its own model\n\
             callboard: exit: signal 9\n";
        let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let table = [
            (
                of_work,
                Some("claude"),
                text(&["files", "TCP to port 443"]),
                text(&["PATH", "HOME"]),
                Some("0"),
            ),
            (of_patch, Some("codex"), text(&[]), text(&[]), Some("signal 9")),
            ("hello\ncallboard: exit: 0\n", None, text(&[]), text(&[]), None),
            ("", None, text(&[]), text(&[]), None),
            ("callboard: executor a b c\n", None, text(&[]), text(&[]), None),
        ];
        for (log, executor, sandbox, variables, exit) in table {
            let (executor, exit) = (executor.map(str::to_owned), exit.map(str::to_owned));
            assert_eq!(
                RunNotes::read(log),
                RunNotes { executor, sandbox, variables, exit },
                "{log}"
            );
        }
    }

    #[test]
    fn an_end_has_a_code_or_a_signal() {
        for (code, signal, words) in [
            (Some(0), None, "0"),
            (Some(101), None, "101"),
            (None, Some(9), "signal 9"),
            (None, None, "unknown"),
        ] {
            assert_eq!(exit_words(code, signal), words);
        }
    }
}
