//! An agent that cannot be killed is alone in its worktree as long as it lives: no second run starts beside it, and a
//! person reads which process is waited for. The freezer of cgroup version 1 makes such a process: SIGKILL reaches a
//! frozen process only when it thaws.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::agents::{FREE, Shop, make, submit};
use crate::office::kill;
use crate::peer::{Peer, command, is_running};
use crate::schema::Schema;
use crate::skipped::skipped;

/// Lease and hold are short, so that a lost server loses its run within seconds.
const SHORT: [(&str, &str); 4] = [
    FREE,
    ("CALLBOARD_BOARD_LEASE_SECONDS", "3"),
    ("CALLBOARD_BOARD_HEARTBEAT_SECONDS", "1"),
    ("CALLBOARD_RELAY_STALE_HOLD_S", "0"),
];

/// A server looks for the process once a second; it has looked several times when this is over.
const HELD_FOR: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(30);

static NEXT: AtomicUsize = AtomicUsize::new(1);

/// A cgroup whose processes stand still.
struct Freezer(PathBuf);

impl Freezer {
    /// `None` where this kernel has no such freezer for us.
    fn holding(pids: &[String]) -> Option<Self> {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("callboard-{}-{number}", std::process::id());
        let freezer = Self(PathBuf::from("/sys/fs/cgroup/freezer").join(name));
        fs::create_dir(&freezer.0).ok()?;
        for pid in pids {
            fs::write(freezer.0.join("cgroup.procs"), pid).ok()?;
        }
        freezer.set("FROZEN").then_some(freezer)
    }

    fn set(&self, state: &str) -> bool {
        let file = self.0.join("freezer.state");
        let deadline = Instant::now() + PATIENCE;
        while fs::write(&file, state).is_ok() && Instant::now() < deadline {
            // "FREEZING" first, until every process stands still.
            if fs::read_to_string(&file).is_ok_and(|now| now.trim() == state) {
                return true;
            }
        }
        false
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.set("THAWED");
        let deadline = Instant::now() + PATIENCE;
        // A cgroup can be removed when its last process has ended.
        while self.0.exists() && Instant::now() < deadline {
            for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
                let _ = fs::write("/sys/fs/cgroup/freezer/cgroup.procs", pid);
            }
            let _ = fs::remove_dir(&self.0);
        }
    }
}

/// Each agent adds its line to `runs` before it says that it has begun, then never ends.
fn open_shop(schema: Option<Schema>, then: &str) -> Shop {
    let shop = Shop::open(schema, "");
    let (begun, runs) = (shop.at("begun"), shop.at("runs"));
    let script = format!(
        "cat > /dev/null\n{then}\necho $$ >> {runs:?}\n\
         echo $CALLBOARD_ATTEMPT $$ $other > {begun:?}\nwait\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    shop
}

/// A child that empties its environment, so that only its parents tell whose it is.
const CHILD: &str = "env -i sleep 600 &\nother=$!";

fn start(shop: &Shop, boss: &mut Peer) -> (String, Vec<String>) {
    let task = make(boss);
    let started = submit(boss, &task, "start_agent");
    assert_eq!(started["code"], "STARTED", "{started}");
    (task, shop.begun())
}

fn get(boss: &mut Peer, task: &str) -> Value {
    boss.call("get_task", json!({ "task_id": task })).unwrap()
}

/// The run is held back while the process lives: no second agent begins, and task, job and log name the process.
fn is_held_back(shop: &Shop, boss: &mut Peer, task: &str, pid: &str) {
    let began = Instant::now();
    let (mut held_since, words) = (None::<Instant>, format!("process {pid} (sh)"));
    while held_since.is_none_or(|since| since.elapsed() < HELD_FOR) {
        let seen = get(boss, task);
        let reason = seen["runtime"]["pending_reason"].as_str().unwrap_or_default().to_owned();
        if reason.contains(&words) && reason.ends_with(": an earlier run left it") {
            held_since.get_or_insert_with(Instant::now);
        } else {
            assert!(held_since.is_none(), "the hold ended while the process lives: {seen}");
        }
        let runs = fs::read_to_string(shop.at("runs")).unwrap();
        assert_eq!(runs, format!("{pid}\n"), "a second agent runs beside the first");
        assert!(is_running(pid), "the freezer holds it");
        assert!(began.elapsed() < PATIENCE, "no person is told why: {seen}");
    }
    let mut log = command(shop.board.path());
    if let Some(schema) = &shop.schema {
        log.args(["--store", schema.url()]);
    }
    let log = log.args(["log", task, "--json", "--tail", "1000"]).output().unwrap();
    let log: Value = serde_json::from_slice(&log.stdout).unwrap();
    let is_told = |event: &Value| {
        event["event"] == "job.held" && event["data"]["left"].to_string().contains(&words)
    };
    assert!(log["items"].as_array().unwrap().iter().any(is_told), "{log}");
}

fn the_next_attempt_waits_for_a_frozen_agent(schema: Option<Schema>) {
    let shop = open_shop(schema, CHILD);
    let mut lost = shop.server(&SHORT);
    let (task, first) = start(&shop, &mut lost);
    let Some(freezer) = Freezer::holding(&first[1..]) else {
        skipped("this user has no freezer of cgroup version 1");
        return;
    };
    kill(&lost, Signal::KILL);
    lost.child.wait().unwrap();
    let mut other = shop.server(&SHORT);
    is_held_back(&shop, &mut other, &task, &first[1]);
    let merge = json!({"task_id": task, "action": "merge"});
    let refused = other.call("review", merge).unwrap();
    assert_eq!(refused["code"], "AGENT_AT_WORK", "{refused}");

    drop(freezer);
    let second = shop.begun();
    assert_eq!(second[0], "2", "{second:?}");
    let left: Vec<_> = first[1..].iter().filter(|pid| is_running(pid)).collect();
    assert!(left.is_empty(), "attempt 2 runs beside {left:?}");
    let seen = get(&mut other, &task);
    let stands = (&seen["runtime"]["is_pending"], &seen["runtime"]["is_running"]);
    assert_eq!(stands, (&json!(false), &json!(true)), "{seen}");
}

#[test]
fn the_next_attempt_waits_for_an_agent_that_cannot_be_killed() {
    the_next_attempt_waits_for_a_frozen_agent(None);
}

#[test]
fn the_next_attempt_waits_for_an_agent_that_cannot_be_killed_on_postgres() {
    if let Some(schema) = Schema::new() {
        the_next_attempt_waits_for_a_frozen_agent(Some(schema));
    }
}

/// The server that started the agent lives, and a person starts the task again.
#[test]
fn another_job_waits_for_an_agent_that_cannot_be_killed() {
    let shop = open_shop(None, CHILD);
    let mut boss = shop.server(&[FREE]);
    let (task, first) = start(&shop, &mut boss);
    let Some(freezer) = Freezer::holding(&first[1..]) else {
        skipped("this user has no freezer of cgroup version 1");
        return;
    };
    boss.call("tasks_move", json!({"task_id": task, "status": "BACKLOG"})).unwrap();
    let again = json!({"task_id": task, "action": "start_agent"});
    let job = boss.call("jobs_submit", again).unwrap();
    assert_eq!(job["code"], "JOB_SUBMITTED", "{job}");
    is_held_back(&shop, &mut boss, &task, &first[1]);
    let ids = json!({"job_id": job["job_id"], "task_id": task});
    let seen = boss.call("jobs_get", ids).unwrap();
    let words = seen["message"].as_str().unwrap();
    assert!(words.contains(&first[1]) && words.contains("an earlier run left it"), "{seen}");

    drop(freezer);
    let second = shop.begun();
    let left: Vec<_> = first[1..].iter().filter(|pid| is_running(pid)).collect();
    assert!(left.is_empty(), "the new run works beside {left:?}");
    assert_ne!(second[1], first[1]);
}

/// One process of the agent is stopped. Another one is in uninterruptible sleep: the parent of a `vfork` whose child
/// never calls `exec`.
const ASLEEP: &str = "until_state() {
  for n in $(seq 500); do grep -q \"^State:.$2\" /proc/$1/status && break; sleep 0.02; done
}
python3 -c 'import ctypes, signal
ctypes.CDLL(None).vfork()
signal.pause()' &
sleeper=$!
until_state $sleeper D
setsid sh -c 'kill -STOP $$' &
until_state $! T
other=\"$sleeper $!\"
";

#[test]
fn stopped_and_sleeping_processes_of_a_frozen_server_are_killed_first() {
    let shop = open_shop(None, ASLEEP);
    let mut frozen = shop.server(&SHORT);
    let (_, first) = start(&shop, &mut frozen);
    for (pid, state) in [(&first[2], ") D "), (&first[3], ") T ")] {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(state), "{stat}");
    }
    kill(&frozen, Signal::STOP);
    let _other = shop.server(&SHORT);
    let second = shop.begun();
    assert_eq!((first[0].as_str(), second[0].as_str()), ("1", "2"));
    let left: Vec<_> = first[1..].iter().filter(|pid| is_running(pid)).collect();
    assert!(left.is_empty(), "attempt 2 runs beside {left:?} of attempt 1");
    kill(&frozen, Signal::CONT);
}
