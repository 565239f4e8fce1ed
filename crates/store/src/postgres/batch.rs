//! The work of one transaction: a desk per org, the events of its commands and their retry keys. Rows are locked and
//! loaded once, and written back as sets.

use std::collections::{BTreeMap, HashMap};

use callboard_domain::desk::{Desk, Rows, Touched};
use callboard_domain::event::Event;
use callboard_domain::ids::{Id, TaskId};
use callboard_domain::refusal::Refusal;
use callboard_domain::retry::{HeldNow, HeldTask};
use callboard_domain::time::Timestamp;

use crate::judge::Judged;
use crate::retries::{Row, earlier};
use crate::{Applied, Op, StoreError};

#[derive(Default)]
pub(crate) struct Batch {
    pub now: Timestamp,
    /// When a process last reported that it watches the leases.
    pub ticked_at: i64,
    pub desks: BTreeMap<i64, Desk>,
    /// Every task on a desk by the part of its id that rows refer to, with its org.
    pub tasks: HashMap<Id, (i64, TaskId)>,
    /// Events with their org, in the order of the commands.
    pub events: Vec<(i64, Event)>,
    /// The stored rows of the batch's retry keys, including expired ones.
    pub retries: HashMap<CallKey, Vec<Row>>,
    pub retries_new: Vec<(CallKey, Row)>,
    /// Keys whose first answer has expired, with their step.
    pub retries_old: Vec<(CallKey, String)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    pub org: i64,
    pub actor: String,
    pub tool: String,
    pub key: String,
}

impl CallKey {
    pub fn of(org: i64, op: &Op) -> Option<Self> {
        let (actor, tool) = (op.actor.as_str().to_owned(), op.tool.to_owned());
        op.retry_key.as_ref().map(|key| Self { org, actor, tool, key: key.key().to_owned() })
    }
}

impl Batch {
    pub fn desk(&mut self, org: i64) -> &mut Desk {
        let desk = self.desks.entry(org).or_default();
        desk.now = self.now;
        desk
    }

    /// The rows of the desk with this task, and the task's whole id.
    pub fn rows_with(&mut self, task: Id) -> Option<(&mut Rows, TaskId)> {
        let (org, id) = self.tasks.get(&task)?;
        Some((&mut self.desks.get_mut(org)?.rows, *id))
    }

    /// Carries out a change on the org's desk. `last_seq` counts the batch's events so far; the writer adds the
    /// position of the log.
    pub fn carry_out(&mut self, org: i64, op: &Op, judged: Judged) -> Result<Applied, StoreError> {
        let (mut applied, events) = judged.carry_out(self.desk(org))?;
        // Places belong to the machine, so the desks of other orgs count on.
        let here = self.desk(org).rows.counts.here.clone();
        for desk in self.desks.values_mut().filter(|_| !here.is_empty()) {
            desk.rows.counts.here.clone_from(&here);
        }
        self.events.extend(events.into_iter().map(|event| (org, event)));
        applied.last_seq = applied.changed.then_some(self.events.len() as u64);
        self.remember(org, op, &applied);
        Ok(applied)
    }

    /// The first result of a command whose key is known.
    pub fn replayed(&self, org: i64, op: &Op) -> Result<Option<Applied>, Refusal> {
        let Some(key) = CallKey::of(org, op) else { return Ok(None) };
        let rows = self.retries.get(&key).into_iter().flatten();
        let rows: Vec<Row> = rows.filter(|row| row.is_known(self.now)).cloned().collect();
        let Some(kept) = earlier(&rows, op)? else { return Ok(None) };
        if let Some(held) = kept.held {
            self.judge_held(org, op, held)?;
        }
        kept.again(op.tool).map(Some)
    }

    /// Refuses unless the caller still holds what the first call gave.
    fn judge_held(&self, org: i64, op: &Op, held: HeldTask) -> Result<(), Refusal> {
        let rows = self.desks.get(&org).map(|desk| &desk.rows);
        let task = rows.and_then(|rows| rows.visible(held.task)).map(|rows| &rows.task);
        let at = HeldNow {
            task,
            newest: rows.zip(task).and_then(|(rows, task)| rows.newest(task)),
            attempt: rows.zip(held.attempt).and_then(|(rows, id)| rows.attempts.get(&id)),
        };
        held.judge(&op.actor, at, &op.policy, self.now)
    }

    /// Keeps the answer for a retry. A refused command, also one that left a trace, may be given again with its
    /// key, so it is not kept.
    fn remember(&mut self, org: i64, op: &Op, applied: &Applied) {
        let row = Row::of(op, applied).filter(|_| applied.but.is_none());
        let (Some(key), Some(row)) = (CallKey::of(org, op), row) else { return };
        let known = self.retries.entry(key.clone()).or_default();
        if known.iter().any(|old| old.step == row.step) {
            known.retain(|old| old.step != row.step);
            self.retries_old.push((key.clone(), row.step.clone()));
        }
        known.push(row.clone());
        self.retries_new.push((key, row));
    }

    /// The changed rows of each org.
    pub fn touched(&self) -> Vec<(i64, &Touched)> {
        self.desks.iter().map(|(org, desk)| (*org, &desk.touched)).collect()
    }

    pub fn is_unchanged(&self) -> bool {
        // The log rows of a crew's call and the rows of a retry key have no event.
        self.events.is_empty()
            && self.retries_new.is_empty()
            && self.touched().iter().all(|(_, touched)| {
                touched.tasks.is_empty() && touched.tasks_new.is_empty() && touched.crew.is_empty()
            })
    }

    /// Whether a write needs a statement of its own.
    pub fn is_rare(&self) -> bool {
        let rare = |touched: &Touched| {
            !touched.org.is_empty() || !touched.crew.is_empty() || touched.has_reviews()
        };
        self.learned() || self.touched().iter().any(|(_, touched)| rare(touched))
    }

    pub fn learned(&self) -> bool {
        self.touched()
            .iter()
            .any(|(_, touched)| !touched.knowledge_new.is_empty() || !touched.superseded.is_empty())
    }
}
