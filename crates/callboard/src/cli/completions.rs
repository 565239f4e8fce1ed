//! `callboard completions`. The script of a shell knows the commands and their options; for the names of tasks it asks
//! `callboard complete`.

use clap_complete::Shell;

use super::context::Context;
use super::groups;
use crate::output::Failure;

/// Print a completion script for a shell
///
/// The scripts of bash, zsh and fish also complete the names of open tasks, from a board in .callboard/.
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
const FISH: &str = r#"
complete -c callboard -k -a "(callboard complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)"
"#;

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
            called(ZSH, &["    _callboard \"$@\"", "compdef _callboard "], "if [ \"$funcstack[1]\"")
        }
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.to_owned(),
    }
}
