//! The scene that fills every screen of the board: a task in every state, agents at work and silent, a question, a
//! conflict, a failed run, a plan, mail, knowledge and decisions.

use std::time::Duration;

use callboard_domain::board::card::{Card, Mode};
use callboard_domain::command::{AgentAdd, MailSend};
use callboard_domain::crew::state::EpicState;
use callboard_domain::crew::{Agent, AgentId, DecisionId, MailId};
use callboard_domain::ids::TaskId;
use callboard_domain::rights::AgentType;
use callboard_engine::TaskDraft;
use serde_json::{Value, json};

use super::stage::{self, DemoSession, DemoTask, LineComment, Stage, YOU, command, manual, stuck};
use crate::output::Failure;

const LEAD: &str = "agent:lead";
const ADA: &str = "agent:ada";
const DORA: &str = "agent:dora";
const EVE: &str = "agent:eve";
/// The file of the work that is reviewed twice.
const EXITS: &str = "docs/exits.md";

/// Well below the silence after which a session counts as stalled.
const BEAT_EVERY: Duration = Duration::from_secs(3);

pub(super) struct Scene {
    epic: DemoTask,
    /// A session of an agent that says nothing after its first words.
    silent: DemoTask,
    /// Work on lines of the README that the story changes, too.
    shortened: DemoTask,
    /// Sessions that send heartbeats, each with its agent and its words.
    alive: Vec<(&'static str, DemoSession, &'static str)>,
}

/// What a person can act on when the scene stands.
pub(super) struct Waiting {
    review: DemoTask,
    /// A review in its second round.
    round: DemoTask,
    question: DemoTask,
    /// The job of the agent that asks.
    job: String,
    plan: String,
}

impl Scene {
    /// Begins work that must be older than the story.
    pub async fn open(stage: &Stage) -> Result<Self, Failure> {
        let epic = TaskDraft {
            body: "Version 1.0 greets people by name and in their language.".into(),
            is_plan: true,
            ..draft("Greetings 1.0")
        };
        let epic = stage.add(epic).await?;
        let silent = stage.add(part_of(&epic, "Measure how fast it greets")).await?;
        let session = stage.begin(DORA, &silent, 1).await?;
        let beat = json!({"session": session.id, "progress": "building the benchmark"});
        stage.step(DORA, "heartbeat", beat, "building the benchmark, then silent").await?;
        let shorter = TaskDraft { card: auto("script"), ..draft("Shorten the README") };
        let shortened = stage.add(shorter).await?;
        hand_over(stage, &shortened).await?;
        Ok(Self { epic, silent, shortened, alive: Vec::new() })
    }

    pub fn epic(&self) -> TaskId {
        self.epic.id
    }

    pub async fn fill(&mut self, stage: &Stage) -> Result<Waiting, Failure> {
        self.crew_writes(stage).await?;
        let review = self.languages(stage).await?;
        let round = self.second_round(stage).await?;
        let (question, job) = self.question(stage).await?;
        self.failed_run(stage).await?;
        self.work_goes_on(stage).await?;
        self.queue(stage, &question).await?;
        knowledge(stage, &review).await?;
        let plan = plan(stage).await?;
        let is_stalled =
            |seen: &Value| seen["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty());
        let stalled = json!({"execution": "stalled"});
        stage.until("an agent is silent", "list", stalled, is_stalled).await?;
        stage.say(DORA, "-", &format!("is silent on {}", self.silent.name)).await;
        Ok(Waiting { review, round, question, job, plan })
    }

    /// Says where each kind of thing stands, and what a person can do there.
    /// `page` is the address that signs in, where it was printed before.
    pub fn say_where(
        &self,
        stage: &Stage,
        waiting: &Waiting,
        (url, page): (&str, Option<&str>),
    ) -> Result<(), Failure> {
        let Waiting { review, round, question, job, plan } = waiting;
        let (review, round, question) = (&review.name, &round.name, &question.name);
        let (epic, conflict) = (&self.epic.name, &self.shortened.name);
        let folder = stage.folder.display();
        let sign_in = match page {
            Some(page) => format!(
                "the board stands; this URL signs you in on the page, once\n  {page}\n\
                 another one, from another terminal"
            ),
            None => "the board stands; sign in from another terminal to act on it".to_owned(),
        };
        stage.out.line(&format!(
            "{sign_in}\n  \
             cd {folder}\n  \
             callboard open   # prints a URL that signs you in on the page, once\n\
             click there\n  \
             {url}/ (what needs you: answer, allow or refuse in place)\n  \
             {url}/tasks/{review}/review (\"I looked: pass\", then Approve; or comment on a line and Send back)\n  \
             {url}/tasks/{round}/review (work in its second round: one comment answered, one not)\n  \
             {url}/tasks/{conflict}/review (work that conflicts with main: Merge offers a rebase)\n  \
             {url}/tasks/{question} (an agent that asks before it pushes)\n  \
             {url}/plans/{plan} (a plan of three tasks: approve it or put it away)\n  \
             {url}/board (every task and why it waits), {url}/tasks/{epic} (an epic and how far it is)\n  \
             {url}/agents, {url}/mail and {url}/decisions\n\
             or act from the terminal\n  \
             callboard diff {review}\n  \
             callboard check attest {review} 1\n  \
             callboard approve {review} --merge\n  \
             callboard job answer {job} yes\n  \
             callboard plan approve {plan}"
        ))
    }

    /// Sends the heartbeats of agents at work, until the demo ends.
    pub async fn keep_alive(&self, stage: &Stage) -> Result<(), Failure> {
        loop {
            for (who, session, words) in &self.alive {
                let beat = json!({"session": session.id, "progress": words});
                // A person may have ended the session on the page.
                if let Err(failure) = stage.call(who, "heartbeat", beat).await {
                    tracing::debug!(%failure, who, "a session of the demo is over");
                }
            }
            tokio::time::sleep(BEAT_EVERY).await;
        }
    }

    /// The crew: a lead on the epic, its decisions and its mail to people.
    async fn crew_writes(&self, stage: &Stage) -> Result<(), Failure> {
        let engine = stage.engine();
        let add = async |name: &str, kind, epic| -> Result<Agent, Failure> {
            let agent = AgentId::parse(name).ok_or_else(|| stuck(format!("no agent {name}")))?;
            let (task, or_keep, workers_max) = (None, false, None);
            let add = AgentAdd { agent, kind, epic, task, or_keep, workers_max };
            Ok(engine.agent_add(&stage.op(YOU, "agent_add")?, add).await?)
        };
        let lead = add("lead", AgentType::Supervisor, Some(self.epic.id)).await?;
        add("helper", AgentType::Worker, None).await?;
        let op = |tool| stage.op(LEAD, tool);
        engine.epic_move(&op("epic_move")?, &lead, EpicState::InProgress).await?;
        stage.say(LEAD, "epic_move", &format!("{} (IN_PROGRESS)", self.epic.name)).await;
        for (title, body) in [
            ("Words live in files", "Translators change a text file without reading a script."),
            ("English stays the default", "Scripts that call greet.sh today see no change."),
        ] {
            let (id, text) = (DecisionId(engine.fresh_id()), (title.into(), body.into()));
            engine.decision_log(&op("decision_log")?, &lead.id, id, text).await?;
            stage.say(LEAD, "decision_log", title).await;
        }
        let language = "Three are done.\nFrench or Spanish? I begin tomorrow.";
        let release = format!(
            "Please look at the review that waits.\nNobody has heard of {} for a while.",
            self.silent.name
        );
        for (subject, body) in [
            ("Which language comes next?", language.to_owned()),
            ("The release is ready but for its tag", release),
        ] {
            let (mail, from) = (MailId(engine.fresh_id()), Some(lead.id.clone()));
            let subject = subject.to_owned();
            let send = MailSend { mail, from, to: None, subject, body };
            let sent = engine.mail_send(&op("mail_send")?, send).await?;
            stage.say(LEAD, "mail_send", &sent.subject).await;
        }
        Ok(())
    }

    /// Work of an agent in several files, which waits for a person.
    async fn languages(&self, stage: &Stage) -> Result<DemoTask, Failure> {
        let draft = TaskDraft {
            body: "Greet in the language that `GREET_LANG` names.\n\nEnglish stays the default."
                .into(),
            checks: vec![command("sh test.sh"), manual("the words are right")],
            priority: Some(100),
            card: Card {
                criteria: vec!["each language has a test".into(), "the manual says how".into()],
                ..auto("script")
            },
            ..part_of(&self.epic, "Greet in three languages")
        };
        let task = stage.add(draft).await?;
        hand_over(stage, &task).await?;
        // The checks of work that an agent hands over run by themselves.
        stage
            .until("the checks have run", "get", json!({"id": task.id}), |seen| {
                seen["checks"][0]["result"] == "pass"
            })
            .await?;
        stage.say("agent:script", "-", &format!("{} waits for a person", task.name)).await;
        Ok(task)
    }

    /// Work that came back after a review: one of its comments is answered, one is not.
    async fn second_round(&self, stage: &Stage) -> Result<DemoTask, Failure> {
        let draft = TaskDraft {
            body: "Scripts that call greet.sh need to know how it ends.".into(),
            checks: vec![command("grep -q exits docs/exits.md")],
            card: auto("script"),
            ..part_of(&self.epic, "Say how greet.sh exits")
        };
        let task = stage.add(draft).await?;
        hand_over(stage, &task).await?;
        let comments = [
            LineComment {
                path: EXITS,
                line: 1,
                text: "Not for an unknown language: say what happens then.",
            },
            LineComment { path: EXITS, line: 3, text: "Where: on stdout or on stderr?" },
        ];
        stage.send_back(&task, "Two things are missing.", &comments).await?;
        hand_over(stage, &task).await?;
        Ok(task)
    }

    /// An agent that asks a person, with its job.
    async fn question(&self, stage: &Stage) -> Result<(DemoTask, String), Failure> {
        let draft = TaskDraft {
            body: "Tag the release and push the tag.".into(),
            card: auto("asker"),
            ..part_of(&self.epic, "Publish version 1.0")
        };
        let task = stage.add(draft).await?;
        let job = start(stage, &task).await?;
        let look = json!({"job_id": job, "task_id": task.id});
        let asked = stage
            .until("an agent asks", "jobs_get", look, |seen| seen["result"]["question"].is_object())
            .await?;
        let words = asked["result"]["question"]["text"].as_str().unwrap_or_default();
        stage.say("agent:asker", "asks", words).await;
        Ok((task, job))
    }

    async fn failed_run(&self, stage: &Stage) -> Result<(), Failure> {
        let draft =
            TaskDraft { card: auto("script"), ..part_of(&self.epic, "Translate the manual") };
        let task = stage.add(draft).await?;
        start(stage, &task).await?;
        let look = json!({"task_id": task.id, "include_scratchpad": true});
        stage
            .until("a run has failed", "get_task", look, |seen| {
                let notes = seen["scratchpad"].as_str().unwrap_or_default();
                seen["status"] == "BACKLOG" && !notes.is_empty()
            })
            .await?;
        stage.say("agent:script", "-", &format!("failed on {}", task.name)).await;
        Ok(())
    }

    /// Agents at work: one whose check fails, one under a lease.
    async fn work_goes_on(&mut self, stage: &Stage) -> Result<(), Failure> {
        let draft = TaskDraft {
            checks: vec![command("sh greet.sh '' | grep -q world"), command("sh test.sh")],
            ..part_of(&self.epic, "Greet the world for an empty name in quotes")
        };
        let task = stage.add(draft).await?;
        let session = stage.begin(ADA, &task, 1).await?;
        stage::write(&session.folder, "greet.sh", "echo \"hello ${1-world}\"\n")?;
        let words = "looking for the place where the name is read";
        let beat = json!({"session": session.id, "progress": words});
        stage.step(ADA, "heartbeat", beat, words).await?;
        stage.step(ADA, "run_checks", json!({"id": task.id}), "one check fails").await?;
        self.alive.push((ADA, session, words));
        let task = stage.add(draft_with("Draw a logo", 700)).await?;
        let claim = json!({"taskId": task.id, "leaseSec": 3600});
        stage.step(EVE, "claim_task", claim, "under a lease of an hour").await?;
        let begin = json!({"taskId": task.id, "status": "in_progress", "note": "sketching"});
        stage.step(EVE, "update_task_status", begin, &task.name).await?;
        Ok(())
    }

    /// Tasks without a worker: ready, blocked by a task, blocked by a comment, canceled.
    async fn queue(&self, stage: &Stage, publish: &DemoTask) -> Result<(), Failure> {
        let urgent = TaskDraft {
            body: "`greet.sh` prints the name as it is. Escape control characters first.".into(),
            checks: vec![command("sh test.sh")],
            priority: Some(10),
            ..part_of(&self.epic, "Escape control characters in names")
        };
        stage.add(urgent).await?;
        stage.add(draft_with("Write a page about the project", 600)).await?;
        for (title, deps) in [
            ("Announce version 1.0", vec![publish.id]),
            ("Compare the speed with 0.9", vec![self.silent.id, publish.id]),
        ] {
            stage.add(TaskDraft { deps, ..part_of(&self.epic, title) }).await?;
        }
        let blocked = stage.add(draft("Offer a package for Debian")).await?;
        let comment = json!({"taskId": blocked.id, "kind": "blocker",
            "body": "The licence of the words is not settled.",
            "rationale": "A package needs a licence for every file."});
        stage.step(EVE, "comment_on_task", comment, &blocked.name).await?;
        let dropped = stage.add(draft("Greet by telephone")).await?;
        let note = json!({"id": dropped.id, "text": "Nobody asked for it."});
        stage.step(YOU, "note", note, &dropped.name).await?;
        let cancel = json!({"id": dropped.id, "to": "canceled"});
        stage.step(YOU, "transition", cancel, &dropped.name).await?;
        Ok(())
    }
}

async fn knowledge(stage: &Stage, task: &DemoTask) -> Result<(), Failure> {
    let produced = json!({"taskId": task.id, "kind": "produced"});
    let entry = json!({"title": "Words are UTF-8", "tags": ["lang"], "confidence": 95,
        "body": "Files in lang/ are UTF-8, one greeting in a line.", "taskRef": produced});
    stage.step(EVE, "store_knowledge", entry, "Words are UTF-8").await?;
    let entry = json!({"title": "The tests need dash or bash", "tags": ["tests", "shell"],
        "confidence": 60, "body": "busybox ash is not tried yet."});
    let old = stage.step(EVE, "store_knowledge", entry, "The tests need dash or bash").await?;
    let entry = json!({"title": "The tests run in any POSIX shell", "tags": ["tests", "shell"],
        "confidence": 90, "supersedes": old["id"], "body": "dash, bash and busybox ash were tried."});
    stage.step(EVE, "store_knowledge", entry, "supersedes the entry before").await?;
    Ok(())
}

async fn plan(stage: &Stage) -> Result<String, Failure> {
    let tasks = json!([
        {"title": "Read the language from LANG", "type": "AUTO", "priority": "high",
         "description": "`GREET_LANG` goes first, then `LANG`.",
         "acceptance_criteria": ["LANG=de_DE.UTF-8 greets in German"]},
        {"title": "List the languages with --list", "type": "AUTO", "priority": "medium"},
        {"title": "Translate the manual into German", "type": "PAIR", "priority": "low"}]);
    let todos = json!([{"content": "read the open tasks", "status": "completed"},
        {"content": "compare with other tools", "status": "completed"}]);
    let proposal = json!({"tasks": tasks, "todos": todos});
    let made = stage.step("agent:planner", "propose_plan", proposal, "three tasks").await?;
    Ok(made["plan_id"].as_str().unwrap_or_default().to_owned())
}

/// Starts the agent of a task, and waits until its work is in review.
async fn hand_over(stage: &Stage, task: &DemoTask) -> Result<(), Failure> {
    start(stage, task).await?;
    let look = json!({"task_id": task.id, "include_review": true});
    let is_over = |seen: &Value| seen["status"] == "REVIEW";
    stage.until("an agent hands its work over", "get_task", look, is_over).await?;
    Ok(())
}

/// Starts the agent of a task; returns the job of the start.
async fn start(stage: &Stage, task: &DemoTask) -> Result<String, Failure> {
    let submit = json!({"task_id": task.id, "action": "start_agent"});
    let job = stage.step(YOU, "jobs_submit", submit, &format!("an agent on {}", task.name)).await?;
    let job = job["job_id"].as_str().unwrap_or_default().to_owned();
    let wait = json!({"job_id": job, "task_id": task.id, "timeout_seconds": 30});
    let started: Value = stage.call(YOU, "jobs_wait", wait).await?;
    match started["code"] == "STARTED" {
        true => Ok(job),
        false => Err(stuck(format!("the agent of {} did not start: {started}", task.name))),
    }
}

fn draft(title: &str) -> TaskDraft {
    TaskDraft { title: title.into(), ..TaskDraft::default() }
}

fn draft_with(title: &str, priority: u16) -> TaskDraft {
    TaskDraft { priority: Some(priority), ..draft(title) }
}

fn part_of(epic: &DemoTask, title: &str) -> TaskDraft {
    TaskDraft { parent: Some(epic.id), ..draft(title) }
}

fn auto(executor: &str) -> Card {
    Card { mode: Mode::Auto, agent: Some(executor.into()), ..Card::default() }
}
