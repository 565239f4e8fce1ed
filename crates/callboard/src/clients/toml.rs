//! Entries in a TOML file of another program. Comments, order and foreign tables stay; so do line ends, which
//! `toml_edit` alone would change.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::entry::{BrokenFile, ClientEntry, StrippedText};
use super::splice::with_line_ends_of;

/// The text with the entries in it.
pub fn merge(text: &str, entries: &[ClientEntry]) -> Result<String, BrokenFile> {
    changed(text, |document| {
        for entry in entries {
            put(text, document, entry)?;
        }
        Ok(())
    })
}

/// The text without the entries; each comes with what stood in its place, null for nothing.
pub fn without(text: &str, entries: &[(&ClientEntry, &Value)]) -> Result<StrippedText, BrokenFile> {
    let text = changed(text, |document| {
        for (entry, before) in entries {
            match before {
                Value::Null => drop(take(document.as_table_mut(), &entry.at)),
                before => put_back(document.as_table_mut(), &entry.at, before),
            }
        }
        Ok(())
    })?;
    Ok(StrippedText { has_others: !text.trim().is_empty(), text })
}

/// The value at a path, as plain data.
pub fn value_at(text: &str, path: &[&str]) -> Result<Option<Value>, BrokenFile> {
    let document = parse(text)?;
    let mut item = document.as_item();
    for name in path {
        match item.get(name) {
            Some(next) => item = next,
            None => return Ok(None),
        }
    }
    Ok(Some(plain(item)))
}

fn parse(text: &str) -> Result<DocumentMut, BrokenFile> {
    text.parse::<DocumentMut>().map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        BrokenFile { line, words: error.message().to_owned() }
    })
}

/// An unchanged document gives the text back byte for byte, also where `toml_edit` would print it in another form.
fn changed(
    text: &str,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), BrokenFile>,
) -> Result<String, BrokenFile> {
    let mut document = parse(text)?;
    let before = document.to_string();
    change(&mut document)?;
    let after = document.to_string();
    if before == after {
        return Ok(text.to_owned());
    }
    Ok(with_line_ends_of(text, &before, &after).unwrap_or(after))
}

fn put(text: &str, document: &mut DocumentMut, entry: &ClientEntry) -> Result<(), BrokenFile> {
    let Some((last, above)) = entry.at.split_last() else { return Ok(()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for name in above {
        let item = table.entry(name).or_insert_with(|| {
            let mut made = Table::new();
            // Without a header of its own: `[a.b]` alone, and no empty `[a]` before it.
            made.set_implicit(true);
            Item::Table(made)
        });
        table = item.as_table_like_mut().ok_or_else(|| not_a_table(text, name))?;
    }
    match table.get(last) {
        Some(found) if entry.is_served_by(&plain(found)) => {}
        _ => {
            table.insert(last, item(&entry.value));
        }
    }
    Ok(())
}

/// Puts a value back at a path. Where none stands any more, the user took it out.
fn put_back(table: &mut dyn TableLike, path: &[&str], before: &Value) {
    match path {
        [] => {}
        [last] if table.contains_key(last) => drop(table.insert(last, item(before))),
        [_] => {}
        [name, rest @ ..] => {
            if let Some(inner) = table.get_mut(name).and_then(Item::as_table_like_mut) {
                put_back(inner, rest, before);
            }
        }
    }
}

/// Takes the item at a path out, and the tables around it that are empty then. Returns whether there was one: a table
/// that was empty before is the user's.
fn take(table: &mut dyn TableLike, path: &[&str]) -> bool {
    match path {
        [] => false,
        [last] => table.remove(last).is_some(),
        [name, rest @ ..] => {
            let inner = table.get_mut(name).and_then(Item::as_table_like_mut);
            let Some(inner) = inner else { return false };
            let is_taken = take(inner, rest);
            if is_taken && inner.is_empty() {
                table.remove(name);
            }
            is_taken
        }
    }
}

fn not_a_table(text: &str, name: &str) -> BrokenFile {
    let line = text.lines().position(|line| line.trim_start().starts_with(name));
    BrokenFile { line: 1 + line.unwrap_or(0), words: format!("{name} is not a table") }
}

fn item(value: &Value) -> Item {
    match value {
        Value::Object(members) => {
            let mut table = Table::new();
            for (name, value) in members {
                table.insert(name, item(value));
            }
            Item::Table(table)
        }
        value => value_of(value).map_or(Item::None, Item::Value),
    }
}

/// A value in one line; TOML has none for null.
fn value_of(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(it) => (*it).into(),
        Value::Number(it) => match it.as_i64() {
            Some(it) => it.into(),
            None => it.as_f64()?.into(),
        },
        Value::String(it) => it.as_str().into(),
        Value::Array(items) => items.iter().filter_map(value_of).collect::<Array>().into(),
        Value::Object(members) => {
            let members = members.iter().filter_map(|(name, value)| Some((name, value_of(value)?)));
            members.collect::<InlineTable>().into()
        }
    })
}

fn plain(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(
            table.iter().map(|(name, item)| (name.to_owned(), plain(item))).collect(),
        );
    }
    if let Some(list) = item.as_array() {
        return list.iter().map(|value| plain(&Item::Value(value.clone()))).collect();
    }
    match item.as_value() {
        Some(toml_edit::Value::String(it)) => it.value().as_str().into(),
        Some(toml_edit::Value::Boolean(it)) => (*it.value()).into(),
        Some(toml_edit::Value::Integer(it)) => (*it.value()).into(),
        Some(toml_edit::Value::Float(it)) => (*it.value()).into(),
        // Dates equal none of our values, so null stands for them.
        _ => Value::Null,
    }
}
