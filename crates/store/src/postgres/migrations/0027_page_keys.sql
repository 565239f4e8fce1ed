-- What opens the pages for a browser: codes, each for one sign-in, and page sessions. Only hashes are
-- kept. A session has the rights of its token, or those of the terminal that made its code.

CREATE TABLE page_keys (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    kind       text NOT NULL CHECK (kind IN ('code', 'session')),
    org        bigint NOT NULL REFERENCES orgs (id),
    actor      text NOT NULL,
    token      uuid REFERENCES tokens (id),
    rights     text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    CHECK ((token IS NULL) <> (rights IS NULL))
);

CREATE INDEX page_keys_by_end ON page_keys (expires_at);
