//! `callboard serve`: agents over HTTP, and the page for people.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use callboard_engine::context::OpContext;
use callboard_engine::{Alert, Engine};
use callboard_surface::events::{self, EventsOptions};
use callboard_surface::front::Front;
use callboard_surface::http::{
    ConnectionLimits, FrontFor, Gate, GateOptions, HttpDoors, HttpOptions, ReadyProbe, router,
    serve_http,
};
use callboard_surface::{metrics, toolsets, web};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::doctor::on_pages;
use super::rights::RightsArgs;
use super::up::say_waiting;
use super::{open, signal, trust};
use crate::compose::{self, App};
use crate::config::{FlagValue, Settings};
use crate::limits;
use crate::output::{Exit, Failure, Out};
use crate::place::Place;
use crate::served::Served;
use crate::service::{self, ServiceState};

/// Serve agents and the web board over HTTP
///
/// Prints the address it listens on and, on a terminal, one that signs you in on the pages, once;
/// callboard open makes another. SIGTERM ends it after calls in flight have finished.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard serve --listen 127.0.0.1:3001")]
pub struct ServeArgs {
    /// Address and port; port 0 takes a free one [default: http.listen]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// What callers may do: tasks:read, tasks:write, commands:run, … [default: everything]
    #[arg(long, value_delimiter = ',')]
    scopes: Vec<String>,
    #[command(flatten)]
    rights: RightsArgs,
    /// Do no background work in this process
    #[arg(long)]
    no_runner: bool,
    #[arg(long, hide = true)]
    conformance_fixtures: bool,
}

pub async fn cmd_serve(context: &Context, args: ServeArgs) -> Result<(), Failure> {
    let place = Place::find()?;
    let listen = args.listen.map(|value| FlagValue { flag: "--listen", key: "http.listen", value });
    let settings = context.settings(place.as_ref(), listen)?;
    let listener = bind(settings.listen).await?;
    let server = Server {
        settings,
        place,
        listener,
        scopes: args.scopes,
        rights: args.rights,
        no_runner: args.no_runner,
        fixtures: args.conformance_fixtures,
        stop: CancellationToken::new(),
    };
    let announce = |url: &str, page: Option<&str>| {
        context.out.line(&format!("callboard listens on {url}"))?;
        say_page(context, page)
    };
    server.run(context, announce).await
}

/// The common part of `serve` and `up`.
pub(super) struct Server {
    pub settings: Settings,
    pub place: Option<Place>,
    pub listener: TcpListener,
    pub scopes: Vec<String>,
    pub rights: RightsArgs,
    pub no_runner: bool,
    pub fixtures: bool,
    /// Ends the server in order, as a signal does.
    pub stop: CancellationToken,
}

/// Takes the port before anything else is opened, so that a second server fails at once.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let taken = Failure::new(
            Exit::Failure,
            "CANNOT_LISTEN",
            format!("cannot listen on {address}: {error}"),
        );
        taken.hint("callboard serve --listen 127.0.0.1:0 takes a free port")
    })
}

impl Server {
    /// Serves until a signal or `stop`. The order matters: the store is opened and judged, background work begins, then
    /// the address is announced. At the end calls in flight finish, then running agents.
    pub async fn run(
        self,
        context: &Context,
        announce: impl FnOnce(&str, Option<&str>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        // Many agents hold a connection each.
        limits::open_files();
        let app = App::open(&self.settings, self.place.as_ref(), context.org()).await?;
        trust::say(&context.out, &self.settings, &app);
        context.export_metrics(&app.engine);
        let mut connection = context.connection(&self.scopes, None)?;
        let capped = self.rights.apply(&mut connection.rights);
        if let Some(words) = &capped {
            context.out.note(words);
        }
        let local = connection.principal(context.actor()?);
        let looks = local.clone();
        let address =
            self.listener.local_addr().map_err(|error| Failure::io("no address", &error))?;
        // Without tokens every caller is the user who started the server.
        if !address.ip().is_loopback() && !app.engine.needs_tokens().await? {
            return Err(tokens_needed(address));
        }
        if let Some(issuer) = &self.settings.issuer {
            let judged = issuer.keys.judge().await;
            judged.map_err(|words| Failure::config(format!("http.issuer_keys: {words}")))?;
        }
        let stop = self.stop;
        signal::cancel_on_signal(&stop)?;
        let working = match self.no_runner {
            true => None,
            false => app.work_until(&stop, Alert::Everybody).await?,
        };
        let bounds = self.settings.bounds;
        let options = HttpOptions {
            allowed_hosts: self.settings.allowed_hosts.clone(),
            page_host: self.settings.page_host.clone(),
            allowed_origins: self.settings.allowed_origins.clone(),
            listener_is_loopback: address.ip().is_loopback(),
            sessions_per_token: bounds.sessions_per_token,
            body_within: bounds.body_within,
            shutdown: stop.clone(),
            ..HttpOptions::default()
        };
        let doctor = on_pages(app.engine.clone(), self.settings.clone(), self.place.clone());
        let pages = doctor
            .of(web::routes(app.engine.clone()))
            .merge(metrics::routes(app.engine.clone()))
            .merge(events::routes(app.engine.clone(), EventsOptions::until(stop.clone())));
        let gate = GateOptions {
            rate_limit: self.settings.rate_limit,
            wrong_token_limit: bounds.wrong_token_limit,
            streams_per_token: bounds.streams_per_token,
            public_url: self.settings.public_url.clone(),
            port: address.port(),
            session_lives: self.settings.session_lives,
            any_local_user: self.settings.any_local_user,
        };
        let engine = app.engine.clone();
        let doors = HttpDoors {
            ready: ready(&app, &stop),
            gate: Arc::new(Gate::new(&app.engine, local, gate)),
            front_for: fronts(app, &self.settings),
        };
        let routes = router(
            options,
            compose::mcp_options(&self.settings, capped, self.fixtures),
            doors,
            pages,
        );
        // Other commands of this project find the server by this post.
        let served = Served::new(address, &self.settings, context.org());
        let _post = match &self.place {
            Some(place) => served.post(place).await,
            None => None,
        };
        // Outside a terminal the address would stay in a log, readable for other programs.
        let page = match context.out.terminal {
            true => {
                let person = context.person()?;
                Some(open::code_address(&engine, &person, &served, &self.settings).await?)
            }
            false => None,
        };
        announce(&served.url(), page.as_deref())?;
        service::tell(ServiceState::Ready);
        if let Err(failure) = say_waiting(context, &engine, &OpContext::new(looks, "status")).await
        {
            tracing::info!(%failure, "cannot find out what waits for a person");
        }
        let goodbye = tokio::spawn(say_stopping(context.out, engine.clone(), stop.clone()));
        let limits = ConnectionLimits {
            head_within: bounds.head_within,
            strangers_max: bounds.unauthenticated_max,
        };
        let served = serve_http(self.listener, routes, limits, stop.clone()).await;
        // Also when the listener failed: background work must end with the server.
        stop.cancel();
        // This task only prints.
        let _ = goodbye.await;
        engine.handles_stop().await;
        if let Some(working) = working {
            working.ended().await;
        }
        served.map_err(|error| Failure::io("the server stopped", &error))
    }
}

/// Prints how a person at this terminal signs in on the pages.
pub(super) fn say_page(context: &Context, page: Option<&str>) -> Result<(), Failure> {
    let Some(page) = page else { return Ok(()) };
    context.out.line(&format!("sign in on the pages, once: {page}"))
}

/// Prints what the shutdown waits for after Ctrl-C.
async fn say_stopping(out: Out, engine: Arc<Engine>, stop: CancellationToken) {
    stop.cancelled().await;
    service::tell(ServiceState::Stopping);
    let waits = match signal::agents_at_work(&engine) {
        None => "calls in flight".to_owned(),
        Some(agents) => format!("{agents}, and for calls in flight"),
    };
    signal::say_stopping(out, &waits);
}

/// The refusal to listen for other machines without tokens.
fn tokens_needed(address: SocketAddr) -> Failure {
    let message = format!(
        "{address} can be reached from other machines, and without tokens any caller could give commands"
    );
    let refused = Failure::new(Exit::Auth, "TOKENS_NEEDED", message);
    refused.hint(
        "callboard token add --actor human:NAME, or set http.issuer, or callboard serve --listen \
         127.0.0.1:3001",
    )
}

/// A front per set of toolsets, created on first use.
fn fronts(app: App, settings: &Settings) -> FrontFor {
    let usual = app.front(&settings.toolsets);
    let made: Mutex<HashMap<Vec<&'static str>, Arc<Front>>> = Mutex::default();
    Arc::new(move |names| {
        if names.is_empty() {
            return Some(usual.clone());
        }
        let wanted = toolsets::parse(names).ok()?;
        let key = wanted.iter().map(|toolset| toolset.name).collect();
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        Some(made.entry(key).or_insert_with(|| app.front(&wanted)).clone())
    })
}

/// Whether the server can take work: the store answers, and no shutdown has begun.
fn ready(app: &App, stop: &CancellationToken) -> ReadyProbe {
    let (engine, stop) = (app.engine.clone(), stop.clone());
    Arc::new(move || {
        let (engine, stop) = (engine.clone(), stop.clone());
        Box::pin(async move {
            if stop.is_cancelled() {
                return Err("the server is shutting down".into());
            }
            engine.store().ping().await.map_err(|error| error.to_string())
        })
    })
}
