//! `callboard model …`: the model that finds knowledge by its meaning.

use std::path::PathBuf;

use callboard_runner::embed::{InstallError, install};
use serde_json::json;

use super::context::Context;
use crate::embedder::models_folder;
use crate::output::{Exit, Failure, Object};

/// Put in place the model that finds knowledge by its meaning
#[derive(clap::Subcommand, Debug)]
pub enum ModelCommand {
    Install(InstallArgs),
}

impl ModelCommand {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            ModelCommand::Install(args) => cmd_model_install(context, args),
        }
    }
}

/// Copy a model into your data folder, after checking that it is one callboard knows
///
/// FOLDER is all-MiniLM-L6-v2 as sentence-transformers has it: model.safetensors, tokenizer.json
/// and config.json. Nothing is downloaded.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard model install --from ~/all-MiniLM-L6-v2")]
pub struct InstallArgs {
    /// The folder with the model's files
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
}

fn cmd_model_install(context: &Context, args: InstallArgs) -> Result<(), Failure> {
    let models = models_folder().ok_or_else(|| {
        Failure::usage("there is no folder for models: set XDG_DATA_HOME or HOME")
    })?;
    let model = install(&args.from, &models).map_err(|error| match error {
        InstallError::File { .. } => {
            Failure::new(Exit::Failure, "CANNOT_INSTALL", error.to_string())
                .hint("--from names a folder with model.safetensors, tokenizer.json, config.json")
        }
        InstallError::Unknown { .. } => {
            Failure::new(Exit::Failure, "UNKNOWN_MODEL", error.to_string())
        }
    })?;
    if context.out.json {
        let path = model.path.display().to_string();
        return context.out.object(Object::Model, json!({"model": model.id, "path": path}));
    }
    context.out.line(&format!("{} is in {}", model.id, model.path.display()))
}
