//! The counts of each day: queries, and the SQL that both databases share. Counting reads a bounded range of the log and
//! writes the counts together with its position, so that every event counts once, whichever processes count.

use async_trait::async_trait;
use callboard_domain::board::stats::{Attributed, DayCounts, Measurable, Measure};
use callboard_domain::event::EventName;

use crate::StoreError;
use crate::table::{Cells, RowReader};
use crate::task::queue::freed_names;

#[async_trait]
pub trait StatsStore: Send + Sync {
    /// Counts the next events into their days. Returns how many events were read; 0 when every event is counted.
    async fn days_count(&self, limit: u64) -> Result<u64, StoreError>;
    /// The kept counts of an org from a day on.
    async fn days(&self, org: &str, from: i64) -> Result<DaysKept, StoreError>;
    /// Counts of an org's events after a number, up to another. Nothing is written.
    async fn days_ahead(&self, org: &str, after: u64, to: u64) -> Result<DayCounts, StoreError>;
    /// The events behind those counts, each with whom and what it counts for.
    async fn days_attributed(
        &self,
        org: &str,
        after: u64,
        to: u64,
    ) -> Result<Vec<Attributed>, StoreError>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaysKept {
    pub counts: DayCounts,
    /// The last event that was counted.
    pub up_to: u64,
}

/// Events that count, with the facts that their measures need. Values: the numbers of the range; with `of_org` the org.
pub(crate) fn measurable(sign: char, of_org: bool) -> String {
    let org = if of_org { format!("AND e.org = {sign}3") } else { String::new() };
    measurable_with(sign, "", "", &org)
}

/// As `measurable` of an org, with the columns of `read_attributed` behind.
pub(crate) fn attributed(sign: char) -> String {
    let worker = "(SELECT a.actor FROM attempts a WHERE a.task = e.task AND a.started_at <= e.at \
         ORDER BY a.fence DESC LIMIT 1)";
    let more = format!(", e.actor, {worker}, p.id, p.prefix");
    let parent = "LEFT JOIN tasks p ON p.id = t.parent";
    measurable_with(sign, &more, parent, &format!("AND e.org = {sign}3"))
}

fn measurable_with(sign: char, more: &str, join: &str, org: &str) -> String {
    let names = Measurable::NAMES.map(|name| format!("'{}'", name.as_str())).join(", ");
    let claimed = EventName::TaskClaimed.as_str();
    let freed = |column: &str| {
        format!(
            "(SELECT f.{column} FROM events f WHERE e.name = '{claimed}' AND f.task = e.task \
                 AND f.seq < e.seq AND f.name IN ({}, '{claimed}') ORDER BY f.seq DESC LIMIT 1)",
            freed_names()
        )
    };
    let (moved, rejected) =
        (EventName::TaskStatusChanged.as_str(), EventName::ReviewRejected.as_str());
    let attempts = format!(
        "(SELECT a.fence FROM attempts a WHERE e.name = '{moved}' AND a.task = e.task \
             AND a.started_at <= e.at ORDER BY a.fence DESC LIMIT 1)"
    );
    // A key of JSON cannot stand in a text of JSON unescaped.
    let sent_back = format!(
        "EXISTS (SELECT 1 FROM events f WHERE e.name = '{moved}' AND f.task = e.task \
             AND f.seq < e.seq AND f.name = '{rejected}' AND f.data NOT LIKE '%\"advice\":true%')"
    );
    format!(
        "SELECT e.org, e.at, e.name, e.data, t.created_at, coalesce(t.is_plan, false), {}, {}, \
             coalesce({attempts}, 0), {sent_back}{more} \
         FROM events e LEFT JOIN tasks t ON t.id = e.task {join} \
         WHERE e.seq > {sign}1 AND e.seq <= {sign}2 AND e.name IN ({names}) {org} ORDER BY e.seq",
        freed("name"),
        freed("at")
    )
}

/// One row of `measurable`: the org and the event.
pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<(i64, Measurable), R::Error> {
    let org = row.int()?;
    let (at, name) = (row.time()?, row.word("event name", EventName::parse)?);
    let (data, created_at, is_plan) = (row.json("event data")?, row.time_if()?, row.flag()?);
    let freed = row.word_if("event name", EventName::parse)?.zip(row.time_if()?);
    let (attempts, was_sent_back) = (row.count()?, row.flag()?);
    let event = Measurable { at, name, data, created_at, is_plan, freed, attempts, was_sent_back };
    Ok((org, event))
}

/// One row of `attributed`.
pub(crate) fn read_attributed<R: Cells>(
    row: &mut RowReader<'_, R>,
) -> Result<Attributed, R::Error> {
    let (_, event) = read(row)?;
    let (actor, worker, epic) = (row.actor()?, row.actor_if()?, row.task_or_gone()?);
    Ok(Attributed { event, actor, worker, epic })
}

/// The kept counts and the position, read at one moment. Values: the org, the first day.
pub(crate) fn kept(sign: char) -> String {
    format!(
        "SELECT p.seq, d.day, d.measure, d.bucket, d.count FROM day_counts_position p \
         LEFT JOIN day_counts d ON d.org = {sign}1 AND d.day >= {sign}2"
    )
}

/// Adds one row of `kept`.
pub(crate) fn read_kept<R: Cells>(
    row: &mut RowReader<'_, R>,
    days: &mut DaysKept,
) -> Result<(), R::Error> {
    days.up_to = row.count()?;
    let Some(day) = row.int_if()? else { return Ok(()) };
    let measure = row.word("measure", Measure::parse)?;
    days.counts.add(day, measure, row.count()?, row.count()?);
    Ok(())
}

/// Adds a count. Values: org, day, measure, bucket, count.
pub(crate) fn put(sign: char) -> String {
    format!(
        "INSERT INTO day_counts (org, day, measure, bucket, count) \
         VALUES ({sign}1, {sign}2, {sign}3, {sign}4, {sign}5) \
         ON CONFLICT (org, day, measure, bucket) \
         DO UPDATE SET count = day_counts.count + excluded.count"
    )
}
