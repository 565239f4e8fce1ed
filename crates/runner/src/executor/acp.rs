//! Runs an agent that speaks the Agent Client Protocol: one session in the worktree, one prompt, and the agent's text
//! in that turn is its answer. The rule of untrusted agents judges requests for permission, and a person is asked where
//! the rule says so.

use std::path::{Component, Path, PathBuf};

use callboard_domain::relay::ask::{AskVerdict, Leeway, Reach, ToolRequest, judge};
use callboard_domain::runs::notes::SessionNote;
use callboard_engine::ports::{Answer, Asks, Question, Saying};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::agent_output::AgentOutput;
use super::command::{Call, ended_as, failed, not_started};
use super::mcp;
use super::usage::Reported;
use super::wire::{Message, Wire};
use super::{ExecutorReport, Ran};
use crate::budget::Budget;
use crate::process::{Pipes, ProcessEnd, converse};
use crate::run_log::text_of;

/// The parties and rules around a conversation.
pub(crate) struct Company<'a> {
    pub(crate) asks: &'a dyn Asks,
    pub(crate) budget: &'a Budget,
    pub(crate) trusted: &'a [String],
    pub(crate) leeway: Leeway,
    /// The run's own folders.
    pub(crate) places: &'a [PathBuf],
}

pub(crate) async fn run(
    call: Call<'_>,
    company: Company<'_>,
    mut says: Option<mpsc::Receiver<Saying>>,
    stop: &CancellationToken,
) -> Ran {
    let executor = call.executor;
    let (prompt, workdir) = (call.prompt.clone(), call.workdir.display().to_string());
    let told = call.command.iter().any(|arg| arg.contains("{model}"));
    let model = if told { String::new() } else { call.model.to_owned() };
    let bytes_max = call.output_bytes_max;
    let servers = mcp::session_servers(call.server);
    let has_board = call.server.is_some();
    let mut heard = AgentOutput::new(bytes_max, call.leash.printed.clone());
    let mut reported = Reported::default();
    let talk = async |pipes: Pipes| {
        let wire = Wire::new(pipes, bytes_max);
        let (said, ack) = Default::default();
        let says = says.take();
        let (heard, reported, company) = (&mut heard, &mut reported, &company);
        let session = Session { wire, heard, reported, has_board, company, says, said, ack, stop };
        session.prompt(&prompt, &model, json!({"cwd": workdir, "mcpServers": servers})).await
    };
    let (turn, ended) = match converse(call.program(), stop, talk).await {
        Ok(conversed) => conversed,
        Err(error) => return not_started(executor, &error),
    };
    let stderr = text_of(&ended.stderr.ends());
    let exit = Some(ended_as(&ended.ending, ended.signal));
    let said = match (ended.ending, turn) {
        (ProcessEnd::Canceled | ProcessEnd::TimedOut, _) => ExecutorReport::Stopped,
        (ProcessEnd::Exited(_), Some(Ok(reason)))
            if reason == "refusal" || reason == "cancelled" =>
        {
            ExecutorReport::Failed(format!(
                "Executor '{}' ended its turn with {reason}",
                executor.name
            ))
        }
        (ProcessEnd::Exited(_), Some(Ok(_))) => ExecutorReport::Output(Ok(heard.answer())),
        (ProcessEnd::Exited(_), Some(Err(Broken::Error(words)))) => {
            ExecutorReport::Failed(format!("Executor '{}': {words}", executor.name))
        }
        (ProcessEnd::Exited(code), Some(Err(Broken::Gone)) | None) => {
            ExecutorReport::Failed(failed(executor, code, ended.signal, &stderr))
        }
    };
    Ran { said, stdout: heard.transcript(), stderr, usage: reported.usage(), exit }
}

enum Broken {
    /// The agent closed the connection.
    Gone,
    /// The agent's error message.
    Error(String),
}

struct Session<'a, 'c> {
    wire: Wire,
    heard: &'a mut AgentOutput,
    reported: &'a mut Reported,
    /// Whether the run has a connection to the board.
    has_board: bool,
    company: &'a Company<'c>,
    /// Messages to the agent while it works; `None` once the sender is gone.
    says: Option<mpsc::Receiver<Saying>>,
    /// The message that interrupted the turn; the next turn begins with it.
    said: Option<Saying>,
    /// Notified when the next request is sent.
    ack: Option<oneshot::Sender<()>>,
    stop: &'a CancellationToken,
}

impl Session<'_, '_> {
    /// Returns why the turn ended. `model` is selected if the agent offers it.
    async fn prompt(mut self, prompt: &str, model: &str, place: Value) -> Result<String, Broken> {
        let hello = json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false},
                "terminal": false
            },
            "clientInfo": {"name": "callboard", "version": env!("CARGO_PKG_VERSION")}
        });
        self.request("initialize", hello, None).await?;
        let session = self.request("session/new", place, None).await?;
        let id = session["sessionId"].as_str().map(str::to_owned);
        let id = id.ok_or_else(|| Broken::Error("session/new gave no sessionId".into()))?;
        if !model.is_empty() {
            self.choose(&id, model, &session["configOptions"]).await?;
        }
        let mut text = prompt.to_owned();
        loop {
            let wish = json!({"sessionId": id, "prompt": [{"type": "text", "text": text}]});
            let turn = self.request("session/prompt", wish, Some(&id)).await;
            if let Ok(answer) = &turn {
                self.reported.turn(answer);
            }
            let said = self.said.take().filter(|_| !self.stop.is_cancelled());
            match (turn, said) {
                // Some agents answer an interrupted turn with an error.
                (Ok(_) | Err(Broken::Error(_)), Some(saying)) => text = self.speak(saying),
                (turn, _) => {
                    return Ok(turn?["stopReason"].as_str().unwrap_or("end_turn").to_owned());
                }
            }
        }
    }

    /// The next prompt, also noted in the log.
    fn speak(&mut self, Saying { text, heard }: Saying) -> String {
        self.heard.end_line();
        self.heard.note(SessionNote::Told, &one_line(&Value::from(text.as_str())));
        self.ack = Some(heard);
        text
    }

    async fn choose(&mut self, id: &str, model: &str, options: &Value) -> Result<(), Broken> {
        let mut options = options.as_array().into_iter().flatten();
        let choice = options.find(|option| option["category"].as_str() == Some("model"));
        match choice {
            Some(choice) if offers(&choice["options"], model) => {
                let wish = json!({"sessionId": id, "configId": choice["id"], "value": model});
                self.request("session/set_config_option", wish, None).await?;
            }
            _ => {
                let words = format!("the agent does not offer the model {model}; it uses its own");
                self.heard.note(SessionNote::Model, &words);
            }
        }
        Ok(())
    }

    /// Sends a request and serves the agent until its answer is there. When the run is stopped, a `session` is notified
    /// and may still end its turn.
    async fn request(
        &mut self,
        method: &str,
        params: Value,
        session: Option<&str>,
    ) -> Result<Value, Broken> {
        let id = self.wire.request(method, params).await.ok_or(Broken::Gone)?;
        if let Some(ack) = self.ack.take() {
            let _ = ack.send(());
        }
        let mut told = false;
        loop {
            let message = tokio::select! {
                biased;
                () = self.stop.cancelled(), if !told => {
                    let Some(session) = session else { return Err(Broken::Gone) };
                    told = true;
                    let farewell = json!({"sessionId": session});
                    self.wire.notify("session/cancel", farewell).await.ok_or(Broken::Gone)?;
                    continue;
                }
                saying = next_of(&mut self.says), if session.is_some() && self.said.is_none() => {
                    // The current turn ends, and the next one begins with the message.
                    self.said = Some(saying);
                    let pause = json!({"sessionId": session});
                    self.wire.notify("session/cancel", pause).await.ok_or(Broken::Gone)?;
                    continue;
                }
                message = self.wire.next() => message.ok_or(Broken::Gone)?,
            };
            match message {
                Message::Answer { id: answered, result } if answered == id => {
                    return result.map_err(Broken::Error);
                }
                Message::Answer { .. } => {}
                Message::Notice { method, params } if method == "session/update" => {
                    self.reported.update(&params["update"]);
                    self.heard.update(&params["update"]);
                }
                Message::Notice { .. } => {}
                Message::Request { id, method, params } => {
                    let answer = match method.as_str() {
                        "session/request_permission" => Some(self.permission(&params).await),
                        _ => None,
                    };
                    self.wire.answer(id, answer).await.ok_or(Broken::Gone)?;
                }
            }
        }
    }

    async fn permission(&mut self, params: &Value) -> Value {
        let asked = &params["toolCall"];
        let id = asked["toolCallId"].as_str().unwrap_or_default();
        let known = self.heard.tool(id);
        let part = |name: &str| match &asked[name] {
            Value::Null => known[name].clone(),
            given => given.clone(),
        };
        let (title, command) = (one_line(&part("title")), command_in(&part("rawInput")));
        let Company { leeway, places, trusted, .. } = self.company;
        let reach = reach(places, &[part("locations"), part("content")]);
        let wish = match part("kind").as_str().unwrap_or_default() {
            "read" | "search" | "think" => ToolRequest::Read,
            "edit" | "delete" | "move" => ToolRequest::Write(reach),
            "execute" => ToolRequest::Run,
            "fetch" | "switch_mode" => ToolRequest::Other,
            _ if self.has_board && command.is_none() && is_of_board(&title) => ToolRequest::Board,
            _ => ToolRequest::Other,
        };
        let verdict = judge(*leeway, wish, command.as_deref(), trusted);
        let answer = match verdict {
            AskVerdict::Grant => Answer::Granted,
            AskVerdict::Refuse => Answer::Refused,
            AskVerdict::Ask => self.ask(&title, command).await,
        };
        let outcome = match answer {
            Answer::Granted => SessionNote::Granted,
            Answer::Refused => SessionNote::Refused,
        };
        self.heard.note(outcome, &title);
        chosen(&params["options"], answer)
    }

    /// Asks a person. A stopped run does not wait for the answer.
    async fn ask(&self, title: &str, command: Option<String>) -> Answer {
        let text = match &command {
            Some(command) if !title.contains(command.as_str()) => format!("{title}: {command}"),
            _ => title.to_owned(),
        };
        let _paused = self.company.budget.pause();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Answer::Refused,
            answer = self.company.asks.ask(Question { text, command }) => answer,
        }
    }
}

/// The next message; pending forever once the sender is gone.
async fn next_of(says: &mut Option<mpsc::Receiver<Saying>>) -> Saying {
    if let Some(hears) = says
        && let Some(saying) = hears.recv().await
    {
        return saying;
    }
    *says = None;
    std::future::pending().await
}

/// Whether the options offer a value. Some options are groups.
fn offers(options: &Value, value: &str) -> bool {
    let mut options = options.as_array().into_iter().flatten();
    options.any(|option| match &option["options"] {
        Value::Null => option["value"].as_str() == Some(value),
        group => offers(group, value),
    })
}

/// Whether the files that a tool call names are in these folders.
fn reach(places: &[PathBuf], named: &[Value]) -> Reach {
    let named = named.iter().filter_map(Value::as_array).flatten();
    let mut files = named.filter_map(|item| item["path"].as_str()).map(Path::new).peekable();
    let inside = |file: &Path| {
        let climbs = file.components().any(|part| part == Component::ParentDir);
        !climbs && (file.is_relative() || places.iter().any(|place| file.starts_with(place)))
    };
    match files.peek().is_some() {
        false => Reach::Unsaid,
        true if files.all(inside) => Reach::Inside,
        true => Reach::Outside,
    }
}

/// Whether the title of a tool call is the name of a tool of ours: agents put the server's name before it,
/// as in `mcp__callboard__tasks_get` and `callboard-tasks_get`.
fn is_of_board(title: &str) -> bool {
    let name = title.strip_prefix("mcp__").unwrap_or(title);
    let rest = name.strip_prefix(mcp::SERVER);
    rest.is_some_and(|rest| rest.starts_with(['_', '-', '/', '.', ':']) && !rest.contains(' '))
}

pub(super) fn command_in(input: &Value) -> Option<String> {
    let words = |words: &Vec<Value>| {
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        words.map(|words| words.join(" "))
    };
    match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) => Some(command.clone()),
        Value::Array(command) => words(command),
        _ => None,
    }
}

/// The option that grants or refuses, preferably for this one time.
fn chosen(options: &Value, answer: Answer) -> Value {
    let kinds = match answer {
        Answer::Granted => ["allow_once", "allow_always"],
        Answer::Refused => ["reject_once", "reject_always"],
    };
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let option = kinds
        .iter()
        .find_map(|kind| options.iter().find(|option| option["kind"].as_str() == Some(kind)));
    match option {
        Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

pub(super) fn one_line(text: &Value) -> String {
    let words = text.as_str().unwrap_or_default().split_whitespace();
    words.collect::<Vec<_>>().join(" ").chars().take(500).collect()
}
