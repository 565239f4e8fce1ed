//! `callboard complete`: the tasks or the clients that fit a half-typed word, for the completion scripts of shells.
//!
//! A shell asks at every press of a key: nothing is written, nothing is waited for, and every fault is silence.

use std::fmt::Write;

use callboard_domain::text::is_obeyed;
use clap::{Arg, Command};

use super::connect::{ALL, NONE};
use super::context::Context;
use super::groups;
use crate::clients::CLIENTS;
use crate::compose;
use crate::config::{Resolved, Settings};
use crate::output::Failure;
use crate::place::Place;

/// As many as a person looks through.
const SHOWN_MAX: usize = 100;
const TITLE_CHARS: usize = 60;

/// Print the tasks, or the clients of --clients, that fit the last word
#[derive(clap::Args, Debug)]
pub struct CompleteArgs {
    /// The words behind the program's name, up to the cursor
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub fn cmd_complete(context: &Context, args: &CompleteArgs) -> Result<(), Failure> {
    let Some((typed, before)) = args.words.split_last() else { return Ok(()) };
    let word = HalfTyped::of(before, typed);
    match named_by(&groups::command(), &word) {
        Some(Named::Task) => context.out.raw(&tasks(context, &word)),
        Some(Named::Clients) => context.out.raw(&clients(&word)),
        None => Ok(()),
    }
}

/// The word at the cursor.
struct HalfTyped<'a> {
    before: Vec<&'a str>,
    /// What stands before the value in the same word, as in `--dep=SH`. zsh and fish complete whole words.
    prefix: &'a str,
    typed: &'a str,
}

impl<'a> HalfTyped<'a> {
    fn of(before: &'a [String], typed: &'a str) -> Self {
        let mut before: Vec<&str> = before.iter().map(String::as_str).collect();
        // bash breaks a word at the sign and passes it apart.
        before.retain(|word| *word != "=");
        let typed = if typed == "=" { "" } else { typed };
        match typed.split_once('=').filter(|(name, _)| name.starts_with("--")) {
            Some((name, value)) => {
                before.push(name);
                Self { before, prefix: &typed[..=name.len()], typed: value }
            }
            None => Self { before, prefix: "", typed },
        }
    }
}

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Task,
    /// A list with commas.
    Clients,
}

fn tasks(context: &Context, word: &HalfTyped) -> String {
    let mut lines = String::new();
    let Ok(Some(place)) = Place::find() else { return lines };
    let settings = Resolved::read(Some(&place), &[]).and_then(|read| Settings::of(&read));
    let Ok(settings) = settings else { return lines };
    for task in compose::task_names(&settings, &place, context.org(), word.typed, SHOWN_MAX) {
        // Titles are texts of others: nothing in them may move the cursor.
        let shown = |c: char| if c.is_control() || is_obeyed(c) { ' ' } else { c };
        let title: String = task.title.chars().take(TITLE_CHARS).map(shown).collect();
        // A string takes every line.
        let _ = writeln!(lines, "{}{}\t{title}", word.prefix, task.name);
    }
    lines
}

/// The clients that can follow those of the list; `all` and `none` stand alone.
fn clients(word: &HalfTyped) -> String {
    let (listed, last) = word.typed.rsplit_once(',').unwrap_or(("", word.typed));
    let head = &word.typed[..word.typed.len() - last.len()];
    let mut lines = String::new();
    let alone = [(ALL, "every agent"), (NONE, "no agent")].into_iter().filter(|_| head.is_empty());
    let named = CLIENTS.iter().map(|client| (client.name, client.title));
    let is_new = |(name, _): &(&str, &str)| listed.split(',').all(|known| known != *name);
    for (name, title) in alone.chain(named.filter(is_new)) {
        if name.starts_with(last) {
            let _ = writeln!(lines, "{}{head}{name}\t{title}", word.prefix);
        }
    }
    lines
}

/// What the word at the cursor names, if that is known here.
fn named_by(root: &Command, word: &HalfTyped) -> Option<Named> {
    if word.typed.starts_with('-') {
        return None;
    }
    let (mut command, mut place) = (root, 0);
    let mut path = Vec::new();
    let mut option: Option<&Arg> = None;
    for word in &word.before {
        if option.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            let known = |arg: &&Arg| {
                let long = arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
                let short = arg.get_short();
                let short =
                    short.is_some_and(|short| word.strip_prefix('-') == Some(&*short.to_string()));
                (long || short) && arg.get_action().takes_values()
            };
            option = command.get_arguments().chain(root.get_arguments()).find(known);
            continue;
        }
        match command.find_subcommand(word).filter(|_| place == 0) {
            Some(below) => (command, path) = (below, [&path[..], &[below.get_name()]].concat()),
            None => place += 1,
        }
    }
    if let Some(option) = option {
        return match option.get_long() {
            Some("clients") => Some(Named::Clients),
            Some(long) if OPTIONS.contains(&long) => Some(Named::Task),
            _ => None,
        };
    }
    // Of agents and tokens the id is another one.
    let names_tasks = !matches!(path.first(), Some(&"agent" | &"token") | None);
    let name = command.get_positionals().nth(place).map(value_name);
    let is_task = names_tasks && name.is_some_and(|name| TASK_VALUES.contains(&name.as_str()));
    is_task.then_some(Named::Task)
}

/// Options whose value is completed here: clients, and tasks.
pub const OPTIONS: [&str; 6] = ["clients", "after", "dep", "epic", "parent", "task"];
/// Names of positional arguments that are tasks.
const TASK_VALUES: [&str; 3] = ["ID", "DEP", "TASK|JOB"];

fn value_name(arg: &Arg) -> String {
    let given = arg.get_value_names().and_then(|names| names.first());
    given.map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_task_is_found() {
        let rows = [
            ("claim SH", true),
            ("claim --json SH", true),
            ("--actor agent:x claim SH", true),
            ("claim SHOP-1 SH", false),
            ("task show SH", true),
            ("task dep add SHOP-1 SH", true),
            ("task add Title --dep SH", true),
            ("task add Title SH", false),
            ("task add --parent SHOP-1 SH", false),
            ("logs SH", true),
            ("note SHOP-1 SH", false),
            ("review SH", true),
            ("agent show SH", false),
            ("agent add w --task SH", true),
            ("token revoke SH", false),
            ("claim --ac", false),
            ("SH", false),
            ("task add Title --dep=SH", true),
            ("task add Title --dep = SH", true),
            ("task add Title --title=SH", false),
        ];
        let root = groups::command();
        for (line, wanted) in rows {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (typed, before) = words.split_last().expect("a word");
            let named = named_by(&root, &HalfTyped::of(before, typed));
            assert_eq!(named == Some(Named::Task), wanted, "{line}");
        }
    }

    #[test]
    fn clients_are_offered_as_a_list() {
        let rows = [
            (&["init", "--clients", "co"][..], "codex copilot"),
            (&["init", "--clients", "a"], "all"),
            (&["init", "--clients", "claude,c"], "claude,codex claude,cursor claude,copilot"),
            (&["init", "--clients", "claude,codex,o"], "claude,codex,opencode"),
            (&["init", "--clients", "claude,a"], ""),
            (&["init", "--hooks", "--clients=g"], "--clients=gemini"),
            (&["init", "--clients", "=", "g"], "gemini"),
            (&["init", "--clients", "x"], ""),
        ];
        let root = groups::command();
        for (words, wanted) in rows {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let (typed, before) = words.split_last().expect("a word");
            let word = HalfTyped::of(before, typed);
            assert_eq!(named_by(&root, &word), Some(Named::Clients), "{words:?}");
            let lines = clients(&word);
            let names: Vec<&str> =
                lines.lines().filter_map(|line| Some(line.split_once('\t')?.0)).collect();
            assert_eq!(names.join(" "), wanted, "{words:?}");
        }
    }
}
