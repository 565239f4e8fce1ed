//! Workers shown in tmux: a real tmux with a server for each run, which ends with the run however that ends, and lets
//! no agent out of its sandbox.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::crew::cli;
use crate::http::{Server, agent};
use crate::peer::{CALLBOARD, board, command, is_running, repository_of};
use crate::schema::Schema;
use crate::skipped::skipped;

/// Whether tmux is installed; prints a note if not. `scripts/test` installs it.
fn has_tmux() -> bool {
    let has = Command::new("tmux").arg("-V").output().is_ok();
    if !has {
        skipped("tmux is not installed");
    }
    has
}

/// Polls, without a pause of its own, for an effect of other processes.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(90), "never: {what}");
        std::thread::yield_now();
    }
}

struct Site {
    folder: tempfile::TempDir,
    server: Option<Server>,
    _schema: Option<Schema>,
}

impl Site {
    /// A crew with one worker, which runs this script, on one task.
    fn open(schema: Option<Schema>, script: &str, sandbox: &str) -> Self {
        let store = schema.as_ref().map(|schema| format!("[store]\nurl = {:?}\n", schema.url()));
        let mut site = Self { folder: board(), server: None, _schema: schema };
        let script = script.replace("$CALLBOARD\"", &format!("{CALLBOARD}\""));
        let executor = repository_of(site.folder.path(), &script);
        let settings = format!(
            "[relay]\nsandbox = \"{sandbox}\"\nstale_hold_s = 0\n\n{}[crew]\nexecutor = \"mine\"\n\
             terminal = \"tmux\"\n\n[execution]\nsweep_interval_sec = 1\n\n{executor}",
            store.unwrap_or_default()
        );
        fs::write(site.at(".callboard/config.local.toml"), settings).unwrap();
        for pipe in ["begun", "go"] {
            assert!(Command::new("mkfifo").arg(site.at(pipe)).status().unwrap().success());
        }
        let epic = cli(site.folder.path(), &["epic", "add", "Users"]);
        let lead = ["agent", "add", "boss", "--type", "SUPERVISOR", "--epic"];
        cli(site.folder.path(), &[&lead[..], &[epic["id"].as_str().unwrap()]].concat());
        site.serve();
        let task = json!({"title": "Say hello", "description": "As asked."});
        site.execute("boss", "mcp__epic__create_task", task);
        site
    }

    fn serve(&mut self) {
        let mut serve = command(self.folder.path());
        serve.env("USER", "ana").env("XDG_RUNTIME_DIR", self.folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
        self.server = Some(Server::over(serve));
    }

    fn kill_server(&mut self) {
        let server = self.server.as_mut().unwrap();
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn execute(&self, who: &str, tool: &str, input: Value) -> Value {
        let url = &self.server.as_ref().unwrap().url;
        let body = json!({"agentId": who, "toolName": tool, "input": input});
        let mut answer =
            agent().post(format!("{url}/mcp/execute")).send_json(&body).expect("an answer");
        let answer: Value = answer.body_mut().read_json().unwrap();
        assert_eq!(answer["success"], true, "{tool}: {answer}");
        answer["data"].clone()
    }

    fn status(&self) -> Value {
        self.execute("worker-1", "mcp__agent__get_status", json!({}))
    }

    /// The line that the next agent writes when it begins.
    fn begun(&self) -> String {
        fs::read_to_string(self.at("begun")).unwrap().trim().to_owned()
    }

    fn go(&self) {
        fs::write(self.at("go"), "on\n").unwrap();
    }

    /// The worker's terminal as an attached person would use it, if there is one.
    fn terminal(&self) -> Option<Terminal> {
        let worker = cli(self.folder.path(), &["agent", "show", "worker-1"]);
        let session = worker["tmuxSessionName"].as_str()?.to_owned();
        let attach = worker["attach"].as_str().expect("a way to attach").to_owned();
        let words: Vec<&str> = attach.split(' ').collect();
        let ["tmux", "-S", socket, "attach", "-t", target] = words[..] else { panic!("{attach}") };
        assert_eq!(target, session);
        Some(Terminal { socket: socket.into(), session, attach: attach.clone() })
    }

    /// The folders of terminals' sockets.
    fn sockets(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("callboard-")).collect()
    }
}

struct Terminal {
    socket: PathBuf,
    session: String,
    attach: String,
}

impl Terminal {
    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(arguments).env_remove("TMUX");
        let ran = tmux.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    }

    /// The process id of its server.
    fn server(&self) -> String {
        self.tmux(&["display-message", "-p", "#{pid}"])
    }

    fn until_shows(&self, words: &str) {
        until(words, || {
            let shown = self.tmux(&["capture-pane", "-p", "-J", "-t", &self.session]);
            shown.contains(words).then_some(())
        });
    }
}

/// Prints hello, waits, prints more, and hands over.
const SAYS_HELLO: &str = r#"cat > /dev/null
root=$CALLBOARD_PROJECT_ROOT
say() { "$CALLBOARD" call mcp__task__update_status "{\"status\": \"$1\"}" --toolsets crew > /dev/null; }
say IN_PROGRESS
echo 'hello from the worker'
echo $$ > "$root/begun"
read -r word < "$root/go"
echo 'one more line'
echo $$ > "$root/begun"
read -r word < "$root/go"
say REVIEW
"#;

fn a_worker_is_seen(schema: Option<Schema>) {
    let site = Site::open(schema, SAYS_HELLO, "executor");
    let folder = site.folder.path();
    let agent = site.begun();
    let terminal = until("a terminal", || site.terminal());
    assert_eq!(terminal.session, "worker-1-session");
    assert_eq!(site.status()["tmuxSessionName"], "worker-1-session");
    assert_eq!(
        site.execute("boss", "mcp__agent__get_status", json!({}))["tmuxSessionName"],
        json!(null)
    );
    let printed = |arguments: &[&str]| {
        let ran = command(folder).args(arguments).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let task = site.status()["currentTaskId"].as_str().unwrap().to_owned();
    for listed in [printed(&["agent", "list"]), printed(&["task", "show", &task])] {
        assert!(listed.contains(&terminal.attach), "{listed}");
    }
    let mode = fs::metadata(terminal.socket.parent().unwrap()).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    terminal.until_shows("hello from the worker");
    site.go();
    site.begun();
    terminal.until_shows("one more line");
    // Typed input goes nowhere; Ctrl-C ends nothing.
    terminal.tmux(&["send-keys", "-t", &terminal.session, "C-c"]);
    terminal.tmux(&["send-keys", "-t", &terminal.session, "-l", "--", "$(touch typed)"]);
    terminal.tmux(&["send-keys", "-t", &terminal.session, "Enter"]);
    terminal.until_shows("$(touch typed)");
    assert_eq!(cli(folder, &["task", "show", &task])["told"], json!([]));
    let server = terminal.server();
    assert!(is_running(&server) && is_running(&agent));
    site.go();
    until("the terminal is gone", || site.status()["tmuxSessionName"].is_null().then_some(()));
    assert!(!is_running(&server) && !is_running(&agent), "nothing is left");
    assert_eq!(site.sockets(), Vec::<String>::new());
    until("it is handed over", || (site.status()["state"] == "WAITING").then_some(()));
    let log = printed(&["logs", &task]);
    assert!(log.contains("hello from the worker") && log.contains(&terminal.attach), "{log}");
}

#[test]
fn a_worker_is_seen_in_a_terminal_that_ends_with_its_run() {
    if has_tmux() {
        a_worker_is_seen(None);
    }
}

#[test]
fn a_worker_is_seen_in_a_terminal_that_ends_with_its_run_on_postgres() {
    if let Some(schema) = Schema::new().filter(|_| has_tmux()) {
        a_worker_is_seen(Some(schema));
    }
}

#[test]
fn a_terminal_ends_with_a_server_that_is_killed_and_the_next_run_has_its_own() {
    if !has_tmux() {
        return;
    }
    let mut site = Site::open(None, SAYS_HELLO, "executor");
    site.begun();
    let terminal = until("a terminal", || site.terminal());
    let server = terminal.server();
    site.kill_server();
    until("tmux has ended by itself", || (!is_running(&server)).then_some(()));
    site.serve();
    site.begun();
    let next = until("another terminal", || site.terminal());
    assert_ne!(next.socket, terminal.socket);
    assert_eq!(site.sockets().len(), 1, "what the killed server left was removed");
    next.until_shows("hello from the worker");
    let server = next.server();
    cli(site.folder.path(), &["agent", "rm", "worker-1"]);
    until("it is stopped", || (!is_running(&server)).then_some(()));
    until("its socket is gone", || site.sockets().is_empty().then_some(()));
}

/// Asks the tmux server that shows it to write where it may not write itself.
const ASKS_TMUX: &str = r#"cat > /dev/null
root=$CALLBOARD_PROJECT_ROOT
echo stray > "$root/stray" && exit 9
for socket in "$root"/callboard-*/tmux; do
    tmux -S "$socket" run-shell "echo stray > '$root/stray'; echo x > '$PWD/asked'; tmux -S '$socket' wait-for -S asked"
    tmux -S "$socket" wait-for asked
done
"$CALLBOARD" call mcp__task__update_status '{"status": "IN_PROGRESS"}' --toolsets crew > /dev/null
"$CALLBOARD" call mcp__task__update_status '{"status": "REVIEW"}' --toolsets crew > /dev/null
"#;

#[test]
fn tmux_lets_no_agent_out_of_its_sandbox() {
    if !has_tmux() {
        return;
    }
    let site = Site::open(None, ASKS_TMUX, "auto");
    until("it is handed over", || (site.status()["state"] == "WAITING").then_some(()));
    let worktrees = fs::read_dir(site.at(".callboard/worktrees")).unwrap();
    let place = worktrees.map(|entry| entry.unwrap().path()).next().unwrap();
    assert!(place.join("asked").exists(), "tmux was asked");
    assert!(!site.at("stray").exists());
}

#[test]
fn without_tmux_nothing_is_started() {
    let folder = board();
    let executor = repository_of(folder.path(), "true\n");
    let settings = format!("[crew]\nexecutor = \"mine\"\nterminal = \"tmux\"\n\n{executor}");
    fs::write(folder.path().join(".callboard/config.local.toml"), settings).unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let ran = command(folder.path()).arg("worker").env("PATH", &empty).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!ran.status.success());
    assert!(said.contains("crew.terminal is tmux") && said.contains("install tmux"), "{said}");
    // A command that starts no agents needs no tmux.
    let listed =
        command(folder.path()).args(["task", "list"]).env("PATH", &empty).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
}
