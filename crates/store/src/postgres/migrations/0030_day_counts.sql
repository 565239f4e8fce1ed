-- Counts of each day, made from the events. `day_counts_position` is the last event that was counted; a count and the
-- position change in one transaction. Both tables can be made again from the log: delete the counts, set the position to 0.

CREATE TABLE day_counts (
    org     bigint NOT NULL REFERENCES orgs (id),
    day     bigint NOT NULL,
    measure text NOT NULL,
    bucket  bigint NOT NULL CHECK (bucket >= 0),
    count   bigint NOT NULL CHECK (count > 0),
    PRIMARY KEY (org, day, measure, bucket)
);

CREATE TABLE day_counts_position (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL
);

INSERT INTO day_counts_position (seq) VALUES (0);
