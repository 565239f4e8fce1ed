//! An outside endpoint that speaks OpenAI's `/v1/embeddings`, like Ollama. A request has two seconds; after a few
//! failures in a row the endpoint gets a pause.

use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use callboard_engine::ports::{EmbedFault, Embedder};
use callboard_engine::store::knowledge::Calibration;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::wire::{self, Wire, chain};

const PATIENCE: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// After this many failures in a row the endpoint is left alone for `REST`, so that searches do not wait two seconds
/// each.
const FAILURES_MAX: u32 = 3;
const REST: Duration = Duration::from_secs(30);

/// The address of an endpoint and the model's name there. Holds a key, so it cannot be printed.
#[derive(Clone)]
pub struct OpenAiPlace {
    /// The address, up to and including `/v1`.
    pub url: String,
    pub model: String,
    pub key: Option<String>,
}

/// `id` names the model in the store: vectors of two models are never compared.
pub struct OpenAiEmbedder {
    place: OpenAiPlace,
    id: String,
    wire: OnceCell<Wire>,
    breaker: Mutex<Breaker>,
}

#[derive(Default)]
struct Breaker {
    failures: u32,
    rests_until: Option<Instant>,
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: usize,
    embedding: Vec<f32>,
}

impl OpenAiEmbedder {
    pub fn new(place: OpenAiPlace) -> Self {
        let id = format!("openai-{}", place.model);
        Self { wire: OnceCell::new(), id, place, breaker: Mutex::default() }
    }

    /// Whether the endpoint has its pause now. The first call after the pause is a trial.
    fn rests(&self) -> bool {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        match breaker.rests_until {
            Some(until) if Instant::now() < until => true,
            Some(_) => {
                breaker.rests_until = None;
                false
            }
            None => false,
        }
    }

    /// Counts failures in a row; any answer ends the count, also a refusal of the text.
    fn note(&self, answered: bool) {
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.failures = if answered { 0 } else { breaker.failures + 1 };
        if breaker.failures >= FAILURES_MAX {
            breaker.failures = 0;
            breaker.rests_until = Some(Instant::now() + REST);
        }
    }
}

/// The endpoint's answer for these texts.
async fn ask(
    wire: &Wire,
    place: &OpenAiPlace,
    texts: &[String],
) -> Result<EmbeddingsResponse, EmbedFault> {
    let asked = json!({"model": place.model, "input": texts, "encoding_format": "float"});
    let mut request = Request::post(format!("{}/embeddings", place.url.trim_end_matches('/')))
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("callboard/", env!("CARGO_PKG_VERSION")));
    if let Some(key) = &place.key {
        request = request.header(AUTHORIZATION, format!("Bearer {key}"));
    }
    let request = request.body(Full::from(asked.to_string())).map_err(|error| away(&error))?;
    let response = wire.request(request).await.map_err(|error| away(&error))?;
    match response.status().as_u16() {
        200..=299 => {}
        // The text is at fault and would be refused again, so the endpoint counts as healthy.
        code @ (400 | 413 | 422) => {
            return Err(EmbedFault::Unusable(format!(
                "the endpoint refused a text with status {code}"
            )));
        }
        code => return Err(unavailable(format!("answered {code}"))),
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| away(&*error))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| away(&error))
}

/// The vectors of `asked` texts, in the order of the texts.
fn vectors(answer: EmbeddingsResponse, asked: usize) -> Result<Vec<Vec<f32>>, EmbedFault> {
    let mut items = answer.data;
    if items.len() != asked {
        return Err(unavailable(format!("gave {} vectors for {asked} texts", items.len())));
    }
    // The specification does not promise the order.
    items.sort_by_key(|item| item.index);
    Ok(items.into_iter().map(|item| item.embedding).collect())
}

fn away(error: &(dyn Error + 'static)) -> EmbedFault {
    unavailable(chain(error))
}

fn unavailable(words: String) -> EmbedFault {
    EmbedFault::Unavailable(format!("the embedding endpoint: {words}"))
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &str {
        &self.id
    }

    fn calibration(&self) -> Calibration {
        Calibration::default()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault> {
        if self.rests() {
            let words = "the embedding endpoint failed and is not called for a while";
            return Err(EmbedFault::Unavailable(words.into()));
        }
        let asked = async {
            let wire =
                self.wire.get_or_try_init(|| wire::wire(self.place.url.starts_with("https")));
            let wire = wire.await.map_err(|error| away(&error))?;
            vectors(ask(wire, &self.place, &texts).await?, texts.len())
        };
        let late = || Err(unavailable(format!("no answer within {} s", PATIENCE.as_secs())));
        let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| late());
        self.note(!matches!(answer, Err(EmbedFault::Unavailable(_))));
        answer
    }
}
