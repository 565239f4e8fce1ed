//! `callboard completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::context::Context;
use crate::output::Failure;

/// Print a completion script for a shell
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
    clap_complete::generate(args.shell, &mut Cli::command(), "callboard", &mut script);
    context.out.raw(&String::from_utf8_lossy(&script))
}
