//! The first page of `--help`: commands in groups, in the order in which a new user meets them.

use clap::{Command, CommandFactory};

use super::Cli;

/// A command without a group is shown last; a test fails before that happens.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    (
        "Start",
        &[
            "up", "open", "init", "trust", "serve", "mcp", "hook", "worker", "demo", "doctor",
            "status",
        ],
    ),
    (
        "Tasks",
        &["task", "next", "claim", "release", "note", "done", "wait", "tell", "block", "unblock"],
    ),
    ("Checks", &["check"]),
    ("Jobs", &["run", "stop", "job", "logs", "diff"]),
    ("Review", &["review", "approve", "reject", "rebase", "pull", "plan"]),
    ("People", &["agent", "epic", "mail"]),
    ("Memory", &["learn", "search", "log", "decisions"]),
    (
        "Operations",
        &[
            "config",
            "import",
            "export",
            "gc",
            "token",
            "webhook",
            "backup",
            "restore",
            "migrate",
            "model",
            "bench",
            "completions",
            "call",
            "help",
        ],
    ),
];

/// The command tree with a grouped first page.
pub fn command() -> Command {
    let command = Cli::command().disable_help_subcommand(false);
    let page = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}",
        groups(&command)
    );
    command.help_template(page)
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    let shown = |name: &str| {
        let found = command.find_subcommand(name).filter(|found| !found.is_hide_set())?;
        let about = found.get_about().map(ToString::to_string).unwrap_or_default();
        Some(format!("  {name:<12} {about}\n"))
    };
    for (name, members) in GROUPS {
        let lines: String = members.iter().filter_map(|member| shown(member)).collect();
        text += &format!("\n{name}:\n{lines}");
    }
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, members)| members.contains(&name));
    let others = command.get_subcommands().map(Command::get_name);
    let others: String = others.filter(|name| !is_grouped(name)).filter_map(shown).collect();
    if others.is_empty() { text } else { format!("{text}\nOther:\n{others}") }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let command = Cli::command();
        for name in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            let places = GROUPS.iter().flat_map(|(_, members)| *members);
            let count = places.filter(|member| **member == name.get_name()).count();
            assert_eq!(count, 1, "put {} into one group of cli/groups.rs", name.get_name());
        }
    }

    #[test]
    fn every_argument_is_described() {
        fn look(command: &Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
                let name = argument.get_id();
                assert!(argument.get_help().is_some(), "{path}: {name} has no description");
            }
            command.get_subcommands().for_each(|one| look(one, &path));
        }
        look(&Cli::command(), "");
    }

    /// Words after `callboard` that belong to a sentence.
    const PROSE: &[&str] = &[
        "and", "as", "believe", "board", "cannot", "does", "ended", "folder", "from", "here",
        "holds", "is", "itself", "keeps", "knows", "listens", "made", "makes", "needs", "of",
        "opens", "prints", "project", "refuses", "runs", "says", "sees", "server", "store", "that",
        "will", "works",
    ];

    /// Every `callboard …` that a hint, a refusal, a help text or a page of the documentation names is a command, with
    /// options that it has.
    #[test]
    fn hints_name_commands_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = Vec::new();
        for folder in ["crates", "docs"] {
            collect(&root.join(folder), &mut files);
        }
        files.push(root.join("README.md"));
        let (mut wrong, mut seen) = (Vec::new(), 0);
        for file in &files {
            let text = std::fs::read_to_string(file).expect("a readable file");
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//!")) {
                // `cargo test -p callboard --bin callboard` names a crate and a program.
                let is_crate =
                    |at: usize| ["-p ", "--bin "].iter().any(|it| line[..at].ends_with(it));
                for (at, _) in line.match_indices("callboard ").filter(|(at, _)| !is_crate(*at)) {
                    seen += 1;
                    let rest = &line[at + "callboard ".len()..];
                    if let Err(why) = judge(rest) {
                        wrong.push(format!("{}: callboard {rest}: {why}", file.display()));
                    }
                }
            }
        }
        assert!(seen > 200, "only {seen} commands were found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn a_command_that_does_not_exist_is_noticed() {
        for wrong in ["nonsense ID", "task nonsense ID", "approve ID --nonsense", "tasks list"] {
            assert!(judge(wrong).is_err(), "{wrong}");
        }
        for right in ["approve ID --merge", "task list --open, then more", "listens on a port"] {
            assert_eq!(judge(right), Ok(()), "{right}");
        }
    }

    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Tests contain mistakes on purpose, and decisions speak of the past.
            let is_skipped = ["tests", "decisions", "target", "benches"].contains(&name.as_str());
            match path.is_dir() {
                true if is_skipped => {}
                true => collect(&path, files),
                false if name.ends_with(".rs") || name.ends_with(".md") => files.push(path),
                false => {}
            }
        }
    }

    /// Follows the words of a command into the tree, up to the end of the quotation.
    fn judge(rest: &str) -> Result<(), String> {
        let ends = ['`', '"', ';', ',', ')', '|', '\\', '(', '…', '>'];
        let snippet = rest.split(ends).next().unwrap_or_default();
        let root = command();
        let mut at = &root;
        for (place, word) in snippet.split_whitespace().enumerate() {
            let word = word.trim_end_matches(['.', ':', '?', '!', '\'']);
            if let Some(option) = word.strip_prefix("--").filter(|option| !option.is_empty()) {
                let option = option.split(['=', '[', ']']).next().unwrap_or_default();
                let knows = |known: &Command| {
                    known.get_arguments().any(|one| one.get_long() == Some(option))
                };
                let is_known = knows(at) || knows(&root) || ["help", "version"].contains(&option);
                if !is_known {
                    return Err(format!("{} has no option --{option}", at.get_name()));
                }
                continue;
            }
            // `ID` and `FILE` stand for arguments, which any command may take.
            let is_word = word.starts_with(|c: char| c.is_ascii_lowercase());
            if let Some(next) = at.find_subcommand(word) {
                at = next;
            } else if place == 0 && is_word && !PROSE.contains(&word) {
                return Err(format!("there is no command '{word}'"));
            } else if place == 0 {
                return Ok(());
            } else if place == 1 && at.is_subcommand_required_set() && is_word {
                return Err(format!("{} has no subcommand '{word}'", at.get_name()));
            }
        }
        Ok(())
    }
}
