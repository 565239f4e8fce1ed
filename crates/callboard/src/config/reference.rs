//! Prints `docs/reference/settings.md` from the key table.

use std::path::Path;

use callboard_domain::board::settings::SettingKey;

use super::key::{KEYS, Key, Kind};
use super::value::LIMIT_MAX;

/// `CALLBOARD_BLESS=1 cargo test --bins` rewrites the page.
#[test]
fn every_setting_is_documented() {
    let mut text = String::from(
        "# Settings\n\nThis page is generated from the key table. `CALLBOARD_BLESS=1 cargo test --bins` rewrites it. \
         [install.md](../operate/install.md#settings) says where settings are kept and which place goes first. \
         `callboard config` lists every key with its value.\n\nA key is set in `.callboard/config.toml`, in \
         `.callboard/config.local.toml`, in the user's own config, by a variable (`graph.prefix` is \
         `CALLBOARD_GRAPH_PREFIX`) or by a flag. The column \"who may set it\" names the exceptions:\n\n\
         - *after trust*: `config.toml` of a repository sets the key only after `callboard trust`. Your own files, \
         variables and flags set it at once.\n\
         - *store*: a caller with the profile `maintainer` may also change the key while servers run, with \
         `settings_update` of the toolset `board`. That value is stronger than files, and weaker than variables and \
         flags.\n",
    );
    let mut section = "";
    for key in KEYS {
        let of = key.name.split('.').next().unwrap_or_default();
        if of != section {
            section = of;
            text += &format!(
                "\n## {section}\n\n| key | type | default | meaning | who may set it |\n|---|---|---|---|---|\n"
            );
        }
        text += &row(key);
    }
    text += "\n## executors\n\nPrograms that play an agent, each in a section `[executors.NAME]`. \
             [agents.md](../guide/agents.md#settings-of-an-executor) lists the keys. They count from a repository after \
             `callboard trust`.\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/settings.md");
    if std::env::var_os("CALLBOARD_BLESS").is_some() {
        std::fs::write(&path, &text).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/reference/settings.md is out of date; run the tests with CALLBOARD_BLESS=1"
    );
}

fn row(key: &Key) -> String {
    let kind = match key.kind {
        Kind::Text => "text".to_owned(),
        Kind::Secret => "text that is never shown".to_owned(),
        Kind::Integer { min, max } => format!("integer, {min}..{max}"),
        Kind::Limit => format!("integer, 0..{LIMIT_MAX}, or `unlimited`"),
        Kind::Fraction => "number, 0..1".to_owned(),
        Kind::Boolean => "`true` or `false`".to_owned(),
        Kind::Word(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Kind::List => "list of texts".to_owned(),
    };
    let default = match (key.name, key.default) {
        // The default of Windows is another one.
        ("general.default_pair_terminal_backend", _) => "`tmux`; on Windows `vscode`".to_owned(),
        (_, "") => "empty".to_owned(),
        (_, text) => format!("`{text}`"),
    };
    let marks = [(key.is_guarded, "after trust"), (SettingKey::parse(key.name).is_some(), "store")];
    let marks: Vec<&str> =
        marks.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    let names: Vec<String> = key
        .variables()
        .iter()
        .skip(1)
        .map(|name| format!(" Also the variable `{name}`."))
        .collect();
    let help = key.help.replace('|', "\\|");
    format!(
        "| `{}` | {kind} | {default} | {help}{} | {} |\n",
        key.name,
        names.concat(),
        marks.join(", ")
    )
}
