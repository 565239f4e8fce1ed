-- Where the log begins to be whole. Retention removes events below `seq`; those of open tasks stay. `at` is the time of the
-- newest removed event: rows that are older may have no events any more.
CREATE TABLE log_floor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL CHECK (seq >= 1),
    at  INTEGER NOT NULL
) STRICT;

INSERT INTO log_floor (one, seq, at) VALUES (1, 1, 0);
