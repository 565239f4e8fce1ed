-- Logs and artifacts. A file is written once, under a name that is its own within the org.

CREATE TABLE files (
    id         INTEGER PRIMARY KEY,
    org        INTEGER NOT NULL REFERENCES orgs (id),
    task       BLOB CHECK (length(task) = 16),
    name       TEXT NOT NULL,
    media_type TEXT NOT NULL,
    at         INTEGER NOT NULL,
    size       INTEGER NOT NULL CHECK (size >= 0),
    UNIQUE (org, name)
) STRICT;

CREATE INDEX files_by_age ON files (at);

-- A file's bytes, 256 KiB in each part but the last, so that a look at its end reads no more.
CREATE TABLE file_parts (
    file   INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (file, number)
) STRICT;
