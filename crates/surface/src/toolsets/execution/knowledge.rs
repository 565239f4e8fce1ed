//! Knowledge: arguments and handlers of the tools that store and find it.

use callboard_domain::knowledge::{EdgeKind, KnowledgeAsk, KnowledgeId};
use callboard_domain::refusal::{Refusal, brief};
use callboard_domain::time::Timestamp;
use callboard_engine::{EngineError, KnowledgeDraft, Learning};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::tools::{client_token, task_id};
use super::view;
use crate::page::{PageSize, page};
use crate::tool::Call;
use callboard_engine::time::parse_rfc3339;

type Reply = Result<Value, EngineError>;

/// Entries of a search without `limit`.
const RESULTS_DEFAULT: usize = 10;
/// How much of a learning's first line becomes the title of one without a title.
const LINE_CHARS: usize = 80;

/// A learning as an object, or as the text alone.
// `args::form` picks a form by the kind of the value: text, or an object.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum LearningArgument {
    Text(String),
    Whole(LearningFields),
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct LearningFields {
    title: String,
    body: String,
    /// kebab-case
    tags: Option<Vec<String>>,
    #[schemars(range(min = 0, max = 100))]
    confidence: Option<u8>,
}

impl From<LearningArgument> for Learning {
    fn from(given: LearningArgument) -> Self {
        match given {
            LearningArgument::Text(text) => {
                // An entry needs a title; the first line is the nearest thing to one.
                let line = text.trim().lines().next().unwrap_or_default();
                let title = line.chars().take(LINE_CHARS).collect();
                Self { title, body: text, ..Self::default() }
            }
            LearningArgument::Whole(LearningFields { title, body, tags, confidence }) => {
                Self { title, body, tags: tags.unwrap_or_default(), confidence }
            }
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Search {
    query: String,
    #[schemars(range(min = 1, max = 50))]
    limit: Option<u32>,
    /// all of them
    tags: Option<Vec<String>>,
    #[schemars(range(min = 0, max = 1))]
    min_score: Option<f64>,
    include_superseded: Option<bool>,
    include_expired: Option<bool>,
}

/// Finds entries by words and by meaning. `degraded` says that only words decided.
pub(super) async fn search_knowledge(call: &Call<'_>, args: Search) -> Reply {
    let size = PageSize::of(args.limit, RESULTS_DEFAULT);
    let ask = KnowledgeAsk {
        limit: size.limit,
        tags: args.tags.unwrap_or_default(),
        min_score: args.min_score.unwrap_or(0.0),
        include_superseded: args.include_superseded.unwrap_or(false),
        include_expired: args.include_expired.unwrap_or(false),
        ..KnowledgeAsk::of(args.query)
    };
    let found = call.engine.knowledge_search(call.op, ask).await?;
    let (results, _) = page(&found.hits, size, view::hit);
    Ok(json!({"results": results, "degraded": found.degraded}))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Store {
    title: String,
    body: String,
    /// kebab-case
    tags: Option<Vec<String>>,
    /// how sure you are, 80 if left out
    #[schemars(range(min = 0, max = 100))]
    confidence: Option<u8>,
    /// like 2026-06-21T10:00:00Z
    expires_at: Option<String>,
    task_ref: Option<TaskReference>,
    /// the entry this takes the place of
    supersedes: Option<String>,
    /// the same token returns the first entry
    client_token: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskReference {
    task_id: String,
    kind: ReferenceKind,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ReferenceKind {
    References,
    Produced,
}

impl From<ReferenceKind> for EdgeKind {
    fn from(word: ReferenceKind) -> Self {
        match word {
            ReferenceKind::References => EdgeKind::References,
            ReferenceKind::Produced => EdgeKind::Produced,
        }
    }
}

/// Stores one entry. Its vector is made later, so a search by meaning finds it with a delay.
pub(super) async fn store_knowledge(call: &Call<'_>, args: Store) -> Reply {
    let task = match args.task_ref {
        Some(TaskReference { task_id: task, kind }) => Some((task_id(&task)?, kind.into())),
        None => None,
    };
    let draft = KnowledgeDraft {
        title: args.title,
        body: args.body,
        tags: args.tags.unwrap_or_default(),
        confidence: args.confidence,
        expires_at: args.expires_at.as_deref().map(expiry).transpose()?,
        task,
        supersedes: args.supersedes.as_deref().map(superseded).transpose()?,
    };
    let mut op = call.op.clone();
    let token = client_token(args.client_token)?;
    let has_token = token.is_some();
    // The reference's own key goes before the one in `_meta`.
    op.retry_key = token.or(op.retry_key);
    let stored = call.engine.knowledge_store(&op, draft).await?;
    Ok(json!({
        "id": stored.entry.id,
        "embeddingStatus": if stored.embeds { "pending" } else { "off" },
        // A call repeated under a retry key answers as the first did; one under a token says that it found the entry.
        "created": stored.created && !(stored.replayed && has_token),
    }))
}

fn expiry(text: &str) -> Result<Timestamp, Refusal> {
    let words =
        || format!("expiresAt must be a time like 2026-06-21T10:00:00Z, got '{}'", brief(text));
    parse_rfc3339(text).ok_or_else(|| Refusal::invalid(words()))
}

/// The id of the entry that is replaced; text that is no id is refused like an unknown one.
fn superseded(text: &str) -> Result<KnowledgeId, Refusal> {
    let words = || format!("supersedes: knowledge not found: {text}");
    text.parse().map_err(|_| Refusal::invalid(words()))
}
