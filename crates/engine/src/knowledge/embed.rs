//! Gives entries their vectors. No call waits for it; an entry without a vector is found by its words. The work left is
//! read from the store, so that no entry is forgotten and a new model finds all of them; one job per org and model
//! keeps two processes from doing it twice.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::command::{Command, JobEnd};
use callboard_domain::refusal::Refusal;
use callboard_domain::runs::job::{JobId, JobKind};
use callboard_store::knowledge::{Embedded, Unembedded};
use callboard_store::{DueJob, Outcome};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::job::LeasedJob;
use crate::ports::{EmbedFault, Embedder};
use crate::{Engine, EngineError, counts};

const EMBED_EVERY: Duration = Duration::from_secs(2);
/// The maximum backoff after failures.
const AGAIN_MAX_S: u32 = 300;
const ORGS: usize = 16;
const BATCH: usize = 16;
/// After this many tries a text that cannot be embedded is given up.
const TRIES_MAX: u32 = 5;
/// About 200 tokens: the length of text that the model reads with care.
const PART_CHARS: usize = 800;

#[derive(Default)]
pub(crate) struct Embedding {
    nudge: Notify,
}

impl Engine {
    /// Wakes the loop: there may be something to embed.
    pub fn knowledge_nudge(&self) {
        self.embedding.nudge.notify_one();
    }

    /// Embeds until canceled: at once after a nudge, else on a tick that finds entries of other processes.
    pub async fn embed_until(&self, stop: CancellationToken) {
        if self.parts.embedder.is_none() {
            return;
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.embedding.nudge.notified() => {}
                () = tokio::time::sleep(EMBED_EVERY) => {}
            }
            // Work that is half done is left to the next look, in any process.
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.knowledge_embed() => if let Err(error) = done {
                    tracing::warn!(%error, "cannot embed new knowledge");
                },
            }
        }
    }

    /// Embeds all entries that have no vector yet and that no other process works on. Returns how many entries are
    /// done.
    pub async fn knowledge_embed(&self) -> Result<usize, EngineError> {
        let Some(embedder) = self.parts.embedder.clone() else { return Ok(0) };
        let mut done = 0;
        for org in self.parts.store.knowledge_orgs_unembedded(embedder.model(), ORGS).await? {
            done += self.embed_org(&*embedder, org).await?;
        }
        Ok(done)
    }

    async fn embed_org(
        &self,
        embedder: &dyn Embedder,
        org: Arc<str>,
    ) -> Result<usize, EngineError> {
        let queue = Command::JobQueue {
            job: JobId(self.parts.ids.next_id()),
            kind: JobKind::Embed,
            key: format!("embed-{}", embedder.model()),
        };
        let Outcome::Job(job) = self.act_as_runner(&org, queue).await? else { return Ok(0) };
        let Some(taken) = self.job_take(DueJob { job: *job, org }).await? else { return Ok(0) };
        let mut done = 0;
        let worked = self.keeping(&taken, self.embed_all(embedder, &taken, &mut done)).await;
        let end = match &worked {
            Ok(()) => JobEnd::Done,
            Err(_) => JobEnd::Again { after_s: (1 << taken.job.tries.min(16)).min(AGAIN_MAX_S) },
        };
        let command = Command::JobEnd { job: taken.job.id, tries: taken.job.tries, end };
        match self.act_as_runner(&taken.org, command).await {
            // Another process took the job over and goes on.
            Ok(_) | Err(EngineError::Refused(Refusal::JobLost { .. })) => {}
            Err(error) => return Err(error),
        }
        worked.map(|()| done)
    }

    async fn embed_all(
        &self,
        embedder: &dyn Embedder,
        taken: &LeasedJob,
        done: &mut usize,
    ) -> Result<(), EngineError> {
        let (store, model) = (&self.parts.store, embedder.model());
        loop {
            let waiting = store.knowledge_unembedded(&taken.org, model, BATCH).await?;
            if waiting.is_empty() {
                return Ok(());
            }
            let (embedded, fault) = vectors(embedder, &waiting, taken.job.tries).await;
            *done += embedded.len();
            if !embedded.is_empty() {
                store.knowledge_vectors_put(model, embedded).await?;
            }
            if let Some(fault) = fault {
                return Err(EngineError::Unavailable(fault.to_string()));
            }
        }
    }
}

/// The vectors of these entries, in order, as far as they can be made, and the fault that ended it.
async fn vectors(
    embedder: &dyn Embedder,
    waiting: &[Unembedded],
    tries: u32,
) -> (Vec<Embedded>, Option<EmbedFault>) {
    match embed(embedder, waiting).await {
        Ok(embedded) => return (embedded, None),
        Err(fault @ EmbedFault::Unavailable(_)) => return (Vec::new(), Some(fault)),
        // One text is at fault; embedded alone, each gets its own answer.
        Err(EmbedFault::Unusable(_)) => {}
    }
    let mut made = Vec::new();
    for entry in waiting {
        match embed(embedder, std::slice::from_ref(entry)).await {
            Ok(embedded) => made.extend(embedded),
            Err(EmbedFault::Unusable(words)) if tries >= TRIES_MAX => {
                tracing::error!(entry = %entry.id, words, "an entry gets no vector; only its words find it");
                counts::entry_given_up();
                made.push(without(entry));
            }
            Err(fault) => return (made, Some(fault)),
        }
    }
    (made, None)
}

fn without(entry: &Unembedded) -> Embedded {
    Embedded { org: entry.org, number: entry.number, parts: Vec::new() }
}

async fn embed(
    embedder: &dyn Embedder,
    waiting: &[Unembedded],
) -> Result<Vec<Embedded>, EmbedFault> {
    let texts: Vec<Vec<String>> =
        waiting.iter().map(|entry| parts(&entry.title, &entry.body)).collect();
    let flat: Vec<String> = texts.iter().flatten().cloned().collect();
    let asked = flat.len();
    let made = embedder.embed(flat).await?;
    if made.len() != asked {
        let words = format!("asked for {asked} vectors, got {}", made.len());
        return Err(EmbedFault::Unavailable(words));
    }
    let mut made = made.into_iter();
    let of_entry = |(entry, texts): (&Unembedded, &Vec<String>)| Embedded {
        parts: made.by_ref().take(texts.len()).collect(),
        ..without(entry)
    };
    Ok(waiting.iter().zip(&texts).map(of_entry).collect())
}

/// An entry as texts for the model: whole, or split at paragraphs with the title before each part.
fn parts(title: &str, body: &str) -> Vec<String> {
    if body.chars().count() <= PART_CHARS {
        return vec![format!("{title}\n{body}")];
    }
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    for piece in body.split("\n\n").flat_map(|paragraph| pieces(paragraph, PART_CHARS)) {
        if !part.is_empty() && part.chars().count() + piece.chars().count() > PART_CHARS {
            parts.push(format!("{title}\n{part}"));
            part.clear();
        }
        if !part.is_empty() {
            part.push('\n');
        }
        part.push_str(piece);
    }
    if !part.trim().is_empty() {
        parts.push(format!("{title}\n{part}"));
    }
    parts
}

/// A paragraph in pieces of at most `chars_max` characters, cut between words if possible.
fn pieces(text: &str, chars_max: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while let Some((end, _)) = rest.char_indices().nth(chars_max) {
        let cut = rest[..end].rfind(char::is_whitespace).filter(|cut| *cut > 0).unwrap_or(end);
        pieces.push(&rest[..cut]);
        rest = rest[cut..].trim_start();
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_entries_are_split_with_their_title() {
        assert_eq!(parts("T", "short"), ["T\nshort"]);
        let body = format!("{}\n\n{}\n\n{}", "a ".repeat(300), "b".repeat(100), "c".repeat(2000));
        let split = parts("T", &body);
        assert_eq!(split.len(), 4, "{split:?}");
        assert!(split.iter().all(|part| part.starts_with("T\n")));
        assert!(split.iter().all(|part| part.chars().count() <= PART_CHARS + 2));
        let letters = |text: &str| text.matches(['a', 'b', 'c']).count();
        assert_eq!(split.iter().map(|part| letters(part)).sum::<usize>(), letters(&body));
    }
}
