-- Calls that outlive their request. `alive_until` is how long the process that runs one may be
-- silent; after that it has failed, whatever stands here.
CREATE TABLE handles (
    id           BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    org          INTEGER NOT NULL REFERENCES orgs (id),
    actor        TEXT NOT NULL,
    tool         TEXT NOT NULL,
    scope        TEXT NOT NULL,
    runner       TEXT NOT NULL,
    state        TEXT NOT NULL
        CHECK (state IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    alive_until  INTEGER,
    cancel_asked INTEGER NOT NULL CHECK (cancel_asked IN (0, 1)),
    questions    TEXT NOT NULL,
    answers      TEXT NOT NULL,
    outcome      TEXT,
    message      TEXT,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    CHECK ((state IN ('working', 'input_required')) = (alive_until IS NOT NULL)),
    CHECK (state <> 'completed' OR outcome IS NOT NULL)
) STRICT;

CREATE INDEX handles_by_expiry ON handles (expires_at);
