//! A page of the board's list without a search: the kept counts say in which column an offset lies, and each column is
//! read by the index of its phases. Rows before the page are skipped in the index, from the nearer end of their column,
//! and are never read.

use callboard_domain::ids::Id;
use callboard_domain::policy::Phase;
use callboard_domain::time::Timestamp;

use crate::board::cards::CardQuery;
use crate::board::counts::PhaseCounts;
use crate::skip::{PagePlace, SkipOrder, merged};
use crate::table::{Cells, RowReader};
use crate::task::filter::{Filter, Value};

/// The place of a card in its column: priority, then age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CardKey {
    priority: i64,
    created_at: i64,
    pub id: Id,
}

/// The columns that `CardKey` reads.
const KEY: &str = "t.priority, t.created_at, t.id";
/// A statement joins at most so many legs; an org with more projects is read in parts.
const LEGS_MAX: usize = 200;

impl CardKey {
    pub fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<Self, R::Error> {
        Ok(Self { priority: row.int()?, created_at: row.int()?, id: row.id()? })
    }
}

/// The tasks whose lease is over: they stand in the first column, and their rows say that they are at work. Columns:
/// project, then `KEY`. Values: now, the org, and the project if there is one. Both databases begin at the few leases:
/// SQLite by a `CROSS JOIN`, PostgreSQL by `OFFSET 0`.
pub(crate) fn lapsed_sql(sign: char, of_project: bool) -> String {
    let project = if of_project { format!("AND t.project = {sign}3") } else { String::new() };
    let tasks = match sign {
        '$' => "LATERAL (SELECT * FROM tasks o WHERE o.id = l.task OFFSET 0) t",
        _ => "tasks t",
    };
    format!(
        "SELECT t.project, {KEY} FROM attempts l CROSS JOIN {tasks} \
         WHERE l.ended_at IS NULL AND l.lease_expires_at IS NOT NULL AND l.lease_expires_at <= {sign}1 \
             AND t.id = l.task AND t.phase = 'working' AND t.removed_at IS NULL AND t.org = {sign}2 {project}"
    )
}

/// The project and the phase of a task that is left out. Values: the org, the task, and the project if there is one.
pub(crate) fn left_out_sql(sign: char, of_project: bool) -> String {
    let project = if of_project { format!("AND t.project = {sign}3") } else { String::new() };
    format!(
        "SELECT t.project, t.phase FROM tasks t \
         WHERE t.org = {sign}1 AND t.id = {sign}2 AND t.removed_at IS NULL {project}"
    )
}

/// The cards that a search found, each with its column, as one page and their number. A search finds few enough cards to
/// put them in order here.
pub(crate) fn found_page(mut found: Vec<(i64, CardKey)>, query: &CardQuery) -> (Vec<Id>, i64) {
    found.sort();
    let total = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let page = found.into_iter().skip(query.offset).take(query.limit);
    (page.map(|(_, key)| key.id).collect(), total)
}

/// The statement for all cards that a search finds: the column of each, then `KEY`.
pub(crate) fn found_sql(column: &str, terms: &str) -> String {
    format!("SELECT {column}, {KEY} FROM tasks t WHERE {terms}")
}

/// One column of the board, in parts that one index lookup each finds.
struct CardSection {
    legs: Vec<(i64, Phase)>,
    /// How many tasks the legs have, without lapsed ones and those that are left out.
    written: usize,
    lapsed: Vec<CardKey>,
}

impl CardSection {
    fn size(&self) -> usize {
        self.written + self.lapsed.len()
    }
}

/// What the board's list holds, before any of its rows is read.
pub(crate) struct CardPlan {
    sections: Vec<CardSection>,
    without: Vec<Id>,
    has_lapsed: bool,
    now: Timestamp,
}

/// A statement for the keys of a column, and how its rows become part of the page.
pub(crate) struct KeysWanted {
    pub statements: Vec<(String, Filter)>,
    /// Whether the statements skip nothing, because their rows have to be merged first.
    is_merged: bool,
    /// The rank of the first row of the statements in the written rows of the column.
    first: usize,
    lapsed: Vec<CardKey>,
    from: usize,
    many: usize,
}

impl CardPlan {
    /// `counts` are those of the query's projects; tasks that the query leaves out are already taken out of them.
    /// `lapsed` are the tasks whose lease is over, with their projects, without those that are left out.
    pub fn of(
        query: &CardQuery,
        mut counts: PhaseCounts,
        mut lapsed: Vec<(i64, CardKey)>,
        now: Timestamp,
    ) -> Self {
        lapsed.retain(|(_, key)| query.without.iter().all(|task| task.id != key.id));
        for (project, _) in &lapsed {
            counts.without(*project, Phase::Working);
        }
        let wants = |phase: Phase| query.phases.is_empty() || query.phases.contains(&phase);
        let has_lapsed = !lapsed.is_empty();
        let mut keys: Vec<CardKey> = lapsed.into_iter().map(|(_, key)| key).collect();
        keys.sort();
        let columns: [&[Phase]; 4] = [
            &[Phase::Initial],
            &[Phase::Working],
            &[Phase::Review],
            &[Phase::ClosedDone, Phase::ClosedCanceled],
        ];
        let section = |phases: &[Phase]| {
            let mut section = CardSection { legs: Vec::new(), written: 0, lapsed: Vec::new() };
            for phase in phases.iter().copied().filter(|phase| wants(*phase)) {
                for (project, many) in counts.of(phase) {
                    section.legs.push((project, phase));
                    section.written += usize::try_from(many).unwrap_or(usize::MAX);
                }
                if phase == Phase::Initial {
                    section.lapsed.clone_from(&keys);
                }
            }
            section
        };
        let sections = columns.map(section).into();
        let without = query.without.iter().map(|task| task.id).collect();
        Self { sections, without, has_lapsed, now }
    }

    pub fn total(&self) -> u64 {
        self.sections.iter().map(|section| section.size() as u64).sum()
    }

    /// The statements for a page, column by column.
    pub fn wanted(&self, sign: char, offset: usize, limit: usize) -> Vec<KeysWanted> {
        let (mut skip, mut left, mut wanted) = (offset, limit, Vec::new());
        for section in &self.sections {
            let size = section.size();
            if skip >= size {
                skip -= size;
                continue;
            }
            let many = left.min(size - skip);
            if many == 0 {
                break;
            }
            wanted.push(self.wanted_of(sign, section, skip, many));
            (skip, left) = (0, left - many);
        }
        wanted
    }

    fn wanted_of(&self, sign: char, section: &CardSection, from: usize, many: usize) -> KeysWanted {
        let lapsed = section.lapsed.clone();
        // A lapsed task moves the written ones behind it by one place, so the read begins as many rows earlier.
        let first = from.saturating_sub(lapsed.len());
        let limit = many + lapsed.len();
        let parts: Vec<&[(i64, Phase)]> = section.legs.chunks(LEGS_MAX).collect();
        let is_late = lapsed.is_empty() && parts.len() == 1 && first > section.written / 2;
        let (way, skip) = match is_late {
            true => (SkipOrder::Backwards, section.written.saturating_sub(first + limit)),
            false => (SkipOrder::Forwards, first),
        };
        let statement = |legs: &&[(i64, Phase)]| match parts.len() {
            1 => self.keys_sql(sign, legs, way, limit, skip),
            // Rows of all parts are merged, so none can be skipped in one of them.
            _ => self.keys_sql(sign, legs, way, skip + limit, 0),
        };
        let statements: Vec<_> = parts.iter().map(statement).collect();
        let is_merged = statements.len() > 1;
        KeysWanted { statements, is_merged, first, lapsed, from, many }
    }

    fn keys_sql(
        &self,
        sign: char,
        legs: &[(i64, Phase)],
        way: SkipOrder,
        limit: usize,
        skip: usize,
    ) -> (String, Filter) {
        let mut filter = Filter::of_values(sign, Vec::new());
        let number = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
        let (limit, skip) = (filter.value(number(limit)), filter.value(number(skip)));
        let without: Vec<String> =
            self.without.iter().map(|task| filter.value(Value::Id(*task))).collect();
        let without = match without.is_empty() {
            true => String::new(),
            false => format!("AND t.id NOT IN ({})", without.join(", ")),
        };
        let index = if filter.is_postgres() { "" } else { "INDEXED BY tasks_by_phase" };
        let mut parts = Vec::new();
        for (project, phase) in legs {
            let project = filter.value(Value::Integer(*project));
            let lapsed = match self.has_lapsed && *phase == Phase::Working {
                true => self.not_lapsed(&mut filter),
                false => String::new(),
            };
            parts.push(format!(
                "SELECT {KEY} FROM tasks t {index} WHERE t.project = {project} \
                 AND t.phase = '{}' AND t.removed_at IS NULL {without} {lapsed}",
                phase.as_str()
            ));
        }
        let order = ["t.priority", "t.created_at", "t.id"];
        let place = PagePlace { limit: &limit, skip: &skip, is_postgres: filter.is_postgres() };
        let sql = merged(&parts, order, way, place);
        (sql, filter)
    }

    fn not_lapsed(&self, filter: &mut Filter) -> String {
        let now = filter.value(Value::Integer(self.now.0));
        format!(
            "AND t.id NOT IN (SELECT l.task FROM attempts l WHERE l.ended_at IS NULL \
             AND l.lease_expires_at IS NOT NULL AND l.lease_expires_at <= {now})"
        )
    }
}

impl KeysWanted {
    /// The part of the page that the rows of all statements make.
    pub fn page(&self, mut found: Vec<CardKey>) -> Vec<Id> {
        found.sort();
        if self.is_merged {
            found = found.split_off(self.first.min(found.len()));
        }
        // Lapsed tasks before the first row that was read lie before the page, too.
        let first = found.first().copied();
        let before = self.lapsed.iter().filter(|key| first.is_some_and(|first| **key < first));
        let skipped = if self.first == 0 { 0 } else { before.count() };
        let rank = self.first + skipped;
        found.extend(self.lapsed.iter().skip(skipped));
        found.sort();
        let page = found.into_iter().skip(self.from.saturating_sub(rank)).take(self.many);
        page.map(|key| key.id).collect()
    }
}
