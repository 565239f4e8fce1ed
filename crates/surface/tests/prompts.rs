//! The texts for agents: prompts with tools that the caller has, its task, its role and waiting work; instructions,
//! descriptions and hints in the words of the project.

use std::sync::Arc;

use callboard_domain::command::AgentAdd;
use callboard_domain::crew::AgentId;
use callboard_domain::policy::{Policy, parse_labels};
use callboard_domain::rights::{AgentType, Lane};
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal, Rights, Scope};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Place, Store};
use callboard_engine::{Engine, Parts};
use callboard_surface::front::{Front, ToolReply};
use callboard_surface::prompt::OwnPrompts;
use callboard_surface::tool::Toolset;
use callboard_surface::toolsets;
use serde_json::{Map, Value, json};

/// 2026-06-21T10:00:00Z.
const START: i64 = 1_782_036_000_000_000;

struct World {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(Policy::default()).await
    }

    async fn with(policy: Policy) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("callboard.db");
        let clock = Arc::new(ManualClock::at(Timestamp(START)));
        let store = SqliteStore::open(&path, clock.clone()).expect("the store opens");
        let place = Place { project_name: "test".into(), ..Place::of_org("default") };
        let home = store.settle(place).await.expect("settles");
        let engine = Engine::new(Parts {
            policy: Arc::new(policy),
            ..Parts::bare(home, Arc::new(store), Arc::new(TimeOrderedIds))
        });
        Self { engine, clock, _folder: folder }
    }

    fn front(&self, toolsets: &[&'static Toolset]) -> Front {
        Front::new(self.engine.clone(), toolsets, None)
    }

    async fn ask(&self, who: &Principal, tool: &str, arguments: Value) -> ToolReply {
        let front = self.front(&[&toolsets::graph::TOOLSET]);
        let context = |tool| OpContext::new(who.clone(), tool);
        front.call(tool, arguments, context).await.expect("a known tool")
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        match self.ask(&principal(), tool, arguments).await {
            ToolReply::Done(value) => value,
            ToolReply::Refused(value) => panic!("{tool}: {value}"),
        }
    }

    async fn task(&self, title: &str) -> String {
        let made = self.call("create", json!({ "title": title })).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn task_in_review(&self, title: &str) -> String {
        let task = self.task(title).await;
        self.call("transition", json!({"id": task, "to": "in_review"})).await;
        task
    }

    async fn agent(&self, name: &str, kind: AgentType) -> Principal {
        let who = Principal::local(format!("agent:{name}").parse().expect("an actor"));
        let add = AgentAdd {
            agent: AgentId::of(&who.actor),
            kind,
            epic: None,
            task: None,
            or_keep: false,
            workers_max: None,
        };
        let op = OpContext::new(principal(), "agent");
        self.engine.agent_add(&op, add).await.expect("added");
        who
    }
}

fn principal() -> Principal {
    Principal::local("agent:test".parse().expect("an actor"))
}

async fn prompt(front: &Front, who: &Principal, name: &str, arguments: Value) -> String {
    let arguments: Map<String, Value> = serde_json::from_value(arguments).expect("an object");
    front.prompt(who, name, &arguments).await.expect("a known prompt")
}

/// Names of tools that a text has in backquotes, of any toolset.
fn named(text: &str) -> Vec<&str> {
    let known = |word: &&str| {
        toolsets::ALL.iter().any(|toolset| toolset.tools.iter().any(|tool| tool.name == *word))
    };
    text.split('`').skip(1).step_by(2).filter(known).collect()
}

fn callers() -> Vec<Principal> {
    let admin = Rights { lane: Lane::KaganAdmin, ..Rights::default() };
    let reader = Rights { scopes: vec![Scope::TasksRead], ..Rights::default() };
    let of_type = |kind| Rights { agent_type: Some(kind), ..Rights::default() };
    let rights = [Rights::default(), admin, reader].into_iter();
    let rights = rights.chain(AgentType::ALL.iter().copied().map(of_type));
    rights.map(|rights| Principal { rights, ..principal() }).collect()
}

#[tokio::test]
async fn prompts_name_only_tools_that_the_caller_has() {
    let world = World::new().await;
    world.task("A").await;
    let waiting = world.task_in_review("B").await;
    let mut sets: Vec<Vec<&'static Toolset>> =
        toolsets::ALL.iter().map(|toolset| vec![*toolset]).collect();
    sets.push(toolsets::ALL.to_vec());
    for set in sets {
        let front = world.front(&set);
        let names: Vec<&str> = set.iter().map(|toolset| toolset.name).collect();
        for who in callers() {
            let tools: Vec<&str> = front.tools(&who).await.iter().map(|tool| tool.name).collect();
            for info in front.prompts() {
                let about = json!({"task": waiting, "goal": "fewer bugs"});
                for arguments in [json!({}), about] {
                    let text = prompt(&front, &who, info.name, arguments).await;
                    for tool in named(&text) {
                        let rights = &who.rights;
                        assert!(tools.contains(&tool), "{names:?} {rights:?}: {tool} in {text}");
                    }
                    // Without a type no tool of a crew can be called, and the text says so.
                    let typeless = names == ["crew"] && who.rights.agent_type.is_none();
                    let works = who.rights.may(Scope::TasksWrite) && !typeless;
                    assert!(!works || !named(&text).is_empty(), "{names:?} {text}");
                }
            }
        }
    }
}

#[tokio::test]
async fn every_task_in_review_is_in_the_queue() {
    let world = World::new().await;
    let mut waiting = Vec::new();
    for number in 0..30 {
        waiting.push(world.task_in_review(&format!("Part {number}")).await);
    }
    let open = world.task("Not yet").await;
    for toolset in toolsets::ALL {
        let who = Rights { agent_type: Some(AgentType::Supervisor), ..Rights::default() };
        let who = Principal { rights: who, ..principal() };
        let text = prompt(&world.front(&[toolset]), &who, "review-queue", json!({})).await;
        for task in &waiting {
            assert!(text.contains(task.as_str()), "{}: {task} is not in {text}", toolset.name);
        }
        assert!(!text.contains(&open), "{}: {text}", toolset.name);
    }
}

#[tokio::test]
async fn a_bound_connection_is_told_its_task() {
    let world = World::new().await;
    let (first, bound) = (world.task("First").await, world.task("Bound").await);
    let task = Some(bound.parse().expect("an id"));
    let who = Principal { rights: Rights { task, ..Rights::default() }, ..principal() };
    for toolset in toolsets::ALL {
        let front = world.front(&[toolset]);
        assert!(front.instructions(&who).contains(&bound), "{}", toolset.name);
        assert!(!front.instructions(&principal()).contains(&bound), "{}", toolset.name);
        for name in ["start-work", "diagnose", "review-queue", "plan"] {
            let text = prompt(&front, &who, name, json!({ "task": first })).await;
            assert!(text.contains(&bound) && !text.contains(&first), "{}: {text}", toolset.name);
        }
    }
}

#[tokio::test]
async fn a_task_goes_by_its_short_name_too() {
    let world = World::new().await;
    world.task("First").await;
    let second = world.call("create", json!({"title": "Second"})).await;
    let id = second["id"].as_str().expect("an id");
    let prefix = id.split('-').next().expect("a prefix");
    let name = format!("{prefix}-{}", second["number"]);
    let front = world.front(&[&toolsets::graph::TOOLSET]);
    for task in [id, name.as_str()] {
        let text = prompt(&front, &principal(), "start-work", json!({ "task": task })).await;
        assert!(text.starts_with(&format!("Work on task {id} ")), "{task}: {text}");
    }
}

/// opencode fetches a prompt before its user has typed anything, with `$1` for the first argument.
#[tokio::test]
async fn a_client_may_leave_a_blank_for_its_user() {
    let world = World::new().await;
    let next = world.task("First").await;
    for toolset in toolsets::ALL {
        let rights = Rights { agent_type: Some(AgentType::Worker), ..Rights::default() };
        let (who, front) = (Principal { rights, ..principal() }, world.front(&[toolset]));
        for name in ["start-work", "diagnose"] {
            let usual = prompt(&front, &who, name, json!({})).await;
            let text = prompt(&front, &who, name, json!({"task": "$1"})).await;
            let rest = text.strip_prefix(&usual).expect("the usual text first");
            assert!(rest.ends_with(" use that task instead: \"$1\"."), "{}: {rest}", toolset.name);
            let task = Some(next.parse().expect("an id"));
            let bound = Principal { rights: Rights { task, ..who.rights.clone() }, ..who.clone() };
            let text = prompt(&front, &bound, name, json!({"task": "$1"})).await;
            assert!(!text.contains('$'), "{}: {text}", toolset.name);
        }
    }
    let front = world.front(&[&toolsets::graph::TOOLSET]);
    let text = prompt(&front, &principal(), "plan", json!({"goal": "$1"})).await;
    assert!(text.contains("The goal: \"$1\". If nothing is quoted, ask"), "{text}");
}

#[tokio::test]
async fn an_agent_of_a_crew_is_told_its_type() {
    let world = World::new().await;
    let front = world.front(&[&toolsets::crew::TOOLSET]);
    for kind in AgentType::ALL {
        let who = world.agent(&kind.as_str().to_lowercase(), *kind).await;
        let text = prompt(&front, &who, "start-work", json!({})).await;
        assert!(text.contains(kind.as_str()), "{text}");
        assert_eq!(text.contains("`mcp__epic__approve_pr`"), *kind == AgentType::Supervisor);
    }
    let plain = prompt(&front, &principal(), "start-work", json!({})).await;
    assert!(plain.contains("no agent type"), "{plain}");
}

#[tokio::test]
async fn labels_are_the_configured_ones() {
    let labels = "todo:initial, doing:working, check:review, shipped:closed_done";
    let policy = Policy::with_labels(parse_labels(labels).expect("labels")).expect("a policy");
    let world = World::with(policy).await;
    let (_, waiting) = (world.task("A").await, world.task("B").await);
    world.call("transition", json!({"id": waiting, "to": "check"})).await;
    let front = world.front(&[&toolsets::graph::TOOLSET]);
    let told = front.instructions(&principal());
    assert!(told.contains("\"status\": \"todo\"") && told.contains("goes to check"), "{told}");
    for tool in front.tools(&principal()).await {
        assert!(!tool.description.contains("backlog"), "{}", tool.description);
        assert_eq!(tool.description.contains("status todo"), tool.name == "list");
    }
    let start = prompt(&front, &principal(), "start-work", json!({})).await;
    assert!(start.contains("\"status\": \"todo\"") && start.contains("goes to check"), "{start}");
    let review = prompt(&front, &principal(), "review-queue", json!({})).await;
    assert!(review.contains(&waiting) && review.contains("to shipped"), "{review}");
}

#[tokio::test]
async fn diagnose_says_what_stands_in_the_way() {
    let world = World::new().await;
    let first = world.task("First").await;
    let checks = json!([{"desc": "reads well", "type": "manual"}]);
    let later = json!({"title": "Later", "deps": [first], "checks": checks});
    let later = world.call("create", later).await["id"].as_str().expect("an id").to_owned();
    for toolset in toolsets::ALL {
        let rights = Rights { agent_type: Some(AgentType::Worker), ..Rights::default() };
        let who = Principal { rights, ..principal() };
        let front = world.front(&[toolset]);
        let text = prompt(&front, &who, "diagnose", json!({ "task": later })).await;
        assert!(text.contains(&format!("open dependencies: {first}")), "{text}");
        assert!(text.contains("check 0 (reads well) is pending"), "{text}");
    }
}

#[tokio::test]
async fn a_project_may_have_its_own_words() {
    let world = World::new().await;
    let task = world.task("A {usual} title").await;
    let own = "As {actor} ({role}) take {task}. {nope} {\n{usual}";
    let own =
        OwnPrompts::new(vec![("start-work", own.into()), ("review-queue", "{review}".into())]);
    let front = world.front(&[&toolsets::graph::TOOLSET]).with_prompts(own);
    let text = prompt(&front, &principal(), "start-work", json!({})).await;
    let head = format!("As agent:test (none) take {task}. {{nope}} {{\nWork on task {task}");
    assert!(text.starts_with(&head), "{text}");
    world.call("transition", json!({"id": task, "to": "in_review"})).await;
    let text = prompt(&front, &principal(), "review-queue", json!({})).await;
    assert_eq!(text, format!("These tasks wait for review:\n- {task}: A {{usual}} title"));
    let text = prompt(&front, &principal(), "plan", json!({"goal": "fewer bugs"})).await;
    assert!(text.contains("fewer bugs"), "{text}");
}

#[tokio::test]
async fn a_stalled_holder_is_answered_with_takeover() {
    let world = World::new().await;
    let task = world.task("A").await;
    let begin = |actor: &str| json!({"id": task, "expected_actor": actor, "idempotency_key": "k"});
    world.call("begin", begin("agent:test")).await;
    let other = Principal::local("agent:other".parse().expect("an actor"));
    for (later_s, way) in [(0, "\"assignee\": \"\""), (181, "takeover: true")] {
        world.clock.advance_ms(later_s * 1000);
        let refused = world.ask(&other, "begin", begin("agent:other")).await;
        let ToolReply::Refused(refused) = refused else { panic!("begun beside another") };
        assert_eq!(refused["code"], "ALREADY_CLAIMED");
        assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains(way)), "{refused}");
    }
}
