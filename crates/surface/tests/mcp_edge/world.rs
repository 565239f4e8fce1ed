//! A server over an empty store, with the normal tools and the probes.

use std::sync::Arc;

use callboard_engine::context::Principal;
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{AgentRunner, IdSource};
use callboard_engine::store::clock::SystemClock;
use callboard_engine::store::sqlite::SqliteStore;
use callboard_engine::store::{Place, Store};
use callboard_engine::{Engine, Parts};
use callboard_surface::front::Front;
use callboard_surface::mcp::McpOptions;
use callboard_surface::tool::Toolset;
use callboard_surface::toolsets::{graph, relay};
use tempfile::TempDir;

use crate::probe;

pub struct World {
    pub front: Arc<Front>,
    _dir: TempDir,
}

impl World {
    pub async fn new() -> Self {
        let ids = Arc::new(TimeOrderedIds);
        Self::of(None, ids, &[&graph::TOOLSET, &probe::TOOLSET]).await
    }

    /// A world in which agents run and jobs can be submitted.
    pub async fn with_agents(agents: Arc<dyn AgentRunner>, ids: Arc<dyn IdSource>) -> Self {
        Self::of(Some(agents), ids, &[&graph::TOOLSET, &relay::TOOLSET]).await
    }

    async fn of(
        agents: Option<Arc<dyn AgentRunner>>,
        ids: Arc<dyn IdSource>,
        toolsets: &[&'static Toolset],
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("callboard.db"), Arc::new(SystemClock));
        let store = store.unwrap();
        let place = Place { project_name: "test".into(), ..Place::of_org("default") };
        let home = store.settle(place).await.unwrap();
        store.settle(Place::of_org("other")).await.unwrap();
        let engine = Engine::new(Parts {
            check_log_tail_bytes: 1000,
            agents,
            ..Parts::bare(home, Arc::new(store), ids)
        });
        let front = Front::new(engine, toolsets, None);
        Self { front: Arc::new(front), _dir: dir }
    }
}

pub fn options() -> McpOptions {
    McpOptions {
        version: "1.2.3".into(),
        instructions: "Be kind.".into(),
        task_handles: true,
        fixtures: false,
    }
}

pub fn principal(actor: &str) -> Principal {
    Principal::local(actor.parse().unwrap())
}
