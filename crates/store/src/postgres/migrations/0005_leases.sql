-- What an execution needs: contracts, comments, jobs, counters.

ALTER TABLE tasks ADD COLUMN contract text;
ALTER TABLE tasks ADD COLUMN verification text;
ALTER TABLE tasks ADD COLUMN open_blockers integer NOT NULL DEFAULT 0 CHECK (open_blockers >= 0);
ALTER TABLE bodies ADD COLUMN execution_contract text;

-- Work that somebody began and gave up.
CREATE INDEX tasks_left ON tasks (project, priority, id)
    WHERE phase = 'working' AND open_deps = 0 AND assignee IS NULL AND NOT is_plan
        AND removed_at IS NULL;
CREATE INDEX tasks_by_parent ON tasks (parent) WHERE parent IS NOT NULL;

-- What a completed attempt handed over, whole.
CREATE TABLE outputs (
    attempt uuid PRIMARY KEY,
    output  text NOT NULL
);

CREATE TABLE comments (
    id          uuid PRIMARY KEY,
    task        uuid NOT NULL,
    kind        text NOT NULL
        CHECK (kind IN ('question', 'blocker', 'note', 'reference', 'nack')),
    body        text NOT NULL,
    rationale   text,
    parent      uuid,
    author      text NOT NULL,
    created_at  bigint NOT NULL,
    resolved_at bigint,
    resolved_by text,
    resolution  text,
    CHECK ((resolved_at IS NULL) = (resolved_by IS NULL))
);

CREATE INDEX comments_by_task ON comments (task, id);

-- Outside work. `due_at` is when somebody may take it: when it is wanted, or when the lease of
-- whoever runs it is over.
CREATE TABLE jobs (
    id         uuid PRIMARY KEY,
    org        bigint NOT NULL REFERENCES orgs (id),
    kind       text NOT NULL,
    key        text NOT NULL,
    task       uuid,
    tries      integer NOT NULL,
    created_at bigint NOT NULL,
    state      text NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed')),
    due_at     bigint,
    runner     text,
    ended_at   bigint,
    reason     text,
    CHECK ((state IN ('queued', 'running')) = (due_at IS NOT NULL)),
    CHECK ((state = 'running') = (runner IS NOT NULL)),
    CHECK ((state IN ('done', 'failed')) = (ended_at IS NOT NULL))
);

-- One job with a key at a time, whatever the code believes.
CREATE UNIQUE INDEX jobs_by_key ON jobs (org, key) WHERE due_at IS NOT NULL;
CREATE INDEX jobs_by_due ON jobs (due_at) WHERE due_at IS NOT NULL;

-- What an org used of something in one month.
CREATE TABLE quotas (
    org    bigint NOT NULL REFERENCES orgs (id),
    metric text NOT NULL,
    period text NOT NULL,
    used   bigint NOT NULL,
    PRIMARY KEY (org, metric, period)
);

-- When a process last said that somebody watches over the leases.
CREATE TABLE ticks (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at  bigint NOT NULL
);
