//! Agents that a person starts, watches and stops at a terminal: the output of `run`, `stop`, `job` and `logs` is true.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::agents::{FREE, Shop};
use crate::peer::{command, is_running};
use crate::schema::Schema;

const HANDS_OVER: &str = "cat > /dev/null\necho hello > hello.txt\necho '<complete/>'\n";

fn typed(shop: &Shop, arguments: &[&str]) -> Output {
    cli(shop, arguments).output().unwrap()
}

fn cli(shop: &Shop, arguments: &[&str]) -> std::process::Command {
    let mut cli = command(shop.board.path());
    // The agents of these tests write outside their worktree.
    cli.env("USER", "ana").env(FREE.0, FREE.1);
    if let Some(schema) = &shop.schema {
        cli.args(["--store", schema.url()]);
    }
    cli.args(arguments);
    cli
}

fn ok(shop: &Shop, arguments: &[&str]) -> String {
    let ran = typed(shop, arguments);
    assert!(ran.status.success(), "{arguments:?}: {}", words(&ran));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

fn json(shop: &Shop, arguments: &[&str]) -> Value {
    let with = [arguments, &["--json"]].concat();
    serde_json::from_str(&ok(shop, &with)).unwrap()
}

fn words(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Expects a refusal with this exit code; returns the output.
fn refused(shop: &Shop, code: i32, arguments: &[&str]) -> String {
    let ran = typed(shop, arguments);
    assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {}", words(&ran));
    words(&ran)
}

fn task(shop: &Shop, title: &str) -> String {
    ok(shop, &["task", "add", title])
}

fn label(shop: &Shop, task: &str) -> String {
    json(shop, &["task", "show", task])["status"].as_str().unwrap().to_owned()
}

/// A running server without a listener.
struct Worker(Child);

impl Worker {
    fn start(shop: &Shop) -> Self {
        let mut child = cli(shop, &["worker"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let up = lines.find(|line| line.as_ref().unwrap().contains("working"));
        assert!(up.is_some(), "the worker says that it works");
        std::thread::spawn(move || lines.count());
        Self(child)
    }

    fn signal(&mut self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.0.try_wait().unwrap().is_none() {
            self.signal(Signal::TERM);
        }
    }
}

#[test]
fn an_agent_that_is_not_installed_is_refused_at_once() {
    let shop = Shop::open(None, HANDS_OVER);
    let task = task(&shop, "Say hello");
    let said = refused(&shop, 3, &["run", &task, "--agent", "no-such-agent"]);
    assert!(said.contains("'no-such-agent' is not installed on this machine"), "{said}");
    assert!(said.contains("mine") && said.contains(&format!("callboard run {task} --agent ")));
    assert_eq!(ok(&shop, &["job", "list"]), "no jobs");
    let log = ok(&shop, &["log", &task]);
    assert!(!log.contains("task.updated"), "the task is as it was: {log}");
}

fn a_run_says_whether_something_starts_it(schema: Option<Schema>) {
    let shop = Shop::open(schema, HANDS_OVER);
    let [first, second, third] = ["1", "2", "3"].map(|title| task(&shop, title));
    let ran = typed(&shop, &["run", &first]);
    assert!(ran.status.success());
    let said = words(&ran);
    let nothing = "no process on this machine starts the job until callboard up, callboard serve";
    assert!(said.contains(nothing) && said.contains("--here"), "{said}");
    let mut worker = Worker::start(&shop);
    assert_eq!(json(&shop, &["run", &second])["runner"], true);
    ok(&shop, &["run", &first, "--wait"]);
    ok(&shop, &["run", &second, "--wait"]);
    worker.signal(Signal::KILL);
    assert_eq!(json(&shop, &["run", &third])["runner"], false, "it was killed");
    let mut worker = Worker::start(&shop);
    ok(&shop, &["run", &third, "--wait"]);
    worker.signal(Signal::TERM);
    let ran = typed(&shop, &["run", &third, "--json"]);
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(said["runner"], false, "it ended");
}

#[test]
fn a_run_says_whether_a_server_starts_it() {
    a_run_says_whether_something_starts_it(None);
}

#[test]
fn a_run_says_whether_a_server_starts_it_on_postgres() {
    if let Some(schema) = Schema::new() {
        a_run_says_whether_something_starts_it(Some(schema));
    }
}

#[test]
fn an_agent_runs_in_the_process_that_asked() {
    let shop = Shop::open(None, HANDS_OVER);
    let task = task(&shop, "Say hello");
    let ran = typed(&shop, &["run", &task, "--here"]);
    let said = words(&ran);
    assert!(ran.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("in_review"), "{ran:?}");
    assert!(
        said.contains("the agent works\n") && said.ends_with("the agent has ended\n"),
        "{said}"
    );
    let jobs = ok(&shop, &["job", "list"]);
    assert!(jobs.contains("SUCCEEDED") && jobs.contains(&format!("works on {task}")), "{jobs}");
}

#[test]
fn an_agent_in_this_process_ends_with_it() {
    let shop = Shop::open(None, "");
    let script = format!("cat > /dev/null\nsleep 1000 &\necho $! > {:?}\nwait\n", shop.at("begun"));
    fs::write(shop.at("agent.sh"), script).unwrap();
    let task = task(&shop, "Say hello");
    let mut run = cli(&shop, &["run", &task, "--here"]).stderr(Stdio::piped()).spawn().unwrap();
    let child = shop.begun()[0].clone();
    assert!(is_running(&child));
    kill_process(Pid::from_raw(run.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(!is_running(&child), "its processes ended with it");
    assert_eq!(label(&shop, &task), "backlog");
}

#[test]
fn a_start_that_fails_says_why() {
    let shop = Shop::open(None, HANDS_OVER);
    let program = shop.at("broken");
    fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let settings = fs::read_to_string(shop.at(".callboard/config.local.toml")).unwrap();
    let settings = format!("{settings}\n[executors.broken]\ncommand = [{program:?}]\n");
    fs::write(shop.at(".callboard/config.local.toml"), settings).unwrap();
    let task = task(&shop, "Say hello");
    let _worker = Worker::start(&shop);
    let said = refused(&shop, 1, &["run", &task, "--agent", "broken", "--wait"]);
    let reason = said.lines().find(|line| line.contains("NOT_HANDED_OVER"));
    let reason = reason.unwrap_or_else(|| panic!("{said}"));
    assert!(reason.contains("broken"), "{said}");
    let jobs = ok(&shop, &["job", "list"]);
    assert!(jobs.contains("FAILED") && jobs.contains("broken"), "{jobs}");
}

#[test]
fn a_task_that_is_held_or_closed_needs_a_flag() {
    let shop = Shop::open(None, HANDS_OVER);
    let [held, after] = ["held", "after"].map(|title| task(&shop, title));
    ok(&shop, &["task", "dep", "add", &after, &held]);
    ok(&shop, &["claim", &held, "--actor", "agent:w1"]);
    let said = refused(&shop, 5, &["run", &held]);
    assert!(said.contains("agent:w1") && said.contains(&format!("callboard run {held} --take")));
    let said = refused(&shop, 6, &["claim", &after]);
    assert!(said.contains(&format!("callboard claim {after} --anyway")), "{said}");
    ok(&shop, &["run", &held, "--take", "--here"]);
    ok(&shop, &["done", &held]);
    let said = refused(&shop, 5, &["run", &held]);
    assert!(said.contains("TASK_CLOSED"), "{said}");
    assert!(said.contains(&format!("callboard run {held} --reopen")), "{said}");
    let said = refused(&shop, 5, &["claim", &held]);
    assert!(said.contains(&format!("callboard claim {held} --anyway")), "{said}");
    ok(&shop, &["claim", &held, "--anyway"]);
    ok(&shop, &["claim", &after]);
    ok(&shop, &["run", &held, "--reopen", "--here"]);
    assert_eq!(label(&shop, &held), "in_review");
}

/// Makes the agent start a child and report its process id.
fn busy(shop: &Shop) {
    let script = format!("cat > /dev/null\nsleep 1000 &\necho $! > {:?}\nwait\n", shop.at("begun"));
    fs::write(shop.at("agent.sh"), script).unwrap();
}

fn an_agent_is_stopped(schema: Option<Schema>) {
    let shop = Shop::open(schema, "");
    busy(&shop);
    let task = task(&shop, "Say hello");
    let said = refused(&shop, 5, &["stop", &task]);
    assert!(said.contains("NOT_RUNNING"), "{said}");
    let queued = ok(&shop, &["run", &task]);
    assert_eq!(ok(&shop, &["stop", &queued]), "stopped", "no server is needed");
    let _worker = Worker::start(&shop);
    for verb in [&["stop"][..], &["job", "cancel"]] {
        let job = ok(&shop, &["run", &task]);
        let child = shop.begun()[0].clone();
        let whom = if verb.len() == 1 { &task } else { &job };
        ok(&shop, &[verb, &[whom]].concat());
        assert!(!is_running(&child), "{verb:?} ends the agent's children too");
        assert_eq!(label(&shop, &task), "backlog");
        let jobs = ok(&shop, &["job", "list", "--state", "canceled"]);
        assert!(jobs.contains(&job), "{jobs}");
        let said = refused(&shop, 5, &["job", "cancel", &job]);
        assert!(said.contains("CANCELED"), "{said}");
    }
}

#[test]
fn an_agent_is_stopped_with_its_processes() {
    an_agent_is_stopped(None);
}

#[test]
fn an_agent_is_stopped_with_its_processes_on_postgres() {
    if let Some(schema) = Schema::new() {
        an_agent_is_stopped(Some(schema));
    }
}

/// Reads what `logs -f` prints, line by line.
struct Following(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Following {
    fn start(shop: &Shop, arguments: &[&str]) -> Self {
        Self::of(cli(shop, arguments))
    }

    fn of(mut logs: std::process::Command) -> Self {
        let mut child = logs.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in self.1.by_ref() {
            seen.push(line.unwrap());
            if seen.last().is_some_and(|line| line == wanted) {
                return seen;
            }
        }
        panic!("{wanted} never came: {seen:?}");
    }
}

/// Makes the agent print two lines, report that, and go on when told to; and again after a third line.
fn prints_on_demand(shop: &Shop) {
    let (begun, go) = (shop.at("begun"), shop.at("go"));
    assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
    let script = format!(
        "cat > /dev/null\nprintf 'one\\ntwo\\n'\necho on > {begun:?}\nread -r word < {go:?}\n\
         echo three; echo on > {begun:?}\nread -r word < {go:?}\necho '<complete/>'\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
}

fn output_is_followed(schema: Option<Schema>) {
    let shop = Shop::open(schema, "");
    prints_on_demand(&shop);
    let task = task(&shop, "Say hello");
    let said = refused(&shop, 3, &["logs", &task]);
    assert!(said.contains(&format!("callboard run {task}")), "{said}");
    let _worker = Worker::start(&shop);
    let job = ok(&shop, &["run", &task]);
    shop.begun();
    let mut by_task = Following::start(&shop, &["logs", &task, "-f"]);
    let mut by_job = Following::start(&shop, &["logs", &job, "-f", "--tail", "1"]);
    assert_eq!(by_task.until("two"), ["one", "two"]);
    assert_eq!(by_job.until("two"), ["two"]);
    fs::write(shop.at("go"), "on\n").unwrap();
    shop.begun();
    // The agent waits, so these lines cannot come from its end. How soon they come depends on fixed pauses, which unit
    // tests of the writer and of the reader cover.
    by_task.until("three");
    by_job.until("three");
    fs::write(shop.at("go"), "on\n").unwrap();
    by_task.until("<complete/>");
    assert!(by_task.1.next().is_none() && by_task.0.wait().unwrap().success());
    assert!(by_job.0.wait().unwrap().success());
    let last = ok(&shop, &["logs", &task, "--tail", "1"]);
    assert_eq!(last, "<complete/>");
}

#[test]
fn a_queued_reviewer_does_not_hide_the_output_of_the_worker() {
    let shop = Shop::open(None, HANDS_OVER);
    let settings = fs::read_to_string(shop.at(".callboard/config.local.toml")).unwrap();
    let settings = settings.replace("auto_review = false", "auto_review = true");
    fs::write(shop.at(".callboard/config.local.toml"), settings).unwrap();
    let task = task(&shop, "Say hello");
    ok(&shop, &["run", &task, "--here"]);
    let waiting = json(&shop, &["job", "list", "--state", "queued"])["works"].clone();
    assert_eq!((&waiting[0]["role"], &waiting[1]), (&"reviewer".into(), &Value::Null), "{waiting}");
    let printed = ok(&shop, &["logs", &task]);
    assert!(printed.ends_with("<complete/>"), "{printed}");
}

#[test]
fn output_is_followed_while_the_agent_is_at_work() {
    output_is_followed(None);
}

#[test]
fn output_is_followed_while_the_agent_is_at_work_on_postgres() {
    if let Some(schema) = Schema::new() {
        output_is_followed(Some(schema));
    }
}

/// From a folder with another `.callboard`, as on another machine: only the store knows the run.
fn output_is_followed_through_the_store(schema: Option<Schema>) {
    let shop = Shop::open(schema, "");
    prints_on_demand(&shop);
    let task = task(&shop, "Say hello");
    let _worker = Worker::start(&shop);
    let job = ok(&shop, &["run", &task]);
    shop.begun();
    let elsewhere = crate::peer::board();
    let mut logs = command(elsewhere.path());
    let database = shop.at(".callboard/callboard.db").display().to_string();
    let store = shop.schema.as_ref().map_or(database.as_str(), |schema| schema.url());
    logs.args(["--store", store, "logs", &job, "-f"]);
    let mut followed = Following::of(logs);
    followed.until("two");
    fs::write(shop.at("go"), "on\n").unwrap();
    shop.begun();
    assert_eq!(followed.until("three"), ["three"], "before the agent goes on");
    fs::write(shop.at("go"), "on\n").unwrap();
    let rest = followed.until("<complete/>");
    assert_eq!(rest, ["<complete/>"], "each line once");
    assert!(followed.1.next().is_none() && followed.0.wait().unwrap().success());
}

#[test]
fn output_is_followed_through_the_store_where_its_file_is_not() {
    output_is_followed_through_the_store(None);
}

#[test]
fn output_is_followed_through_the_store_where_its_file_is_not_on_postgres() {
    if let Some(schema) = Schema::new() {
        output_is_followed_through_the_store(Some(schema));
    }
}

#[test]
fn a_verification_is_canceled_and_its_task_stays() {
    let shop = Shop::open(None, HANDS_OVER);
    let task = ok(&shop, &["task", "add", "Say hello", "--check", "true"]);
    ok(&shop, &["task", "move", &task, "in_review"]);
    ok(&shop, &["task", "verify", &task]);
    let jobs = json(&shop, &["job", "list"]);
    let job = jobs["others"][0]["id"].as_str().unwrap_or_else(|| panic!("{jobs}")).to_owned();
    assert!(ok(&shop, &["job", "list"]).contains(&format!("verifies {task}")));
    let said = refused(&shop, 5, &["stop", &job]);
    assert!(said.contains(&format!("callboard job cancel {job}")), "{said}");
    assert_eq!(ok(&shop, &["job", "cancel", &job]), "CANCELED");
    assert_eq!(label(&shop, &task), "in_review");
    assert_eq!(ok(&shop, &["job", "list"]), "no jobs");
    assert!(ok(&shop, &["job", "list", "--all"]).contains("CANCELED"));
}

/// An ACP agent that waits until its turn is interrupted, and prints the beginning of the next turn.
const IS_SPOKEN_TO: &str = r#"
read -r hello; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'
read -r new; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
read -r prompt
echo on > BEGUN
read -r cancel
case "$cancel" in *session/cancel*) ;; *) exit 4 ;; esac
echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}'
read -r message
case "$message" in *'from human:ana'*'Leave the tests alone'*) word=heard ;; *) word=missed ;; esac
printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"I '$word' it\n<complete/>"}}}}'
echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
read -r nothing
"#;

#[test]
fn an_acp_agent_is_told_at_once() {
    let shop = Shop::open(None, "");
    let script = IS_SPOKEN_TO.replace("BEGUN", &format!("{:?}", shop.at("begun")));
    fs::write(shop.at("agent.sh"), script).unwrap();
    let settings = fs::read_to_string(shop.at(".callboard/config.local.toml")).unwrap();
    fs::write(shop.at(".callboard/config.local.toml"), settings + "kind = \"acp\"\n").unwrap();
    let task = task(&shop, "Say hello");
    let _worker = Worker::start(&shop);
    let job = ok(&shop, &["run", &task]);
    shop.begun();
    assert_eq!(ok(&shop, &["tell", &task, "Leave the tests alone"]), "the agent has the message");
    let printed = ok(&shop, &["logs", &job, "-f"]);
    assert!(printed.contains("I heard it"), "{printed}");
    assert!(printed.contains("[told] A message from human:ana"), "{printed}");
    assert_eq!(label(&shop, &task), "in_review");
    let log = ok(&shop, &["log", &task]);
    assert!(log.contains("human:ana told the agent of P-1"), "{log}");
    assert!(log.contains("read the messages about P-1"), "{log}");
}

fn the_next_agent_is_told(schema: Option<Schema>) {
    let shop = Shop::open(schema, "");
    busy(&shop);
    let task = task(&shop, "Say hello");
    let worker = Worker::start(&shop);
    ok(&shop, &["run", &task]);
    shop.begun();
    let later = "the next agent that starts on the task gets the message";
    assert_eq!(ok(&shop, &["tell", &task, "Leave the tests alone"]), later);
    ok(&shop, &["stop", &task]);
    drop(worker);
    let shown = ok(&shop, &["task", "show", &task]);
    assert!(shown.contains("human:ana told its agent: Leave the tests alone"), "{shown}");
    assert!(shown.contains("waiting   human:ana to its agent: Leave the tests alone"), "{shown}");
    let script = "case \"$(cat)\" in\n\
        *'From human:ana: Leave the tests alone'*) echo '<complete/>' ;;\n\
        *) exit 3 ;;\nesac\n";
    fs::write(shop.at("agent.sh"), script).unwrap();
    ok(&shop, &["run", &task, "--here"]);
    assert_eq!(json(&shop, &["task", "show", &task])["told"], Value::Array(Vec::new()));
    refused(&shop, 1, &["run", &task, "--here"]);
    ok(&shop, &["task", "move", &task, "done"]);
    let said = refused(&shop, 5, &["tell", &task, "Too late"]);
    assert!(said.contains("TASK_CLOSED"), "{said}");
}

#[test]
fn undelivered_message_goes_to_next_agent() {
    the_next_agent_is_told(None);
}

#[test]
fn undelivered_message_goes_to_next_agent_on_postgres() {
    if let Some(schema) = Schema::new() {
        the_next_agent_is_told(Some(schema));
    }
}

/// The line that a process prints when it is asked to end while its agent is at work.
fn says_at_its_end(arguments: &[&str]) -> Option<String> {
    let shop = Shop::open(None, "");
    let (begun, go) = (shop.at("begun"), shop.at("go"));
    assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
    let script = format!(
        "cat > /dev/null\necho on > {begun:?}\nread -r word < {go:?}\necho '<complete/>'\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    ok(&shop, &["run", &task(&shop, "Say hello")]);
    let mut process = cli(&shop, arguments);
    process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    shop.begun();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let said = lines.find_map(|line| line.ok().filter(|line| line.contains("stopping")));
    if said.is_some() {
        // The pipe has no reader once the agent is stopped.
        fs::write(go, "on\n").unwrap();
    }
    assert!(child.wait().unwrap().success());
    said
}

#[test]
fn a_worker_says_what_its_end_waits_for() {
    let said = says_at_its_end(&["worker"]).expect("a line");
    let wanted = "stopping: waiting for 1 agent at work, at most ";
    assert!(said.starts_with(wanted), "{said}");
    assert!(said.ends_with(" s; a second Ctrl-C or SIGTERM stops at once"), "{said}");
}

#[test]
fn a_server_of_one_agent_says_what_its_end_waits_for() {
    let said = says_at_its_end(&["mcp", "--actor", "agent:me"]).expect("a line");
    assert!(said.starts_with("stopping: waiting for 1 agent at work, at most "), "{said}");
}
