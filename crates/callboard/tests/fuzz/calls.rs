//! Random calls of every tool, prompt and resource: each is answered in time, with a result or with a refusal that the
//! documents name.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::Given;
use crate::called::{Called, Unheard, refusal};
use crate::ground::Ground;
use crate::lanes::Lane;
use crate::memory::Memory;
use crate::schema::Schema;
use crate::seeded::{Rng, Round, is_usual, seeds};
use crate::wild;

/// Calls of one server in a usual run; `CALLBOARD_PROOF_TIMES` multiplies them. The server and its board live that long.
const CALLS: u64 = 400;
/// Calls that a failure can name.
const KEPT: usize = 2_000;
/// The slowest call: an agent is started or stopped, or checks run.
const SLOWEST: Duration = Duration::from_secs(15);
/// Errors of the protocol that say no: no such resource, invalid request, unknown method, invalid params.
const REFUSALS: &[i64] = &[-32700, -32002, -32600, -32601, -32602];

/// The reference has the codes that transcripts show. No transcript has a terminal that fails.
const NOT_DOCUMENTED: &[&str] = &["SESSION_KILL_FAILED"];

struct Player {
    lane: Lane,
    memory: Memory,
    /// Every word of the reference pages in code style.
    documented: HashSet<String>,
    calls: Vec<Called>,
    /// How often each tool succeeded and was refused.
    outcomes: BTreeMap<String, (u32, u32)>,
}

#[test]
fn stdio_on_sqlite() {
    play(|| Lane::stdio(Ground::new(None)));
}

#[test]
fn http_on_sqlite() {
    play(|| Lane::http(Ground::new(None)));
}

#[test]
fn stdio_on_postgres() {
    let Some(schema) = Schema::new() else { return };
    play(|| Lane::stdio(Ground::new(Some(schema))));
}

#[test]
fn http_on_postgres() {
    let Some(schema) = Schema::new() else { return };
    play(|| Lane::http(Ground::new(Some(schema))));
}

fn play(lane: impl FnOnce() -> Lane) {
    let mut player = Player::new(lane());
    player.prepare();
    let rounds = seeds(1);
    let calls = (rounds.end - rounds.start) * CALLS;
    let _round = Round(rounds.start);
    let mut rng = Rng::of(rounds.start);
    for _ in 0..calls {
        let (session, method, params) = player.choose(&mut rng);
        player.call(session, method, params);
    }
    let lane = &mut player.lane;
    let answer = lane.ask(0, "tools/list", &json!({}));
    assert!(answer["result"]["tools"].is_array(), "the server still answers: {answer}");
    lane.watched.judge(calls);
    lane.ground.judge_store();
    player.judge_coverage();
}

impl Player {
    fn new(lane: Lane) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let pages = std::fs::read_dir(folder)
            .unwrap()
            .map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
        let words = pages.flat_map(|page| page.split('`').map(str::to_owned).collect::<Vec<_>>());
        let documented = words.collect();
        let (memory, calls, outcomes) = Default::default();
        Self { lane, memory, documented, calls, outcomes }
    }

    /// Makes a few things that calls can name.
    fn prepare(&mut self) {
        let checks = json!([{"desc": "d", "cmd": "true"}, {"desc": "by hand", "type": "manual"}]);
        for (title, tool) in
            [("A", "create"), ("B", "create"), ("C", "tasks_create"), ("D", "add_task")]
        {
            let session = self
                .lane
                .tools
                .iter()
                .position(|tools| tools.iter().any(|(name, _)| name == tool))
                .unwrap();
            let mut arguments = json!({ "title": title });
            if tool == "create" {
                arguments["checks"] = checks.clone();
            }
            self.call(session, "tools/call", json!({"name": tool, "arguments": arguments}));
        }
        self.memory.keep("agent", &json!(["boss", "w1"]));
        self.memory.keep("actor", &json!("agent:boss"));
        self.memory.keep("commit", &json!(self.lane.ground.commit));
        self.outcomes.clear();
        self.lane.watched.is_warm();
    }

    fn choose(&self, rng: &mut Rng) -> (usize, &'static str, Value) {
        let session = self.lane.any_session(rng);
        let memory = &self.memory;
        match rng.below(100) {
            0..5 => (
                session,
                rng.name(&["resources/read", "resources/subscribe", "resources/unsubscribe"]),
                json!({"uri": address(rng, memory)}),
            ),
            5..8 => {
                let known = rng.pick(&self.lane.prompts)["name"].clone();
                let name = if rng.percent(80) { known } else { wild::short(rng).into() };
                let value =
                    if rng.percent(50) { memory.text(rng, "task") } else { wild::text(rng) };
                (
                    session,
                    "prompts/get",
                    json!({"name": name, "arguments": {rng.name(&["task", "goal", "x"]): value}}),
                )
            }
            8..11 => {
                let by = if rng.percent(50) {
                    ("ref/prompt", "name", "start-work")
                } else {
                    ("ref/resource", "uri", "callboard://tasks/{id}")
                };
                let value = if rng.percent(50) { "P".to_owned() } else { wild::text(rng) };
                let named = if rng.percent(80) { by.2.to_owned() } else { wild::short(rng) };
                let argument =
                    json!({"name": rng.name(&["task", "id", "goal", "jobId", ""]), "value": value});
                (
                    session,
                    "completion/complete",
                    json!({"ref": {"type": by.0, by.1: named}, "argument": argument}),
                )
            }
            11..13 => {
                let method = rng.name(&[
                    "tools/list",
                    "resources/list",
                    "resources/templates/list",
                    "prompts/list",
                ]);
                (session, method, json!({"cursor": wild::text(rng)}))
            }
            _ => {
                let (session, (name, schema)) = self.tool(rng, session);
                let ground = &self.lane.ground;
                let given =
                    Given { memory, repo: ground.path().to_str().unwrap(), commit: &ground.commit };
                let arguments = given.arguments(rng, name, schema);
                (session, "tools/call", json!({"name": name, "arguments": arguments}))
            }
        }
    }

    /// A tool of this conversation or, in some cases, one that was not called yet.
    fn tool(&self, rng: &mut Rng, session: usize) -> (usize, &(String, Value)) {
        let tools = self.lane.tools.iter().enumerate();
        let all = tools.flat_map(|(at, tools)| tools.iter().map(move |tool| (at, tool)));
        let missing: Vec<_> =
            all.filter(|(_, (name, _))| !self.outcomes.contains_key(name)).collect();
        match !missing.is_empty() && rng.percent(30) {
            true => *rng.pick(&missing),
            false => (session, rng.pick(&self.lane.tools[session])),
        }
    }

    fn call(&mut self, session: usize, method: &'static str, params: Value) {
        // Printed if the server does not answer at all.
        let unheard = Unheard(&method, &params, &self.calls);
        let start = Instant::now();
        let answer = self.lane.ask(session, method, &params);
        let took = start.elapsed();
        drop(unheard);
        let fault = match took > SLOWEST {
            true => Some(format!("it took {took:?}")),
            false => self.fault(&answer),
        };
        if method == "tools/call" {
            let outcome =
                self.outcomes.entry(params["name"].as_str().unwrap().to_owned()).or_default();
            match refusal(&answer) {
                Some(_) => outcome.1 += 1,
                None => outcome.0 += 1,
            }
        }
        self.memory.learn(&answer["result"]["structuredContent"]);
        self.calls.push(Called { method, params, answer });
        if self.calls.len() > KEPT {
            self.calls.drain(..KEPT / 2);
        }
        if let Some(fault) = fault {
            panic!("{fault}\n{}", self.story());
        }
        if self.calls.len().is_multiple_of(25) {
            self.lane.watched.judge_words();
        }
    }

    /// What is wrong with an answer.
    fn fault(&self, answer: &Value) -> Option<String> {
        match (answer.get("result"), answer.get("error")) {
            (Some(_), None) => {}
            (None, Some(error)) => {
                let code = error["code"].as_i64();
                if code.is_none_or(|code| !REFUSALS.contains(&code))
                    || !error["message"].is_string()
                {
                    return Some(format!("no refusal of the protocol: {error}"));
                }
            }
            _ => return Some("neither a result nor an error, or both".to_owned()),
        }
        let (code, message) = refusal(answer)?;
        if code.starts_with("INTERNAL") || code == "STORE_DAMAGED" || code == "UNAVAILABLE" {
            return Some(format!("an internal error: {code}"));
        }
        if message.is_empty() || message.chars().count() > 2_000 {
            return Some(format!("a refusal of {} bytes", message.len()));
        }
        let is_number = code.parse::<i64>().is_ok();
        let is_known =
            is_number || self.documented.contains(&code) || NOT_DOCUMENTED.contains(&code.as_str());
        (!is_known).then(|| format!("docs/reference names no code {code}"))
    }

    /// The failing call, and before it the calls whose answers first gave the ids that it names.
    fn story(&self) -> String {
        let Some((failed, before)) = self.calls.split_last() else { return String::new() };
        let arguments = failed.params.to_string();
        let names = |called: &&Called| {
            let ids = called.answer["result"]["structuredContent"].to_string();
            let mut ids =
                ids.split('"').filter(|word| word.len() > 12 && word.contains(['-', '_']));
            ids.any(|id| arguments.contains(id))
        };
        let lines: Vec<String> = before.iter().filter(names).take(6).map(Called::line).collect();
        let answer: String = failed.answer.to_string().chars().take(3_000).collect();
        let (lines, failed) = (lines.join("\n"), failed.line());
        format!("related calls:\n{lines}\nthe call:\n{failed}\nits answer: {answer}")
    }

    /// Every tool was called, and most tools did something: the arguments are no noise.
    fn judge_coverage(&self) {
        let tools: HashSet<&String> =
            self.lane.tools.iter().flatten().map(|(name, _)| name).collect();
        let done = self.outcomes.values().filter(|(ok, _)| *ok > 0).count();
        eprintln!("{} of {} tools called, {done} with success", self.outcomes.len(), tools.len());
        if is_usual() {
            assert_eq!(self.outcomes.len(), tools.len(), "{:?}", self.outcomes);
            assert!(done * 2 >= tools.len(), "{:?}", self.outcomes);
        }
    }
}

/// The address of a resource, that of none, or no address at all.
fn address(rng: &mut Rng, memory: &Memory) -> String {
    let (task, job) = (memory.text(rng, "task"), memory.text(rng, "jobId"));
    match rng.below(8) {
        0 => format!("callboard://tasks/{task}"),
        1 => format!(
            "callboard://tasks/{task}/checks/{}/log",
            rng.name(&["0", "1", "-1", "99999999999999999999"])
        ),
        2 => "mcp://jobs/list".to_owned(),
        3 => format!("mcp://jobs/{job}/status"),
        4 => format!(
            "mcp://jobs/{job}/artifacts/{}",
            rng.name(&["patch.diff", "out.md", "logs.txt", "pr.json", ".."])
        ),
        5 => "callboard://crew/inbox".to_owned(),
        6 => format!("callboard://tasks/{}", wild::text(rng)),
        _ => wild::text(rng),
    }
}
