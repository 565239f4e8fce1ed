-- Jobs for agents. Jobs get a priority and more ways to end.

CREATE TABLE jobs_8 (
    id         uuid PRIMARY KEY,
    org        bigint NOT NULL REFERENCES orgs (id),
    kind       text NOT NULL,
    key        text NOT NULL,
    task       uuid,
    priority   integer NOT NULL DEFAULT 500 CHECK (priority BETWEEN 0 AND 1000),
    tries      integer NOT NULL,
    created_at bigint NOT NULL,
    state      text NOT NULL CHECK (state IN
        ('queued', 'running', 'stale', 'done', 'failed', 'canceled', 'expired')),
    due_at     bigint,
    runner     text,
    ended_at   bigint,
    reason     text,
    CHECK ((state IN ('queued', 'running', 'stale')) = (due_at IS NOT NULL)),
    CHECK ((state IN ('running', 'stale')) = (runner IS NOT NULL)),
    CHECK ((due_at IS NULL) = (ended_at IS NOT NULL))
);

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
    job          uuid PRIMARY KEY,
    org          bigint NOT NULL REFERENCES orgs (id),
    task         uuid NOT NULL,
    key          text NOT NULL,
    content_hash text NOT NULL,
    spec         text NOT NULL,
    version      integer NOT NULL CHECK (version >= 1),
    changed_at   bigint NOT NULL,
    summary      text,
    attempt      integer NOT NULL,
    fence        bigint NOT NULL,
    started_at   bigint,
    expires_at   bigint NOT NULL,
    bound_to     text,
    runs_on      text,
    artifacts    text NOT NULL,
    question     text,
    pr           text,
    CHECK ((fence = 0) = (started_at IS NULL))
);

CREATE INDEX runs_by_key ON runs (org, key, job);
CREATE INDEX runs_by_org ON runs (org, job);
CREATE INDEX runs_by_task ON runs (task);
