//! Knowledge: what may be stored, by itself or with the completion of a task.

use serde_json::{Value, json};

use crate::actor::Actor;
use crate::command::KnowledgeStore;
use crate::decide::draft::Draft;
use crate::decide::input;
use crate::event::{About, Event, EventName};
use crate::ids::TaskId;
use crate::knowledge::*;
use crate::refusal::found::OrNotFound as _;
use crate::refusal::{Quota, Refusal};
use crate::time::Timestamp;
use crate::world::{Change, Reply, World, Write};

/// Stores an entry, perhaps linked to a task and in the place of an older one. The quota is judged last.
pub(crate) fn knowledge_store(
    world: &World<'_>,
    given: &KnowledgeStore,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let mut entry = entry("", &given.new, world.actor, now)?;
    if given.expires_at.is_some_and(|at| at <= now) {
        return Err(Refusal::invalid("expiresAt must be in the future"));
    }
    entry.expires_at = given.expires_at;
    let mut about = None;
    if let Some((task, kind)) = given.task {
        let subject = world.subject.as_ref().or_not_found(&task)?;
        about = Some(About { project: subject.task.project, task, attempt: None });
        // A task that only used the entry is not its source.
        entry.source_task = (kind == EdgeKind::Produced).then_some(task);
    }
    if let Some(old) = given.supersedes
        && world.knowledge.as_ref().is_none_or(|known| known.id != old)
    {
        return Err(Refusal::invalid(format!("supersedes: knowledge not found: {old}")));
    }
    Quota::judge(given.over_quota.as_ref())?;
    let id = entry.id;
    let mut events = vec![stored(&entry, about)];
    let mut writes = vec![Write::KnowledgeInsert { entry }];
    writes.extend(given.task.map(|(task, kind)| Write::KnowledgeLink { task, entry: id, kind }));
    if let Some(old) = given.supersedes {
        writes.push(Write::KnowledgeSupersede { entry: old, by: id });
        let (actor, name) = (world.actor.clone(), EventName::KnowledgeSuperseded);
        events.push(Event { actor, name, about, data: json!({"knowledge": old, "by": id}) });
    }
    Ok(Change { writes, events, reply: Reply::Knowledge(id), but: None })
}

/// The learnings of a completed task, as entries to store.
pub(crate) fn learnings(
    task: TaskId,
    learned: &[NewKnowledge],
    by: &Actor,
    now: Timestamp,
) -> Result<Vec<KnowledgeEntry>, Refusal> {
    if learned.len() > LEARNINGS_MAX {
        let message = format!("at most {LEARNINGS_MAX} learnings, got {}", learned.len());
        return Err(Refusal::invalid(message));
    }
    let entries = learned.iter().enumerate().map(|(index, new)| {
        let entry = entry(&format!("learning {index}: "), new, by, now)?;
        let source = KnowledgeSource::TaskCompletion;
        Ok(KnowledgeEntry { source, source_task: Some(task), ..entry })
    });
    entries.collect()
}

/// Stores entries as produced by the draft's task.
pub(crate) fn learn(draft: &mut Draft<'_>, entries: Vec<KnowledgeEntry>) {
    let task = draft.task.id;
    for entry in entries {
        draft.event(EventName::KnowledgeStored, said_of(&entry));
        let link = Write::KnowledgeLink { task, entry: entry.id, kind: EdgeKind::Produced };
        draft.write(Write::KnowledgeInsert { entry });
        draft.write(link);
    }
}

fn stored(entry: &KnowledgeEntry, about: Option<About>) -> Event {
    let (actor, data) = (entry.created_by.clone(), said_of(entry));
    Event { actor, name: EventName::KnowledgeStored, about, data }
}

/// The keys of that event: without the body, which the log does not need.
fn said_of(entry: &KnowledgeEntry) -> Value {
    json!({
        "knowledge": entry.id,
        "title": entry.title,
        "source": entry.source.as_str(),
    })
}

/// Judges a new entry; `place` says in messages which of several it is.
fn entry(
    place: &str,
    new: &NewKnowledge,
    by: &Actor,
    now: Timestamp,
) -> Result<KnowledgeEntry, Refusal> {
    let said = |field: &str, text: &str, chars_max: usize| {
        let (field, text) = (format!("{place}{field}"), text.trim());
        let blank = format!("{field} cannot be empty");
        input::said(&field, text, chars_max, &blank).map(str::to_owned)
    };
    let confidence = new.confidence.unwrap_or(CONFIDENCE_DEFAULT);
    let entry = KnowledgeEntry {
        id: new.id,
        title: said("title", &new.title, TITLE_CHARS_MAX)?,
        body: said("body", &new.body, BODY_CHARS_MAX)?,
        tags: tags(&new.tags).map_err(|words| Refusal::invalid(format!("{place}{words}")))?,
        confidence,
        source: KnowledgeSource::Agent,
        source_task: None,
        created_at: now,
        created_by: by.clone(),
        expires_at: None,
        superseded_by: None,
    };
    if confidence > CONFIDENCE_MAX {
        let words = format!("{place}confidence must be 0..{CONFIDENCE_MAX}, got {confidence}");
        return Err(Refusal::invalid(words));
    }
    Ok(entry)
}

/// Tags in lower case, each once; or what is wrong with one.
pub fn tags(given: &[String]) -> Result<Vec<String>, String> {
    let mut tags: Vec<String> = Vec::with_capacity(given.len());
    for tag in given {
        let tag = tag.trim().to_lowercase();
        if !is_kebab_case(&tag) {
            return Err(format!(
                "tag '{tag}' must be 1..{TAG_CHARS_MAX} letters a-z and digits in words joined by '-'"
            ));
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    if tags.len() > TAGS_MAX {
        return Err(format!("at most {TAGS_MAX} tags, got {}", tags.len()));
    }
    Ok(tags)
}

/// `two-words`: no empty word, so no dash at either end and none doubled.
fn is_kebab_case(tag: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    tag.len() <= TAG_CHARS_MAX && tag.split('-').all(word)
}
