//! Agents that speak the Agent Client Protocol, played by shell scripts that read a line and write
//! a line.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use callboard_domain::relay::{FailReason, RunVerdict};
use callboard_engine::ports::{AgentRunner, Answer, Asks, Question, RunOrder, RunReport};
use callboard_runner::{ExecutorKind, ExecutorSettings, LocalAgents};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, DIFF, answer, assert_failed, assert_succeeded};

/// Answers the handshake, opens a session, reads the prompt.
pub(super) const OPENING: &str = r#"
    read -r hello
    echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
    read -r new
    echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}'
    read -r prompt
"#;

pub(super) const END: &str = r#"
    echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}'
    read -r nothing
"#;

fn update(update: Value) -> String {
    let params = json!({"sessionId": "s1", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

/// The answer in two pieces with a tool call between them.
fn updates() -> String {
    let whole = answer(DIFF);
    let (first, second) = whole.split_at(40);
    let chunk = |text: &str| {
        let content = json!({"type": "text", "text": text});
        update(json!({"sessionUpdate": "agent_message_chunk", "content": content}))
    };
    let tool = json!({
        "sessionUpdate": "tool_call", "toolCallId": "t0", "title": "Read a.txt", "kind": "read"
    });
    [chunk("Let me look."), update(tool), chunk(first), chunk(second)].join("\n") + "\n"
}

pub(super) fn permission(tool: Value) -> String {
    let options = json!([
        {"optionId": "yes-always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"}
    ]);
    let params = json!({"sessionId": "s1", "toolCall": tool, "options": options});
    let method = "session/request_permission";
    json!({"jsonrpc": "2.0", "id": "p1", "method": method, "params": params}).to_string()
}

pub(super) fn agent(bed: &Bed, lines: &str) -> ExecutorSettings {
    fs::write(bed.file("updates"), updates()).expect("writes");
    ExecutorSettings { kind: ExecutorKind::Acp, ..bed.script(lines) }
}

/// Records each question; answers when permitted.
pub(super) struct Desk {
    answer: Answer,
    asked: Mutex<Vec<Question>>,
    ask_seen: Notify,
    pub(super) may_answer: Notify,
}

impl Desk {
    pub(super) fn new(answer: Answer) -> Arc<Self> {
        let (asked, ask_seen, may_answer) = Default::default();
        Arc::new(Self { answer, asked, ask_seen, may_answer })
    }

    pub(super) fn asked(&self) -> Vec<Question> {
        self.asked.lock().expect("no test panics with it").clone()
    }
}

#[async_trait]
impl Asks for Desk {
    async fn ask(&self, question: Question) -> Answer {
        self.asked.lock().expect("no test panics with it").push(question);
        self.ask_seen.notify_one();
        self.may_answer.notified().await;
        self.answer
    }
}

async fn run(bed: &Bed, agent: ExecutorSettings, desk: Arc<Desk>) -> RunReport {
    let agents = LocalAgents::new(bed.settings(agent));
    agents.run(bed.order(bed.spec(&[])), desk, CancellationToken::new()).await
}

#[tokio::test]
async fn the_turn_is_the_answer() {
    let bed = Bed::new();
    let lines = format!("{OPENING} cat \"$BED/updates\"; echo \"$hello $new $prompt\" >&2; {END}");
    let report = run(&bed, agent(&bed, &lines), Desk::new(Answer::Refused)).await;
    assert_succeeded(&report);
    assert_eq!(report.patch.as_deref(), Some(DIFF));
    for part in [
        r#""protocolVersion":1"#,
        r#""mcpServers":[]"#,
        "# Output Requirements",
        "[tool] Read a.txt",
    ] {
        assert!(report.logs.contains(part), "{part} in {}", report.logs);
    }
    assert!(bed.left_behind().is_empty());
}

#[tokio::test]
async fn leave_is_given_refused_or_asked_for() {
    let table = [
        (json!({"kind": "read", "title": "Read"}), "yes", 0),
        (json!({"kind": "edit", "title": "Write a.txt"}), "no", 0),
        (json!({"kind": "execute", "rawInput": {"command": "git log -3"}}), "yes", 0),
        (json!({"kind": "execute", "rawInput": {"command": ["ls", "-l"]}}), "yes", 0),
        (json!({"kind": "execute", "rawInput": {"command": "make test"}}), "no", 1),
        (json!({"kind": "fetch", "title": "Fetch a page"}), "no", 1),
        // Announced as an edit before; the request leaves the kind out.
        (json!({"toolCallId": "t9"}), "no", 0),
        // Announced without its command, which came later.
        (json!({"toolCallId": "t8"}), "yes", 0),
    ];
    for (tool, option, questions) in table {
        let bed = Bed::new();
        let announced = json!({"sessionUpdate": "tool_call", "toolCallId": "t9", "kind": "edit"});
        let vague = json!({"sessionUpdate": "tool_call", "toolCallId": "t8", "title": "shell"});
        let clearer = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "t8", "title": "git log",
            "kind": "execute", "rawInput": {"command": "git log"}
        });
        let told = [announced, vague, clearer].map(update).join("\n");
        let asks = format!("{told}\n{}\n", permission(tool.clone()));
        let lines = format!(
            "{OPENING} cat \"$BED/asks\"; read -r answer; echo \"$answer\" >&2\n\
             cat \"$BED/updates\"; {END}"
        );
        let desk = Desk::new(Answer::Refused);
        desk.may_answer.notify_one();
        let agent = agent(&bed, &lines);
        fs::write(bed.file("asks"), asks).expect("writes");
        let report = run(&bed, agent, desk.clone()).await;
        assert_succeeded(&report);
        let chosen = format!(r#""outcome":"selected","optionId":"{option}""#);
        assert!(report.logs.contains(&chosen), "{tool}: {}", report.logs);
        assert_eq!(desk.asked().len(), questions, "{tool}");
        assert!(report.logs.contains("[tool] shell\n[tool] git log\n"), "{}", report.logs);
    }
}

/// Opens a session with a choice of options, and prints the given lines.
fn choosing(options: &Value) -> String {
    let new = json!({"jsonrpc": "2.0", "id": 2, "result": {
        "sessionId": "s1", "configOptions": options
    }});
    OPENING.replace(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}"#, &new.to_string())
}

#[tokio::test]
async fn the_model_is_chosen_in_the_session() {
    let mode = json!({"id": "mode", "category": "mode", "options": [{"value": "any"}]});
    let among = |values: Value| json!([mode, {"id": "m", "category": "model", "options": values}]);
    let flat = among(json!([{"value": "other"}, {"value": "any"}]));
    let grouped = among(json!([{"group": "g", "options": [{"value": "any"}]}]));
    let strange = among(json!([{"value": "other"}]));
    // One more line is read where the choice is a separate request.
    let answers = r#"
        echo '{"jsonrpc":"2.0","id":3,"result":{"configOptions":[]}}'
        choice="$prompt"; read -r prompt
    "#;
    let table = [
        (&flat, answers, r#""sessionId":"s1","configId":"m","value":"any""#),
        (&grouped, answers, r#""sessionId":"s1","configId":"m","value":"any""#),
        (&strange, "", "[model] the agent does not offer the model any"),
        (&json!([]), "", "[model] the agent does not offer the model any"),
    ];
    for (options, lines, words) in table {
        let bed = Bed::new();
        let end = if lines.is_empty() { END.into() } else { END.replace(r#""id":3"#, r#""id":4"#) };
        let lines = format!(
            "{} {lines} echo \"$choice\" >&2; cat \"$BED/updates\"; {end}",
            choosing(options)
        );
        let agent = ExecutorSettings { models: vec!["any".into()], ..agent(&bed, &lines) };
        let report = run(&bed, agent, Desk::new(Answer::Refused)).await;
        assert_succeeded(&report);
        assert!(report.logs.contains(words), "{options}: {}", report.logs);
    }
}

#[tokio::test]
async fn a_model_in_the_command_is_not_chosen_again() {
    let bed = Bed::new();
    let options = json!([{"id": "m", "category": "model", "options": [{"value": "any"}]}]);
    let lines = format!("{} cat \"$BED/updates\"; echo \"$1\" >&2; {END}", choosing(&options));
    let mut agent = ExecutorSettings { models: vec!["any".into()], ..agent(&bed, &lines) };
    agent.command.push("--model={model}".into());
    let report = run(&bed, agent, Desk::new(Answer::Refused)).await;
    assert_succeeded(&report);
    assert!(report.logs.contains("--model=any"), "{}", report.logs);
}

#[tokio::test]
async fn waiting_for_an_answer_costs_no_time() {
    let bed = Bed::new();
    let lines = format!("{OPENING} cat \"$BED/asks\"; read -r answer; cat \"$BED/updates\"; {END}");
    let agent = agent(&bed, &lines);
    let tool =
        json!({"kind": "execute", "title": "Run tests", "rawInput": {"command": "make test"}});
    fs::write(bed.file("asks"), permission(tool) + "\n").expect("writes");
    let desk = Desk::new(Answer::Granted);
    let limit = Duration::from_secs(60);
    let order = RunOrder { timeout: limit, ..bed.order(bed.spec(&[])) };
    let agents = LocalAgents::new(bed.settings(agent));
    let answers = async {
        desk.ask_seen.notified().await;
        // Longer than the whole run may take, by the run's own clock.
        tokio::time::pause();
        tokio::time::advance(2 * limit).await;
        tokio::time::resume();
        desk.may_answer.notify_one();
    };
    let running = agents.run(order, desk.clone(), CancellationToken::new());
    let (report, ()) = tokio::join!(running, answers);
    assert_succeeded(&report);
    let question =
        Question { text: "Run tests: make test".into(), command: Some("make test".into()) };
    assert_eq!(desk.asked(), [question]);
    assert!(report.logs.contains("[granted] Run tests"), "{}", report.logs);
}

#[tokio::test]
async fn a_stopped_session_is_told_and_waits_for_nobody() {
    let bed = Bed::new();
    let lines = format!(
        "{OPENING} cat \"$BED/asks\"; read -r answer; echo \"$answer\" >&2
         read -r cancel; echo \"$cancel\" >&2
         echo '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"stopReason\":\"cancelled\"}}}}'"
    );
    let agent = agent(&bed, &lines);
    let tool = json!({"kind": "execute", "rawInput": {"command": "make test"}});
    fs::write(bed.file("asks"), permission(tool) + "\n").expect("writes");
    let (desk, stop) = (Desk::new(Answer::Granted), CancellationToken::new());
    let mut settings = bed.settings(agent);
    settings.kill_grace = Duration::from_secs(60);
    let agents = LocalAgents::new(settings);
    let stops = async {
        desk.ask_seen.notified().await;
        stop.cancel();
    };
    let running = agents.run(bed.order(bed.spec(&[])), desk.clone(), stop.clone());
    let (report, ()) = tokio::join!(running, stops);
    assert_eq!(report.verdict, RunVerdict::Stopped);
    assert!(report.logs.contains("session/cancel"), "{}", report.logs);
    assert!(report.logs.contains(r#""optionId":"no""#), "{}", report.logs);
}

#[tokio::test]
async fn an_agent_that_errs_hangs_up_or_refuses_is_an_executor_error() {
    let auth = r#"read -r hello
        echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Authentication required"}}'
        read -r nothing"#;
    let refusal = END.replace("end_turn", "refusal");
    let table = [
        (auth.to_owned(), "Authentication required"),
        (
            format!("{OPENING} echo 'out of memory' >&2; exit 4"),
            "exited with code 4: out of memory",
        ),
        (format!("{OPENING} {refusal}"), "ended its turn with refusal"),
    ];
    for (lines, words) in table {
        let bed = Bed::new();
        let report = run(&bed, agent(&bed, &lines), Desk::new(Answer::Refused)).await;
        assert_failed(&report, FailReason::ExecutorError, words);
    }
}

/// The beginning of the text is dropped, and the answer is read from the end.
#[tokio::test]
async fn an_agent_that_talks_for_long_still_gives_its_answer() {
    let bed = Bed::new();
    let text = format!("{}\n", "x".repeat(999));
    let content = json!({"type": "text", "text": text});
    let chunk = update(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    let tool = update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read", "kind": "read",
        "content": [{"type": "diff", "path": "a.txt", "newText": "y".repeat(1000)}]
    }));
    fs::write(bed.file("flood"), format!("{chunk}\n{tool}\n").repeat(1000)).expect("writes");
    let lines = format!("{OPENING} cat \"$BED/flood\" \"$BED/updates\"; {END}");
    let mut settings = bed.settings(agent(&bed, &lines));
    settings.artifact_bytes_max = 100_000;
    let agents = LocalAgents::new(settings);
    let desk = Desk::new(Answer::Refused);
    let report = agents.run(bed.order(bed.spec(&[])), desk, CancellationToken::new()).await;
    assert_succeeded(&report);
    assert_eq!(report.patch.as_deref(), Some(DIFF));
}
