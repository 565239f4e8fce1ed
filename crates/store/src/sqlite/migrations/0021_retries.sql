-- A repeated call answers what the first one answered. `step` is empty for the whole call and names
-- the command otherwise; `digest` belongs to the call's arguments. Rows of older versions have
-- neither digest nor answer: their keys are known, and a repeated call is told so.
ALTER TABLE retries RENAME TO retries_20;
CREATE TABLE retries (
    org    INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    tool   TEXT NOT NULL,
    key    TEXT NOT NULL,
    step   TEXT NOT NULL,
    at     INTEGER NOT NULL,
    digest TEXT,
    kept   TEXT,
    PRIMARY KEY (org, actor, tool, key, step)
) STRICT, WITHOUT ROWID;
INSERT INTO retries (org, actor, tool, key, step, at)
    SELECT org, actor, tool, key, '', at FROM retries_20 WHERE length(key) <= 500;
DROP TABLE retries_20;

CREATE INDEX retries_by_age ON retries (at);
