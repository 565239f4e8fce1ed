-- Jobs for agents. Jobs get a priority and more ways to end.

CREATE TABLE jobs_8 (
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    task       BLOB,
    priority   INTEGER NOT NULL DEFAULT 500 CHECK (priority BETWEEN 0 AND 1000),
    tries      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    state      TEXT NOT NULL CHECK (state IN
        ('queued', 'running', 'stale', 'done', 'failed', 'canceled', 'expired')),
    due_at     INTEGER,
    runner     TEXT,
    ended_at   INTEGER,
    reason     TEXT,
    CHECK ((state IN ('queued', 'running', 'stale')) = (due_at IS NOT NULL)),
    CHECK ((state IN ('running', 'stale')) = (runner IS NOT NULL)),
    CHECK ((due_at IS NULL) = (ended_at IS NOT NULL))
) STRICT;

INSERT INTO jobs_8 (id, org, kind, key, task, priority, tries, created_at, state, due_at, runner,
        ended_at, reason)
    SELECT id, org, kind, key, task, 500, tries, created_at, state, due_at, runner, ended_at, reason
    FROM jobs;
DROP TABLE jobs;
ALTER TABLE jobs_8 RENAME TO jobs;
CREATE UNIQUE INDEX jobs_by_key ON jobs (org, key) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_by_due ON jobs (due_at) WHERE due_at IS NOT NULL;
-- The queue of agents' jobs, and those under way.
CREATE INDEX jobs_open_runs ON jobs (priority, created_at, id)
    WHERE kind = 'run' AND due_at IS NOT NULL;
CREATE INDEX jobs_runs ON jobs (org, priority, created_at, id) WHERE kind = 'run';

-- What such a job asks for and how far it came; its state is the job's.
CREATE TABLE runs (
    job          BLOB PRIMARY KEY CHECK (length(job) = 16),
    org          INTEGER NOT NULL REFERENCES orgs (id),
    task         BLOB NOT NULL,
    key          TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    spec         TEXT NOT NULL,
    version      INTEGER NOT NULL CHECK (version >= 1),
    changed_at   INTEGER NOT NULL,
    summary      TEXT,
    attempt      INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    started_at   INTEGER,
    expires_at   INTEGER NOT NULL,
    bound_to     TEXT,
    runs_on      TEXT,
    artifacts    TEXT NOT NULL,
    question     TEXT,
    pr           TEXT,
    CHECK ((fence = 0) = (started_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX runs_by_key ON runs (org, key, job);
CREATE INDEX runs_by_org ON runs (org, job);
CREATE INDEX runs_by_task ON runs (task);
