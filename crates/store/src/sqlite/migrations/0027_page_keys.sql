-- What opens the pages for a browser: codes, each for one sign-in, and page sessions. Only hashes are
-- kept. A session has the rights of its token, or those of the terminal that made its code.

CREATE TABLE page_keys (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    kind       TEXT NOT NULL CHECK (kind IN ('code', 'session')),
    org        INTEGER NOT NULL REFERENCES orgs (id),
    actor      TEXT NOT NULL,
    token      BLOB REFERENCES tokens (id),
    rights     TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    CHECK ((token IS NULL) <> (rights IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX page_keys_by_end ON page_keys (expires_at);
