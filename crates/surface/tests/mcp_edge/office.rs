//! A server whose agent acts by the title of its job.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use callboard_domain::ids::Id;
use callboard_domain::relay::spec::Repo;
use callboard_domain::relay::{FailReason, Problem, RunVerdict};
use callboard_domain::runs::job::JobId;
use callboard_engine::Alert;
use callboard_engine::context::OpContext;
use callboard_engine::ports::{AgentRunner, Answer, Asks, IdSource, Question, RunOrder, RunReport};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::lines::Client;
use crate::world::{World, principal};

/// An agent that acts by the title of its job, when released.
pub struct Actor(Semaphore);

#[async_trait]
impl AgentRunner for Actor {
    async fn repo_problems(&self, _: &Repo) -> Vec<Problem> {
        Vec::new()
    }

    async fn run(
        &self,
        order: RunOrder,
        asks: Arc<dyn Asks>,
        stop: CancellationToken,
    ) -> RunReport {
        let succeeded = (RunVerdict::Succeeded, "Completed successfully with 1 line diff");
        let play = async {
            match order.spec.task.title.as_str() {
                "asks twice" => {
                    let question = |text: &str, command: Option<&str>| Question {
                        text: text.into(),
                        command: command.map(str::to_owned),
                    };
                    let first = asks.ask(question("Run make?", Some("make"))).await;
                    let second = asks.ask(question("Look at the weather?", None)).await;
                    match (first, second) {
                        (Answer::Granted, Answer::Refused) => succeeded,
                        _ => (RunVerdict::Failed(FailReason::InternalError), "wrongly answered"),
                    }
                }
                "conflicts" => {
                    (RunVerdict::Failed(FailReason::Conflict), "Patch does not apply cleanly")
                }
                title if title.starts_with("hangs") => std::future::pending().await,
                _ => {
                    self.0.acquire().await.expect("never closed").forget();
                    succeeded
                }
            }
        };
        let (verdict, summary) = tokio::select! {
            played = play => played,
            () = stop.cancelled() => (RunVerdict::Stopped, ""),
        };
        let (patch, out) = (Some("diff\n".into()), Some("# Test Plan\n".into()));
        RunReport {
            verdict,
            summary: summary.into(),
            patch,
            out,
            logs: "worked\n".into(),
            usage: None,
        }
    }

    async fn clean_up(&self) {}
}

pub struct Office {
    pub world: World,
    agent: Arc<Actor>,
    ids: Arc<Counted>,
    _stop: DropGuard,
}

impl Office {
    pub async fn open() -> Self {
        let agent = Arc::new(Actor(Semaphore::new(0)));
        let ids = Arc::new(Counted(AtomicU64::new(1)));
        let world = World::with_agents(agent.clone(), ids.clone()).await;
        let stop = CancellationToken::new();
        tokio::spawn(world.front.engine().clone().run_agents_until(stop.clone(), Alert::Own));
        Self { world, agent, ids, _stop: stop.drop_guard() }
    }

    /// Releases one waiting agent.
    pub fn let_go(&self) {
        self.agent.0.add_permits(1);
    }

    /// The id of the next job, if no other row is created before.
    pub fn next_job(&self) -> String {
        JobId(Id(self.ids.0.load(Ordering::SeqCst).into())).to_string()
    }

    /// The step of a job, counted from 1, that made the event with this number.
    pub async fn step(&self, job: &str, version: u64) -> usize {
        let op = OpContext::new(principal("agent:test"), "resources");
        let steps = self.world.front.engine().run_events(&op, job.parse().unwrap()).await.unwrap();
        let step = steps.iter().position(|event| event.seq == version);
        1 + step.unwrap_or_else(|| panic!("{version} is no step of {job}: {steps:?}"))
    }

    pub async fn client(&self) -> Client {
        Client::in_world(&self.world).await
    }

    pub async fn legacy(&self) -> Client {
        let mut client = self.client().await;
        client.initialize().await;
        client
    }
}

/// Predictable ids.
struct Counted(AtomicU64);

impl IdSource for Counted {
    fn next_id(&self) -> Id {
        Id(self.0.fetch_add(1, Ordering::SeqCst).into())
    }
}

/// A valid spec, whose key is its title.
pub fn spec(title: &str) -> Value {
    json!({"spec": {
        "repo": {
            "type": "git",
            "url": "https://example.org/x.git",
            "baseBranch": "main",
            "baselineCommit": "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d",
        },
        "task": {"title": title, "description": "d", "acceptance": []},
        "scope": {"readPaths": [], "disallowReformatting": false},
        "outputContract": ["DIFF", "TEST_PLAN", "NOTES"],
        "execution": {
            "preferredModel": "m",
            "sandbox": "read-only",
            "askPolicy": "untrusted",
            "priority": "P1",
            "ttlS": 1800,
        },
        "idempotencyKey": title,
    }})
}
