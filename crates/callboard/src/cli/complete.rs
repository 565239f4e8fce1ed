//! `callboard complete`: the tasks that fit a half-typed word, for the completion scripts of shells.
//!
//! A shell asks at every press of a key: nothing is written, nothing is waited for, and every fault is silence.

use std::fmt::Write;

use callboard_domain::text::is_obeyed;
use clap::{Arg, Command};

use super::context::Context;
use super::groups;
use crate::compose;
use crate::config::{Resolved, Settings};
use crate::output::Failure;
use crate::place::Place;

/// As many as a person looks through.
const SHOWN_MAX: usize = 100;
const TITLE_CHARS: usize = 60;

/// Print the tasks that fit the last word
#[derive(clap::Args, Debug)]
pub struct CompleteArgs {
    /// The words behind the program's name, up to the cursor
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub fn cmd_complete(context: &Context, args: &CompleteArgs) -> Result<(), Failure> {
    let Some((typed, before)) = args.words.split_last() else { return Ok(()) };
    if !is_task(&groups::command(), before, typed) {
        return Ok(());
    }
    let Ok(Some(place)) = Place::find() else { return Ok(()) };
    let settings = Resolved::read(Some(&place), &[]).and_then(|read| Settings::of(&read));
    let Ok(settings) = settings else { return Ok(()) };
    let mut lines = String::new();
    for task in compose::task_names(&settings, &place, context.org(), typed, SHOWN_MAX) {
        // Titles are texts of others: nothing in them may move the cursor.
        let shown = |c: char| if c.is_control() || is_obeyed(c) { ' ' } else { c };
        let title: String = task.title.chars().take(TITLE_CHARS).map(shown).collect();
        // A string takes every line.
        let _ = writeln!(lines, "{}\t{title}", task.name);
    }
    context.out.raw(&lines)
}

/// Whether the word after `before` names a task.
fn is_task(root: &Command, before: &[String], typed: &str) -> bool {
    if typed.starts_with('-') {
        return false;
    }
    let (mut command, mut place) = (root, 0);
    let mut path = Vec::new();
    let mut option: Option<&Arg> = None;
    for word in before {
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
        return option.get_long().is_some_and(|long| TASK_OPTIONS.contains(&long));
    }
    // Of agents and tokens the id is another one.
    let names_tasks = !matches!(path.first(), Some(&"agent" | &"token") | None);
    let name = command.get_positionals().nth(place).map(value_name);
    names_tasks && name.is_some_and(|name| TASK_VALUES.contains(&name.as_str()))
}

/// Options whose value is a task.
const TASK_OPTIONS: [&str; 5] = ["after", "dep", "epic", "parent", "task"];
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
        ];
        let root = groups::command();
        for (line, wanted) in rows {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let (typed, before) = words.split_last().expect("a word");
            assert_eq!(is_task(&root, before, typed), wanted, "{line}");
        }
    }
}
