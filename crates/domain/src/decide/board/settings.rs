//! Changes of settings: all values of a request fit, or none is changed.

use serde_json::{Map, json};

use crate::board::settings::SettingKey;
use crate::command::SettingsUpdate;
use crate::event::{Event, EventName};
use crate::refusal::Refusal;
use crate::world::{Change, OrgWrite, Reply, World, Write};

pub(crate) fn settings_update(
    world: &World<'_>,
    update: &SettingsUpdate,
) -> Result<Change, Refusal> {
    if update.set.is_empty() {
        let known: Vec<_> = SettingKey::ALL.iter().map(|key| key.as_str()).collect();
        let message = format!("no setting is named; settings are {}", known.join(", "));
        return Err(Refusal::InvalidSetting { message });
    }
    let mut before = update.base.clone();
    for (key, value) in &world.org.settings {
        // A stored value that the rules no longer accept counts as not stored.
        let _ = before.set(*key, value, &update.agents);
    }
    let mut after = before.clone();
    for (key, value) in &update.set {
        let refuse = |message| Refusal::InvalidSetting { message };
        after.set(*key, value, &update.agents).map_err(refuse)?;
    }
    let (mut writes, mut changes) = (Vec::new(), Map::new());
    for key in SettingKey::ALL {
        let (old, new) = (before.get(*key), after.get(*key));
        if old != new {
            changes.insert(key.as_str().into(), json!({"old": old, "new": new}));
            writes.push(Write::Org(OrgWrite::SettingPut { key: *key, value: new }));
        }
    }
    let (actor, name) = (world.actor.clone(), EventName::SettingsUpdated);
    let events = match changes.is_empty() {
        true => Vec::new(),
        false => vec![Event { actor, name, about: None, data: json!({"changes": changes}) }],
    };
    Ok(Change { writes, events, reply: Reply::Settings, but: None })
}
