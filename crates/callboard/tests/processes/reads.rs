//! The reads of a history. No part of an answer shows an older state than a write that was acknowledged before the read began,
//! or than a read that ended before. Both databases read a task with several statements, so a write that is not acknowledged
//! yet may show in one part of an answer and not in another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{Logged, Op, Seen, Step, id_of, text};
use crate::violations::{Call, Violation};

/// The row of a task, its lease, its deps, its notes.
const PARTS: usize = 4;

/// A task as it is after one event of the log.
#[derive(Clone, Debug, Default)]
struct State {
    seq: u64,
    status: String,
    assignee: Option<String>,
    /// The holder of a lease.
    holder: Option<String>,
    fence: u64,
    deps: BTreeSet<String>,
    note: String,
    /// Whether the lease expires. Readers see that by the clock, before an event says it.
    lapses: bool,
}

impl State {
    fn after(mut self, event: &Logged) -> Self {
        let data = &event.data;
        self.seq = event.seq;
        match event.name.as_str() {
            "task.created" => {
                self.status = text(&data["status"]);
                self.deps = data["deps"].as_array().into_iter().flatten().map(id_of).collect();
            }
            "task.status_changed" => self.status = text(&data["to"]),
            "task.claimed" => self.assignee = Some(text(&data["assignee"])),
            "task.released" => self.assignee = None,
            "attempt.started" => {
                self.fence = data["fence"].as_u64().unwrap_or_default();
                self.holder = Some(event.actor.clone());
            }
            "attempt.ended" => (self.holder, self.assignee) = (None, None),
            "task.noted" => self.note = text(&data["text"]),
            "task.dependency_added" => drop(self.deps.insert(text(&data["dep"]))),
            "task.dependency_removed" => drop(self.deps.remove(&text(&data["dep"]))),
            _ => {}
        }
        self
    }

    /// Whether each part of an answer looks like this state.
    fn looks_like(&self, seen: &Seen) -> [bool; PARTS] {
        let is_lapsed = self.lapses && seen.holder.is_none();
        let (assignee, holder) = match seen.fence {
            // The assignee of a closed task is history.
            None => (self.status == "done" || self.assignee == seen.holder, true),
            Some(_) => (true, self.holder == seen.holder),
        };
        let row = (is_lapsed || assignee)
            && seen.status.as_ref().is_none_or(|status| is_lapsed || *status == self.status)
            && seen.fence.is_none_or(|fence| fence == self.fence);
        let deps = seen.deps.as_ref().is_none_or(|deps| *deps == self.deps);
        let note = seen.note.as_ref().is_none_or(|note| *note == self.note);
        [row, is_lapsed || holder, deps, note]
    }
}

/// The states of each task, in the order of its log.
fn states(log: &[Logged]) -> HashMap<&str, Vec<State>> {
    let mut tasks: HashMap<&str, Vec<State>> = HashMap::new();
    for event in log.iter().filter(|event| !event.task.is_empty()) {
        let states = tasks.entry(&event.task).or_default();
        let state = states.last().cloned().unwrap_or_default().after(event);
        if event.name == "attempt.ended" && event.data["how"] == "expired" {
            lapse(states);
        }
        states.push(state);
    }
    // The last lease may be over, too.
    tasks.values_mut().for_each(|states| lapse(states));
    tasks
}

/// Marks the states of the last lease.
fn lapse(states: &mut [State]) {
    for state in states.iter_mut().rev().take_while(|state| state.holder.is_some()) {
        state.lapses = true;
    }
}

/// `acknowledged` has the end of each write with its task and its number in the log.
pub fn stale(
    calls: &[Call],
    acknowledged: &[(usize, &str, u64)],
    log: &[Logged],
) -> Vec<Violation> {
    enum Moment<'c> {
        Known(&'c str, u64),
        Begins(usize, &'c str),
        Ends(usize, &'c str),
    }
    let mut moments = BTreeMap::new();
    for (ended, task, seq) in acknowledged {
        moments.insert(*ended, Moment::Known(task, *seq));
    }
    for (n, call) in calls.iter().enumerate() {
        let Op::Read { task } = &call.op else { continue };
        moments.insert(call.invoked, Moment::Begins(n, task));
        moments.extend(call.ended.map(|ended| (ended, Moment::Ends(n, task))));
    }
    let states = states(log);
    // The numbers of the newest states that clients know of each part of a task, now and when each read began.
    let mut known: HashMap<&str, [u64; PARTS]> = HashMap::new();
    let mut known_before: HashMap<usize, [u64; PARTS]> = HashMap::new();
    let mut found = Vec::new();
    for moment in moments.into_values() {
        match moment {
            Moment::Known(task, seq) => {
                let known = known.entry(task).or_default();
                *known = known.map(|part| part.max(seq));
            }
            Moment::Begins(n, task) => {
                known_before.insert(n, known.get(task).copied().unwrap_or_default());
            }
            Moment::Ends(n, task) => {
                let states = states.get(task).map_or(&[][..], Vec::as_slice);
                for (part, since) in known_before[&n].into_iter().enumerate() {
                    let newer = &states[states.partition_point(|state| state.seq < since)..];
                    let shown = match &calls[n].end {
                        Step::Read(seen) => newer.iter().find(|state| state.looks_like(seen)[part]),
                        // No client reads a task before it knows that the task is there.
                        Step::Fail(_) => None,
                        Step::Invoke(_) | Step::Ok { .. } | Step::Unknown => continue,
                    };
                    if let Some(state) = shown {
                        let known = &mut known.entry(task).or_default()[part];
                        *known = state.seq.max(*known);
                    } else {
                        let (client, task) = (calls[n].client.clone(), task.to_owned());
                        found.push(Violation::StaleRead { client, task, since });
                    }
                }
            }
        }
    }
    found
}
