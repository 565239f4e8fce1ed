//! Every list, count, filter and page: of the toolsets, of the program's commands and of the board.

use serde_json::{Value, json};

use super::fill::Marks;
use crate::web::Served;

pub struct Door {
    pub name: String,
    pub ask: Ask,
}

#[derive(Debug)]
pub enum Ask {
    Tool { toolset: &'static str, tool: &'static str, arguments: Value },
    Page(String),
    Program(Vec<String>),
}

impl Ask {
    pub fn request(&self, server: &Served) -> String {
        match self {
            Ask::Tool { toolset, tool, arguments } => {
                server.call_in(toolset, tool, arguments, false)
            }
            Ask::Page(path) => server.page(path),
            Ask::Program(_) => String::new(),
        }
    }

    pub fn is_answered(&self, answer: &str) -> bool {
        match self {
            Ask::Tool { .. } => {
                answer.contains(r#""result""#) && !answer.contains(r#""isError":true"#)
            }
            Ask::Page(_) => answer.contains("</html>") || answer.contains("# TYPE"),
            Ask::Program(_) => true,
        }
    }
}

pub fn all(marks: &Marks, tasks: usize) -> Vec<Door> {
    let Marks { task, epic, project } = marks;
    let near_end = tasks - tasks / 10;
    // Every tenth task has a job, so this is the middle of the jobs.
    let middle_job = tasks / 20;
    let mut doors = Vec::new();
    let mut tool = |toolset: &'static str, tool: &'static str, arguments: Value| {
        // Numbers that grow with the store have no place in a name.
        let about = arguments.to_string().replace(&near_end.to_string(), "near the end");
        let about = about.replace(&format!("\"offset\":{middle_job}"), "\"offset\":in the middle");
        let about = about.replace(&task.to_string(), "a task");
        let name = format!("{toolset} {tool} {about}");
        doors.push(Door { name, ask: Ask::Tool { toolset, tool, arguments } });
    };
    for arguments in [
        json!({}),
        json!({"limit": 200}),
        json!({"status": "backlog"}),
        json!({"status": "done"}),
        json!({"status": "in_review"}),
        json!({"assignee": "agent:w1"}),
        json!({"assignee": "agent:w1", "status": "in_progress"}),
        json!({"assignee": ""}),
        json!({"ready": true}),
        json!({"ready": true, "status": "backlog"}),
        json!({"ready": true, "status": "backlog", "assignee": ""}),
        json!({"ready": false}),
        json!({"execution": "active"}),
        json!({"execution": "stalled"}),
        json!({"execution": "awaiting_review"}),
    ] {
        tool("graph", "list", arguments);
    }
    for arguments in [
        json!({}),
        json!({"actor": "agent:w1"}),
        json!({"actor": "agent:nobody"}),
        json!({"task": task}),
        json!({"status": "active"}),
        json!({"status": "finished"}),
        json!({"status": "canceled"}),
        json!({"health": "stalled"}),
    ] {
        tool("graph", "list_sessions", arguments);
    }
    tool("graph", "get", json!({"id": task}));
    tool("execution", "get_next_actionable", json!({}));
    tool("execution", "get_task", json!({"taskId": task}));
    tool("execution", "list_comments", json!({"taskId": task}));
    tool("execution", "search_knowledge", json!({"query": "gauge 7 drifts"}));
    for arguments in [
        json!({}),
        json!({"limit": 200}),
        json!({"offset": near_end}),
        json!({"project_id": project.to_string()}),
        json!({"filter": "BACKLOG"}),
        json!({"filter": "IN_PROGRESS"}),
        json!({"filter": "REVIEW"}),
        json!({"filter": "DONE"}),
        json!({"query": "parser"}),
        json!({"query": "nothing-has-this"}),
        json!({"exclude_task_ids": [task]}),
    ] {
        tool("board", "tasks_list", arguments);
    }
    tool("board", "get_task", json!({"task_id": task}));
    tool("board", "get_context", json!({"task_id": task}));
    tool("board", "audit_tail", json!({}));
    tool("board", "projects_list", json!({}));
    tool("board", "repos_list", json!({"project_id": project.to_string()}));
    tool("relay", "jobs_list", json!({}));
    tool("relay", "jobs_list", json!({"offset": middle_job}));
    tool("relay", "jobs_list", json!({"state": "CANCELED"}));
    tool("relay", "jobs_list", json!({"state": "QUEUED"}));
    for path in [
        "/",
        "/board",
        "/board?q=parser",
        "/board?q=nothing-has-this",
        "/board?q=actor:w1",
        "/board?q=check:fail",
        "/board?q=priority:P0",
        "/board?q=epic:Release",
        "/search?q=parser",
        "/search?q=nothing-has-this",
        "/graph",
        "/agents",
        "/agents/w1",
        "/audit",
        "/stats",
        "/jobs",
        "/mail",
        "/decisions",
        "/knowledge",
        "/knowledge?q=gauge",
        "/plans",
        "/settings",
        "/metrics",
    ] {
        doors.push(Door { name: format!("page {path}"), ask: Ask::Page(path.into()) });
    }
    // The address with the short name; a whole id leads there.
    let path = format!("/tasks/{}-1", task.prefix);
    doors.push(Door { name: "page of a task".into(), ask: Ask::Page(path) });
    let mut program = |line: &str| {
        let arguments = line.split(' ').map(str::to_owned).collect();
        doors.push(Door { name: format!("callboard {line}"), ask: Ask::Program(arguments) });
    };
    for line in [
        "status",
        "next",
        "task list",
        "task list --status done",
        "task list --assignee agent:w1",
        "task list --ready",
        "task list --open",
        "task list --search gauge",
        "job list",
        "review",
        "pull list",
        "plan list",
        "agent list",
        "epic list",
        "mail list",
        "mail list --all",
        "search gauge",
        "log",
        "decisions",
        "decisions --agent w1",
    ] {
        program(line);
    }
    if let Some(epic) = epic {
        for (name, words) in [
            ("callboard task show of an epic", ["task", "show"].as_slice()),
            ("callboard task list --epic", &["task", "list", "--epic"]),
        ] {
            let words = words.iter().map(|word| (*word).to_owned());
            let arguments = words.chain([epic.to_string()]).collect();
            doors.push(Door { name: name.into(), ask: Ask::Program(arguments) });
        }
    }
    doors
}
