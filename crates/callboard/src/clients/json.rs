//! Entries in a JSON file of another program. The file is edited as a syntax tree: comments, order, indentation, line
//! ends and everything that is not ours stay as they are.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::entry::{BrokenFile, ClientEntry, EntryKind, StrippedText};

/// The text with the entries in it.
pub fn merge(text: &str, entries: &[ClientEntry]) -> Result<String, BrokenFile> {
    let (mark, text) = split_mark(text);
    let root = parse(text)?;
    let top = match root.value() {
        // An empty file, or one with comments only, gets an object.
        None => root.object_value_or_set(),
        Some(value) => value.as_object().ok_or_else(|| BrokenFile::not_an_object(1, "the file"))?,
    };
    for entry in entries {
        put(text, &top, entry)?;
    }
    Ok(format!("{mark}{root}"))
}

/// The text without the entries; each comes with what stood in its place, null for nothing.
pub fn without(text: &str, entries: &[(&ClientEntry, &Value)]) -> Result<StrippedText, BrokenFile> {
    let (mark, text) = split_mark(text);
    let root = parse(text)?;
    let Some(top) = root.object_value() else {
        return Ok(StrippedText { text: format!("{mark}{text}"), has_others: true });
    };
    // Keys that may be the user's go last: whether one is left over depends on the rest.
    let (free, own): (Vec<_>, Vec<_>) =
        entries.iter().partition(|(entry, _)| entry.kind == EntryKind::Free);
    for (entry, before) in own.into_iter().chain(free) {
        match before {
            Value::Null => take(&top, entry),
            before => put_back(&top, entry, before),
        }
    }
    // A comment is a user's work, too: a file with one is kept.
    let has_others = !top.properties().is_empty() || has_comment(&root);
    Ok(StrippedText { text: format!("{mark}{root}"), has_others })
}

/// The value at a path, as plain data.
pub fn value_at(text: &str, path: &[&str]) -> Result<Option<Value>, BrokenFile> {
    let root = parse(split_mark(text).1)?;
    let Some((last, above)) = path.split_last() else { return Ok(None) };
    let Some(mut object) = root.object_value() else { return Ok(None) };
    for name in above {
        match object.object_value(name) {
            Some(next) => object = next,
            None => return Ok(None),
        }
    }
    Ok(object.get(last).and_then(|property| property.value()).map(|node| plain(&node)))
}

/// Editors on some systems begin a file with a byte order mark, which is no JSON.
fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    }
}

/// Comments and trailing commas are read, because some of the programs read them. Everything else that is not JSON
/// counts as broken.
fn parse(text: &str) -> Result<CstRootNode, BrokenFile> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    CstRootNode::parse(text, &options).map_err(|error| BrokenFile {
        line: 1 + text[..error.range().start.min(text.len())].matches('\n').count(),
        words: error.kind().to_string(),
    })
}

fn put(text: &str, top: &CstObject, entry: &ClientEntry) -> Result<(), BrokenFile> {
    let Some((last, above)) = entry.at.split_last() else { return Ok(()) };
    let mut object = top.clone();
    for name in above {
        object = object.object_value_or_create(name).ok_or_else(|| wrong(text, name, "object"))?;
    }
    match entry.kind {
        EntryKind::Server | EntryKind::Free => match object.get(last) {
            None => {
                object.append(last, input(&entry.value));
            }
            Some(property) => {
                let found = property.value().map(|node| plain(&node)).unwrap_or_default();
                // An entry that a user adapted stays, as long as it still leads to the server.
                if !entry.is_served_by(&found) {
                    property.set_value(input(&entry.value));
                }
            }
        },
        EntryKind::Item => {
            let list =
                object.array_value_or_create(last).ok_or_else(|| wrong(text, last, "array"))?;
            put_item(&list, entry);
        }
    }
    Ok(())
}

fn put_item(list: &CstArray, entry: &ClientEntry) {
    let ours: Vec<CstNode> =
        list.elements().into_iter().filter(|node| entry.is_ours(&plain(node))).collect();
    match ours.as_slice() {
        // Several entries of ours, or one of another version, become one.
        [only] if plain(only) == entry.value => {}
        _ => {
            ours.into_iter().for_each(CstNode::remove);
            list.append(input(&entry.value));
        }
    }
}

/// Puts a value back in the place of an entry. Where none stands any more, the user took it out.
fn put_back(top: &CstObject, entry: &ClientEntry, before: &Value) {
    let Some((last, above)) = entry.at.split_last() else { return };
    let mut object = Some(top.clone());
    for name in above {
        object = object.and_then(|object| object.object_value(name));
    }
    let Some(property) = object.and_then(|object| object.get(last)) else { return };
    match (property.array_value(), before) {
        (Some(list), Value::Array(items)) if entry.kind == EntryKind::Item => {
            let nodes = list.elements().into_iter();
            nodes.filter(|node| entry.is_ours(&plain(node))).for_each(CstNode::remove);
            items.iter().for_each(|item| drop(list.append(input(item))));
        }
        _ => property.set_value(input(before)),
    }
}

/// Takes an entry out, and the objects and arrays around it that are empty then.
fn take(top: &CstObject, entry: &ClientEntry) {
    let Some((last, above)) = entry.at.split_last() else { return };
    let mut path = vec![top.clone()];
    for name in above {
        let Some(next) = path.last().and_then(|object| object.object_value(name)) else { return };
        path.push(next);
    }
    let Some(property) = path.last().and_then(|object| object.get(last)) else { return };
    match (entry.kind, property.array_value()) {
        (EntryKind::Server, _) => property.remove(),
        (EntryKind::Free, _) => {
            let is_equal = property.value().is_some_and(|node| plain(&node) == entry.value);
            // A key that may be the user's goes only if its value is ours, or when nothing else is left in the file.
            let is_alone = top.properties().len() == 1;
            if !is_equal || !(entry.is_ours(&entry.value) || is_alone) {
                return;
            }
            property.remove();
        }
        (EntryKind::Item, None) => return,
        (EntryKind::Item, Some(list)) => {
            let ours: Vec<CstNode> =
                list.elements().into_iter().filter(|node| entry.is_ours(&plain(node))).collect();
            // A list without an item of ours is the user's, also when it is empty.
            let is_foreign = ours.is_empty();
            ours.into_iter().for_each(CstNode::remove);
            if is_foreign || !list.elements().is_empty() {
                return;
            }
            property.remove();
        }
    }
    // From the inside out. An object that holds a key of the user's own ends the walk.
    while path.len() > 1 && path.last().is_some_and(|object| object.properties().is_empty()) {
        path.pop();
        let name = entry.at[path.len() - 1];
        if let Some(property) = path.last().and_then(|object| object.get(name)) {
            property.remove();
        }
    }
}

fn has_comment(root: &CstRootNode) -> bool {
    fn any(nodes: Vec<CstNode>) -> bool {
        nodes.into_iter().any(|node| node.is_comment() || any(node.children()))
    }
    any(root.children())
}

/// The line is that of the first mention of the name: good enough for a person who opens the file.
fn wrong(text: &str, name: &str, wanted: &str) -> BrokenFile {
    let quoted = format!("\"{name}\"");
    let before = text.find(&quoted).map_or("", |at| &text[..at]);
    BrokenFile {
        line: 1 + before.matches('\n').count(),
        words: format!("{quoted} is not an {wanted}"),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => CstInputValue::Object(
            members.iter().map(|(name, value)| (name.clone(), input(value))).collect(),
        ),
    }
}

/// A node as plain data; a string that cannot be decoded is null, which equals none of our values.
fn plain(node: &CstNode) -> Value {
    if let Some(object) = node.as_object() {
        let member = |property: jsonc_parser::cst::CstObjectProp| {
            Some((property.decoded_name()?, plain(&property.value()?)))
        };
        return Value::Object(object.properties().into_iter().filter_map(member).collect());
    }
    if let Some(list) = node.as_array() {
        return list.elements().iter().map(plain).collect();
    }
    if let Some(text) = node.as_string_lit() {
        return text.decoded_value().map(Value::String).unwrap_or_default();
    }
    serde_json::from_str(&node.to_string()).unwrap_or_default()
}
