-- What was learned. `number` counts an org's entries from 0 without gaps; the index speaks of
-- entries by it.
CREATE TABLE knowledge (
    id            BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org           INTEGER NOT NULL REFERENCES orgs (id),
    number        INTEGER NOT NULL,
    title         TEXT NOT NULL,
    body          TEXT NOT NULL,
    tags          TEXT NOT NULL,
    confidence    INTEGER NOT NULL CHECK (confidence BETWEEN 0 AND 100),
    source        TEXT NOT NULL CHECK (source IN ('task_completion', 'agent')),
    source_task   BLOB,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    expires_at    INTEGER,
    superseded_by BLOB,
    UNIQUE (org, number)
) STRICT;

CREATE TABLE knowledge_edges (
    task  BLOB NOT NULL,
    entry BLOB NOT NULL,
    kind  TEXT NOT NULL CHECK (kind IN ('produced', 'references')),
    PRIMARY KEY (task, entry)
) STRICT, WITHOUT ROWID;

-- What an org knows, in numbers.
CREATE TABLE knowledge_counts (
    org     INTEGER PRIMARY KEY REFERENCES orgs (id),
    entries INTEGER NOT NULL,
    tokens  INTEGER NOT NULL,
    version INTEGER NOT NULL,
    stamp   INTEGER NOT NULL
) STRICT;

-- Which entries hold a term: a row for each 128 entries, five bytes for each that does.
CREATE TABLE knowledge_terms (
    org      INTEGER NOT NULL,
    term     TEXT NOT NULL,
    part     INTEGER NOT NULL,
    postings BLOB NOT NULL,
    PRIMARY KEY (org, term, part)
) STRICT, WITHOUT ROWID;

-- Vectors of each model, in the order of their stamps.
CREATE TABLE knowledge_vectors (
    org    INTEGER NOT NULL,
    model  TEXT NOT NULL,
    number INTEGER NOT NULL,
    part   INTEGER NOT NULL,
    stamp  INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (org, model, number, part)
) STRICT;

CREATE INDEX knowledge_vectors_by_stamp ON knowledge_vectors (org, model, stamp);

-- How far a model has come: every entry below `upto` was embedded or given up.
CREATE TABLE knowledge_models (
    org   INTEGER NOT NULL,
    model TEXT NOT NULL,
    upto  INTEGER NOT NULL,
    PRIMARY KEY (org, model)
) STRICT, WITHOUT ROWID;
