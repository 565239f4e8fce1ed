-- Who may ask over HTTP. A row is never deleted: it tells who was let in, by whom and until when.

CREATE TABLE tokens (
    id         BLOB PRIMARY KEY CHECK (length(id) = 16),
    hash       BLOB NOT NULL CHECK (length(hash) = 32),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    actor      TEXT NOT NULL,
    rights     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
) STRICT, WITHOUT ROWID;

-- A folder may hold a project in each of several orgs.
CREATE TABLE repos_2 (
    id      INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects (id),
    machine TEXT NOT NULL,
    path    TEXT NOT NULL,
    UNIQUE (project, machine, path)
) STRICT;

INSERT INTO repos_2 (id, project, machine, path) SELECT id, project, machine, path FROM repos;
DROP TABLE repos;
ALTER TABLE repos_2 RENAME TO repos;
CREATE INDEX repos_by_place ON repos (machine, path);
