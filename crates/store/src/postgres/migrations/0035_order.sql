-- Commits of several processes no longer wait for each other at the end of the log. A batch that finds the end of
-- the log taken leaves its events here, in one row; they get their numbers soon after (docs/decisions/0039).
CREATE TABLE log_parked (
    -- Rises with the order in which the transactions that touch one task commit.
    id       bigint GENERATED ALWAYS AS IDENTITY,
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at       bigint NOT NULL,
    actors   text[] NOT NULL,
    names    text[] NOT NULL,
    projects bigint[] NOT NULL,
    tasks    uuid[] NOT NULL,
    attempts uuid[] NOT NULL,
    data     text[] NOT NULL,
    orgs     bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

-- Rows live for milliseconds, so compressing them is not worth the time.
ALTER TABLE log_parked ALTER COLUMN actors SET STORAGE EXTERNAL,
    ALTER COLUMN names SET STORAGE EXTERNAL,
    ALTER COLUMN projects SET STORAGE EXTERNAL,
    ALTER COLUMN tasks SET STORAGE EXTERNAL,
    ALTER COLUMN attempts SET STORAGE EXTERNAL,
    ALTER COLUMN data SET STORAGE EXTERNAL,
    ALTER COLUMN orgs SET STORAGE EXTERNAL;

CREATE INDEX log_parked_by_xid ON log_parked (xid);

-- The newest row: every transaction that this snapshot sees has its events numbered. A new row takes the place of
-- the old one, because a row that is updated often gets slow to read while an old snapshot is held.
CREATE TABLE log_steps (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seen pg_snapshot NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);

INSERT INTO log_steps (seen) VALUES ('3:3:');

-- The end of the log is its newest event.
DROP TABLE log_position;

-- Tasks in the order in which they became ready to start, or changed while they were. A list of what can start takes
-- its first tasks from the last list and from here, so that it need not walk over tasks that were taken since: while
-- an old snapshot is held, their entries stay in the indexes of tasks. Rows are deleted after a while.
CREATE TABLE ready_log (
    project bigint NOT NULL,
    xid     xid8 NOT NULL DEFAULT pg_current_xact_id(),
    task    uuid NOT NULL
);

CREATE INDEX ready_log_by_xid ON ready_log (project, xid);

-- A trigger, so that no way of writing a task can leave this out.
CREATE FUNCTION ready_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ready_log (project, task) VALUES (NEW.project, NEW.id);
    RETURN NULL;
END $$;

CREATE TRIGGER tasks_ready AFTER INSERT OR UPDATE ON tasks FOR EACH ROW
    WHEN (NEW.phase = 'initial' AND NEW.open_deps = 0 AND NEW.assignee IS NULL AND NOT NEW.is_plan
        AND NEW.removed_at IS NULL AND NEW.blocked IS NULL)
    EXECUTE FUNCTION ready_note();
