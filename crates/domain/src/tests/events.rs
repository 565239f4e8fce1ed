//! Prints docs/reference/events.md: every event with its keys. `decide` holds the rules to the table in debug builds.

use serde_json::json;

use super::check_document;
use crate::event::{EventData, EventName};

#[test]
fn the_events_are_documented() {
    let mut text = String::from(
        "# Events\n\nPrinted by a test from the table in `domain/src/event/names.rs`. An event is written in the \
         transaction of the change\nit tells of. Its data has keys from this table; not every event has all of its \
         keys.\n\n| event | when it is written | keys |\n|---|---|---|\n",
    );
    for name in EventName::ALL {
        let keys: Vec<_> = name.keys().iter().map(|key| format!("`{key}`")).collect();
        text += &format!("| `{}` | {} | {} |\n", name.as_str(), name.when(), keys.join(", "));
    }
    check_document("reference/events.md", &text);
}

#[test]
fn a_key_that_is_not_in_the_table_is_found() {
    let data = json!({"text": "a note", "texts": 1});
    assert_eq!(EventData::of(&data).unlisted(EventName::TaskNoted), ["texts"]);
    assert!(EventData::of(&json!({})).unlisted(EventName::TaskNoted).is_empty());
}
