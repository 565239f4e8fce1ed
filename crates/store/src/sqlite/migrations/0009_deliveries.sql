-- Whom jobs tell of their end, what is on its way to them, what it is signed with; pull requests.

ALTER TABLE runs ADD COLUMN webhook TEXT;

-- A message beside the job that sends it; its state is the job's.
CREATE TABLE deliveries (
    job      BLOB PRIMARY KEY CHECK (length(job) = 16),
    org      INTEGER NOT NULL REFERENCES orgs (id),
    about    BLOB NOT NULL,
    url      TEXT NOT NULL,
    kind     TEXT NOT NULL,
    data     TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    tried_at INTEGER,
    outcome  TEXT,
    CHECK ((tried_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_org ON deliveries (org, job);
CREATE INDEX deliveries_by_run ON deliveries (about);

CREATE TABLE secrets (
    org   INTEGER NOT NULL REFERENCES orgs (id),
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (org, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE pulls (
    org        INTEGER NOT NULL REFERENCES orgs (id),
    forge      TEXT NOT NULL,
    repo       TEXT NOT NULL,
    number     INTEGER NOT NULL CHECK (number >= 1),
    url        TEXT NOT NULL,
    status     TEXT NOT NULL CHECK (status IN ('open', 'merged', 'closed')),
    branch     TEXT NOT NULL,
    base       TEXT NOT NULL,
    head       TEXT NOT NULL,
    title      TEXT NOT NULL,
    task       BLOB,
    job        BLOB,
    machine    TEXT,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (org, forge, repo, number)
) STRICT, WITHOUT ROWID;

-- Callboard's own are numbered per org, whatever the repository.
CREATE UNIQUE INDEX pulls_of_org ON pulls (org, number) WHERE forge = 'local';
CREATE INDEX pulls_open ON pulls (created_at) WHERE status = 'open';
CREATE INDEX pulls_by_job ON pulls (job) WHERE job IS NOT NULL;
