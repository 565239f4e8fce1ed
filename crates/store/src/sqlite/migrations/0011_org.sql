-- What an org has besides tasks: settings it changed, several projects with several repositories,
-- who works in which of them, and plans that wait for a yes.

-- Values as JSON. A key that nobody changed has no row.
CREATE TABLE settings (
    org   INTEGER NOT NULL REFERENCES orgs (id),
    key   TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (org, key)
) STRICT, WITHOUT ROWID;

ALTER TABLE projects ADD COLUMN description TEXT NOT NULL DEFAULT '';
ALTER TABLE projects ADD COLUMN opened_at INTEGER;

-- The lowest position is a project's primary repository; of two on it the newer one, whose folder
-- was moved.
ALTER TABLE repos ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN default_branch TEXT;

CREATE TABLE open_projects (
    org     INTEGER NOT NULL REFERENCES orgs (id),
    actor   TEXT NOT NULL,
    project INTEGER NOT NULL REFERENCES projects (id),
    at      INTEGER NOT NULL,
    PRIMARY KEY (org, actor)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    actor      TEXT NOT NULL,
    at         INTEGER NOT NULL,
    tasks      TEXT NOT NULL,
    todos      TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('draft', 'approved', 'rejected')),
    decided_at INTEGER,
    decided_by TEXT,
    made       TEXT,
    CHECK ((state = 'draft') = (decided_at IS NULL)),
    CHECK ((decided_at IS NULL) = (decided_by IS NULL)),
    CHECK ((state = 'approved') = (made IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX plans_by_org ON plans (org, id);
