//! Time at the terminal, without a server: expired leases, and a wrong clock.

use serde_json::{Value, json};

use crate::fixture::World;

/// Changes the store directly, as time would.
fn sql(world: &World, statements: &str) {
    let db = rusqlite::Connection::open(world.callboard("callboard.db")).expect("the file opens");
    db.execute_batch(statements).expect("SQLite does it");
}

fn call(world: &World, actor: &str, tool: &str, arguments: &Value) -> Value {
    world.ok(&["--actor", actor, "call", tool, &arguments.to_string()]).json()
}

fn titles(list: &Value) -> Vec<&str> {
    let tasks = list["items"].as_array().expect("a list");
    tasks.iter().filter_map(|task| task["title"].as_str()).collect()
}

#[test]
fn an_expired_lease_is_over_where_no_server_runs() {
    let world = World::project();
    let task = call(&world, "human:ana", "add_task", &json!({"title": "A"}))["taskId"].clone();
    let id = task.as_str().expect("an id");
    call(&world, "agent:w1", "claim_task", &json!({"taskId": id}));
    let work = json!({"taskId": id, "status": "in_progress"});
    call(&world, "agent:w1", "update_task_status", &work);
    let show = || world.ok(&["task", "show", id, "--json"]).json();
    let list = |arguments: &[&str]| world.ok(&[&["task", "list", "--json"], arguments].concat());
    assert_eq!(show()["assignee"], "agent:w1");
    let hour = 3_600_000_000_i64;
    sql(
        &world,
        &format!(
            "UPDATE attempts SET started_at = started_at - {hour}, \
             heartbeat_at = heartbeat_at - {hour}, lease_expires_at = lease_expires_at - {hour}"
        ),
    );
    for _ in 0..2 {
        let shown = show();
        assert_eq!((&shown["status"], &shown["assignee"]), (&json!("backlog"), &Value::Null));
    }
    assert!(world.ok(&["task", "show", id]).stdout.contains("assignee  nobody"));
    assert_eq!(titles(&list(&["--status", "backlog"]).json()), ["A"]);
    assert_eq!(titles(&list(&["--assignee", "agent:w1"]).json()), Vec::<&str>::new());
    assert_eq!(titles(&list(&["--assignee", "", "--ready"]).json()), ["A"]);
    assert!(world.ok(&["next"]).stdout.contains("SHOP-1 "));

    // The machine may have slept, so the first write gives the holder a minute, only once.
    let claim = || world.run(&["--actor", "agent:w2", "claim", id]);
    assert_eq!(claim().code, 5);
    assert_eq!(show()["assignee"], "agent:w1");
    let minute = 61_000_000;
    sql(&world, &format!("UPDATE attempts SET lease_expires_at = lease_expires_at - {minute}"));
    assert_eq!(show()["assignee"], Value::Null);
    assert_eq!(claim().code, 0);
    assert_eq!(show()["assignee"], "agent:w2");
}

#[test]
fn the_doctor_names_a_store_that_is_ahead() {
    let world = World::project();
    world.ok(&["task", "add", "A"]);
    let clock = || {
        let checks = world.ok(&["doctor", "--json"]).json()["checks"].clone();
        let checks = checks.as_array().expect("a list").clone();
        checks.into_iter().find(|check| check["name"] == "clock").expect("a look at the clock")
    };
    assert_eq!(clock()["status"], "ok");
    sql(&world, "UPDATE events SET at = at + 86400000000");
    let found = clock();
    assert_eq!(found["status"], "warn", "{found}");
    assert!(
        found["message"].as_str().expect("words").contains("minutes ahead of this machine"),
        "{found}"
    );
}
