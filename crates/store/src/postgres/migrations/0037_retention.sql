-- Where the log begins to be whole. Retention removes events below `seq`; those of open tasks stay. `at` is the time of the
-- newest removed event: rows that are older may have no events any more.
CREATE TABLE log_floor (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq bigint NOT NULL CHECK (seq >= 1),
    at  bigint NOT NULL
);

INSERT INTO log_floor (one, seq, at) VALUES (true, 1, 0);
