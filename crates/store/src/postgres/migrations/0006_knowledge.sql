-- The same tables as in SQLite. What was learned; `number` counts an org's entries from 0 without
-- gaps, and the index speaks of entries by it.
CREATE TABLE knowledge (
    id            uuid PRIMARY KEY,
    org           bigint NOT NULL REFERENCES orgs (id),
    number        integer NOT NULL,
    title         text NOT NULL,
    body          text NOT NULL,
    tags          text NOT NULL,
    confidence    integer NOT NULL CHECK (confidence BETWEEN 0 AND 100),
    source        text NOT NULL CHECK (source IN ('task_completion', 'agent')),
    source_task   uuid,
    created_at    bigint NOT NULL,
    created_by    text NOT NULL,
    expires_at    bigint,
    superseded_by uuid,
    UNIQUE (org, number)
);

CREATE TABLE knowledge_edges (
    task  uuid NOT NULL,
    entry uuid NOT NULL,
    kind  text NOT NULL CHECK (kind IN ('produced', 'references')),
    PRIMARY KEY (task, entry)
);

-- What an org knows, in numbers. Whoever adds knowledge holds the org's row until the commit.
CREATE TABLE knowledge_counts (
    org     bigint PRIMARY KEY REFERENCES orgs (id),
    entries integer NOT NULL,
    tokens  bigint NOT NULL,
    version bigint NOT NULL,
    stamp   bigint NOT NULL
) WITH (fillfactor = 50);

-- Which entries hold a term: a row for each 128 entries, five bytes for each that does.
CREATE TABLE knowledge_terms (
    org      bigint NOT NULL,
    term     text NOT NULL,
    part     bigint NOT NULL,
    postings bytea NOT NULL,
    PRIMARY KEY (org, term, part)
) WITH (fillfactor = 70);

-- Vectors of each model, in the order of their stamps.
CREATE TABLE knowledge_vectors (
    org    bigint NOT NULL,
    model  text NOT NULL,
    number integer NOT NULL,
    part   integer NOT NULL,
    stamp  bigint NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (org, model, number, part)
);

CREATE INDEX knowledge_vectors_by_stamp ON knowledge_vectors (org, model, stamp);

-- How far a model has come: every entry below `upto` was embedded or given up.
CREATE TABLE knowledge_models (
    org   bigint NOT NULL,
    model text NOT NULL,
    upto  integer NOT NULL,
    PRIMARY KEY (org, model)
);
