//! What may be stored as knowledge, as a table, and what completing a task leaves behind.

use super::model::{Model, knowledge_named, task_named};
use crate::command::{Command, LeaseComplete};
use crate::event::EventName;
use crate::ids::{AttemptId, Id};
use crate::knowledge::{
    EdgeKind, KnowledgeAsk, KnowledgeId, KnowledgeSource, KnowledgeUse, LEARNINGS_MAX, NewKnowledge,
};
use crate::policy::Policy;
use crate::refusal::{Quota, Refusal};
use crate::task::attempt::{Attempt, AttemptEnd, AttemptKind, AttemptState};
use crate::time::Timestamp;

fn new(name: &str) -> NewKnowledge {
    NewKnowledge {
        id: knowledge_named(name),
        title: name.into(),
        body: "because".into(),
        tags: vec!["Web-Hooks".into(), "web-hooks".into()],
        confidence: None,
    }
}

#[test]
fn storing_judges_what_was_written() {
    let mut model = Model::new(Policy::default());
    for (line, expected) in [
        ("learn K title=", "title cannot be empty"),
        ("learn K body=", "body cannot be empty"),
        ("learn K confidence=101", "confidence must be 0..100, got 101"),
        ("learn K tags=a_b", "tag 'a_b' must be"),
        ("learn K tags=a--b", "tag 'a--b' must be"),
        ("learn K tags=é", "tag 'é' must be"),
        ("learn K expires=0", "expiresAt must be in the future"),
        ("learn K for=A", "task not found: "),
        ("learn K supersedes=J", "supersedes: knowledge not found: kn_"),
        ("create A", ""),
        ("learn K for=A expires=1 tags=Big-One,big-one,2 confidence=100", ""),
        ("learn L produced=A supersedes=K", ""),
    ] {
        let command = model.command(line);
        match model.act("w1", &command) {
            Ok(_) => assert_eq!(expected, "", "{line}"),
            Err(refusal) => {
                assert!(!expected.is_empty(), "{line}: {}", refusal.message());
                assert!(refusal.message().starts_with(expected), "{line}: {}", refusal.message());
            }
        }
    }
    let (k, l) = (knowledge_named("K"), knowledge_named("L"));
    assert_eq!(model.rows.knowledge[&k].tags, ["big-one", "2"]);
    assert_eq!(model.rows.knowledge[&k].superseded_by, Some(l));
    assert_eq!(model.rows.knowledge[&k].source_task, None, "a reference is not its source");
    assert_eq!(model.rows.knowledge[&l].source_task, Some(task_named("A")));
    assert_eq!(model.rows.knowledge[&l].source, KnowledgeSource::Agent);
    assert_eq!(
        model.touched.edges,
        [(task_named("A"), k, EdgeKind::References), (task_named("A"), l, EdgeKind::Produced)]
    );
    assert_eq!(
        model.events,
        ["task.created", "knowledge.stored", "knowledge.stored", "knowledge.superseded"]
    );
}

#[test]
fn lengths_are_counted_in_characters() {
    let mut model = Model::new(Policy::default());
    for (title, body, accepted) in [
        ("é".repeat(200), "x".repeat(32_000), true),
        ("é".repeat(201), "x".into(), false),
        ("x".into(), "x".repeat(32_001), false),
    ] {
        let line = format!("learn K title={title} body={body}");
        let command = model.command(&line);
        assert_eq!(model.act("w1", &command).is_ok(), accepted);
    }
}

/// A held task, and the command that completes it with these learnings.
fn completing(model: &mut Model, learned: Vec<NewKnowledge>) -> Command {
    for (who, line) in [("ana", "create A verify=none"), ("w1", "take A")] {
        let command = model.command(line);
        model.act(who, &command).expect("done");
    }
    match model.command("complete A") {
        Command::LeaseComplete(complete) => {
            Command::LeaseComplete(LeaseComplete { learnings: learned, ..complete })
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_completed_task_produces_its_learnings() {
    let mut model = Model::new(Policy::default());
    let complete = completing(&mut model, vec![new("K"), new("L")]);
    let change = model.act("w1", &complete).expect("completed");
    let task = task_named("A");
    let entry = &model.rows.knowledge[&knowledge_named("K")];
    assert_eq!(entry.source, KnowledgeSource::TaskCompletion);
    assert_eq!((entry.source_task, entry.confidence), (Some(task), 80));
    assert_eq!(entry.tags, ["web-hooks"]);
    assert!(model.touched.edges.iter().all(|edge| (edge.0, edge.2) == (task, EdgeKind::Produced)));
    assert_eq!(model.touched.edges.len(), 2);
    let stored = change.events.iter().filter(|event| event.name == EventName::KnowledgeStored);
    let of_task = stored.filter(|event| event.about.is_some_and(|about| about.task == task));
    assert_eq!(of_task.count(), 2);
}

#[test]
fn one_bad_learning_spoils_the_lot_and_is_named() {
    let bad = NewKnowledge { body: " ".into(), ..new("L") };
    for (learned, words) in [
        (vec![new("K"), bad], "learning 1: body cannot be empty"),
        (vec![new("K"); LEARNINGS_MAX + 1], "at most 20 learnings, got 21"),
    ] {
        let mut model = Model::new(Policy::default());
        let complete = completing(&mut model, learned);
        assert_eq!(model.act("w1", &complete).expect_err("refused").message(), words);
    }
}

#[test]
fn a_quota_is_judged_last() {
    let mut model = Model::new(Policy::default());
    let complete = completing(&mut model, vec![new("K")]);
    let Command::LeaseComplete(complete) = complete else { panic!("made above") };
    let over = Quota {
        metric: "knowledge_stored",
        limit: 1,
        used: 1,
        requested: 1,
        period: "2026-06".into(),
        next_reset_at: model.now,
    };
    let complete = Command::LeaseComplete(LeaseComplete { over_quota: Some(over), ..complete });
    let held = model.act("w2", &complete).expect_err("another holds it");
    assert!(matches!(held, Refusal::NotHolder { .. }), "{held:?}");
    let over = model.act("w1", &complete).expect_err("too many");
    assert_eq!(over.message(), "knowledge_stored: 1 of 1 used in 2026-06, 1 requested");
    assert!(model.rows.knowledge.is_empty());
}

#[test]
fn a_search_judges_its_query_first_and_its_tags_last() {
    let ask = || KnowledgeAsk::of("x");
    let tags = |tags: &str| tags.split(',').map(str::to_owned).collect::<Vec<String>>();
    let many = (0..17).map(|n| n.to_string()).collect::<Vec<String>>();
    for (ask, expected) in [
        (ask(), ""),
        (KnowledgeAsk::of("é".repeat(2000)), ""),
        (KnowledgeAsk { limit: 1, ..ask() }, ""),
        (KnowledgeAsk { limit: 50, min_score: 1.0, ..ask() }, ""),
        (KnowledgeAsk { tags: tags("A,a,b-2"), ..ask() }, ""),
        (KnowledgeAsk::of(""), "query must be 1..2000 characters, got 0"),
        (KnowledgeAsk::of(" "), "query must be 1..2000 characters, got 1"),
        (KnowledgeAsk::of("é".repeat(2001)), "query must be 1..2000 characters, got 2001"),
        (KnowledgeAsk { limit: 0, ..KnowledgeAsk::of("") }, "query must be"),
        (KnowledgeAsk { limit: 0, ..ask() }, "limit must be 1..50, got 0"),
        (KnowledgeAsk { limit: 51, min_score: 2.0, ..ask() }, "limit must be 1..50, got 51"),
        (
            KnowledgeAsk { min_score: 1.1, tags: tags("a_b"), ..ask() },
            "minScore must be 0..1, got 1.1",
        ),
        (KnowledgeAsk { min_score: -0.1, ..ask() }, "minScore must be 0..1, got -0.1"),
        (KnowledgeAsk { min_score: f64::NAN, ..ask() }, "minScore must be 0..1, got NaN"),
        (KnowledgeAsk { tags: many, ..ask() }, "at most 16 tags, got 17"),
        (KnowledgeAsk { tags: tags("a_b"), ..ask() }, "tag 'a_b' must be"),
    ] {
        let shown = format!("{ask:?}");
        match ask.judged() {
            Ok(_) => assert_eq!(expected, "", "{shown}"),
            Err(refusal) => {
                let words = refusal.message();
                assert!(!expected.is_empty() && words.starts_with(expected), "{shown}: {words}");
            }
        }
    }
    let judged = KnowledgeAsk { tags: tags("A,a,b-2"), ..ask() }.judged().expect("well formed");
    assert_eq!(judged.tags, ["a", "b-2"]);
}

#[test]
fn a_live_attempt_uses_each_entry_of_its_digest_once() {
    let live = AttemptState::Live { heartbeat_at: Timestamp(1), progress: None, lease: None };
    let ended = AttemptState::Ended { at: Timestamp(2), end: AttemptEnd::Released };
    let attempt = |state: &AttemptState| Attempt {
        id: AttemptId(Id(1)),
        task: task_named("A"),
        kind: AttemptKind::Execution,
        fence: 1,
        actor: "agent:w1".parse().expect("an actor"),
        key: None,
        client: None,
        model: None,
        worktree: None,
        branch: None,
        head_started: None,
        started_at: Timestamp(1),
        state: state.clone(),
    };
    let [k, l] = [3, 4].map(|id| KnowledgeId(Id(id)));
    for (state, given, used) in
        [(&live, vec![], vec![]), (&live, vec![l, k, l], vec![k, l]), (&ended, vec![k], vec![])]
    {
        let uses = KnowledgeUse::of(&attempt(state), &given, Timestamp(9));
        assert_eq!(uses.iter().map(|used| used.entry).collect::<Vec<_>>(), used, "{given:?}");
        assert!(uses.iter().all(|used| used.task == task_named("A") && used.at == Timestamp(9)));
    }
}
