//! Actions of people around a crew at a terminal, and the crew's HTTP interface.

use callboard_domain::command::AgentAdd;
use callboard_domain::crew::AgentId;
use callboard_domain::rights::AgentType;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::{MailFilter, TaskDraft};
use serde_json::Value;

use super::{World, actor, render};

fn op() -> OpContext {
    OpContext::new(Principal::local(actor("ana")), "crew")
}

fn agent(name: &str) -> AgentId {
    AgentId::parse(name).expect("an agent")
}

impl World {
    /// `epic User management`, `task T1 Add login`, `drop T2`, `add w1 WORKER T2`, `add s1 SUPERVISOR T1`, `rm w1`,
    /// `mail`, `sweep`, `runs T2`.
    pub(super) async fn crew(&mut self, line: &str) -> Vec<String> {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let engine = self.server().await.engine.clone();
        match word {
            "epic" => {
                let draft = TaskDraft { title: rest.into(), is_plan: true, ..TaskDraft::default() };
                let epic = engine.task_create(&op(), draft).await.expect("made");
                vec![self.names.shorten(&epic.it.task.id.to_string())]
            }
            "add" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let kind = AgentType::parse(words[1]).expect("a type");
                let on = words.get(2).map(|on| self.names.task(on).parse().expect("a task"));
                let add = AgentAdd {
                    agent: agent(words[0]),
                    kind,
                    epic: on.filter(|_| kind != AgentType::Worker),
                    task: None,
                    or_keep: false,
                    workers_max: None,
                };
                let added = match on.filter(|_| kind == AgentType::Worker) {
                    Some(on) => engine.agent_add_on(&op(), (agent(words[0]), kind), on).await,
                    None => engine.agent_add(&op(), add).await,
                };
                match added {
                    Ok(_) => Vec::new(),
                    Err(error) => vec![format!("error {}", self.names.shorten(&error.to_string()))],
                }
            }
            "task" => {
                let (epic, title) = rest.split_once(' ').expect("task T1 Title");
                let parent = Some(self.names.task(epic).parse().expect("an epic"));
                let (title, body) = (title.into(), "With care".into());
                let draft = TaskDraft { title, body, parent, ..TaskDraft::default() };
                let task = engine.task_create(&op(), draft).await.expect("made");
                vec![self.names.shorten(&task.it.task.id.to_string())]
            }
            "drop" => {
                let task = self.names.task(rest).parse().expect("a task");
                engine.task_remove(&op(), task).await.expect("removed");
                Vec::new()
            }
            // The background work of a server.
            "sweep" => {
                let done = engine.crew_sweep().await.expect("can be seen to");
                vec![format!("did {done}")]
            }
            // The runs of a task, which no tool shows.
            "runs" => {
                let task = self.names.task(rest).parse().expect("a task");
                let store = self.server().await.store.clone();
                let works = store.works("default", &[task], 10).await.expect("read");
                let line = |record: &callboard_domain::runs::run::RunRecord| {
                    let (job, attempt) = (&record.job, record.run.attempt);
                    format!("{} {} a{attempt}", job.id, job.state.as_str())
                };
                works.iter().map(|record| self.names.shorten(&line(record))).collect()
            }
            "rm" => {
                engine.agent_remove(&op(), &agent(rest)).await.expect("removed");
                Vec::new()
            }
            "mail" => {
                let filter = MailFilter { to: None, include_read: true, before: None, limit: 100 };
                let page = engine.mail_list(&op(), filter).await.expect("listed");
                let line = |mail: &callboard_domain::crew::Mail| {
                    let from = mail.from.as_ref().map_or("-", AgentId::as_str);
                    format!("{} {from}: {}", mail.id, mail.subject)
                };
                page.mails.iter().map(|seen| self.names.shorten(&line(&seen.mail))).collect()
            }
            other => panic!("crews do not {other}"),
        }
    }

    /// The log of an agent, the oldest row first; each context on one line.
    pub(super) async fn decisions(&mut self, of: &str) -> Vec<String> {
        let engine = self.server().await.engine.clone();
        let rows = engine.decision_list(&op(), Some(agent(of.trim())), None, 100).await;
        let mut lines = Vec::new();
        for row in rows.expect("listed").rows.iter().rev() {
            let context: Option<Value> = row.context.as_deref().map(|text| {
                let context = serde_json::from_str(text).expect("a context is JSON");
                let pretty = serde_json::to_string_pretty(&context).expect("plain data");
                assert_eq!(text, pretty, "two spaces an indent");
                context
            });
            lines.push(self.names.shorten(&format!("{} ({})", row.decision, row.reasoning)));
            if let Some(context) = context {
                lines
                    .extend(render(&self.shorten(&context)).iter().map(|line| format!("  {line}")));
            }
        }
        lines
    }

    /// The answer of `POST /mcp/execute` to a body: the status, then the envelope.
    pub(super) async fn execute(&mut self, body: &str) -> Vec<String> {
        let (body, keys) = body.rsplit_once(" | ").unwrap_or((body, ""));
        let body = match serde_json::from_str::<Value>(body) {
            Ok(body) => self.names.expand(&body).to_string(),
            Err(_) => body.to_owned(),
        };
        let lane = self.server().await.lane.clone();
        let (status, answer) = lane.execute(body).await;
        let keys: Vec<String> = keys.split_whitespace().map(str::to_owned).collect();
        let mut lines = vec![status.to_string()];
        lines.extend(self.show(Ok(answer), &keys));
        lines
    }
}
