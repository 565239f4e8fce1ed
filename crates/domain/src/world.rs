//! What `decide` may look at, and what it may ask for. Stores load the one and write the other.

use crate::actor::Actor;
use crate::attempt::Attempt;
use crate::event::Event;
use crate::ids::{AttemptId, TaskId};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::task::{Dep, Dependent, Entry, Task};

/// The rows a command needs (`Command::needs`), read in the transaction that will write.
#[derive(Clone, Debug)]
pub struct World<'a> {
    pub policy: &'a Policy,
    /// Who asks.
    pub actor: &'a Actor,
    pub subject: Option<Subject>,
    /// The attempt the command names, or the one its key finds.
    pub attempt: Option<Attempt>,
    /// Those of the named tasks that exist.
    pub named: Vec<Dep>,
    /// Edges (task, dep) reachable from `Needs::ancestry_of`.
    pub ancestry: Vec<(TaskId, TaskId)>,
}

#[derive(Clone, Debug)]
pub struct Subject {
    pub task: Task,
    pub deps: Vec<Dep>,
    pub dependents: Vec<Dependent>,
    /// The one attempt that is live as written; its lease may be over.
    pub live: Option<Attempt>,
    pub last_entry: Option<LastEntry>,
}

/// What the newest line of a task's history was, for folding idle heartbeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEntry {
    pub did: String,
    pub has_text: bool,
    pub attempt: Option<AttemptId>,
}

/// What a command does. Applied as a whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub writes: Vec<Write>,
    pub events: Vec<Event>,
    pub reply: Reply,
    /// A "no" that leaves a trace: the writes stand (check results, say), the answer is this.
    pub but: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Task(TaskId),
    Attempt(AttemptId),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    TaskInsert {
        task: Task,
        body: String,
        deps: Vec<TaskId>,
    },
    TaskUpdate {
        task: Task,
    },
    TaskTombstone {
        task: TaskId,
    },
    BodyReplace {
        task: TaskId,
        body: String,
    },
    DepInsert {
        task: TaskId,
        dep: TaskId,
    },
    DepDelete {
        task: TaskId,
        dep: TaskId,
    },
    /// Every task that depends on this one, and is not removed, counts one open dep more or less.
    DependentsAdjust {
        dep: TaskId,
        delta: i32,
    },
    AttemptInsert {
        attempt: Attempt,
    },
    AttemptUpdate {
        attempt: Attempt,
    },
    EntryPut {
        task: TaskId,
        number: u32,
        entry: Entry,
        attempt: Option<AttemptId>,
    },
}
