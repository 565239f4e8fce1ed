-- What a review page keeps. Drafts, viewed files, looks and snoozes are seen by their author alone, and
-- have no events; comments were sent with a rejection.

CREATE TABLE review_drafts (
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    task       BLOB NOT NULL,
    author     TEXT NOT NULL,
    path       TEXT NOT NULL,
    side       TEXT NOT NULL CHECK (side IN ('old', 'new')),
    first_line INTEGER NOT NULL CHECK (first_line >= 1),
    last_line  INTEGER NOT NULL CHECK (last_line >= first_line),
    blob       TEXT NOT NULL,
    quote      TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

CREATE INDEX review_drafts_by_author ON review_drafts (task, author);

CREATE TABLE review_comments (
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    task       BLOB NOT NULL,
    author     TEXT NOT NULL,
    path       TEXT NOT NULL,
    side       TEXT NOT NULL CHECK (side IN ('old', 'new')),
    first_line INTEGER NOT NULL CHECK (first_line >= 1),
    last_line  INTEGER NOT NULL CHECK (last_line >= first_line),
    blob       TEXT NOT NULL,
    quote      TEXT NOT NULL,
    text       TEXT NOT NULL,
    round      INTEGER NOT NULL CHECK (round >= 1),
    head       TEXT,
    sent_at    INTEGER NOT NULL
) STRICT;

CREATE INDEX review_comments_by_round ON review_comments (task, round);

-- A tick belongs to the blob: a file with another blob is not viewed.
CREATE TABLE review_viewed (
    task   BLOB NOT NULL,
    author TEXT NOT NULL,
    path   TEXT NOT NULL,
    org    INTEGER NOT NULL REFERENCES orgs (id),
    blob   TEXT NOT NULL,
    PRIMARY KEY (task, author, path)
) STRICT, WITHOUT ROWID;

-- The commit that a reviewer saw last.
CREATE TABLE review_looks (
    task   BLOB NOT NULL,
    author TEXT NOT NULL,
    org    INTEGER NOT NULL REFERENCES orgs (id),
    head   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (task, author)
) STRICT, WITHOUT ROWID;

-- Rows of an actor's inbox that are put off: until a time, or while they have this fingerprint.
CREATE TABLE snoozes (
    org           INTEGER NOT NULL REFERENCES orgs (id),
    actor         TEXT NOT NULL,
    key           TEXT NOT NULL,
    until         INTEGER,
    until_changes TEXT,
    PRIMARY KEY (org, actor, key),
    CHECK ((until IS NULL) <> (until_changes IS NULL))
) STRICT, WITHOUT ROWID;
