//! `callboard complete`: the tasks, jobs, clients or the like that fit a half-typed word, for the completion scripts of
//! shells.
//!
//! A shell asks at every press of a key: nothing is written, nothing is waited for, and every fault is silence.

use std::fmt::Write;

use callboard_domain::text::is_obeyed;
use callboard_engine::store::sqlite::OfferedKind;
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

/// Print the tasks, ids, agents or clients that fit the last word
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
        Some(Named::Things(kinds)) => context.out.raw(&things(context, kinds, &word)),
        Some(Named::Executors) => context.out.raw(&executors(&word)),
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
    /// Things of the board, one of these kinds.
    Things(&'static [OfferedKind]),
    /// An agent that can run a job.
    Executors,
    /// A list with commas.
    Clients,
}

/// The settings of the project here, for a completion: every fault is silence.
fn settings() -> Option<(Place, Settings)> {
    let place = Place::find().ok()??;
    let read = Resolved::read(Some(&place), &[]).ok()?;
    Some((place, Settings::of(&read).ok()?))
}

fn things(context: &Context, kinds: &[OfferedKind], word: &HalfTyped) -> String {
    let mut lines = String::new();
    let Some((place, settings)) = settings() else { return lines };
    for kind in kinds {
        let org = context.org();
        let found = compose::names_offered(&settings, &place, org, *kind, word.typed, SHOWN_MAX);
        for thing in found {
            // Titles are texts of others: nothing in them may move the cursor.
            let shown = |c: char| if c.is_control() || is_obeyed(c) { ' ' } else { c };
            let title: String = thing.title.chars().take(TITLE_CHARS).map(shown).collect();
            // A string takes every line.
            let _ = writeln!(lines, "{}{}\t{title}", word.prefix, thing.name);
        }
    }
    lines
}

/// The executors whose program is found.
fn executors(word: &HalfTyped) -> String {
    let mut lines = String::new();
    let Some((_, settings)) = settings() else { return lines };
    let agents = &settings.agents;
    for name in agents.executors.found_here() {
        let about = if name == agents.default_executor { "the default" } else { "runs jobs" };
        if name.starts_with(word.typed) {
            let _ = writeln!(lines, "{}{name}\t{about}", word.prefix);
        }
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
        return match (option.get_long()?, path.first()) {
            ("clients", _) => Some(Named::Clients),
            ("agent", Some(&"run")) => Some(Named::Executors),
            ("agent", _) => Some(Named::Things(&[OfferedKind::Agent])),
            (long, _) if OPTIONS.contains(&long) => Some(Named::Things(&[OfferedKind::Task])),
            _ => None,
        };
    }
    let name = command.get_positionals().nth(place).map(value_name)?;
    let kinds: &[OfferedKind] = match (path.as_slice(), name.as_str()) {
        // The id of a new agent is not there yet.
        ([] | ["agent", "add"], _) => return None,
        (["agent", ..], "ID") | (["mail", ..], "TO") => &[OfferedKind::Agent],
        (["token", ..], "ID") => &[OfferedKind::Token],
        (_, "ID" | "DEP") => &[OfferedKind::Task],
        (_, "TASK|JOB") => &[OfferedKind::Task, OfferedKind::Job],
        (_, "JOB") => &[OfferedKind::Job],
        (_, "MAIL") => &[OfferedKind::Mail],
        (_, "PLAN") => &[OfferedKind::Plan],
        (_, "PULL") => &[OfferedKind::Pull],
        _ => return None,
    };
    Some(Named::Things(kinds))
}

/// Options whose value is completed here: clients, agents, and tasks.
pub const OPTIONS: [&str; 7] = ["agent", "clients", "after", "dep", "epic", "parent", "task"];

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
            let is_task = matches!(named, Some(Named::Things([OfferedKind::Task, ..])));
            assert_eq!(is_task, wanted, "{line}");
        }
    }

    #[test]
    fn other_ids_are_found_where_they_are_meant() {
        use OfferedKind::{Agent, Job, Mail, Plan, Pull, Task, Token};
        let rows: [(&str, &[OfferedKind]); 16] = [
            ("job show j", &[Job]),
            ("job cancel j", &[Job]),
            ("job answer j", &[Job]),
            ("job answer job_1 y", &[]),
            ("logs j", &[Task, Job]),
            ("stop j", &[Task, Job]),
            ("token revoke t", &[Token]),
            ("mail read m", &[Mail]),
            ("mail reply m", &[Mail]),
            ("mail send w", &[Agent]),
            ("plan approve p", &[Plan]),
            ("plan reject p", &[Plan]),
            ("pull merge 7", &[Pull]),
            ("agent rm w", &[Agent]),
            ("agent add w", &[]),
            ("decisions --agent w", &[Agent]),
        ];
        let root = groups::command();
        for (line, wanted) in rows {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (typed, before) = words.split_last().expect("a word");
            let named = named_by(&root, &HalfTyped::of(before, typed));
            let wanted = Some(Named::Things(wanted)).filter(|_| !wanted.is_empty());
            assert_eq!(named, wanted, "{line}");
        }
        let words = ["run", "SHOP-1", "--agent"].map(str::to_owned);
        assert_eq!(named_by(&root, &HalfTyped::of(&words, "cl")), Some(Named::Executors));
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
