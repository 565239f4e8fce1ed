//! What every store must do with knowledge, written against the trait.

use std::collections::HashSet;
use std::sync::Arc;

use callboard_domain::command::{Command, KnowledgeStore};
use callboard_domain::ids::{AttemptId, TaskId};
use callboard_domain::knowledge::{
    EdgeKind, KnowledgeEntry, KnowledgeId, KnowledgeUse, NewKnowledge,
};
use callboard_domain::time::Timestamp;
use callboard_store::knowledge::{
    Calibration, Embedded, KnowledgeHit, KnowledgeQuery, QueryVector,
};
use callboard_store::{Applied, Outcome};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};

conformance! {
    what_is_stored_is_found_at_once,
    storing_twice_with_one_key_is_storing_once,
    another_orgs_knowledge_never_shows,
    the_newest_entries_come_first,
    superseded_and_expired_entries_hide,
    all_tags_must_match,
    ties_go_to_the_surer_then_the_newer,
    off_topic_stays_below_a_half,
    nothing_typed_is_an_operator,
    vectors_count_half_and_the_unembedded_wait_below,
    a_long_entry_is_as_near_as_its_nearest_part,
    a_task_does_not_learn_from_itself,
    the_newest_uses_of_an_entry_come_first,
    embedding_goes_on_where_it_stopped,
    another_process_sees_new_vectors,
    entries_of_one_batch_and_of_many_writers_are_all_found,
}

pub fn new(title: &str, body: &str) -> KnowledgeStore {
    KnowledgeStore {
        new: NewKnowledge {
            id: KnowledgeId(next_id()),
            title: title.into(),
            body: body.into(),
            tags: Vec::new(),
            confidence: None,
        },
        expires_at: None,
        task: None,
        supersedes: None,
        over_quota: None,
    }
}

fn entry_of(applied: &Applied) -> &KnowledgeEntry {
    match &applied.outcome {
        Outcome::Knowledge(entry) => entry,
        other => panic!("expected knowledge, got {other:?}"),
    }
}

async fn learn(f: &Fixture, title: &str, body: &str) -> KnowledgeId {
    let applied = f.done("agent:w1", Command::KnowledgeStore(new(title, body))).await;
    entry_of(&applied).id
}

async fn find(f: &Fixture, query: KnowledgeQuery) -> Vec<KnowledgeHit> {
    let hits = f.store.knowledge_search(query).await.unwrap();
    assert!(hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)), "{hits:?}");
    assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{hits:?}");
    hits
}

fn asking(f: &Fixture, text: &str) -> KnowledgeQuery {
    KnowledgeQuery::of(f.home.org.clone(), text)
}

async fn titles(f: &Fixture, text: &str) -> Vec<String> {
    find(f, asking(f, text)).await.into_iter().map(|hit| hit.entry.title).collect()
}

async fn what_is_stored_is_found_at_once(f: Fixture) {
    assert_eq!(titles(&f, "webhook").await, [""; 0]);
    let before = f.store.knowledge_version("default").await.unwrap();
    let task = f.create("a", &[]).await;
    let mut entry = new("Webhook retries", "The provider retries deliveries for three days.");
    entry.new.tags = vec!["Webhooks".into()];
    entry.new.confidence = Some(40);
    entry.task = Some((task, EdgeKind::Produced));
    entry.expires_at = Some(f.store.now().plus_s(60));
    let applied = f.done("agent:w1", Command::KnowledgeStore(entry.clone())).await;
    let stored = f.store.knowledge("default", entry.new.id).await.unwrap().expect("there");
    assert_eq!(*entry_of(&applied), stored, "the answer is what a later read sees");
    assert_eq!(stored.source_task, Some(task));
    assert_eq!((stored.confidence, stored.tags.as_slice()), (40, &["webhooks".to_owned()][..]));
    let hits = find(&f, asking(&f, "how often is a webhook retried?")).await;
    assert_eq!(hits[0].entry, stored);
    assert_eq!(hits[0].snippet, "The provider retries deliveries for three days.");
    assert_ne!(f.store.knowledge_version("default").await.unwrap(), before);
    learn(&f, "parseHTTPRequest is slow", "use read_to_end").await;
    for query in ["http parsing", "parsehttprequest", "readToEnd", "READ_TO_END"] {
        assert_eq!(titles(&f, query).await, ["parseHTTPRequest is slow"], "{query}");
    }
    f.assert_sound().await;
}

async fn storing_twice_with_one_key_is_storing_once(f: Fixture) {
    let keyed = |who: &str| {
        let mut op = f.op(who, Command::KnowledgeStore(new("kept", "kept for good")));
        op.retry_key = f.key("k");
        f.store.apply(op)
    };
    let first = entry_of(&keyed("agent:w1").await.unwrap()).clone();
    let again = keyed("agent:w1").await.unwrap();
    assert_eq!((entry_of(&again), again.last_seq), (&first, None));
    assert_ne!(entry_of(&keyed("agent:w2").await.unwrap()).id, first.id);
    assert_eq!(titles(&f, "kept").await.len(), 2);
}

/// A pseudo-random sequence, equal in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn text(&mut self, words: usize) -> String {
        let word = |dice: &mut Dice| format!("word{} ", dice.roll(60));
        (0..words).map(|_| word(self)).collect()
    }
}

async fn the_newest_entries_come_first(f: Fixture) {
    let newest = async |org: &str, limit| -> Vec<String> {
        let found = f.store.knowledge_newest(org, limit).await.unwrap();
        found.into_iter().map(|entry| entry.title).collect()
    };
    assert_eq!(newest("default", 9).await, [""; 0]);
    for title in ["one", "two", "three"] {
        learn(&f, title, "text").await;
    }
    assert_eq!(newest("default", 9).await, ["three", "two", "one"]);
    assert_eq!(newest("default", 2).await, ["three", "two"]);
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(newest("other", 9).await, [""; 0]);
}

async fn another_orgs_knowledge_never_shows(f: Fixture) {
    let other = f.store.settle(place("other")).await.unwrap();
    let mut dice = Dice(7);
    let mut ours = HashSet::new();
    for n in 0..40 {
        let entry = new(&format!("entry {n}"), &dice.text(12));
        let mut op = f.op("agent:w1", Command::KnowledgeStore(entry.clone()));
        if n % 2 == 0 {
            ours.insert(entry.new.id);
        } else {
            op.org = other.org.clone();
            let hidden = f.store.knowledge("default", entry.new.id).await.unwrap();
            assert_eq!(hidden, None);
        }
        f.store.apply(op).await.unwrap();
    }
    embed_all(&f, "m", 4).await;
    for n in 0..200 {
        let words = 1 + dice.roll(5);
        let mut query = asking(&f, &dice.text(words));
        query.vector = (n % 2 == 0).then(|| vector(&query.text));
        query.limit = 50;
        for hit in find(&f, query).await {
            assert!(ours.contains(&hit.entry.id), "{}", hit.entry.id);
        }
    }
    let old = *ours.iter().next().unwrap();
    let mut steals = f.op(
        "agent:w1",
        Command::KnowledgeStore(KnowledgeStore { supersedes: Some(old), ..new("mine", "now") }),
    );
    steals.org = other.org;
    assert!(f.store.apply(steals).await.is_err(), "another org's entry does not exist");
    f.assert_sound().await;
}

async fn superseded_and_expired_entries_hide(f: Fixture) {
    let old = learn(&f, "old way", "deploy with scripts").await;
    let mut better = new("new way", "deploy with make");
    better.supersedes = Some(old);
    f.done("agent:w1", Command::KnowledgeStore(better.clone())).await;
    let mut brief = new("brief", "deploy is frozen");
    brief.expires_at = Some(f.store.now().plus_s(10));
    f.done("agent:w1", Command::KnowledgeStore(brief)).await;
    let sorted = |mut titles: Vec<String>| {
        titles.sort();
        titles
    };
    assert_eq!(sorted(titles(&f, "deploy").await), ["brief", "new way"]);
    f.clock.advance_ms(10_000);
    assert_eq!(titles(&f, "deploy").await, ["new way"]);
    let mut all = asking(&f, "deploy");
    (all.include_superseded, all.include_expired) = (true, true);
    let found = find(&f, all).await;
    assert_eq!(found.len(), 3);
    let old = found.iter().find(|hit| hit.entry.id == old).unwrap();
    assert_eq!(old.entry.superseded_by, Some(better.new.id));
    // So many that the first hundred candidates hold no valid hit.
    for n in 0..150 {
        let mut next = new("deploy deploy", &format!("deploy {n}"));
        next.expires_at = Some(f.store.now().plus_s(1));
        f.done("agent:w1", Command::KnowledgeStore(next)).await;
    }
    f.clock.advance_ms(1_000);
    assert_eq!(titles(&f, "deploy").await, ["new way"]);
}

async fn all_tags_must_match(f: Fixture) {
    for (title, tags) in [("a", "x"), ("b", "x y"), ("c", "y"), ("d", "")] {
        let mut entry = new(title, "same words");
        entry.new.tags = tags.split_whitespace().map(str::to_owned).collect();
        f.done("agent:w1", Command::KnowledgeStore(entry)).await;
    }
    for (tags, expected) in [("x", 2), ("x y", 1), ("y", 2), ("z", 0), ("", 4)] {
        let mut query = asking(&f, "same words");
        query.tags = tags.split_whitespace().map(str::to_owned).collect();
        assert_eq!(find(&f, query).await.len(), expected, "{tags}");
    }
    assert_eq!(titles(&f, "#x").await, ["a", "b"], "a tag is a word as well, its sign is not");
}

async fn ties_go_to_the_surer_then_the_newer(f: Fixture) {
    let mut ids = Vec::new();
    for confidence in [50, 90, 50] {
        let mut entry = new("same", "same words");
        entry.new.confidence = Some(confidence);
        ids.push(entry.new.id);
        f.done("agent:w1", Command::KnowledgeStore(entry)).await;
        f.clock.advance_ms(1);
    }
    let found: Vec<KnowledgeId> =
        find(&f, asking(&f, "same words")).await.iter().map(|hit| hit.entry.id).collect();
    assert_eq!(found, [ids[1], ids[2], ids[0]]);
    let mut query = asking(&f, "same words");
    query.limit = 1;
    assert_eq!(find(&f, query).await.len(), 1);
}

async fn off_topic_stays_below_a_half(f: Fixture) {
    learn(&f, "Webhook retries", "The provider retries a delivery for three days, then gives up.")
        .await;
    learn(&f, "Test database", "Run the tests against a database of their own.").await;
    for (query, hits) in [
        ("how long does the provider retry a webhook delivery", 1),
        ("webhook retries", 1),
        ("colour of the login button in the settings page of the provider", 0),
        ("translate the documentation into french within three days", 0),
        ("database schema for invoices and payments by customers", 0),
    ] {
        let mut asked = asking(&f, query);
        asked.min_score = 0.5;
        assert_eq!(find(&f, asked).await.len(), hits, "{query}");
    }
}

async fn nothing_typed_is_an_operator(f: Fixture) {
    learn(&f, "quotes", "say \"hello\" to O'Brien").await;
    learn(&f, "other", "nothing").await;
    for query in [
        "\"hello",
        "hello OR nothingness:*",
        "hello' OR '1'='1",
        "hello & !other | (",
        "hello NEAR/3 -quotes",
        "{title}: hello ^",
        "hello \\ %_ \u{202e}",
    ] {
        assert_eq!(titles(&f, query).await[0], "quotes", "{query}");
    }
    for query in ["", " ", "\"", "*", "the of and", "\u{0}"] {
        assert_eq!(titles(&f, query).await, [""; 0], "{query:?}");
    }
    let long = "hello ".repeat(400) + "nothing";
    let mut found = titles(&f, &long).await;
    found.sort();
    assert_eq!(found, ["other", "quotes"]);
}

/// A model of two dimensions: how much a text is about cats, and how much about dogs.
fn embed(text: &str) -> Vec<f32> {
    let about = |word: &str| text.to_lowercase().matches(word).count() as f32;
    vec![about("cat"), about("dog"), 0.1]
}

fn vector(text: &str) -> QueryVector {
    QueryVector { model: "m".into(), values: embed(text), calibration: Calibration::default() }
}

/// Embeds everything, in batches; returns how many entries it saw.
async fn embed_all(f: &Fixture, model: &str, batch: usize) -> usize {
    let mut seen = 0;
    loop {
        let waiting = f.store.knowledge_unembedded("default", model, batch).await.unwrap();
        if waiting.is_empty() {
            return seen;
        }
        seen += waiting.len();
        let done = waiting.iter().map(|entry| Embedded {
            org: entry.org,
            number: entry.number,
            parts: vec![embed(&format!("{} {}", entry.title, entry.body))],
        });
        f.store.knowledge_vectors_put(model, done.collect()).await.unwrap();
    }
}

async fn vectors_count_half_and_the_unembedded_wait_below(f: Fixture) {
    learn(&f, "cats", "cat cat cat").await;
    learn(&f, "dogs", "dog dog dog").await;
    let alone = find(&f, asking(&f, "cats")).await[0].score;
    let by_vector = |text: &str| KnowledgeQuery { vector: Some(vector(text)), ..asking(&f, text) };
    let waiting = find(&f, by_vector("cats")).await;
    let words = waiting[0].score / 0.8;
    assert!(alone < words && words < 1.0, "{alone} {words}: alone they must fit better");
    assert_eq!(embed_all(&f, "m", 10).await, 2);
    let both = find(&f, by_vector("cats")).await;
    assert!((both[0].score - (0.5 + 0.5 * words)).abs() < 1e-3, "{}", both[0].score);
    assert_eq!(both.len(), 1, "the other animal is nowhere near");
    let mut meant = by_vector("category");
    meant.min_score = 0.4;
    let meant = find(&f, meant).await;
    assert_eq!(meant[0].entry.title, "cats", "found without a word in common");
    assert!((meant[0].score - 0.5).abs() < 1e-3, "the vector's half alone");
    let another = QueryVector { model: "other".into(), ..vector("cats") };
    let foreign = find(&f, KnowledgeQuery { vector: Some(another), ..asking(&f, "cats") }).await;
    assert!((foreign[0].score - 0.8 * words).abs() < 1e-6, "another model's vectors do not count");
}

async fn a_long_entry_is_as_near_as_its_nearest_part(f: Fixture) {
    learn(&f, "animals", "first cats then dogs").await;
    let entry = f.store.knowledge_unembedded("default", "m", 1).await.unwrap().remove(0);
    let parts = vec![embed("cat"), embed("dog")];
    let vectors = Embedded { org: entry.org, number: entry.number, parts };
    f.store.knowledge_vectors_put("m", vec![vectors]).await.unwrap();
    for query in ["category", "dogma"] {
        let asked = KnowledgeQuery { vector: Some(vector(query)), ..asking(&f, query) };
        let found = find(&f, asked).await;
        assert!(found.len() == 1 && (found[0].score - 0.5).abs() < 1e-3, "{query} {found:?}");
    }
}

async fn a_task_does_not_learn_from_itself(f: Fixture) {
    let task = f.create("a", &[]).await;
    let stored = async |title: &str, kind| {
        let entry = KnowledgeStore { task: Some((task, kind)), ..new(title, "same words") };
        f.done("agent:w1", Command::KnowledgeStore(entry)).await;
    };
    stored("produced", EdgeKind::Produced).await;
    stored("referenced", EdgeKind::References).await;
    let asked = KnowledgeQuery { not_produced_by: Some(task), ..asking(&f, "same words") };
    let found = find(&f, asked).await;
    assert_eq!(
        found.iter().map(|hit| hit.entry.title.as_str()).collect::<Vec<_>>(),
        ["referenced"]
    );
    let missing = TaskId { id: next_id(), ..task };
    let entry = KnowledgeStore { task: Some((missing, EdgeKind::Produced)), ..new("x", "y") };
    assert_eq!(f.code("agent:w1", Command::KnowledgeStore(entry)).await, "TASK_NOT_FOUND");
}

async fn the_newest_uses_of_an_entry_come_first(f: Fixture) {
    let entries = [learn(&f, "a", "b").await, learn(&f, "c", "d").await];
    let tasks = [f.create("a", &[]).await, f.create("b", &[]).await, f.create("c", &[]).await];
    let used = |entry: usize, task: usize, at: i64| KnowledgeUse {
        entry: entries[entry],
        task: tasks[task],
        attempt: AttemptId(next_id()),
        actor: "agent:w1".parse().unwrap(),
        at: Timestamp(at),
    };
    let early = [used(0, 0, 10), used(0, 1, 20), used(0, 2, 30), used(1, 1, 40)];
    f.store.knowledge_use(early.to_vec()).await.unwrap();
    let again = used(0, 0, 50);
    f.store.knowledge_use(vec![again.clone()]).await.unwrap();
    f.store.knowledge_use(vec![]).await.unwrap();
    let found = f.store.knowledge_uses(entries.to_vec(), 2).await.unwrap();
    assert_eq!(found, [again.clone(), early[2].clone(), early[3].clone()], "at most two of each");
    let all = f.store.knowledge_uses(entries.to_vec(), 9).await.unwrap();
    assert_eq!(all.iter().filter(|used| used.task == tasks[0]).collect::<Vec<_>>(), [&again]);
    let gone = TaskId { id: next_id(), ..tasks[0] };
    f.store.knowledge_use(vec![KnowledgeUse { task: gone, ..again }]).await.unwrap();
    let found = f.store.knowledge_uses(vec![entries[0]], 9).await.unwrap();
    assert!(found.iter().all(|used| used.task != gone), "a removed task is left out");
    assert!(f.store.knowledge_uses(vec![], 9).await.unwrap().is_empty());
}

async fn embedding_goes_on_where_it_stopped(f: Fixture) {
    for n in 0..5 {
        learn(&f, &format!("cat {n}"), "cat").await;
    }
    let first = f.store.knowledge_unembedded("default", "m", 2).await.unwrap();
    let done = |parts: Vec<Vec<f32>>| {
        let done = first.iter().map(|entry| Embedded {
            org: entry.org,
            number: entry.number,
            parts: parts.clone(),
        });
        done.collect::<Vec<_>>()
    };
    // Two processes took the same entries; the result of the second is not needed.
    f.store.knowledge_vectors_put("m", done(vec![embed("cat")])).await.unwrap();
    f.store.knowledge_vectors_put("m", done(vec![embed("dog")])).await.unwrap();
    assert_eq!(embed_all(&f, "m", 2).await, 3, "what was embedded is not embedded again");
    let asked = KnowledgeQuery { vector: Some(vector("category")), ..asking(&f, "category") };
    assert_eq!(find(&f, asked).await.len(), 5);
    assert_eq!(embed_all(&f, "newer", 10).await, 5, "a new model begins anew");
    assert_eq!(embed_all(&f, "m", 10).await, 0, "beside the old one");
    learn(&f, "given up", "cat").await;
    let last = f.store.knowledge_unembedded("default", "m", 9).await.unwrap();
    assert_eq!(last.len(), 1);
    let none = Embedded { org: last[0].org, number: last[0].number, parts: Vec::new() };
    f.store.knowledge_vectors_put("m", vec![none]).await.unwrap();
    assert_eq!(embed_all(&f, "m", 10).await, 0);
}

async fn another_process_sees_new_vectors(f: Fixture) {
    let neighbour = f.neighbour().await;
    let ask = async |f: &Fixture| {
        let asked = KnowledgeQuery { vector: Some(vector("category")), ..asking(f, "category") };
        find(f, asked).await.len()
    };
    for n in 1..4 {
        learn(&f, "cat", "cat").await;
        embed_all(if n % 2 == 0 { &f } else { &neighbour }, "m", 10).await;
        assert_eq!((ask(&f).await, ask(&neighbour).await), (n, n));
    }
}

async fn entries_of_one_batch_and_of_many_writers_are_all_found(f: Fixture) {
    let (f, neighbour) = (Arc::new(f.neighbour().await), Arc::new(f));
    let writes: Vec<_> = (0..300)
        .map(|n| {
            let f = if n % 2 == 0 { f.clone() } else { neighbour.clone() };
            tokio::spawn(async move { learn(&f, &format!("nr{n}"), "shared words").await })
        })
        .collect();
    for write in writes {
        write.await.unwrap();
    }
    for n in [0, 127, 128, 255, 256, 299] {
        assert_eq!(titles(&f, &format!("nr{n}")).await, [format!("nr{n}")]);
    }
    let mut all = asking(&f, "shared");
    all.limit = 1000;
    assert_eq!(find(&f, all).await.len(), 100, "the best hundred of a leg are looked at");
    f.assert_sound().await;
}
