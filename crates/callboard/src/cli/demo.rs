//! `callboard demo`: the whole loop in a folder of its own, played by a script instead of agents.
//!
//! The script calls the tools an agent would call and follows the same rules; it only knows in advance what to write.

use std::path::Path;
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_engine::context::{OpContext, Principal};
use callboard_surface::front::{Front, ToolReply, Unknown};
use callboard_surface::toolsets;
use serde_json::{Value, json};

use super::context::Context;
use super::serve::{Server, bind};
use crate::compose::App;
use crate::config::FlagValue;
use crate::output::{Exit, Failure, Out};
use crate::place::Place;

/// Watch a board move: four tasks, two scripted agents, nothing to install
///
/// Everything happens in a temporary folder that is removed at the end.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  callboard demo --pace 0")]
pub struct DemoArgs {
    /// Seconds between steps
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    pace: f64,
    /// Keep serving the page when the story is over
    #[arg(long)]
    stay: bool,
}

/// A task of the story: its title, its dependencies, and the file that does it.
struct StoryTask {
    title: &'static str,
    after: &'static [usize],
    check: &'static str,
    looked_at: bool,
    agent: &'static str,
    file: (&'static str, &'static str),
}

const STORY: &[StoryTask] = &[
    StoryTask {
        title: "Write greet.sh",
        after: &[],
        check: "sh greet.sh | grep -q hello",
        looked_at: false,
        agent: "agent:ada",
        file: ("greet.sh", "echo \"hello ${1:-world}\"\n"),
    },
    StoryTask {
        title: "Test greet.sh with a name",
        after: &[0],
        check: "sh test.sh",
        looked_at: false,
        agent: "agent:bob",
        file: ("test.sh", "test \"$(sh greet.sh ana)\" = \"hello ana\"\n"),
    },
    StoryTask {
        title: "Explain it in the README",
        after: &[0],
        check: "grep -q greet.sh README.md",
        looked_at: true,
        agent: "agent:ada",
        file: ("README.md", "Run `sh greet.sh NAME` and be greeted.\n"),
    },
    StoryTask {
        title: "Write down the release",
        after: &[1, 2],
        check: "grep -q 1.0 CHANGES",
        looked_at: false,
        agent: "agent:bob",
        file: ("CHANGES", "1.0: it greets\n"),
    },
];

pub async fn cmd_demo(context: &Context, args: DemoArgs) -> Result<(), Failure> {
    if !(0.0..=60.0).contains(&args.pace) {
        return Err(Failure::usage("--pace must be 0..60 seconds"));
    }
    let folder = tempfile::Builder::new()
        .prefix("callboard-demo-")
        .tempdir()
        .map_err(|error| Failure::io("cannot make a folder for the demo", &error))?;
    let place = Place { root: folder.path().to_owned() };
    std::fs::create_dir_all(place.folder())
        .map_err(|error| Failure::io("cannot make a folder for the demo", &error))?;
    // A store that is named by its path leaves no mark of trust behind.
    let store = place.folder().join("callboard.db").display().to_string();
    let store = FlagValue { flag: "the demo", key: "store.url", value: store };
    let settings = context.settings(Some(&place), [store])?;
    let app = App::open(&settings, Some(&place), "default").await?;
    let server = Server {
        listener: bind(([127, 0, 0, 1], 0).into()).await?,
        settings,
        place: Some(place),
        scopes: Vec::new(),
        rights: Default::default(),
        no_runner: true,
        fixtures: false,
    };
    let out = context.out;
    let announce = |url: &str, _: Option<&str>| out.line(&format!("watch the board at {url}"));
    let script = Script {
        front: app.front(toolsets::ALL),
        folder: folder.path(),
        pace: Duration::from_secs_f64(args.pace),
        out,
    };
    let story = async {
        let told = script.tell().await;
        if args.stay && told.is_ok() {
            out.note("the page stays open; Ctrl-C ends the demo");
            std::future::pending::<()>().await;
        }
        told
    };
    tokio::select! {
        served = server.run(context, announce) => served,
        told = story => told,
    }
}

struct Script<'s> {
    front: std::sync::Arc<Front>,
    folder: &'s Path,
    pace: Duration,
    out: Out,
}

impl Script<'_> {
    async fn tell(&self) -> Result<(), Failure> {
        let mut ids: Vec<String> = Vec::new();
        for part in STORY {
            ids.push(self.plan(part, &ids).await?);
        }
        for (part, id) in STORY.iter().zip(&ids) {
            self.work(part, id).await?;
        }
        let closed = self.call("human:you", "list", json!({"status": "done"})).await?;
        let count = closed["tasks"].as_array().map_or(0, Vec::len);
        self.out.line(&format!(
            "{count} of {} tasks are done, each with its checks passing",
            STORY.len()
        ))
    }

    async fn plan(&self, part: &StoryTask, ids: &[String]) -> Result<String, Failure> {
        let deps: Vec<&String> = part.after.iter().map(|index| &ids[*index]).collect();
        let mut checks = vec![json!({"desc": part.check, "cmd": part.check})];
        if part.looked_at {
            checks.push(json!({"desc": "reads well", "type": "manual"}));
        }
        let task = json!({"title": part.title, "deps": deps, "checks": checks});
        let made = self.step("human:you", "create", task, part.title).await?;
        Ok(made["id"].as_str().unwrap_or_default().to_owned())
    }

    async fn work(&self, part: &StoryTask, id: &str) -> Result<(), Failure> {
        let begin = json!({"id": id, "expected_actor": part.agent, "idempotency_key": id});
        let session = self.step(part.agent, "begin", begin, part.title).await?["id"].clone();
        if part.after.is_empty() {
            // Shows that a task cannot be closed just by saying "done".
            let early = json!({"id": id, "to": "done"});
            let refusal = self.call(part.agent, "transition", early).await.err();
            let words = refusal.map_or("closed?".into(), |failure| failure.to_string());
            self.say(part.agent, "transition", &words).await;
        }
        let (name, text) = part.file;
        std::fs::write(self.folder.join(name), text)
            .map_err(|error| Failure::io("the demo cannot write", &error))?;
        let beat = json!({"session": session, "progress": format!("wrote {name}")});
        self.step(part.agent, "heartbeat", beat, &format!("wrote {name}")).await?;
        self.step(part.agent, "run_checks", json!({"id": id}), part.check).await?;
        let finish = json!({"session": session, "summary": format!("{name} does it")});
        self.step(part.agent, "finish", finish, part.title).await?;
        if part.looked_at {
            self.step("human:you", "attest", json!({"id": id, "index": 1}), "reads well").await?;
        }
        self.step("human:you", "transition", json!({"id": id, "to": "done"}), part.title).await?;
        Ok(())
    }

    async fn step(
        &self,
        who: &str,
        tool: &str,
        arguments: Value,
        about: &str,
    ) -> Result<Value, Failure> {
        let answer = self.call(who, tool, arguments).await?;
        let status = answer["status"].as_str().unwrap_or_default();
        self.say(who, tool, &format!("{about} ({status})")).await;
        Ok(answer)
    }

    async fn say(&self, who: &str, tool: &str, words: &str) {
        self.out.note(&format!("{who:<10} {tool:<11} {words}"));
        tokio::time::sleep(self.pace).await;
    }

    async fn call(&self, who: &str, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let actor: Actor = who.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        let context = |tool| OpContext::new(Principal::local(actor), tool);
        match self.front.call(tool, arguments, context).await {
            Ok(ToolReply::Done(value)) => Ok(value),
            Ok(ToolReply::Refused(error)) => Err(Failure::rendered(Exit::Failure, &error)),
            Err(Unknown(name)) => Err(Failure::usage(format!("there is no tool '{name}'"))),
        }
    }
}
