//! The composition root: settings become a store, an engine and a front. Nothing else wires.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_domain::settings::SettingsKept;
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::store::clock::{Clock, SystemClock};
use callboard_engine::store::postgres::PostgresStore;
use callboard_engine::store::sqlite::{RestoreError, Restored, SqliteStore};
use callboard_engine::store::transfer::{self, Address, Moved, Tell, TransferError};
use callboard_engine::store::{Place as StorePlace, RepoPlace, Store};
use callboard_engine::{Alert, Engine, Parts, Working, Workshop};
use callboard_runner::{
    AgentSettings, ForgeClient, ForgeSettings, ForgeToken, LocalAgents, LocalChecks, LocalPairs,
    LocalRoots, LocalWorktrees, Webhooks,
};
use callboard_surface::front::Front;
use callboard_surface::mcp::McpOptions;
use callboard_surface::prompt::OwnPrompts;
use callboard_surface::time::rfc3339_ms;
use callboard_surface::tool::Toolset;
use tokio_util::sync::CancellationToken;

use crate::config::{Settings, StoreUrl, without_password};
use crate::embedder;
use crate::identity;
use crate::output::Failure;
use crate::place::{self, Place};
use crate::prompts;

const DATABASE: &str = "callboard.db";
const STORE_FILES: [&str; 6] = ["", "-wal", "-shm", "-gate", "-turn", "-bell"];

/// An open project.
pub struct App {
    pub engine: Arc<Engine>,
    repo: Option<String>,
    prompts: OwnPrompts,
}

impl App {
    pub async fn open(
        settings: &Settings,
        place: Option<&Place>,
        org: &str,
    ) -> Result<Self, Failure> {
        let prompts = place.map(prompts::read).transpose()?.unwrap_or_default();
        let store = open_store(settings, place).await?;
        let machine = identity::machine();
        let folder = place.map(Place::name);
        let home = store
            .settle(StorePlace {
                org: org.to_owned(),
                project_name: folder.clone().unwrap_or_else(|| "default".into()),
                prefix: settings.prefix,
                repo: place.map(|p| RepoPlace { machine: machine.clone(), path: p.root.clone() }),
                store_is_inside: settings.store == StoreUrl::Default,
            })
            .await?;
        let agents = agents(settings, place);
        let engine = Engine::new(Parts {
            store,
            ids: Arc::new(TimeOrderedIds),
            policy: Arc::new(settings.policy.clone()),
            quotas: settings.quotas,
            sweep_every: settings.sweep_every,
            home,
            machine,
            runner: identity::runner(),
            forge: Some(forge(settings)?),
            checks: Some(Arc::new(LocalChecks::new(settings.checks_enabled))),
            check_shell: settings.check_shell.clone(),
            check_log_tail_bytes: settings.check_log_tail_bytes,
            digest: settings.digest,
            embedder: embedder::of(settings).ok().flatten(),
            runs: settings.runs.clone(),
            board: settings.board.clone(),
            crew: settings.crew.clone(),
            agents: Some(agents.clone()),
            courier: Some(Arc::new(courier(settings))),
            workshop: Some(workshop(settings, place, agents)),
            is_gone: identity::is_gone,
        });
        Ok(Self { engine, repo: folder, prompts })
    }

    /// Does this process's share of background work. Leases that no server watched get their time
    /// first, before any reader of this server sees them as over. A command that ends after its
    /// answer does not call this: a read must not write.
    pub async fn work_until(
        &self,
        stop: &CancellationToken,
        alert: Alert,
    ) -> Result<Working, Failure> {
        self.engine.watch_leases().await?;
        if alert == Alert::Everybody {
            // Before anybody is told that the server is up. One that serves a single agent says so a
            // moment later, which costs that agent no time.
            self.engine.runner_say().await?;
        }
        Ok(self.engine.clone().work_until(stop, alert))
    }

    pub fn front(&self, toolsets: &[&'static Toolset]) -> Arc<Front> {
        let front = Front::new(self.engine.clone(), toolsets, self.repo.clone());
        Arc::new(front.with_prompts(self.prompts.clone()))
    }
}

async fn open_store(settings: &Settings, place: Option<&Place>) -> Result<Arc<dyn Store>, Failure> {
    if let StoreUrl::Postgres(url) = &settings.store {
        return Ok(Arc::new(PostgresStore::open(url.reveal(), None).await?));
    }
    let path = store_path(settings, place).ok_or_else(place::missing)?;
    Ok(Arc::new(SqliteStore::open(&path, Arc::new(SystemClock))?))
}

/// Puts a copy of a backup in the place of an embedded store, which nobody may have open.
pub fn restore_store(file: &Path, database: &Path) -> Result<Restored, RestoreError> {
    let now = rfc3339_ms(SystemClock.now());
    let stamp: String = now.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    SqliteStore::restore(file, database, &stamp)
}

/// Of an embedded store; `None` where there is no place for one.
pub fn store_path(settings: &Settings, place: Option<&Place>) -> Option<PathBuf> {
    match (&settings.store, place) {
        (StoreUrl::Postgres(_), _) | (StoreUrl::Default, None) => None,
        (StoreUrl::Default, Some(place)) => Some(place.folder().join(DATABASE)),
        (StoreUrl::File(path), Some(place)) => Some(place.root.join(path)),
        (StoreUrl::File(path), None) => Some(path.clone()),
    }
}

/// What a process writes that opens an embedded store which another one has open.
fn store_files(settings: &Settings, place: Option<&Place>) -> Vec<PathBuf> {
    let beside = |path: &PathBuf, suffix: &str| {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    };
    let path = store_path(settings, place);
    // The files lie beside the database that a symbolic link names.
    let path = path.map(|path| path.canonicalize().unwrap_or(path));
    path.iter().flat_map(|path| STORE_FILES.map(|suffix| beside(path, suffix))).collect()
}

/// What somebody changed while servers run; nothing where no store was made yet.
pub async fn settings_kept(
    settings: &Settings,
    place: Option<&Place>,
    org: &str,
) -> Result<SettingsKept, Failure> {
    let is_made = match &settings.store {
        StoreUrl::Postgres(_) => true,
        StoreUrl::Default | StoreUrl::File(_) => {
            store_path(settings, place).is_some_and(|path| path.exists())
        }
    };
    match is_made {
        true => Ok(open_store(settings, place).await?.settings(org).await?),
        false => Ok(Vec::new()),
    }
}

/// Where a store that was named by itself is: without a project there is no default.
pub fn store_address(url: &StoreUrl) -> Option<Address> {
    match url {
        StoreUrl::Default => None,
        StoreUrl::File(path) => Some(Address::Sqlite(path.clone())),
        StoreUrl::Postgres(url) => Some(Address::Postgres(url.reveal().to_owned())),
    }
}

pub async fn move_store(from: &Address, to: &Address, tell: Tell) -> Result<Moved, TransferError> {
    transfer::transfer(from, to, Arc::new(SystemClock), tell).await
}

/// Who runs agents here. Whether anybody may name a local repository where no roots are set is
/// judged with each job.
fn agents(settings: &Settings, place: Option<&Place>) -> Arc<LocalAgents> {
    let home = match place {
        Some(place) => place.folder(),
        None => place::data_folder().unwrap_or_else(std::env::temp_dir),
    };
    let folder = place.map_or_else(|| home.clone(), |place| place.root.clone());
    let choice = &settings.agents;
    let local_roots = match choice.local_roots.as_slice() {
        [] => LocalRoots::Any,
        roots => LocalRoots::Under(roots.to_vec()),
    };
    Arc::new(LocalAgents::new(AgentSettings {
        executors: choice.executors.clone(),
        default_executor: choice.default_executor.clone(),
        sandbox: choice.sandbox,
        trusted_commands: choice.trusted_commands.clone(),
        artifact_bytes_max: choice.artifact_bytes_max,
        kill_grace: choice.kill_grace,
        git_schemes: settings.runs.spec.git_schemes.clone(),
        local_roots,
        store_files: store_files(settings, place),
        ..AgentSettings::new(home, folder)
    }))
}

/// Who makes worktrees, merges them, opens sessions and lets agents work here.
fn workshop(settings: &Settings, place: Option<&Place>, workers: Arc<LocalAgents>) -> Workshop {
    let worktrees = Arc::new(LocalWorktrees::new(settings.board.worktree_dir.clone()));
    Workshop {
        merges: worktrees.clone(),
        worktrees,
        pairs: Arc::new(LocalPairs::default()),
        workers: Some(workers),
        root: place.map(|place| place.root.clone()),
        server: server(settings, place),
        server_secrets: server_secrets(settings),
        programs: settings.agents.executors.programs(),
    }
}

/// The store's address when it has a password: not in a list of arguments, where everybody reads it.
fn server_secrets(settings: &Settings) -> Vec<(String, String)> {
    match &settings.store {
        StoreUrl::Postgres(url) if without_password(url.reveal()) != url.reveal() => {
            vec![("CALLBOARD_STORE".into(), url.reveal().to_owned())]
        }
        StoreUrl::Postgres(_) | StoreUrl::Default | StoreUrl::File(_) => Vec::new(),
    }
}

/// How an agent in another folder starts a server of this board. A password goes into no file that
/// stays: the address of a session's store must be in the configuration of whoever starts its agent.
fn server(settings: &Settings, place: Option<&Place>) -> Vec<String> {
    let program = std::env::current_exe().unwrap_or_else(|_| "callboard".into());
    let program = program.to_string_lossy().into_owned();
    let mut words = match place {
        Some(place) => {
            let root = place.root.display();
            vec!["env".into(), format!("{}={root}", place::ROOT_VARIABLE), program]
        }
        None => vec![program],
    };
    let store = match &settings.store {
        StoreUrl::Default => None,
        StoreUrl::File(path) => Some(path.display().to_string()),
        StoreUrl::Postgres(url) => Some(url.reveal().to_owned()),
    };
    if let Some(store) = store.filter(|store| without_password(store) == *store) {
        words.extend(["--store".into(), store]);
    }
    words
}

/// The tokens are nobody's settings: they come from the environment alone.
fn forge(settings: &Settings) -> Result<Arc<ForgeClient>, Failure> {
    let token = |name| std::env::var(name).ok().and_then(|text| ForgeToken::new(&text));
    let settings = ForgeSettings {
        github_url: settings.github_url.clone(),
        gitlab_url: settings.gitlab_url.clone(),
        github_token: token("GITHUB_TOKEN"),
        gitlab_token: token("GITLAB_TOKEN"),
    };
    let client = ForgeClient::new(&settings).map_err(|error| Failure::config(error.to_string()))?;
    Ok(Arc::new(client))
}

fn courier(settings: &Settings) -> Webhooks {
    let secret = settings.webhook_secret.as_ref().map(|secret| secret.reveal().to_owned());
    Webhooks::new(settings.runs.spec.webhook_allow_private, secret)
}

/// `note` is what agents should know about this server.
pub fn mcp_options(settings: &Settings, note: Option<String>, fixtures: bool) -> McpOptions {
    McpOptions {
        version: env!("CARGO_PKG_VERSION").into(),
        instructions: note.unwrap_or_default(),
        task_handles: settings.task_handles,
        fixtures,
    }
}
