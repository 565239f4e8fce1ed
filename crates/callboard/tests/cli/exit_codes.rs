//! One test for each exit code that scripts rely on, with its error.

use rustix::process::Signal;

use crate::fixture::World;

#[test]
fn success_is_0() {
    let world = World::project();
    assert_eq!(world.run(&["task", "list"]).code, 0);
    let bare = world.run(&[]);
    assert_eq!(bare.code, 0);
    assert!(bare.stdout.contains("Usage: callboard"), "{}", bare.stdout);
}

#[test]
fn a_failure_is_1() {
    let world = World::project().with("CALLBOARD_GRAPH_CHECKS_ENABLED", "false");
    let id = world.task(&["checked", "--check", "true"]);
    let ran = world.run(&["done", &id, "--json"]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.error_code(), "CHECK_INFRASTRUCTURE");
}

#[test]
fn wrong_usage_is_2() {
    let world = World::project();
    let verb = world.run(&["tsk"]);
    assert_eq!(verb.code, 2);
    assert!(verb.stderr.contains("'task'"), "{}", verb.stderr);
    let blank = world.run(&["task", "add", " "]);
    assert_eq!(blank.code, 2);
    assert_eq!(blank.stderr, "error[INVALID_INPUT]: title cannot be empty\n");
    assert_eq!(world.run(&["task", "add", "--json"]).error_code(), "INVALID_INPUT");
    assert_eq!(world.run(&["task", "list", "--actor", "ana"]).code, 2);
}

#[test]
fn not_found_is_3() {
    let world = World::project();
    let ran = world.run(&["task", "show", "SHOP-404"]);
    assert_eq!(ran.code, 3);
    let said = "error[TASK_NOT_FOUND]: task not found: SHOP-404\nhint: callboard task list\n";
    assert_eq!(ran.stderr, said);
    let dangling = world.run(&["task", "add", "x", "--dep", "SHOP-404", "--json"]);
    assert_eq!((dangling.code, dangling.error_code()), (3, "DANGLING_DEPENDENCY".into()));
    let nowhere = World::git().run(&["task", "list", "--json"]);
    assert_eq!((nowhere.code, nowhere.error_code()), (3, "PROJECT_NOT_FOUND".into()));
}

#[test]
fn not_permitted_is_4() {
    let world = World::project();
    let open = world.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 4);
    assert!(open.stderr.contains("tokens"), "{}", open.stderr);
    let id = world.task(&["mine"]);
    let arguments = format!(r#"{{"id":"{id}","expected_actor":"agent:b","idempotency_key":"k"}}"#);
    let other = world.run(&["call", "begin", &arguments, "--json"]);
    assert_eq!((other.code, other.error_code()), (4, "ACTOR_MISMATCH".into()));
}

#[test]
fn a_conflict_is_5() {
    let world = World::project();
    let id = world.task(&["wanted by two"]);
    world.ok(&["claim", &id]);
    let ran = world.run(&["claim", &id, "--actor", "agent:bob"]);
    assert_eq!(ran.code, 5);
    let said = "error[ALREADY_CLAIMED]: task already claimed by another actor: held by human:ana\n\
                hint: callboard next\n";
    assert_eq!(ran.stderr, said);
}

#[test]
fn a_closed_gate_is_6() {
    let world = World::project();
    let first = world.task(&["first", "--check", "echo no luck; false"]);
    let second = world.task(&["second", "--dep", &first]);
    let deps = world.run(&["done", &second, "--json"]);
    assert_eq!((deps.code, deps.error_code()), (6, "DEPS_NOT_CLOSED".into()));
    let checks = world.run(&["done", &first]);
    assert_eq!(checks.code, 6);
    assert!(checks.stderr.contains("error[CHECKS_NOT_PASSED]"), "{}", checks.stderr);
    assert!(checks.stderr.contains("  no luck\n"), "{}", checks.stderr);
    assert!(checks.stderr.contains("callboard done SHOP-1"), "{}", checks.stderr);
    let run = world.run(&["check", "run", &first, "--json"]);
    assert_eq!((run.code, run.error_code()), (6, "CHECKS_NOT_PASSED".into()));
    assert_eq!(run.json()["checks"][0]["result"], "fail");
}

#[test]
fn a_store_out_of_reach_is_7() {
    let world = World::project();
    world.write(&world.root().join("file"), "not a folder");
    let ran = world.run(&["task", "list", "--store", "file/callboard.db", "--json"]);
    assert_eq!((ran.code, ran.error_code()), (7, "UNAVAILABLE".into()));
}

#[test]
fn a_wait_that_ran_out_is_8() {
    let world = World::project();
    let id = world.task(&["slow"]);
    let ran = world.run(&["wait", &id, "--for", "review,done", "--timeout", "1ms", "--json"]);
    assert_eq!((ran.code, ran.error_code()), (8, "WAIT_TIMED_OUT".into()));
    world.ok(&["wait", &id, "--for", "ready", "--timeout", "50s"]);
}

#[test]
fn an_interrupted_command_is_130() {
    let world = World::project();
    world.task(&["seen"]);
    let (following, first) = world.start(&["log", "--follow", "--json"]);
    assert!(first.contains("task.created"), "{first}");
    assert!(first.starts_with(r#"{"schema":"callboard.event/1","#), "{first}");
    assert_eq!(following.signal(Signal::INT), 130);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let world = World::project();
    world.task(&["seen"]);
    let mut child = world
        .command(&world.root(), &["task", "list"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
