//! Messages about ended jobs and about events.

use callboard_domain::runs::delivery::{Delivery, Topic, Tried};
use callboard_domain::runs::job::{Job, JobId};

use super::cell::table;
use super::job::{JOB, JOB_FROM};
use super::{Cells, RowReader, job};

/// Selects messages `d` with the jobs `j` that send them. `rest` is the condition and the order.
pub(crate) fn select(rest: &str) -> String {
    format!(
        "SELECT {JOB}, d.kind, d.about, d.data, d.url, d.ended_at, d.tried_at, d.outcome \
         FROM {JOB_FROM} JOIN deliveries d ON d.job = j.id {rest}"
    )
}

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<(Job, Delivery), R::Error> {
    let job = job::read(row)?;
    let (kind, id, data) = (row.text()?, row.id()?, row.json("data")?);
    // `about` is an id of a job, a mail or a task. `kind` tells which; the prefix of a task stands in `data` alone.
    let about = Topic::read(&kind, id, &data).ok_or_else(|| row.damaged("about"))?;
    let (url, ended_at) = (row.text()?, row.time()?);
    let tried = row.time_if()?.zip(row.text_if()?).map(|(at, outcome)| Tried { at, outcome });
    let delivery = Delivery { job: job.id, about, url, kind, data, ended_at, tried };
    Ok((job, delivery))
}

table! {
    DELIVERIES = "deliveries";
    fn values(org: i64, delivery: &'a Delivery) {
        job: delivery.job,
        org: org,
        about: delivery.about.id(),
        // A copy of the address at the time of the event: a later change of the webhook does not redirect this message.
        url: &delivery.url,
        kind: &delivery.kind,
        data: delivery.data.to_string(),
        // When the job ended or the event happened; the message says so, however late it is sent.
        ended_at: delivery.ended_at,
        tried_at: delivery.tried.as_ref().map(|tried| tried.at),
        outcome: delivery.tried.as_ref().map(|tried| &tried.outcome),
    }
}

table! {
    DELIVERIES_TRIED = "deliveries";
    /// The newest try of a message.
    fn tried_values(job: JobId, tried: &'a Tried) {
        job: job,
        tried_at: tried.at,
        outcome: &tried.outcome,
    }
}

/// The columns that change.
pub(crate) const STEPS: [&str; 2] = ["tried_at", "outcome"];
