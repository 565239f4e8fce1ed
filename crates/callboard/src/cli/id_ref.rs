//! An argument that names a job, a mail, a plan or the like: a whole id, or a beginning or an end that only one id has.
//! People type the shortest part that is unique.

use std::str::FromStr;

use callboard_domain::board::plan::PlanId;
use callboard_domain::crew::{AgentId, DecisionId, MailId};
use callboard_domain::ids::{IdKind, TaskId};
use callboard_domain::knowledge::KnowledgeId;
use callboard_domain::runs::job::JobId;
use callboard_domain::token::TokenId;
use serde_json::json;

use super::context::Open;
use crate::output::{Exit, Failure};

/// How many candidates are shown for an ambiguous part.
pub const SHOWN_MAX: usize = 5;
/// How many of the newest ids are compared with a mistyped one.
pub const NEAR_AMONG: usize = 500;
/// More errors than this in a short id would fit many ids.
const NEAR_EDITS_MAX: usize = 2;
const AGENTS_MAX: usize = 1_000;

/// The result of an argument that takes either.
pub enum TaskOrJob {
    Task(TaskId),
    Job(JobId),
}

/// How a command speaks of a kind of things: the noun in a message, the code, and the command that lists them.
struct Things {
    noun: &'static str,
    not_found: &'static str,
    list: &'static str,
}

const AGENTS: Things =
    Things { noun: "agent", not_found: "AGENT_NOT_FOUND", list: "callboard agent list" };
const DECISIONS: Things = Things {
    noun: "decision",
    not_found: "DECISION_NOT_FOUND",
    list: "callboard decisions --json",
};
const JOBS: Things =
    Things { noun: "job", not_found: "JOB_NOT_FOUND", list: "callboard job list --all" };
const KNOWLEDGE: Things =
    Things { noun: "entry", not_found: "KNOWLEDGE_NOT_FOUND", list: "callboard search \"…\"" };
const MAILS: Things =
    Things { noun: "mail", not_found: "MAIL_NOT_FOUND", list: "callboard mail list --all" };
const PLANS: Things =
    Things { noun: "plan", not_found: "PLAN_NOT_FOUND", list: "callboard plan list" };
const TOKENS: Things =
    Things { noun: "token", not_found: "TOKEN_NOT_FOUND", list: "callboard token list" };

impl Open {
    pub async fn decision_id(&self, typed: &str) -> Result<DecisionId, Failure> {
        self.id_of(IdKind::Decision, &DECISIONS, typed).await
    }

    pub async fn job_id(&self, typed: &str) -> Result<JobId, Failure> {
        self.id_of(IdKind::Job, &JOBS, typed).await
    }

    pub async fn knowledge_id(&self, typed: &str) -> Result<KnowledgeId, Failure> {
        self.id_of(IdKind::Knowledge, &KNOWLEDGE, typed).await
    }

    pub async fn mail_id(&self, typed: &str) -> Result<MailId, Failure> {
        self.id_of(IdKind::Mail, &MAILS, typed).await
    }

    pub async fn plan_id(&self, typed: &str) -> Result<PlanId, Failure> {
        self.id_of(IdKind::Plan, &PLANS, typed).await
    }

    pub async fn token_id(&self, typed: &str) -> Result<TokenId, Failure> {
        let tokens = self.engine().token_list().await?;
        let known: Vec<String> = tokens.iter().map(|token| token.id.to_string()).collect();
        TOKENS.pick(typed, &known)
    }

    /// An agent of the crew, by its id or a part of it.
    pub async fn agent_id(&self, typed: &str) -> Result<AgentId, Failure> {
        let op = self.op("agent_list");
        let agents = self.engine().agent_list(&op, None, None, AGENTS_MAX).await?;
        let known: Vec<String> = agents.iter().map(|agent| agent.id.to_string()).collect();
        AGENTS.pick(typed, &known)
    }

    /// A task if one matches, else a job.
    pub async fn task_or_job(&self, typed: &str) -> Result<TaskOrJob, Failure> {
        // `job_…` cannot be a task.
        if typed.trim().starts_with(IdKind::Job.sign()) {
            return self.job_id(typed).await.map(TaskOrJob::Job);
        }
        let no_task = match self.task_id(typed).await {
            Ok(task) => return Ok(TaskOrJob::Task(task)),
            Err(failure) => failure,
        };
        if no_task.exit_code() == Exit::NotFound as u8
            && let Ok(job) = self.job_id(typed).await
        {
            return Ok(TaskOrJob::Job(job));
        }
        Err(no_task)
    }

    /// A whole id is taken as typed: the command itself says whether it exists.
    async fn id_of<T: FromStr>(
        &self,
        kind: IdKind,
        things: &Things,
        typed: &str,
    ) -> Result<T, Failure> {
        let typed = typed.trim();
        if let Ok(whole) = typed.parse() {
            return Ok(whole);
        }
        let (engine, op) = (self.engine(), self.op("get"));
        let part = typed.strip_prefix(kind.sign()).unwrap_or(typed);
        // One more than is shown tells that there are more.
        let mut ids = engine.ids_typed(&op, kind, part, SHOWN_MAX + 1).await?;
        if ids.is_empty() {
            ids = engine.ids_typed(&op, kind, "", NEAR_AMONG).await?;
        }
        let known: Vec<String> = ids.iter().map(|id| format!("{}{id}", kind.sign())).collect();
        things.pick(typed, &known)
    }
}

impl Things {
    /// The id that equals the typed text, else the only one that begins or ends with it.
    fn pick<T: FromStr>(&self, typed: &str, known: &[String]) -> Result<T, Failure> {
        let typed = typed.trim();
        let part = typed.to_ascii_lowercase();
        let is_part = |id: &&String| {
            let id = id.to_ascii_lowercase();
            id.starts_with(&part) || rest(&id).starts_with(&part) || id.ends_with(&part)
        };
        let found: Vec<&String> = match known.iter().find(|id| *id == typed) {
            Some(exact) => vec![exact],
            None if typed.is_empty() => Vec::new(),
            None => known.iter().filter(is_part).collect(),
        };
        let unknown = || {
            let words = format!("there is no {} '{typed}'", self.noun);
            Failure::new(Exit::NotFound, self.not_found, words).hint(self.list)
        };
        match found.as_slice() {
            [only] => only.parse().map_err(|_| unknown()),
            [] => Err(near(unknown(), typed, known)),
            several => Err(ambiguous(typed, self.noun, several)),
        }
    }
}

/// The part of an id that differs from others of its kind.
fn rest(id: &str) -> &str {
    id.rsplit_once(['-', '_']).map_or(id, |(_, rest)| rest)
}

pub fn ambiguous(typed: &str, noun: &str, found: &[impl ToString]) -> Failure {
    let shown: Vec<String> = found.iter().take(SHOWN_MAX).map(ToString::to_string).collect();
    let more = if found.len() > SHOWN_MAX { ", …" } else { "" };
    let message = format!("'{typed}' fits more than one {noun}: {}{more}", shown.join(", "));
    Failure::new(Exit::Usage, "AMBIGUOUS_ID", message)
        .hint("write more of the id")
        .details(json!({"candidates": shown}))
}

/// The failure, with a hint at the one known id that the typed text may stand for.
pub fn near(failure: Failure, typed: &str, known: &[String]) -> Failure {
    match nearest(typed, known) {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure,
    }
}

fn nearest<'k>(typed: &str, known: &'k [String]) -> Option<&'k String> {
    let typed = typed.to_ascii_lowercase();
    let length = typed.chars().count();
    let edits = |text: &str| {
        let beginning: String = text.to_ascii_lowercase().chars().take(length).collect();
        strsim::damerau_levenshtein(&beginning, &typed)
    };
    let near: Vec<(usize, &String)> = known
        .iter()
        .map(|id| (edits(id).min(edits(rest(id))), id))
        // Fewer than a third of the letters may be wrong.
        .filter(|(edits, _)| *edits <= NEAR_EDITS_MAX && edits * 3 < length)
        .collect();
    let least = near.iter().map(|(edits, _)| *edits).min()?;
    let mut best = near.iter().filter(|(edits, _)| *edits == least);
    match (best.next(), best.next()) {
        // Of two equally near ids neither is proposed.
        (Some((_, only)), None) => Some(only),
        _ => None,
    }
}
