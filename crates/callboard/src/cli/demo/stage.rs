//! Where the demo is played: tools are called as an actor, and each step is told to the person who watches.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::command::NewCheck;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::{DiffSide, ReviewComment, quoted};
use callboard_domain::rights::Rights;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::{ChangesQuery, PatchWish, WorktreeChanges};
use callboard_engine::{Engine, Rejection, TaskDraft};
use callboard_surface::front::{Front, ToolReply, Unknown};
use serde_json::{Value, json};

use crate::output::{Exit, Failure, Out};

/// The person of the demo.
pub(super) const YOU: &str = "human:you";

/// How often a state is looked at, and how long it may take.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// 45 seconds in all.
const LOOKS_MAX: u32 = 450;

pub(super) struct Stage {
    pub front: Arc<Front>,
    /// The rights of the person of the demo.
    pub rights: Rights,
    pub folder: PathBuf,
    pub pace: Duration,
    pub out: Out,
}

/// A task of the demo: its id, and its short name for people.
#[derive(Clone, Debug)]
pub(super) struct DemoTask {
    pub id: TaskId,
    pub name: String,
}

/// A session at work, and the folder of its worktree.
#[derive(Clone, Debug)]
pub(super) struct DemoSession {
    pub id: String,
    pub folder: PathBuf,
}

/// A comment on a line of a file that a task changed.
pub(super) struct LineComment {
    pub path: &'static str,
    pub line: u32,
    pub text: &'static str,
}

impl LineComment {
    /// The comment with the code that it is about; `None` for a file without changes.
    fn placed(&self, changes: &WorktreeChanges) -> Option<ReviewComment> {
        let file = changes.files.iter().find(|file| file.path == self.path)?;
        let blob = file.new_blob.clone()?;
        let line = changes.texts.get(&blob)?.lines().nth(self.line as usize - 1)?;
        Some(ReviewComment {
            path: self.path.into(),
            side: DiffSide::New,
            first_line: self.line,
            last_line: self.line,
            quote: quoted([line]),
            text: self.text.into(),
            blob,
        })
    }
}

impl Stage {
    pub fn engine(&self) -> &Arc<Engine> {
        self.front.engine()
    }

    /// The context of a verb of the engine.
    pub fn op(&self, who: &str, tool: &'static str) -> Result<OpContext, Failure> {
        Ok(OpContext::new(self.principal(who)?, tool))
    }

    pub async fn add(&self, draft: TaskDraft) -> Result<DemoTask, Failure> {
        let title = draft.title.clone();
        let made = self.engine().task_create(&self.op(YOU, "create")?, draft).await?.it.task;
        self.say(YOU, "create", &title).await;
        Ok(DemoTask { id: made.id, name: made.name().to_string() })
    }

    /// Starts a session in a worktree of its own; `round` counts the sessions of the task.
    pub async fn begin(
        &self,
        who: &str,
        task: &DemoTask,
        round: u32,
    ) -> Result<DemoSession, Failure> {
        // A repeat of a begin finds its session; a second round needs another key.
        let key = format!("{} {round}", task.id);
        let begin = json!({"id": task.id, "expected_actor": who, "idempotency_key": key,
            "worktree": "new", "client": "demo"});
        let session = self.step(who, "begin", begin, &task.name).await?;
        match (session["id"].as_str(), session["live"]["worktree"].as_str()) {
            (Some(id), Some(folder)) => Ok(DemoSession { id: id.into(), folder: folder.into() }),
            _ => Err(stuck(format!("the session has no worktree: {session}"))),
        }
    }

    /// Waits until an answer of a tool says what the scene needs.
    pub async fn until(
        &self,
        what: &str,
        tool: &str,
        arguments: Value,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        for _ in 0..LOOKS_MAX {
            let seen = self.call(YOU, tool, arguments.clone()).await?;
            if holds(&seen) {
                return Ok(seen);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(stuck(format!("the demo waited in vain until {what}")))
    }

    /// Calls a tool and tells of it.
    pub async fn step(
        &self,
        who: &str,
        tool: &str,
        arguments: Value,
        about: &str,
    ) -> Result<Value, Failure> {
        let answer = self.call(who, tool, arguments).await?;
        let status = ["status", "new_status"].map(|name| answer[name].as_str());
        let words = match status.into_iter().flatten().next() {
            Some(status) => format!("{about} ({status})"),
            None => about.to_owned(),
        };
        self.say(who, tool, &words).await;
        Ok(answer)
    }

    pub async fn say(&self, who: &str, tool: &str, words: &str) {
        self.out.note(&format!("{who:<13} {tool:<14} {words}"));
        tokio::time::sleep(self.pace).await;
    }

    pub async fn call(&self, who: &str, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let principal = self.principal(who)?;
        let context = |tool| OpContext::new(principal, tool);
        match self.front.call(tool, arguments, context).await {
            // Tools of the board answer refusals as results.
            Ok(ToolReply::Done(value)) if value["success"] == false => {
                let text = |name: &str| value[name].as_str().or(value["error"][name].as_str());
                let code = text("code").unwrap_or("DEMO_REFUSED");
                let words = format!("{tool}: {}", text("message").unwrap_or_default());
                Err(Failure::new(Exit::Failure, code, words))
            }
            Ok(ToolReply::Done(value)) => Ok(value),
            Ok(ToolReply::Refused(error)) => Err(Failure::rendered(Exit::Failure, &error)),
            Err(Unknown(name)) => Err(Failure::usage(format!("there is no tool '{name}'"))),
        }
    }

    /// Sends work back with comments on lines of its files, as a person does on the page.
    pub async fn send_back(
        &self,
        task: &DemoTask,
        words: &str,
        comments: &[LineComment],
    ) -> Result<(), Failure> {
        let op = self.op(YOU, "review")?;
        let card = self.engine().review_get(&op, task.id).await?.it.card;
        let mut placed = Vec::new();
        for comment in comments {
            let query = ChangesQuery {
                patch: PatchWish::File(comment.path.into()),
                texts: true,
                ..ChangesQuery::default()
            };
            let changes = self.engine().workspace_changes(&op, &card, &query).await;
            let changes = changes.map_err(|fault| stuck(format!("no changes: {fault:?}")))?;
            let comment = changes.first().and_then(|part| comment.placed(&part.changes));
            placed.push(comment.ok_or_else(|| stuck("a comment is on no line".into()))?);
        }
        let rejection =
            Rejection { comments: placed, ..Rejection::of(words.into(), Phase::Working) };
        self.engine().review_reject(&op, task.id, rejection).await?;
        let count = comments.len();
        let many = if count == 1 { "1 comment".to_owned() } else { format!("{count} comments") };
        let words = format!("{} sent back with {many} on lines", task.name);
        self.say(YOU, "review", &words).await;
        Ok(())
    }

    fn principal(&self, who: &str) -> Result<Principal, Failure> {
        let actor: Actor = who.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        let is_human = actor.is_human();
        let mut principal = Principal::local(actor);
        if is_human {
            principal.rights = self.rights.clone();
        }
        Ok(principal)
    }
}

/// The failure of a demo that cannot go on.
pub(super) fn stuck(words: String) -> Failure {
    Failure::new(Exit::Failure, "DEMO_STUCK", words)
}

/// Writes a file of the demo, and the folders above it.
pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = match path.parent() {
        Some(parent) => fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)),
        None => fs::write(&path, text),
    };
    written.map_err(|error| Failure::io(format!("the demo cannot write {name}"), &error))
}

/// A check that runs a command.
pub(super) fn command(line: &str) -> NewCheck {
    NewCheck { desc: line.into(), cmd: Some(line.into()), ..NewCheck::default() }
}

/// A check that a person attests.
pub(super) fn manual(desc: &str) -> NewCheck {
    NewCheck { desc: desc.into(), manual: true, ..NewCheck::default() }
}
