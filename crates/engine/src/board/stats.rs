//! The numbers of a board over days, for people. Kept counts come from the store; events that were not counted yet are
//! counted as the page is read, so that the numbers are those of now.

use std::collections::HashMap;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::board::stats::{DayCounts, Measure, StatsBy, day_of, day_start};
use callboard_domain::ids::{TaskId, TaskName};
use tokio_util::sync::CancellationToken;

use crate::context::{OpContext, Scope};
use crate::{Engine, EngineError};

/// How often events are counted into their days.
const COUNT_EVERY: Duration = Duration::from_secs(60);
/// How many events are counted in one transaction.
const COUNTED_AT_ONCE: u64 = 500;
/// How many uncounted events a reader counts.
const AHEAD_MAX: u64 = 20_000;

/// How many numbers of the log a reader goes through for counts by agent or epic.
const ATTRIBUTED_MAX: u64 = 50_000;

/// The counts of an org over some days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSeen {
    pub counts: DayCounts,
    /// The day of the read.
    pub today: i64,
    /// Later events are not counted yet; `None` when every event is.
    pub up_to: Option<u64>,
}

/// Whom or what counts are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsGroup {
    /// `None`: work of the server itself.
    Agent(Option<Actor>),
    Epic(TaskName, String),
    /// Tasks without an epic.
    NoEpic,
}

/// Counts by agent or epic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsByGroup {
    pub groups: Vec<(StatsGroup, DayCounts)>,
    /// Earlier events of the span were not read, up to this number; `None` when all of them were.
    pub after: Option<u64>,
}

impl Engine {
    /// The counts of the last days, today's included.
    pub async fn stats(&self, op: &OpContext, days: i64) -> Result<StatsSeen, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let newest = store.last_seq().await?;
        let today = day_of(store.now());
        let kept = store.days(org, today - days + 1).await?;
        let to = newest.min(kept.up_to.saturating_add(AHEAD_MAX));
        let mut counts = kept.counts;
        if to > kept.up_to {
            counts.merge(&store.days_ahead(org, kept.up_to, to).await?);
        }
        Ok(StatsSeen { counts, today, up_to: (to < newest).then_some(to) })
    }

    /// The counts of the last days by agent or by epic, those that closed the most tasks first. Nothing is kept by agent
    /// or epic: the events themselves are read, at most `ATTRIBUTED_MAX` numbers of the log.
    pub async fn stats_by(
        &self,
        op: &OpContext,
        days: i64,
        by: StatsBy,
    ) -> Result<StatsByGroup, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let (store, org) = (&self.parts.store, &op.principal.org);
        let newest = store.last_seq().await?;
        let first = day_of(store.now()) - days + 1;
        let before = self.last_before(day_start(first), newest).await?;
        let whole = self.log_floor().await?.seq - 1;
        let after = before.max(newest.saturating_sub(ATTRIBUTED_MAX)).max(whole);
        let events = store.days_attributed(org, after, newest).await?;
        let mut groups: Vec<(StatsGroup, DayCounts)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for one in &events {
            let (key, group) = match by {
                StatsBy::Agent => {
                    let agent = one.agent();
                    (agent.as_ref().map(ToString::to_string), StatsGroup::Agent(agent))
                }
                StatsBy::Epic => (one.epic.map(|id| id.to_string()), StatsGroup::NoEpic),
            };
            let place = *places.entry(key.unwrap_or_default()).or_insert_with(|| {
                groups.push((group, DayCounts::default()));
                groups.len() - 1
            });
            groups[place].1.measure(&one.event);
        }
        if by == StatsBy::Epic {
            self.name_epics(op, &places, &mut groups).await?;
        }
        // An event that measures nothing makes no row.
        groups.retain(|(_, counts)| counts.rows().next().is_some());
        let all = i64::MIN..=i64::MAX;
        let closed = |counts: &DayCounts| counts.count(all.clone(), Measure::Lead);
        groups.sort_by_key(|(_, counts)| std::cmp::Reverse(closed(counts)));
        Ok(StatsByGroup { groups, after: (after > before).then_some(after) })
    }

    /// Puts the names of epics in their places. A removed epic counts as none.
    async fn name_epics(
        &self,
        op: &OpContext,
        places: &HashMap<String, usize>,
        groups: &mut [(StatsGroup, DayCounts)],
    ) -> Result<(), EngineError> {
        let ids: Vec<TaskId> = places.keys().filter_map(|key| key.parse().ok()).collect();
        for title in self.parts.store.task_titles(&op.principal.org, &ids).await? {
            if let Some(place) = places.get(&title.id.to_string()) {
                groups[*place].0 = StatsGroup::Epic(title.name, title.title);
            }
        }
        Ok(())
    }

    /// Counts the events of every org that were not counted yet. Returns how many were read.
    pub async fn days_count(&self) -> Result<u64, EngineError> {
        let mut all = 0;
        loop {
            match self.parts.store.days_count(COUNTED_AT_ONCE).await? {
                0 => return Ok(all),
                read => all += read,
            }
        }
    }

    /// Counts until canceled.
    pub async fn days_count_until(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                done = self.days_count() => if let Err(error) = done {
                    tracing::warn!(%error, "cannot count events into their days");
                },
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(COUNT_EVERY) => {}
            }
        }
    }
}
