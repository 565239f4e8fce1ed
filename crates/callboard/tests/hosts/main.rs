//! Servers, workers, clients and PostgreSQL on different hosts, which are network namespaces on one bridge. Each test breaks
//! something between the hosts while clients work, and mends it. Afterwards every task is done once, and the judge of
//! histories finds nothing. The tests need root and `ip netns`.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(clippy::disallowed_methods, reason = "tests play the user who starts programs")]

mod fleet;
#[path = "../processes/history.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod history;
#[path = "../processes/http.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod http;
mod net;
#[path = "../processes/peer.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod peer;
mod postgres;
#[path = "../processes/reads.rs"]
mod reads;
#[path = "../processes/relay.rs"]
mod relay;
#[path = "../../../store/tests/it/skipped.rs"]
mod skipped;
#[path = "../processes/violations.rs"]
#[allow(dead_code, reason = "the process tests use the rest")]
mod violations;
mod workers;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::fleet::{Fleet, TASKS};
use crate::history::Op;
use crate::net::Net;
use crate::postgres::Postgres;
use crate::skipped::skipped;
use crate::workers::{JOBS, Office};

/// The hosts of a test with one PostgreSQL; `None` where there can be none.
fn hosts() -> Option<(Net, Postgres)> {
    if let Some(why) = net::missing().or_else(postgres::missing) {
        skipped(why);
        return None;
    }
    let mut net = Net::new();
    let postgres = Postgres::make(net.host("pg1"));
    Some((net, postgres))
}

#[test]
fn a_server_that_is_cut_off_from_postgres_comes_back() {
    let Some((net, postgres)) = hosts() else { return };
    let fleet = Fleet::start(net, &postgres.url());
    fleet.work(|fleet| {
        fleet.until_closed(TASKS / 4);
        fleet.net.part("s1", "pg1");
        // The other server goes on meanwhile.
        fleet.until_closed(TASKS / 2);
        fleet.net.join("s1", "pg1");
        fleet.until_answered(0);
    });
    fleet.judge();
}

/// The actor stays the same, so only the fence tells its late write from a current one.
#[test]
fn a_server_that_slept_past_a_lease_is_refused_by_the_fence() {
    let Some((net, postgres)) = hosts() else { return };
    let fleet = Fleet::start(net, &postgres.url());
    let (sleeper, awake) = (fleet.client("agent:w0", &[0]), fleet.client("agent:w0", &[1]));
    let task = fleet.tasks[0].clone();
    let lease = |which: &str| {
        let arguments = json!({"taskId": task, "leaseSec": 2});
        (Op::Lease { task: task.clone() }, "claim_task", arguments, format!("lease {which}"))
    };
    let (op, tool, arguments, key) = lease("first");
    assert_eq!(sleeper.ask(op, tool, arguments, &key).unwrap()["fence"], 1);
    let pid = Pid::from_child(&fleet.servers[0].child);
    kill_process(pid, Signal::STOP).unwrap();
    let late = std::thread::scope(|scope| {
        // Sent while the server sleeps, read when it wakes.
        let late = scope.spawn(|| sleeper.beat(&task, 1, "late"));
        // A claim by the holder would return its lease; a read shows when that lease is over.
        awake.until_free(&task);
        let (op, tool, arguments, key) = lease("second");
        assert_eq!(awake.ask(op, tool, arguments, &key).unwrap()["fence"], 2);
        kill_process(pid, Signal::CONT).unwrap();
        late.join().unwrap()
    });
    let late = [late, sleeper.close(&task, 1, "late end")];
    let current = [awake.beat(&task, 2, "current"), awake.close(&task, 2, "end")];
    fleet.closed(&task);
    fleet.work(|fleet| fleet.until_closed(TASKS));
    fleet.judge();
    for refused in late {
        let refused = refused.unwrap_err();
        let words = refused["message"].as_str().unwrap();
        assert!(words.contains("fence 1 is stale"), "{refused}");
    }
    assert!(current.iter().all(Result::is_ok), "{current:?}");
}

#[test]
fn a_slow_link_that_loses_packets_costs_time_only() {
    let Some((net, postgres)) = hosts() else { return };
    let fleet = Fleet::start(net, &postgres.url());
    if let Err(why) = fleet.net.slow_down("pg1") {
        skipped(why);
        return;
    }
    fleet.work(|fleet| fleet.until_closed(TASKS));
    fleet.judge();
}

#[test]
fn a_postgres_that_is_killed_on_its_host_loses_nothing_acknowledged() {
    let Some((net, mut postgres)) = hosts() else { return };
    let fleet = Fleet::start(net, &postgres.url());
    fleet.work(|fleet| {
        for part in 1..3 {
            fleet.until_closed(TASKS * part / 4);
            postgres.kill();
            postgres.start();
        }
        fleet.until_answered(0);
        fleet.until_answered(1);
    });
    fleet.judge();
}

/// Replication is synchronous: an acknowledged write is on the standby.
#[test]
fn servers_find_the_standby_that_is_promoted() {
    let Some((mut net, mut primary)) = hosts() else { return };
    let standby = Postgres::follow(&primary, net.host("pg2"));
    let fleet = Fleet::start(net, &primary.url_with(&standby));
    fleet.work(|fleet| {
        fleet.until_closed(TASKS / 3);
        primary.kill();
        standby.promote();
        fleet.until_answered(0);
        fleet.until_answered(1);
    });
    fleet.judge();
}

/// The late results of a worker come while another one has its jobs.
#[test]
fn a_worker_that_is_lost_for_a_while_loses_its_jobs() {
    let Some((mut net, postgres)) = hosts() else { return };
    let [client, w1, w2, w3] = ["client", "w1", "w2", "w3"].map(|name| net.host(name));
    let mut office = Office::open(client, &postgres.url());
    ["w1", "w2", "w3"].iter().for_each(|worker| office.hold(worker));
    let first = office.worker(&w1, "w1");
    office.submit();
    office.until_begun("w1", JOBS);
    net.part("w1", "pg1");
    let second = office.worker(&w2, "w2");
    office.until_begun("w2", JOBS);
    office.let_go("w1");
    net.join("w1", "pg1");
    first.end();
    office.let_go("w2");
    office.until_ended();

    office.hold("w2");
    office.submit();
    office.until_begun("w2", 2 * JOBS);
    second.pause();
    office.let_go("w2");
    office.until_answered("w2", 2 * JOBS);
    let third = office.worker(&w3, "w3");
    office.until_begun("w3", JOBS);
    second.go_on();
    second.end();
    office.let_go("w3");
    office.until_ended();
    third.end();
    office.judge();
}
