//! `callboard demo`: the whole loop in a repository of its own, played by scripts instead of agents.
//!
//! The scripts call the tools an agent would call and follow the same rules; they only know in advance what to write.
//! `story.rs` brings four tasks to main, `scene.rs` fills every screen of the board.

mod scene;
mod stage;
mod story;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use callboard_runner::make_repository;
use callboard_surface::toolsets;
use tokio_util::sync::CancellationToken;

use self::scene::Scene;
use self::stage::Stage;
use super::context::Context;
use super::serve::{Server, bind, say_page};
use crate::compose::App;
use crate::config::FlagValue;
use crate::output::{Exit, Failure};
use crate::place::Place;
use crate::trust::Mark;

/// Watch a board move: a plan, scripted agents, reviews and merges, nothing to install
///
/// Four tasks go from a plan to main: in worktrees, with a check that fails first and a review that
/// sends work back. Then the board shows one task in every state, a question, a plan and mail.
///
/// On a terminal the page stays open until Ctrl-C; elsewhere the demo ends by itself. Everything
/// happens in a temporary folder that is removed at the end, or in the folder that --dir names.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  callboard demo\n  callboard demo --pace 0 --once\n  \
                        callboard demo --dir ~/callboard-demo")]
pub struct DemoArgs {
    /// Seconds between steps
    #[arg(long, default_value_t = 0.4, value_name = "SECONDS")]
    pace: f64,
    /// Keep serving the page when the story is over [default: on a terminal]
    #[arg(long, conflicts_with = "once")]
    stay: bool,
    /// End when the story is over
    #[arg(long)]
    once: bool,
    /// Play in this new or empty folder, and keep it
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// The files of the demo's repository before the first task.
const FILES: [(&str, &str); 3] = [
    ("README.md", "# Greetings\n\nNothing greets yet.\n"),
    ("docs/usage.md", "# Usage\n\n- One argument: the name.\n- No argument: the world.\n"),
    ("lang/en.txt", "hello\n"),
];

/// The store, which is named by its path in the settings of the demo.
const STORE: &str = ".callboard/callboard.db";

/// The executors of the demo, each with the script that plays it.
const EXECUTORS: [(&str, &str, &str); 2] =
    [("script", "command", include_str!("agent.sh")), ("asker", "acp", include_str!("asker.sh"))];

/// Without a sandbox an agent asks a person first. Its question waits as long as the demo stays, and does not hold up
/// the end of the demo.
const SETTINGS: &str = "\
graph.prefix = \"DEMO\"
graph.session_stale_after = 10
board.heartbeat_seconds = 5
general.auto_review = false
general.default_worker_agent = \"script\"
relay.sandbox = \"executor\"
relay.ask_timeout_s = 86400
runner.drain_s = 0
runner.kill_grace_s = 1
";

pub async fn cmd_demo(context: &Context, args: DemoArgs) -> Result<(), Failure> {
    if !(0.0..=60.0).contains(&args.pace) {
        return Err(Failure::usage("--pace must be 0..60 seconds"));
    }
    let folder = match &args.dir {
        Some(named) => made_empty(named)?,
        None => {
            let made = tempfile::Builder::new().prefix("callboard-demo-").tempdir();
            let made = made.map_err(|error| cannot_make(&error))?;
            let folder = made.path().to_owned();
            context.drop_last(Temporary(made));
            folder
        }
    };
    let folder = folder.canonicalize().map_err(|error| cannot_make(&error))?;
    furnish(&folder).await?;
    let place = Place { root: folder.clone() };
    // Before a variable of the user, which may name a real board.
    let value = folder.join(STORE).display().to_string();
    let store = FlagValue { flag: "the demo", key: "store.url", value };
    let settings = context.settings(Some(&place), [store])?;
    let app = App::open(&settings, Some(&place), "default").await?;
    let listener = bind(([127, 0, 0, 1], 0).into()).await?;
    let address = listener.local_addr().map_err(|error| Failure::io("no address", &error))?;
    let stop = CancellationToken::new();
    let server = Server {
        listener,
        settings,
        place: Some(place),
        scopes: Vec::new(),
        rights: Default::default(),
        no_runner: false,
        fixtures: false,
        stop: stop.clone(),
    };
    let out = context.out;
    let signs_in: OnceLock<String> = OnceLock::new();
    let announce = |url: &str, page: Option<&str>| {
        if let Some(page) = page {
            signs_in.get_or_init(|| page.to_owned());
        }
        out.line(&format!("watch the board at {url}"))?;
        say_page(context, page)
    };
    let stage = Stage {
        front: app.front(toolsets::ALL),
        rights: context.person()?.rights,
        folder: folder.clone(),
        pace: Duration::from_secs_f64(args.pace),
        out,
    };
    let stays = args.stay || (out.terminal && !args.once);
    let story = async {
        let mut scene = Scene::open(&stage).await?;
        story::tell(&stage, scene.epic()).await?;
        let waiting = scene.fill(&stage).await?;
        let page = signs_in.get().map(String::as_str);
        scene.say_where(&stage, &waiting, (&format!("http://{address}"), page))?;
        if stays {
            out.note("the page stays open; Ctrl-C ends the demo");
            scene.keep_alive(&stage).await?;
        }
        Ok(())
    };
    let serving = server.run(context, announce);
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => served,
        told = story => {
            stop.cancel();
            serving.await.and(told)
        }
    }
}

/// A folder that goes at the end, and with it the mark of trust that its store got.
struct Temporary(tempfile::TempDir);

impl Drop for Temporary {
    fn drop(&mut self) {
        let mark = Mark::of_store(&self.0.path().join(STORE));
        if let Some(Err(error)) = mark.map(|mark| mark.forget()) {
            tracing::warn!(%error, "the mark of trust of the demo's store stays behind");
        }
    }
}

/// A folder that did not exist, or has nothing in it.
fn made_empty(folder: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot_make(&error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| cannot_make(&error))?;
    match entries.next() {
        None => Ok(folder.to_owned()),
        Some(_) => {
            let words = format!("{} is not empty", folder.display());
            let failure = Failure::new(Exit::Conflict, "FOLDER_NOT_EMPTY", words);
            Err(failure.hint("name a new folder; the demo writes over nothing"))
        }
    }
}

/// Writes the repository, the settings and the scripts of the demo's agents.
async fn furnish(folder: &Path) -> Result<(), Failure> {
    let write = |name: &str, text: &str| stage::write(folder, name, text);
    for (name, text) in FILES {
        write(name, text)?;
    }
    // Everything of Callboard stays out of the repository.
    write(".callboard/.gitignore", "*\n")?;
    let mut settings = format!("{SETTINGS}store.url = {}\n", serde_json::json!(folder.join(STORE)));
    for (name, kind, script) in EXECUTORS {
        let file = format!(".callboard/demo/{name}.sh");
        write(&file, script)?;
        let words = serde_json::json!(["sh", folder.join(&file)]);
        settings += &format!("\n[executors.{name}]\nkind = \"{kind}\"\ncommand = {words}\n");
    }
    write(".callboard/config.local.toml", &settings)?;
    let made = make_repository(folder, "Begin").await;
    made.map_err(|words| Failure::new(Exit::Failure, "GIT_FAILED", words))
}

fn cannot_make(error: &std::io::Error) -> Failure {
    Failure::io("cannot make a folder for the demo", error)
}
