//! The filter language as a table.

use super::model::Model;
use crate::actor::Actor;
use crate::board::filter::{FILTER_KEYS, FilterHint, FilterText, FilterWants, without_each};
use crate::ids::Id;
use crate::policy::Policy;
use crate::runs::filter::{JOB_FILTER_KEYS, JobFacts, says_of_jobs};
use crate::runs::job::{Job, JobId, JobKind, JobState};
use crate::task::Task;
use crate::time::Timestamp;

/// The typed text, the terms that were read, and the hints.
const TABLE: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("  ", "", ""),
    ("Login  PAGE", "words login, words page", ""),
    ("\"two Words\" one", "words two words, words one", ""),
    ("-draft", "not words draft", ""),
    ("-\"two words\"", "not words two words", ""),
    ("actor:claude-1", "actor claude-1", ""),
    ("actor:agent:claude-1", "actor agent:claude-1", ""),
    ("ACTOR:Ana", "actor Ana", ""),
    ("-actor:ana", "not actor ana", ""),
    ("epic:timeline", "epic timeline", ""),
    ("epic:\"Release 0.9\" x", "epic Release 0.9, words x", ""),
    ("epic:SHOP-3", "epic SHOP-3", ""),
    ("check:fail check:PASS -check:open", "check fail, check pass, not check open", ""),
    ("check:failed check:Passing check:pending", "check fail, check pass, check open", ""),
    ("check:maybe", "", "check:maybe was left out: check takes fail, pass or open."),
    ("verb:task.claimed", "verb task.claimed", ""),
    ("since:1d", "since 86400000", ""),
    ("since:30min since:30m since:90s", "since 1800000, since 1800000, since 90000", ""),
    ("since:2w since:12h", "since 1209600000, since 43200000", ""),
    (
        "since:0d",
        "",
        "since:0d was left out: since takes a span, as in since:30min, since:12h or since:1d.",
    ),
    (
        "since:soon",
        "",
        "since:soon was left out: since takes a span, as in since:30min, since:12h or since:1d.",
    ),
    ("label:in_review", "label in_review", ""),
    ("phase:working", "phase working", ""),
    (
        "phase:asleep",
        "",
        "phase:asleep was left out: phase takes blocked, ready, working, review or done.",
    ),
    ("priority:P0 priority:p1 priority:250", "priority 100, priority 500, priority 250", ""),
    (
        "priority:1001",
        "",
        "priority:1001 was left out: priority takes a number from 0 to 1000, or P0, P1 or P2.",
    ),
    ("project:SHOP", "project SHOP", ""),
    ("task:SHOP-3", "task SHOP-3", ""),
    ("actor:", "", "actor: was left out: actor takes a name, as in actor:claude-1."),
    (
        "colour:red word",
        "words word",
        "colour: is no key and was left out. Keys are actor, epic, check, verb, since, label, phase, \
         priority, project, task. Quotes make it a word.",
    ),
    ("\"colour:red\"", "words colour:red", ""),
    ("12:30 a-b", "words 12:30, words a-b", ""),
    (":x", "words :x", ""),
    ("\"", "", ""),
    ("-", "", ""),
    ("\"open quote", "words open quote", ""),
];

fn shown(wants: &FilterWants) -> String {
    match wants {
        FilterWants::Words(words) => format!("words {words}"),
        FilterWants::Actor(actor) => format!("actor {actor}"),
        FilterWants::Epic(epic) => format!("epic {epic}"),
        FilterWants::Check(check) => format!("check {}", check.as_str()),
        FilterWants::Verb(verb) => format!("verb {verb}"),
        FilterWants::Since(ms) => format!("since {ms}"),
        FilterWants::Label(label) => format!("label {label}"),
        FilterWants::Phase(column) => format!("phase {}", column.as_str()),
        FilterWants::Priority(most) => format!("priority {most}"),
        FilterWants::Project(project) => format!("project {project}"),
        FilterWants::Task(task) => format!("task {task}"),
    }
}

#[test]
fn a_filter_is_read_and_never_refused() {
    for (typed, terms, hints) in TABLE {
        let read = FilterText::parse(typed);
        let term = |is_not: bool, wants: &FilterWants| {
            format!("{}{}", if is_not { "not " } else { "" }, shown(wants))
        };
        let found: Vec<String> =
            read.terms.iter().map(|one| term(one.is_not, &one.wants)).collect();
        let said: Vec<String> = read.hints.iter().map(FilterHint::message).collect();
        assert_eq!(
            (found.join(", ").as_str(), said.join(" ").as_str()),
            (*terms, *hints),
            "{typed}"
        );
    }
}

#[test]
fn a_long_filter_is_cut_with_a_hint() {
    let many = FilterText::parse(&"a ".repeat(11));
    assert_eq!((many.terms.len(), many.hints), (10, vec![FilterHint::TooMany { terms_max: 10 }]));
    let long = FilterText::parse(&"é".repeat(201));
    assert_eq!(long.hints, [FilterHint::TooLong { chars_max: 200 }]);
    let FilterWants::Words(word) = &long.terms[0].wants else { panic!("a word") };
    assert_eq!(word.chars().count(), 200);
}

#[test]
fn every_key_is_read() {
    for (key, _) in FILTER_KEYS {
        let read = FilterText::parse(&format!("{key}:\u{1}"));
        let is_unknown = |hint: &FilterHint| matches!(hint, FilterHint::UnknownKey { .. });
        assert!(!read.hints.iter().any(is_unknown), "{key}");
    }
}

#[test]
fn a_filter_can_lose_each_of_its_terms() {
    for (text, expected) in [
        ("", vec![]),
        ("  ", vec![]),
        ("word", vec![("word", "")]),
        (
            " actor:w1  -\"two words\" since:1d",
            vec![
                ("actor:w1", "-\"two words\" since:1d"),
                ("-\"two words\"", "actor:w1 since:1d"),
                ("since:1d", "actor:w1 -\"two words\""),
            ],
        ),
        ("\"open quote", vec![("\"open quote", "")]),
    ] {
        let found = without_each(text);
        let found: Vec<(&str, &str)> =
            found.iter().map(|(term, left)| (term.as_str(), left.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_job_fits_terms_about_itself_and_about_its_task() {
    let at = |s: i64| Timestamp(s * 1_000_000);
    let named_actor = |name: &str| name.parse::<Actor>().expect("a name");
    let [ana, w1, w2] = ["human:ana", "agent:w1", "agent:w2"].map(named_actor);
    let task = Task { assignee: Some(w1), ..named("Greet the world") };
    let epic = named("Release 0.9");
    let mut job = Job::queued(JobId(Id(7)), JobKind::Work, "key".into(), Some(task.id), at(0));
    job.state = JobState::Failed { at: at(60), reason: "EXIT".into() };
    let facts = JobFacts {
        job: &job,
        title: &task.title,
        summary: "no dictionary",
        asked_by: Some(&ana),
        agent: Some(&w2),
        task: Some(&task),
        epic: Some(&epic),
    };
    let bare = JobFacts { task: None, epic: None, ..facts };
    // The filter; whether the job fits it, and without its task.
    for (text, with_task, without) in [
        ("", true, true),
        ("GREET dictionary", true, true),
        ("greet moon", false, false),
        ("-moon", true, true),
        ("actor:ana", true, true),
        ("actor:human:ana", true, true),
        ("actor:w1", true, false),
        ("-actor:w1", false, true),
        ("actor:w2", true, true),
        ("actor:w3", false, false),
        ("epic:release", true, false),
        ("epic:later", false, false),
        ("phase:ready", true, false),
        ("phase:review", false, false),
        ("check:fail", false, false),
        ("since:1min", true, true),
        ("since:30s", false, false),
        ("priority:P1", true, true),
        ("priority:P0", false, false),
        ("verb:task.claimed project:other", true, true),
    ] {
        let terms = FilterText::parse(text).terms;
        let fits = (facts.fit(&terms, at(120)), bare.fit(&terms, at(120)));
        assert_eq!(fits, (with_task, without), "{text}");
    }
}

fn named(title: &str) -> Task {
    let mut model = Model::new(Policy::default());
    let create = model.command("create A");
    model.act("ana", &create).expect("created");
    Task { title: title.into(), ..model.task("A").clone() }
}

#[test]
fn every_key_of_jobs_says_something_of_jobs() {
    for (key, _) in FILTER_KEYS {
        let value = match key {
            "check" => "fail",
            "since" => "1d",
            "phase" => "review",
            "priority" => "P0",
            _ => "SHOP-3",
        };
        let terms = FilterText::parse(&format!("{key}:{value}")).terms;
        assert_eq!(says_of_jobs(&terms[0].wants), JOB_FILTER_KEYS.contains(&key), "{key}");
    }
}
