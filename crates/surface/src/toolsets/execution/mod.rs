//! A work queue under leases: list ready work, claim it, renew the lease, complete it; the task's contract decides
//! whether it is done. The table is in the reference's order, our own tools after it.

mod knowledge;
mod prompts;
mod read;
mod tools;
mod view;
mod words;

use callboard_engine::context::Scope;

use crate::args::schema_of;
use crate::error::Voice;
use crate::front::Hints;
use crate::hooks::Hooks;
use crate::tool::{Tool, Toolset, handler};

const INSTRUCTIONS: &str = "Callboard leases tasks. get_next_actionable shows what can start and \
    what is known about it; claim_task takes one under a lease, update_task_status keeps it, \
    complete_task hands over the output, which is verified before the task is done. get_task says why a \
    verification failed and what reviewers wrote; list_comments has all comments.";

pub static TOOLSET: Toolset = Toolset {
    name: "execution",
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: "system.unavailable",
        unavailable_hint: None,
        damaged: "system.store_damaged",
        // The reference has no code for a cancelled call; both may be tried again.
        canceled: "system.unavailable",
        internal: "system.internal",
    },
    instructions: |_| INSTRUCTIONS.into(),
    prompts: Some(&prompts::PROMPTS),
    audit: None,
    // This toolset has tools alone. Verifications are followed with `get_task`.
    hooks: Hooks::NONE,
};

#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("get_next_actionable", "Get next actionable tasks",
        "Ready tasks, most urgent first, with what was learned that matters to them.",
        Hints::READ, schema_of::<tools::NextActionable>, "tasks:[object]", handler!(tools::get_next_actionable)),
    Tool::new("claim_task", "Claim task",
        "Takes a ready task under a lease. Claiming again returns your lease.",
        Hints::WRITE_AGAIN, schema_of::<tools::Claim>,
        "taskId:string number:integer state:string holder:string attemptId:string fence:integer leaseSec:integer \
            leaseExpiresAt:string reclaimed:boolean title:string description:string executionContract:object \
            verificationContract:object verificationFailure:object|null repository:object|null review:[object]",
        handler!(tools::claim_task)),
    Tool::new("update_task_status", "Update task status",
        "in_progress starts the work and is the heartbeat; ready gives it back; cancelled gives it up.",
        Hints::WRITE, schema_of::<tools::TaskStatusRequest>,
        "taskId:string state:string previousState:string|null holder:string|null fence:integer \
            leaseExpiresAt:string|null updatedAt:string",
        handler!(tools::update_task_status)),
    Tool::new("complete_task", "Complete task",
        "Hands over the output and what was learned; the task's contract decides whether it is done.",
        Hints::WRITE_OUTSIDE, schema_of::<tools::Complete>,
        "taskId:string state:string verificationKind:string verificationStatus:string|null \
            verificationEtaSec:integer|null verificationFailure:object|null verificationJobId:string|null \
            knowledgeIds:[string] completedAt:string review:[object]",
        handler!(tools::complete_task)),
    Tool::new("add_task", "Add task",
        "Adds a task; what it depends on must exist.",
        Hints::WRITE, schema_of::<tools::Add>, "taskId:string state:string planId:string|null priority:integer createdAt:string created:boolean",
        handler!(tools::add_task)),
    Tool::new("set_dependency", "Set dependency",
        "Adds or removes a dependency of a task on another.",
        Hints::WRITE_AGAIN, schema_of::<tools::SetDependency>, "taskId:string dependsOn:[string] state:string changed:boolean",
        handler!(tools::set_dependency)),
    Tool::new("search_knowledge", "Search knowledge",
        "Finds what others learned; a score is 0..1, and from 0.5 on an entry is about the query.",
        Hints::READ, schema_of::<knowledge::Search>, "results:[object] degraded:boolean",
        handler!(knowledge::search_knowledge)).within(Scope::KnowledgeRead),
    Tool::new("store_knowledge", "Store knowledge",
        "Stores knowledge for the agents that work next.",
        Hints::WRITE, schema_of::<knowledge::Store>, "id:string embeddingStatus:string created:boolean",
        handler!(knowledge::store_knowledge)).within(Scope::KnowledgeWrite),
    Tool::new("comment_on_task", "Comment on task",
        "Adds a comment to a task. An open blocker keeps the task from being claimed.",
        Hints::WRITE, schema_of::<tools::Comment>, "commentId:string taskId:string kind:string open:boolean createdAt:string",
        handler!(tools::comment_on_task)),
    Tool::new("resolve_comment", "Resolve comment",
        "Closes a comment; only its author or a human may.",
        Hints::WRITE_AGAIN, schema_of::<tools::Resolve>, "commentId:string taskId:string open:boolean resolvedBy:string|null resolvedAt:string|null",
        handler!(tools::resolve_comment)),
    Tool::new("get_task", "Get task",
        "One task: state, holder, checks, why its verification failed, what reviewers wrote.",
        Hints::READ, schema_of::<read::TaskGetRequest>, "taskId:string state:string title:string description:string planId:string|null priority:integer \
            dependsOn:[string] holder:string|null fence:integer leaseExpiresAt:string|null executionContract:object \
            verificationContract:object checks:[object] verificationStatus:string|null \
            verificationFailure:object|null review:[object]",
        handler!(read::get_task)),
    Tool::new("list_comments", "List comments",
        "Comments on a task, the newest first.",
        Hints::READ, schema_of::<read::ListComments>, "taskId:string comments:[object] more:integer",
        handler!(read::list_comments)),
];
