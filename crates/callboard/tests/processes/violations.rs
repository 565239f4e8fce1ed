//! The judge of a history: a pure function that compares the calls of the clients with the event log and with the rows
//! of the store. `history_rules.rs` has its table of good and bad histories.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use crate::history::{Entry, Logged, Op, Row, Step, Stored, id_of, text};
use crate::reads;

/// The longest time between the acknowledgement of a change and the end of a wait for that change. Processes that
/// missed a notification look at the log once a second.
pub const WAKE_MAX: Duration = Duration::from_secs(5);

/// One broken promise, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The numbers of the log are not 1, 2, 3 and so on.
    Gap {
        after: u64,
        next: u64,
    },
    /// The time of an event is before the time of the event in front of it.
    TimeWentBack {
        seq: u64,
    },
    /// An acknowledged write is not in the log.
    Lost {
        client: String,
        op: Op,
    },
    /// The log has more of a write than clients can have made: one for each acknowledged or unknown call.
    Twice {
        client: String,
        op: Op,
        times: usize,
    },
    /// A refused write is in the log.
    RefusedButDone {
        client: String,
        op: Op,
    },
    /// The log has a write that no client made.
    NotAsked {
        seq: u64,
    },
    /// A task has a new holder while the former one still holds it.
    TwoHolders {
        task: String,
        seq: u64,
    },
    /// Two clients were told that they hold a task under one fence.
    OneFenceTwoHolders {
        task: String,
        fence: u64,
    },
    FenceNotRising {
        task: String,
        seq: u64,
    },
    /// A write under a fence stands outside the term of that fence.
    StaleWrite {
        client: String,
        op: Op,
        seq: u64,
    },
    /// A write that was acknowledged before another one was sent comes after it in the log.
    Reordered {
        client: String,
        op: Op,
        seq: u64,
        behind: u64,
    },
    /// The log has a task that has no row, or several.
    RowsOfTask {
        task: String,
        rows: usize,
    },
    /// A row does not show the writes that the log has.
    LostUpdate {
        task: String,
        what: &'static str,
    },
    /// A read shows no state of its task that is as new as event `since`, which the client of another call knew before.
    StaleRead {
        client: String,
        task: String,
        since: u64,
    },
    /// A wait went on although the change it waited for was acknowledged.
    NotWoken {
        client: String,
        task: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self:?}")
    }
}

/// One call with all its tries.
pub struct Call {
    pub client: String,
    pub op: Op,
    /// Positions in the history: the first invocation, and the end if it is known.
    pub invoked: usize,
    pub ended: Option<usize>,
    pub end: Step,
    was_unknown: bool,
    invoked_at: Duration,
    ended_at: Duration,
}

fn calls(history: &[Entry]) -> Vec<Call> {
    let mut calls: BTreeMap<usize, Call> = BTreeMap::new();
    for (position, entry) in history.iter().enumerate() {
        if let Step::Invoke(op) = &entry.step {
            calls.entry(entry.call).or_insert_with(|| Call {
                client: entry.client.clone(),
                op: op.clone(),
                invoked: position,
                ended: None,
                end: Step::Unknown,
                was_unknown: false,
                invoked_at: entry.at,
                ended_at: entry.at,
            });
        } else if let Some(call) = calls.get_mut(&entry.call) {
            // A refusal says nothing about an earlier try of the call that may still be on its way.
            let is_answer = matches!(entry.step, Step::Ok { .. } | Step::Read(_));
            let is_settled = !call.was_unknown || is_answer;
            call.was_unknown |= entry.step == Step::Unknown;
            call.end = if is_settled { entry.step.clone() } else { Step::Unknown };
            call.ended = Some(position);
            call.ended_at = entry.at;
        }
    }
    calls.into_values().collect()
}

/// What an event says in the terms of calls; `None` for events that no `Op` makes.
fn effect(event: &Logged) -> Option<(String, Op)> {
    let (task, data) = (event.task.clone(), &event.data);
    let op = match event.name.as_str() {
        "task.created" => Op::Create { title: text(&data["title"]) },
        "task.noted" => Op::Note { task, text: text(&data["text"]) },
        "task.dependency_added" => Op::Depend { task, dep: text(&data["dep"]) },
        "task.claimed" => Op::Claim { task },
        "task.status_changed" if data["to"] == "done" => Op::Close { task, fence: None },
        _ => return None,
    };
    Some(made_by(&event.actor, op))
}

/// An effect with its client. A dep is in a set: adding it again changes nothing, by any client.
fn made_by(client: &str, op: Op) -> (String, Op) {
    let is_set = matches!(op, Op::Depend { .. });
    (if is_set { String::new() } else { client.to_owned() }, op)
}

/// The effect of a call that is committed. A lease has its own rule: the log names its fence.
fn expected(op: &Op) -> Option<Op> {
    match op.clone() {
        Op::Beat { task, text, .. } | Op::Release { task, text, .. } => {
            Some(Op::Note { task, text })
        }
        Op::Close { task, .. } => Some(Op::Close { task, fence: None }),
        Op::Lease { .. } | Op::Read { .. } | Op::Wait { .. } => None,
        op => Some(op),
    }
}

/// All that is wrong with a run; empty for a run that kept every promise.
pub fn violations(history: &[Entry], stored: &Stored) -> Vec<Violation> {
    let calls = calls(history);
    let mut effects: HashMap<(String, Op), Vec<u64>> = HashMap::new();
    for event in &stored.log {
        if let Some(made) = effect(event) {
            effects.entry(made).or_default().push(event.seq);
        }
    }
    let mut found = numbers(&stored.log);
    found.extend(once(&calls, &effects));
    found.extend(asked(&calls, stored));
    found.extend(holders(&stored.log));
    found.extend(leases(&calls, &stored.log));
    found.extend(terms(&calls, &effects, &stored.log));
    found.extend(order(&calls, &effects));
    found.extend(reads::stale(&calls, &acknowledged(&calls, &effects, &stored.log), &stored.log));
    found.extend(rows(stored));
    found.extend(wakes(&calls));
    found
}

fn numbers(log: &[Logged]) -> Vec<Violation> {
    let mut found = Vec::new();
    let (mut last, mut at) = (0, "");
    for event in log {
        if event.seq != last + 1 {
            found.push(Violation::Gap { after: last, next: event.seq });
        }
        if event.at.as_str() < at {
            found.push(Violation::TimeWentBack { seq: event.seq });
        }
        (last, at) = (event.seq, &event.at);
    }
    found
}

/// An acknowledged write happened once, an unknown one at most once, a refused one not at all. Calls of one client
/// with one effect are counted together: which of them made an event cannot be told.
fn once(calls: &[Call], effects: &HashMap<(String, Op), Vec<u64>>) -> Vec<Violation> {
    let mut groups: BTreeMap<(String, Op), (usize, usize)> = BTreeMap::new();
    for call in calls {
        let Some(op) = expected(&call.op) else { continue };
        let is_set = matches!(op, Op::Depend { .. });
        let (acknowledged, unknown) = groups.entry(made_by(&call.client, op)).or_default();
        match &call.end {
            Step::Ok { .. } if is_set => (*acknowledged, *unknown) = (1, 0),
            Step::Unknown | Step::Invoke(_) if is_set => *unknown = 1 - *acknowledged,
            Step::Ok { .. } => *acknowledged += 1,
            Step::Unknown | Step::Invoke(_) => *unknown += 1,
            Step::Fail(_) | Step::Read(_) => {}
        }
    }
    let judge = |((client, op), (acknowledged, unknown)): ((String, Op), (usize, usize))| {
        let times = effects.get(&(client.clone(), op.clone())).map_or(0, Vec::len);
        if times < acknowledged {
            Some(Violation::Lost { client, op })
        } else if times > acknowledged + unknown && acknowledged + unknown == 0 {
            Some(Violation::RefusedButDone { client, op })
        } else if times > acknowledged + unknown {
            Some(Violation::Twice { client, op, times })
        } else {
            None
        }
    };
    groups.into_iter().filter_map(judge).collect()
}

/// Claims that belong to a lease are events of that lease.
fn asked(calls: &[Call], stored: &Stored) -> Vec<Violation> {
    let made: BTreeSet<(String, Op)> = calls
        .iter()
        .filter_map(|call| {
            let op = match &call.op {
                Op::Lease { task } => Some(Op::Claim { task: task.clone() }),
                op => expected(op),
            };
            Some(made_by(&call.client, op?))
        })
        .collect();
    let is_unasked = |event: &&Logged| effect(event).is_some_and(|effect| !made.contains(&effect));
    let unasked = stored.log.iter().filter(is_unasked);
    unasked.map(|event| Violation::NotAsked { seq: event.seq }).collect()
}

/// The register of each task by its own log: one holder at a time, under fences that rise.
fn holders(log: &[Logged]) -> Vec<Violation> {
    #[derive(Default)]
    struct Register {
        fence: u64,
        is_live: bool,
        assignee: Option<String>,
    }
    let mut tasks: HashMap<&str, Register> = HashMap::new();
    let mut found = Vec::new();
    for event in log {
        let (task, seq) = (event.task.clone(), event.seq);
        let register = tasks.entry(&event.task).or_default();
        match event.name.as_str() {
            "attempt.started" => {
                let fence = event.data["fence"].as_u64().unwrap_or_default();
                if fence <= register.fence {
                    found.push(Violation::FenceNotRising { task: task.clone(), seq });
                }
                if register.is_live {
                    found.push(Violation::TwoHolders { task, seq });
                }
                (register.fence, register.is_live) = (fence, true);
            }
            "attempt.ended" => (register.is_live, register.assignee) = (false, None),
            "task.released" => register.assignee = None,
            "task.claimed" => {
                let assignee = Some(text(&event.data["assignee"]));
                if register.assignee.is_some() && register.assignee != assignee {
                    found.push(Violation::TwoHolders { task, seq });
                }
                register.assignee = assignee;
            }
            _ => {}
        }
    }
    found
}

/// The terms of a task: the number of the event that begins each fence, and its holder.
fn starts(log: &[Logged]) -> HashMap<&str, BTreeMap<u64, (u64, &str)>> {
    let mut starts: HashMap<&str, BTreeMap<u64, (u64, &str)>> = HashMap::new();
    for event in log.iter().filter(|event| event.name == "attempt.started") {
        let fence = event.data["fence"].as_u64().unwrap_or_default();
        let terms = starts.entry(&event.task).or_default();
        terms.entry(fence).or_insert((event.seq, &event.actor));
    }
    starts
}

/// An acknowledged lease is in the log with its fence and its holder, and no other client has that fence.
fn leases(calls: &[Call], log: &[Logged]) -> Vec<Violation> {
    let starts = starts(log);
    let mut told: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for call in calls {
        let (Op::Lease { task }, Step::Ok { fence }) = (&call.op, &call.end) else { continue };
        let fence = fence.unwrap_or_default();
        let holder = *told.entry((task, fence)).or_insert(&call.client);
        if holder != call.client {
            found.push(Violation::OneFenceTwoHolders { task: task.clone(), fence });
        }
        let in_log = starts.get(task.as_str()).and_then(|terms| terms.get(&fence));
        if in_log.is_none_or(|(_, actor)| *actor != call.client) {
            found.push(Violation::Lost { client: call.client.clone(), op: call.op.clone() });
        }
    }
    found
}

/// A write under a fence stands between the beginning of that fence's term and the beginning of the next term. Of
/// several calls of a client with one effect, one has to fit.
fn terms(
    calls: &[Call],
    effects: &HashMap<(String, Op), Vec<u64>>,
    log: &[Logged],
) -> Vec<Violation> {
    let starts = starts(log);
    let fits = |call: &Call, seq: u64| {
        let (Some(task), Some(fence)) = (call.op.task(), call.op.fence()) else { return true };
        let Some(terms) = starts.get(task) else { return false };
        let next = terms.range(fence + 1..).next();
        terms.get(&fence).is_some_and(|(start, actor)| *start < seq && *actor == call.client)
            && next.is_none_or(|(_, (start, _))| seq < *start)
    };
    let mut found = Vec::new();
    for (effect, calls) in by_effect(calls) {
        for seq in effects.get(&effect).into_iter().flatten() {
            if !calls.iter().any(|call| fits(call, *seq)) {
                let (client, op) = (calls[0].client.clone(), calls[0].op.clone());
                found.push(Violation::StaleWrite { client, op, seq: *seq });
            }
        }
    }
    found
}

/// The calls that were not refused, under the effect that each has.
fn by_effect(calls: &[Call]) -> BTreeMap<(String, Op), Vec<&Call>> {
    let mut groups: BTreeMap<(String, Op), Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| !matches!(call.end, Step::Fail(_))) {
        if let Some(op) = expected(&call.op) {
            groups.entry(made_by(&call.client, op)).or_default().push(call);
        }
    }
    groups
}

/// The writes to tasks with one call and one event: only these have a place in the order.
fn placed<'c>(
    calls: &'c [Call],
    effects: &HashMap<(String, Op), Vec<u64>>,
) -> Vec<(&'c Call, u64)> {
    let alone = |(effect, calls): ((String, Op), Vec<&'c Call>)| {
        let seqs = effects.get(&effect).map_or(&[][..], Vec::as_slice);
        let ([call], [seq]) = (calls.as_slice(), seqs) else { return None };
        call.op.task().map(|_| (*call, *seq))
    };
    by_effect(calls).into_iter().filter_map(alone).collect()
}

/// The end of each acknowledged write with its task and its number in the log.
fn acknowledged<'c>(
    calls: &'c [Call],
    effects: &HashMap<(String, Op), Vec<u64>>,
    log: &[Logged],
) -> Vec<(usize, &'c str, u64)> {
    let starts = starts(log);
    let leased = calls.iter().filter_map(|call| {
        let (Op::Lease { task }, Step::Ok { fence }) = (&call.op, &call.end) else { return None };
        starts.get(task.as_str())?.get(&(*fence)?).map(|(seq, _)| (call, *seq))
    });
    let ended = |(call, seq): (&'c Call, u64)| match &call.end {
        Step::Ok { .. } => Some((call.ended?, call.op.task()?, seq)),
        _ => None,
    };
    placed(calls, effects).into_iter().chain(leased).filter_map(ended).collect()
}

/// Writes to one task stand in the log in the order in which clients saw them happen.
fn order(calls: &[Call], effects: &HashMap<(String, Op), Vec<u64>>) -> Vec<Violation> {
    // At each position: a call that is invoked, or one that is acknowledged with its number in the log.
    let mut moments: BTreeMap<usize, (&Call, u64, bool)> = BTreeMap::new();
    for (call, seq) in placed(calls, effects) {
        moments.insert(call.invoked, (call, seq, false));
        if let (Step::Ok { .. }, Some(ended)) = (&call.end, call.ended) {
            moments.insert(ended, (call, seq, true));
        }
    }
    let mut newest: HashMap<&str, u64> = HashMap::new();
    let mut found = Vec::new();
    for (call, seq, is_end) in moments.into_values() {
        let newest = newest.entry(call.op.task().unwrap_or_default()).or_default();
        if is_end {
            *newest = seq.max(*newest);
        } else if seq < *newest {
            let (client, op, behind) = (call.client.clone(), call.op.clone(), *newest);
            found.push(Violation::Reordered { client, op, seq, behind });
        }
    }
    found
}

/// Each row shows all writes of its task: nothing that the log has was overwritten.
fn rows(stored: &Stored) -> Vec<Violation> {
    let mut rows: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in &stored.rows {
        rows.entry(&row.task).or_default().push(row);
    }
    let mut logged: BTreeMap<&str, Row> = BTreeMap::new();
    for event in stored.log.iter().filter(|event| !event.task.is_empty()) {
        let (data, task) = (&event.data, event.task.as_str());
        if event.name == "task.created" {
            let deps = data["deps"].as_array().into_iter().flatten().map(id_of).collect();
            let row = Row {
                task: task.to_owned(),
                title: text(&data["title"]),
                status: text(&data["status"]),
                assignee: None,
                deps,
            };
            logged.insert(task, row);
        }
        let Some(row) = logged.get_mut(task) else { continue };
        match event.name.as_str() {
            "task.status_changed" => row.status = text(&data["to"]),
            "task.claimed" => row.assignee = Some(text(&data["assignee"])),
            "task.released" | "attempt.ended" => row.assignee = None,
            "task.dependency_added" => drop(row.deps.insert(text(&data["dep"]))),
            "task.dependency_removed" => drop(row.deps.remove(&text(&data["dep"]))),
            "task.deleted" => drop(logged.remove(task)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (task, expected) in logged {
        let kept = rows.get(task).map_or(&[][..], Vec::as_slice);
        let [kept] = kept else {
            found.push(Violation::RowsOfTask { task: task.to_owned(), rows: kept.len() });
            continue;
        };
        // The assignee of a closed task is history.
        let is_open = expected.status != "done";
        for (what, is_kept) in [
            ("title", kept.title == expected.title),
            ("status", kept.status == expected.status),
            ("deps", kept.deps == expected.deps),
            ("assignee", !is_open || kept.assignee == expected.assignee),
        ] {
            if !is_kept {
                found.push(Violation::LostUpdate { task: task.to_owned(), what });
            }
        }
    }
    found
}

/// A wait is over soon after the acknowledgement of the change it waits for.
fn wakes(calls: &[Call]) -> Vec<Violation> {
    let mut closed: HashMap<&str, Duration> = HashMap::new();
    for call in calls {
        if let (Op::Close { task, .. }, Step::Ok { .. }) = (&call.op, &call.end) {
            closed.entry(task).or_insert(call.ended_at);
        }
    }
    let mut found = Vec::new();
    for call in calls {
        let Op::Wait { task } = &call.op else { continue };
        let Some(closed) = closed.get(task.as_str()) else { continue };
        // An unknown end says nothing: the server may have gone away.
        let is_known = matches!(call.end, Step::Ok { .. } | Step::Fail(_));
        if is_known && call.ended_at > *closed.max(&call.invoked_at) + WAKE_MAX {
            let (client, task) = (call.client.clone(), task.clone());
            found.push(Violation::NotWoken { client, task });
        }
    }
    found
}
