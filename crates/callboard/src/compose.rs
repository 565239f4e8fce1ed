//! The composition root: settings become a store, an engine and a front. Nothing else wires.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use callboard_domain::board::settings::SettingsKept;
use callboard_engine::ids::TimeOrderedIds;
use callboard_engine::ports::{AgentRunner, Courier, Forge, Issuer};
use callboard_engine::store::clock::{Clock, SystemClock};
use callboard_engine::store::postgres::PostgresStore;
use callboard_engine::store::sqlite::{
    OfferedKind, OfferedName, RestoreError, Restored, SqliteStore, offered_names,
};
use callboard_engine::store::transfer::{self, Address, Moved, Tell, TransferError};
use callboard_engine::store::{Migrated, Place as StorePlace, RepoPlace, Store};
use callboard_engine::time::rfc3339_ms;
use callboard_engine::{Alert, CrewTerminal, Engine, Parts, Working, Workshop};
use callboard_runner::{
    AgentSettings, ForgeClient, ForgeSettings, ForgeToken, JwtIssuer, KeyTimes, LocalAgents,
    LocalChecks, LocalPairs, LocalRoots, LocalWorktrees, ProjectCommands, Recipe, Webhooks,
    tmux_is_installed, tracked,
};
use callboard_surface::front::Front;
use callboard_surface::mcp::McpOptions;
use callboard_surface::places::Places;
use callboard_surface::prompt::OwnPrompts;
use callboard_surface::tool::Toolset;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::agent_server;
use crate::config::{LOCAL, Settings, StoreUrl};
use crate::door::AgentDoor;
use crate::embedder;
use crate::identity;
use crate::output::{Exit, Failure};
use crate::place::{self, Place};
use crate::prompts;
use crate::served::Served;
use crate::trust::Mark;

const DATABASE: &str = "callboard.db";

/// An open project.
pub struct App {
    pub engine: Arc<Engine>,
    /// Whether commands, agents and messages of the store run here.
    pub is_trusted: bool,
    /// Whether opening the store changed an older schema.
    pub migrated: Option<Migrated>,
    /// The place of the store when it lies inside the project's folder.
    inside: Option<Place>,
    repo: Option<String>,
    prompts: OwnPrompts,
    long_calls: Arc<Places>,
}

impl App {
    /// Opens everything that a command or a server needs. Ports that run programs or send messages are left out of an
    /// untrusted store: it may have come with a repository.
    pub async fn open(
        settings: &Settings,
        place: Option<&Place>,
        org: &str,
    ) -> Result<Self, Failure> {
        // Agents obey the prompts of a project, so they count only where nothing of the project is untrusted.
        let own_prompts = place.filter(|_| settings.untrusted.is_empty());
        let prompts = own_prompts.map(prompts::read).transpose()?.unwrap_or_default();
        let OpenedStore { store, is_trusted, migrated } = open_store(settings, place).await?;
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
        let recipe = Arc::new(recipe(settings, place));
        let agents = agents(settings, place, recipe.clone());
        // Agents that this process starts reach the board through a door of their own.
        let door = AgentDoor {
            mcp: mcp_options(settings, None, false),
            repo: folder.clone(),
            prompts: prompts.clone(),
            address: OnceCell::new(),
        };
        let served_at = place.cloned();
        let commands = ProjectCommands::default()
            .with_env(settings.check_env.clone())
            .with_sandbox(settings.check_sandbox, settings.check_writable.clone())
            .with_ports(settings.check_ports.clone(), move || {
                Some(Served::address_now(served_at.as_ref()?)?.port())
            })
            .with_recipe(recipe);
        let engine = Engine::new(Parts {
            store,
            ids: Arc::new(TimeOrderedIds),
            policy: Arc::new(settings.policy.clone()),
            quotas: settings.quotas,
            sweep_every: settings.sweep_every,
            retention: settings.retention.clone(),
            home,
            machine,
            runner: identity::runner(),
            forge: is_trusted.then_some(forge(settings)? as Arc<dyn Forge>),
            checks: Some(Arc::new(
                LocalChecks::new(settings.checks_enabled && is_trusted)
                    .with_commands(commands.clone()),
            )),
            check_shell: settings.check_shell.clone(),
            check_log_tail_bytes: settings.check_log_tail_bytes,
            digest: settings.digest,
            embedder: embedder::of(settings).ok().flatten().filter(|_| is_trusted),
            runs: settings.runs.clone(),
            board: settings.board.clone(),
            crew: settings.crew.clone(),
            agents: is_trusted.then(|| agents.clone() as Arc<dyn AgentRunner>),
            issuer: issuer(settings),
            courier: is_trusted.then(|| Arc::new(courier(settings)) as Arc<dyn Courier>),
            workshop: is_trusted.then(|| workshop(settings, place, (agents, commands), door)),
            is_gone: identity::is_gone,
        });
        let inside = place.filter(|_| settings.store == StoreUrl::Default).cloned();
        let long_calls = Places::new(settings.bounds.long_calls_per_token);
        Ok(Self { engine, is_trusted, migrated, inside, repo: folder, prompts, long_calls })
    }

    /// Does this process's share of background work; none for an untrusted store, which may come with another user's
    /// queued commands. Leases that no server watched get their time first, before any reader of this server sees them
    /// as expired. A command that ends after its answer does not call this: a read must not write.
    pub async fn work_until(
        &self,
        stop: &CancellationToken,
        alert: Alert,
    ) -> Result<Option<Working>, Failure> {
        if !self.is_trusted {
            return Ok(None);
        }
        // Git would replace the file under a running server, too.
        refuse_tracked(self.inside.as_ref(), DATABASE).await?;
        let crew = self.engine.crew();
        let is_tmux = crew.executor.is_some() && crew.terminal == CrewTerminal::Tmux;
        if is_tmux && !tmux_is_installed() {
            let words = "crew.terminal is tmux, and there is no tmux on the PATH of this process";
            let failure = Failure::config(words.to_owned());
            return Err(failure.hint("install tmux 3.2 or newer, or set crew.terminal to none"));
        }
        self.engine.watch_leases().await?;
        if alert == Alert::Everybody {
            // Before the server is announced. A process that serves a single agent says so a moment later, which costs
            // that agent no time.
            self.engine.runner_say().await?;
        }
        Ok(Some(self.engine.clone().work_until(stop, alert)))
    }

    /// A front with these toolsets. All fronts of a process share the places of long calls.
    pub fn front(&self, toolsets: &[&'static Toolset]) -> Arc<Front> {
        let front = Front::new(self.engine.clone(), toolsets, self.repo.clone());
        let front = front.with_prompts(self.prompts.clone());
        Arc::new(front.with_long_calls(self.long_calls.clone()))
    }
}

/// Names and ids that begin with `typed`, read beside everything else: none from a shared database, which may be slow to
/// reach.
pub fn names_offered(
    settings: &Settings,
    place: &Place,
    org: &str,
    kind: OfferedKind,
    typed: &str,
    limit: usize,
) -> Vec<OfferedName> {
    let database = match &settings.store {
        StoreUrl::Default => place.folder().join(DATABASE),
        StoreUrl::File(path) => place.root.join(path),
        StoreUrl::Postgres(_) => return Vec::new(),
    };
    offered_names(&database, org, kind, typed, limit)
}

struct OpenedStore {
    store: Arc<dyn Store>,
    is_trusted: bool,
    migrated: Option<Migrated>,
}

/// Opens the store, and says whether its queued work may run. A store that the user named is trusted. The store inside
/// the project may have come with a repository: it is trusted where it was made.
async fn open_store(settings: &Settings, place: Option<&Place>) -> Result<OpenedStore, Failure> {
    if settings.untrusted.iter().any(|key| key == "store.url") {
        return Err(untrusted_store());
    }
    if place.is_some_and(|place| place.folder().join(LOCAL).exists()) {
        refuse_tracked(place, LOCAL).await?;
    }
    if let StoreUrl::Postgres(url) = &settings.store {
        let store = PostgresStore::open(url.reveal(), None).await?;
        let migrated = store.migrated().cloned();
        return Ok(OpenedStore { store: Arc::new(store), is_trusted: true, migrated });
    }
    let path = store_path(settings, place).ok_or_else(place::missing)?;
    let is_named = settings.store != StoreUrl::Default;
    // A store that this process is about to make is trusted: nothing of another user can be in it.
    let is_trusted = is_named || !path.exists() || is_store_trusted(&path);
    if !is_trusted {
        refuse_tracked(place, DATABASE).await?;
    }
    // The mark is there before the database has its name, so no process finds a new store untrusted.
    let made = |file: &Path, path: &Path| trust_store(Mark::of_new_store(file, path));
    let store = SqliteStore::open_or_make(&path, Arc::new(SystemClock), &made)?;
    let migrated = store.migrated().cloned();
    Ok(OpenedStore { store: Arc::new(store), is_trusted, migrated })
}

/// Refuses a file that git tracks: a file for one machine must not come from another one by git.
async fn refuse_tracked(place: Option<&Place>, name: &str) -> Result<(), Failure> {
    let Some(place) = place.filter(|place| place.is_in_git()) else { return Ok(()) };
    let refused = |words: String| Failure::new(Exit::Auth, "TRACKED_BY_GIT", words);
    match tracked(&place.folder(), &[name]).await {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(_) => {
            let words =
                format!("git tracks .callboard/{name}, so another person may have written it");
            let way_out =
                format!("git rm --cached .callboard/{name}, then read the file before you use it");
            Err(refused(words).hint(way_out))
        }
        Err(words) => {
            Err(refused(format!("cannot find out whether git tracks .callboard/{name}: {words}")))
        }
    }
}

/// The refusal of an untrusted store. Another store instead would take tasks that belong into the named one.
fn untrusted_store() -> Failure {
    let words = "store.url in .callboard/config.toml is not trusted, so no board is opened";
    let failure = Failure::new(Exit::Auth, "NOT_TRUSTED", words);
    failure.hint("callboard trust --show prints what the file asks for; callboard trust allows it")
}

/// Records that a store was made on this machine. Without the mark the store only counts as untrusted, so a failure is
/// not fatal.
fn trust_store(mark: Option<Mark>) {
    if let Some(Err(error)) = mark.map(|mark| mark.trust()) {
        tracing::warn!(%error, "cannot record that the store was made here");
    }
}

/// Whether the store was made or trusted on this machine.
fn is_store_trusted(path: &Path) -> bool {
    Mark::of_store(path).is_some_and(|mark| mark.is_trusted())
}

/// Replaces an embedded store by a copy of a backup. No process may have the store open.
pub fn restore_store(file: &Path, database: &Path) -> Result<Restored, RestoreError> {
    let now = rfc3339_ms(SystemClock.now());
    // Colons in a file's name trouble other systems.
    let stamp: String = now.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let restored = SqliteStore::restore(file, database, &stamp)?;
    trust_store(Mark::of_store(database));
    Ok(restored)
}

/// The path of an embedded store; `None` where there is no place for one.
pub fn store_path(settings: &Settings, place: Option<&Place>) -> Option<PathBuf> {
    match (&settings.store, place) {
        (StoreUrl::Postgres(_), _) | (StoreUrl::Default, None) => None,
        (StoreUrl::Default, Some(place)) => Some(place.folder().join(DATABASE)),
        (StoreUrl::File(path), Some(place)) => Some(place.root.join(path)),
        (StoreUrl::File(path), None) => Some(path.clone()),
    }
}

/// Settings that were changed while servers run; none where no store was made yet.
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
        true => Ok(open_store(settings, place).await?.store.settings(org).await?),
        false => Ok(Vec::new()),
    }
}

/// The address of an explicitly named store: without a project there is no default.
pub fn store_address(url: &StoreUrl) -> Option<Address> {
    match url {
        StoreUrl::Default => None,
        StoreUrl::File(path) => Some(Address::Sqlite(path.clone())),
        StoreUrl::Postgres(url) => Some(Address::Postgres(url.reveal().to_owned())),
    }
}

/// Moves a whole store. A file that the move made is trusted, like one that was made here.
pub async fn move_store(from: &Address, to: &Address, tell: Tell) -> Result<Moved, TransferError> {
    let moved = transfer::transfer(from, to, Arc::new(SystemClock), tell).await?;
    if let Address::Sqlite(path) = to {
        trust_store(Mark::of_store(path));
    }
    Ok(moved)
}

/// The runner of agents here. Where no roots are set, each job is judged on whether its caller may name a local
/// repository.
fn agents(settings: &Settings, place: Option<&Place>, recipe: Arc<Recipe>) -> Arc<LocalAgents> {
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
        sandbox_ports: choice.sandbox_ports.clone(),
        trusted_commands: choice.trusted_commands.clone(),
        artifact_bytes_max: choice.artifact_bytes_max,
        kill_grace: choice.kill_grace,
        git_schemes: settings.runs.spec.git_schemes.clone(),
        git_hosts: settings.runs.spec.git_hosts.clone(),
        local_roots,
        recipe,
        server_args: agent_server::of_run,
        ..AgentSettings::new(home, folder)
    }))
}

/// The workspace recipe. Its commands and links are for the repository whose settings name them.
fn recipe(settings: &Settings, place: Option<&Place>) -> Recipe {
    let choice = &settings.workspace;
    Recipe {
        setup: choice.setup.clone(),
        teardown: choice.teardown.clone(),
        timeout: choice.timeout,
        links: choice.links.clone(),
        writable: choice.writable_links.clone(),
        shell: settings.check_shell.clone(),
        log_tail_bytes: settings.check_log_tail_bytes,
        root: place.map(|place| place.root.clone()),
        ports: choice.ports,
        ports_folder: place::data_folder().map(|folder| folder.join("ports")),
    }
}

/// The ports that make worktrees, merge them, open sessions and run agents here.
fn workshop(
    settings: &Settings,
    place: Option<&Place>,
    (workers, commands): (Arc<LocalAgents>, ProjectCommands),
    door: AgentDoor,
) -> Workshop {
    let worktrees = LocalWorktrees::new(settings.board.worktree_dir.clone());
    let worktrees = Arc::new(worktrees.with_commands(commands));
    Workshop {
        merges: worktrees.clone(),
        worktrees,
        pairs: Arc::new(LocalPairs::default()),
        workers: Some(workers),
        root: place.map(|place| place.root.clone()),
        server: agent_server::of_session(settings, place),
        door: Some(Arc::new(door)),
        programs: settings.agents.executors.programs(),
    }
}

/// The forge client. Its tokens are no settings: they come from the environment alone.
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

/// The issuer whose tokens are accepted over HTTP. Its keys are fetched at the first token.
fn issuer(settings: &Settings) -> Option<Issuer> {
    let choice = settings.issuer.as_ref()?;
    let tokens = Arc::new(JwtIssuer::new(choice.keys.clone(), KeyTimes::default()));
    Some(Issuer { terms: choice.terms.clone(), tokens })
}

fn courier(settings: &Settings) -> Webhooks {
    let secret = settings.webhook_secret.as_ref().map(|secret| secret.reveal().to_owned());
    Webhooks::new(settings.runs.spec.webhook_allow_private, secret)
}

/// `note` holds instructions for agents about this server.
pub fn mcp_options(settings: &Settings, note: Option<String>, fixtures: bool) -> McpOptions {
    McpOptions {
        version: env!("CARGO_PKG_VERSION").into(),
        instructions: note.unwrap_or_default(),
        task_handles: settings.task_handles,
        fixtures,
    }
}
