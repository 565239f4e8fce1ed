//! Every tool that writes, called again under one key: equal answers, one effect, and a refusal for other arguments.
//! `transcripts/*/retries.md` covers tools that need git or agents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use callboard_domain::command::AgentAdd;
use callboard_domain::crew::AgentId;
use callboard_domain::rights::AgentType;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{DecisionQuery, Place, Store};
use callboard_engine::{Engine, Parts};
use callboard_surface::front::{Front, ToolReply};
use callboard_surface::retry::ToolRequest;
use callboard_surface::toolsets;
use serde_json::{Value, json};

/// `toolset who tool {arguments} => NAME path`: a call, and the part of its answer to remember. A line with `*` is
/// called under a key, three times. A scene ends with an empty line.
const SCENES: &str = r#"
* graph ana create {"title": "A", "body": "b"} => T id
* graph ana update {"id": "T", "title": "mended"}
* graph w1 claim {"id": "T"}
* graph w1 note {"id": "T", "text": "x"}
* graph w1 run_checks {"id": "T"}
* graph w1 release {"id": "T"}
* graph w1 begin {"id": "T", "expected_actor": "agent:w1", "idempotency_key": "k"} => S id
* graph w1 heartbeat {"session": "S", "progress": "half"}
* graph w1 finish {"session": "S", "summary": "done"}
* graph ana transition {"id": "T", "to": "done"}

graph ana create {"title": "A", "checks": [{"desc": "looks good", "type": "manual"}]} => T id
* graph ana attest {"id": "T", "index": 0}
graph w1 begin {"id": "T", "expected_actor": "agent:w1", "idempotency_key": "k"} => S id
* graph w1 cancel {"session": "S", "reason": "no"}

execution ana add_task {"title": "A"} => A taskId
* execution ana add_task {"title": "B"} => B taskId
* execution ana set_dependency {"taskId": "B", "dependsOn": "A"}
* execution ana set_dependency {"taskId": "B", "dependsOn": "A", "remove": true}
* execution w1 claim_task {"taskId": "A"}
* execution w1 update_task_status {"taskId": "A", "status": "in_progress", "note": "x"}
* execution w1 comment_on_task {"taskId": "A", "body": "why?", "kind": "question"} => C commentId
* execution w1 resolve_comment {"commentId": "C"}
* execution w1 store_knowledge {"title": "t", "body": "b"}
* execution w1 complete_task {"taskId": "A", "output": "done", "learnings": ["More."]}

* relay ana jobs_submit SPEC => J jobId
* relay ana jobs_cancel {"jobId": "J"}

* board ana propose_plan {"tasks": [{"title": "A"}]}
* board ana tasks_create {"title": "A"} => T task_id
* board ana update_scratchpad {"task_id": "T", "content": "x"}
* board ana tasks_update {"task_id": "T", "title": "B"}
* board ana tasks_move {"task_id": "T", "status": "IN_PROGRESS"}
* board ana request_review {"task_id": "T", "summary": "done"}
* board ana review {"task_id": "T", "action": "reject", "feedback": "more"}
* board ana tasks_delete {"task_id": "T"}
* board ana projects_create {"name": "shop"} => P project_id
* board ana projects_open {"project_id": "P"}
* board ana settings_update {"auto_review": false}

graph ana create {"title": "Epic"} => E id
agent s1 SUPERVISOR E
agent o1 ORCHESTRATOR
agent w1 WORKER
* crew s1 mcp__epic__create_task {"title": "A", "description": "b"} => A data.taskId
agent w2 WORKER
* crew s1 mcp__task__assign {"taskId": "A", "agentId": "w2"}
* crew w2 mcp__task__update_status {"status": "IN_PROGRESS"}
* crew w2 mcp__task__add_comment {"body": "x"}
* crew o1 mcp__task__create {"title": "B", "description": "b", "epicId": "E"}
* crew w2 mcp__mail__send {"toAgentId": "s1", "subject": "Help", "body": "x"} => M data.mailId
* crew s1 mcp__mail__read {"mailId": "M"}
* crew s1 mcp__mail__reply {"originalMailId": "M", "body": "y"}
* crew s1 mcp__system__log_decision {"title": "t", "body": "b"}
* crew s1 mcp__epic__update_status {"status": "CANCELLED"}
"#;

/// Tools that work on repositories or start agents.
const IN_TRANSCRIPTS: &[&str] = &[
    "board jobs_submit",
    "board jobs_cancel",
    "board sessions_create",
    "board sessions_kill",
    "crew mcp__epic__approve_pr",
    "crew mcp__epic__request_changes",
    "crew mcp__epic__create_epic_pr",
];

struct World {
    engine: Arc<Engine>,
    fronts: HashMap<&'static str, Front>,
    names: HashMap<String, String>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(Timestamp(1_782_036_000_000_000)));
        let store = SqliteStore::open(&folder.path().join("callboard.db"), clock).expect("opens");
        let place = Place { project_name: "test".into(), ..Place::of_org("default") };
        let home = store.settle(place).await.expect("settles");
        let engine = Engine::new(Parts::bare(home, Arc::new(store), Arc::new(TimeOrderedIds)));
        let front = |toolset: &&'static _| {
            let toolset: &'static callboard_surface::tool::Toolset = toolset;
            (toolset.name, Front::new(engine.clone(), &[toolset], None))
        };
        let fronts = toolsets::ALL.iter().map(front).collect();
        Self { engine, fronts, names: HashMap::new(), _folder: folder }
    }

    async fn agent(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let add = AgentAdd {
            agent: AgentId::parse(words[0]).expect("an id"),
            kind: AgentType::parse(words[1]).expect("a type"),
            epic: words.get(2).map(|epic| self.names[*epic].parse().expect("a task")),
            task: None,
            or_keep: false,
            workers_max: None,
        };
        let op = OpContext::new(principal("ana"), "agent");
        self.engine.agent_add(&op, add).await.expect("added");
    }

    async fn ask(&self, call: &Call, arguments: Value, key: Option<&str>) -> ToolReply {
        let asked = ToolRequest { arguments, key: key.map(Value::from) };
        let context = |tool| OpContext::new(principal(&call.who), tool);
        self.fronts[call.toolset.as_str()].call(&call.tool, asked, context).await.expect("a tool")
    }

    async fn events(&self) -> u64 {
        self.engine.store().last_seq().await.expect("readable")
    }

    /// The number of decisions that agents logged themselves.
    async fn decisions(&self) -> usize {
        let query = DecisionQuery { org: "default".into(), agent: None, before: None, limit: 500 };
        let rows = self.engine.store().decisions(query).await.expect("readable");
        rows.iter().filter(|row| !row.reasoning.starts_with("Automatic")).count()
    }
}

fn principal(who: &str) -> Principal {
    let kind = if who == "ana" { "human" } else { "agent" };
    let mut principal = Principal::local(format!("{kind}:{who}").parse().expect("an actor"));
    principal.rights.lane = callboard_domain::rights::Lane::KaganAdmin;
    principal
}

#[derive(Debug)]
struct Call {
    toolset: String,
    who: String,
    tool: String,
    arguments: String,
    remembers: Option<(String, String)>,
}

impl Call {
    fn parse(line: &str) -> Self {
        let (line, remembers) = match line.rsplit_once(" => ") {
            Some((line, rest)) => (line, rest.split_once(' ')),
            None => (line, None),
        };
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut word = || words.next().expect("toolset who tool {}");
        let (toolset, who, tool, arguments) = (word(), word(), word(), word());
        let remembers = remembers.map(|(name, path)| (name.to_owned(), path.to_owned()));
        Self { toolset, who, tool, arguments, remembers }
    }

    /// The arguments, with names that stand for whole strings replaced.
    fn arguments(&self, names: &HashMap<String, String>) -> Value {
        if self.arguments == "SPEC" {
            return spec();
        }
        let mut text = self.arguments.clone();
        for (name, value) in names {
            text = text.replace(&format!("\": \"{name}\""), &format!("\": \"{value}\""));
        }
        serde_json::from_str(&text).expect("JSON")
    }
}

fn spec() -> Value {
    json!({"spec": {
        "repo": {
            "type": "git",
            "url": "https://example.org/x.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": "t", "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "m",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800,
        },
        "idempotencyKey": "t",
    }})
}

/// The code of a refusing answer, in either form.
fn code(reply: &ToolReply) -> Option<&str> {
    match reply {
        ToolReply::Refused(refused) => refused["code"].as_str(),
        ToolReply::Done(answer) => answer["error"]["code"].as_str(),
    }
}

fn done<'r>(reply: &'r ToolReply, call: &Call) -> &'r Value {
    match reply {
        ToolReply::Done(value) if value["success"] != false => value,
        reply => panic!("{call:?}: {reply:?}"),
    }
}

#[tokio::test]
async fn every_tool_that_writes_does_so_once_under_a_key() {
    let mut shown: BTreeSet<String> = IN_TRANSCRIPTS.iter().map(|name| name.to_string()).collect();
    for scene in SCENES.split("\n\n") {
        let mut world = World::new().await;
        for line in scene.lines().filter(|line| !line.is_empty()) {
            if let Some(agent) = line.strip_prefix("agent ") {
                world.agent(agent).await;
                continue;
            }
            let (line, keyed) = line.strip_prefix("* ").map_or((line, false), |line| (line, true));
            let call = Call::parse(line);
            let arguments = call.arguments(&world.names);
            let first = world.ask(&call, arguments.clone(), keyed.then_some(line)).await;
            let answer = done(&first, &call).clone();
            if keyed {
                once(&world, &call, line, &arguments, &first).await;
                shown.insert(format!("{} {}", call.toolset, call.tool));
            }
            if let Some((name, path)) = call.remembers {
                let found = path.split('.').fold(&answer, |value, key| &value[key]);
                world.names.insert(name, found.as_str().expect("a string").to_owned());
            }
        }
    }
    let tools = toolsets::ALL.iter().flat_map(|toolset| {
        let writes = toolset.tools.iter().filter(|tool| !tool.hints.read_only);
        writes.map(|tool| format!("{} {}", toolset.name, tool.name))
    });
    assert_eq!(shown, tools.collect(), "a tool that writes has no scene");
}

async fn once(world: &World, call: &Call, key: &str, arguments: &Value, first: &ToolReply) {
    let (events, decisions) = (world.events().await, world.decisions().await);
    for _ in 0..3 {
        assert_eq!(world.ask(call, arguments.clone(), Some(key)).await, *first, "{call:?}");
    }
    assert_eq!((world.events().await, world.decisions().await), (events, decisions), "{call:?}");
    let mut other = arguments.clone();
    other["other"] = true.into();
    let refused = world.ask(call, other, Some(key)).await;
    let words = ["KEY_REUSED", "input.key_reused", "INVALID_INPUT"];
    assert!(code(&refused).is_some_and(|code| words.contains(&code)), "{call:?}: {refused:?}");
    // The board logs its refusal, and nothing else changes.
    let refusals = u64::from(call.toolset == "board");
    assert_eq!(world.events().await, events + refusals, "{call:?}");
    assert_eq!(world.decisions().await, decisions, "{call:?}");
    for bad in ["", "a\0b", &"k".repeat(501)] {
        let refused = world.ask(call, arguments.clone(), Some(bad)).await;
        assert!(code(&refused).is_some(), "{call:?} {bad:?}: {refused:?}");
        let words = format!("{refused:?}");
        assert!(words.contains("callboard/idempotencyKey must be a string of 1..500"), "{words}");
    }
}
