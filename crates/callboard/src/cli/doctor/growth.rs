//! What grows in the store, how much of it the settings `retention.*` would remove, and the size of the database.

use callboard_domain::retention::Growing;
use callboard_domain::time::span_words;
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{Engine, EngineError};
use serde_json::{Value, json};

use super::Finding;
use crate::output::Failure;

/// Unused space of a file that is worth a word.
const FREE_BYTES_WARNED: u64 = 64 * 1024 * 1024;

pub(super) async fn look(engine: &Engine) -> Vec<Finding> {
    let failed = |name| move |error: EngineError| Finding::failed(name, &Failure::from(error));
    vec![
        growth(engine).await.unwrap_or_else(failed("growth")),
        space(engine).await.unwrap_or_else(failed("space")),
    ]
}

/// Rows and bytes of each kind, and the rows that its setting would remove now.
async fn growth(engine: &Engine) -> Result<Finding, EngineError> {
    let now = engine.store().now();
    let (mut words, mut figures): (Vec<String>, Vec<Value>) = Default::default();
    for grown in engine.store().grown().await? {
        let removable = match Growing::parse(grown.kind) {
            Some(kind) => engine.prunable(kind).await?,
            None => None,
        };
        let age = grown.oldest.map(|oldest| span_words(now.ms_since(oldest)));
        figures.push(json!({
            "kind": grown.kind,
            "rows": grown.rows,
            "bytes": grown.bytes,
            "oldest": grown.oldest.map(rfc3339_ms),
            "removable": removable,
        }));
        if let (1.., Some(age)) = (grown.rows, age) {
            let going = removable.map(|rows| format!(", {rows} may go")).unwrap_or_default();
            let (kind, rows) = (grown.kind.replace('_', " "), grown.rows);
            words.push(format!("{rows} {kind} ({}, oldest {age}{going})", size(grown.bytes)));
        }
    }
    let words = if words.is_empty() { "nothing has grown yet".into() } else { words.join("; ") };
    Ok(Finding::ok("growth", words).with(figures.into()))
}

/// The size of the database, and whether it can get smaller.
async fn space(engine: &Engine) -> Result<Finding, EngineError> {
    let space = engine.store().space().await?;
    let is_pruned = Growing::ALL.iter().any(|kind| engine.retention().days(*kind).is_some());
    let words =
        format!("the database has {}, {} unused", size(space.bytes), size(space.free_bytes));
    let figures = json!({
        "bytes": space.bytes,
        "freeBytes": space.free_bytes,
        "shrinks": space.shrinks,
    });
    let finding = match space.shrinks {
        true => Finding::ok("space", words),
        false if is_pruned || space.free_bytes > FREE_BYTES_WARNED => Finding::warn(
            "space",
            format!("{words}; the file was made by an older callboard and cannot get smaller"),
            "callboard backup FILE, stop every server, callboard restore FILE",
        ),
        false => Finding::ok("space", words),
    };
    Ok(finding.with(figures))
}

/// A size for people.
fn size(bytes: u64) -> String {
    const KB: u64 = 1000;
    match bytes {
        0..KB => format!("{bytes} B"),
        KB..1_000_000 => format!("{} kB", bytes / KB),
        1_000_000.. => format!("{} MB", bytes / 1_000_000),
    }
}
