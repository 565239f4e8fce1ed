-- Events that speak of no task (something learned, say) belong to an org alone.

CREATE TABLE events_3 (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    org     INTEGER NOT NULL REFERENCES orgs (id),
    actor   TEXT NOT NULL,
    name    TEXT NOT NULL,
    project INTEGER,
    task    BLOB,
    attempt BLOB,
    data    TEXT NOT NULL
) STRICT;

INSERT INTO events_3 (seq, at, org, actor, name, project, task, attempt, data)
    SELECT e.seq, e.at, p.org, e.actor, e.name, e.project, e.task, e.attempt, e.data
    FROM events e JOIN projects p ON p.id = e.project ORDER BY e.seq;
DROP TABLE events;
ALTER TABLE events_3 RENAME TO events;
CREATE INDEX events_by_task ON events (task, seq) WHERE task IS NOT NULL;

-- Kept for a day; what a retried call answered may be anything with an id.
DROP TABLE retries;
CREATE TABLE retries (
    org   INTEGER NOT NULL,
    actor TEXT NOT NULL,
    tool  TEXT NOT NULL,
    key   TEXT NOT NULL,
    at    INTEGER NOT NULL,
    kind  TEXT NOT NULL,
    id    BLOB NOT NULL,
    PRIMARY KEY (org, actor, tool, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX retries_by_age ON retries (at);
