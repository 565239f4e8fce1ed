//! The door of this process for the agents that it starts: MCP on loopback, for callers with the token of a run. It is
//! opened at the first run and lives as long as the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use callboard_domain::runs::work::Role;
use callboard_engine::Engine;
use callboard_engine::ports::Door;
use callboard_surface::front::Front;
use callboard_surface::http::{
    ConnectionLimits, FrontFor, Gate, HttpOptions, agents_router, serve_http,
};
use callboard_surface::mcp::McpOptions;
use callboard_surface::prompt::OwnPrompts;
use callboard_surface::toolsets;
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

/// The door, with what an agent sees there besides the board itself.
pub struct AgentDoor {
    pub mcp: McpOptions,
    pub repo: Option<String>,
    pub prompts: OwnPrompts,
    /// Set at the first run. Two runs that start at once open one door.
    pub address: OnceCell<String>,
}

#[async_trait]
impl Door for AgentDoor {
    async fn address(&self, engine: &Arc<Engine>) -> Result<String, String> {
        self.address.get_or_try_init(|| self.open(engine)).await.cloned()
    }

    /// The tools that an agent of this role works with.
    fn toolset(&self, role: Role) -> &'static str {
        match role {
            Role::Worker | Role::Reviewer => toolsets::board::TOOLSET.name,
            Role::Crew => toolsets::crew::TOOLSET.name,
        }
    }
}

impl AgentDoor {
    async fn open(&self, engine: &Arc<Engine>) -> Result<String, String> {
        let cannot = |error: std::io::Error| format!("cannot listen on 127.0.0.1: {error}");
        // A port that the system chooses: several servers of one machine must not meet.
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        // Loopback is open to every user of the machine, so the gate admits only the token of a live run.
        let gate = Arc::new(Gate::for_runs(engine));
        let options = HttpOptions::default();
        let routes = agents_router(options, self.mcp.clone(), self.fronts(engine), gate);
        tokio::spawn(async move {
            if let Err(error) =
                serve_http(listener, routes, ConnectionLimits::default(), CancellationToken::new())
                    .await
            {
                tracing::error!(%error, "agents cannot reach the board any more");
            }
        });
        Ok(format!("http://{address}"))
    }

    /// One front per set of toolsets, made at first use. A token names its toolsets, so there are few of them.
    fn fronts(&self, engine: &Arc<Engine>) -> FrontFor {
        let (engine, repo, prompts) = (engine.clone(), self.repo.clone(), self.prompts.clone());
        let made: Mutex<HashMap<Vec<&'static str>, Arc<Front>>> = Mutex::default();
        Arc::new(move |names| {
            let wanted = toolsets::parse(names).ok()?;
            let key = wanted.iter().map(|toolset| toolset.name).collect();
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            let front = || {
                let front = Front::new(engine.clone(), &wanted, repo.clone());
                Arc::new(front.with_prompts(prompts.clone()))
            };
            Some(made.entry(key).or_insert_with(front).clone())
        })
    }
}
