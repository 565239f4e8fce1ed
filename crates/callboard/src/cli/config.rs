//! `callboard config`: every setting, its value and its origin.

use serde_json::{Value, json};

use super::context::Context;
use crate::compose::settings_kept;
use crate::config::{KEYS, Key, Kind, Resolved, Settings, Value as SettingValue, schema, unknown};
use crate::output::{Exit, Failure, List, Object, Style, Table};
use crate::place::Place;

/// Show settings and where they come from
///
/// In order: flag, CALLBOARD_* variable, what settings_update put into the store,
/// .callboard/config.local.toml, .callboard/config.toml, ~/.config/callboard/config.toml, default.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard config get http.listen --show-origin")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
}

#[derive(clap::Subcommand, Debug)]
enum ConfigCommand {
    /// Print one setting
    #[command(after_help = "Example:\n  callboard config get graph.prefix")]
    Get {
        /// Its name, as callboard config shows it
        key: String,
        /// Also print where the value comes from
        #[arg(long)]
        show_origin: bool,
    },
    /// Print a JSON Schema of the settings file, for editors
    #[command(after_help = "Example:\n  callboard config schema > callboard.schema.json")]
    Schema,
}

pub async fn cmd_config(context: &Context, args: ConfigArgs) -> Result<(), Failure> {
    if let Some(ConfigCommand::Schema) = args.command {
        return context.out.line(&format!("{:#}", schema()));
    }
    let place = Place::find()?;
    let mut values = context.values(place.as_ref(), None)?;
    let settings = Settings::of(&values)?;
    match settings_kept(&settings, place.as_ref(), context.org()).await {
        Ok(kept) => values.keep(&kept),
        Err(failure) => {
            context.out.warning(&format!("settings in the store are not shown: {failure}"));
        }
    }
    match args.command {
        Some(ConfigCommand::Get { key, show_origin }) => get(context, &values, &key, show_origin),
        Some(ConfigCommand::Schema) | None => list(context, &values),
    }
}

fn get(context: &Context, values: &Resolved, name: &str, origin: bool) -> Result<(), Failure> {
    let key = Key::find(name).ok_or_else(|| {
        Failure::new(Exit::NotFound, "UNKNOWN_KEY", unknown(name)).hint("callboard config")
    })?;
    if context.out.json {
        return context.out.object(Object::Setting, entry(key, values));
    }
    let value = shown(key, values);
    match origin {
        true => context.out.line(&format!("{value}\t{}", values.origin(key.name))),
        false => context.out.line(&value.to_string()),
    }
}

fn list(context: &Context, values: &Resolved) -> Result<(), Failure> {
    if context.out.json {
        let settings: Vec<Value> = KEYS.iter().map(|key| entry(key, values)).collect();
        return context.out.list(List::Settings, settings, Value::Null);
    }
    let mut table = Table::new(&["KEY", "FROM", "VALUE"]).whole();
    for key in KEYS {
        let value = match shown(key, values).to_string() {
            empty if empty.is_empty() => "-".to_owned(),
            value => value,
        };
        let origin = values.origin(key.name).to_string();
        table.row([
            (key.name.to_owned(), Style::Bold),
            (origin, Style::Dim),
            (value, Style::Plain),
        ]);
    }
    context.out.raw(&table.render(&context.out))
}

/// A value without secrets.
fn shown(key: &Key, values: &Resolved) -> SettingValue {
    match (key.kind, values.value(key.name)) {
        (Kind::Secret, SettingValue::Text(text)) if !text.is_empty() => {
            SettingValue::Text("(secret)".into())
        }
        (_, value) => value.clone(),
    }
}

fn entry(key: &Key, values: &Resolved) -> Value {
    json!({
        "key": key.name,
        "value": shown(key, values).to_json(),
        "origin": values.origin(key.name).to_string(),
        "default": key.default_value().to_json(),
        "help": key.help,
    })
}
