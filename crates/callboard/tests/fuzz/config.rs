//! Random settings files, made from the schema of the settings: read, or refused with the name of the file. A board with
//! settings that were accepted can be read.

use serde_json::Value;

use crate::ground::Ground;
use crate::seeded::{Rng, Round, seeds};
use crate::wild;

const ROUNDS: u64 = 40;
const FILE: &str = ".callboard/config.local.toml";

#[test]
fn settings_are_read_or_refused_by_name() {
    let ground = Ground::new(None);
    let schema: Value = serde_json::from_str(&ground.ok(&["config", "schema"])).unwrap();
    let mut accepted = 0;
    for seed in seeds(ROUNDS) {
        let _round = Round(seed);
        let mut rng = Rng::of(seed);
        let text = settings(&mut rng, &schema);
        let text = if rng.percent(30) { wild::mutated(&mut rng, &text) } else { text.into_bytes() };
        std::fs::write(ground.path().join(FILE), &text).unwrap();
        let shown = || String::from_utf8_lossy(&text).chars().take(3_000).collect::<String>();
        let config = |arguments: &[&str]| {
            let ran = ground.program().args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(!said.contains("panicked"), "{said}\n{}", shown());
            assert!(said.len() < 20_000, "{} bytes on stderr for\n{}", said.len(), shown());
            (ran.status.code(), said)
        };
        let (code, said) = config(&["config"]);
        match code {
            Some(0) => {
                accepted += 1;
                // What `config` accepts, the board can be opened with, or it says which setting it cannot use.
                let (code, said) = config(&["task", "list"]);
                assert!(matches!(code, Some(0 | 2)), "{code:?}: {said}\n{}", shown());
            }
            Some(2) => assert!(
                said.contains("config.local.toml") || said.contains('.'),
                "{said}\n{}",
                shown()
            ),
            code => panic!("{code:?}: {said}\n{}", shown()),
        }
    }
    assert!(accepted > 0, "some settings are right");
}

/// A file with some settings of the schema.
fn settings(rng: &mut Rng, schema: &Value) -> String {
    let wild = *rng.pick(&[0, 5, 30]);
    let mut text = String::new();
    for (section, table) in schema["properties"].as_object().unwrap() {
        // Where the store is stays as it is, so that the board can be opened.
        if section == "store" || !rng.percent(40) {
            continue;
        }
        text.push_str(&format!("[{section}]\n"));
        for (key, setting) in table["properties"].as_object().into_iter().flatten() {
            if !rng.percent(30) {
                continue;
            }
            let value = match rng.percent(wild) {
                true => wild::value(rng),
                false => fitting(rng, setting),
            };
            text.push_str(&format!("{key} = {}\n", toml(&value)));
        }
        if rng.percent(wild / 5) {
            text.push_str(&format!("{} = 1\n", wild::short(rng)));
        }
    }
    text
}

fn fitting(rng: &mut Rng, setting: &Value) -> Value {
    if let Some(words) = setting["enum"].as_array() {
        return rng.pick(words).clone();
    }
    let (least, most) = (setting["minimum"].as_i64(), setting["maximum"].as_i64());
    match (least, most) {
        (Some(least), Some(most)) if rng.percent(60) => {
            (*rng.pick(&[least, most, (least + most) / 2])).into()
        }
        _ => setting["default"].clone(),
    }
}

/// A value as TOML writes it; `null` has no form there and is left as it is.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{} = {}", Value::from(key.as_str()), toml(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}
