//! The start of every command: the global flags, the place, and an open project.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use callboard_domain::actor::Actor;
use callboard_domain::policy::Policy;
use callboard_domain::rights::{AgentType, Lane, Rights};
use callboard_engine::Engine;
use callboard_engine::context::{OpContext, Principal, Progress};
use callboard_runner::Telemetry;
use callboard_surface::metrics;
use tokio_util::sync::CancellationToken;

use super::names::Names;
use super::{GlobalArgs, signal, trust};
use crate::compose::App;
use crate::config::{FlagValue, Resolved, Settings, StoreUrl};
use crate::identity::{self, Connection};
use crate::output::{Failure, Out};
use crate::place::Place;

pub struct Context {
    global: GlobalArgs,
    pub out: Out,
    /// The export of traces and metrics, if the environment names a collector.
    pub(super) telemetry: Option<Telemetry>,
    /// The names of the project that the command opened.
    names: OnceLock<Names>,
    /// Dropped when the runtime is over, and with it every open store.
    last: Mutex<Vec<Box<dyn Send>>>,
}

impl Context {
    pub(super) fn new(global: GlobalArgs, out: Out, telemetry: Option<Telemetry>) -> Self {
        Self { global, out, telemetry, names: OnceLock::new(), last: Mutex::default() }
    }

    /// Exports the metrics of this engine, if they are wanted.
    pub(super) fn export_metrics(&self, engine: &Arc<Engine>) {
        if let Some(telemetry) = self.telemetry.as_ref().filter(|known| known.wants_metrics()) {
            telemetry.measure(Arc::new(metrics::text(engine)));
        }
    }

    /// Drops this after everything else, so that a folder goes when no store in it is open any more: the server at which
    /// agents reach the board holds the store until the runtime ends.
    pub(super) fn drop_last(&self, last: impl Send + 'static) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(last));
    }

    pub fn org(&self) -> &str {
        &self.global.org
    }

    /// The actor that a flag or a variable names.
    pub fn actor_named(&self) -> Result<Option<Actor>, Failure> {
        identity::named(self.global.actor.as_deref())
    }

    /// The actor that `--actor` names, for commands that give something to that actor.
    pub fn actor_flag(&self) -> Option<&str> {
        self.global.actor.as_deref()
    }

    pub fn actor(&self) -> Result<Actor, Failure> {
        identity::of_person(self.global.actor.as_deref())
    }

    pub fn connection(
        &self,
        scopes: &[String],
        client: Option<String>,
    ) -> Result<Connection, Failure> {
        let rights = Rights { scopes: identity::scopes(scopes)?, ..Rights::default() };
        Ok(Connection { org: self.global.org.clone(), rights, client })
    }

    pub fn values(
        &self,
        place: Option<&Place>,
        flags: impl IntoIterator<Item = FlagValue>,
    ) -> Result<Resolved, Failure> {
        let store = self.global.store.clone();
        let store = store.map(|value| FlagValue { flag: "--store", key: "store.url", value });
        let flags: Vec<FlagValue> = flags.into_iter().chain(store).collect();
        Resolved::read(place, &flags)
    }

    pub fn settings(
        &self,
        place: Option<&Place>,
        flags: impl IntoIterator<Item = FlagValue>,
    ) -> Result<Settings, Failure> {
        Settings::of(&self.values(place, flags)?)
    }

    /// Whether `--store` itself names a store, whatever the settings say.
    pub fn names_store(&self) -> bool {
        self.global.store.is_some()
    }

    /// The PostgreSQL that `--store` itself names, whatever the settings say.
    pub fn postgres_named(&self) -> Result<Option<String>, Failure> {
        if self.global.store.is_none() {
            return Ok(None);
        }
        match self.settings(None, None)?.store {
            StoreUrl::Postgres(url) => Ok(Some(url.reveal().to_owned())),
            StoreUrl::Default | StoreUrl::File(_) => {
                let words = "--store can only be a postgres:// address here; --dir chooses a disk";
                Err(Failure::usage(words))
            }
        }
    }

    /// Opens the project of this place, for one command.
    pub async fn open(&self) -> Result<Open, Failure> {
        self.open_in(self.org()).await
    }

    /// Opens the project in another org; the org that `--org` names is not created.
    pub async fn open_in(&self, org: &str) -> Result<Open, Failure> {
        let principal = self.person()?;
        let place = Place::find()?;
        let settings = self.settings(place.as_ref(), None)?;
        let open = self.open_as(&settings, place, org, principal).await?;
        self.say_migrated(&open.app);
        Ok(open)
    }

    /// Tells a person that the command changed the schema of the store. Servers have it in their log.
    pub fn say_migrated(&self, app: &App) {
        if let Some(migrated) = app.migrated.as_ref().filter(|_| !self.out.json) {
            self.out.note(&migrated.to_string());
        }
    }

    /// The person who types commands on this machine and may do everything.
    pub fn person(&self) -> Result<Principal, Failure> {
        let mut connection = self.connection(&[], None)?;
        connection.rights.lane = Lane::KaganAdmin;
        connection.rights.agent_type = Some(AgentType::Supervisor);
        Ok(connection.principal(self.actor()?))
    }

    /// Opens the project at `place` for a caller.
    pub async fn open_as(
        &self,
        settings: &Settings,
        place: Option<Place>,
        org: &str,
        principal: Principal,
    ) -> Result<Open, Failure> {
        let app = App::open(settings, place.as_ref(), org).await?;
        let open = Open { app, principal, root: place.map(|place| place.root), out: self.out };
        self.names.get_or_init(|| open.names());
        trust::say(&self.out, settings, &open.app);
        Ok(open)
    }

    /// The failure for people: tasks by their short names.
    pub async fn for_people(&self, failure: Failure) -> Failure {
        match (self.names.get(), failure) {
            (Some(names), Failure::Said(mut complaint)) if !self.out.json => {
                complaint.message = names.in_text(&complaint.message).await;
                if let Some(hint) = &mut complaint.hint {
                    *hint = names.in_text(hint).await;
                }
                Failure::Said(complaint)
            }
            (_, failure) => failure,
        }
    }
}

/// A project opened for one command, with the command's caller.
pub struct Open {
    pub app: App,
    pub principal: Principal,
    /// The project's folder, if there is one.
    pub root: Option<PathBuf>,
    pub out: Out,
}

impl Open {
    pub fn engine(&self) -> &Arc<Engine> {
        &self.app.engine
    }

    pub fn policy(&self) -> &Policy {
        self.app.engine.policy()
    }

    /// The context of one call, under the name of the corresponding tool.
    pub fn op(&self, tool: &'static str) -> OpContext {
        OpContext::new(self.principal.clone(), tool)
    }

    /// As `op`, for a call that may take long: it reports progress, and a signal cancels it.
    pub fn op_long(&self, tool: &'static str) -> Result<OpContext, Failure> {
        let cancel = CancellationToken::new();
        signal::cancel_on_signal(&cancel)?;
        let out = self.out;
        let progress = if out.json {
            Progress::default()
        } else {
            Progress::new(move |report| out.note(&report.message))
        };
        Ok(OpContext { cancel, progress, ..self.op(tool) })
    }
}
