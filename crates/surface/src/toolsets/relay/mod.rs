//! Jobs for agents: hand over a repository, a commit and a task, go on with other work, and read the patch when it is
//! there. The table is in the reference's order.

mod fields;
mod prompts;
mod read;
mod resource;
mod spec;
#[cfg(test)]
mod tests;
mod ticket;
mod tools;
mod view;
mod watch;
mod words;

use callboard_domain::refusal::Refusal;
use callboard_domain::rights::Profile;
use callboard_domain::runs::job::JobId;
use callboard_engine::context::Principal;
use serde_json::Value;

use crate::args::schema_of;
use crate::error::{STORE_DAMAGED, Voice};
use crate::front::Hints;
use crate::hooks::{Hooks, NoticesFrom, Started};
use crate::tool::{Tool, Toolset, handler};

const INSTRUCTIONS: &str = "Callboard runs coding agents. jobs_submit queues a job on a commit and \
    returns at once; jobs_get says how far it is and where its patch and notes are.";

pub static TOOLSET: Toolset = Toolset {
    name: NAME,
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        // The reference has one code for every fault of the server.
        unavailable: "INTERNAL_ERROR",
        unavailable_hint: None,
        damaged: STORE_DAMAGED,
        canceled: "INTERNAL_ERROR",
        internal: "INTERNAL_ERROR",
    },
    instructions: |_| INSTRUCTIONS.into(),
    prompts: Some(&prompts::PROMPTS),
    audit: None,
    hooks: HOOKS,
};

/// Jobs are resources, notices and tickets: three ways to follow one, for clients of different abilities.
const HOOKS: Hooks = Hooks {
    resources: Some(&resource::JobResources),
    notices: Some(&watch::JobNotices),
    tickets: Some(&ticket::JobTickets),
    started: Some(started),
    ..Hooks::NONE
};

const NAME: &str = "relay";
const SUBMIT: &str = "jobs_submit";
const GET: &str = "jobs_get";
const CANCEL: &str = "jobs_cancel";

/// A submit under a known key finds the first job.
const SUBMITS: Hints = Hints { idempotent: true, ..Hints::WRITE_OUTSIDE };
/// A cancel drops the work of an agent.
const CANCELS: Hints = Hints { destructive: true, ..Hints::WRITE_AGAIN };

/// A client that follows the job as a task gets, at its end, the result instead of the last four keys.
const SUBMITTED: &str = "jobId:string state:string deduplicated?:boolean statusUri?:string specMatches?:boolean \
    note?:string";

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new(SUBMIT, "Submit job",
        "Queues a job: an agent works read-only on a commit and answers with a patch, a test plan and notes. Returns at once; the same idempotencyKey finds the same job.",
        SUBMITS, schema_of::<spec::Submit>, SUBMITTED,
        tools::JOBS_SUBMIT).for_profile(Profile::PairWorker),
    Tool::new(GET, "Get job",
        "The state of a job: summary, artifacts, place in the queue, and the patch itself up to 8 kB.",
        Hints::READ, schema_of::<tools::JobArgument>,
        "id:string state:string summary:string|null lastUpdate:integer attempt:integer pr?:object reasonCode?:string \
            artifacts:object queuePosition?:integer taskId:string|null stateVersion:integer patch?:string patchNote?:string",
        handler!(tools::jobs_get)),
    Tool::new("jobs_list", "List jobs",
        "Jobs in the order of the queue: by priority, then the oldest. Paged: while hasMore, go on with a higher offset.",
        Hints::READ, schema_of::<tools::JobsListRequest>, "items:[object] total:integer hasMore:boolean",
        handler!(tools::jobs_list)),
    Tool::new(CANCEL, "Cancel job",
        "Ends an open job: stops its agent and drops its work.",
        CANCELS, schema_of::<tools::JobArgument>, "ok:boolean state:string code?:string",
        handler!(tools::jobs_cancel)).for_profile(Profile::PairWorker),
];

/// The submitter of a job gets its notices: all of them for a new job, those from now on for a known one.
fn started(tool: &str, answer: &Value) -> Option<Started> {
    let job: JobId = answer["jobId"].as_str().filter(|_| tool == SUBMIT)?.parse().ok()?;
    let from = match answer["deduplicated"] == false {
        true => NoticesFrom::Start,
        false => NoticesFrom::Now,
    };
    Some(Started { id: job.to_string(), notices: Some(from) })
}

/// Whether a caller of another interface may do what a tool does.
fn judge(tool: &str, principal: &Principal) -> Result<(), Refusal> {
    let tool = TOOLS.iter().find(|known| known.name == tool);
    tool.expect("this folder names only tools of its table").judge(principal)
}
