//! Logs of checks: on one machine from its files, on a shared store from any machine that wrote them.

use std::path::Path;
use std::sync::Arc;

use callboard_domain::command::NewCheck;
use callboard_domain::ids::Prefix;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal, Scope};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::store::clock::ManualClock;
use callboard_engine::store::postgres::PostgresStore;
use callboard_engine::store::{FileSpan, Place, RepoPlace, Store};
use callboard_engine::{CheckLog, Engine, EngineError, LogQuery, Parts, TaskDraft};
use callboard_runner::LocalChecks;
use serde_json::{Value, json};

use crate::http::{Server, agent, call};
use crate::peer::{Peer, board, command};
use crate::schema::Schema;

fn read_resource(peer: &mut Peer, task: &str, index: &str) -> Value {
    let uri = format!("callboard://tasks/{task}/checks/{index}/log");
    peer.request("resources/read", json!({"uri": uri}))
}

#[test]
fn a_log_is_a_resource_whose_first_line_says_what_was_cut() {
    let board = board();
    let mut peer = Peer::start(board.path(), "agent:w1");
    let templates = peer.request("resources/templates/list", json!({}));
    let log = &templates["result"]["resourceTemplates"][1];
    assert_eq!(log["uriTemplate"], "callboard://tasks/{id}/checks/{index}/log");
    assert_eq!(log["mimeType"], "text/plain");

    let long = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let task = peer.create(json!({"title": "a", "checks": [
        {"desc": "short", "cmd": "echo small"}, {"desc": "long", "cmd": long},
        {"desc": "manual", "type": "manual"}]}));
    let early = read_resource(&mut peer, &task, "0");
    assert_eq!(early["error"]["data"]["code"], "CHECK_LOG_NOT_FOUND", "{early}");
    peer.call("run_checks", json!({"id": task})).unwrap();

    let short = read_resource(&mut peer, &task, "0")["result"]["contents"][0].clone();
    assert_eq!(short["mimeType"], "text/plain");
    let text = short["text"].as_str().unwrap();
    assert!(text.starts_with("cmd: echo small\n") && text.ends_with("----\nsmall\n"), "{text}");
    let long = read_resource(&mut peer, &task, "1");
    let text = long["result"]["contents"][0]["text"].as_str().unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("[the last 65536 of "), "{first}");
    assert_eq!((rest.len(), rest.lines().last()), (65536, Some("line 19999")));
    let manual = read_resource(&mut peer, &task, "2");
    assert_eq!(manual["error"]["data"]["code"], "CHECK_LOG_NOT_FOUND");
    let range = read_resource(&mut peer, &task, "3");
    assert_eq!(range["error"]["data"]["code"], "INVALID_INPUT");
    for unknown in ["x", "-1", "0/log/../0"] {
        let answer = read_resource(&mut peer, &task, unknown);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
}

/// The first folder's server runs the checks; its files are deleted before the second server is asked.
#[test]
fn on_a_shared_store_every_server_shows_every_log() {
    let Some(schema) = Schema::new() else { return };
    let (one, other) = (board(), board());
    let server = Server::start_with(one.path(), &["--store", schema.url()]);
    let call = |tool, arguments, key| {
        call(&agent(), &server.url, "agent:w1", tool, &arguments, key).unwrap().unwrap()
    };
    let checks = json!([{"desc": "speaks", "cmd": "echo from the first machine; exit 3"}]);
    let task = call("create", json!({"title": "a", "checks": checks}), "create");
    let task = task["id"].as_str().unwrap();
    let ran = call("run_checks", json!({"id": task}), "run");
    let log = ran["checks"][0]["log"].as_str().unwrap();
    let text = std::fs::read_to_string(one.path().join(log)).unwrap();
    std::fs::remove_dir_all(one.path().join(".callboard/runs")).unwrap();
    drop(server);

    let ask = |folder: &Path, arguments: &[&str]| {
        let store = ["--store", schema.url(), "check", "log", task];
        command(folder).args(store).args(arguments).output().unwrap()
    };
    let printed = ask(other.path(), &["0"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), text);
    assert!(text.ends_with("----\nfrom the first machine\n"), "{text}");
    assert_eq!(String::from_utf8_lossy(&ask(one.path(), &["0"]).stdout), text);
    let end = ask(other.path(), &["0", "--tail", "8"]);
    assert_eq!(String::from_utf8_lossy(&end.stdout), "machine\n");

    let mut mcp = command(other.path());
    mcp.args(["--store", schema.url(), "mcp", "--actor", "agent:w2"]);
    let mut peer = Peer::over(mcp);
    peer.hello();
    let read = read_resource(&mut peer, task, "0");
    assert_eq!(read["result"]["contents"][0]["text"], text);

    // A backup has the logs as well, and it is in one file.
    let run = |arguments: &[&str]| command(other.path()).args(arguments).output().unwrap();
    assert!(run(&["--store", schema.url(), "backup", "copy.db"]).status.success());
    let kept = run(&["--store", "copy.db", "check", "log", task, "0"]);
    assert_eq!(String::from_utf8_lossy(&kept.stdout), text);
}

/// A machine: its own name and folder, on a shared store.
async fn machine(
    schema: &Schema,
    name: &str,
    folder: &Path,
    clock: &Arc<ManualClock>,
) -> Arc<Engine> {
    let store = PostgresStore::open(schema.url(), Some(clock.clone())).await.unwrap();
    let place = Place {
        org: "default".into(),
        project_name: "demo".into(),
        prefix: Prefix::parse("DEMO"),
        repo: Some(RepoPlace { machine: name.into(), path: folder.to_owned() }),
        store_is_inside: false,
    };
    let home = store.settle(place).await.unwrap();
    Engine::new(Parts {
        machine: name.into(),
        checks: Some(Arc::new(LocalChecks::new(true))),
        check_log_tail_bytes: 65536,
        ..Parts::bare(home, Arc::new(store), Arc::new(TimeOrderedIds))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_read_each_others_logs_until_they_are_too_old() {
    let Some(schema) = Schema::new() else { return };
    let clock = Arc::new(ManualClock::at(Timestamp(1_700_000_000_000_000)));
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let a = machine(&schema, "a", folders[0].path(), &clock).await;
    let b = machine(&schema, "b", folders[1].path(), &clock).await;
    let op = OpContext::new(Principal::local("agent:w1".parse().unwrap()), "test");
    let speaks = |words: &str| NewCheck {
        desc: words.into(),
        cmd: Some(format!("echo {words}")),
        ..NewCheck::default()
    };
    let checks = vec![speaks("first"), speaks("second")];
    let draft = TaskDraft { title: "a".into(), checks, ..TaskDraft::default() };
    let task = a.task_create(&op, draft).await.unwrap().it.task.id;
    a.check_run(&op, task, vec![0]).await.unwrap();
    b.check_run(&op, task, vec![1]).await.unwrap();
    let end = FileSpan::Tail { bytes_max: 7 };
    let text = |log: Result<CheckLog, EngineError>| log.map(|log| log.text());
    for reader in [&a, &b] {
        assert_eq!(text(reader.check_log(&op, task, 0, end).await).unwrap(), "\nfirst\n");
        assert_eq!(text(reader.check_log(&op, task, 1, end).await).unwrap(), "second\n");
        let lines = reader.check_log_lines(&op, task, 1, &LogQuery::default()).await.unwrap();
        let last = lines.window.lines.last().unwrap();
        assert_eq!((last.number, &*last.text), (lines.window.total, "second"));
    }

    let code = |log: Result<CheckLog, EngineError>| match log {
        Err(EngineError::Refused(refusal)) => refusal.code(),
        other => panic!("not refused: {other:?}"),
    };
    let mut writer = op.clone();
    writer.principal.rights.scopes = vec![Scope::TasksWrite];
    assert_eq!(code(a.check_log(&writer, task, 0, end).await), "AUTHORIZATION_DENIED");
    let mut stranger = op.clone();
    stranger.principal.org = "other".into();
    a.store().settle(Place::of_org("other")).await.unwrap();
    assert_eq!(code(a.check_log(&stranger, task, 0, end).await), "TASK_NOT_FOUND");

    clock.advance_ms(31 * 24 * 3600 * 1000);
    b.task_note(&op, task, "a month later".into()).await.unwrap();
    b.sweep_leftovers().await.unwrap();
    assert_eq!(code(b.check_log(&op, task, 0, end).await), "CHECK_LOG_NOT_FOUND");
    assert!(text(a.check_log(&op, task, 0, end).await).is_ok(), "its own file is younger");
}
