//! Pull requests.

use callboard_domain::pulls::Pull;
use callboard_domain::runs::job::JobId;

use super::cell::table;
use super::{Cells, RowReader};
use crate::PullOf;

/// The columns of a pull request `p` with its org `o` and its task `t`.
pub(crate) const PULL: &str = "o.name, p.forge, p.repo, p.number, p.url, p.status, p.branch, p.base, \
     p.head, p.title, p.is_awaited, p.is_revoked, p.merge_commit, p.task, t.prefix, p.job, \
     p.machine, p.created_at, p.changed_at";
/// LEFT, because a pull request may have no task.
pub(crate) const PULL_FROM: &str =
    "pulls p JOIN orgs o ON o.id = p.org LEFT JOIN tasks t ON t.id = p.task";

pub(crate) fn read<R: Cells>(row: &mut RowReader<'_, R>) -> Result<PullOf, R::Error> {
    let org = row.str()?.into();
    let pull = Pull {
        forge: row.text()?,
        repo: row.text()?,
        number: row.count()?,
        url: row.text()?,
        status: row.text()?,
        branch: row.text()?,
        base: row.text()?,
        head: row.text()?,
        title: row.text()?,
        is_awaited: row.flag()?,
        is_revoked: row.flag()?,
        merge_commit: row.text_if()?,
        task: row.task_or_gone()?,
        job: row.id_if()?.map(JobId),
        machine: row.text_if()?,
        created_at: row.time()?,
        changed_at: row.time()?,
    };
    Ok(PullOf { org, pull })
}

table! {
    PULLS = "pulls";
    fn values(org: i64, pull: &'a Pull) {
        org: org,
        forge: &pull.forge,
        repo: &pull.repo,
        number: pull.number,
        url: &pull.url,
        status: &pull.status,
        branch: &pull.branch,
        base: &pull.base,
        head: &pull.head,
        title: &pull.title,
        task: pull.task,
        job: pull.job,
        // Of a local pull request: its repository is a path there.
        machine: &pull.machine,
        created_at: pull.created_at,
        changed_at: pull.changed_at,
        is_awaited: pull.is_awaited,
        merge_commit: &pull.merge_commit,
        // A merge that is not wanted any more, while the forge may not know that yet.
        is_revoked: pull.is_revoked,
    }
}

/// Updates the state of a known pull request, which keeps its number.
/// `created_at` stays: `OpenPulls` pages through open pull requests by it.
pub(crate) const AGAIN: &str = "ON CONFLICT (org, forge, repo, number) DO UPDATE SET \
     url = excluded.url, status = excluded.status, branch = excluded.branch, base = excluded.base, \
     head = excluded.head, title = excluded.title, task = excluded.task, job = excluded.job, \
     machine = excluded.machine, changed_at = excluded.changed_at, \
     is_awaited = excluded.is_awaited, merge_commit = excluded.merge_commit, \
     is_revoked = excluded.is_revoked";
