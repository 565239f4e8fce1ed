//! A store and an engine in a folder of their own, opened as the product opens them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use callboard_domain::actor::Actor;
use callboard_domain::ids::{Prefix, TaskId};
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{AgentRunner, Embedder};
use callboard_engine::{Engine, Parts, RunRule, TaskDraft};
use callboard_store::clock::SystemClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{Place, Store};
use tokio::task::JoinSet;

/// The place of a bed; as text, it tells another process where to join.
#[derive(Clone)]
pub enum Site {
    Folder(PathBuf),
    /// The address of a PostgreSQL schema.
    Shared(String),
}

impl Site {
    pub fn parse(words: &str) -> Self {
        if words.starts_with("postgres") {
            Self::Shared(words.to_owned())
        } else {
            Self::Folder(words.into())
        }
    }

    async fn store(&self) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Folder(folder) => {
                Arc::new(SqliteStore::open(&database(folder), Arc::new(SystemClock))?)
            }
            Self::Shared(url) => Arc::new(PostgresStore::open(url, None).await?),
        })
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Shared(url) => f.write_str(url),
        }
    }
}

pub struct Bed {
    pub folder: PathBuf,
    pub engine: Arc<Engine>,
}

impl Bed {
    /// A new `.callboard/` in `parent/name`.
    pub async fn new(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = Self::folder(parent, name)?;
        let engine = Self::join(&Site::Folder(folder.clone())).await?;
        Ok(Self { folder, engine })
    }

    /// As `new`, on a shared database if there is one: servers that start in the folder use it too.
    pub async fn on(parent: &Path, name: &str, site: Option<&Site>) -> anyhow::Result<Self> {
        let Some(site @ Site::Shared(url)) = site else { return Self::new(parent, name).await };
        let folder = Self::folder(parent, name)?;
        // In a file, because an address may hold a password and all users can see arguments. The local file needs no
        // mark of trust.
        let config = format!("[store]\nurl = '{url}'\n");
        std::fs::write(folder.join(".callboard/config.local.toml"), config)?;
        let engine = Self::join(site).await?;
        Ok(Self { folder, engine })
    }

    /// As `new`, with agents; on a shared database if there is one.
    pub async fn with_agents(
        parent: &Path,
        name: &str,
        site: Option<&Site>,
        agents: Arc<dyn AgentRunner>,
        rule: RunRule,
    ) -> anyhow::Result<Self> {
        let folder = Self::folder(parent, name)?;
        let site = site.cloned().unwrap_or_else(|| Site::Folder(folder.clone()));
        let engine = Self::engine(&site, None, Some(agents), rule).await?;
        Ok(Self { folder, engine })
    }

    fn folder(parent: &Path, name: &str) -> anyhow::Result<PathBuf> {
        let folder = parent.join(name);
        std::fs::create_dir_all(folder.join(".callboard"))?;
        std::fs::write(folder.join(".callboard/config.toml"), "[graph]\nprefix = \"BENCH\"\n")?;
        Ok(folder)
    }

    /// The engine of another process.
    pub async fn join(site: &Site) -> anyhow::Result<Arc<Engine>> {
        Self::join_with(site, None).await
    }

    pub async fn join_with(
        site: &Site,
        embedder: Option<Arc<dyn Embedder>>,
    ) -> anyhow::Result<Arc<Engine>> {
        Self::engine(site, embedder, None, RunRule::default()).await
    }

    async fn engine(
        site: &Site,
        embedder: Option<Arc<dyn Embedder>>,
        agents: Option<Arc<dyn AgentRunner>>,
        runs: RunRule,
    ) -> anyhow::Result<Arc<Engine>> {
        let store = site.store().await?;
        let place = Place {
            org: "default".into(),
            project_name: "bench".into(),
            prefix: Some(Prefix::parse("BENCH").ok_or_else(|| anyhow!("a constant prefix"))?),
            repo: None,
            store_is_inside: false,
        };
        let home = store.settle(place).await?;
        Ok(Engine::new(Parts {
            runner: format!("runner:bench-{}", std::process::id())
                .parse()
                .map_err(|error| anyhow!("{error}"))?,
            machine: "bench".into(),
            embedder,
            runs,
            agents,
            ..Parts::bare(home, store, Arc::new(TimeOrderedIds))
        }))
    }

    pub async fn tasks(&self, count: usize) -> anyhow::Result<Vec<TaskId>> {
        tasks(&self.engine, count).await
    }
}

/// Tasks to claim, oldest first as agents are offered them; made concurrently, so that making them takes little time.
pub async fn tasks(engine: &Arc<Engine>, count: usize) -> anyhow::Result<Vec<TaskId>> {
    let mut makers = JoinSet::new();
    for maker in 0..64 {
        let (engine, op) = (engine.clone(), context(&actor(maker)?));
        makers.spawn(async move {
            let mut made = Vec::new();
            for n in (maker..count).step_by(64) {
                let draft = TaskDraft { title: format!("task {n}"), ..TaskDraft::default() };
                made.push(engine.task_create(&op, draft).await?.it.task.id);
            }
            anyhow::Ok(made)
        });
    }
    let mut tasks = Vec::with_capacity(count);
    while let Some(made) = makers.join_next().await {
        tasks.extend(made??);
    }
    tasks.sort();
    Ok(tasks)
}

pub fn database(folder: &Path) -> PathBuf {
    folder.join(".callboard/callboard.db")
}

pub fn actor(number: usize) -> anyhow::Result<Actor> {
    format!("agent:w{number}").parse().map_err(|error| anyhow!("{error}"))
}

pub fn context(actor: &Actor) -> OpContext {
    OpContext::new(Principal::local(actor.clone()), "bench")
}
