//! Comments on a task that ask for an answer. An open blocker keeps the task from being taken.

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::ids::{TaskId, id};
use crate::time::Timestamp;
use crate::words::words;

id!(CommentId, "cmt_", "not a comment id");

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum CommentKind {
        Question => "question",
        Blocker => "blocker",
        Note => "note",
        Reference => "reference",
        /// Proposes to give the task up; a human decides.
        Nack => "nack",
    }
}

impl CommentKind {
    /// Whether the author must give a reason.
    pub fn needs_rationale(self) -> bool {
        match self {
            CommentKind::Blocker | CommentKind::Nack => true,
            CommentKind::Question | CommentKind::Note | CommentKind::Reference => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    pub id: CommentId,
    pub task: TaskId,
    pub kind: CommentKind,
    pub body: String,
    pub rationale: Option<String>,
    /// The comment this one answers; an answer cannot be answered.
    pub parent: Option<CommentId>,
    pub author: Actor,
    pub created_at: Timestamp,
    pub resolved: Option<Resolved>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    pub at: Timestamp,
    pub by: Actor,
    pub words: Option<String>,
}

impl Comment {
    pub fn is_open(&self) -> bool {
        self.resolved.is_none()
    }

    /// Whether the comment waits to be settled.
    pub fn waits(&self) -> bool {
        match self.kind {
            CommentKind::Blocker | CommentKind::Question | CommentKind::Nack => self.is_open(),
            CommentKind::Note | CommentKind::Reference => false,
        }
    }

    pub fn blocks(&self) -> bool {
        self.kind == CommentKind::Blocker && self.is_open()
    }
}
