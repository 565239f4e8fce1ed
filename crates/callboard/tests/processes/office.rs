//! A board in a git repository with an agent, for tests of jobs in real processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peer::{Peer, board_as, clean, command};
use crate::relay::job_spec;
use crate::schema::Schema;

/// A board in a git repository, with an agent that obeys files in its folder.
pub struct Office {
    pub board: tempfile::TempDir,
    pub commit: String,
    pub schema: Option<Schema>,
}

impl Office {
    pub fn open(schema: Option<Schema>) -> Self {
        Self { schema, ..Self::open_as("P") }
    }

    pub fn open_as(prefix: &str) -> Self {
        let board = board_as(prefix);
        let mut office = Self { commit: String::new(), schema: None, board };
        office.git(&["init", "-q", "-b", "main"]);
        office.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        office.commit = office.git(&["rev-parse", "HEAD"]);
        office.hire();
        office
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        clean(&mut git, self.board.path());
        for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
            git.env(name, "ana");
        }
        for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
            git.env(name, "ana@example.org");
        }
        let done = git.args(arguments).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.board.path().join(name)
    }

    /// Installs an agent that reports its start on a pipe, waits while there is a file `hold`, then answers.
    fn hire(&self) {
        fs::create_dir(self.at("bin")).unwrap();
        fs::create_dir(self.at("runs")).unwrap();
        let made = Command::new("mkfifo").arg(self.at("begun")).status().unwrap();
        assert!(made.success());
        let script = format!(
            "#!/bin/sh\ncat > /dev/null\ncd '{}'\necho \"$CALLBOARD_JOB_ID $$\" >> ran\n\
             echo \"$CALLBOARD_ATTEMPT\" >> \"runs/$CALLBOARD_JOB_ID\"\n\
             if [ -e hold ]; then echo $$ > begun; fi\n\
             while [ -e hold ]; do sleep 0.05; done\n\
             printf '## DIFF\\n\\n## TEST_PLAN\\nnone\\n\\n## NOTES\\nnone\\n'\n",
            self.board.path().display()
        );
        let program = self.at("bin/opencode");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn hold(&self) {
        fs::write(self.at("hold"), "").unwrap();
    }

    pub fn let_go(&self) {
        fs::remove_file(self.at("hold")).unwrap();
    }

    /// The process id of the next agent that begins.
    pub fn begun(&self) -> String {
        fs::read_to_string(self.at("begun")).unwrap()
    }

    /// The jobs that agents began, in order.
    pub fn ran(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.at("ran")).unwrap();
        lines.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    /// The attempts that agents began on a job.
    pub fn attempts(&self, job: &str) -> Vec<String> {
        let lines = fs::read_to_string(self.at("runs").join(job)).unwrap_or_default();
        lines.lines().map(str::to_owned).collect()
    }

    /// Sets up an executor for the models of these jobs: a script, with the model as `$0`.
    pub fn configure(&self, script: &str, more: &str) {
        let settings = format!(
            "[executors.mine]\ncommand = [\"sh\", \"-c\", {script:?}, \"{{model}}\"]\nmodels = [\"fake/*\"]\n{more}"
        );
        fs::write(self.at(".callboard/config.local.toml"), settings).unwrap();
    }

    pub fn server(&self, settings: &[(&str, &str)]) -> Peer {
        self.server_with(&[], settings)
    }

    pub fn server_with(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Peer {
        let mut peer = self.process(arguments, settings);
        peer.hello();
        peer
    }

    /// A server for a client that identifies itself in each request.
    pub fn modern(&self) -> Peer {
        self.process(&[], &[])
    }

    pub fn process(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Peer {
        let mut mcp = command(self.board.path());
        mcp.args(["mcp", "--toolsets", "relay", "--actor", "agent:w"]).args(arguments);
        if let Some(schema) = &self.schema {
            mcp.args(["--store", schema.url()]);
        }
        let path = std::env::var("PATH").unwrap();
        mcp.env("PATH", format!("{}:{path}", self.at("bin").display()));
        mcp.env("CALLBOARD_RELAY_SANDBOX", "executor");
        for (name, value) in settings {
            mcp.env(name, value);
        }
        Peer::over(mcp)
    }

    pub fn submit(&self, peer: &mut Peer, key: &str) -> String {
        self.submit_for(peer, key, 600)
    }

    pub fn submit_for(&self, peer: &mut Peer, key: &str, ttl_s: u32) -> String {
        let mut spec = self.spec(key);
        spec["execution"]["ttlS"] = ttl_s.into();
        self.submit_spec(peer, &spec)
    }

    pub fn submit_spec(&self, peer: &mut Peer, spec: &Value) -> String {
        let answer = peer.call("jobs_submit", json!({ "spec": spec })).unwrap();
        answer["jobId"].as_str().unwrap().to_owned()
    }

    pub fn spec(&self, key: &str) -> Value {
        job_spec(self.board.path(), &self.commit, key)
    }
}

pub fn kill(peer: &Peer, signal: Signal) {
    let pid = Pid::from_raw(peer.child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The events of a job, by the log.
pub fn events(folder: &Path, job: &str) -> Vec<String> {
    let log = command(folder).args(["log", "--json"]).output().unwrap();
    let text = String::from_utf8(log.stdout).unwrap();
    let all: Vec<Value> = serde_json::Deserializer::from_str(&text)
        .into_iter::<Value>()
        .flat_map(|value| match value.unwrap() {
            Value::Array(items) => items,
            Value::Object(map) => match map.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![Value::Object(map)],
            },
            other => vec![other],
        })
        .collect();
    let name = |event: &Value| {
        let name = event["name"].as_str().or(event["event"].as_str())?;
        let of_job = event["data"]["job"] == job;
        name.strip_prefix("job.").filter(|_| of_job).map(str::to_owned)
    };
    all.iter().filter_map(name).filter(|name| name != "kept" && name != "artifact").collect()
}
