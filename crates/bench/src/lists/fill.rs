//! A store in which everything that lists show grows with the tasks: a tenth of them was worked on, and there is a mail,
//! a decision, a learning, a comment and a job for every tenth task.

use std::sync::Arc;

use callboard_domain::actor::Actor;
use callboard_domain::command::{AgentAdd, MailSend};
use callboard_domain::crew::{AgentId, DecisionId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_domain::task::comment::CommentKind;
use callboard_engine::context::OpContext;
use callboard_engine::{AttemptDraft, CommentDraft, Engine, KnowledgeDraft, TaskDraft};
use tokio::task::JoinSet;

use crate::bed::{actor, context};
use crate::{board, jobs};

/// Actors among whom the work is shared out.
const ACTORS: usize = 50;
const MAKERS: usize = 64;
/// One of so many tasks has been worked on, and has mail, knowledge and a job beside it.
const SHARE: usize = 10;
/// Sessions and jobs that are open at any size, as there are only so many agents.
const LIVE: usize = 20;

/// Rows that doors ask for by name.
pub struct Marks {
    pub task: TaskId,
    pub epic: Option<TaskId>,
    pub project: i64,
}

/// Adds the tasks from number `from` up to `to`.
pub async fn fill(engine: &Arc<Engine>, from: usize, to: usize) -> anyhow::Result<Marks> {
    let op = context(&actor(0)?);
    let (share_from, share_to) = (from / SHARE, to / SHARE);
    board::fill(engine, &op, to - from - (share_to - share_from)).await?;
    for n in 0..ACTORS {
        engine.agent_add(&op, worker(n)?).await?;
    }
    let mut makers = JoinSet::new();
    for maker in 0..MAKERS {
        let engine = engine.clone();
        makers.spawn(async move {
            let mut last = None;
            for n in (share_from + maker..share_to).step_by(MAKERS) {
                last = Some(work(&engine, n).await?);
            }
            anyhow::Ok(last)
        });
    }
    let mut last = None;
    while let Some(made) = makers.join_next().await {
        last = made??.or(last);
    }
    // The numbers of each day, as a server that runs for a while has them.
    engine.days_count().await?;
    let task = last.ok_or_else(|| anyhow::anyhow!("nothing was made"))?;
    let epics = engine.epic_list(&op, 1).await?;
    let epic = epics.first().map(|epic| epic.record.task.id);
    Ok(Marks { task, epic, project: engine.home().project.id })
}

fn worker(n: usize) -> anyhow::Result<AgentAdd> {
    let agent = AgentId::of(&actor(n)?);
    let (kind, epic, task) = (AgentType::Worker, None, None);
    Ok(AgentAdd { agent, kind, epic, task, or_keep: true, workers_max: None })
}

/// One task that was worked on, with everything beside it.
async fn work(engine: &Arc<Engine>, n: usize) -> anyhow::Result<TaskId> {
    let by = actor(n % ACTORS)?;
    let op = context(&by);
    let title = format!("Repair the gauge {n}");
    let draft = TaskDraft { title, priority: Some(500), ..TaskDraft::default() };
    let task = engine.task_create(&op, draft).await?.it.task.id;
    session(engine, &op, &by, task, n).await?;
    let (agent, id) = (AgentId::of(&by), || engine.fresh_id());
    let subject = format!("About gauge {n}");
    // Every second mail is for people.
    let (from, to) = match n % 2 {
        0 => (Some(agent.clone()), None),
        _ => (None, Some(agent.clone())),
    };
    let body = "The gauge reads too low; a second one agrees with the manual.".to_owned();
    let mail = MailSend { mail: MailId(id()), from, to, subject, body: body.clone() };
    let sent = engine.mail_send(&op, mail).await?;
    if n >= LIVE {
        engine.mail_read(&op, sent.id, sent.to).await?;
    }
    let words = (format!("Kept gauge {n}"), body.clone());
    engine.decision_log(&op, &agent, DecisionId(id()), words).await?;
    let learned = KnowledgeDraft {
        title: format!("Gauge {n} drifts"),
        body: body.clone(),
        tags: vec!["gauge".into()],
        confidence: None,
        expires_at: None,
        task: None,
        supersedes: None,
    };
    engine.knowledge_store(&op, learned).await?;
    let note = CommentDraft { task, kind: CommentKind::Note, body, rationale: None, parent: None };
    engine.comment_add(&op, note).await?;
    let job = engine.run_submit(&op, jobs::spec("fill", n)?).await?.record.job.id;
    if n >= LIVE {
        engine.run_cancel(&op, job).await?;
    }
    Ok(task)
}

/// A session that was finished or given up; the first ones are live.
async fn session(
    engine: &Arc<Engine>,
    op: &OpContext,
    by: &Actor,
    task: TaskId,
    n: usize,
) -> anyhow::Result<()> {
    let draft = AttemptDraft {
        task,
        key: "bench".into(),
        expected_actor: by.to_string(),
        client: None,
        model: None,
        worktree: None,
        branch: Some("work".into()),
        head: Some("7fd1a60b01f91b314f59955a4e4d4e80d8edf11d".into()),
        takeover: false,
    };
    let head = draft.head.clone();
    let attempt = engine.attempt_begin(op, draft).await?.it.id;
    match n {
        n if n < LIVE => {}
        n if n.is_multiple_of(3) => {
            engine.attempt_cancel(op, attempt, "given up".into()).await?;
        }
        _ => {
            engine.attempt_finish(op, attempt, "repaired".into(), head).await?;
        }
    }
    Ok(())
}
