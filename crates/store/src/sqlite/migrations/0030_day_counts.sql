-- Counts of each day, made from the events. `day_counts_position` is the last event that was counted; a count and the
-- position change in one transaction. Both tables can be made again from the log: delete the counts, set the position to 0.

CREATE TABLE day_counts (
    org     INTEGER NOT NULL REFERENCES orgs (id),
    day     INTEGER NOT NULL,
    measure TEXT NOT NULL,
    bucket  INTEGER NOT NULL CHECK (bucket >= 0),
    count   INTEGER NOT NULL CHECK (count > 0),
    PRIMARY KEY (org, day, measure, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE day_counts_position (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;

INSERT INTO day_counts_position (one, seq) VALUES (1, 0);
