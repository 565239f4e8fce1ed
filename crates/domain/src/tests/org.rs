//! What an org has besides tasks: settings, projects and plans, and the rules of each.

use serde_json::{Value, json};

use super::model::{Model, actor, task_named};
use crate::board::plan::*;
use crate::board::settings::{BoardSettings, SettingKey};
use crate::command::*;
use crate::ids::Id;
use crate::policy::Policy;
use crate::refusal::Refusal;

fn settings(set: &[(SettingKey, Value)]) -> Command {
    Command::SettingsUpdate(Box::new(SettingsUpdate {
        base: BoardSettings::default(),
        agents: vec!["claude".into()],
        set: set.to_vec(),
    }))
}

#[test]
fn settings_change_together_or_not_at_all() {
    let mut model = Model::new(Policy::default());
    let (agents, review) = (SettingKey::MaxConcurrentAgents, SettingKey::AutoReview);
    let refused = model.act("w1", &settings(&[(review, json!(false)), (agents, json!(11))]));
    let message = "general.max_concurrent_agents must be 1..10, got 11";
    assert_eq!(refused, Err(Refusal::InvalidSetting { message: message.into() }));
    assert!(model.act("w1", &settings(&[])).is_err());
    assert!(model.rows.org.settings.is_empty() && model.events.is_empty());

    let change = model.act("w1", &settings(&[(review, json!("false")), (agents, json!(3))]));
    let change = change.expect("both fit");
    let said = json!({"changes": {"general.auto_review": {"old": true, "new": false}}});
    assert_eq!(change.events[0].data, said, "three agents were there before");
    let again = model.act("w1", &settings(&[(review, json!(false))])).expect("fits");
    assert!(again.writes.is_empty() && again.events.is_empty());
    assert_eq!(model.events, ["settings.updated"]);
}

fn project(name: &str, paths: &[&str]) -> Command {
    let repo = |path: &&str| NewRepo { path: path.into(), default_branch: None };
    Command::ProjectCreate(ProjectCreate {
        name: name.into(),
        description: String::new(),
        machine: "here".into(),
        repos: paths.iter().map(repo).collect(),
    })
}

#[test]
fn the_first_project_is_open_and_a_path_counts_once() {
    let mut model = Model::new(Policy::default());
    assert!(model.act("w1", &project("  ", &[])).is_err());
    model.act("w1", &project(" shop ", &["/a", "/b", "/a"])).expect("made");
    model.act("w1", &project("till", &[])).expect("made");
    assert_eq!(model.rows.org.projects[&1].name, "shop");
    assert_eq!(model.rows.org.projects[&1].prefix.as_str(), "SHOP");
    let places: Vec<_> =
        model.rows.org.repos.iter().map(|r| (r.path.to_str(), r.position)).collect();
    assert_eq!(places, [(Some("/a"), 0), (Some("/b"), 1)]);
    assert_eq!(model.rows.org.opened[&actor("w1")], 1);
    let open = |model: &mut Model, project| model.act("w1", &Command::ProjectOpen { project });
    let unknown = Refusal::ProjectNotFound { project: "prj_9".into() };
    assert_eq!(open(&mut model, 9), Err(unknown));
    assert!(open(&mut model, 1).expect("it is open").events.is_empty());
    open(&mut model, 2).expect("opens");
    assert_eq!(model.rows.org.opened[&actor("w1")], 2);
    let events = ["project.created", "project.opened", "project.created", "project.opened"];
    assert_eq!(model.events, events);
}

fn planned(title: &str) -> PlannedTask {
    PlannedTask {
        title: title.into(),
        mode: crate::board::card::Mode::Auto,
        description: "why".into(),
        acceptance_criteria: vec![" it works ".into(), "  ".into()],
        priority: PlannedPriority::High,
    }
}

fn propose(plan: PlanId, titles: &[&str]) -> Command {
    let tasks = titles.iter().map(|title| planned(title)).collect();
    let todos = vec![Todo { content: " look ".into(), status: TodoStatus::Completed }];
    Command::PlanPropose(PlanPropose { plan, tasks, todos })
}

#[test]
fn a_plan_is_judged_kept_and_decided_once() {
    let mut model = Model::new(Policy::default());
    let plan = PlanId(Id(7));
    let too_many = vec!["a"; TASKS_MAX + 1];
    for titles in [&[][..], &["  "], &too_many] {
        assert!(model.act("w1", &propose(plan, titles)).is_err());
    }
    model.act("w1", &propose(plan, &[" A ", "B"])).expect("kept");
    let kept = &model.rows.org.plans[&plan];
    assert_eq!(kept.tasks[0].title, "A");
    assert_eq!(kept.tasks[0].acceptance_criteria, ["it works"]);
    assert_eq!(kept.todos[0].content, "look");
    assert!(model.rows.tasks.is_empty(), "nothing is made before the yes");

    let tasks = vec![task_named("A"), task_named("B")];
    let yes = Command::PlanApprove(PlanApprove { plan, project: 1, tasks: tasks.clone() });
    model.act("ana", &yes).expect("approved");
    let task = model.task_of(tasks[0]);
    assert_eq!((task.title.as_str(), task.priority), ("A", 100));
    let decided = Refusal::PlanDecided { plan, state: "approved" };
    assert_eq!(model.act("ana", &yes), Err(decided.clone()));
    assert_eq!(model.act("ana", &Command::PlanReject { plan, words: None }), Err(decided));
    let unknown = Command::PlanReject { plan: PlanId(Id(8)), words: None };
    assert!(matches!(model.act("ana", &unknown), Err(Refusal::PlanNotFound { .. })));
    assert_eq!(model.events, ["plan.proposed", "plan.approved", "task.created", "task.created"]);

    let other = PlanId(Id(9));
    model.act("w1", &propose(other, &["C"])).expect("kept");
    let no = |words: &str| Command::PlanReject { plan: other, words: Some(words.into()) };
    for words in [" ", &"x".repeat(20_001)] {
        let refused = model.act("ana", &no(words));
        assert!(matches!(refused, Err(Refusal::InvalidInput { .. })), "{refused:?}");
    }
    model.act("ana", &no("too much")).expect("rejected");
    assert_eq!(model.rows.org.plans[&other].state.as_str(), "rejected");
}
