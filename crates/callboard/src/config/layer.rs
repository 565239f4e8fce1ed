//! The layers of values: flag, variable, store, local file, project file, user file, default.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use callboard_domain::board::settings::SettingsKept;
use callboard_runner::RawExecutor;
use toml_edit::{Document, DocumentMut, Item, TableLike};

use super::key::{KEYS, Key};
use super::value::Value;
use crate::output::Failure;
use crate::place::Place;
use crate::trust::{self, CONFIG, Mark};

/// Where a value came from. Messages about a wrong value name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Flag(&'static str),
    Variable(String),
    /// Changed while servers run.
    Store,
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(flag) => f.write_str(flag),
            Origin::Variable(name) => f.write_str(name),
            Origin::Store => f.write_str("store"),
            Origin::File(path) => path.display().fmt(f),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// Every key with its value and its origin, and the executors that files describe.
#[derive(Clone, Debug)]
pub struct Resolved {
    values: Values,
    executors: Executors,
    /// The settings of the project's file that are not trusted yet, by their names there.
    untrusted: Vec<String>,
}

/// In the order of the files; a stronger file replaces the executor of the same name in a weaker one.
type Executors = Vec<(String, RawExecutor)>;

/// A value given on the command line.
#[derive(Clone, Debug)]
pub struct FlagValue {
    pub flag: &'static str,
    pub key: &'static str,
    pub value: String,
}

impl Resolved {
    /// Reads every layer but the store, which cannot be opened before its address is known; `keep` adds that one.
    pub fn read(place: Option<&Place>, flags: &[FlagValue]) -> Result<Self, Failure> {
        let mut values = HashMap::new();
        for key in KEYS {
            values.insert(key.name, (key.default_value(), Origin::Default));
        }
        let mut all = Self { values, executors: Vec::new(), untrusted: Vec::new() };
        // From the weakest to the strongest; a later one replaces an earlier one.
        if let Some(user) = user_folder() {
            all.take(FileContent::of(&user.join(CONFIG))?);
        }
        if let Some(place) = place {
            all.take_project(place, FileContent::of(&place.folder().join(CONFIG))?);
            all.take(FileContent::of(&place.folder().join(LOCAL))?);
        }
        let values = &mut all.values;
        for key in KEYS {
            // The last variable wins, so the shorter name comes last.
            for name in key.variables().into_iter().rev() {
                let Ok(text) = std::env::var(&name) else { continue };
                let value = Value::from_text(key, &text)
                    .map_err(|error| Failure::config(format!("{name}: {error}")))?;
                values.insert(key.name, (value, Origin::Variable(name)));
            }
        }
        for given in flags {
            let key = Key::find(given.key).expect("flags name keys of the table");
            let value = Value::from_text(key, &given.value)
                .map_err(|error| Failure::config(format!("{}: {error}", given.flag)))?;
            values.insert(key.name, (value, Origin::Flag(given.flag)));
        }
        Ok(all)
    }

    /// Takes all of a file: one of this user or this machine is trusted.
    fn take(&mut self, read: FileContent) {
        self.values.extend(read.values);
        for (name, executor) in read.executors {
            self.executors.retain(|(known, _)| *known != name);
            self.executors.push((name, executor));
        }
    }

    /// Takes the values of a repository's own file; guarded ones only if it is trusted.
    fn take_project(&mut self, place: &Place, mut read: FileContent) {
        let is_guarded = |name: &str| Key::find(name).is_some_and(|key| key.is_guarded);
        let guarded = read.values.keys().filter(|name| is_guarded(name));
        let mut asks: Vec<String> = guarded.map(ToString::to_string).collect();
        asks.sort();
        asks.extend(read.executors.iter().map(|(name, _)| format!("{EXECUTORS}.{name}")));
        let prompts = trust::prompt_files(&place.folder()).unwrap_or_default();
        asks.extend(prompts.iter().filter_map(|path| {
            Some(format!("{}/{}", trust::PROMPTS, path.file_name()?.to_string_lossy()))
        }));
        let is_trusted = || Mark::of_settings(place).is_some_and(|mark| mark.is_trusted());
        // All or nothing: a mark stands for the content of the file, not for single keys.
        if !asks.is_empty() && !is_trusted() {
            read.values.retain(|name, _| !is_guarded(name));
            read.executors.clear();
            self.untrusted = asks;
        }
        self.take(read);
    }

    /// The settings of the project's own files that do not count before `callboard trust`.
    pub fn untrusted(&self) -> &[String] {
        &self.untrusted
    }

    /// Inserts the settings that the store keeps: below flags and variables, above the files.
    pub fn keep(&mut self, kept: &SettingsKept) {
        for (setting, value) in kept {
            let Some(key) = Key::find(setting.as_str()) else { continue };
            let text = match value {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            // A flag or a variable of this process is stronger than the store, whose value other servers follow.
            let is_weaker = match self.origin(key.name) {
                Origin::Flag(_) | Origin::Variable(_) => false,
                Origin::Store | Origin::File(_) | Origin::Default => true,
            };
            if let Some(value) = Value::from_text(key, &text).ok().filter(|_| is_weaker) {
                self.values.insert(key.name, (value, Origin::Store));
            }
        }
    }

    /// Executors that files describe, beside the built-in ones.
    pub fn executors(&self) -> &[(String, RawExecutor)] {
        &self.executors
    }

    pub fn value(&self, name: &str) -> &Value {
        &self.get(name).0
    }

    /// Where the value of a key came from.
    pub fn origin(&self, name: &str) -> &Origin {
        &self.get(name).1
    }

    fn get(&self, name: &str) -> &(Value, Origin) {
        self.values.get(name).expect("every key of the table has at least its default")
    }
}

/// Settings for one machine only.
pub const LOCAL: &str = "config.local.toml";

/// The folder of the user's own settings.
fn user_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    config.map(|folder| folder.join("callboard"))
}

type Values = HashMap<&'static str, (Value, Origin)>;

/// The content of one file.
#[derive(Default)]
struct FileContent {
    values: Values,
    executors: Executors,
}

impl FileContent {
    /// Empty for a file that does not exist.
    fn of(path: &Path) -> Result<Self, Failure> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Self::default());
            }
            Err(error) => return Err(Failure::config(format!("{}: {error}", path.display()))),
        };
        let document = Document::parse(text.as_str()).map_err(|error| {
            let words = error.message().trim().replace('\n', ", ");
            Failure::config(format!("{}{}: {words}", path.display(), line_of(&text, error.span())))
        })?;
        let mut read = Self::default();
        read_table(&ConfigFile { path, text: &text }, document.as_table(), "", &mut read.values)?;
        let described = document.as_table().get(EXECUTORS).and_then(Item::as_table_like);
        for (name, item) in described.into_iter().flat_map(TableLike::iter) {
            let executor = read_executor(item).map_err(|words| {
                let place = format!("{}{}", path.display(), line_of(&text, item.span()));
                Failure::config(format!("{place}: {EXECUTORS}.{name}: {words}"))
            })?;
            read.executors.push((name.to_owned(), executor));
        }
        Ok(read)
    }
}

/// The section of tables with freely chosen names.
const EXECUTORS: &str = "executors";

/// Reads one executor. Its table is copied into a document of its own, since the reader takes whole documents.
fn read_executor(item: &Item) -> Result<RawExecutor, String> {
    let table = item.as_table_like().ok_or("must be a table")?;
    let mut alone = DocumentMut::new();
    for (key, value) in table.iter() {
        alone.insert(key, value.clone());
    }
    toml_edit::de::from_document(alone).map_err(|error| error.message().trim().to_owned())
}

/// A file with its text, for line numbers in messages.
struct ConfigFile<'a> {
    path: &'a Path,
    text: &'a str,
}

/// Reads a table and those inside it. An unknown key is refused: a mistyped setting would otherwise silently not count.
fn read_table(
    file: &ConfigFile<'_>,
    table: &dyn TableLike,
    prefix: &str,
    values: &mut Values,
) -> Result<(), Failure> {
    for (name, item) in table.iter() {
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let fault = |words: String| {
            let line = line_of(file.text, item.span());
            Failure::config(format!("{}{line}: {words}", file.path.display()))
        };
        if name == EXECUTORS {
            continue;
        }
        match Key::find(&name) {
            Some(key) => {
                let value =
                    item.as_value().ok_or_else(|| fault(format!("{name} is not a table")))?;
                let value = Value::from_toml(key, value).map_err(fault)?;
                values.insert(key.name, (value, Origin::File(file.path.to_owned())));
            }
            None if is_section(&name) => {
                let inner = item
                    .as_table_like()
                    .ok_or_else(|| fault(format!("{name} must be a table, [{name}]")))?;
                read_table(file, inner, &name, values)?;
            }
            None => return Err(fault(unknown(&name))),
        }
    }
    Ok(())
}

/// Whether any key begins with this name.
fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

/// The message about a key that does not exist, with the nearest one that does.
pub fn unknown(name: &str) -> String {
    match Key::nearest(name) {
        Some(nearest) => format!("unknown key '{name}'; did you mean '{nearest}'?"),
        None => format!("unknown key '{name}'"),
    }
}

/// `:12`, for a place in a file; empty where the place is not known.
fn line_of(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return String::new() };
    format!(":{}", before.matches('\n').count() + 1)
}
