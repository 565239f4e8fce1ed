//! Cases of the execution toolset without a transcript: whole errors, scopes, other orgs, very long texts, and two
//! concurrent agents.

use std::sync::Arc;

use callboard_domain::command::{NewCheck, TaskEdit};
use callboard_domain::ids::TaskId;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal, Rights, Scope};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Place, Store};
use callboard_engine::{Engine, Parts, Quotas};
use callboard_surface::front::{Front, ToolReply};
use callboard_surface::toolsets::execution;
use serde_json::{Value, json};

/// 2026-06-21T10:00:00Z.
const START: i64 = 1_782_036_000_000_000;

struct World {
    front: Arc<Front>,
    clock: Arc<ManualClock>,
    _folder: tempfile::TempDir,
}

fn principal(who: &str) -> Principal {
    Principal::local(who.parse().expect("an actor"))
}

impl World {
    async fn new() -> Self {
        Self::with(Quotas::default()).await
    }

    async fn with(quotas: Quotas) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(ManualClock::at(Timestamp(START)));
        let path = folder.path().join("callboard.db");
        let store = SqliteStore::open(&path, clock.clone()).expect("the store opens");
        let place = Place { project_name: "test".into(), ..Place::of_org("default") };
        let home = store.settle(place).await.expect("settles");
        let engine = Engine::new(Parts {
            quotas,
            ..Parts::bare(home, Arc::new(store), Arc::new(TimeOrderedIds))
        });
        let front = Arc::new(Front::new(engine, &[&execution::TOOLSET], None));
        Self { front, clock, _folder: folder }
    }

    async fn ask(&self, principal: &Principal, tool: &str, arguments: Value) -> ToolReply {
        let context = |tool| OpContext::new(principal.clone(), tool);
        self.front.call(tool, arguments, context).await.expect("a known tool")
    }

    async fn ok(&self, who: &str, tool: &str, arguments: Value) -> Value {
        match self.ask(&principal(who), tool, arguments).await {
            ToolReply::Done(value) => value,
            ToolReply::Refused(value) => panic!("{who} {tool}: {value}"),
        }
    }

    async fn refused(&self, who: &str, tool: &str, arguments: Value) -> Value {
        match self.ask(&principal(who), tool, arguments).await {
            ToolReply::Refused(value) => value,
            ToolReply::Done(value) => panic!("{who} {tool}: {value}"),
        }
    }

    async fn add(&self, arguments: Value) -> String {
        let added = self.ok("human:ana", "add_task", arguments).await;
        added["taskId"].as_str().expect("an id").to_owned()
    }

    /// Adds a check to an existing task.
    async fn add_check(&self, task: &str) {
        let check = NewCheck { desc: "tests pass".into(), ..NewCheck::default() };
        let task: TaskId = task.parse().expect("an id");
        let edit =
            TaskEdit { task, title: None, body: None, priority: None, checks: Some(vec![check]) };
        let op = OpContext::new(principal("human:ana"), "edit");
        self.front.engine().task_edit(&op, edit).await.expect("edited");
    }
}

/// Compares code, retryable and details; a hint must be there where a caller can act.
fn check(refused: &Value, code: &str, retryable: bool, details: Value, hinted: bool) {
    assert_eq!(refused["code"], code, "{refused}");
    assert_eq!(refused["retryable"], retryable, "{refused}");
    assert_eq!(refused.get("details").cloned().unwrap_or_default(), details, "{refused}");
    assert_eq!(refused.get("hint").is_some(), hinted, "{refused}");
}

#[tokio::test]
async fn an_error_is_whole() {
    let world = World::new().await;
    let (ada, bob) = ("agent:ada", "agent:bob");
    let held = world.add(json!({"title": "held"})).await;
    let after = world.add(json!({"title": "after", "dependsOn": [held]})).await;
    let done = world.add(json!({"title": "done"})).await;
    let plan = world.add(json!({"title": "plan"})).await;
    world.add(json!({"title": "part", "planId": plan})).await;
    let gated = world.add(json!({"title": "x", "verificationContract": {"kind": "none"}})).await;
    world.add_check(&gated).await;
    let stuck = world.add(json!({"title": "stuck"})).await;
    let blocker = json!({"taskId": stuck, "kind": "blocker", "body": "?", "rationale": "why"});
    let comment = world.ok(ada, "comment_on_task", blocker.clone()).await["commentId"].clone();
    world.ok(ada, "comment_on_task", blocker.clone()).await;
    world.ok(ada, "comment_on_task", blocker.clone()).await;
    for task in [&held, &done, &gated] {
        world.ok(ada, "claim_task", json!({"taskId": task})).await;
    }
    world.ok(ada, "complete_task", json!({"taskId": done, "output": "x"})).await;
    let until = "2026-06-21T10:15:00.000Z";
    let (claim, update, complete) = ("claim_task", "update_task_status", "complete_task");
    let all = json!(["in_progress", "ready", "cancelled"]);
    let unmet = json!([{"index": 0, "desc": "tests pass", "result": "pending", "log": null}]);

    #[rustfmt::skip]
    let table = [
        (bob, claim, json!({"taskId": "TASK-x"}), "task.not_found", false, json!(null)),
        (bob, claim, json!({"taskId": held}), "task.already_claimed", true,
            json!({"holder": ada, "leaseExpiresAt": until, "kind": "execution"})),
        (bob, update, json!({"taskId": held, "status": "ready"}), "task.already_claimed", false,
            json!({"holder": ada})),
        (bob, complete, json!({"taskId": held, "output": "x"}), "task.already_claimed", false,
            json!({"holder": ada})),
        (bob, update, json!({"taskId": after, "status": "ready"}), "task.already_claimed", false,
            json!({"holder": null})),
        (ada, update, json!({"taskId": held, "status": "ready", "fence": 9}),
            "task.already_claimed", false, json!({"fence": 1})),
        (bob, claim, json!({"taskId": after}), "task.not_actionable", true,
            json!({"state": "blocked", "reason": "open_dependencies", "open": [held]})),
        (bob, claim, json!({"taskId": stuck}), "task.not_actionable", true,
            json!({"reason": "blocked_by_review", "commentId": comment})),
        (bob, claim, json!({"taskId": plan}), "task.not_actionable", false,
            json!({"state": "ready", "reason": "plan"})),
        (bob, claim, json!({"taskId": done}), "task.not_actionable", false,
            json!({"state": "done", "reason": "state"})),
        (ada, update, json!({"taskId": done, "status": "in_progress"}),
            "task.invariant_violated", false,
            json!({"from": "done", "to": "in_progress", "allowed": []})),
        (ada, update, json!({"taskId": held, "status": "done"}), "task.invariant_violated", false,
            json!({"from": "claimed", "to": "done", "allowed": all})),
        (ada, complete, json!({"taskId": done, "output": "x"}), "task.invariant_violated", false,
            json!({"from": "done", "to": "done", "allowed": [], "alreadyCompleted": true})),
        (ada, complete, json!({"taskId": gated, "output": "x"}), "task.invariant_violated", false,
            json!({"checks": unmet})),
        (ada, "set_dependency", json!({"taskId": held, "dependsOn": after}),
            "task.invariant_violated", false, json!({"cycle": [held, after, held]})),
        (ada, "set_dependency", json!({"taskId": held, "dependsOn": done}),
            "task.invariant_violated", false, json!(null)),
        (ada, "comment_on_task", blocker, "task.invariant_violated", false, json!(null)),
        (bob, "resolve_comment", json!({"commentId": comment}),
            "auth.insufficient_scope", false, json!(null)),
    ];
    for (who, tool, arguments, code, retryable, details) in table {
        check(&world.refused(who, tool, arguments).await, code, retryable, details, true);
    }
    for (tool, arguments) in [
        (claim, json!({"taskId": held, "leaseSec": 59})),
        (claim, json!({"taskID": held})),
        ("resolve_comment", json!({"commentId": "cmt_x"})),
    ] {
        let refused = world.refused(ada, tool, arguments).await;
        check(&refused, "input.invalid", false, json!(null), false);
    }
    let message = world.refused(ada, complete, json!({"taskId": gated, "output": "x"})).await;
    let said = format!("task {gated} has checks that are not pass: 0 (tests pass)");
    assert_eq!(message["message"], said);
    let again = world.refused(ada, complete, json!({"taskId": done, "output": "x"})).await;
    assert!(again["hint"].as_str().is_some_and(|hint| hint.contains("succeeded")), "{again}");
    world.clock.advance_ms(900_000);
    let late = world.refused(ada, update, json!({"taskId": held, "status": "in_progress"})).await;
    check(&late, "task.already_claimed", false, json!({"holder": null}), true);
    assert_eq!(late["hint"], "claim_task");
}

#[tokio::test]
async fn a_reader_reads() {
    let world = World::new().await;
    let task = world.add(json!({"title": "Webhook retries"})).await;
    let learned = json!({"title": "Webhook retries", "body": "The provider retries webhooks."});
    world.ok("agent:ada", "store_knowledge", learned).await;
    let rights = Rights { scopes: vec![Scope::TasksRead], ..Rights::default() };
    let reader = Principal { rights, ..principal("agent:ada") };
    let listed = world.front.tools(&reader).await;
    let writes = listed.iter().filter(|tool| !tool.hints.read_only).count();
    assert_eq!(writes, 0, "{:?}", listed.iter().map(|tool| tool.name).collect::<Vec<_>>());
    match world.ask(&reader, "get_next_actionable", json!({})).await {
        ToolReply::Done(found) => {
            assert_eq!(found["tasks"][0]["taskId"], task);
            let digest = &found["tasks"][0]["knowledge"];
            assert_eq!(digest["references"][0]["title"], "Webhook retries", "{found}");
        }
        ToolReply::Refused(refused) => panic!("{refused}"),
    }
    // Judged before anything else: the arguments are wrong as well.
    for arguments in [json!({"taskId": task}), json!({"nothing": 1})] {
        let ToolReply::Refused(refused) = world.ask(&reader, "claim_task", arguments).await else {
            panic!("a reader may not claim");
        };
        check(&refused, "auth.insufficient_scope", false, json!(null), true);
        assert_eq!(refused["message"], "claim_task needs scope tasks:write");
    }
    let nobody = Principal { rights: Rights { scopes: vec![], ..Rights::default() }, ..reader };
    let ToolReply::Refused(refused) = world.ask(&nobody, "get_next_actionable", json!({})).await
    else {
        panic!("no scope, no tasks");
    };
    assert_eq!(refused["message"], "get_next_actionable needs scope tasks:read");
}

#[tokio::test]
async fn another_orgs_task_is_not_there() {
    let world = World::new().await;
    let task = world.add(json!({"title": "ours"})).await;
    let other = Principal { org: "other".into(), ..principal("agent:eve") };
    world.front.engine().store().settle(Place::of_org("other")).await.expect("settles");
    let ToolReply::Done(added) = world.ask(&other, "add_task", json!({"title": "theirs"})).await
    else {
        panic!("an org has tasks of its own");
    };
    for (tool, arguments) in [
        ("claim_task", json!({"taskId": task})),
        ("update_task_status", json!({"taskId": task, "status": "ready"})),
        ("complete_task", json!({"taskId": task, "output": "x"})),
        ("comment_on_task", json!({"taskId": task, "body": "x"})),
        ("set_dependency", json!({"taskId": added["taskId"], "dependsOn": task})),
        ("get_next_actionable", json!({"planId": task})),
    ] {
        let ToolReply::Refused(refused) = world.ask(&other, tool, arguments).await else {
            panic!("{tool} reached another org");
        };
        assert_eq!(refused["code"], "task.not_found", "{tool}: {refused}");
        assert_eq!(refused["message"], format!("task not found: {task}"), "{tool}");
    }
    let ToolReply::Done(found) = world.ask(&other, "get_next_actionable", json!({})).await else {
        panic!("a list is not refused");
    };
    assert_eq!(found["tasks"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn long_texts_are_cut_in_lists_and_whole_in_a_claim() {
    let world = World::new().await;
    let (text, contract) = ("d".repeat(1500), json!({"steps": "s".repeat(3000)}));
    let task =
        world.add(json!({"title": "a", "description": text, "executionContract": contract})).await;
    let listed = world.ok("agent:ada", "get_next_actionable", json!({})).await;
    let shown = listed["tasks"][0]["description"].as_str().expect("a text");
    assert_eq!(shown, format!("{}[truncated 500 chars]", "d".repeat(1000)));
    assert_eq!(listed["tasks"][0]["executionContract"], json!({"truncated": true}));
    let claimed = world.ok("agent:ada", "claim_task", json!({"taskId": task})).await;
    assert_eq!((&claimed["description"], &claimed["executionContract"]), (&json!(text), &contract));
}

#[tokio::test]
async fn sizes_are_bounded() {
    let world = World::new().await;
    let task = world.add(json!({"title": "a"})).await;
    world.ok("agent:ada", "claim_task", json!({"taskId": task})).await;
    let long = |chars: usize| "x".repeat(chars);
    let comment = |body: usize, rationale: usize| json!({"taskId": task, "kind": "blocker", "body": long(body), "rationale": long(rationale)});
    let note = |chars: usize| json!({"taskId": task, "status": "in_progress", "note": long(chars)});
    #[rustfmt::skip]
    let table = [
        ("add_task", json!({"title": long(501)}), "title must be at most 500 characters, got 501"),
        ("add_task", json!({"title": "a", "description": long(262_145)}),
            "description must be at most 262144 bytes, got 262145"),
        ("add_task", json!({"title": "a", "executionContract": {"k": long(65_536)}}),
            "executionContract must be at most 65536 bytes, got 65544"),
        ("add_task", json!({"title": "a", "clientToken": long(501)}),
            "clientToken must be a string of 1..500 characters without control characters, got a longer text"),
        ("update_task_status", note(4001), "note must be at most 4000 characters, got 4001"),
        ("complete_task", json!({"taskId": task, "output": long(262_145)}),
            "output must be 1..262144 bytes, got 262145"),
        ("comment_on_task", comment(8001, 1), "body must be at most 8000 characters, got 8001"),
        ("comment_on_task", comment(1, 4001), "rationale must be at most 4000 characters, got 4001"),
    ];
    for (tool, arguments, said) in table {
        let refused = world.refused("agent:ada", tool, arguments).await;
        assert_eq!(
            (&refused["code"], &refused["message"]),
            (&json!("input.invalid"), &json!(said))
        );
    }
    world.ok("agent:ada", "update_task_status", note(4000)).await;
    world.ok("agent:ada", "comment_on_task", comment(8000, 4000)).await;
    world.ok("agent:ada", "complete_task", json!({"taskId": task, "output": long(262_144)})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_at_the_same_moment_one_wins() {
    let world = Arc::new(World::new().await);
    let task = world.add(json!({"title": "wanted"})).await;
    let mut fence = 0;
    for round in 0..100 {
        let claim = |who: &'static str| {
            let (world, task) = (world.clone(), task.clone());
            tokio::spawn(async move {
                let who = principal(who);
                (who.actor.clone(), world.ask(&who, "claim_task", json!({"taskId": task})).await)
            })
        };
        let (a, b) = (claim("agent:ada"), claim("agent:bob"));
        let answers = [a.await.expect("answered"), b.await.expect("answered")];
        let mut winners = Vec::new();
        for (who, answer) in &answers {
            match answer {
                ToolReply::Done(lease) => winners.push((who.to_string(), lease.clone())),
                ToolReply::Refused(refused) => {
                    assert_eq!(refused["code"], "task.already_claimed", "round {round}");
                }
            }
        }
        let [(winner, lease)] = winners.as_slice() else {
            panic!("round {round}: {answers:?}");
        };
        let next = lease["fence"].as_u64().expect("a fence");
        assert!(next > fence, "round {round}: {next} after {fence}");
        fence = next;
        world.ok(winner, "update_task_status", json!({"taskId": task, "status": "ready"})).await;
    }
}

#[tokio::test]
async fn a_quota_is_the_months() {
    let limit = Some(2);
    let world = World::with(Quotas { tasks_created: limit, ..Quotas::default() }).await;
    let token = json!({"title": "a", "clientToken": "k"});
    let first = world.add(token.clone()).await;
    world.add(json!({"title": "b"})).await;
    let refused = world.refused("human:ana", "add_task", json!({"title": "c"})).await;
    let details = json!({
        "metric": "tasks_created",
        "limit": 2,
        "used": 2,
        "requested": 1,
        "period": "2026-06",
        "nextResetAt": "2026-07-01T00:00:00.000Z",
    });
    check(&refused, "quota.exceeded", false, details, true);
    assert_eq!(refused["message"], "tasks_created: 2 of 2 used in 2026-06, 1 requested");
    let again = world.ok("human:ana", "add_task", token).await;
    assert_eq!((&again["taskId"], &again["created"]), (&json!(first), &json!(false)));
    let unknown = json!({"title": "c", "clientToken": "k2"});
    let refused = world.refused("human:ana", "add_task", unknown.clone()).await;
    assert_eq!(refused["code"], "quota.exceeded");
    world.clock.advance_ms(10 * 24 * 3600 * 1000);
    assert_eq!(world.ok("human:ana", "add_task", unknown).await["created"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_all_counted() {
    let limit = Some(1000);
    let world = Arc::new(World::with(Quotas { tasks_created: limit, ..Quotas::default() }).await);
    let add = |n: usize| {
        let world = world.clone();
        tokio::spawn(async move { world.add(json!({"title": format!("task {n}")})).await })
    };
    let adding: Vec<_> = (0..20).map(add).collect();
    for added in adding {
        added.await.expect("added");
    }
    let store = world.front.engine().store();
    let used = |metric| store.quota_used("default", metric, "2026-06");
    assert_eq!(used("tasks_created").await.expect("counted"), 20);
    assert_eq!(used("knowledge_stored").await.expect("counted"), 0, "unlimited counts nothing");
}

#[tokio::test]
async fn completions_at_the_same_moment_are_all_counted() {
    let quotas = Quotas { knowledge_stored: Some(20), ..Quotas::default() };
    let world = Arc::new(World::with(quotas).await);
    let mut completions = tokio::task::JoinSet::new();
    for n in 0..20 {
        let task = world.add(json!({"title": format!("task {n}")})).await;
        let (world, who) = (world.clone(), format!("agent:w{n}"));
        world.ok(&who, "claim_task", json!({"taskId": task})).await;
        let complete = json!({"taskId": task, "output": "x", "learnings": [format!("fact {n}")]});
        completions.spawn(async move { world.ok(&who, "complete_task", complete).await });
    }
    let completed = completions.join_all().await;
    assert!(completed.iter().all(|done| done["knowledgeIds"].as_array().map(Vec::len) == Some(1)));
    let used = world.front.engine().store().quota_used("default", "knowledge_stored", "2026-06");
    assert_eq!(used.await.expect("read"), 20);
    let over = json!({"title": "one", "body": "more"});
    let refused = world.refused("agent:w0", "store_knowledge", over).await;
    assert_eq!(refused["code"], "quota.exceeded", "{refused}");
    assert_eq!(refused["details"]["used"], 20, "{refused}");
}
