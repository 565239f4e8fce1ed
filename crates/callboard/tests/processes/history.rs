//! The history of a test run: every call of every client as it is invoked and as it ends, and the event log and the
//! rows of the store after the run. `violations.rs` judges it. The tests between hosts use this file too.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::violations::violations;

/// A call that changes a task, reads it, or waits for its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Titles are unique in a history.
    Create {
        title: String,
    },
    /// An addition to the set of a task's notes. Texts are unique in a history.
    Note {
        task: String,
        text: String,
    },
    /// An addition to the set of a task's deps.
    Depend {
        task: String,
        dep: String,
    },
    /// A claim without a lease.
    Claim {
        task: String,
    },
    /// A claim with a lease. The answer has the fence.
    Lease {
        task: String,
    },
    /// A heartbeat with a unique note, under a fence.
    Beat {
        task: String,
        fence: u64,
        text: String,
    },
    /// Gives a lease back, with a unique note.
    Release {
        task: String,
        fence: u64,
        text: String,
    },
    Close {
        task: String,
        fence: Option<u64>,
    },
    Read {
        task: String,
    },
    /// Returns when the task is closed.
    Wait {
        task: String,
    },
}

impl Op {
    pub fn task(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Note { task, .. }
            | Self::Depend { task, .. }
            | Self::Claim { task }
            | Self::Lease { task }
            | Self::Beat { task, .. }
            | Self::Release { task, .. }
            | Self::Close { task, .. }
            | Self::Read { task }
            | Self::Wait { task } => Some(task),
        }
    }

    pub fn fence(&self) -> Option<u64> {
        match self {
            Self::Beat { fence, .. } | Self::Release { fence, .. } => Some(*fence),
            Self::Close { fence, .. } => *fence,
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call is sent. A repeat under one retry key is a second `Invoke` of one call.
    Invoke(Op),
    Ok {
        fence: Option<u64>,
    },
    /// The answer to a read.
    Read(Seen),
    /// A refusal: the call changed nothing.
    Fail(String),
    /// No answer, or an answer that leaves open whether the call was committed.
    Unknown,
}

/// What a read showed. Parts that the answer does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub status: Option<String>,
    /// The assignee, or the holder of the lease in an answer with a fence; `None` for a free task.
    pub holder: Option<String>,
    pub fence: Option<u64>,
    pub deps: Option<BTreeSet<String>>,
    /// The newest note; empty where there is none.
    pub note: Option<String>,
}

impl Seen {
    /// Reads the answer of `get` in graph's words, or of `get_task` in execution's.
    fn of(answer: &Value) -> Self {
        let text_of = |names: [&str; 2]| {
            names.iter().find_map(|name| answer[name].as_str()).map(str::to_owned)
        };
        let deps = ["deps", "dependsOn"].iter().find_map(|name| answer[name].as_array());
        let notes = |entry: &&Value| {
            let did = entry["did"].as_str().unwrap_or_default();
            ["note", "started", "heartbeat", "released"].contains(&did) && entry["text"].is_string()
        };
        // The answer has the newest entries. Where they are all without a note, the note may be among the others.
        let entries = answer["provenance"].as_array();
        let note = entries.map(|entries| entries.iter().rfind(notes));
        let is_whole = answer["provenanceOmitted"].is_null();
        Self {
            status: answer["status"].as_str().map(str::to_owned),
            holder: text_of(["assignee", "holder"]),
            fence: answer["fence"].as_u64(),
            deps: deps.map(|deps| deps.iter().map(id_of).collect()),
            note: note
                .filter(|note| note.is_some() || is_whole)
                .map(|note| note.map_or_else(String::new, |entry| text(&entry["text"]))),
        }
    }
}

/// One line of a history. The order of lines is the order of the wall clock.
#[derive(Clone, Debug)]
pub struct Entry {
    pub at: Duration,
    pub client: String,
    pub call: usize,
    pub step: Step,
}

/// Collects the entries of many clients. An `Invoke` is recorded before the call is sent, and its end after the answer
/// was read, so a call took effect between its two entries.
pub struct History {
    began: Instant,
    entries: Mutex<Vec<Entry>>,
}

impl Default for History {
    fn default() -> Self {
        Self { began: Instant::now(), entries: Mutex::default() }
    }
}

impl History {
    fn push(&self, call: Option<usize>, client: &str, step: Step) -> usize {
        let mut entries = self.entries.lock().unwrap();
        let call = call.unwrap_or(entries.len());
        entries.push(Entry { at: self.began.elapsed(), client: client.to_owned(), call, step });
        call
    }

    /// Records a call and its answer. `answer_of` returns `None` for an answer that leaves the outcome open; the call
    /// is then repeated while `again` says so.
    pub fn record(
        &self,
        client: &str,
        op: &Op,
        mut answer_of: impl FnMut() -> Option<Result<Value, Value>>,
        mut again: impl FnMut() -> bool,
    ) -> Option<Result<Value, Value>> {
        let mut call = None;
        loop {
            let number = self.push(call, client, Step::Invoke(op.clone()));
            call = Some(number);
            let answer = answer_of();
            let step = match &answer {
                None => Step::Unknown,
                Some(Ok(answer)) if matches!(op, Op::Read { .. }) => Step::Read(Seen::of(answer)),
                Some(Ok(answer)) => Step::Ok { fence: answer["fence"].as_u64() },
                Some(Err(refusal)) => Step::Fail(refusal["code"].to_string()),
            };
            self.push(call, client, step);
            if answer.is_some() || !again() {
                return answer;
            }
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }
}

/// An event as `callboard log --json` prints it.
#[derive(Clone, Debug)]
pub struct Logged {
    pub seq: u64,
    pub at: String,
    pub actor: String,
    pub name: String,
    pub task: String,
    pub data: Value,
}

/// A task as `callboard task list --json` prints it.
#[derive(Clone, Debug)]
pub struct Row {
    pub task: String,
    pub title: String,
    pub status: String,
    pub assignee: Option<String>,
    pub deps: BTreeSet<String>,
}

impl Row {
    fn of(task: &Value) -> Self {
        Self {
            task: text(&task["id"]),
            title: text(&task["title"]),
            status: text(&task["status"]),
            assignee: task["assignee"].as_str().map(str::to_owned),
            deps: task["deps"].as_array().into_iter().flatten().map(id_of).collect(),
        }
    }
}

/// The log and the rows of a store after the run.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub log: Vec<Logged>,
    pub rows: Vec<Row>,
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Stored {
    /// Reads everything with the program's own commands; `cli` runs one and returns its JSON.
    pub fn read(cli: impl Fn(&[&str]) -> Value) -> Self {
        let events = cli(&["log", "--json", "--all", "--tail", "1000000"]);
        let mut tasks = Vec::new();
        loop {
            let last = tasks.last().map(|row: &Row| row.task.clone());
            let mut words = vec!["task", "list", "--json", "--limit", "10000"];
            words.extend(last.iter().flat_map(|last| ["--after", last.as_str()]));
            let page = cli(&words);
            tasks.extend(page["items"].as_array().unwrap().iter().map(Row::of));
            if page["next"].is_null() {
                break;
            }
        }
        let event = |event: &Value| Logged {
            seq: event["seq"].as_u64().unwrap(),
            at: text(&event["at"]),
            actor: text(&event["actor"]),
            name: text(&event["event"]),
            task: text(&event["task"]),
            data: event["data"].clone(),
        };
        Self { log: events["items"].as_array().unwrap().iter().map(event).collect(), rows: tasks }
    }
}

pub fn id_of(dep: &Value) -> String {
    if dep.is_object() { text(&dep["id"]) } else { text(dep) }
}

/// Stops the test at the first violations of a run.
pub fn assert_kept(history: &History, stored: &Stored) {
    let found = violations(&history.entries(), stored);
    let words: Vec<String> = found.iter().take(20).map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} violations: {words:#?}", found.len());
}
