//! The answer to a command, from the rows on the desk after its writes.

use serde::{Deserialize, Serialize};

use super::{Desk, TaskRows};
use crate::board::plan::Plan;
use crate::board::project::Project;
use crate::board::settings::SettingsKept;
use crate::crew::{DecisionId, Mail};
use crate::ids::TaskId;
use crate::knowledge::KnowledgeEntry;
use crate::runs::job::Job;
use crate::runs::run::RunRecord;
use crate::task::TaskRecord;
use crate::task::attempt::Attempt;
use crate::task::comment::Comment;
use crate::world::Reply;

/// The subject of a change, as of the commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Outcome {
    Task(Box<TaskRecord>),
    Attempt(Box<Attempt>),
    Comment(Box<Comment>),
    Job(Box<Job>),
    Knowledge(Box<KnowledgeEntry>),
    Run(Box<RunRecord>),
    Settings(SettingsKept),
    Project(Box<Project>),
    Plan(Box<Plan>),
    Mail(Box<Mail>),
    Decision(DecisionId),
    /// The task was removed (`TaskRemove`).
    Removed(TaskId),
    /// The command only added to the history.
    Noted,
}

impl Desk {
    /// `None` when the row that the reply names is not on the desk.
    pub fn answer(&self, reply: Reply) -> Option<Outcome> {
        let rows = &self.rows;
        Some(match reply {
            Reply::Task(id) => match rows.visible(id) {
                Some(task) => Outcome::Task(Box::new(self.record(task))),
                None => Outcome::Removed(id),
            },
            Reply::Attempt(id) => Outcome::Attempt(Box::new(rows.attempts.get(&id)?.clone())),
            Reply::Comment(id) => Outcome::Comment(Box::new(rows.comment(id)?.clone())),
            Reply::Job(id) => Outcome::Job(Box::new(rows.jobs.get(&id)?.clone())),
            Reply::Run(id) => {
                let (job, run) = (rows.jobs.get(&id)?.clone(), rows.runs.get(&id)?.clone());
                Outcome::Run(Box::new(RunRecord { job, run }))
            }
            Reply::Knowledge(id) => Outcome::Knowledge(Box::new(rows.knowledge.get(&id)?.clone())),
            Reply::Noted => Outcome::Noted,
            Reply::Decision(id) => Outcome::Decision(id),
            Reply::Settings => Outcome::Settings(rows.org.settings.clone()),
            Reply::Project(id) => Outcome::Project(Box::new(rows.org.projects.get(&id)?.clone())),
            Reply::Plan(id) => Outcome::Plan(Box::new(rows.org.plans.get(&id)?.clone())),
            Reply::Mail(id) => {
                let mail = rows.crew.mails.iter().find(|mail| mail.id == id)?;
                Outcome::Mail(Box::new(mail.clone()))
            }
        })
    }

    fn record(&self, rows: &TaskRows) -> TaskRecord {
        TaskRecord {
            task: rows.task.clone(),
            body: rows.body.clone(),
            execution_contract: rows.execution_contract.clone(),
            deps: self.rows.deps_of(rows),
            entries: rows.entries.iter().map(|row| row.entry.clone()).collect(),
            newest: self.rows.newest(&rows.task).cloned(),
        }
    }
}
