//! `callboard export`: the tasks as a file that `callboard import` reads, for programs or for people.

use std::path::Path;

use callboard_domain::export::ExportFormat;
use serde_json::json;

use super::context::Context;
use crate::output::{Exit, Failure, Object};

/// Write the tasks of this project to a file
///
/// .jsonl is for programs, .md and .html are for people; each can be imported again. The file must not be there yet.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  callboard export backlog.jsonl --closed\n  callboard export - --format md"
)]
pub struct ExportArgs {
    /// The file to write; - writes to standard output
    file: String,
    /// jsonl, md or html [default: from the file's name]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    #[arg(value_parser = ExportFormat::ALL.map(ExportFormat::as_str))]
    format: Option<String>,
    /// Closed tasks too
    #[arg(long)]
    closed: bool,
}

pub async fn cmd_export(context: &Context, args: ExportArgs) -> Result<(), Failure> {
    let path = Path::new(&args.file);
    let extension = path.extension().and_then(|extension| extension.to_str());
    let format = args.format.as_deref().or(extension).and_then(ExportFormat::parse);
    let format = format.ok_or_else(|| {
        let message = format!("'{}' does not say which format is wanted", args.file);
        Failure::usage(message).hint("--format jsonl, md or html")
    })?;
    let open = context.open().await?;
    let tasks = open.engine().backlog(&open.op("export"), args.closed).await?;
    let project = &open.engine().home().project.name;
    let text = format.render(project, &tasks);
    if args.file == "-" {
        return context.out.raw(&text);
    }
    write_new(path, &text)?;
    if context.out.json {
        let document = json!({"file": path, "tasks": tasks.len(), "format": format.as_str()});
        return context.out.object(Object::Export, document);
    }
    context.out.line(&format!("{} holds {} tasks", path.display(), tasks.len()))
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    use std::io::Write;
    let file = std::fs::File::create_new(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let taken = format!("{} already exists and was not changed", path.display());
            Failure::new(Exit::Conflict, "FILE_EXISTS", taken).hint("name another file")
        }
        _ => Failure::io(format!("cannot write {}", path.display()), &error),
    })
}
