//! The door of a run: what an agent that Callboard started reaches, with which rights and for how long. The store
//! itself is out of its reach, as far as the system confines the agent.

use std::fs;

use serde_json::{Value, json};

use crate::agents::{FREE, Shop, make, submit, wait_for};
use crate::http::{Server, agent, answer_of, call, modern};
use crate::peer::{CALLBOARD, Peer, board, command, reply};
use crate::schema::Schema;
use crate::skipped::skipped;

/// A run that the system must confine.
const CONFINED: (&str, &str) = ("CALLBOARD_RELAY_SANDBOX", "os");

/// Starts the task's agent; `false` where the kernel cannot confine it.
fn starts_confined(boss: &mut Peer, task: &str) -> bool {
    let started = submit(boss, task, "start_agent");
    if started.to_string().contains("relay.sandbox = os") {
        skipped("this kernel has no Landlock");
        return false;
    }
    assert_eq!(started["code"], "STARTED", "{started}");
    true
}

/// Lists in `found` every forbidden act that succeeded.
const TRIES_THE_STORE: &str = r#"cat > /dev/null
root=$CALLBOARD_PROJECT_ROOT
for file in "$root"/.callboard/callboard.db*; do
    (: >> "$file") 2> /dev/null && echo "opened ${file##*/}" >> found
done
(: > "$root/.callboard/callboard.db-new") 2> /dev/null && echo 'made a file' >> found
store() { env -u CALLBOARD_SERVER -u CALLBOARD_TOKEN_FILE "$CALLBOARD" "$@" >> said 2>&1; }
store call create '{"title": "Not mine"}' --toolsets graph --actor human:ana && echo 'called as ana' >> found
store task add 'Not mine' --actor human:ana && echo 'added as ana' >> found
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}' |
    store mcp --actor human:ana --lane admin && echo 'served as ana' >> found
"$CALLBOARD" call get_task "{\"task_id\": \"$CALLBOARD_TASK_ID\"}" --actor human:ana > seen 2>&1 || echo 'no door' >> found
echo tried >> found
echo '<complete/>'
"#;

#[test]
fn a_confined_agent_opens_no_store() {
    let shop =
        Shop::open(None, &TRIES_THE_STORE.replace("$CALLBOARD\"", &format!("{CALLBOARD}\"")));
    let mut boss = shop.server(&[CONFINED]);
    let task = make(&mut boss);
    if !starts_confined(&mut boss, &task) {
        return;
    }
    wait_for(&mut boss, &task, "REVIEW");
    let worktree = shop.at(".callboard/worktrees").join(&task);
    let read = |name: &str| fs::read_to_string(worktree.join(name)).unwrap();
    assert_eq!(read("found"), "tried\n", "{}", read("said"));
    let seen: Value = serde_json::from_str(&read("seen")).unwrap();
    assert_eq!(seen["task_id"], task, "the door is open");
    let all = boss.call("tasks_list", json!({})).unwrap();
    assert!(!all.to_string().contains("Not mine"), "{all}");
}

/// Talks to a server without tokens, as the local user, and then to its own board.
const POSTS_ELSEWHERE: &str = r#"cat > /dev/null
elsewhere() { env -u CALLBOARD_SERVER -u CALLBOARD_TOKEN_FILE "$CALLBOARD" "$@" --server "$ELSEWHERE" >> said 2>&1; }
elsewhere call create '{"title": "Not mine"}' --toolsets graph --actor human:ana && echo 'posted' >> found
"$CALLBOARD" call get_task "{\"task_id\": \"$CALLBOARD_TASK_ID\"}" > seen 2>&1 || echo 'no door' >> found
echo tried >> found
echo '<complete/>'
"#;

#[test]
fn a_confined_agent_posts_to_no_other_server() {
    let other = board();
    let server = Server::start(other.path());
    let script = POSTS_ELSEWHERE
        .replace("$CALLBOARD\"", &format!("{CALLBOARD}\""))
        .replace("$ELSEWHERE", &server.url);
    let shop = Shop::open(None, &script);
    let mut boss = shop.server(&[CONFINED]);
    let task = make(&mut boss);
    if !starts_confined(&mut boss, &task) {
        return;
    }
    wait_for(&mut boss, &task, "REVIEW");
    let worktree = shop.at(".callboard/worktrees").join(&task);
    let read = |name: &str| fs::read_to_string(worktree.join(name)).unwrap();
    let look = json!({"task_id": task, "include_logs": true});
    let seen = boss.call("get_task", look).unwrap();
    if seen.to_string().contains("no rules for ports") {
        skipped("this kernel has no rules for TCP ports");
        return;
    }
    assert_eq!(read("found"), "tried\n", "{}", read("said"));
    assert!(read("said").contains("ermission denied"), "{}", read("said"));
    let tasks = call(&agent(), &server.url, "human:ana", "list", &json!({}), "").unwrap().unwrap();
    assert!(!tasks.to_string().contains("Not mine"), "{tasks}");
}

/// Names programs in every place that it can write, and leaves a check's command that tries to write elsewhere.
const LEAVES_TRAPS: &str = r#"cat > /dev/null
root=$CALLBOARD_PROJECT_ROOT
own=$(git rev-parse --absolute-git-dir)
trap="touch $root/.callboard/filtered; cat"
git init -q --bare fake
git config -f fake/config core.bare false
git config -f fake/config filter.x.clean "$trap"
git config -f "$own/config.worktree" filter.x.clean "$trap"
echo '* filter=x' > .gitattributes
echo "touch $root/.callboard/checked" > tests.sh
echo "gitdir: $PWD/fake" > .git
echo '<complete/>'
"#;

/// The server commits, reads and checks an agent's leftovers, outside the agent's run.
#[test]
fn a_check_of_an_agents_work_writes_nothing_outside() {
    let shop = Shop::open(None, LEAVES_TRAPS);
    shop.git(&["config", "extensions.worktreeConfig", "true"]);
    let mut boss = shop.server(&[CONFINED]);
    let task = make(&mut boss);
    let cli = |args: &[&str]| {
        let output = command(shop.board.path()).args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    };
    assert_eq!(cli(&["task", "edit", &task, "--check", "sh tests.sh"]).0, Some(0));
    if !starts_confined(&mut boss, &task) {
        return;
    }
    wait_for(&mut boss, &task, "REVIEW");
    let (code, said) = cli(&["check", "run", &task]);
    assert_eq!(code, Some(6), "{said}");
    let (_, log) = cli(&["check", "log", &task, "0"]);
    assert!(log.contains("Permission denied") && log.contains("this check ran confined"), "{log}");
    for proof in ["filtered", "checked"] {
        assert!(!shop.at(".callboard").join(proof).exists(), "{proof}");
    }
    let branches = shop.git(&["branch", "--list", "callboard/*", "--format=%(refname:short)"]);
    let files = shop.git(&["ls-tree", "--name-only", branches.trim()]);
    assert!(files.contains("tests.sh"), "leftovers are committed on the task's branch: {files}");
}

/// Gathers everything that it can read of its own and of other processes.
const LOOKS_FOR_A_PASSWORD: &str = r#"cat > /dev/null
env > environment; stat -c %a "$1" "$CALLBOARD_TOKEN_FILE" > modes
cat "$1" > config; find "$TMPDIR" -type f -exec cat {} + > files 2> /dev/null
command=$(sed 's/.*"command":"\([^"]*\)".*/\1/' "$1")
eval "set -- $(sed 's/.*"args":\[\([^]]*\)\].*/\1/; s/,/ /g' "$1")"
mkfifo to from
"$command" "$@" < to > from &
exec 3> to 4< from; rm to from
echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}' >&3
read -r hello <&4
tr '\0' ' ' < /proc/$!/cmdline > server
cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\0' ' ' > arguments
cat /proc/[0-9]*/environ 2> /dev/null | tr '\0' '\n' > environments
echo "token: $(cat "$CALLBOARD_TOKEN_FILE")"
echo '{"jsonrpc":"2.0","method":"notifications/initialized"}' >&3
echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"request_review","arguments":{"task_id":"'$CALLBOARD_TASK_ID'","summary":"Done."}}}' >&3
read -r review <&4
exec 3>&-; wait
"#;

#[test]
fn an_agent_finds_no_password_of_the_store_on_postgres() {
    const PASSWORD: &str = "open-sesame-47";
    let Some(schema) = Schema::new() else { return };
    let url = schema.url().replacen('@', &format!(":{PASSWORD}@"), 1);
    let shop = Shop::open(None, LOOKS_FOR_A_PASSWORD);
    let mut boss = shop.server(&[CONFINED, ("CALLBOARD_STORE", &url)]);
    let task = make(&mut boss);
    if !starts_confined(&mut boss, &task) {
        return;
    }
    wait_for(&mut boss, &task, "REVIEW");
    let worktree = shop.at(".callboard/worktrees").join(&task);
    let read =
        |name: &str| String::from_utf8_lossy(&fs::read(worktree.join(name)).unwrap()).into_owned();
    assert_eq!(read("modes"), "600\n600\n");
    let server = read("server");
    assert!(server.contains(" mcp --server http://127.0.0.1:"), "{server}");
    assert!(read("arguments").contains(&server), "both ran then");
    assert!(read("environments").contains("CALLBOARD_TASK_ID="), "its own are there");
    for name in ["environment", "config", "files", "server", "arguments", "environments"] {
        assert!(!read(name).contains(PASSWORD), "{name}");
        assert!(!read(name).contains("CALLBOARD_STORE"), "{name}");
        assert!(!read(name).contains(schema.url()), "{name}");
    }
    let look = json!({"task_id": task, "include_logs": true, "include_review": true});
    let log = loop {
        let seen = boss.call("get_task", look.clone()).unwrap();
        let by = seen["review"]["by"].as_str().unwrap();
        assert!(by.starts_with("agent:mine-"), "{seen}");
        if let Some(log) = seen["logs"][0]["content"].as_str() {
            break log.to_owned();
        }
    };
    assert!(log.contains("token: [CALLBOARD_TOKEN]"), "{log}");
    drop(boss);
}

/// Sends a request to a door; returns the status and the tool's answer.
fn knock(
    url: &str,
    path: &str,
    token: &str,
    tool: &str,
    arguments: Value,
) -> (u16, Result<Value, Value>) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut request =
        modern(&agent(), &format!("{url}{path}"), "tools/call").header("Mcp-Name", tool);
    if !token.is_empty() {
        request = request.header("Authorization", format!("Bearer {token}"));
    }
    let mut response = request.send_json(&body).unwrap();
    let status = response.status().as_u16();
    (status, reply(&answer_of(&mut response).unwrap_or_default()))
}

#[test]
fn a_token_of_a_run_opens_one_task_until_the_run_ends() {
    let shop = Shop::open(None, "");
    let begun = shop.at("begun");
    let script = format!(
        "cat > /dev/null\necho \"$CALLBOARD_SERVER $(cat \"$CALLBOARD_TOKEN_FILE\")\" > {begun:?}\n\
         exec sleep 600\n"
    );
    fs::write(shop.at("agent.sh"), script).unwrap();
    let mut boss = shop.server(&[FREE]);
    let (task, other) = (make(&mut boss), make(&mut boss));
    assert_eq!(submit(&mut boss, &task, "start_agent")["code"], "STARTED");
    let [url, token] = shop.begun().try_into().unwrap();
    let own = json!({"task_id": task, "content": "mine"});
    let (status, written) = knock(&url, "/mcp", &token, "update_scratchpad", own.clone());
    assert_eq!(status, 200, "{written:?}");
    assert_eq!(written.unwrap()["success"], true);
    let others = [
        ("update_scratchpad", json!({"task_id": other, "content": "x"})),
        ("request_review", json!({"task_id": other, "summary": "x"})),
    ];
    for (tool, arguments) in others {
        let (_, no) = knock(&url, "/mcp/board", &token, tool, arguments);
        assert_eq!(no.unwrap_err()["code"], "SESSION_SCOPE_DENIED", "{tool}");
    }
    let (_, no) = knock(&url, "/mcp", &token, "tasks_create", json!({"title": "x"}));
    assert!(no.is_err(), "a worker makes no tasks: {no:?}");
    for path in ["/mcp/graph", "/mcp/board,graph"] {
        assert_eq!(knock(&url, path, &token, "create", json!({"title": "x"})).0, 403, "{path}");
    }
    let wrong =
        format!("{}{}", &token[..token.len() - 1], if token.ends_with('x') { 'y' } else { 'x' });
    for shown in ["", "nonsense", &wrong] {
        assert_eq!(knock(&url, "/mcp", shown, "update_scratchpad", own.clone()).0, 401, "{shown}");
    }
    for path in ["/", "/metrics", "/events", "/mcp/execute"] {
        let asked =
            agent().get(format!("{url}{path}")).header("Authorization", format!("Bearer {token}"));
        let status = asked.call().unwrap().status().as_u16();
        assert!([403, 404].contains(&status), "{path} is served: {status}");
    }
    assert_eq!(submit(&mut boss, &task, "stop_agent")["code"], "STOPPED");
    assert_eq!(knock(&url, "/mcp", &token, "update_scratchpad", own).0, 401, "the run is over");
}
