//! The only place that prints. stdout gets data, stderr gets progress and hints.
//!
//! One document with `--json`, a table on a terminal, the same columns plain without one.

mod clean;
mod document;
mod failure;
mod schema;
mod table;
mod when;

use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::ValueEnum;
use serde_json::Value;

pub use failure::{Exit, Failure, exit_of};
pub use schema::{List, Object};
pub use table::{Table, window_width};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    fn wanted(self, is_terminal: bool) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            // By no-color.org an empty variable counts as not set.
            Color::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        }
    }
}

/// How this process prints.
#[derive(Clone, Copy, Debug)]
pub struct Out {
    pub json: bool,
    /// Whether stdout is a terminal. stderr is asked by itself: one of them may go to a file.
    pub terminal: bool,
    terminal_stderr: bool,
    color: bool,
    color_stderr: bool,
}

impl Out {
    pub fn new(json: bool, color: Color) -> Self {
        let (terminal, terminal_stderr) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            json,
            terminal,
            terminal_stderr,
            color: color.wanted(terminal),
            color_stderr: color.wanted(terminal_stderr),
        }
    }

    /// Prints a line of data.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.raw(&format!("{text}\n"))
    }

    /// Prints text unchanged for a program; a terminal gets no control characters that it would obey.
    pub fn raw(&self, text: &str) -> Result<(), Failure> {
        let text = if self.terminal { clean::clean(text) } else { text.into() };
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(from_io)
    }

    /// Prints the one document of a command, indented on a terminal. Commands print through `list`, `object` and
    /// `answer`, so that none forgets its schema.
    fn document(&self, value: &Value) -> Result<(), Failure> {
        let text = if self.terminal { format!("{value:#}") } else { value.to_string() };
        self.line(&text)
    }

    /// Prints a progress line or a hint. A failure to print it is ignored.
    pub fn note(&self, text: &str) {
        let text = if self.terminal_stderr { clean::clean(text) } else { text.into() };
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    pub fn warning(&self, text: &str) {
        self.note(&format!("{} {text}", self.paint(Style::Yellow, "warning:", self.color_stderr)));
    }

    pub fn failure(&self, failure: &Failure) {
        let Failure::Said(complaint) = failure else { return };
        // On stderr, because stdout of a failed command stays empty for the program that reads it.
        if self.json {
            return self.note(&Object::Error.named(complaint.to_json()).to_string());
        }
        let head = format!("error[{}]:", complaint.code);
        let head = self.paint(Style::Red, &head, self.color_stderr);
        self.note(&format!("{head} {}", complaint.message));
        if let Some(hint) = &complaint.hint {
            self.note(&format!("{} {hint}", self.paint(Style::Cyan, "hint:", self.color_stderr)));
        }
    }

    /// Text for stdout in a colour, if colours are wanted there.
    pub fn styled(&self, style: Style, text: &str) -> String {
        self.paint(style, text, self.color)
    }

    fn paint(&self, style: Style, text: &str, wanted: bool) -> String {
        if wanted { format!("\x1b[{}m{text}\x1b[0m", style.code()) } else { text.to_owned() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    const ALL: [Style; 7] = [
        Style::Plain,
        Style::Bold,
        Style::Dim,
        Style::Red,
        Style::Green,
        Style::Yellow,
        Style::Cyan,
    ];

    fn code(self) -> u8 {
        match self {
            Style::Plain => 0,
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Red => 31,
            Style::Green => 32,
            Style::Yellow => 33,
            Style::Cyan => 36,
        }
    }
}

fn from_io(error: io::Error) -> Failure {
    match error.kind() {
        // `callboard log | head` ends early by intent.
        ErrorKind::BrokenPipe => Failure::Silent(0),
        _ => Failure::io("cannot write to standard output", &error),
    }
}
