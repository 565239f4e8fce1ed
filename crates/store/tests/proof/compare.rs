//! Compares the rows that SQLite keeps with those of the desk. Both databases share the columns of each table and the way a
//! row is read, so a column that is forgotten there is missing in both of them alike. Only the desk still has its value.
//!
//! The desk does not know what no rule reads and no command writes: tokens, sessions of pages, quotas, handles, the answers
//! under retry keys, viewed files, looks and snoozes, the output of a run so far, what finds knowledge, and which entries a
//! task was given. Edges between tasks and knowledge are written by commands, but the store reads them only in searches.

use std::fmt::Debug;

use callboard_domain::desk::{Desk, TaskRows};
use callboard_domain::runs::delivery::Delivery;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{
    AgentQuery, CardStore, CrewStore, DecisionQuery, DeliveryStore, FileSpan, MailSeen, OrgStore,
    PullQuery, PullStore, ReviewStore, ReviewerOf, RunStore, Store,
};

type Compared = Result<(), String>;

const ALL: usize = i64::MAX as usize;

/// Compares everything that the desk knows.
pub async fn rows_kept(desk: &Desk, store: &SqliteStore, org: &str) -> Compared {
    for rows in desk.rows.tasks.values() {
        task(desk, rows, store, org).await?;
        reviews(desk, rows, store, org).await?;
    }
    work(desk, store, org).await?;
    words(desk, store, org).await?;
    of_org(desk, store, org).await?;
    crew(desk, store, org).await
}

/// A removed task is hidden with its card and its scratchpad.
async fn task(desk: &Desk, rows: &TaskRows, store: &SqliteStore, org: &str) -> Compared {
    let (id, is_there) = (rows.task.id, rows.removed_at.is_none());
    let record = store.task(org, id).await.unwrap();
    same("whether a task is there", &is_there, &record.is_some())?;
    if let Some(record) = record {
        same("a task", &rows.task, &record.task)?;
        same("a body", &rows.body, &record.body)?;
        let contract = &record.execution_contract;
        same("an execution contract", &rows.execution_contract, contract)?;
        same("deps", &desk.rows.deps_of(rows), &record.deps)?;
        let entries: Vec<_> = rows.entries.iter().map(|row| row.entry.clone()).collect();
        same("a history", &entries, &record.entries)?;
    }
    let card = is_there.then(|| rows.card.clone());
    same("a card", &card, &store.card(org, id).await.unwrap())?;
    let scratchpad = is_there.then(|| rows.scratchpad.clone());
    same("a scratchpad", &scratchpad, &store.scratchpad(org, id).await.unwrap())?;
    let removed = store.removed(org, id).await.unwrap().map(|removed| removed.at);
    same("the time of a removal", &rows.removed_at, &removed)
}

/// Drafts and comments that were sent; those of a removed task are hidden.
async fn reviews(desk: &Desk, rows: &TaskRows, store: &SqliteStore, org: &str) -> Compared {
    let (task, is_there) = (rows.task.id, rows.removed_at.is_none());
    let sent = desk.touched.comments_sent.iter().filter(|sent| sent.task == task && is_there);
    let mut sent: Vec<_> = sent.cloned().collect();
    let mut found = store.review_comments(org, task).await.unwrap();
    sent.sort_by_key(|sent| sent.id);
    found.sort_by_key(|sent| sent.id);
    same("comments that were sent", &sent, &found)?;
    for author in crate::office::authors() {
        let of = ReviewerOf { org: org.into(), task, author };
        let drafts = desk.rows.drafts.values();
        let drafts: Vec<_> =
            drafts.filter(|it| it.task == task && it.author == of.author).cloned().collect();
        let mut found = store.review_drafts(of).await.unwrap();
        found.sort_by_key(|draft| draft.id);
        same("drafts of comments", &drafts, &found)?;
    }
    Ok(())
}

/// Attempts with their outputs, jobs with their runs, files, messages to webhooks, and pull requests.
async fn work(Desk { rows, touched, .. }: &Desk, store: &SqliteStore, org: &str) -> Compared {
    for (id, attempt) in &rows.attempts {
        same("an attempt", &Some(attempt.clone()), &store.attempt(org, *id).await.unwrap())?;
        let output = touched.outputs.get(id).cloned();
        same("an output", &output, &store.output(*id).await.unwrap())?;
    }
    for (id, job) in &rows.jobs {
        same("a job", &Some(job.clone()), &store.job(org, *id).await.unwrap())?;
    }
    for (id, run) in &rows.runs {
        let found = store.run(org, *id).await.unwrap().map(|seen| seen.record.run);
        same("a run", &Some(run.clone()), &found)?;
    }
    for (name, bytes) in &touched.files_new {
        let found = store.file_get(org, name, FileSpan::WHOLE).await.unwrap();
        same("a file", &Some(bytes.to_vec()), &found.map(|file| file.bytes.to_vec()))?;
    }
    for new in &touched.deliveries_new {
        let tried = touched.deliveries_tried.get(&new.job).cloned();
        let delivery = Delivery { tried: tried.or_else(|| new.tried.clone()), ..new.clone() };
        let found = store.delivery(org, new.job).await.unwrap();
        same("a message to a webhook", &Some(delivery), &found)?;
    }
    let query = PullQuery { org: Some(org.into()), limit: ALL, ..PullQuery::default() };
    let found = store.pulls(query).await.unwrap();
    let mut found: Vec<_> = found.into_iter().map(|of| of.pull).collect();
    let mut pulls = rows.pulls.clone();
    for pulls in [&mut pulls, &mut found] {
        pulls.sort_by_key(|pull| (pull.forge.clone(), pull.repo.clone(), pull.number));
    }
    same("pull requests", &pulls, &found)
}

/// Comments on tasks, and knowledge.
async fn words(Desk { rows, .. }: &Desk, store: &SqliteStore, org: &str) -> Compared {
    for (id, comment) in &rows.comments {
        let known = rows.comment(*id).map(|_| comment.clone());
        same("a comment", &known, &store.comment(org, *id).await.unwrap())?;
    }
    for (id, entry) in &rows.knowledge {
        same("an entry", &Some(entry.clone()), &store.knowledge(org, *id).await.unwrap())?;
    }
    Ok(())
}

/// Settings, projects with their repositories, which actor has which project open, and plans.
async fn of_org(Desk { rows, .. }: &Desk, store: &SqliteStore, org: &str) -> Compared {
    let rows = &rows.org;
    let mut settings = rows.settings.clone();
    settings.sort_by_key(|(key, _)| key.as_str());
    same("the settings", &settings, &store.settings(org).await.unwrap())?;
    for (id, project) in &rows.projects {
        let found = store.project_in(org, *id).await.unwrap();
        same("a project", &Some(project.clone()), &found)?;
        let mut repos: Vec<_> =
            rows.repos.iter().filter(|repo| repo.project == *id).cloned().collect();
        let mut found = store.repos(org, *id).await.unwrap();
        repos.sort_by_key(|repo| repo.id);
        found.sort_by_key(|repo| repo.id);
        same("the repositories of a project", &repos, &found)?;
    }
    for (actor, project) in &rows.opened {
        let found = store.project_opened(org, actor).await.unwrap().map(|project| project.id);
        same("the project that an actor has open", &Some(*project), &found)?;
    }
    for (id, plan) in &rows.plans {
        same("a plan", &Some(plan.clone()), &store.plan(org, *id).await.unwrap())?;
    }
    Ok(())
}

/// Agents, mail and the log of decisions.
async fn crew(Desk { rows, touched, .. }: &Desk, store: &SqliteStore, org: &str) -> Compared {
    let query = AgentQuery { org: org.into(), kind: None, epic: None, limit: ALL };
    let (mut agents, mut found) = (rows.crew.agents.clone(), store.agents(query).await.unwrap());
    agents.sort_by(|a, b| a.id.cmp(&b.id));
    found.sort_by(|a, b| a.id.cmp(&b.id));
    same("the agents", &agents, &found)?;
    for mail in &rows.crew.mails {
        let from = mail.from.as_ref().and_then(|from| rows.crew.agent(from));
        let seen = MailSeen {
            mail: mail.clone(),
            from_type: from.map(|agent| agent.kind),
            body_chars: mail.body.chars().count(),
        };
        same("a mail", &Some(seen), &store.mail(org, mail.id).await.unwrap())?;
    }
    let query = DecisionQuery { org: org.into(), agent: None, before: None, limit: ALL };
    let (mut decisions, mut found) =
        (touched.crew.decisions.clone(), store.decisions(query).await.unwrap());
    decisions.sort_by_key(|decision| decision.id);
    found.sort_by_key(|decision| decision.id);
    same("the log of decisions", &decisions, &found)
}

pub fn same<T: Debug + PartialEq>(what: &str, one: &T, two: &T) -> Compared {
    if one == two {
        return Ok(());
    }
    let (one, two) = (format!("{one:#?}"), format!("{two:#?}"));
    Err(format!("{what} differ:\n{}", lines(&one, &two)))
}

/// The lines of two texts from the first that differs on.
pub fn lines(one: &str, two: &str) -> String {
    let at = one.lines().zip(two.lines()).take_while(|(a, b)| a == b).count();
    let part = |sign: &str, text: &str| {
        let lines = text.lines().skip(at.saturating_sub(3)).take(12);
        lines.map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    part("-", one) + &part("+", two)
}
