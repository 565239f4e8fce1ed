//! A crew of agents: mail, introspection, and work on epics. Every call is judged by its agent's type, written to a log
//! of decisions, retried after a transient fault, and reported when retries do not help. The table is in the
//! reference's order.

mod agent;
mod callers;
mod diff;
mod envelope;
mod epic;
mod execute;
mod hints;
mod inbox;
mod mail;
mod permission;
mod pipeline;
mod prompts;
mod system;
mod task;
mod words;

use crate::args::schema_of;
use crate::error::{STORE_DAMAGED, Voice};
use crate::front::Hints;
use crate::hooks::Hooks;
use crate::tool::{NoArguments, Tool, Toolset};
use pipeline::seated;

const NAME: &str = "crew";

const INSTRUCTIONS: &str = "You are one of a crew of agents. mcp__agent__get_status says who you are, \
    mcp__mail__list_inbox what others wrote to you. Every answer has success, and data or error.";

pub static TOOLSET: Toolset = Toolset {
    name: NAME,
    tools: TOOLS,
    voice: Voice {
        say: words::say,
        unavailable: envelope::TRANSIENT_ERROR,
        unavailable_hint: None,
        damaged: STORE_DAMAGED,
        // The reference has no code for a cancelled call.
        canceled: envelope::INTERNAL_ERROR,
        internal: envelope::INTERNAL_ERROR,
    },
    instructions: |_| INSTRUCTIONS.into(),
    prompts: Some(&prompts::PROMPTS),
    // The pipeline logs refused calls itself.
    audit: None,
    hooks: HOOKS,
};

/// The inbox as a resource, agents as callers by name, and a route for scripts that call tools over plain HTTP.
const HOOKS: Hooks = Hooks {
    resources: Some(&inbox::Inbox),
    callers: Some(&callers::Agents),
    routes: Some(execute::routes),
    ..Hooks::NONE
};

/// An answer whose `data` holds these keys.
macro_rules! with_envelope {
    ($data:literal) => {
        concat!("success:boolean data?:{", $data, "} error?:object timestamp:string")
    };
}

/// Merges at a forge or in a repository.
const DESTRUCTIVE_OUTSIDE: Hints = Hints { destructive: true, ..Hints::WRITE_OUTSIDE };
/// Cancelling an epic gives up its tasks; cancelling it again changes nothing.
const DESTRUCTIVE_AGAIN: Hints = Hints { destructive: true, ..Hints::WRITE_AGAIN };
/// The pull request of an epic is opened once; asking again finds it.
const AGAIN_OUTSIDE: Hints = Hints { idempotent: true, ..Hints::WRITE_OUTSIDE };

// Names begin with `mcp__` as in the reference; the patterns in `permission.rs` are written over them.
#[rustfmt::skip]
static TOOLS: &[Tool] = &[
    Tool::new("mcp__mail__list_inbox", "List inbox",
        "Lists mail that was sent to you, the newest first. Does not mark it as read.",
        Hints::READ, schema_of::<mail::ListInbox>,
        with_envelope!("count:integer unreadCount:integer mails:[object] nextCursor:string|null"),
        seated!(mail::list_inbox)),
    Tool::new("mcp__mail__read", "Read mail",
        "Reads one mail whole and marks it as read.",
        Hints::WRITE_AGAIN, schema_of::<mail::MailReadRequest>,
        with_envelope!("id:string fromAgentId:string|null fromAgentType:string|null subject:string body:string \
            isRead:boolean createdAt:string readAt:string|null inReplyTo:string|null"),
        seated!(mail::read)),
    Tool::new("mcp__mail__send", "Send mail",
        "Sends mail to another agent (toAgentId), or to people (toHuman: true).",
        Hints::WRITE, schema_of::<mail::Send>,
        with_envelope!("mailId:string timestamp:string"),
        seated!(mail::send)),
    Tool::new("mcp__mail__reply", "Reply to mail",
        "Answers mail that you received; the answer goes to its sender.",
        Hints::WRITE, schema_of::<mail::MailReplyRequest>,
        with_envelope!("mailId:string timestamp:string"),
        seated!(mail::reply)),
    Tool::new("mcp__agent__get_status", "Get own status",
        "Who you are, what state you are in, and your current epic and task.",
        Hints::READ, schema_of::<NoArguments>,
        with_envelope!("id:string type:string state:string currentEpicId:string|null currentTaskId:string|null \
            tmuxSessionName:string|null lastActiveAt:string createdAt:string updatedAt:string"),
        seated!(agent::get_status)),
    Tool::new("mcp__agent__get_task", "Get own task",
        "The task you work on: text, state, worktree and branch.",
        Hints::READ, schema_of::<NoArguments>,
        with_envelope!("id:string number:integer title:string description:string state:string epicId:string|null \
            worktreePath:string|null branchName:string|null prUrl:string|null createdAt:string \
            updatedAt:string"),
        seated!(agent::get_task)),
    Tool::new("mcp__agent__get_epic", "Get own epic",
        "The epic you look after, or that your task is part of.",
        Hints::READ, schema_of::<NoArguments>,
        with_envelope!("id:string number:integer title:string description:string state:string createdAt:string \
            updatedAt:string completedAt:string|null"),
        seated!(agent::get_epic)),
    Tool::new("mcp__epic__create_task", "Create task",
        "Creates a task of your epic; a worker is assigned automatically.",
        Hints::WRITE, schema_of::<epic::CreateTask>,
        with_envelope!("taskId:string title:string worktreeName:string message:string"),
        seated!(epic::create_task)),
    Tool::new("mcp__epic__list_tasks", "List tasks of the epic",
        "Lists the tasks of your epic, the oldest first.",
        Hints::READ, schema_of::<epic::ListTasks>,
        with_envelope!("epicId:string tasks:[object] nextCursor?:string"),
        seated!(epic::list_tasks)),
    Tool::new("mcp__epic__get_review_queue", "Get review queue",
        "Lists the tasks that wait for your review, the longest wait first.",
        Hints::READ, schema_of::<NoArguments>,
        with_envelope!("epicId:string queue:[object]"),
        seated!(epic::get_review_queue)),
    Tool::new("mcp__epic__approve_pr", "Approve and merge PR",
        "Merges a reviewed task into the epic branch, if its checks pass, and tells others to rebase.",
        DESTRUCTIVE_OUTSIDE, schema_of::<epic::OneTask>,
        with_envelope!("taskId:string prUrl:string merged:boolean message:string"),
        seated!(epic::approve_pr)).long(),
    Tool::new("mcp__epic__request_changes", "Request changes",
        "Sends a task in review back to its worker, with feedback.",
        Hints::WRITE, schema_of::<epic::RequestChanges>,
        with_envelope!("taskId:string message:string"),
        seated!(epic::request_changes)),
    Tool::new("mcp__epic__read_file", "Read file in worktree",
        "Reads a file in the worktree of a task of your epic.",
        Hints::READ, schema_of::<epic::ReadFile>,
        with_envelope!("taskId:string filePath:string content:string"),
        seated!(epic::read_file)),
    Tool::new("mcp__epic__get_diff", "Get diff of a task",
        "What a task of your epic changes against the epic branch: files, counts and the diff, up to 64 kB.",
        Hints::READ, schema_of::<epic::OneTask>,
        with_envelope!("taskId:string targetBranch:string|null files:[object] fileCount:integer insertions:integer \
            deletions:integer diff:string diffBytes:integer truncated:boolean"),
        seated!(epic::get_diff)),
    Tool::new("mcp__epic__create_epic_pr", "Create epic PR",
        "Opens the pull request of the whole epic once its tasks are over, and asks people to look.",
        AGAIN_OUTSIDE, schema_of::<epic::CreateEpicPr>,
        with_envelope!("epicId:string prUrl:string prNumber:integer state:string message:string"),
        seated!(epic::create_epic_pr)).long(),
    Tool::new("mcp__system__log_decision", "Log decision",
        "Writes down a decision and why you took it.",
        Hints::WRITE, schema_of::<system::LogDecision>,
        with_envelope!("logId:string timestamp:string"),
        seated!(system::log_decision)),
    Tool::new("mcp__task__update_status", "Update own task",
        "Sets the state of your task; REVIEW opens its pull request.",
        Hints::WRITE_OUTSIDE, schema_of::<task::UpdateStatus>,
        with_envelope!("taskId:string state:string previousState:string prUrl:string|null changed:boolean \
            updatedAt:string"),
        seated!(task::update_status)),
    Tool::new("mcp__task__add_comment", "Add comment",
        "Adds a note to a task of your epic.",
        Hints::WRITE, schema_of::<task::AddComment>,
        with_envelope!("commentId:string taskId:string timestamp:string"),
        seated!(task::add_comment)),
    Tool::new("mcp__task__create", "Create task in an epic",
        "Creates a task of an epic; a worker is assigned automatically.",
        Hints::WRITE, schema_of::<task::EpicTaskCreateRequest>,
        with_envelope!("taskId:string title:string worktreeName:string message:string"),
        seated!(task::create)),
    Tool::new("mcp__task__assign", "Assign task",
        "Gives a task to a worker and tells the worker that had it before.",
        Hints::WRITE_AGAIN, schema_of::<task::Assign>,
        with_envelope!("taskId:string agentId:string state:string message:string"),
        seated!(task::assign)),
    Tool::new("mcp__epic__update_status", "Update epic status",
        "Moves your epic. CANCELLED gives up its open tasks.",
        DESTRUCTIVE_AGAIN, schema_of::<epic::UpdateStatus>,
        with_envelope!("epicId:string|null state:string previousState:string skipped:[string] updatedAt:string"),
        seated!(epic::update_status)),
];

/// The tool of this name, if there is one.
fn tool_named(name: &str) -> Option<&'static str> {
    TOOLS.iter().map(|tool| tool.name).find(|known| *known == name)
}
