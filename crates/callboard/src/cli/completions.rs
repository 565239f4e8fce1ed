//! `callboard completions`. The script of a shell knows the commands and their options; for the names of tasks, jobs,
//! agents and the like it asks `callboard complete`.

use clap_complete::Shell;

use super::complete::OPTIONS;
use super::context::Context;
use super::groups;
use crate::output::Failure;

/// Print a completion script for a shell
///
/// The scripts of bash, zsh and fish also complete the names of open tasks and the ids of jobs, mails, plans, tokens and
/// agents, from a board in .callboard/, and the agents of --agent and --clients.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  callboard completions bash > ~/.local/share/bash-completion/completions/callboard"
)]
pub struct CompletionsArgs {
    /// The shell that the script is for
    shell: Shell,
}

pub fn cmd_completions(context: &Context, args: CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut groups::command(), "callboard", &mut script);
    context.out.raw(&with_tasks(args.shell, &String::from_utf8_lossy(&script)))
}

const BASH: &str = r#"
_callboard_tasks() {
    _callboard "$@"
    local line
    while IFS=$'\t' read -r line _; do
        COMPREPLY+=("$line")
    done < <(callboard complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
"#;
const ZSH: &str = r#"
_callboard_tasks() {
    local -a tasks
    tasks=(${(f)"$(callboard complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#tasks )); then
        compadd -- ${tasks%%$'\t'*}
    else
        _callboard "$@"
    fi
}
"#;
/// An option and its value in one word are passed as two: fish puts the option before the answer itself.
const FISH: &str = r#"-k -a "(callboard complete -- (commandline -opc)[2..] (string split -m1 = -- (commandline -ct)) 2>/dev/null)""#;

/// The script with the names of tasks in it: the function that the shell calls asks for them.
fn with_tasks(shell: Shell, script: &str) -> String {
    let called = |function: &str, marks: &[&str], end: &str| {
        let (head, tail) = script.split_at(script.rfind(end).unwrap_or(script.len()));
        let tail = marks.iter().fold(tail.to_owned(), |tail, mark| {
            tail.replace(mark, &mark.replace("_callboard ", "_callboard_tasks "))
        });
        format!("{head}{}\n{tail}", function.trim_start())
    };
    match shell {
        Shell::Bash => called(BASH, &["-F _callboard "], "if [[ \"${BASH_VERSINFO"),
        Shell::Zsh => {
            // zsh loads the file at the first tab, as the function that it calls at the next one, too.
            let again = "    compdef _callboard_tasks callboard\n    _callboard_tasks \"$@\"";
            called(ZSH, &["    _callboard \"$@\"", "compdef _callboard "], "if [ \"$funcstack[1]\"")
                .replace("    _callboard_tasks \"$@\"", again)
        }
        Shell::Fish => {
            let mut lines: Vec<String> = script.lines().map(with_values).collect();
            lines.push(format!("complete -c callboard {FISH}\n"));
            lines.join("\n")
        }
        _ => script.to_owned(),
    }
}

/// A line of fish's script. For the value of an option fish asks nothing but the line of the option.
fn with_values(line: &str) -> String {
    let is_asked = OPTIONS.iter().any(|name| line.contains(&format!(" -l {name} ")));
    match is_asked && line.ends_with(" -r") {
        true => format!("{line} -f {FISH}"),
        false => line.to_owned(),
    }
}
