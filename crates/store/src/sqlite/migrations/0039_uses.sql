-- Which tasks an entry of knowledge was handed out for, each with the newest attempt that got it.
CREATE TABLE knowledge_uses (
    entry   BLOB NOT NULL,
    task    BLOB NOT NULL,
    attempt BLOB NOT NULL,
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (entry, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX knowledge_uses_newest ON knowledge_uses (entry, at, task);
