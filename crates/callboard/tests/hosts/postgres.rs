//! A PostgreSQL on a host, which a test kills, restarts and promotes.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::net::{Host, run};

/// The user that owns the data: PostgreSQL refuses to run as root.
const OWNER: &str = "postgres";

/// The newest server on this machine; Debian keeps its programs off the PATH.
fn programs() -> Option<PathBuf> {
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path());
    let newest = found.filter(|path| path.join("bin/initdb").exists()).max_by_key(version)?;
    Some(newest.join("bin"))
}

pub fn missing() -> Option<&'static str> {
    let is_user = Command::new("id").arg(OWNER).output().is_ok_and(|done| done.status.success());
    (programs().is_none() || !is_user)
        .then_some("PostgreSQL is not installed (scripts/postgres start installs it)")
}

pub struct Postgres {
    host: Host,
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Postgres {
    fn at(host: Host) -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(&["chown", OWNER, folder.path().to_str().unwrap()]);
        Self { host, folder, server: None }
    }

    /// A new database on a host.
    pub fn make(host: Host) -> Self {
        let mut made = Self::at(host);
        let words = ["-N", "-A", "trust", "-U", "callboard", "-E", "UTF8", "--locale=C", "-D"];
        let done = made.owner("initdb").args(words).arg(made.data()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let rules = made.data().join("pg_hba.conf");
        let mut rules = OpenOptions::new().append(true).open(rules).unwrap();
        writeln!(rules, "host all,replication all 10.231.0.0/24 trust").unwrap();
        made.start();
        made
    }

    /// A standby on another host. The primary then acknowledges a commit when the standby has it.
    pub fn follow(primary: &Self, host: Host) -> Self {
        let mut standby = Self::at(host);
        let from =
            ["-h", primary.host.address.as_str(), "-U", "callboard", "-c", "fast", "-R", "-D"];
        let copied =
            standby.owner("pg_basebackup").args(from).arg(standby.data()).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        standby.start();
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        primary.sql("SELECT pg_reload_conf()");
        let question = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let script = format!(
            "until [ \"$(\"$0\" -h {} -U callboard -d postgres -Atc \"{question}\")\" = 1 ]; do \
             sleep 0.05; done",
            primary.host.address
        );
        primary.until(&script, "psql");
        standby
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// One of PostgreSQL's programs on this host, as the owner of the data.
    fn owner(&self, program: &str) -> Command {
        let mut command = self.host.command("setpriv");
        command.args(["--reuid", OWNER, "--regid", OWNER, "--clear-groups"]);
        command.arg(programs().expect("PostgreSQL is installed").join(program));
        command.current_dir("/");
        command
    }

    /// Runs a script on this host, with the path of a program as `$0`, for at most 30 seconds.
    fn until(&self, script: &str, program: &str) {
        let program = programs().expect("PostgreSQL is installed").join(program);
        let mut waiting = self.host.command("timeout");
        let done = waiting.args(["30", "sh", "-c", script]).arg(program).status().unwrap();
        assert!(done.success(), "{script}");
    }

    fn sql(&self, sql: &str) {
        let words =
            ["-h", self.host.address.as_str(), "-U", "callboard", "-d", "postgres", "-c", sql];
        let done = self.owner("psql").args(words).output().unwrap();
        assert!(done.status.success(), "{sql}: {}", String::from_utf8_lossy(&done.stderr));
    }

    pub fn start(&mut self) {
        let listen = format!("listen_addresses={}", self.host.address);
        let mut server = self.owner("postgres");
        server.arg("-D").arg(self.data());
        for setting in
            [listen.as_str(), "unix_socket_directories=", "fsync=off", "max_connections=60"]
        {
            server.args(["-c", setting]);
        }
        let log = self.folder.path().join("log");
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        self.server = Some(server.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let address = &self.host.address;
        let script = format!("until \"$0\" -q -h {address}; do sleep 0.05; done");
        self.until(&script, "pg_isready");
    }

    /// Ends the server as a crash does: connections break, and the next start recovers.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = kill_process(Pid::from_child(&server), Signal::QUIT);
            server.wait().unwrap();
        }
    }

    pub fn promote(&self) {
        let done = self.owner("pg_ctl").args(["promote", "-w", "-D"]).arg(self.data()).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    pub fn url(&self) -> String {
        address_of(&[&self.host], "")
    }

    /// An address that names both servers, of which the one that takes writes is meant.
    pub fn url_with(&self, standby: &Self) -> String {
        address_of(&[&self.host, &standby.host], "&target_session_attrs=read-write")
    }
}

fn address_of(hosts: &[&Host], more: &str) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| format!("{}:5432", host.address)).collect();
    format!("postgres://callboard@{}/postgres?connect_timeout=2{more}", hosts.join(","))
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            show_end_of(&self.folder.path().join("log"));
        }
    }
}

fn show_end_of(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(10)..] {
        eprintln!("postgres: {line}");
    }
}
