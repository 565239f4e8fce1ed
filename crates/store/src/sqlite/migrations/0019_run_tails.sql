-- What an agent printed so far, while its run goes on; the log that is kept takes its place.
CREATE TABLE run_tails (
    job BLOB PRIMARY KEY REFERENCES runs (job) ON DELETE CASCADE,
    fence INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
