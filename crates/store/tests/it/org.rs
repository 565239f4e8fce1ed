//! What every store must do with the rows of an org besides tasks.

use callboard_domain::board::plan::*;
use callboard_domain::board::project::Project;
use callboard_domain::board::settings::{BoardSettings, SettingKey};
use callboard_domain::command::*;
use callboard_domain::event::{EventName, EventTerm};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::Rights;
use callboard_domain::token::TokenId;
use callboard_store::{Applied, BackQuery, Op, Outcome, TokenGrant};
use serde_json::{Value, json};

use crate::conformance::conformance;
use crate::fixture::{Fixture, next_id, place};

conformance! {
    settings_are_kept_per_org_and_seen_by_every_process,
    of_two_updates_at_once_both_are_kept,
    projects_have_repositories_and_are_listed_by_when_they_were_chosen,
    the_first_project_of_an_org_is_open,
    a_plan_is_read_back_whole_and_decided_once,
    a_retried_call_finds_what_it_made,
    the_log_is_read_from_the_end_without_gaps,
    the_log_is_searched_by_actor_words_task_and_range,
}

const ODD: &str = "\u{1f980} 'plan' \\ \"é\"\n";

fn update(set: &[(SettingKey, Value)]) -> Command {
    Command::SettingsUpdate(Box::new(SettingsUpdate {
        base: BoardSettings::default(),
        agents: vec!["claude".into()],
        set: set.to_vec(),
    }))
}

fn project(name: &str, paths: &[&str]) -> Command {
    let repo = |path: &&str| NewRepo { path: path.into(), default_branch: Some("trunk".into()) };
    Command::ProjectCreate(ProjectCreate {
        name: name.into(),
        description: ODD.into(),
        machine: "here".into(),
        repos: paths.iter().map(repo).collect(),
    })
}

fn propose(titles: &[&str]) -> PlanPropose {
    let task = |title: &&str| PlannedTask {
        title: (*title).into(),
        mode: callboard_domain::board::card::Mode::Auto,
        description: ODD.into(),
        acceptance_criteria: vec!["é".into()],
        priority: PlannedPriority::High,
    };
    PlanPropose {
        plan: PlanId(next_id()),
        tasks: titles.iter().map(task).collect(),
        todos: vec![Todo { content: "look".into(), status: TodoStatus::InProgress }],
    }
}

fn project_of(applied: Applied) -> Project {
    match applied.outcome {
        Outcome::Project(project) => *project,
        other => panic!("{other:?}"),
    }
}

fn plan_of(applied: Applied) -> Plan {
    match applied.outcome {
        Outcome::Plan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

fn in_org(f: &Fixture, org: &str, command: Command) -> Op {
    Op { org: org.into(), ..f.op("agent:w1", command) }
}

/// One row of each kind, as transfers must carry it.
pub async fn filled(f: &Fixture) {
    f.done("human:ana", update(&[(SettingKey::DefaultModelCodex, json!("é"))])).await;
    let made = project_of(f.done("human:ana", project(ODD, &["/änä/a", "/b"])).await);
    f.done("human:ana", Command::ProjectOpen { project: made.id }).await;
    let plan = propose(&["a", "b"]);
    let id = plan.plan;
    f.done("agent:w1", Command::PlanPropose(plan)).await;
    f.done("human:ana", approve(f, id, 2)).await;
    f.done("agent:w1", Command::PlanPropose(propose(&["c"]))).await;
}

fn approve(f: &Fixture, plan: PlanId, tasks: usize) -> Command {
    let id = |_| TaskId { id: next_id(), prefix: f.home.project.prefix };
    let tasks = (0..tasks).map(id).collect();
    Command::PlanApprove(PlanApprove { plan, project: f.home.project.id, tasks })
}

async fn settings_are_kept_per_org_and_seen_by_every_process(f: Fixture) {
    let other = f.neighbour().await;
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.settings("default").await.unwrap(), []);
    let (agents, model) = (SettingKey::MaxConcurrentAgents, SettingKey::DefaultModelKimi);
    let set = [(agents, json!(4)), (model, json!("k2"))];
    let applied = f.done("human:ana", update(&set)).await;
    assert_eq!(other.store.settings("default").await.unwrap(), [set[1].clone(), set[0].clone()]);
    assert_eq!(f.store.settings("other").await.unwrap(), []);
    let seq = applied.last_seq.unwrap();
    assert_eq!(other.done("human:ana", update(&set)).await.last_seq, None, "nothing changed");
    assert_eq!(other.code("human:ana", update(&[(agents, json!(11))])).await, "INVALID_SETTING");
    // Setting a default again is a change too, and an empty value is stored.
    let back = [(agents, json!(3)), (model, json!(""))];
    assert_eq!(other.done("human:ana", update(&back)).await.last_seq, Some(seq + 1));
    let kept = f.store.settings("default").await.unwrap();
    assert_eq!(kept, [(model, Value::Null), (agents, json!(3))]);
    f.assert_sound().await;
}

async fn of_two_updates_at_once_both_are_kept(f: Fixture) {
    let other = f.neighbour().await;
    let keys = [SettingKey::AutoReview, SettingKey::SerializeMerges];
    let one = f.done("agent:w1", update(&[(keys[0], json!(false))]));
    let two = other.done("agent:w2", update(&[(keys[1], json!(false))]));
    tokio::join!(one, two);
    let kept = f.store.settings("default").await.unwrap();
    assert_eq!(kept, keys.map(|key| (key, json!(false))));
}

async fn projects_have_repositories_and_are_listed_by_when_they_were_chosen(f: Fixture) {
    let home = f.home.project.id;
    f.clock.advance_ms(1);
    let shop = project_of(f.done("agent:w1", project("shop", &["/a", "/b", "/a"])).await);
    f.clock.advance_ms(1);
    let till = project_of(f.done("agent:w1", project("till", &["/a"])).await);
    assert_eq!((shop.description.as_str(), shop.opened_at), (ODD, None));
    let other = f.neighbour().await;
    let listed = async |limit| {
        let found = other.store.projects("default", limit).await.unwrap();
        found.iter().map(|project| project.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(10).await, [till.id, shop.id, home]);
    let opened = project_of(f.done("agent:w1", Command::ProjectOpen { project: shop.id }).await);
    assert_eq!(opened.opened_at, Some(f.store.now()));
    assert_eq!(listed(10).await, [shop.id, till.id, home]);
    assert_eq!(listed(1).await, [shop.id]);
    assert_eq!(f.store.project_in("default", shop.id).await.unwrap(), Some(opened));

    let repos = other.store.repos("default", shop.id).await.unwrap();
    let seen: Vec<_> = repos.iter().map(|r| (r.path.to_str().unwrap(), r.position)).collect();
    assert_eq!(seen, [("/a", 0), ("/b", 1)]);
    assert_eq!(repos[0].default_branch.as_deref(), Some("trunk"));
    let primary = f.store.repo(shop.id).await.unwrap().unwrap();
    assert_eq!(primary.id, repos[0].id, "the first stands for the project");
    let here = f.store.repo_path(shop.id, "here").await.unwrap();
    assert_eq!(here, Some("/a".into()));

    let (w1, w2) = ("agent:w1".parse().unwrap(), "agent:w2".parse().unwrap());
    let open = other.store.project_opened("default", &w1).await.unwrap().unwrap();
    assert_eq!(open.id, shop.id);
    assert_eq!(other.store.project_opened("default", &w2).await.unwrap(), None);
    let again = f.done("agent:w1", Command::ProjectOpen { project: shop.id }).await;
    assert_eq!(again.last_seq, None);
    assert_eq!(
        f.code("agent:w1", Command::ProjectOpen { project: 999 }).await,
        "PROJECT_NOT_FOUND"
    );

    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.repos("other", shop.id).await.unwrap(), []);
    assert_eq!(f.store.project_in("other", shop.id).await.unwrap(), None);
    let theirs = in_org(&f, "other", Command::ProjectOpen { project: shop.id });
    assert!(f.store.apply(theirs).await.is_err(), "another org's");
    f.assert_sound().await;
}

async fn the_first_project_of_an_org_is_open(f: Fixture) {
    // An org without a project, as a new token makes it.
    let grant = TokenGrant {
        id: TokenId(next_id()),
        hash: [7; 32],
        org: "fresh".into(),
        actor: "agent:w1".parse().unwrap(),
        rights: Rights::default(),
        lives: None,
        by: "human:ana".parse().unwrap(),
    };
    f.store.token_add(grant).await.unwrap();
    for (name, is_open) in [("one", true), ("two", false)] {
        let made =
            project_of(f.store.apply(in_org(&f, "fresh", project(name, &[]))).await.unwrap());
        assert_eq!(made.opened_at.is_some(), is_open);
    }
    let open = f.store.project_opened("fresh", &"agent:w1".parse().unwrap()).await.unwrap();
    assert_eq!(open.unwrap().name, "one");
}

async fn a_plan_is_read_back_whole_and_decided_once(f: Fixture) {
    let given = propose(&["a", "b"]);
    let id = given.plan;
    let kept = plan_of(f.done("agent:w1", Command::PlanPropose(given.clone())).await);
    assert_eq!((&kept.tasks, &kept.todos), (&given.tasks, &given.todos));
    assert_eq!(f.neighbour().await.store.plan("default", id).await.unwrap(), Some(kept.clone()));
    let other = PlanId(next_id());
    f.done("agent:w1", Command::PlanPropose(PlanPropose { plan: other, ..propose(&["c"]) })).await;
    let listed = f.store.plans("default", 10).await.unwrap();
    assert_eq!(listed.iter().map(|plan| plan.id).collect::<Vec<_>>(), [other, id]);

    let approved = plan_of(f.done("human:ana", approve(&f, id, 2)).await);
    let PlanState::Approved { tasks, .. } = &approved.state else { panic!("{approved:?}") };
    for (task, title) in tasks.iter().zip(["a", "b"]) {
        let record = f.record(*task).await;
        assert_eq!((record.task.title.as_str(), record.body.as_str()), (title, ODD));
        assert_eq!(record.task.priority, 100);
    }
    assert_eq!(f.store.plan("default", id).await.unwrap(), Some(approved));
    assert_eq!(f.code("human:ana", approve(&f, id, 2)).await, "PLAN_DECIDED");
    f.done("human:ana", Command::PlanReject { plan: other, words: None }).await;
    let rejected = f.store.plan("default", other).await.unwrap().unwrap();
    assert_eq!(rejected.state.as_str(), "rejected");
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.plan("other", id).await.unwrap(), None, "another org's");
    f.assert_sound().await;
}

async fn a_retried_call_finds_what_it_made(f: Fixture) {
    let plan = propose(&["a"]);
    let commands = [
        update(&[(SettingKey::AutoReview, json!(false))]),
        project("shop", &["/a"]),
        Command::PlanPropose(plan),
    ];
    for (number, command) in commands.into_iter().enumerate() {
        let mut op = f.op("agent:w1", command);
        op.retry_key = f.key(&format!("key {number}"));
        let first = f.store.apply(op.clone()).await.unwrap();
        let again = f.neighbour().await.store.apply(op).await.unwrap();
        assert!(first.last_seq.is_some() && again.last_seq.is_none());
        assert_eq!(format!("{:?}", first.outcome), format!("{:?}", again.outcome));
    }
}

async fn the_log_is_read_from_the_end_without_gaps(f: Fixture) {
    for n in 0..5 {
        f.create(&format!("{n}"), &[]).await;
    }
    f.done("human:ana", update(&[(SettingKey::AutoReview, json!(false))])).await;
    let query = BackQuery::of(f.home.org.clone(), 2);
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let before = seen.last().copied();
        let page = f.store.events_back(BackQuery { before, ..query.clone() }).await.unwrap();
        if page.is_empty() {
            break;
        }
        seen.extend(page.iter().map(|event| event.seq));
        f.create("meanwhile", &[]).await;
    }
    assert_eq!(seen, [6, 5, 4, 3, 2, 1]);
    let names = Some(vec![EventName::SettingsUpdated]);
    let found = f.store.events_back(BackQuery { names, ..query.clone() }).await.unwrap();
    assert_eq!(found.iter().map(|event| event.seq).collect::<Vec<_>>(), [6]);
    let none = BackQuery { names: Some(Vec::new()), ..query.clone() };
    assert_eq!(f.store.events_back(none.clone()).await.unwrap(), []);
    let created = Some(vec![EventName::TaskCreated]);
    for (limited, count) in [
        (none, 0),
        (query.clone(), 2),
        (BackQuery { limit: 100, names: created.clone(), ..query.clone() }, 8),
        (BackQuery { limit: 100, names: created, before: Some(4), ..query.clone() }, 3),
    ] {
        let found = f.store.events_count(limited.clone()).await.unwrap();
        assert_eq!(found, count, "{limited:?}");
    }
    let theirs = BackQuery { org: "other".into(), ..query.clone() };
    f.store.settle(place("other")).await.unwrap();
    assert_eq!(f.store.events_back(theirs).await.unwrap(), []);
}

async fn the_log_is_searched_by_actor_words_task_and_range(f: Fixture) {
    let task = f.create("Export 100% of it", &[]).await;
    f.create("other", &[]).await;
    f.done("agent:w1", update(&[(SettingKey::AutoReview, json!(false))])).await;
    let all = BackQuery::of(f.home.org.clone(), 10);
    let newest = f.store.events_back(all.clone()).await.unwrap();
    let (last, first) = (newest.first().unwrap().seq, newest.last().unwrap().seq);
    let term = |is_not: bool, text: &str| vec![EventTerm { is_not, text: text.into() }];
    let table = [
        (BackQuery { actors: term(false, "w1"), ..all.clone() }, vec![last]),
        (BackQuery { actors: term(false, "agent:w1"), ..all.clone() }, vec![last]),
        (BackQuery { actors: term(false, "human:w1"), ..all.clone() }, vec![]),
        (BackQuery { actors: term(true, "w1"), ..all.clone() }, vec![first + 1, first]),
        (BackQuery { words: term(false, "EXPORT 100%"), ..all.clone() }, vec![first]),
        (BackQuery { words: term(false, "settings"), ..all.clone() }, vec![last]),
        (BackQuery { words: term(true, "export"), ..all.clone() }, vec![last, first + 1]),
        (BackQuery { task: Some(task), ..all.clone() }, vec![first]),
        (BackQuery { after: first, before: Some(last), ..all.clone() }, vec![first + 1]),
    ];
    for (query, seqs) in table {
        let found = f.store.events_back(query.clone()).await.unwrap();
        assert_eq!(found.iter().map(|event| event.seq).collect::<Vec<_>>(), seqs, "{query:?}");
    }
}
