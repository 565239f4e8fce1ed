//! The promises of the CLI's JSON: its lists with the keys that every item has, and the names of its objects.
//! `docs/reference/cli.schema.json` is printed from here.

use serde_json::Value;

// Every list with its name, the command that prints it, and its keys. A key is a promise to scripts: its value may be
// null, but the key is always there.
macro_rules! lists {
    ($($variant:ident => $name:literal, $command:literal, [$($key:literal),* $(,)?];)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum List { $($variant),* }

        impl List {
            #[cfg(test)]
            const ALL: &'static [List] = &[$(List::$variant),*];

            fn name(self) -> &'static str {
                match self { $(List::$variant => $name),* }
            }

            #[cfg(test)]
            fn command(self) -> &'static str {
                match self { $(List::$variant => $command),* }
            }

            /// The keys that every item has.
            fn keys(self) -> &'static [&'static str] {
                match self { $(List::$variant => &[$($key),*]),* }
            }
        }
    };
}

lists! {
    Tasks => "task.list", "task list",
        ["id", "title", "status", "priority", "assignee", "deps", "ready", "checks", "parent",
         "updatedAt", "executionState", "sessionId"];
    Next => "next", "next",
        ["id", "title", "status", "priority", "assignee", "deps", "ready", "checks", "parent",
         "updatedAt", "executionState", "sessionId", "knowledge"];
    Reviews => "review.list", "review",
        ["id", "title", "status", "assignee", "deps", "ready", "checks", "parent", "updatedAt",
         "review"];
    Events => "log", "log", ["seq", "at", "actor", "event", "task", "attempt", "data"];
    Agents => "agent.list", "agent list",
        ["id", "type", "state", "currentEpicId", "currentTaskId", "updatedAt"];
    Epics => "epic.list", "epic list",
        ["id", "title", "description", "state", "createdAt", "updatedAt"];
    Mails => "mail.list", "mail list",
        ["id", "fromAgentId", "fromAgentType", "subject", "body", "bodyChars", "isRead",
         "createdAt", "readAt", "inReplyTo"];
    Decisions => "decision.list", "decisions",
        ["id", "agentId", "decision", "reasoning", "context", "timestamp"];
    Plans => "plan.list", "plan list",
        ["id", "planId", "state", "by", "at", "tasks", "todos", "decidedAt", "decidedBy", "made"];
    Pulls => "pull.list", "pull list",
        ["url", "number", "forge", "repo", "status", "branch", "base", "head", "title", "task",
         "job", "mergeCommit", "createdAt", "changedAt"];
    Tokens => "token.list", "token list",
        ["id", "state", "org", "actor", "scopes", "lane", "profile", "agentType", "toolsets",
         "task", "createdAt", "createdBy", "expiresAt", "revokedAt", "revokedBy"];
    Webhooks => "webhook.list", "webhook list",
        ["id", "to", "type", "state", "tries", "triedAt", "outcome", "againAt"];
    Knowledge => "knowledge.list", "search",
        ["id", "title", "body", "tags", "confidence", "source", "sourceTaskId", "createdAt",
         "createdBy", "expiresAt", "supersededBy", "score", "snippet"];
    Jobs => "job.list", "job list", ["id", "state", "attempt", "summary"];
    Gc => "gc", "gc",
        ["path", "branch", "repo", "task", "size", "verdict", "reason", "removed"];
    Settings => "config.list", "config", ["key", "value", "origin", "default", "help"];
}

// Objects promise their name only: they differ by what the command was asked.
macro_rules! objects {
    ($($variant:ident => $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Object { $($variant),* }

        impl Object {
            #[cfg(test)]
            const ALL: &'static [Object] = &[$(Object::$variant),*];

            fn name(self) -> &'static str {
                match self { $(Object::$variant => $name),* }
            }
        }
    };
}

objects! {
    Task => "task",
    TaskRemoved => "task.removed",
    Review => "review",
    Status => "status",
    Agent => "agent",
    AgentRemoved => "agent.removed",
    Epic => "epic",
    Mail => "mail",
    MailSent => "mail.sent",
    Plan => "plan",
    Pull => "pull",
    PullMerged => "pull.merged",
    Token => "token",
    Knowledge => "knowledge",
    Diff => "diff",
    CheckLog => "check.log",
    Setting => "config",
    Doctor => "doctor",
    Init => "init",
    Clients => "clients",
    Trust => "trust",
    Page => "page",
    Migrate => "migrate",
    Model => "model",
    Backup => "backup",
    Import => "import",
    Export => "export",
    Restore => "restore",
    WebhookSecret => "webhook.secret",
    TaskTold => "task.told",
    Job => "job",
    JobSubmitted => "job.submitted",
    JobCanceled => "job.canceled",
    JobAnswered => "job.answered",
    Run => "run",
    RunStopped => "run.stopped",
    Bench => "bench",
    Event => "event",
    Error => "error",
}

impl List {
    pub fn schema(self) -> String {
        format!("callboard.{}/1", self.name())
    }

    /// The first key that an item should have but lacks.
    /// A debug assertion asks this before a list is printed, so a missing key fails a test instead of a script.
    pub fn missing(self, items: &[Value]) -> Option<&'static str> {
        let lacks = |key: &&&str| items.iter().any(|item| item.get(**key).is_none());
        self.keys().iter().find(lacks).copied()
    }
}

impl Object {
    pub fn schema(self) -> String {
        format!("callboard.{}/1", self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// A JSON Schema of every list, and of every object by its name.
    fn document() -> Value {
        let list = |list: &List| {
            let properties: serde_json::Map<String, Value> =
                list.keys().iter().map(|key| ((*key).to_owned(), json!({}))).collect();
            json!({
                "title": format!("callboard {} --json", list.command()),
                "type": "object",
                "required": ["schema", "items", "next"],
                "properties": {
                    "schema": {"const": list.schema()},
                    "items": {
                        "type": "array",
                        "items": {
                            "type": "object", "required": list.keys(), "properties": properties,
                        },
                    },
                    "next": {"type": ["string", "number", "null"]},
                },
            })
        };
        let object = |object: &Object| {
            json!({
                "type": "object",
                "required": ["schema"],
                "properties": {"schema": {"const": object.schema()}},
            })
        };
        let all: Vec<Value> =
            List::ALL.iter().map(list).chain(Object::ALL.iter().map(object)).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "What callboard prints with --json",
            "oneOf": all,
        })
    }

    /// `CALLBOARD_BLESS=1 cargo test -p callboard --bin callboard schema` rewrites the document.
    #[test]
    fn the_schema_is_documented() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.schema.json");
        let found = format!("{:#}\n", document());
        if std::env::var_os("CALLBOARD_BLESS").is_some() {
            return std::fs::write(&path, found).expect("the golden is written");
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(wanted == found, "{} differs; rewrite it with CALLBOARD_BLESS=1", path.display());
    }

    #[test]
    fn names_are_used_once() {
        let lists = List::ALL.iter().map(|list| list.schema());
        let mut names: Vec<String> =
            lists.chain(Object::ALL.iter().map(|object| object.schema())).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
