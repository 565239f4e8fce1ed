//! Prints `docs/reference/cli.md` from the command tree.

use std::path::Path;

use clap::{Arg, ArgAction, Command};

use super::groups;

/// `CALLBOARD_BLESS=1 cargo test --bins` rewrites the page.
#[test]
fn every_command_is_documented() {
    let mut root = groups::command();
    root.build();
    let mut text = String::from(
        "# Commands\n\nThis page is generated from the command tree. `CALLBOARD_BLESS=1 cargo test --bins` rewrites it. \
         [tasks.md](../guide/tasks.md#commands-and-their-output) says what commands print; [cli.schema.json](cli.schema.json) \
         is a JSON Schema of `--json`.\n\n",
    );
    for (group, members) in groups::GROUPS {
        let links: Vec<String> = members
            .iter()
            .filter(|name| **name != "help")
            .filter(|name| root.find_subcommand(name).is_some_and(|one| !one.is_hide_set()))
            .map(|name| format!("[`{name}`](#callboard-{name})"))
            .collect();
        text += &format!("- {group}: {}\n", links.join(", "));
    }
    text += "\n## Global options\n\nEvery command takes these options.\n\n";
    let global: Vec<&Arg> = root.get_arguments().filter(|one| one.is_global_set()).collect();
    text += &table(&global);
    let members = groups::GROUPS.iter().flat_map(|(_, members)| *members);
    for name in members.filter(|name| **name != "help") {
        if let Some(command) = root.find_subcommand(name).filter(|one| !one.is_hide_set()) {
            text += &section(command, "callboard", 2);
        }
    }
    let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, &text).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/reference/cli.md is out of date; run the tests with CALLBOARD_BLESS=1"
    );
}

fn section(command: &Command, above: &str, depth: usize) -> String {
    let path = format!("{above} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(|about| sentences(&about.to_string())).unwrap_or_default();
    let mut text = format!("\n{} {path}\n\n{about}\n", "#".repeat(depth));
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help" && !one.is_hide_set())
        .collect();
    if inner.is_empty() {
        let usage = command.clone().render_usage().to_string();
        text += &format!("\n    {}\n", usage.trim_start_matches("Usage: "));
    }
    let own = |one: &&Arg| !one.is_global_set() && !one.is_hide_set() && one.get_id() != "help";
    let arguments: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if !arguments.is_empty() {
        text += &format!("\n{}", table(&arguments));
    }
    if let Some(more) = command.get_after_long_help().or(command.get_after_help()) {
        let more: Vec<String> =
            more.to_string().lines().map(|line| format!("    {line}")).collect();
        text += &format!("\n{}\n", more.join("\n"));
    }
    for one in inner {
        text += &section(one, &path, depth + 1);
    }
    text
}

/// A help text with a full stop at the end of its first line.
fn sentences(about: &str) -> String {
    let (first, rest) = about.split_once("\n\n").unwrap_or((about, ""));
    let stop = if first.ends_with(['.', ':']) { "" } else { "." };
    match rest {
        "" => format!("{first}{stop}"),
        rest => format!("{first}{stop}\n\n{rest}"),
    }
}

fn table(arguments: &[&Arg]) -> String {
    let mut text = String::from(
        "| argument | required | values | default | meaning |\n|---|---|---|---|---|\n",
    );
    for one in arguments {
        let values: Vec<String> = one
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set() && one.get_action().takes_values())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        let defaults: Vec<String> = one
            .get_default_values()
            .iter()
            .filter(|_| one.get_action().takes_values())
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        let help =
            one.get_long_help().or(one.get_help()).map(ToString::to_string).unwrap_or_default();
        text += &format!(
            "| {} | {} | {} | {} | {} |\n",
            name(one),
            if one.is_required_set() { "yes" } else { "" },
            values.join(", "),
            defaults.join(", "),
            help.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
        );
    }
    text
}

/// `-m`, `--message <TEXT>`, or `<ID>` of an argument without a name.
fn name(one: &Arg) -> String {
    let value = match (one.get_action().takes_values(), one.get_value_names()) {
        (true, Some(names)) => names.iter().map(|name| format!(" <{name}>")).collect::<String>(),
        _ => String::new(),
    };
    let more = if matches!(one.get_action(), ArgAction::Append) { "…" } else { "" };
    match (one.get_short(), one.get_long()) {
        (Some(short), Some(long)) => format!("`-{short}`, `--{long}{value}`{more}"),
        (None, Some(long)) => format!("`--{long}{value}`{more}"),
        (Some(short), None) => format!("`-{short}{value}`{more}"),
        (None, None) => format!("`{}`{more}", value.trim_start()),
    }
}
