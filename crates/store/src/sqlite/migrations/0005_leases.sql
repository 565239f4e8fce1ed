-- What an execution needs: contracts, comments, jobs, counters.

ALTER TABLE tasks ADD COLUMN contract TEXT;
ALTER TABLE tasks ADD COLUMN verification TEXT;
ALTER TABLE tasks ADD COLUMN open_blockers INTEGER NOT NULL DEFAULT 0 CHECK (open_blockers >= 0);
ALTER TABLE bodies ADD COLUMN execution_contract TEXT;

-- Work that somebody began and gave up.
CREATE INDEX tasks_left ON tasks (project, priority, id)
    WHERE phase = 'working' AND open_deps = 0 AND assignee IS NULL AND is_plan = 0
        AND removed_at IS NULL;
CREATE INDEX tasks_by_parent ON tasks (parent) WHERE parent IS NOT NULL;

-- What a completed attempt handed over, whole.
CREATE TABLE outputs (
    attempt BLOB PRIMARY KEY,
    output  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE comments (
    id          BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    task        BLOB NOT NULL,
    kind        TEXT NOT NULL
        CHECK (kind IN ('question', 'blocker', 'note', 'reference', 'nack')),
    body        TEXT NOT NULL,
    rationale   TEXT,
    parent      BLOB,
    author      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    resolved_at INTEGER,
    resolved_by TEXT,
    resolution  TEXT,
    CHECK ((resolved_at IS NULL) = (resolved_by IS NULL))
) STRICT;

CREATE INDEX comments_by_task ON comments (task, id);

-- Outside work. `due_at` is when somebody may take it: when it is wanted, or when the lease of
-- whoever runs it is over.
CREATE TABLE jobs (
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    task       BLOB,
    tries      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    due_at     INTEGER,
    runner     TEXT,
    ended_at   INTEGER,
    reason     TEXT,
    CHECK ((state IN ('queued', 'running')) = (due_at IS NOT NULL)),
    CHECK ((state = 'running') = (runner IS NOT NULL)),
    CHECK ((state IN ('done', 'failed')) = (ended_at IS NOT NULL))
) STRICT;

-- One job with a key at a time, whatever the code believes.
CREATE UNIQUE INDEX jobs_by_key ON jobs (org, key) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_by_due ON jobs (due_at) WHERE due_at IS NOT NULL;

-- What an org used of something in one month.
CREATE TABLE quotas (
    org    INTEGER NOT NULL REFERENCES orgs (id),
    metric TEXT NOT NULL,
    period TEXT NOT NULL,
    used   INTEGER NOT NULL,
    PRIMARY KEY (org, metric, period)
) STRICT, WITHOUT ROWID;

-- When a process last said that somebody watches over the leases.
CREATE TABLE ticks (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;
