//! The changed rows of an org and of its crew, as writes of single rows. A backend carries them out one after another:
//! these rows are few and their commands rare. No SQL stands here.

use callboard_domain::crew::AgentId;
use callboard_domain::desk::Desk;

use crate::table::{Values, agent, decision, mail, plan, project};

/// Columns of one row.
type Columns = &'static [&'static str];

/// A write of one row.
pub(crate) enum RowWrite<'a> {
    // A batch writes the rows of many commands, and a row may be new and changed in one batch. So each kind of write is
    // chosen from what the desk touched, not from single commands.
    Insert(Values<'a>),
    /// Inserts the row, or replaces the one with this key.
    Put(Values<'a>, Columns),
    /// Updates these columns of the row with this `id`.
    Update(Values<'a>, Columns),
    /// Deletes the row with this key.
    Delete(Values<'a>, Columns),
}

/// The writes of rows that belong to no task, in an order that both databases accept.
pub(crate) fn row_writes(org: i64, desk: &Desk) -> Vec<RowWrite<'_>> {
    let mut writes = of_org(org, desk);
    writes.extend(of_crew(org, desk));
    writes
}

fn of_org(org: i64, Desk { now, rows, touched }: &Desk) -> Vec<RowWrite<'_>> {
    let (rows, touched) = (&rows.org, &touched.org);
    let mut writes = Vec::new();
    let put = rows.settings.iter().filter(|(key, _)| touched.settings.contains(key));
    writes.extend(put.map(|(key, value)| {
        RowWrite::Put(project::setting_values(org, *key, value), &["org", "key"])
    }));
    let new = touched.projects_new.iter().filter_map(|id| rows.projects.get(id));
    writes.extend(new.map(|new| RowWrite::Insert(project::values(org, new))));
    let new = rows.repos.iter().filter(|repo| touched.repos_new.contains(&repo.id));
    writes.extend(new.map(|repo| RowWrite::Insert(project::repo_values(repo))));
    let opened = touched.projects_opened.iter();
    writes.extend(
        opened.map(|id| RowWrite::Update(project::opened_values(*id, *now), &["opened_at"])),
    );
    let opened = touched.opened.iter().filter_map(|actor| rows.opened.get_key_value(actor));
    writes.extend(opened.map(|(actor, id)| {
        RowWrite::Put(project::open_values(org, actor, *id, *now), &["org", "actor"])
    }));
    let new = touched.plans_new.iter().filter_map(|id| rows.plans.get(id));
    writes.extend(new.map(|new| RowWrite::Insert(plan::values(org, new))));
    // A plan that is new is inserted as it stands at the end of the batch, so it needs no update.
    let known = touched.plans.difference(&touched.plans_new).filter_map(|id| rows.plans.get(id));
    writes.extend(known.map(|known| RowWrite::Update(plan::values(org, known), &plan::STEPS)));
    writes
}

/// An updated agent is put as a whole row: its columns are few.
fn of_crew(org: i64, Desk { rows, touched, .. }: &Desk) -> Vec<RowWrite<'_>> {
    let (rows, touched) = (&rows.crew, &touched.crew);
    let mut writes = Vec::new();
    // An agent that was removed again is not on the desk, and is not written.
    let agent = |id: &AgentId| Some(agent::values(org, rows.agent(id)?));
    let gone = touched.agents_gone.iter();
    writes.extend(gone.map(|id| RowWrite::Delete(agent::key_values(org, id), &["org", "id"])));
    writes.extend(touched.agents_new.iter().filter_map(agent).map(RowWrite::Insert));
    let known = touched.agents.difference(&touched.agents_new).filter_map(agent);
    writes.extend(known.map(|agent| RowWrite::Put(agent, &["org", "id"])));
    let new = touched.mails_new.iter().filter_map(|id| rows.mail(*id));
    writes.extend(new.map(|mail| RowWrite::Insert(mail::values(org, mail))));
    // A mail that was written and read in one batch is inserted with its `read_at`.
    let read = touched.mails_read.difference(&touched.mails_new);
    let read = read.filter_map(|id| rows.mail(*id));
    writes.extend(read.map(|mail| RowWrite::Update(mail::values(org, mail), &["read_at"])));
    let new = touched.decisions.iter();
    writes.extend(new.map(|decision| RowWrite::Insert(decision::values(org, decision))));
    writes
}
