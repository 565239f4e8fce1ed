//! Sending work back with comments, and what became of the comments since.

use std::collections::HashMap;

use callboard_domain::command::{ReviewDecide, ReviewSends, ReviewVerdict};
use callboard_domain::decide::rejected;
use callboard_domain::ids::TaskId;
use callboard_domain::policy::Phase;
use callboard_domain::review::answer::{CommentState, comment_state};
use callboard_domain::review::mark::ReviewMark;
use callboard_domain::review::{DiffSide, ReviewComment, SentComment};
use callboard_domain::task::TaskRecord;

use crate::board::card::CardSeen;
use crate::board::workspace::{WorkspaceSeen, head_of};
use crate::context::{OpContext, PersonVerb, Scope};
use crate::ports::FileFault;
use crate::{At, Engine, EngineError};

/// How much of a file is read to find the lines of a comment.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// For how many comments git is asked which commit answers them.
const ANSWERS_MAX: usize = 40;

/// A rejection as a caller wants it.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub feedback: String,
    /// The phase that the task goes back to.
    pub to: Phase,
    /// Comments besides the drafts.
    pub comments: Vec<ReviewComment>,
    /// Also sends all drafts of the caller.
    pub with_drafts: bool,
    /// The commit that the caller saw; `None`: with comments, the head of the task's workspace here.
    pub head: Option<String>,
    /// The review as the caller saw it.
    pub seen: ReviewMark,
}

impl Rejection {
    /// A rejection without comments.
    pub fn of(feedback: String, to: Phase) -> Self {
        let (comments, head, seen) = (Vec::new(), None, ReviewMark::default());
        Self { feedback, to, comments, with_drafts: false, head, seen }
    }
}

/// The comments that were sent about a task.
#[derive(Clone, Debug)]
pub struct ReviewComments {
    /// The head of the work now; `None` without a workspace here.
    pub head: Option<String>,
    /// The newest round first, each round by file and line.
    pub comments: Vec<CommentSeen>,
}

/// A sent comment, and what became of its lines.
#[derive(Clone, Debug)]
pub struct CommentSeen {
    pub sent: SentComment,
    /// `None`: the file cannot be read here.
    pub state: Option<CommentState>,
    /// The commit that changed the lines of an answered comment, where git can tell.
    pub commit: Option<String>,
}

impl Engine {
    /// Sends a task back from review: one message, one transaction. The drafts that went along are sent comments then.
    pub async fn review_reject(
        &self,
        op: &OpContext,
        task: TaskId,
        rejection: Rejection,
    ) -> Result<At<TaskRecord>, EngineError> {
        let card = self.card_get(op, task).await?.it;
        op.principal.judge_verb_on(op.tool, PersonVerb::SendBack, task)?;
        if rejection.with_drafts {
            self.review_drafts_follow(op, task).await?;
        }
        let sends = self.sends(op, task, &rejection).await?;
        let verdict = ReviewVerdict::Reject { to: rejection.to };
        let Rejection { feedback, mut seen, .. } = rejection;
        let work = match seen.work {
            Some(_) => self.work_beside(op, &card, &mut seen).await?,
            None => None,
        };
        let checked = None;
        let decision = ReviewDecide { task, verdict, feedback, checked, work, sends, seen };
        self.review_decide(op, &card.record, decision).await
    }

    /// The exact text that `review_reject` would send now. Nothing changes.
    pub async fn review_reject_preview(
        &self,
        op: &OpContext,
        task: TaskId,
        rejection: &Rejection,
    ) -> Result<String, EngineError> {
        op.principal.judge_on(op.tool, task)?;
        let sends = self.sends(op, task, rejection).await?;
        let drafts = self.review_drafts_now(op, task).await?;
        let drafts: Vec<_> = drafts.into_iter().map(|seen| seen.draft).collect();
        Ok(rejected(&rejection.feedback, &sends, &drafts)?.text)
    }

    /// The comments of a rejection with their ids. Git is asked for the head only when there may be a comment.
    async fn sends(
        &self,
        op: &OpContext,
        task: TaskId,
        rejection: &Rejection,
    ) -> Result<ReviewSends, EngineError> {
        let Rejection { comments, with_drafts, head, .. } = rejection;
        let head = match head {
            Some(head) => Some(head.clone()),
            None if comments.is_empty() && !with_drafts => None,
            None => {
                let seen = self.card_get(op, task).await?.it;
                head_of(&self.workspace_get(op, &seen).await?)
            }
        };
        let with_id = |comment: &ReviewComment| (self.review_comment_id(), comment.clone());
        let comments = comments.iter().map(with_id).collect();
        Ok(ReviewSends { comments, drafts: *with_drafts, head })
    }

    /// The comments that were sent about a task, each judged by its file as it is now. A fault of git leaves the
    /// states open.
    pub async fn review_comments_list(
        &self,
        op: &OpContext,
        task: TaskId,
    ) -> Result<ReviewComments, EngineError> {
        op.principal.judge(op.tool, Scope::TasksRead)?;
        let sent = self.parts.store.review_comments(&op.principal.org, task).await?;
        if sent.is_empty() {
            return Ok(ReviewComments { head: None, comments: Vec::new() });
        }
        let seen: CardSeen = self.card_get(op, task).await?.it;
        let places = self.workspace_get(op, &seen).await?;
        let mut files = HashMap::new();
        let (mut comments, mut asked) = (Vec::with_capacity(sent.len()), 0);
        for sent in sent {
            let path = &sent.comment.path;
            if !files.contains_key(path) {
                files.insert(path.clone(), self.file_now(&places, path).await);
            }
            let state = files.get(path).and_then(|file| file.as_ref()).map(|file| {
                let lines: Option<Vec<&str>> = file.as_ref().map(|text| text.lines().collect());
                comment_state(&sent.comment, lines.as_deref())
            });
            let commit = match state {
                Some(CommentState::Answered) if asked < ANSWERS_MAX => {
                    asked += 1;
                    self.answered_in(&places, &sent).await
                }
                _ => None,
            };
            comments.push(CommentSeen { sent, state, commit });
        }
        Ok(ReviewComments { head: head_of(&places), comments })
    }

    /// The commit that changed the lines of a sent comment. A fault of git leaves it open.
    async fn answered_in(&self, places: &[WorkspaceSeen], sent: &SentComment) -> Option<String> {
        let shop = self.parts.workshop.as_ref()?;
        let SentComment { comment, head, .. } = sent;
        // Lines that the work had removed are in no commit that could be followed.
        let since = head.as_ref().filter(|_| comment.side == DiffSide::New)?;
        let (seen, path) = place_of_path(places, &comment.path)?;
        let worktree = seen.part.worktree.as_ref()?;
        let lines = comment.first_line..=comment.last_line;
        let found = shop.worktrees.lines_changed_in(worktree, since, path, lines).await;
        found.unwrap_or_else(|fault| {
            tracing::info!(%fault, task = %sent.task, "git cannot tell which commit answers a comment");
            None
        })
    }

    /// The text of a file of the work; `Some(None)` for a file that is gone, `None` for one that cannot be read here.
    pub(super) async fn file_now(
        &self,
        places: &[WorkspaceSeen],
        path: &str,
    ) -> Option<Option<String>> {
        let shop = self.parts.workshop.as_ref()?;
        let (seen, path) = place_of_path(places, path)?;
        let root = &seen.part.worktree.as_ref()?.path;
        match shop.worktrees.file_read(root, path, FILE_BYTES_MAX).await {
            Ok(text) => Some(Some(text)),
            Err(FileFault::NotFound) => Some(None),
            Err(
                FileFault::Outside
                | FileFault::NotPlain
                | FileFault::TooLarge(_)
                | FileFault::NotText
                | FileFault::Failed(_),
            ) => None,
        }
    }
}

/// The repository of a path, and the path in it. With several repositories, a path stands below the name of its own.
fn place_of_path<'p>(
    places: &'p [WorkspaceSeen],
    path: &'p str,
) -> Option<(&'p WorkspaceSeen, &'p str)> {
    let there: Vec<_> = places.iter().filter(|seen| matches!(seen.state, Ok(Some(_)))).collect();
    match there[..] {
        [only] => Some((only, path)),
        _ => there.iter().find_map(|seen| {
            let below = path.strip_prefix(seen.name.as_str())?.strip_prefix('/')?;
            Some((*seen, below))
        }),
    }
}
