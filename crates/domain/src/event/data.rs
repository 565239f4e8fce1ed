//! What the data of events say, as types. Rules write the keys, readers ask here, and the table in `names.rs` lists
//! the keys. An event of an older version may lack a key, so each accessor may find nothing.

use serde_json::{Map, Value};

use super::EventName;
use crate::actor::Actor;
use crate::crew::MailId;
use crate::ids::TaskId;
use crate::knowledge::KnowledgeId;
use crate::policy::Phase;
use crate::runs::job::JobId;
use crate::runs::usage::RunUsage;
use crate::task::comment::CommentId;
use crate::time::Timestamp;

/// The data of one event.
#[derive(Clone, Copy, Debug)]
pub struct EventData<'e>(&'e Value);

impl<'e> EventData<'e> {
    pub fn of(data: &'e Value) -> Self {
        Self(data)
    }

    fn text(self, key: &str) -> Option<&'e str> {
        self.0[key].as_str()
    }

    fn is(self, key: &str) -> bool {
        self.0[key] == true
    }

    /// `task.status_changed`: the phase the task moved to.
    pub fn phase(self) -> Option<Phase> {
        self.text("phase").and_then(Phase::parse)
    }

    /// `task.status_changed`: the time of the move, where it differs from the event's.
    pub fn moved_at(self) -> Option<Timestamp> {
        self.0["at"].as_i64().map(Timestamp)
    }

    /// `task.ready`: the task or comment that stood in the way.
    pub fn unblocked_by(self) -> Option<&'e str> {
        self.text("unblocked_by")
    }

    /// `check.ran`, `check.attested`: the index of the check.
    pub fn check_index(self) -> Option<usize> {
        self.0["index"].as_u64().and_then(|index| usize::try_from(index).ok())
    }

    /// `check.ran`, `check.attested`: whether the check passed.
    pub fn is_pass(self) -> bool {
        self.text("result") == Some("pass")
    }

    /// `job.held`: whether processes of an earlier run are left.
    pub fn is_held(self) -> bool {
        self.0["left"].as_array().is_some_and(|left| !left.is_empty())
    }

    /// The job that the event is about.
    pub fn job(self) -> Option<JobId> {
        self.text("job")?.parse().ok()
    }

    /// Whether the job of the event ends an agent's work.
    pub fn is_stop(self) -> bool {
        self.text("kind") == Some("stop")
    }

    /// `job.submitted`: whether the job waits for a place.
    pub fn waits(self) -> bool {
        self.is("waits")
    }

    /// `job.started`: whether an earlier start goes on.
    pub fn is_resumed(self) -> bool {
        self.is("resumed")
    }

    /// `job.committed`: how many commits the task's target lacks.
    pub fn commits(self) -> u64 {
        self.0["commits"].as_u64().unwrap_or_default()
    }

    /// `job.committed`: whether the server committed changes that the agent had left.
    pub fn is_leftovers(self) -> bool {
        self.is("leftovers")
    }

    /// `job.used`: the agent, and the tokens and the cost of its run.
    pub fn used(self) -> Option<(Actor, RunUsage)> {
        let usage = RunUsage {
            input_tokens: self.0["input_tokens"].as_u64()?,
            output_tokens: self.0["output_tokens"].as_u64()?,
            cost_micros: self.0["cost_micros"].as_u64(),
        };
        Some((self.text("agent")?.parse().ok()?, usage))
    }

    /// `review.merged`: the commit in each repository. Events of older versions have none.
    pub fn merge_commits(self) -> Vec<&'e str> {
        let commits = self.0["commits"].as_array();
        commits.into_iter().flatten().filter_map(|commit| commit.as_str()).collect()
    }

    /// The runs of the job so far.
    pub fn attempt(self) -> &'e Value {
        &self.0["attempt"]
    }

    pub fn summary(self) -> Option<&'e str> {
        self.text("summary")
    }

    /// Why a job or a verification failed, or why a task is blocked.
    pub fn reason(self) -> Option<&'e str> {
        self.text("reason")
    }

    /// What the actor wrote: a note, a message, the news of a heartbeat, or a reason.
    pub fn said(self) -> Option<&'e str> {
        ["text", "progress", "reason"].iter().find_map(|key| self.text(key))
    }

    /// `comment.added`, `comment.resolved`: the comment.
    pub fn comment(self) -> Option<CommentId> {
        self.text("comment")?.parse().ok()
    }

    /// `knowledge.stored`: the entry.
    pub fn knowledge(self) -> Option<KnowledgeId> {
        self.text("knowledge")?.parse().ok()
    }

    /// The names of the artifacts of a job that ended.
    pub fn artifacts(self) -> impl Iterator<Item = &'e str> {
        self.0["artifacts"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// `job.artifact`, `job.pr`: the artifact that changed.
    pub fn artifact(self) -> Option<&'e str> {
        self.text("artifact")
    }

    /// The start of a job that ended, in milliseconds.
    pub fn started_at_ms(self) -> Option<i64> {
        self.0["started_at"].as_i64()
    }

    /// The end of a job, in milliseconds.
    pub fn finished_at_ms(self) -> Option<i64> {
        self.0["finished_at"].as_i64()
    }

    /// `job.asked`, `job.answered`: the number of the question.
    pub fn question(self) -> Option<u64> {
        self.0["question"].as_u64()
    }

    /// `job.answered`: whether the answer is yes.
    pub fn is_granted(self) -> bool {
        self.is("granted")
    }

    /// `review.failed`, `call.refused`: the action of a review.
    pub fn action(self) -> Option<&'e str> {
        self.text("action")
    }

    /// `review.failed`: whether files are in conflict.
    pub fn has_conflict(self) -> bool {
        !self.0["files"].is_null()
    }

    /// `call.refused`, `call.answered`: the tool.
    pub fn tool(self) -> Option<&'e str> {
        self.text("tool")
    }

    /// `call.refused`: the code of the refusal.
    pub fn code(self) -> Option<&'e str> {
        self.text("code")
    }

    /// The task that an event names in its data alone.
    pub fn named_task(self) -> Option<TaskId> {
        self.text("task")?.parse().ok()
    }

    /// `settings.updated`: each key with its old and new value.
    pub fn changes(self) -> Option<&'e Map<String, Value>> {
        self.0["changes"].as_object()
    }

    /// `mail.sent`, `mail.read`: the mail.
    pub fn mail(self) -> Option<MailId> {
        self.text("mailId")?.parse().ok()
    }

    /// `mail.sent`, `mail.read`: the recipient; `None` for people.
    pub fn mail_to(self) -> Option<&'e str> {
        self.text("toAgentId")
    }

    /// `mail.sent`, `mail.read`: whether people are the recipient.
    pub fn is_for_human(self) -> Option<bool> {
        self.0["isForHuman"].as_bool()
    }

    /// `mail.sent`: the subject.
    pub fn subject(self) -> Option<&'e str> {
        self.text("subject")
    }

    /// The agent of a crew that the event is about.
    pub fn agent(self) -> Option<&'e str> {
        self.text("agentId")
    }

    /// The keys that the table of events does not give to `name`.
    pub fn unlisted(self, name: EventName) -> Vec<&'e str> {
        let keys = self.0.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
        keys.filter(|key| !name.keys().contains(key)).collect()
    }
}
