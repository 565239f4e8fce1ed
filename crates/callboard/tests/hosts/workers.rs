//! Workers on hosts of their own: each has its own network, processes, name and folder. They run jobs of an agent that is a
//! script. A worker that loses its host's network, or is paused, past the lease of its jobs loses them to another one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::history::{Logged, Stored};
use crate::net::Host;
use crate::peer::{CALLBOARD, Peer, board, clean, git};
use crate::relay::{job_spec, next_end};

/// Jobs that a worker has when it is lost.
pub const JOBS: usize = 4;

/// What all hosts share: a repository, and the files that agents read and write.
pub struct Office {
    shared: tempfile::TempDir,
    commit: String,
    store: String,
    /// The server that takes jobs; it starts no agents.
    server: Peer,
    host: Host,
    /// The answer of each job, once it has ended.
    jobs: BTreeMap<String, Option<Value>>,
}

/// Gives the worker a host's name of its own. Without a machine id, the name is also the machine's.
const BEGIN: &str = "[ ! -e /etc/machine-id ] || mount --bind /dev/null /etc/machine-id || exit; \
     echo \"$0\" > /proc/sys/kernel/hostname && exec \"$@\"";

pub struct Worker {
    /// `unshare`, whose only child is the worker.
    child: Child,
    _folder: tempfile::TempDir,
}

impl Office {
    pub fn open(host: Host, store: &str) -> Self {
        let shared = board();
        let folder = shared.path();
        git(folder, &["init", "-q", "-b", "main"]);
        let name = ["-c", "user.name=ana", "-c", "user.email=ana@example.org"];
        git(folder, &[&name[..], &["commit", "-q", "--allow-empty", "-m", "first"]].concat());
        let commit = git(folder, &["rev-parse", "HEAD"]);
        let mut mcp = host.command(CALLBOARD);
        clean(&mut mcp, folder);
        mcp.args(["--store", store, "mcp", "--no-runner", "--toolsets", "relay"]);
        mcp.args(["--actor", "agent:w"]).env("CALLBOARD_RELAY_GIT_SCHEMES", "file");
        let mut server = Peer::over(mcp);
        server.hello();
        let (store, jobs) = (store.to_owned(), BTreeMap::new());
        Self { shared, commit, store, server, host, jobs }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.shared.path().join(name)
    }

    /// Lets the agents of a worker wait before they answer.
    pub fn hold(&self, worker: &str) {
        fs::write(self.at(&format!("hold-{worker}")), "").unwrap();
    }

    pub fn let_go(&self, worker: &str) {
        fs::remove_file(self.at(&format!("hold-{worker}"))).unwrap();
    }

    /// Starts a worker, whose agents say in their answers which worker they are of.
    pub fn worker(&self, host: &Host, name: &str) -> Worker {
        let folder = board();
        let shared = self.shared.path().display();
        let script = format!(
            "cat > /dev/null\ncd '{shared}'\necho $CALLBOARD_JOB_ID >> begun-{name}\n\
             while [ -e hold-{name} ]; do sleep 0.05; done\necho $CALLBOARD_JOB_ID >> answered-{name}\n\
             printf '## DIFF\\n\\n## TEST_PLAN\\nnone\\n\\n## NOTES\\nby {name}\\n'\n"
        );
        let settings = format!(
            "[executors.mine]\ncommand = [\"sh\", \"-c\", {script:?}]\nmodels = [\"fake/*\"]\n"
        );
        fs::write(folder.path().join(".callboard/config.local.toml"), settings).unwrap();
        let mut worker = host.command("unshare");
        worker.args(["--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        clean(&mut worker, folder.path());
        worker.args(["sh", "-c", BEGIN, name, CALLBOARD, "--store", &self.store, "worker"]);
        for (setting, value) in [
            ("MAX_CONCURRENCY", JOBS.to_string().as_str()),
            ("SANDBOX", "executor"),
            ("GIT_SCHEMES", "file"),
            ("LEASE_S", "3"),
            ("HEARTBEAT_S", "1"),
            ("STALE_HOLD_S", "0"),
        ] {
            worker.env(format!("CALLBOARD_RELAY_{setting}"), value);
        }
        worker.stdout(Stdio::null()).stderr(Stdio::null());
        Worker { child: worker.spawn().unwrap(), _folder: folder }
    }

    pub fn submit(&mut self) {
        for n in 0..JOBS {
            let mut spec =
                job_spec(self.shared.path(), &self.commit, &format!("{n} {}", self.jobs.len()));
            let repo = format!("file://{}", self.shared.path().display());
            spec["repo"]["type"] = "git".into();
            spec["repo"]["url"] = repo.into();
            let answer = self.server.call("jobs_submit", json!({ "spec": spec })).unwrap();
            self.jobs.insert(answer["jobId"].as_str().unwrap().to_owned(), None);
        }
    }

    /// Returns when agents of this worker have begun so many runs.
    pub fn until_begun(&self, worker: &str, runs: usize) {
        self.until_lines(&format!("begun-{worker}"), runs);
    }

    /// Returns when agents of this worker have answered in so many runs.
    pub fn until_answered(&self, worker: &str, runs: usize) {
        self.until_lines(&format!("answered-{worker}"), runs);
    }

    fn until_lines(&self, name: &str, lines: usize) {
        let script = "until [ \"$(wc -l < \"$0\")\" -ge \"$1\" ]; do sleep 0.02; done";
        let mut waiting = Command::new("timeout");
        waiting.args(["30", "sh", "-c", script]).arg(self.at(name)).arg(lines.to_string());
        let waited = waiting.stderr(Stdio::null()).status().unwrap();
        assert!(waited.success(), "{name} never has {lines} lines");
    }

    /// Returns when the newest jobs have ended.
    pub fn until_ended(&mut self) {
        for _ in 0..JOBS {
            let end = next_end(&mut self.server);
            assert_eq!(end["method"], "notifications/job/finished", "{end}");
        }
        for (job, answer) in &mut self.jobs {
            answer.get_or_insert_with(|| answer_of(&mut self.server, job));
        }
    }

    /// The log has one result of each job, by the worker of its last run, and nothing of a worker that lost its run. The
    /// answer of a job that ended does not change.
    pub fn judge(&mut self) {
        let stored = Stored::read(|words| {
            let mut callboard = self.host.command(CALLBOARD);
            clean(&mut callboard, self.shared.path());
            let printed = callboard.args(["--store", &self.store]).args(words).output().unwrap();
            assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
            serde_json::from_slice(&printed.stdout).unwrap()
        });
        assert!(stored.log.iter().zip(1..).all(|(event, seq)| event.seq == seq), "no gaps");
        for (job, answer) in &self.jobs {
            let now = answer_of(&mut self.server, job);
            assert_eq!(Some(&now), answer.as_ref(), "{job} has changed since its end");
            let events = stored.log.iter().filter(|event| event.data["job"] == **job);
            judge(&events.collect::<Vec<_>>(), now["out"].as_str().unwrap());
        }
    }
}

fn judge(events: &[&Logged], out: &str) {
    let (mut fence, mut runner, mut results) = (0, "", 0);
    for event in events {
        let is_own = |event: &Logged| event.actor == runner;
        match event.name.as_str() {
            "job.started" => {
                let next = event.data["fence"].as_u64().expect("a fence");
                assert!(next > fence, "fences rise: {event:?}");
                (fence, runner) = (next, &event.actor);
            }
            "job.succeeded" => {
                results += 1;
                assert!(is_own(event), "of the last run: {event:?}");
            }
            // Time does this, written by any worker that sees it first.
            "job.stale" | "job.requeued" | "job.submitted" | "task.created" => {}
            name if name.starts_with("job.") => assert!(is_own(event), "{event:?}"),
            _ => {}
        }
    }
    assert_eq!(results, 1, "one result: {events:?}");
    let worker = runner.strip_prefix("runner:").and_then(|name| name.split('-').next());
    assert!(out.contains(&format!("by {}", worker.unwrap())), "{out} is not of {runner}");
}

/// A job's state, with the text that its agent left.
fn answer_of(server: &mut Peer, job: &str) -> Value {
    let mut seen = server.call("jobs_get", json!({ "jobId": job })).unwrap();
    assert_eq!(seen["state"], "SUCCEEDED", "{seen}");
    let uri = format!("mcp://jobs/{job}/artifacts/out.md");
    let read = server.request("resources/read", json!({ "uri": uri }));
    seen["out"] = read["result"]["contents"][0]["text"].clone();
    seen
}

impl Worker {
    fn pid(&self) -> Pid {
        let of = self.child.id();
        let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        Pid::from_raw(children.trim().parse().unwrap()).unwrap()
    }

    pub fn pause(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    pub fn go_on(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Ends the worker in order: it tells the end of each of its runs before.
    pub fn end(mut self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
