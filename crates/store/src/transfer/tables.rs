//! The tables of a store, equal in every database: one line per table. A test compares this list with both schemas.

/// A table whose rows move.
pub struct MovedTable {
    pub name: &'static str,
    /// Columns that identify a row; rows are read in this order.
    key: &'static str,
    rest: &'static str,
    /// A condition for the rows that a new schema has from the start.
    seed: &'static str,
}

const fn table(name: &'static str, key: &'static str, rest: &'static str) -> MovedTable {
    MovedTable { name, key, rest, seed: "false" }
}

/// The tables that move, each after the tables it refers to.
#[rustfmt::skip]
pub static TABLES: &[MovedTable] = &[
    table("orgs", "id", "name").seeded_with("name = 'default'"),
    table("projects", "id", "org, name, prefix, created_at, description, opened_at"),
    table("repos", "id", "project, machine, path, position, default_branch"),
    table("open_projects", "org, actor", "project, at"),
    table("settings", "org, key", "value"),
    table("plans", "id", "org, actor, at, tasks, todos, state, decided_at, decided_by, made"),
    table("tasks", "id", "prefix, org, project, title, label, phase, priority, assignee, parent, \
        is_plan, checks, contract, verification, open_blockers, open_deps, fence, newest_attempt, \
        entries, created_at, updated_at, removed_at, phase_at, blocked, number, reference"),
    table("bodies", "task", "body, execution_contract"),
    table("cards", "task", "mode, criteria, terminal, agent, base_branch, created_by, review, \
        workspace, branch, failed_reason, failed_at, told"),
    table("scratchpads", "task", "text"),
    table("deps", "task, position", "dep"),
    table("attempts", "id", "task, kind, fence, actor, key, client, model, worktree, branch, \
        head_started, started_at, heartbeat_at, progress, lease_s, lease_expires_at, ended_at, \
        outcome, words, head_finished"),
    table("crew_agents", "org, id", "type, epic, task, idle_since, last_active_at, created_at, updated_at, \
        failed_at"),
    table("mails", "id", "org, from_agent, to_agent, subject, body, in_reply_to, created_at, read_at"),
    table("decisions", "id", "org, agent, decision, reasoning, context, at"),
    table("outputs", "attempt", "output"),
    table("comments", "id", "task, kind, body, rationale, parent, author, created_at, resolved_at, \
        resolved_by, resolution"),
    table("review_drafts", "id", "org, task, author, path, side, first_line, last_line, blob, quote, \
        text, created_at, updated_at"),
    table("review_comments", "id", "org, task, author, path, side, first_line, last_line, blob, quote, \
        text, round, head, sent_at"),
    table("review_viewed", "task, author, path", "org, blob"),
    table("review_looks", "task, author", "org, head, at"),
    table("snoozes", "org, actor, key", "until, until_changes"),
    table("jobs", "id", "org, kind, key, task, tries, created_at, state, due_at, runner, ended_at, reason, \
        priority"),
    table("runs", "job", "org, task, key, content_hash, spec, version, changed_at, summary, attempt, \
        fence, started_at, expires_at, bound_to, runs_on, artifacts, question, pr, up_at, gone_at, \
        webhook, terminal, followed_until, usage"),
    table("run_tails", "job", "fence, text"),
    table("deliveries", "job", "org, about, url, kind, data, ended_at, tried_at, outcome"),
    table("secrets", "org, name", "value"),
    table("pulls", "org, forge, repo, number", "url, status, branch, base, head, title, task, job, \
        machine, created_at, changed_at, is_awaited, merge_commit, is_revoked"),
    table("quotas", "org, metric, period", "used"),
    table("ticks", "one", "at"),
    table("entries", "task, number", "who, at, did, text, attempt"),
    table("events", "seq", "at, org, actor, name, project, task, attempt, data"),
    table("log_floor", "one", "seq, at").seeded_with("seq = 1"),
    table("day_counts", "org, day, measure, bucket", "count"),
    table("day_counts_position", "one", "seq").seeded_with("seq = 0"),
    table("retries", "org, actor, tool, key, step", "at, digest, kept"),
    table("tokens", "id", "hash, org, actor, rights, created_at, created_by, expires_at, \
        revoked_at, revoked_by"),
    table("files", "id", "org, task, name, media_type, at, size"),
    table("handles", "id", "org, actor, tool, scope, runner, state, alive_until, cancel_asked, \
        questions, answers, outcome, message, created_at, updated_at, expires_at"),
    table("file_parts", "file, number", "bytes"),
    table("knowledge", "id", "org, number, title, body, tags, confidence, source, source_task, \
        created_at, created_by, expires_at, superseded_by"),
    table("knowledge_edges", "task, entry", "kind"),
    table("knowledge_uses", "entry, task", "attempt, actor, at"),
    table("knowledge_counts", "org", "entries, tokens, version, stamp"),
    table("knowledge_terms", "org, term, part", "postings"),
    table("knowledge_vectors", "org, model, number, part", "stamp, vector"),
    table("knowledge_models", "org, model", "upto"),
];

/// Tables that do not move, and why.
pub static LEFT_OUT: &[(&str, &str)] = &[
    ("migrations", "each database has its own"),
    ("runners", "processes that start agents for the store they are at"),
    ("page_keys", "browsers sign in again where the board moved to"),
    ("log_parked", "moved as events; only PostgreSQL has it"),
    ("ready_log", "what became ready lately; only PostgreSQL has it"),
    ("log_steps", "how far the events of a PostgreSQL are numbered"),
    ("list_counts", "kept by triggers where the board moved to"),
];

impl MovedTable {
    const fn seeded_with(self, seed: &'static str) -> Self {
        Self { seed, ..self }
    }

    pub fn key(&self) -> impl Iterator<Item = &'static str> {
        self.key.split(", ")
    }

    /// Every column, the key's first.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        self.key().chain(self.rest.split(", "))
    }

    pub(crate) fn column_list(&self) -> String {
        format!("{}, {}", self.key, self.rest)
    }

    /// Finds a row that a new schema does not have.
    pub(crate) fn find_row(&self) -> String {
        format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", self.name, self.seed)
    }

    /// Deletes the rows that a new schema has from the start, so that incoming rows can take their place.
    pub(crate) fn delete_seed(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.name, self.seed)
    }
}
