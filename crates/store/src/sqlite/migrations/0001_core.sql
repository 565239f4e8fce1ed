-- Rows are the truth, `events` is the history. Ids are 16 bytes that rise with time.

CREATE TABLE orgs (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

INSERT INTO orgs (id, name) VALUES (1, 'default');

CREATE TABLE projects (
    id         INTEGER PRIMARY KEY,
    org        INTEGER NOT NULL REFERENCES orgs (id),
    name       TEXT NOT NULL,
    prefix     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX projects_by_org ON projects (org, id);

-- Where a project's files are. The same path on two machines is two rows.
CREATE TABLE repos (
    id      INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects (id),
    machine TEXT NOT NULL,
    path    TEXT NOT NULL,
    UNIQUE (machine, path)
) STRICT;

CREATE INDEX repos_by_project ON repos (project, machine);

CREATE TABLE tasks (
    id             BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    prefix         TEXT NOT NULL,
    org            INTEGER NOT NULL REFERENCES orgs (id),
    project        INTEGER NOT NULL REFERENCES projects (id),
    title          TEXT NOT NULL,
    label          TEXT NOT NULL,
    phase          TEXT NOT NULL
        CHECK (phase IN ('initial', 'working', 'review', 'closed_done', 'closed_canceled')),
    priority       INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 1000),
    assignee       TEXT,
    parent         BLOB,
    is_plan        INTEGER NOT NULL DEFAULT 0 CHECK (is_plan IN (0, 1)),
    checks         TEXT NOT NULL,
    open_deps      INTEGER NOT NULL CHECK (open_deps >= 0),
    fence          INTEGER NOT NULL DEFAULT 0,
    newest_attempt BLOB,
    entries        INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    removed_at     INTEGER
) STRICT;

-- The next task for somebody who looks for work, best priority first.
CREATE INDEX tasks_free ON tasks (project, priority, id)
    WHERE phase = 'initial' AND open_deps = 0 AND assignee IS NULL AND is_plan = 0
        AND removed_at IS NULL;
-- What can start, in order of creation.
CREATE INDEX tasks_startable ON tasks (project, id)
    WHERE phase = 'initial' AND open_deps = 0 AND removed_at IS NULL;
CREATE INDEX tasks_by_project ON tasks (project, id) WHERE removed_at IS NULL;
CREATE INDEX tasks_by_label ON tasks (project, label, id) WHERE removed_at IS NULL;
CREATE INDEX tasks_by_assignee ON tasks (assignee, id) WHERE assignee IS NOT NULL;

CREATE TABLE bodies (
    task BLOB PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE deps (
    task     BLOB NOT NULL,
    position INTEGER NOT NULL,
    dep      BLOB NOT NULL,
    PRIMARY KEY (task, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX deps_by_dep ON deps (dep, task);

CREATE TABLE attempts (
    id               BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    task             BLOB NOT NULL,
    kind             TEXT NOT NULL
        CHECK (kind IN ('graph', 'execution', 'pair', 'crew', 'job')),
    fence            INTEGER NOT NULL,
    actor            TEXT NOT NULL,
    key              TEXT,
    client           TEXT,
    model            TEXT,
    worktree         TEXT,
    branch           TEXT,
    head_started     TEXT,
    started_at       INTEGER NOT NULL,
    heartbeat_at     INTEGER NOT NULL,
    progress         TEXT,
    lease_s          INTEGER,
    lease_expires_at INTEGER,
    ended_at         INTEGER,
    outcome          TEXT CHECK (outcome IN ('finished', 'canceled', 'released', 'expired')),
    words            TEXT,
    head_finished    TEXT,
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((lease_s IS NULL) = (lease_expires_at IS NULL))
) STRICT;

-- One live attempt per task, whatever the code believes.
CREATE UNIQUE INDEX attempts_live ON attempts (task) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX attempts_by_fence ON attempts (task, fence);
CREATE UNIQUE INDEX attempts_by_key ON attempts (task, actor, key) WHERE key IS NOT NULL;
CREATE INDEX attempts_by_start ON attempts (started_at, id);
CREATE INDEX attempts_by_lease ON attempts (lease_expires_at)
    WHERE ended_at IS NULL AND lease_expires_at IS NOT NULL;

-- A task's visible history: one line per write.
CREATE TABLE entries (
    task    BLOB NOT NULL,
    number  INTEGER NOT NULL,
    who     TEXT NOT NULL,
    at      INTEGER NOT NULL,
    did     TEXT NOT NULL,
    text    TEXT,
    attempt BLOB,
    PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;

-- Never deleted from, written by one transaction at a time: numbers rise without gaps in commit
-- order.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    name    TEXT NOT NULL,
    project INTEGER NOT NULL,
    task    BLOB NOT NULL,
    attempt BLOB,
    data    TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_task ON events (task, seq);

-- What a retried call answered the first time.
CREATE TABLE retries (
    org   INTEGER NOT NULL,
    actor TEXT NOT NULL,
    tool  TEXT NOT NULL,
    key   TEXT NOT NULL,
    at    INTEGER NOT NULL,
    kind  TEXT NOT NULL CHECK (kind IN ('task', 'attempt')),
    id    BLOB NOT NULL,
    PRIMARY KEY (org, actor, tool, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX retries_by_age ON retries (at);
