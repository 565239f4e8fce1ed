//! `callboard man`: the help as manual pages, for packagers.

use std::path::PathBuf;

use super::context::Context;
use super::groups;
use crate::output::Failure;

/// Write a manual page for each command into a folder
#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn cmd_man(context: &Context, args: ManArgs) -> Result<(), Failure> {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(groups::command(), &args.folder));
    written.map_err(|error| {
        Failure::io(format!("cannot write to {}", args.folder.display()), &error)
    })?;
    context.out.line(&format!("manual pages are in {}", args.folder.display()))
}
