//! An epic from its first task to its pull request, with workers that Callboard starts: concurrent, killed, sent back,
//! told to rebase, and under a server that is killed as well. No commit is lost.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::crew::cli;
use crate::http::{Server, agent};
use crate::peer::{CALLBOARD, board, command, git, is_running, repository_of, until_exists};
use crate::schema::Schema;

struct Site {
    folder: tempfile::TempDir,
    server: Option<Server>,
    epic: String,
    /// Dropped last, after the server that uses it.
    _schema: Option<Schema>,
}

impl Site {
    /// A repository with an epic, whose workers run this script.
    fn open(schema: Option<Schema>, script: &str, settings: &str) -> Self {
        let store = schema.as_ref().map(|schema| format!("[store]\nurl = {:?}\n", schema.url()));
        let (folder, epic) = (board(), String::new());
        let mut site = Self { folder, server: None, epic, _schema: schema };
        let executor = repository_of(site.folder.path(), script);
        let settings = format!(
            "{settings}\n{}[crew]\nexecutor = \"mine\"\n\n[execution]\nsweep_interval_sec = 1\n\n\
             {executor}",
            store.unwrap_or_default()
        );
        fs::write(site.at(".callboard/config.local.toml"), settings).unwrap();
        let epic = cli(site.folder.path(), &["epic", "add", "Users"]);
        site.epic = epic["id"].as_str().unwrap().to_owned();
        let lead = ["agent", "add", "boss", "--type", "SUPERVISOR", "--epic", &site.epic];
        cli(site.folder.path(), &lead);
        site.serve();
        site
    }

    fn serve(&mut self) {
        let mut serve = command(self.folder.path());
        serve.args(["serve", "--listen", "127.0.0.1:0"]).stderr(Stdio::null());
        self.server = Some(Server::over(serve));
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(self.folder.path(), arguments)
    }

    /// Calls a tool as the supervisor.
    fn boss(&self, tool: &str, input: Value) -> Value {
        let url = &self.server.as_ref().unwrap().url;
        let body = json!({"agentId": "boss", "toolName": tool, "input": input});
        let mut answer =
            agent().post(format!("{url}/mcp/execute")).send_json(&body).expect("an answer");
        let answer: Value = answer.body_mut().read_json().unwrap();
        assert_eq!(answer["success"], true, "{tool}: {answer}");
        answer["data"].clone()
    }

    fn add(&self, title: &str) -> String {
        let input = json!({"title": title, "description": "As asked."});
        self.boss("mcp__epic__create_task", input)["taskId"].as_str().unwrap().to_owned()
    }

    fn task(&self, task: &str) -> Value {
        let all = self.boss("mcp__epic__list_tasks", json!({}));
        let tasks = all["tasks"].as_array().unwrap();
        tasks.iter().find(|it| it["id"] == task).expect("it is one of the epic's").clone()
    }

    fn until(&self, task: &str, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let seen = self.task(task);
            if seen["state"] == state {
                return seen;
            }
            let says = || fs::read_to_string(self.at("says")).unwrap_or_default();
            assert_ne!(seen["state"], "FAILED", "{seen} {}", says());
            assert!(begun.elapsed() < Duration::from_secs(90), "not {state}: {seen} {}", says());
            std::thread::yield_now();
        }
    }

    /// The process that left this mark.
    fn marked(&self, name: &str) -> String {
        until_exists(&self.at(name));
        fs::read_to_string(self.at(name)).unwrap().trim().to_owned()
    }
}

/// Each round of a worker, by its prompt. `One` is killed in its first run; `Two` survives a change request, the death
/// of its server, and a rebase.
const WORKER: &str = r#"prompt=$(cat)
root=$CALLBOARD_PROJECT_ROOT
exec 2>> "$root/says"
say() {
    answer=$("$CALLBOARD" call mcp__task__update_status "{\"status\": \"$1\"}" --toolsets crew)
    case $(printf %s "$answer" | tr -d ' \n') in *'"success":true'*) ;; *) echo "$answer" >&2; exit 6 ;; esac
}
keep() {
    echo "$2" >> "$1" && git add "$1" && git commit -qm "$2" && git rev-parse HEAD >> "$root/commits"
}
mark() { echo $$ > "$root/$1.new" && mv "$root/$1.new" "$root/$1"; }
goes_on() {
    case $prompt in *'This is a continuation'*) ;; *) echo 'nobody says that it goes on' >&2; exit 8 ;; esac
    git log --format=%s | grep -qx "$1" || { echo "$1 is gone" >&2; exit 9; }
}
case $prompt in
*'It is REVIEW'*)
    base=$(printf '%s\n' "$prompt" | sed -n 's/^- It goes to: //p')
    git rebase -q "$base" || exit 10
    mark rebased ;;
*'Where are the tests?'*)
    if [ "$CALLBOARD_ATTEMPT" = 1 ]; then
        keep tests.txt 'the tests'
        mark again
        exec sleep 600
    fi
    goes_on 'the tests'
    keep tests.txt 'more tests'
    say REVIEW ;;
*)
    say IN_PROGRESS
    mark "begun-$CALLBOARD_TASK_TITLE"
    until [ -s "$root/begun-One" ] && [ -s "$root/begun-Two" ]; do sleep 0.02; done
    if [ "$CALLBOARD_TASK_TITLE" = One ] && [ "$CALLBOARD_ATTEMPT" = 1 ]; then
        keep one.txt 'one, begun'
        echo unsaved > notes.txt
        mark crashes
        exec sleep 600
    fi
    if [ "$CALLBOARD_TASK_TITLE" = One ]; then
        goes_on 'one, begun'
        keep notes.txt 'one, finished'
    else
        keep two.txt two
    fi
    say REVIEW ;;
esac
"#;

/// The marks lie outside the worktrees, where a confined agent may not write.
const FREE: &str = "[relay]\nsandbox = \"executor\"\nstale_hold_s = 0\n";

#[test]
fn an_epic_from_its_first_task_to_its_pull_request() {
    an_epic_is_worked_on(None);
}

#[test]
fn an_epic_from_its_first_task_to_its_pull_request_on_postgres() {
    if let Some(schema) = Schema::new() {
        an_epic_is_worked_on(Some(schema));
    }
}

fn an_epic_is_worked_on(schema: Option<Schema>) {
    let script = WORKER.replace("$CALLBOARD\"", &format!("{CALLBOARD}\""));
    let mut site = Site::open(schema, &script, FREE);
    let (one, two) = (site.add("One"), site.add("Two"));
    // Both are at work before either goes on.
    let killed = site.marked("crashes");
    kill_process(Pid::from_raw(killed.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    site.until(&two, "REVIEW");
    let seen = site.until(&one, "REVIEW");
    assert_eq!(seen["assignedAgentId"], "worker-1", "{seen}");
    assert!(!is_running(&killed));
    let feedback = json!({"taskId": two, "feedback": "Where are the tests?"});
    site.boss("mcp__epic__request_changes", feedback);
    let orphan = site.marked("again");
    let server = site.server.as_mut().unwrap();
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    site.serve();
    site.until(&two, "REVIEW");
    assert!(!is_running(&orphan), "two agents in one worktree");
    let approved = site.boss("mcp__epic__approve_pr", json!({"taskId": one}));
    assert_eq!(approved["message"], "PR merged successfully. 1 rebase requests sent.");
    site.marked("rebased");
    let approved = site.boss("mcp__epic__approve_pr", json!({"taskId": two}));
    assert_eq!(approved["merged"], true, "{approved}");
    let epic_branch =
        site.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/callboard/epic-*"]);
    let commits = fs::read_to_string(site.at("commits")).unwrap();
    let commits: Vec<&str> = commits.lines().collect();
    assert_eq!(commits.len(), 5, "{commits:?}");
    for commit in commits {
        let patch = site.git(&["show", "--format=%s", "--unified=0", commit]);
        let file = patch.lines().find_map(|line| line.strip_prefix("+++ b/")).expect("a file");
        let kept = site.git(&["show", &format!("{epic_branch}:{file}")]);
        let added = patch.lines().filter(|line| !line.starts_with("+++"));
        for line in added.filter_map(|line| line.strip_prefix('+')) {
            assert!(kept.lines().any(|it| it == line), "{line} of {commit} is not in {kept}");
        }
    }
    let titles = site.git(&["log", "--format=%s", "--reverse", &format!("main..{epic_branch}")]);
    assert_eq!(titles, "One\nTwo");
    let finished = site.boss("mcp__epic__create_epic_pr", json!({}));
    assert_eq!(finished["state"], "COMPLETED", "{finished}");
    let agents = cli(site.folder.path(), &["agent", "list"]);
    let states: Vec<_> =
        agents["items"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["IDLE", "IDLE", "IDLE"], "{agents}");
}

/// The worker talks through its own door, as a confined process.
const ASKS_ITSELF: &str = r#"cat > /dev/null
echo hello > hello.txt && git add hello.txt && git commit -qm 'Add hello' || exit 1
echo stray > "$CALLBOARD_PROJECT_ROOT/stray" && exit 9
command=$(sed 's/.*"command":"\([^"]*\)".*/\1/' "$1")
eval "set -- $(sed 's/.*"args":\[\([^]]*\)\].*/\1/; s/,/ /g' "$1")"
hello='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}'
ready='{"jsonrpc":"2.0","method":"notifications/initialized"}'
tell() {
    call='{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'$1'","arguments":'$2'}}'
    shift 2
    printf '%s\n' "$hello" "$ready" "$call" | "$command" "$@"
}
tell mcp__task__update_status '{"status":"IN_PROGRESS"}' "$@"
tell mcp__task__update_status '{"status":"REVIEW"}' "$@"
tell mcp__mail__send '{"toAgentId":"boss","subject":"Done","body":"Look-at-it"}' "$@"
"#;

#[test]
fn a_confined_worker_hands_over_through_its_own_server() {
    let site = Site::open(None, ASKS_ITSELF, "");
    let task = site.add("Say hello");
    let seen = site.until(&task, "REVIEW");
    assert_eq!(seen["prUrl"], "callboard://pr/1", "{seen}");
    assert!(!site.at("stray").exists());
    let begun = Instant::now();
    loop {
        let inbox = site.boss("mcp__mail__list_inbox", json!({}));
        let mails = inbox["mails"].as_array().unwrap();
        if let Some(mail) = mails.iter().find(|mail| mail["subject"] == "Done") {
            assert_eq!(mail["fromAgentId"], "worker-1");
            assert_eq!(mail["fromAgentType"], "WORKER");
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{inbox}");
    }
}
