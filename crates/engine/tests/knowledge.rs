//! Knowledge through the engine: scopes, both legs of a search, digests that never fail, and the
//! reconciler that embeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::ids::Id;
use callboard_domain::knowledge::KnowledgeAsk;
use callboard_domain::retry::{self, RetryKey};
use callboard_domain::rights::{Rights, Scope};
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::{EmbedFault, Embedder, IdSource};
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::knowledge::Calibration;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Place, Store};
use callboard_engine::{
    Digest, DigestTask, Engine, EngineError, KnowledgeDraft, KnowledgeForce, Parts, TaskDraft,
};

struct Counting(AtomicU64);

impl IdSource for Counting {
    fn next_id(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) << 64)
    }
}

/// An embedder that knows about cats and dogs, and fails in every way it is told to.
#[derive(Default)]
struct Animals {
    fault: AtomicUsize,
    calls: AtomicUsize,
    texts: AtomicUsize,
}

const WELL: usize = 0;
const AWAY: usize = 1;
const LATE: usize = 2;
const PICKY: usize = 3;

#[async_trait]
impl Embedder for Animals {
    fn model(&self) -> &str {
        "animals"
    }

    fn calibration(&self) -> Calibration {
        Calibration::default()
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedFault> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.fault.load(Ordering::SeqCst) {
            AWAY => return Err(EmbedFault::Unavailable("away".into())),
            LATE => std::future::pending().await,
            PICKY if texts.iter().any(|text| text.contains("bird")) => {
                return Err(EmbedFault::Unusable("no birds".into()));
            }
            _ => {}
        }
        self.texts.fetch_add(texts.len(), Ordering::SeqCst);
        let about = |text: &String, word: &str| text.matches(word).count() as f32;
        let vector = |text: &String| vec![about(text, "cat"), about(text, "dog"), 0.1];
        Ok(texts.iter().map(vector).collect())
    }
}

struct World {
    engine: Arc<Engine>,
    embedder: Arc<Animals>,
    clock: Arc<ManualClock>,
    folder: tempfile::TempDir,
}

async fn world() -> World {
    world_with(true).await
}

async fn world_with(embeds: bool) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
    let store = SqliteStore::open(&folder.path().join("test.db"), clock.clone()).expect("opens");
    let store: Arc<dyn Store> = Arc::new(store);
    let embedder = Arc::new(Animals::default());
    let home = store.settle(Place::of_org("default")).await.expect("settles");
    let engine = Engine::new(Parts {
        embedder: embeds.then(|| embedder.clone() as Arc<dyn Embedder>),
        ..Parts::bare(home, store, Arc::new(Counting(AtomicU64::new(1))))
    });
    World { engine, embedder, clock, folder }
}

fn op(scopes: &[Scope]) -> OpContext {
    let mut principal = Principal::local("agent:ada".parse().expect("an actor"));
    principal.rights = Rights { scopes: scopes.to_vec(), ..Rights::default() };
    OpContext::new(principal, "test")
}

fn all() -> OpContext {
    op(Scope::ALL)
}

impl World {
    async fn learn(&self, title: &str, body: &str) {
        let draft = KnowledgeDraft { title: title.into(), body: body.into(), ..Default::default() };
        self.engine.knowledge_store(&all(), draft).await.expect("stored");
    }

    async fn titles(&self, query: &str) -> (Vec<String>, bool) {
        let found = self.engine.knowledge_search(&all(), KnowledgeAsk::of(query)).await;
        let found = found.expect("searched");
        (found.hits.into_iter().map(|hit| hit.entry.title).collect(), found.degraded)
    }

    async fn task(&self, title: &str, body: &str) -> DigestTask {
        let draft = TaskDraft { title: title.into(), body: body.into(), ..TaskDraft::default() };
        let made = self.engine.task_create(&all(), draft).await.expect("created");
        DigestTask::from(&made.it)
    }

    async fn digest(&self, task: &DigestTask) -> Digest {
        let tasks = std::slice::from_ref(task);
        self.engine.knowledge_digest(&all(), tasks).await.remove(0)
    }

    fn fail(&self, how: usize) {
        self.embedder.fault.store(how, Ordering::SeqCst);
    }

    /// Removes the index under the running store.
    fn break_search(&self) {
        let db = rusqlite::Connection::open(self.folder.path().join("test.db")).expect("opens");
        db.execute_batch("ALTER TABLE knowledge_terms RENAME TO elsewhere").expect("broken");
    }
}

fn words(digest: &Digest) -> (Vec<&str>, bool) {
    let titles = digest.references.iter().map(|hit| hit.entry.title.as_str()).collect();
    (titles, digest.degraded)
}

#[tokio::test]
async fn scopes_and_limits_are_judged() {
    let w = world().await;
    let draft = || KnowledgeDraft { title: "t".into(), body: "b".into(), ..Default::default() };
    let refused = |error: EngineError| match error {
        EngineError::Refused(refusal) => refusal.message(),
        other => panic!("{other}"),
    };
    let reader = op(&[Scope::KnowledgeRead, Scope::TasksWrite]);
    let denied = w.engine.knowledge_store(&reader, draft()).await.map(|_| ());
    assert_eq!(refused(denied.expect_err("denied")), "test needs scope knowledge:write");
    let writer = op(&[Scope::KnowledgeWrite]);
    w.engine.knowledge_store(&writer, draft()).await.expect("needs no other scope");
    let denied = w.engine.knowledge_search(&writer, KnowledgeAsk::of("t")).await.map(|_| ());
    assert_eq!(refused(denied.expect_err("denied")), "test needs scope knowledge:read");
    for (ask, words) in [
        (KnowledgeAsk::of(" "), "query must be 1..2000 characters, got 1"),
        (KnowledgeAsk::of("x".repeat(2001)), "query must be 1..2000 characters, got 2001"),
        (KnowledgeAsk { limit: 51, ..KnowledgeAsk::of("x") }, "limit must be 1..50, got 51"),
        (
            KnowledgeAsk { min_score: 1.1, ..KnowledgeAsk::of("x") },
            "minScore must be 0..1, got 1.1",
        ),
    ] {
        let error = w.engine.knowledge_search(&all(), ask).await.map(|_| ());
        assert_eq!(refused(error.expect_err("refused")), words);
    }
}

#[tokio::test]
async fn a_repeated_key_stores_once() {
    let w = world().await;
    let keyed = OpContext {
        retry_key: RetryKey::new("key", "k", retry::Digest::of(&serde_json::Value::Null)).ok(),
        ..all()
    };
    let draft = || KnowledgeDraft { title: "t".into(), body: "b".into(), ..Default::default() };
    let first = w.engine.knowledge_store(&keyed, draft()).await.expect("stored");
    let again = w.engine.knowledge_store(&keyed, draft()).await.expect("answered");
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.entry, again.entry);
}

#[tokio::test]
async fn meaning_finds_what_words_do_not() {
    let w = world().await;
    w.learn("felines", "cat cat").await;
    assert_eq!(w.titles("category").await, (vec![], false), "no vector yet, no word in common");
    assert_eq!(w.engine.knowledge_embed().await.expect("embeds"), 1);
    assert_eq!(w.titles("category").await, (vec!["felines".into()], false));
    for how in [AWAY, LATE] {
        w.fail(how);
        assert_eq!(w.titles("category").await, (vec![], true), "degraded, not failed");
        assert_eq!(w.titles("felines").await, (vec!["felines".into()], true));
    }
    let plain = world_with(false).await;
    plain.learn("felines", "cat").await;
    assert_eq!(plain.titles("felines").await, (vec!["felines".into()], false), "as configured");
}

#[tokio::test]
async fn a_claim_notes_the_digest_that_its_actor_was_shown() {
    let w = world().await;
    w.learn("felines", "cat cat").await;
    let tasks = [w.task("felines", "feed the cat").await, w.task("felines", "a cat").await];
    let uses = async || {
        let force = KnowledgeForce::Current;
        let look = w.engine.knowledge_look(&all(), "", None, force, 9).await.expect("a look").it;
        look.lines[0].uses.iter().map(|(used, _)| used.task).collect::<Vec<_>>()
    };
    let take = async |task: &DigestTask| {
        let leased = w.engine.lease_take(&all(), task.task, 60).await.expect("a lease");
        w.engine.knowledge_taken(&all(), &leased.seen.it.newest.expect("an attempt")).await;
    };
    w.digest(&tasks[0]).await;
    take(&tasks[0]).await;
    assert_eq!(uses().await, [], "a page that shows a digest hands nothing to an agent");
    w.engine.knowledge_hand(&all(), &tasks).await;
    assert_eq!(uses().await, [], "tasks that nobody took yet");
    take(&tasks[1]).await;
    assert_eq!(uses().await, [tasks[1].task]);
}

#[tokio::test]
async fn a_digest_shows_what_matters_to_the_task() {
    let w = world().await;
    w.learn("felines", "cat cat").await;
    w.learn("canines", "dog dog").await;
    w.engine.knowledge_embed().await.expect("embeds");
    let task = w.task("felines", "feed the cat").await;
    let far = format!("{} cat", "x ".repeat(40));
    let other = w.task("weather", &far).await;
    let before = w.embedder.calls.load(Ordering::SeqCst);
    let both = w.engine.knowledge_digest(&all(), &[task.clone(), other]).await;
    assert_eq!(words(&both[0]), (vec!["felines"], false));
    assert_eq!(words(&both[1]), (vec![], false), "only its first 40 words count");
    assert_eq!(w.embedder.calls.load(Ordering::SeqCst), before + 1, "one batch for all");
    w.fail(AWAY);
    assert_eq!(words(&w.digest(&task).await), (vec!["felines"], false), "kept");
    w.learn("felines again", "cat cat").await;
    assert!(words(&w.digest(&task).await).1, "something new is known");
    let reader =
        w.engine.knowledge_digest(&op(&[Scope::TasksRead]), std::slice::from_ref(&task)).await;
    assert!(words(&reader[0]).0.contains(&"felines"), "it comes with the task: {reader:?}");
    let nobody = w.engine.knowledge_digest(&op(&[Scope::KnowledgeRead]), &[task]).await;
    assert_eq!(nobody, [Digest::default()], "who may not read tasks gets none");
}

#[tokio::test]
async fn a_task_does_not_quote_itself_and_expired_knowledge_leaves() {
    let w = world_with(false).await;
    let task = w.task("deploy the web server", "").await;
    let kind = callboard_domain::knowledge::EdgeKind::Produced;
    for (title, of) in [("deploy own server", Some((task.task, kind))), ("deploy web server", None)]
    {
        let draft = KnowledgeDraft {
            title: title.into(),
            body: "deploy web server".into(),
            task: of,
            expires_at: Some(w.engine.store().now().plus_s(60)),
            ..Default::default()
        };
        w.engine.knowledge_store(&all(), draft).await.expect("stored");
    }
    assert_eq!(words(&w.digest(&task).await), (vec!["deploy web server"], false));
    w.clock.advance_ms(60_000);
    assert_eq!(words(&w.digest(&task).await), (vec![], false));
}

#[tokio::test]
async fn a_digest_never_fails() {
    let w = world().await;
    let task = w.task("felines", "feed the cat").await;
    w.fail(AWAY);
    assert_eq!(
        words(&w.digest(&task).await),
        (vec![], false),
        "nothing is known, nothing is asked"
    );
    w.learn("feed felines", "feed the felines a cat bowl").await;
    assert_eq!(words(&w.digest(&task).await), (vec!["feed felines"], true), "words alone");
    w.fail(LATE);
    let asked = tokio::time::Instant::now();
    assert!(w.digest(&task).await.degraded);
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    w.fail(WELL);
    w.break_search();
    assert_eq!(w.digest(&task).await, Digest { references: vec![], degraded: true });
    w.engine.knowledge_search(&all(), KnowledgeAsk::of("cat")).await.expect_err("a search says so");
}

#[tokio::test]
async fn embedding_is_done_once_and_goes_around_what_cannot_be() {
    let w = world().await;
    for n in 0..5 {
        w.learn(&format!("entry {n}"), if n == 2 { "bird" } else { "cat" }).await;
    }
    w.fail(AWAY);
    w.engine.knowledge_embed().await.expect_err("tried again later");
    assert_eq!(w.engine.knowledge_embed().await.expect("not yet"), 0, "left alone for a while");
    w.fail(PICKY);
    for _ in 0..4 {
        w.clock.advance_ms(60_000);
        w.engine.knowledge_embed().await.ok();
    }
    assert_eq!(w.embedder.texts.load(Ordering::SeqCst), 4, "each once, the bird never");
    assert_eq!(w.titles("bird").await.0.len(), 1, "its words find it");
    assert_eq!(w.engine.knowledge_embed().await.expect("nothing to do"), 0);
}

#[tokio::test]
async fn a_nudge_embeds_at_once() {
    let w = world().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let (engine, stopped) = (w.engine.clone(), stop.clone());
    let running = tokio::spawn(async move { engine.embed_until(stopped).await });
    w.learn("felines", "cat").await;
    let embedded = async {
        while w.engine.store().knowledge_version("default").await.expect("read").vectors == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), embedded).await.expect("embedded");
    stop.cancel();
    running.await.expect("ends");
}
