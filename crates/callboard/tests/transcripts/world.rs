//! One scene's world: a folder, a store, an engine, a clock that moves only on command.

mod crew;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::actor::Actor;
use callboard_domain::board::plan::PlanState;
use callboard_domain::board::settings::SettingKey;
use callboard_domain::event::EventName;
use callboard_domain::forge::ForgeKind;
use callboard_domain::ids::{Id, Prefix, TaskId};
use callboard_domain::policy::{AttestBy, ChecksOnReview, Policy, parse_labels};
use callboard_domain::rights::{self, Profile, Rights, Scope};
use callboard_domain::task::contract::VerificationKind;
use callboard_domain::time::Timestamp;
use callboard_engine::context::{OpContext, Principal};
use callboard_engine::ports::IdSource;
use callboard_engine::{BoardRule, CrewRule, Engine, Parts, Quotas, RunRule, Workshop};
use callboard_runner::{LocalChecks, LocalPairs, LocalWorktrees, Webhooks};
use callboard_store::clock::ManualClock;
use callboard_store::postgres::PostgresStore;
use callboard_store::sqlite::SqliteStore;
use callboard_store::{EventQuery, Place, RepoPlace, Store};
use callboard_surface::front::Front;
use callboard_surface::lookup::LookupError;
use callboard_surface::retry::ToolRequest;
use callboard_surface::toolsets;
use serde_json::{Map, Value};
use tokio::task::JoinHandle;

use crate::agents::{self, ScriptedAgent};
use crate::hook::Hook;
use crate::lanes::{Lane, Reply, Transport};
use crate::names::{Names, START};
use crate::schema::Schema;
use crate::schemas::LentSchema;
use crate::script::Scene;

/// Which database a scene's store is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

impl StoreKind {
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// Why scenes on this store cannot run here.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Schema::missing(),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Stands for the folder of a scene, which differs in every run.
const FOLDER: &str = "FOLDER";

struct World {
    transport: Transport,
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    ids: Arc<CountingIds>,
    policy: Policy,
    quotas: Quotas,
    checks_enabled: bool,
    /// Created at the first step that needs it, so that settings can come before.
    server: Option<Server>,
    names: Names,
    under_way: HashMap<String, (JoinHandle<Reply>, Vec<String>)>,
    /// `None`: the store is a file in the folder. Dropped last, after the server that uses it.
    schema: Option<Arc<LentSchema>>,
    runs: RunRule,
    board: BoardRule,
    crew: CrewRule,
    script: Arc<ScriptedAgent>,
    agents: Option<JoinHandle<usize>>,
    hook: Option<Hook>,
}

struct Server {
    front: Arc<Front>,
    lane: Arc<Lane>,
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
}

/// Ids that count up: equal in every run.
#[derive(Default)]
struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> Id {
        Id(u128::from(self.0.fetch_add(1, Ordering::SeqCst) + 1) << 64)
    }
}

pub async fn play(
    scene: &Scene,
    schema: Option<Arc<LentSchema>>,
    transport: Transport,
) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir_all(folder.path().join("repo/.callboard")).expect("a repository folder");
    let mut world = World {
        transport,
        folder,
        clock: Arc::new(ManualClock::at(Timestamp(START))),
        ids: Arc::default(),
        policy: Policy::default(),
        quotas: Quotas::default(),
        checks_enabled: true,
        server: None,
        names: Names::default(),
        under_way: HashMap::new(),
        runs: RunRule::default(),
        board: BoardRule::default(),
        crew: CrewRule::default(),
        script: Arc::default(),
        agents: None,
        hook: None,
        schema,
    };
    let mut replies = Vec::new();
    for step in &scene.steps {
        replies.push(world.step(&step.text).await);
    }
    replies
}

impl World {
    async fn step(&mut self, text: &str) -> Vec<String> {
        if text == "jobs<" {
            let running = self.agents.take().expect("agents were started");
            return vec![format!("ran {}", running.await.expect("they end"))];
        }
        if let Some(who) = text.strip_suffix('<') {
            let (running, keys) = self.under_way.remove(who).expect("a call is under way");
            let reply = running.await.expect("the call ends");
            return self.show(reply, &keys);
        }
        let (who, rest) = text.split_once("> ").or(text.split_once('>')).expect("who> does what");
        match who {
            "clock" => self.clock.advance_ms(milliseconds(rest)),
            "sleep" => self.clock.sleep_ms(milliseconds(rest)),
            "config" if rest == "crew.webhook = hook" => {
                let url = self.hook().await.url.clone();
                self.policy.webhook = Some(url);
            }
            "config" => self.configure(rest),
            "events" => return self.events(rest).await,
            "jobs" => return self.run_jobs().await,
            "jobs&" => self.start_agents().await,
            "begins" => self.script.at_work().await,
            "settle" => {
                let engine = self.server().await.engine.clone();
                engine.runs_settle().await.expect("time passes");
            }
            "agent" => self.script.next(rest),
            "reviewer" => self.script.reviews(rest),
            "left" => self.script.leaves_behind(rest),
            "told" => {
                let told = self.script.told().replace(&self.folder_path(), FOLDER);
                return told.lines().map(str::to_owned).collect();
            }
            "answer" => return self.answer(rest).await,
            "plan" => return self.decide_plan(rest).await,
            "hook" => self.hook().await.answers(rest),
            "deliver" => return self.deliver().await,
            "look" => return self.look().await,
            "sweep" => self.sweep().await,
            "read" => return self.read(rest).await,
            "sh" => {
                let script = self.names.expand(&rest.into());
                return self.shell("sh", &["-c", script.as_str().expect("a text stays one")]);
            }
            "git" => return self.shell("git", &rest.split_whitespace().collect::<Vec<_>>()),
            "restart" => self.server = None,
            "rights" => self.grant(rest).await,
            "waits" => self.until_waiting(rest).await,
            "sql" => self.sql(rest).await,
            // Statements for one of the two databases only.
            "sqlite" if self.schema.is_none() => self.sql(rest).await,
            "postgres" if self.schema.is_some() => self.sql(rest).await,
            "sqlite" | "postgres" => {}
            "crew" => return self.crew(rest).await,
            "decisions" => return self.decisions(rest).await,
            "execute" => return self.execute(rest).await,
            who => return self.call(who, rest).await,
        }
        Vec::new()
    }

    /// Does the work of a server's runner now.
    async fn run_jobs(&mut self) -> Vec<String> {
        let engine = self.server().await.engine.clone();
        let verified = engine.run_jobs().await.expect("jobs run");
        let ran = engine.run_agents().await.expect("agents run");
        vec![format!("ran {}", verified + ran)]
    }

    /// Runs agents in the background, until an agent is at work.
    async fn start_agents(&mut self) {
        let engine = self.server().await.engine.clone();
        let at_work = self.script.at_work();
        let mut feed = engine.run_feed(None).await.expect("can be followed");
        self.agents = Some(tokio::spawn(async move { engine.run_agents().await.expect("run") }));
        let until = match (self.script.asks(), self.script.runs()) {
            (true, _) => EventName::JobAsked,
            (_, true) => EventName::JobSucceeded,
            _ => return at_work.await,
        };
        while feed.next().await.is_some_and(|event| event.name != until) {}
    }

    /// `J1 yes`: answers as a person at a terminal would.
    async fn answer(&mut self, line: &str) -> Vec<String> {
        let (job, word) = line.trim().split_once(' ').expect("J1 yes");
        let job = self.names.task(job).parse().expect("a job");
        let engine = self.server().await.engine.clone();
        let op = OpContext::new(Principal::local(actor("ana")), "job_answer");
        match engine.run_answer(&op, job, None, word == "yes").await {
            Ok(_) => Vec::new(),
            Err(error) => vec![format!("error {}", self.names.shorten(&error.to_string()))],
        }
    }

    /// `approve P1` or `reject P1`, as a person at a terminal would: the resulting tasks.
    async fn decide_plan(&mut self, line: &str) -> Vec<String> {
        let (word, plan) = line.trim().split_once(' ').expect("approve P1");
        let plan = self.names.task(plan).parse().expect("a plan");
        let engine = self.server().await.engine.clone();
        let op = OpContext::new(Principal::local(actor("ana")), "plan");
        let decided = match word {
            "approve" => engine.plan_approve(&op, plan).await,
            _ => engine.plan_reject(&op, plan, None).await,
        };
        let said = match decided {
            Err(error) => format!("error {error}"),
            Ok(plan) => match &plan.state {
                PlanState::Approved { tasks, .. } => {
                    let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
                    format!("made {}", tasks.join(", "))
                }
                state => state.as_str().to_owned(),
            },
        };
        vec![self.names.shorten(&said)]
    }

    async fn hook(&mut self) -> &Hook {
        if self.hook.is_none() {
            self.hook = Some(Hook::open().await);
        }
        self.hook.as_ref().expect("just opened")
    }

    /// Sends due letters; returns the received letters with their bodies, and the state of each delivery.
    async fn deliver(&mut self) -> Vec<String> {
        let engine = self.server().await.engine.clone();
        let sent = engine.deliver().await.expect("can be tried");
        let secret = engine.webhook_secret("default").await.expect("a secret");
        let mut lines = vec![format!("sent {sent}")];
        // They are sent concurrently.
        let mut letters = self.hook().await.got();
        letters.sort_by_key(|got| got.header("webhook-id").to_owned());
        for got in letters {
            let signed = if got.is_signed(&secret) { "signed" } else { "NOT SIGNED" };
            let id = self.names.shorten(got.header("webhook-id"));
            let at = got.header("webhook-timestamp");
            lines.push(format!("{id} at {at}, {signed}, answered {}", got.status.as_u16()));
            lines.push(format!("| {}", self.names.shorten(&got.body)));
        }
        let op = OpContext::new(Principal::local(actor("ana")), "webhook_list");
        for (job, letter) in engine.delivery_list(&op, 10).await.expect("readable") {
            let outcome = letter.tried.map_or("-".into(), |tried| tried.outcome);
            let about = self.names.shorten(&letter.about.to_string());
            lines.push(format!("{about} {} after {}: {outcome}", job.state.as_str(), job.tries));
        }
        lines
    }

    /// Looks at the state of pull requests.
    async fn look(&mut self) -> Vec<String> {
        let engine = self.server().await.engine.clone();
        let changed = engine.pulls_look(true).await.expect("can be looked at");
        vec![format!("changed {changed}")]
    }

    /// Looks for ended sessions, as often as it takes.
    async fn sweep(&mut self) {
        let engine = self.server().await.engine.clone();
        let mut suspects = std::collections::BTreeSet::new();
        for _ in 0..2 {
            engine.sweep_sessions(&mut suspects).await.expect("can be looked for");
        }
    }

    async fn read(&mut self, uri: &str) -> Vec<String> {
        let uri = self.names.expand(&uri.trim().into());
        let front = self.server().await.front.clone();
        let ana = Principal::local(actor("ana"));
        let uri = uri.as_str().expect("a text stays one");
        match front.resource_read(&ana, uri).await {
            Err(LookupError::Failed(error)) => panic!("{uri} cannot be read: {error}"),
            Err(LookupError::Absent(missing)) => {
                let code = missing.code;
                let more = missing.retryable.map(|again| format!(" retryable {again}"));
                let mut lines = vec![format!("error {code}{}", more.unwrap_or_default())];
                lines.extend(missing.hint);
                lines
            }
            Ok(found) => {
                let mut lines = vec![found.media_type.to_owned()];
                let text = found.text.lines();
                lines.extend(text.map(|line| format!("| {}", self.names.shorten(line))));
                lines
            }
        }
    }

    /// Returns when this many calls wait for a change.
    async fn until_waiting(&mut self, count: &str) {
        let count: usize = count.trim().parse().expect("a number");
        let engine = self.server().await.engine.clone();
        while engine.card_waits() != count {
            tokio::task::yield_now().await;
        }
    }

    /// `ana maintainer`, `w1 pair_worker T1` for a caller bound to a task, and
    /// `w1 pair_worker tasks:read,tasks:write` for one with these scopes alone.
    async fn grant(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let who = actor(words.next().expect("an actor"));
        let profile = words.next().and_then(Profile::parse).expect("a profile");
        let (scopes, tasks): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains(':'));
        let task = tasks.first().map(|task| self.names.task(task).parse().expect("a task"));
        let listed = scopes.iter().flat_map(|list| list.split(','));
        let listed: Vec<_> = listed.map(|word| Scope::parse(word).expect("a scope")).collect();
        let scopes = if listed.is_empty() { Scope::ALL.to_vec() } else { listed };
        let rights = Rights {
            scopes,
            lane: rights::Lane::KaganAdmin,
            profile_wanted: Some(profile),
            task,
            ..Rights::default()
        };
        self.server().await.lane.grant(who, rights).await;
    }

    /// Changes the database directly, which no server does.
    async fn sql(&mut self, statements: &str) {
        self.server().await;
        match &self.schema {
            None => {
                let path = self.repo().join(".callboard/callboard.db");
                let db = rusqlite::Connection::open(path).expect("the file opens");
                db.execute_batch(statements).expect("SQLite does it");
            }
            Some(schema) => {
                let db = schema.alter().await;
                db.batch_execute(statements).await.expect("PostgreSQL does it");
            }
        }
    }

    fn repo(&self) -> std::path::PathBuf {
        self.folder.path().join("repo")
    }

    async fn server(&mut self) -> &Server {
        if self.server.is_none() {
            self.server = Some(self.start().await);
        }
        self.server.as_ref().expect("just started")
    }

    async fn start(&self) -> Server {
        let store: Arc<dyn Store> = match &self.schema {
            None => {
                let path = self.repo().join(".callboard/callboard.db");
                let store = SqliteStore::open(&path, self.clock.clone());
                Arc::new(store.expect("the store opens"))
            }
            Some(schema) => {
                let store = PostgresStore::open(schema.url(), Some(self.clock.clone())).await;
                Arc::new(store.expect("the store opens"))
            }
        };
        let place = Place {
            org: "default".into(),
            project_name: "repo".into(),
            prefix: Some(Prefix::parse("PROJ").expect("a prefix")),
            repo: Some(RepoPlace { machine: "here".into(), path: self.repo() }),
            store_is_inside: true,
        };
        let home = store.settle(place).await.expect("settles");
        let engine = Engine::new(Parts {
            policy: Arc::new(self.policy.clone()),
            quotas: self.quotas,
            checks: self.checks_enabled.then(|| Arc::new(LocalChecks::new(true)) as Arc<_>),
            runner: "runner:test".parse().expect("an actor"),
            check_log_tail_bytes: 65536,
            runs: self.runs.clone(),
            board: self.board.clone(),
            crew: self.crew.clone(),
            agents: Some(self.script.clone()),
            courier: Some(Arc::new(Webhooks::new(self.runs.spec.webhook_allow_private, None))),
            workshop: Some(self.workshop()),
            ..Parts::bare(home, store.clone(), self.ids.clone())
        });
        self.script.belongs_to(&engine);
        let front = Arc::new(Front::new(engine.clone(), toolsets::ALL, Some("repo".into())));
        let lane = Arc::new(Lane::open(self.transport, front.clone()).await);
        Server { front, lane, engine, store }
    }

    fn workshop(&self) -> Workshop {
        Workshop {
            worktrees: Arc::new(LocalWorktrees::default()),
            merges: Arc::new(LocalWorktrees::default()),
            pairs: Arc::new(LocalPairs::default().with("TMUX_TMPDIR", self.folder.path())),
            workers: Some(self.script.clone()),
            root: Some(self.repo()),
            server: Arc::new(|_| vec!["callboard".into()]),
            door: None,
            programs: HashMap::new(),
        }
    }

    async fn call(&mut self, who: &str, rest: &str) -> Vec<String> {
        let (tool, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let arguments = values.next().expect("arguments").expect("arguments are JSON");
        let keys = rest[values.byte_offset()..].trim().trim_start_matches('|');
        let keys: Vec<String> = keys.split_whitespace().map(str::to_owned).collect();
        let arguments = self.names.expand(&arguments);
        let mut arguments = self.in_folder(arguments);
        if tool == "jobs_submit" && arguments["spec"].is_object() {
            arguments["spec"] = agents::example_with(arguments["spec"].take());
            if arguments["spec"]["notify"]["webhook"] == "hook" {
                arguments["spec"]["notify"]["webhook"] = self.hook().await.url.clone().into();
            }
        }
        let lane = self.server().await.lane.clone();
        let (who, starts) = who.strip_suffix('&').map_or((who, false), |who| (who, true));
        let (who, key) = match who.strip_suffix(']').and_then(|who| who.split_once('[')) {
            Some((who, key)) => (who, Some(key_of(key))),
            None => (who, None),
        };
        let (actor, tool) = (actor(who), tool.to_owned());
        let asked = ToolRequest { arguments, key };
        let running = tokio::spawn(async move {
            let given = asked.arguments.clone();
            let reply = lane.call(&actor, &tool, asked).await;
            crate::outputs::judge(&tool, &given, &reply);
            reply
        });
        if starts {
            self.under_way.insert(who.into(), (running, keys));
            return Vec::new();
        }
        let reply = running.await.expect("the call ends");
        self.show(reply, &keys)
    }

    /// `FOLDER/x` is a path in this scene's own folder.
    fn in_folder(&self, value: Value) -> Value {
        match value {
            Value::String(text) => text.replace(FOLDER, &self.folder_path()).into(),
            Value::Array(items) => items.into_iter().map(|item| self.in_folder(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.into_iter().map(|(k, v)| (k, self.in_folder(v))).collect())
            }
            other => other,
        }
    }

    fn folder_path(&self) -> String {
        self.folder.path().canonicalize().expect("it is there").display().to_string()
    }

    fn show(&mut self, reply: Reply, keys: &[String]) -> Vec<String> {
        match reply {
            Err(refusal) => {
                let words = |key: &str| refusal[key].as_str().unwrap_or("?").to_owned();
                vec![self.names.shorten(&format!("error {}: {}", words("code"), words("message")))]
            }
            Ok(value) if keys.is_empty() => render(&self.shorten(&value)),
            Ok(value) => {
                let value = self.shorten(&value);
                let picked = keys.iter().map(|key| (key.clone(), pick(&value, key)));
                render(&Value::Object(picked.collect::<Map<_, _>>()))
            }
        }
    }

    fn shorten(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let folder = self.folder_path();
                self.names.shorten(&text.replace(&folder, FOLDER)).into()
            }
            Value::Array(items) => items.iter().map(|item| self.shorten(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(k, v)| (k.clone(), self.shorten(v))).collect())
            }
            other => other.clone(),
        }
    }

    /// `T1`: the names of its events. Without a task: the number of all events.
    async fn events(&mut self, of: &str) -> Vec<String> {
        let task: Option<TaskId> = self.names.task(of.trim()).parse().ok();
        let store = self.server().await.store.clone();
        if task.is_none() {
            return vec![store.last_seq().await.expect("readable").to_string()];
        }
        let query = EventQuery { org: None, after: 0, task, limit: 1000 };
        let events = store.events(query).await.expect("readable");
        events.iter().map(|event| format!("{} {}", event.actor, event.name.as_str())).collect()
    }

    fn configure(&mut self, line: &str) {
        let (key, value) = line.split_once('=').expect("key = value");
        let (key, value) = (key.trim(), value.trim());
        match key {
            "graph.statuses" => {
                let labels = parse_labels(value).expect("labels");
                self.policy = Policy::with_labels(labels).expect("complete labels");
            }
            "graph.finish_requires_checks" => self.policy.finish_requires_checks = value == "true",
            "checks.on_review" => {
                self.policy.checks_on_review = ChecksOnReview::parse(value).expect("a word");
            }
            "relay.webhook_allow_private" => {
                self.runs.spec.webhook_allow_private = value == "true";
            }
            "relay.webhook_default" => self.runs.webhook_default = Some(value.into()),
            "forge.kind" => {
                self.runs.forge = match value {
                    "github" => Some(ForgeKind::GitHub),
                    "gitlab" => Some(ForgeKind::GitLab),
                    _ => None,
                };
            }
            "crew.max_workers" => self.crew.workers_max = value.parse().expect("a number"),
            "crew.executor" => self.crew.executor = Some(value.to_owned()),
            "relay.max_queued" => self.runs.open_max = value.parse().expect("a number"),
            "relay.max_concurrency" => self.runs.running_max = value.parse().expect("a number"),
            "graph.gate_canceled" => self.policy.gate_canceled = value == "true",
            "graph.checks_enabled" => self.checks_enabled = value == "true",
            "execution.default_verification" => {
                let kind = VerificationKind::ALL.into_iter().find(|kind| kind.as_str() == value);
                self.policy.default_verification = kind.expect("a kind");
            }
            "execution.verify_max_attempts" => {
                self.policy.verify_pendings_max = value.parse().expect("a number");
            }
            "execution.lease_default_sec" => {
                self.policy.lease_default_s = value.parse().expect("a number");
            }
            "execution.lease_max_sec" => {
                self.policy.lease_max_s = value.parse().expect("a number");
            }
            "execution.quota.tasks_created" => {
                self.quotas.tasks_created = Some(value.parse().expect("a number"));
            }
            "execution.quota.knowledge_stored" => {
                self.quotas.knowledge_stored = Some(value.parse().expect("a number"));
            }
            "board.attempts_max" => self.board.attempts_max = value.parse().expect("a number"),
            "board.start_timeout_seconds" => {
                let seconds = value.parse().expect("a number");
                self.board.start_timeout = std::time::Duration::from_secs(seconds);
            }
            "crew.retry_delay_ms" => {
                self.crew.retry_delay = Duration::from_millis(value.parse().expect("a number"));
            }
            "board.audit_reads" => self.board.audit_reads = value == "true",
            "board.push_after_merge" => self.board.push_after_merge = value == "true",
            "board.repo_roots" => {
                self.board.repo_roots = vec![self.folder.path().join(value)];
            }
            setting if SettingKey::parse(setting).is_some() => {
                let key = SettingKey::parse(setting).expect("just read");
                let value = serde_json::from_str(value).expect("JSON");
                let agents = self.board.agents.clone();
                self.board.base.set(key, &value, &agents).expect("fits");
            }
            "graph.attest_by" => {
                self.policy.attest_by = match value {
                    "human" => AttestBy::Human,
                    "not_assignee" => AttestBy::NotAssignee,
                    _ => AttestBy::Any,
                }
            }
            other => panic!("transcripts do not set {other}"),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "tests play the user at a terminal")]
    fn shell(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.repo())
            .envs(git_identity(self.folder.path()))
            .output()
            .expect("the program starts");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
    }
}

/// Git variables that make it independent of the machine's settings.
pub fn git_identity(home: &Path) -> Vec<(&'static str, String)> {
    let mut variables = vec![("HOME", home.display().to_string())];
    for name in ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] {
        variables.push((name, "ana".into()));
    }
    for name in ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] {
        variables.push((name, "ana@example.org".into()));
    }
    for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
        variables.push((name, "2026-01-01T00:00:00Z".into()));
    }
    variables
}

fn actor(who: &str) -> Actor {
    let kind = if who == "ana" { "human" } else { "agent" };
    format!("{kind}:{who}").parse().expect("names in transcripts are actors")
}

/// `provenance.did` over a list gives each item's; `checks.0.result` one; `deps.#` the number.
fn pick(value: &Value, path: &str) -> Value {
    let Some((first, rest)) = path.split_once('.') else { return part(value, path) };
    match part(value, first) {
        Value::Array(items) if rest == "#" => items.len().into(),
        Value::Array(items) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            pick(&Value::Array(items), rest)
        }
        Value::Array(items) => items.iter().map(|item| pick(item, rest)).collect(),
        one => pick(&one, rest),
    }
}

fn part(value: &Value, key: &str) -> Value {
    match (value, key.parse::<usize>()) {
        (Value::Array(items), Ok(index)) => items.get(index).cloned().unwrap_or_default(),
        _ => value.get(key).cloned().unwrap_or_default(),
    }
}

/// One line when it fits, else one per key.
fn render(value: &Value) -> Vec<String> {
    let line = inline(value);
    match value {
        Value::Object(map) if line.chars().count() > 92 => {
            let last = map.len() - 1;
            let mut lines = vec!["{".to_owned()];
            for (index, (key, value)) in map.iter().enumerate() {
                let comma = if index == last { "" } else { "," };
                lines.push(format!(" \"{key}\": {}{comma}", inline(value)));
            }
            lines.push("}".into());
            lines
        }
        _ => vec![line],
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<_> =
                map.iter().map(|(k, v)| format!("\"{k}\": {}", inline(v))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}

/// A retry key as a step writes it: JSON, such as `""` or `"\u0000"`, else the text itself. `k*501` repeats it that
/// often.
fn key_of(text: &str) -> Value {
    match text.split_once('*') {
        Some((of, times)) => of.repeat(times.parse().expect("how many")).into(),
        None => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

/// `+16m`, `+90s`, `+1500ms`.
fn milliseconds(text: &str) -> i64 {
    let text = text.trim().trim_start_matches('+');
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number: i64 = digits.parse().expect("+16m");
    match &text[digits.len()..] {
        "ms" => number,
        "s" => number * 1000,
        "m" => number * 60_000,
        "h" => number * 3_600_000,
        other => panic!("unknown unit {other}"),
    }
}
