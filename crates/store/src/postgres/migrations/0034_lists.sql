-- Lists cost a page, whatever the size of the store: an index for each order, and kept counts for each total.

-- The board's list: each phase in the order of priority and age.
CREATE INDEX tasks_by_phase ON tasks (project, phase, priority, created_at, id) WHERE removed_at IS NULL;
-- The tasks of an actor, of one phase at a time; also tasks without an assignee, which the index before left out.
DROP INDEX tasks_by_assignee;
CREATE INDEX tasks_by_assignee ON tasks (project, assignee, phase, id) WHERE removed_at IS NULL;
-- Tasks with nothing in their way, as work to choose from: in any phase, and not begun. Then tasks that wait.
CREATE INDEX tasks_ready ON tasks (project, priority, id)
    WHERE open_deps = 0 AND blocked IS NULL AND NOT is_plan AND removed_at IS NULL;
CREATE INDEX tasks_to_start ON tasks (project, priority, id)
    WHERE phase = 'initial' AND open_deps = 0 AND blocked IS NULL AND NOT is_plan AND removed_at IS NULL;
CREATE INDEX tasks_waiting ON tasks (project, id)
    WHERE (open_deps > 0 OR blocked IS NOT NULL) AND removed_at IS NULL;
CREATE INDEX tasks_in_review ON tasks (project, id) WHERE phase = 'review' AND removed_at IS NULL;
-- Open tasks, and those of them that an actor holds.
CREATE INDEX tasks_open ON tasks (project, id)
    WHERE phase <> 'closed_done' AND phase <> 'closed_canceled' AND removed_at IS NULL;
CREATE INDEX tasks_held ON tasks (project, id)
    WHERE assignee IS NOT NULL AND phase <> 'closed_done' AND phase <> 'closed_canceled' AND removed_at IS NULL;
-- The tasks of an epic, the oldest first.
DROP INDEX tasks_by_parent;
CREATE INDEX tasks_by_parent ON tasks (parent, id) WHERE parent IS NOT NULL;

CREATE INDEX attempts_by_actor ON attempts (actor, started_at, id);
CREATE INDEX attempts_canceled ON attempts (started_at, id) WHERE outcome <> 'finished';
CREATE INDEX attempts_finished ON attempts (started_at, id) WHERE outcome = 'finished';

CREATE INDEX mails_answers ON mails (in_reply_to, id) WHERE in_reply_to IS NOT NULL;

-- Jobs for patches of one state, in the order of the queue. All states together are merged from it.
DROP INDEX jobs_runs;
CREATE INDEX jobs_runs ON jobs (org, state, priority, created_at, id) WHERE kind = 'run';

-- What runs of agents used is rare among the events.
CREATE INDEX events_used ON events (org, seq) WHERE name = 'job.used';

-- How many rows a list has: of tasks and plans for each project, of jobs for patches for each org. The triggers change a
-- count in the transaction that changes its row, whoever writes it. A count is the sum of its shards: each transaction has
-- a shard to itself, so transactions never wait for each other here. `callboard doctor` counts again and compares.
CREATE TABLE list_counts (
    list  text NOT NULL CHECK (list IN ('task', 'plan', 'run')),
    scope bigint NOT NULL,
    state text NOT NULL,
    shard integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (list, scope, state, shard)
) WITH (fillfactor = 50);

CREATE FUNCTION tasks_counted_as(phase text, open_deps integer, blocked text, open_blockers integer)
    RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN phase <> 'initial' THEN phase WHEN open_deps > 0 OR blocked IS NOT NULL THEN 'blocked'
        WHEN open_blockers > 0 THEN 'blocker' ELSE 'ready' END
$$;

-- The first shard that no other transaction has. Where all are taken, transactions wait for each other.
CREATE FUNCTION list_counts_shard() RETURNS integer LANGUAGE sql VOLATILE AS $$
    SELECT coalesce((SELECT s FROM generate_series(0, 15) AS s
        WHERE pg_try_advisory_xact_lock(1667329132, s) LIMIT 1), pg_backend_pid() % 16)
$$;

INSERT INTO list_counts (list, scope, state, shard, count)
    SELECT CASE WHEN is_plan THEN 'plan' ELSE 'task' END, project,
        tasks_counted_as(phase, open_deps, blocked, open_blockers), 0, count(*)
    FROM tasks WHERE removed_at IS NULL GROUP BY 1, 2, 3;
INSERT INTO list_counts (list, scope, state, shard, count)
    SELECT 'run', org, state, 0, count(*) FROM jobs WHERE kind = 'run' GROUP BY org, state;

CREATE FUNCTION tasks_counted_new() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer := list_counts_shard();
BEGIN
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT CASE WHEN is_plan THEN 'plan' ELSE 'task' END, project,
            tasks_counted_as(phase, open_deps, blocked, open_blockers), free, count(*)
        FROM new_rows WHERE removed_at IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE FUNCTION tasks_counted_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer := list_counts_shard();
BEGIN
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT CASE WHEN is_plan THEN 'plan' ELSE 'task' END, project,
            tasks_counted_as(phase, open_deps, blocked, open_blockers), free, -count(*)
        FROM old_rows WHERE removed_at IS NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE FUNCTION tasks_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer;
BEGIN
    -- Most updates move no task to another count.
    IF NOT EXISTS (SELECT 1 FROM old_rows o JOIN new_rows n ON n.id = o.id
        WHERE (o.removed_at IS NULL, o.project, o.is_plan,
                tasks_counted_as(o.phase, o.open_deps, o.blocked, o.open_blockers))
            <> (n.removed_at IS NULL, n.project, n.is_plan,
                tasks_counted_as(n.phase, n.open_deps, n.blocked, n.open_blockers)))
    THEN
        RETURN NULL;
    END IF;
    free := list_counts_shard();
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT CASE WHEN m.is_plan THEN 'plan' ELSE 'task' END, m.project,
            tasks_counted_as(m.phase, m.open_deps, m.blocked, m.open_blockers), free, sum(m.many)
        FROM (SELECT is_plan, project, phase, open_deps, blocked, open_blockers, -1 AS many
                  FROM old_rows WHERE removed_at IS NULL
              UNION ALL SELECT is_plan, project, phase, open_deps, blocked, open_blockers, 1
                  FROM new_rows WHERE removed_at IS NULL) m
        GROUP BY 1, 2, 3 HAVING sum(m.many) <> 0 ORDER BY 1, 2, 3
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE TRIGGER tasks_counted_new AFTER INSERT ON tasks REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tasks_counted_new();
CREATE TRIGGER tasks_counted_gone AFTER DELETE ON tasks REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tasks_counted_gone();
CREATE TRIGGER tasks_counted AFTER UPDATE ON tasks
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION tasks_counted();

CREATE FUNCTION runs_counted_new() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer := list_counts_shard();
BEGIN
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT 'run', org, state, free, count(*) FROM new_rows WHERE kind = 'run'
        GROUP BY org, state ORDER BY org, state
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE FUNCTION runs_counted_gone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer := list_counts_shard();
BEGIN
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT 'run', org, state, free, -count(*) FROM old_rows WHERE kind = 'run'
        GROUP BY org, state ORDER BY org, state
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE FUNCTION runs_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE free integer;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM old_rows o JOIN new_rows n ON n.id = o.id
        WHERE o.kind = 'run' AND o.state <> n.state)
    THEN
        RETURN NULL;
    END IF;
    free := list_counts_shard();
    INSERT INTO list_counts AS c (list, scope, state, shard, count)
        SELECT 'run', m.org, m.state, free, sum(m.many)
        FROM (SELECT org, state, -1 AS many FROM old_rows WHERE kind = 'run'
              UNION ALL SELECT org, state, 1 FROM new_rows WHERE kind = 'run') m
        GROUP BY m.org, m.state HAVING sum(m.many) <> 0 ORDER BY m.org, m.state
    ON CONFLICT (list, scope, state, shard) DO UPDATE SET count = c.count + excluded.count;
    RETURN NULL;
END $$;

CREATE TRIGGER runs_counted_new AFTER INSERT ON jobs REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION runs_counted_new();
CREATE TRIGGER runs_counted_gone AFTER DELETE ON jobs REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION runs_counted_gone();
CREATE TRIGGER runs_counted AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION runs_counted();
