//! `callboard task …`: making, reading and changing tasks.

mod add;
mod dep;
mod edit;
mod list;
mod r#move;
mod reopen;
mod rm;
mod show;
mod verify;

use super::context::Context;
use crate::output::Failure;

/// Add, read and change tasks
#[derive(clap::Subcommand, Debug)]
pub enum TaskCommand {
    Add(add::TaskAddArgs),
    List(list::TaskListArgs),
    Show(show::TaskShowArgs),
    Edit(edit::EditArgs),
    Move(r#move::MoveArgs),
    Approve(super::approve::ApproveArgs),
    Reopen(reopen::ReopenArgs),
    Verify(verify::VerifyArgs),
    #[command(subcommand)]
    Dep(dep::DepCommand),
    Rm(rm::RmArgs),
}

impl TaskCommand {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            TaskCommand::Add(args) => add::cmd_task_add(context, args).await,
            TaskCommand::List(args) => list::cmd_task_list(context, args).await,
            TaskCommand::Show(args) => show::cmd_task_show(context, args).await,
            TaskCommand::Edit(args) => edit::cmd_task_edit(context, args).await,
            TaskCommand::Move(args) => r#move::cmd_task_move(context, args).await,
            TaskCommand::Approve(args) => super::approve::cmd_approve(context, args).await,
            TaskCommand::Reopen(args) => reopen::cmd_task_reopen(context, args).await,
            TaskCommand::Verify(args) => verify::cmd_task_verify(context, args).await,
            TaskCommand::Dep(command) => command.run(context).await,
            TaskCommand::Rm(args) => rm::cmd_task_rm(context, args).await,
        }
    }
}

/// A text argument; `-` reads standard input.
pub(super) fn text_or_stdin(text: String) -> Result<String, Failure> {
    if text != "-" {
        return Ok(text);
    }
    std::io::read_to_string(std::io::stdin())
        .map_err(|error| Failure::io("cannot read standard input", &error))
}
