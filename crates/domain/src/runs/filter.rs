//! The filter language on jobs.

use crate::actor::Actor;
use crate::board::column::Column;
use crate::board::filter::{CheckFilter, FilterTerm, FilterWants};
use crate::ids::TaskName;
use crate::runs::job::Job;
use crate::task::Task;
use crate::time::Timestamp;

/// The keys of the filter language that say something of jobs. Words stand without a key.
pub const JOB_FILTER_KEYS: [&str; 8] =
    ["actor", "epic", "check", "since", "label", "phase", "priority", "task"];

/// The facts of a job that a filter looks at.
#[derive(Clone, Copy, Debug)]
pub struct JobFacts<'j> {
    pub job: &'j Job,
    /// The title of the job's work.
    pub title: &'j str,
    /// The words of its agent, or why it failed.
    pub summary: &'j str,
    /// Who asked for the job.
    pub asked_by: Option<&'j Actor>,
    /// Who worked in the last run.
    pub agent: Option<&'j Actor>,
    pub task: Option<&'j Task>,
    /// The epic of the task.
    pub epic: Option<&'j Task>,
}

impl JobFacts<'_> {
    /// Whether the job fits every term. Terms that say nothing of jobs are ignored.
    pub fn fit(&self, terms: &[FilterTerm], now: Timestamp) -> bool {
        terms.iter().all(|term| self.fits(&term.wants, now).is_none_or(|fits| fits != term.is_not))
    }

    /// `None` for a term that says nothing of jobs. A job without a task fits no term about tasks.
    fn fits(&self, wants: &FilterWants, now: Timestamp) -> Option<bool> {
        let of_task = |fits: &dyn Fn(&Task) -> bool| Some(self.task.is_some_and(fits));
        match wants {
            FilterWants::Words(words) => {
                let has = |text: &str| text.to_ascii_lowercase().contains(words);
                Some(has(self.title) || has(self.summary))
            }
            FilterWants::Actor(name) => {
                let holder = self.task.and_then(|task| task.assignee.as_ref());
                Some(
                    [self.asked_by, self.agent, holder]
                        .into_iter()
                        .flatten()
                        .any(|who| is_named(who, name)),
                )
            }
            FilterWants::Epic(words) => {
                Some(self.epic.is_some_and(|epic| match TaskName::parse(words) {
                    Some(name) => epic.name().in_capitals() == name.in_capitals(),
                    None => epic.title.to_ascii_lowercase().contains(&words.to_ascii_lowercase()),
                }))
            }
            FilterWants::Check(wanted) => of_task(&|task| match wanted {
                CheckFilter::Fail => task.checks.iter().any(|check| check.result() == "fail"),
                CheckFilter::Pass => {
                    !task.checks.is_empty() && task.checks.iter().all(|check| check.is_pass())
                }
                CheckFilter::Open => task.checks.iter().any(|check| check.verdict.is_none()),
            }),
            FilterWants::Task(text) => of_task(&|task| match TaskName::parse(text) {
                Some(name) => task.name().in_capitals() == name.in_capitals(),
                None => text.parse() == Ok(task.id),
            }),
            FilterWants::Since(ms) => Some(now.ms_since(self.job.since()) <= *ms),
            FilterWants::Label(label) => of_task(&|task| task.label == *label),
            FilterWants::Phase(column) => of_task(&|task| Column::of(task) == *column),
            FilterWants::Priority(most) => Some(self.job.priority <= *most),
            FilterWants::Verb(_) | FilterWants::Project(_) => None,
        }
    }
}

/// Whether a term says something of jobs.
pub fn says_of_jobs(wants: &FilterWants) -> bool {
    !matches!(wants, FilterWants::Verb(_) | FilterWants::Project(_))
}

/// Whether this is the actor's name, with its kind or without.
fn is_named(actor: &Actor, name: &str) -> bool {
    let whole = actor.as_str();
    whole == name || whole.split_once(':').is_some_and(|(_, bare)| bare == name)
}
