//! The table of settings. File parsing, variables, `callboard config` and the schema for editors
//! are all made from it.

use callboard_domain::policy::DEFAULT_STATUSES;

/// One setting; `name` is its section and its key, with a dot between.
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// As it would be written in a variable; empty when nothing is the default.
    pub default: &'static str,
    pub help: &'static str,
    /// Whether it runs programs, names addresses or variables, loosens confinement or removes history. A settings
    /// file that came with a repository sets such a key only after `callboard trust`.
    pub is_guarded: bool,
}

/// The form of a value, by which files, variables and flags are judged alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A text that is never shown.
    Secret,
    Integer {
        min: i64,
        max: i64,
    },
    /// A number, or `unlimited`.
    /// The bounds are those of `value.rs`, equal for every key of this kind.
    Limit,
    /// A number from 0 to 1, kept as it was written.
    Fraction,
    Boolean,
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// A TOML array of strings, or one string with commas.
    List,
}

/// A key that any settings file may set.
const fn key(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { name, kind, default, help, is_guarded: false }
}

/// Up to a day. 0 is no duration: a key that can be switched off says so with a range of its own.
const SECONDS: Kind = Kind::Integer { min: 1, max: 86_400 };

/// Grouped by section. `callboard config` and the reference keep this order.
#[rustfmt::skip]
pub static KEYS: &[Key] = &[
    key("graph.prefix", Kind::Text, "",
        "Word before the dash of new task ids; empty = from the folder's name."),
    key("graph.statuses", Kind::List, DEFAULT_STATUSES,
        "Status labels with their phases, in order: exactly one initial, at least one closed_done."),
    key("graph.working_state", Kind::Text, "",
        "Label that beginning a session moves a task to; empty = the first working label."),
    key("graph.review_state", Kind::Text, "",
        "Label that finishing a session moves a task to; empty = the first review label."),
    key("graph.check_timeout_default", Kind::Integer { min: 1, max: 3600 }, "120",
        "Seconds a command check may run unless it says otherwise."),
    key("graph.check_shell", Kind::Text, "sh",
        "Shell that runs command checks, with -c.").guarded(),
    key("graph.checks_enabled", Kind::Boolean, "true",
        "Whether this server runs command checks at all; they have its rights.").guarded(),
    key("graph.check_log_tail_bytes", Kind::Integer { min: 0, max: 16_777_216 }, "65536",
        "Bytes of output kept in a check's log."),
    key("graph.session_heartbeat_interval", SECONDS, "30",
        "Seconds between heartbeats that agents are told to keep."),
    key("graph.session_stale_after", SECONDS, "180",
        "Seconds of silence until a session is reported stalled."),
    key("graph.finish_requires_checks", Kind::Boolean, "false",
        "Whether finishing a session needs every command check to pass."),
    key("graph.gate_canceled", Kind::Boolean, "false",
        "Whether giving a task up passes the same gates as closing it as done."),
    key("graph.attest_by", Kind::Word(&["any", "not_assignee", "human"]), "any",
        "Who may attest manual checks."),
    key("checks.on_review", Kind::Word(&["runs", "always", "never"]), "runs",
        "Which ways into review let a task's command checks run by themselves: work of runs and requests for review (runs), every way (always), none (never)."),
    key("checks.env", Kind::List, "",
        "Variables that checks see beside those that shells, compilers and test runners need.").guarded(),
    key("checks.sandbox", Kind::Word(&["auto", "on", "off"]), "auto",
        "Whether checks of agents' worktrees are kept from writing elsewhere: where the system can (auto), always, or they do not run (on), never (off).").guarded(),
    key("checks.writable", Kind::List, "",
        "Folders that confined checks may write beside the worktree, a temporary folder and the caches of build tools; ~/ is the home folder.").guarded(),
    key("checks.ports", Kind::List, "",
        "TCP ports that confined checks may connect to beside 443, 80 and those that the system gives to servers on port 0: ports, ranges like 3000-3010, or any.").guarded(),
    key("execution.lease_default_sec", SECONDS, "900",
        "Seconds that claim_task leases a task for unless the caller says otherwise."),
    key("execution.lease_min_sec", SECONDS, "60",
        "The shortest lease a caller may ask for."),
    key("execution.lease_max_sec", SECONDS, "3600",
        "The longest lease a caller may ask for."),
    key("execution.sweep_interval_sec", Kind::Integer { min: 1, max: 3600 }, "5",
        "Seconds between looks for expired leases; only the events of such leases wait for the next look."),
    key("execution.default_verification", Kind::Word(&["none", "manual", "commands"]), "none",
        "Verification of a task that has neither contract nor checks."),
    key("execution.verify_max_attempts", Kind::Integer { min: 1, max: 1000 }, "10",
        "Runs of a verification in a row that may end without a result before the verification counts as failed."),
    key("execution.verify_backoff_sec", SECONDS, "30",
        "Seconds until a verification without a result runs again; doubled each time."),
    key("execution.verify_backoff_max_sec", SECONDS, "3600",
        "The longest delay until such a verification runs again, in seconds."),
    key("execution.digest_hits", Kind::Integer { min: 0, max: 10 }, "3",
        "Knowledge entries that a task is handed out with, at most."),
    key("execution.digest_min_score", Kind::Fraction, "0.5",
        "The lowest score of such an entry."),
    key("execution.quota.knowledge_stored", Kind::Limit, "unlimited",
        "Knowledge entries an org may store in a month (UTC)."),
    key("execution.quota.tasks_created", Kind::Limit, "unlimited",
        "Tasks an org may add with add_task in a month (UTC)."),
    key("board.repo_roots", Kind::List, "",
        "Folders that hold the repositories projects may have; empty = any, for a local user without tokens.").guarded(),
    key("board.push_after_merge", Kind::Boolean, "false",
        "Whether every merge pushes its target branch to origin; --push does that for one merge."),
    key("board.run_ttl_seconds", SECONDS, "14400",
        "Seconds that a task's agent runs may take together."),
    key("board.attempts_max", Kind::Integer { min: 1, max: 100 }, "3",
        "Runs that may be lost with their server before a task goes back to the backlog."),
    key("board.lease_seconds", SECONDS, "60",
        "Seconds that an agent's run may be silent."),
    key("board.heartbeat_seconds", SECONDS, "15",
        "Seconds between the heartbeats of a run."),
    key("board.start_timeout_seconds", SECONDS, "60",
        "Seconds that an agent may take to start."),
    key("board.audit_reads", Kind::Boolean, "false",
        "Whether the board's reads are in the event log as well."),
    key("crew.retry_max", Kind::Integer { min: 0, max: 10 }, "3",
        "How often a crew's call is retried after the store or a forge could not be reached."),
    key("crew.retry_delay_ms", Kind::Integer { min: 0, max: 60_000 }, "1000",
        "Milliseconds between the retries of a crew's call."),
    key("crew.body_limit_bytes", Kind::Integer { min: 1024, max: 104_857_600 }, "10485760",
        "The largest request that POST /mcp/execute takes."),
    key("crew.max_workers", Kind::Integer { min: 0, max: 1000 }, "10",
        "The most workers that a crew creates; further tasks wait for a free worker."),
    key("crew.branch_prefix", Kind::Text, "callboard/",
        "What the names of a crew's branches begin with."),
    key("crew.base_branch", Kind::Text, "",
        "The branch that epics start from and go to; empty = the repository's default branch."),
    key("crew.read_file_max_bytes", Kind::Integer { min: 1, max: 16_777_216 }, "1048576",
        "The largest file that a supervisor is shown."),
    key("crew.executor", Kind::Text, "",
        "The executor that runs a crew's workers; empty = Callboard does not start them.").guarded(),
    key("crew.terminal", Kind::Word(&["none", "tmux"]), "none",
        "Where a person sees what a worker that crew.executor runs prints; tmux = a session to attach to."),
    key("crew.worker_stale_after_sec", SECONDS, "420",
        "Seconds of silence until a busy worker's supervisor is told of it."),
    key("crew.merge_wait_sec", Kind::Integer { min: 0, max: 3600 }, "30",
        "Seconds that a call waits for a merge at a forge; a merge that takes longer is followed."),
    key("crew.webhook", Kind::Text, "",
        "URL that is told of every mail.sent and task.created, by the rules of relay.webhook_*; empty = no webhook.").guarded(),
    key("forge.kind", Kind::Word(&["local", "github", "gitlab"]), "local",
        "Where pull requests are opened: as records of Callboard's own (local), or at a forge."),
    key("forge.github_url", Kind::Text, "https://api.github.com",
        "Root of GitHub's API; its token is in GITHUB_TOKEN.").guarded(),
    key("forge.gitlab_url", Kind::Text, "https://gitlab.com/api/v4",
        "Root of GitLab's API; its token is in GITLAB_TOKEN.").guarded(),
    key("general.auto_review", Kind::Boolean, "true",
        "Whether a task of an agent that comes into review starts a reviewer: the task's agent once more, with read access only. The server logs each start."),
    key("general.auto_approve", Kind::Boolean, "false",
        "Whether permission prompts of planning agents are granted; workers are limited to their worktree anyway.").guarded(),
    key("general.require_review_approval", Kind::Boolean, "false",
        "Whether merging needs an approval first."),
    key("general.serialize_merges", Kind::Boolean, "true",
        "Whether a repository has one merge at a time."),
    key("general.default_base_branch", Kind::Text, "main",
        "Base branch of tasks where neither task nor repository names one."),
    key("general.auto_sync_base_branch", Kind::Boolean, "true",
        "Whether the base branch is fetched before work begins."),
    key("general.worktree_base_ref_strategy", Kind::Word(&["remote", "local_if_ahead", "local"]), "remote",
        "Where a task's branch begins: at origin's branch, at the local one if it is ahead, at the local one."),
    key("general.max_concurrent_agents", Kind::Integer { min: 1, max: 10 }, "3",
        "Agents that work on tasks at a time, on this machine and store."),
    key("general.default_worker_agent", Kind::Text, "claude",
        "Executor of tasks that name none.").guarded(),
    key("general.default_pair_terminal_backend", Kind::Word(&["tmux", "vscode", "cursor"]),
        if cfg!(windows) { "vscode" } else { "tmux" },
        "Where pair sessions open that name no place."),
    key("general.default_model_claude", Kind::Text, "",
        "Model of claude; empty = its own choice."),
    key("general.default_model_opencode", Kind::Text, "",
        "Model of opencode; empty = its own choice."),
    key("general.default_model_codex", Kind::Text, "",
        "Model of codex; empty = its own choice."),
    key("general.default_model_gemini", Kind::Text, "",
        "Model of gemini; empty = its own choice."),
    key("general.default_model_kimi", Kind::Text, "",
        "Model of kimi; empty = its own choice."),
    key("general.default_model_copilot", Kind::Text, "",
        "Model of copilot; empty = its own choice."),
    key("general.tasks_wait_default_timeout_seconds", Kind::Integer { min: 1, max: 3600 }, "900",
        "Seconds that tasks_wait waits unless told otherwise."),
    key("general.tasks_wait_max_timeout_seconds", Kind::Integer { min: 1, max: 3600 }, "900",
        "The longest that a wait of the board may be."),
    key("mcp.toolsets", Kind::List, "graph",
        "Toolsets of callboard mcp and of /mcp when none are named."),
    key("mcp.task_handles", Kind::Boolean, "true",
        "Whether calls that take over a second answer clients of the tasks extension with a handle."),
    key("mcp.long_calls_per_token", Kind::Integer { min: 0, max: 1_000_000 }, "100",
        "Waits and other long calls that one token may have under way, with or without a handle; 0 = no limit."),
    key("hooks.require_claim", Kind::Boolean, "false",
        "Whether the hooks that callboard init --hooks writes refuse edits of an agent that holds no task."),
    key("http.listen", Kind::Text, "127.0.0.1:3001",
        "Address and port of callboard serve.").guarded(),
    key("http.allowed_hosts", Kind::List, "",
        "Host names accepted beside the loopback ones.").guarded(),
    key("http.allowed_origins", Kind::List, "",
        "Origins accepted beside the server's own.").guarded(),
    key("http.public_url", Kind::Text, "",
        "Where clients find this server when a proxy stands before it, like https://board.example.").guarded(),
    key("http.issuer", Kind::Text, "",
        "Issuer whose JWT access tokens are accepted beside Callboard's own: exactly the iss of its tokens; empty = none.").guarded(),
    key("http.issuer_keys", Kind::Text, "",
        "Keys of the issuer (JWKS): an https URL, an http URL on loopback, or an absolute path.").guarded(),
    key("http.issuer_audience", Kind::Text, "",
        "The audience of this server: the aud of a token must be or contain it.").guarded(),
    key("http.issuer_actor", Kind::Text, "sub",
        "Claim that names the actor: agent:NAME, human:NAME, or a name that becomes agent:NAME.").guarded(),
    key("http.issuer_grants", Kind::List, "",
        "What words of the claims scope, scp and roles give, as WORD=GRANT; a grant is a scope such as tasks:write or a profile such as maintainer. Words that are scopes need no entry.").guarded(),
    key("http.rate_limit", Kind::Integer { min: 0, max: 1_000_000 }, "0",
        "Requests per minute and token; 0 = no limit."),
    key("http.wrong_token_limit", Kind::Integer { min: 0, max: 1_000_000 }, "60",
        "Different wrong tokens per minute and address; 0 = no limit."),
    key("http.unauthenticated_max", Kind::Integer { min: 1, max: 1_000_000 }, "1024",
        "Connections of one address that sent no request with a valid token yet; the oldest is closed beyond that."),
    key("http.head_timeout_sec", Kind::Integer { min: 1, max: 3600 }, "10",
        "Seconds that a client may take for the head of a request."),
    key("http.body_timeout_sec", Kind::Integer { min: 1, max: 3600 }, "60",
        "Seconds that a client may take for the body of a request."),
    key("http.sessions_per_token", Kind::Integer { min: 0, max: 1_000_000 }, "200",
        "Sessions that one token may have open, of 1000 in all; 0 = no limit."),
    key("http.streams_per_token", Kind::Integer { min: 0, max: 1_000_000 }, "100",
        "Event streams that one token may have open; 0 = no limit."),
    key("http.any_local_user", Kind::Boolean, "false",
        "Whether a server without tokens answers every user of its machine, not only the one who started it.").guarded(),
    key("knowledge.embedder", Kind::Word(&["auto", "off", "model", "openai"]), "auto",
        "What finds knowledge by meaning: an installed model if there is one (auto), nothing (off), a model, or an endpoint (openai).").guarded(),
    key("knowledge.model", Kind::Text, "",
        "Folder of a sentence-transformers model; empty = the one that callboard model install put in place."),
    key("knowledge.openai_url", Kind::Text, "",
        "An OpenAI-compatible API up to and with /v1, like http://127.0.0.1:11434/v1.").guarded(),
    key("knowledge.openai_model", Kind::Text, "",
        "Name of the embedding model at that API.").guarded(),
    key("knowledge.openai_key_variable", Kind::Text, "OPENAI_API_KEY",
        "The environment variable that holds the key of that API.").guarded(),
    key("relay.max_concurrency", Kind::Integer { min: 0, max: 1000 }, "3",
        "Jobs that agents work on at a time, on this machine and store."),
    key("relay.max_queued", Kind::Integer { min: 1, max: 1_000_000 }, "1000",
        "Jobs of an org that may be queued or running."),
    key("relay.lease_s", SECONDS, "60",
        "Seconds that a worker may be silent about a job."),
    key("relay.heartbeat_s", SECONDS, "15",
        "Seconds between a worker's heartbeats."),
    key("relay.stale_hold_s", Kind::Integer { min: 0, max: 86_400 }, "5",
        "Seconds that a lost worker may still speak up before its job is queued again."),
    key("relay.attempts_max", Kind::Integer { min: 1, max: 100 }, "3",
        "Workers that may be lost with a job before it counts as failed."),
    key("relay.default_timeout_s", SECONDS, "300",
        "Seconds that a run may take whose job does not say."),
    key("relay.idempotency_window_s", Kind::Integer { min: 0, max: 31_536_000 }, "86400",
        "Seconds after its end that a job's key still finds it; 0 = none."),
    key("relay.artifact_max_bytes", Kind::Integer { min: 1024, max: 67_108_864 }, "10485760",
        "Bytes that an artifact may have; of logs the rest is left out."),
    key("relay.ask_timeout_s", SECONDS, "120",
        "Seconds that an agent's question waits for an answer before it counts as refused."),
    key("relay.trusted_commands", Kind::List,
        "ls, cat, head, tail, wc, grep, rg, git log, git show, git diff, git status, git ls-files, git blame",
        "Commands that agents may run without asking.").guarded(),
    key("relay.sandbox", Kind::Word(&["auto", "os", "executor"]), "auto",
        "What keeps agents from writing: the system where it can (auto), the system or nothing runs (os), their own switches alone (executor).").guarded(),
    key("relay.sandbox_ports", Kind::List, "",
        "TCP ports that a confined agent may connect to beside 443, 80, its board's and those in its executor's variables: ports, ranges like 3000-3010, or any.").guarded(),
    key("relay.default_executor", Kind::Text, "",
        "Executor of models that none serves; empty = the first one found.").guarded(),
    key("relay.git_schemes", Kind::List, "https, ssh",
        "Schemes that a job's repository URL may have; http and file may be added.").guarded(),
    key("relay.git_hosts", Kind::List, "",
        "Hosts of repository URLs that may have loopback and private addresses, and that get this user's git credentials when callers have tokens; each with or without a port.").guarded(),
    key("relay.local_roots", Kind::List, "",
        "Folders that hold the local repositories jobs may name; empty = any, for a local user without tokens.").guarded(),
    key("relay.webhook_default", Kind::Text, "",
        "URL that is told of the end of jobs that name no webhook; empty = no webhook.").guarded(),
    key("relay.webhook_secret", Kind::Secret, "",
        "What webhooks are signed with, like whsec_ and base64; empty = one made for each org, which callboard webhook secret shows.").guarded(),
    key("relay.webhook_allow_private", Kind::Boolean, "false",
        "Whether webhooks may go to loopback and private addresses.").guarded(),
    key("relay.retention_days", Kind::Integer { min: 1, max: 36_500 }, "30",
        "Days that jobs and their artifacts are kept after their end."),
    key("retention.events_days", Kind::Limit, "unlimited",
        "Days that events are kept after their task was closed, or after they happened if they belong to no task.").guarded(),
    key("retention.mail_days", Kind::Limit, "unlimited",
        "Days that mail of a crew is kept after it was read; unread mail stays.").guarded(),
    key("retention.decisions_days", Kind::Limit, "unlimited",
        "Days that decisions in a crew's log are kept; those of agents whose epic or task is open stay.").guarded(),
    key("retention.deliveries_days", Kind::Limit, "unlimited",
        "Days that messages to webhooks are listed after they were sent or given up; at most as long as their job.").guarded(),
    key("retention.logs_days", Kind::Limit, "30",
        "Days that the logs of checks and of agents' runs are kept.").guarded(),
    key("retention.artifacts_days", Kind::Limit, "unlimited",
        "Days that artifacts of jobs are kept; at most as long as their job (relay.retention_days).").guarded(),
    key("runner.kill_grace_s", Kind::Integer { min: 0, max: 3600 }, "10",
        "Seconds that an agent which is asked to end gets before it is killed."),
    key("runner.drain_s", Kind::Integer { min: 0, max: 3600 }, "10",
        "Seconds that runs go on when their process is asked to end."),
    key("runner.worktree_dir", Kind::Text, ".callboard/worktrees",
        "Folder of the worktrees of tasks, from the top of their repository."),
    key("store.url", Kind::Text, "",
        "Where tasks are kept: a path, or postgres://USER@HOST/DATABASE; empty = .callboard/callboard.db.").guarded(),
    key("ui.skip_pair_instructions", Kind::Boolean, "false",
        "Whether pair sessions come without instructions."),
    key("web.host", Kind::Text, "",
        "A host name for the pages alone, like callboard.localhost; agents then use the other host names. Empty = none.").guarded(),
    key("web.session_hours", Kind::Integer { min: 1, max: 168 }, "12",
        "Hours after which a user of the pages must sign in again.").guarded(),
    key("workspace.setup", Kind::Text, "",
        "Command that makes a new worktree ready for work, run once in each before an agent starts; empty = none.").guarded(),
    key("workspace.teardown", Kind::Text, "",
        "Command that runs in a worktree before it is removed; empty = none.").guarded(),
    key("workspace.setup_timeout", SECONDS, "600",
        "Seconds that workspace.setup, and workspace.teardown, may take."),
    key("workspace.link", Kind::List, "",
        "Ignored folders of the main checkout that each worktree gets as links, like node_modules.").guarded(),
    key("workspace.link_writable", Kind::List, "",
        "The folders of workspace.link that confined agents and commands may write; the others are read-only to them.").guarded(),
    key("workspace.ports", Kind::Text, "20000-29999",
        "TCP ports that tasks get blocks of, as CALLBOARD_PORT."),
    key("workspace.port_count", Kind::Integer { min: 0, max: 1000 }, "10",
        "Ports in the block of a task; 0 = tasks get no ports."),
    key("workspace.remove_after_merge", Kind::Boolean, "true",
        "Whether a merge removes the worktree and the branch of its task at once, if they hold nothing that is not merged."),
    key("workspace.quota_mb", Kind::Limit, "20480",
        "Megabytes that the worktrees of a repository may use before the inbox and callboard doctor warn."),
];

impl Key {
    /// Marks a key by which a cloned repository could run programs, reach hosts or loosen confinement on this machine.
    const fn guarded(mut self) -> Self {
        self.is_guarded = true;
        self
    }

    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The known key that is most similar to an unknown one.
    pub fn nearest(name: &str) -> Option<&'static str> {
        let distance = |known: &str| strsim::damerau_levenshtein(known, name);
        let nearest = KEYS.iter().map(|key| key.name).min_by_key(|known| distance(known))?;
        // Three typing errors. Beyond that a suggestion is more often wrong than right.
        (distance(nearest) <= 3).then_some(nearest)
    }

    /// `graph.prefix` is `CALLBOARD_GRAPH_PREFIX`; the store has a shorter name as well.
    pub fn variables(&self) -> Vec<String> {
        let mut names =
            vec![format!("CALLBOARD_{}", self.name.replace('.', "_").to_ascii_uppercase())];
        if self.name == "store.url" {
            // In front: of two variables that are set, the first one counts.
            names.insert(0, "CALLBOARD_STORE".into());
        }
        // As the document it comes from calls it.
        if self.name == "relay.max_concurrency" {
            names.push("MAX_CONCURRENCY".into());
        }
        names
    }

    pub fn default_value(&self) -> super::Value {
        super::Value::from_text(self, self.default).expect("a test reads every default")
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::board::settings::{BoardSettings, SettingKey};

    use super::*;

    #[test]
    fn every_row_is_well_formed() {
        for (n, key) in KEYS.iter().enumerate() {
            key.default_value();
            let parts: Vec<&str> = key.name.split('.').collect();
            assert!(parts.len() > 1 && parts.iter().all(|part| !part.is_empty()), "{}", key.name);
            assert!(key.help.ends_with('.'), "{}", key.name);
            assert!(KEYS[..n].iter().all(|other| other.name != key.name), "{}", key.name);
        }
    }

    #[test]
    fn what_can_be_changed_while_servers_run_stands_in_the_table() {
        let mut settings = BoardSettings::default();
        for setting in SettingKey::ALL {
            let key = Key::find(setting.as_str()).expect("a row for every setting");
            let value = key.default_value().to_json();
            settings.set(*setting, &value, &["claude".into()]).expect("its default fits");
        }
        assert_eq!(settings, BoardSettings::default());
    }

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(Key::nearest("graph.prefx"), Some("graph.prefix"));
        assert_eq!(Key::nearest("http.host"), None);
    }
}
