//! The log.

use callboard_domain::event::{About, EventName, LoggedEvent};
use callboard_domain::ids::AttemptId;

use super::cell::table;
use super::{Cells, RowReader};

/// The columns of an event `e` with its task `t`.
pub(crate) const EVENT: &str =
    "e.seq, e.at, e.actor, e.name, e.project, e.task, t.prefix, e.attempt, e.data";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<LoggedEvent, R::Error> {
    let (seq, at) = (row.count()?, row.time()?);
    let (actor, name) = (row.actor()?, row.word("event name", EventName::parse)?);
    // Project and task are set together. An event about the org alone, such as a changed setting, has neither.
    let about = match row.int_if()? {
        Some(project) => {
            Some(About { project, task: row.task()?, attempt: row.id_if()?.map(AttemptId) })
        }
        None => {
            // Task, prefix and attempt.
            row.skip(3);
            None
        }
    };
    Ok(LoggedEvent { seq, at, actor, name, about, data: row.json("event data")? })
}

table! {
    EVENTS = "events";
    fn values(org: i64, event: &'a LoggedEvent) {
        seq: event.seq,
        at: event.at,
        org: org,
        actor: &event.actor,
        name: event.name.as_str(),
        project: event.about.map(|about| about.project),
        task: event.about.map(|about| about.task),
        attempt: event.about.and_then(|about| about.attempt),
        data: event.data.to_string(),
    }
}
