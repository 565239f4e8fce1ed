//! Settings with types: the result after every layer was read and judged.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_domain::board::settings::{BoardSettings, SettingKey};
use callboard_domain::forge::ForgeKind;
use callboard_domain::ids::Prefix;
use callboard_domain::policy::{AttestBy, ChecksOnReview, Policy, parse_labels};
use callboard_domain::relay::{SpecRules, judge_git_host, judge_webhook};
use callboard_domain::retention::Retention;
use callboard_domain::task::contract::VerificationKind;
use callboard_engine::{BoardRule, CrewRule, CrewTerminal, DigestRule, Quotas, RunRule};
use callboard_runner::{CheckSandbox, Executors, SandboxMode, SandboxPorts, judge_secret};
use callboard_surface::tool::Toolset;
use callboard_surface::toolsets;

use super::http::IssuerChoice;
use super::layer::{Origin, Resolved};
use super::value::Value;
use super::workspace::WorkspaceChoice;
use crate::output::Failure;

/// Every setting of this process, read once at its start. Settings of the board that can change meanwhile are in the
/// store; `board` holds the values that count where the store has none.
#[derive(Clone)]
pub struct Settings {
    /// `None`: derived from the folder's name.
    pub prefix: Option<Prefix>,
    pub policy: Policy,
    pub quotas: Quotas,
    pub digest: DigestRule,
    pub sweep_every: Duration,
    pub retention: Retention,
    pub check_shell: String,
    pub checks_enabled: bool,
    /// Variables that checks see besides the usual ones.
    pub check_env: Vec<String>,
    pub check_sandbox: CheckSandbox,
    pub check_writable: Vec<String>,
    /// TCP ports that confined checks may connect to.
    pub check_ports: SandboxPorts,
    pub check_log_tail_bytes: usize,
    pub github_url: String,
    pub gitlab_url: String,
    pub toolsets: Vec<&'static Toolset>,
    pub task_handles: bool,
    pub listen: SocketAddr,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub public_url: Option<String>,
    /// `None`: only tokens of Callboard are accepted.
    pub issuer: Option<IssuerChoice>,
    /// A name that pages have for themselves.
    pub page_host: Option<String>,
    pub session_lives: Duration,
    pub any_local_user: bool,
    pub rate_limit: u32,
    pub bounds: Bounds,
    pub embedder: EmbedderChoice,
    pub runs: RunRule,
    pub webhook_secret: Option<Secret>,
    pub agents: AgentsChoice,
    pub board: BoardRule,
    pub workspace: WorkspaceChoice,
    pub crew: CrewRule,
    pub store: StoreUrl,
    /// Whether hooks refuse edits of an agent that holds no task.
    pub hooks_require_claim: bool,
    /// The settings of the project's own files that do not count before `callboard trust`.
    pub untrusted: Vec<String>,
}

/// The limits of one caller on a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub wrong_token_limit: u32,
    pub unauthenticated_max: usize,
    /// Against clients that send a request byte by byte to hold a connection.
    pub head_within: Duration,
    pub body_within: Duration,
    pub sessions_per_token: usize,
    pub streams_per_token: usize,
    pub long_calls_per_token: usize,
}

/// How agents are run on this machine.
#[derive(Clone, Debug)]
pub struct AgentsChoice {
    pub executors: Executors,
    pub default_executor: String,
    pub sandbox: SandboxMode,
    pub sandbox_ports: SandboxPorts,
    pub trusted_commands: Vec<String>,
    pub artifact_bytes_max: usize,
    pub kill_grace: Duration,
    /// Empty: anywhere, for a local user without tokens.
    pub local_roots: Vec<PathBuf>,
}

/// The choice of an embedder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedderChoice {
    Off,
    /// The installed model, if there is one.
    Auto,
    /// The model in this folder, or the installed one; `callboard doctor` warns if there is none.
    Model(Option<PathBuf>),
    OpenAi {
        url: String,
        model: String,
        key_variable: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `callboard.db` in the project's folder.
    Default,
    /// Relative to the project's root.
    File(PathBuf),
    /// The address of a PostgreSQL database.
    Postgres(Secret),
}

impl StoreUrl {
    /// Reads a path, `sqlite:PATH` or `postgres://…`. The address may hold a password, so no error
    /// repeats it.
    fn parse(url: &str) -> Result<Self, &'static str> {
        if url.is_empty() {
            return Ok(Self::Default);
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(Secret(url.to_owned())));
        }
        let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:"));
        match path.unwrap_or(url) {
            "" => Err("the path of the database is missing"),
            // An address of another database, or a typing error. As a path it would become a new, empty board.
            path if path.contains("://") => {
                Err("write a path, sqlite:PATH or postgres://HOST/DATABASE")
            }
            path => Ok(Self::File(path.into())),
        }
    }

    /// Reads an argument: a typed path is relative to the working directory.
    pub fn typed(url: &str) -> Result<Self, String> {
        match Self::parse(url.trim())? {
            Self::File(path) => Ok(Self::File(absolute(&path)?)),
            other => Ok(other),
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| error.to_string())
}

/// A text that may hold a password: never printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl Settings {
    /// Judges all values. The first wrong one ends the command: a server must not run with half of its settings.
    pub fn of(values: &Resolved) -> Result<Self, Failure> {
        Reader(values).settings().map_err(Failure::config)
    }
}

/// Reads values by name. A name that is not in `KEYS` is a defect and panics.
pub(super) struct Reader<'a>(&'a Resolved);

impl Reader<'_> {
    /// One line for each field; whatever needs a rule has a method of its own.
    fn settings(&self) -> Result<Settings, String> {
        Ok(Settings {
            prefix: self.filled("graph.prefix").map(|text| self.prefix(text)).transpose()?,
            policy: self.policy()?,
            quotas: Quotas {
                knowledge_stored: self.limit("execution.quota.knowledge_stored"),
                tasks_created: self.limit("execution.quota.tasks_created"),
            },
            digest: DigestRule {
                hits: self.number("execution.digest_hits") as usize,
                min_score: self.fraction("execution.digest_min_score"),
            },
            sweep_every: Duration::from_secs(self.number("execution.sweep_interval_sec").into()),
            retention: self.retention()?,
            check_shell: self.required("graph.check_shell")?,
            checks_enabled: self.boolean("graph.checks_enabled"),
            check_env: self.list("checks.env").to_vec(),
            check_sandbox: CheckSandbox::parse(self.text("checks.sandbox")).unwrap_or_default(),
            check_writable: self.list("checks.writable").to_vec(),
            check_ports: self.ports("checks.ports")?,
            check_log_tail_bytes: self.number("graph.check_log_tail_bytes") as usize,
            github_url: self.required("forge.github_url")?,
            gitlab_url: self.required("forge.gitlab_url")?,
            toolsets: self.toolsets()?,
            task_handles: self.boolean("mcp.task_handles"),
            listen: self.listen()?,
            allowed_hosts: self.list("http.allowed_hosts").to_vec(),
            allowed_origins: self.list("http.allowed_origins").to_vec(),
            public_url: self.public_url()?,
            issuer: self.issuer()?,
            page_host: self.page_host()?,
            session_lives: Duration::from_secs(u64::from(self.number("web.session_hours")) * 3600),
            any_local_user: self.boolean("http.any_local_user"),
            rate_limit: self.number("http.rate_limit"),
            bounds: self.bounds(),
            embedder: self.embedder()?,
            runs: self.runs()?,
            webhook_secret: self.webhook_secret()?,
            agents: self.agents()?,
            board: self.board()?,
            workspace: self.workspace()?,
            crew: self.crew()?,
            store: self.store()?,
            hooks_require_claim: self.boolean("hooks.require_claim"),
            untrusted: self.0.untrusted().to_vec(),
        })
    }

    /// The limits that protect a server from one caller.
    fn bounds(&self) -> Bounds {
        let seconds = |name| Duration::from_secs(self.number(name).into());
        Bounds {
            wrong_token_limit: self.number("http.wrong_token_limit"),
            unauthenticated_max: self.number("http.unauthenticated_max") as usize,
            head_within: seconds("http.head_timeout_sec"),
            body_within: seconds("http.body_timeout_sec"),
            sessions_per_token: self.number("http.sessions_per_token") as usize,
            streams_per_token: self.number("http.streams_per_token") as usize,
            long_calls_per_token: self.number("mcp.long_calls_per_token") as usize,
        }
    }

    fn crew(&self) -> Result<CrewRule, String> {
        Ok(CrewRule {
            retry_max: self.number("crew.retry_max"),
            retry_delay: Duration::from_millis(self.number("crew.retry_delay_ms").into()),
            body_bytes_max: self.number("crew.body_limit_bytes") as usize,
            workers_max: self.number("crew.max_workers"),
            branch_prefix: self.text("crew.branch_prefix").to_owned(),
            base_branch: Some(self.text("crew.base_branch").to_owned()).filter(|it| !it.is_empty()),
            file_bytes_max: self.number("crew.read_file_max_bytes").into(),
            executor: self.crew_executor()?,
            terminal: match self.text("crew.terminal") {
                "tmux" => CrewTerminal::Tmux,
                _ => CrewTerminal::None,
            },
            stale_after_s: self.number("crew.worker_stale_after_sec"),
        })
    }

    /// The executor of a crew's workers. A wrong name is refused at the start, not when the first worker should begin.
    fn crew_executor(&self) -> Result<Option<String>, String> {
        let Some(name) = self.filled("crew.executor") else { return Ok(None) };
        let executors = Executors::new(self.0.executors().to_vec())?;
        let known: Vec<&str> = executors.names().collect();
        if known.contains(&name) {
            return Ok(Some(name.to_owned()));
        }
        let words = format!("must be one of {}, got '{name}'", known.join(", "));
        Err(self.at("crew.executor", &words))
    }

    fn runs(&self) -> Result<RunRule, String> {
        let seconds = |name| Duration::from_secs(self.number(name).into());
        let spec = self.spec_rules()?;
        Ok(RunRule {
            running_max: self.number("relay.max_concurrency"),
            open_max: self.number("relay.max_queued"),
            lease_s: self.number("relay.lease_s"),
            heartbeat: seconds("relay.heartbeat_s"),
            hold_s: self.number("relay.stale_hold_s"),
            attempts_max: self.number("relay.attempts_max"),
            timeout_s: self.number("relay.default_timeout_s"),
            window_s: self.number("relay.idempotency_window_s"),
            ask_timeout: seconds("relay.ask_timeout_s"),
            look_every: RunRule::default().look_every,
            drain: seconds("runner.drain_s"),
            kept: Duration::from_secs(u64::from(self.number("relay.retention_days")) * 86_400),
            webhook_default: self.webhook("relay.webhook_default", &spec)?,
            forge: match self.text("forge.kind") {
                "github" => Some(ForgeKind::GitHub),
                "gitlab" => Some(ForgeKind::GitLab),
                _ => None,
            },
            merge_wait: seconds("crew.merge_wait_sec"),
            has_roots: !self.list("relay.local_roots").is_empty(),
            spec,
        })
    }

    /// Which repositories and webhooks a job may name.
    fn spec_rules(&self) -> Result<SpecRules, String> {
        let schemes = self.list("relay.git_schemes").iter().map(|word| word.to_lowercase());
        let git_hosts = self.list("relay.git_hosts").to_vec();
        for host in &git_hosts {
            judge_git_host(host).map_err(|words| self.at("relay.git_hosts", &words))?;
        }
        Ok(SpecRules {
            git_schemes: schemes.collect(),
            git_hosts,
            webhook_allow_private: self.boolean("relay.webhook_allow_private"),
        })
    }

    /// The address of messages, judged as one in a job would be.
    fn webhook(&self, name: &str, rules: &SpecRules) -> Result<Option<String>, String> {
        let Some(url) = self.filled(name) else { return Ok(None) };
        judge_webhook(url, rules).map_err(|words| self.at(name, &words))?;
        Ok(Some(url.to_owned()))
    }

    /// The secret that signs all messages; without it each org has one of its own.
    fn webhook_secret(&self) -> Result<Option<Secret>, String> {
        let name = "relay.webhook_secret";
        let Some(secret) = self.filled(name) else { return Ok(None) };
        judge_secret(secret).map_err(|words| self.at(name, &words))?;
        Ok(Some(Secret(secret.to_owned())))
    }

    fn agents(&self) -> Result<AgentsChoice, String> {
        Ok(AgentsChoice {
            executors: Executors::new(self.0.executors().to_vec())?,
            default_executor: self.text("relay.default_executor").to_owned(),
            sandbox: SandboxMode::parse(self.text("relay.sandbox")).unwrap_or_default(),
            sandbox_ports: self.ports("relay.sandbox_ports")?,
            trusted_commands: self.list("relay.trusted_commands").to_vec(),
            artifact_bytes_max: self.number("relay.artifact_max_bytes") as usize,
            kill_grace: Duration::from_secs(self.number("runner.kill_grace_s").into()),
            local_roots: self.list("relay.local_roots").iter().map(PathBuf::from).collect(),
        })
    }

    /// The board's settings. Values of flags and variables are kept apart: they override the store.
    fn board(&self) -> Result<BoardRule, String> {
        let seconds = |name| Duration::from_secs(self.number(name).into());
        let executors = Executors::new(self.0.executors().to_vec())?;
        let agents: Vec<String> = executors.names().map(str::to_owned).collect();
        let (mut base, mut pinned) = (BoardSettings::default(), Vec::new());
        for key in SettingKey::ALL {
            let (name, value) = (key.as_str(), self.0.value(key.as_str()).to_json());
            // Each key is judged on top of those before it, so that the message names the right one.
            let mut judged = base.clone();
            judged.set(*key, &value, &agents).map_err(|words| self.at(name, &words))?;
            match self.0.origin(name) {
                Origin::Flag(_) | Origin::Variable(_) => pinned.push((*key, judged.get(*key))),
                Origin::Store | Origin::File(_) | Origin::Default => base = judged,
            }
        }
        Ok(BoardRule {
            base,
            pinned,
            agents,
            worktree_dir: self.inside("runner.worktree_dir")?,
            repo_roots: self.list("board.repo_roots").iter().map(PathBuf::from).collect(),
            push_after_merge: self.boolean("board.push_after_merge"),
            run_ttl: seconds("board.run_ttl_seconds"),
            attempts_max: self.number("board.attempts_max"),
            lease_s: self.number("board.lease_seconds"),
            heartbeat: seconds("board.heartbeat_seconds"),
            start_timeout: seconds("board.start_timeout_seconds"),
            audit_reads: self.boolean("board.audit_reads"),
            remove_after_merge: self.boolean("workspace.remove_after_merge"),
            disk_quota_bytes: self
                .limit("workspace.quota_mb")
                .map(|mb| mb.saturating_mul(1024 * 1024)),
        })
    }

    /// A relative folder that does not leave its parent.
    fn inside(&self, name: &str) -> Result<PathBuf, String> {
        let path = PathBuf::from(self.required(name)?);
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        match path.components().all(plain) {
            true => Ok(path),
            false => Err(self.at(name, "must be a relative path without '..'")),
        }
    }

    /// The policy of the core: labels, gates, times.
    fn policy(&self) -> Result<Policy, String> {
        let name = "graph.statuses";
        let labels = parse_labels(&self.list(name).join(",")).map_err(|e| self.at(name, &e))?;
        let mut policy = Policy::with_labels(labels).map_err(|e| self.at(name, &e))?;
        if let Some(label) = self.filled("graph.working_state") {
            policy.set_working(label).map_err(|e| self.at("graph.working_state", &e))?;
        }
        if let Some(label) = self.filled("graph.review_state") {
            policy.set_review(label).map_err(|e| self.at("graph.review_state", &e))?;
        }
        policy.check_timeout_default_s = self.number("graph.check_timeout_default");
        policy.heartbeat_interval_s = self.number("graph.session_heartbeat_interval");
        policy.stale_after_s = self.number("graph.session_stale_after");
        policy.finish_requires_checks = self.boolean("graph.finish_requires_checks");
        policy.gate_canceled = self.boolean("graph.gate_canceled");
        let on_review = ChecksOnReview::parse(self.text("checks.on_review"));
        policy.checks_on_review = on_review.unwrap_or(ChecksOnReview::Runs);
        policy.attest_by = match self.text("graph.attest_by") {
            "not_assignee" => AttestBy::NotAssignee,
            "human" => AttestBy::Human,
            _ => AttestBy::Any,
        };
        policy.webhook = self.webhook("crew.webhook", &self.spec_rules()?)?;
        self.leases(&mut policy)?;
        self.verification(&mut policy)?;
        Ok(policy)
    }

    /// The lengths of leases: shortest, usual, longest, in seconds.
    fn leases(&self, policy: &mut Policy) -> Result<(), String> {
        let [min, default, max] =
            ["execution.lease_min_sec", "execution.lease_default_sec", "execution.lease_max_sec"];
        policy.lease_min_s = self.number(min);
        policy.lease_default_s = self.number(default);
        policy.lease_max_s = self.number(max);
        self.rising(min, default)?;
        self.rising(default, max)
    }

    /// The default contract, and how often and how fast a verification is tried again.
    fn verification(&self, policy: &mut Policy) -> Result<(), String> {
        policy.default_verification = match self.text("execution.default_verification") {
            "manual" => VerificationKind::Manual,
            "commands" => VerificationKind::Commands,
            _ => VerificationKind::None,
        };
        let [first, longest] = ["execution.verify_backoff_sec", "execution.verify_backoff_max_sec"];
        policy.verify_pendings_max = self.number("execution.verify_max_attempts");
        policy.verify_backoff_s = self.number(first);
        policy.verify_backoff_max_s = self.number(longest);
        self.rising(first, longest)
    }

    /// Refuses two numbers of which the second is the smaller.
    fn rising(&self, low: &str, high: &str) -> Result<(), String> {
        let (least, most) = (self.number(low), self.number(high));
        if least > most {
            let words = format!("{least} is more than {high} ({}), {most}", self.0.origin(high));
            return Err(self.at(low, &words));
        }
        Ok(())
    }

    /// A limit; `None` is unlimited.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        match self.0.value(name) {
            Value::Integer(number) => Some(u64::try_from(*number).unwrap_or(0)),
            Value::Text(_) | Value::Boolean(_) | Value::List(_) => None,
        }
    }

    fn prefix(&self, text: &str) -> Result<Prefix, String> {
        let wrong = || format!("'{text}' is not 1..12 letters, digits or '_'");
        Prefix::parse(text).ok_or_else(|| self.at("graph.prefix", &wrong()))
    }

    /// The toolsets of this server, in the order in which they were named.
    fn toolsets(&self) -> Result<Vec<&'static Toolset>, String> {
        let name = "mcp.toolsets";
        toolsets::parse(&self.list(name).join(",")).map_err(|e| self.at(name, &e))
    }

    /// Which embedder is used; a named folder is a choice by itself.
    fn embedder(&self) -> Result<EmbedderChoice, String> {
        let folder = self.filled("knowledge.model").map(PathBuf::from);
        Ok(match self.text("knowledge.embedder") {
            "off" => EmbedderChoice::Off,
            "model" => EmbedderChoice::Model(folder),
            "openai" => EmbedderChoice::OpenAi {
                url: self.required("knowledge.openai_url")?,
                model: self.required("knowledge.openai_model")?,
                key_variable: self.text("knowledge.openai_key_variable").to_owned(),
            },
            _ => folder.map_or(EmbedderChoice::Auto, |folder| EmbedderChoice::Model(Some(folder))),
        })
    }

    /// The store. A path in a flag or a variable is relative to the working directory, one in a file to the project's
    /// root.
    fn store(&self) -> Result<StoreUrl, String> {
        let name = "store.url";
        let read = match self.0.origin(name) {
            Origin::Flag(_) | Origin::Variable(_) => StoreUrl::typed(self.text(name)),
            Origin::Store | Origin::File(_) | Origin::Default => {
                StoreUrl::parse(self.text(name)).map_err(str::to_owned)
            }
        };
        read.map_err(|words| self.at(name, &words))
    }

    /// TCP ports that a confined program may connect to.
    fn ports(&self, name: &str) -> Result<SandboxPorts, String> {
        SandboxPorts::parse(self.list(name)).map_err(|words| self.at(name, &words))
    }

    /// The message about an invalid value, with its origin.
    pub(super) fn at(&self, name: &str, words: &str) -> String {
        format!("{name} ({}): {words}", self.0.origin(name))
    }

    /// The text of a key; keys of other kinds have none.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.0.value(name) {
            Value::Text(text) => text,
            Value::Integer(_) | Value::Boolean(_) | Value::List(_) => "",
        }
    }

    /// The text of a key, unless it is empty.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// The text of a key that must not be empty.
    fn required(&self, name: &str) -> Result<String, String> {
        let text = self.filled(name).ok_or_else(|| self.at(name, "cannot be empty"))?;
        Ok(text.to_owned())
    }

    /// The number of a key; its range was judged when it was read.
    pub(super) fn number(&self, name: &str) -> u32 {
        match self.0.value(name) {
            Value::Integer(number) => u32::try_from(*number).unwrap_or(u32::MAX),
            Value::Text(_) | Value::Boolean(_) | Value::List(_) => 0,
        }
    }

    /// A number from 0 to 1, which is kept as text.
    fn fraction(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(1.0)
    }

    fn boolean(&self, name: &str) -> bool {
        *self.0.value(name) == Value::Boolean(true)
    }

    pub(super) fn list(&self, name: &str) -> &[String] {
        match self.0.value(name) {
            Value::List(items) => items,
            Value::Text(_) | Value::Integer(_) | Value::Boolean(_) => &[],
        }
    }
}
