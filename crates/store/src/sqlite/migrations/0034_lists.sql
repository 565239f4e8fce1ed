-- Lists cost a page, whatever the size of the store: an index for each order, and kept counts for each total.

-- The board's list: each phase in the order of priority and age.
CREATE INDEX tasks_by_phase ON tasks (project, phase, priority, created_at, id) WHERE removed_at IS NULL;
-- The tasks of an actor, of one phase at a time; also tasks without an assignee, which the index before left out.
DROP INDEX tasks_by_assignee;
CREATE INDEX tasks_by_assignee ON tasks (project, assignee, phase, id) WHERE removed_at IS NULL;
-- Tasks with nothing in their way, as work to choose from: in any phase, and not begun. Then tasks that wait.
CREATE INDEX tasks_ready ON tasks (project, priority, id)
    WHERE open_deps = 0 AND blocked IS NULL AND is_plan = 0 AND removed_at IS NULL;
CREATE INDEX tasks_to_start ON tasks (project, priority, id)
    WHERE phase = 'initial' AND open_deps = 0 AND blocked IS NULL AND is_plan = 0 AND removed_at IS NULL;
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
-- count in the transaction that changes its row, whoever writes it. `callboard doctor` counts again and compares.
CREATE TABLE list_counts (
    list  TEXT NOT NULL,
    scope INTEGER NOT NULL,
    state TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (list, scope, state)
) STRICT, WITHOUT ROWID;

INSERT INTO list_counts (list, scope, state, count)
    SELECT iif(is_plan, 'plan', 'task'), project,
        CASE WHEN phase <> 'initial' THEN phase WHEN open_deps > 0 OR blocked IS NOT NULL THEN 'blocked'
            WHEN open_blockers > 0 THEN 'blocker' ELSE 'ready' END, count(*)
    FROM tasks WHERE removed_at IS NULL GROUP BY 1, 2, 3;
INSERT INTO list_counts (list, scope, state, count)
    SELECT 'run', org, state, count(*) FROM jobs WHERE kind = 'run' GROUP BY org, state;

CREATE TRIGGER tasks_counted_new AFTER INSERT ON tasks WHEN new.removed_at IS NULL BEGIN
    INSERT INTO list_counts (list, scope, state, count) VALUES (
        iif(new.is_plan, 'plan', 'task'), new.project,
        CASE WHEN new.phase <> 'initial' THEN new.phase
            WHEN new.open_deps > 0 OR new.blocked IS NOT NULL THEN 'blocked'
            WHEN new.open_blockers > 0 THEN 'blocker' ELSE 'ready' END, 1)
    ON CONFLICT (list, scope, state) DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER tasks_counted_gone AFTER DELETE ON tasks WHEN old.removed_at IS NULL BEGIN
    UPDATE list_counts SET count = count - 1
    WHERE list = iif(old.is_plan, 'plan', 'task') AND scope = old.project
        AND state = CASE WHEN old.phase <> 'initial' THEN old.phase
            WHEN old.open_deps > 0 OR old.blocked IS NOT NULL THEN 'blocked'
            WHEN old.open_blockers > 0 THEN 'blocker' ELSE 'ready' END;
END;

-- Only for updates that name one of these columns: a claim or a heartbeat costs nothing.
CREATE TRIGGER tasks_counted
    AFTER UPDATE OF project, is_plan, phase, open_deps, blocked, open_blockers, removed_at ON tasks
    WHEN (old.removed_at IS NULL) <> (new.removed_at IS NULL) OR old.project <> new.project
        OR old.is_plan <> new.is_plan OR old.phase <> new.phase
        OR (old.open_deps > 0 OR old.blocked IS NOT NULL) <> (new.open_deps > 0 OR new.blocked IS NOT NULL)
        OR (old.open_blockers > 0) <> (new.open_blockers > 0)
BEGIN
    UPDATE list_counts SET count = count - 1
    WHERE old.removed_at IS NULL AND list = iif(old.is_plan, 'plan', 'task') AND scope = old.project
        AND state = CASE WHEN old.phase <> 'initial' THEN old.phase
            WHEN old.open_deps > 0 OR old.blocked IS NOT NULL THEN 'blocked'
            WHEN old.open_blockers > 0 THEN 'blocker' ELSE 'ready' END;
    INSERT INTO list_counts (list, scope, state, count)
    SELECT iif(new.is_plan, 'plan', 'task'), new.project,
        CASE WHEN new.phase <> 'initial' THEN new.phase
            WHEN new.open_deps > 0 OR new.blocked IS NOT NULL THEN 'blocked'
            WHEN new.open_blockers > 0 THEN 'blocker' ELSE 'ready' END, 1
    WHERE new.removed_at IS NULL
    ON CONFLICT (list, scope, state) DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER runs_counted_new AFTER INSERT ON jobs WHEN new.kind = 'run' BEGIN
    INSERT INTO list_counts (list, scope, state, count) VALUES ('run', new.org, new.state, 1)
    ON CONFLICT (list, scope, state) DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER runs_counted_gone AFTER DELETE ON jobs WHEN old.kind = 'run' BEGIN
    UPDATE list_counts SET count = count - 1
    WHERE list = 'run' AND scope = old.org AND state = old.state;
END;

CREATE TRIGGER runs_counted AFTER UPDATE OF state ON jobs
    WHEN old.kind = 'run' AND old.state <> new.state
BEGIN
    UPDATE list_counts SET count = count - 1
    WHERE list = 'run' AND scope = old.org AND state = old.state;
    INSERT INTO list_counts (list, scope, state, count) VALUES ('run', new.org, new.state, 1)
    ON CONFLICT (list, scope, state) DO UPDATE SET count = count + 1;
END;

-- For a rule `x IN (three words or more)`, SQLite fills a temporary table whenever a row is written, which takes a tenth
-- of a claim. Comparisons take nothing. The text of a rule is changed in place, because no stored row depends on it.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql,
    'phase IN (''initial'', ''working'', ''review'', ''closed_done'', ''closed_canceled'')',
    '(phase = ''initial'' OR phase = ''working'' OR phase = ''review'' OR phase = ''closed_done'' OR phase = ''closed_canceled'')')
    WHERE type = 'table' AND name = 'tasks';
UPDATE sqlite_schema SET sql = replace(sql,
    'kind IN (''graph'', ''execution'', ''pair'', ''crew'', ''job'')',
    '(kind = ''graph'' OR kind = ''execution'' OR kind = ''pair'' OR kind = ''crew'' OR kind = ''job'')')
    WHERE type = 'table' AND name = 'attempts';
UPDATE sqlite_schema SET sql = replace(sql,
    'outcome IN (''finished'', ''canceled'', ''released'', ''expired'')',
    '(outcome = ''finished'' OR outcome = ''canceled'' OR outcome = ''released'' OR outcome = ''expired'')')
    WHERE type = 'table' AND name = 'attempts';
UPDATE sqlite_schema SET sql = replace(sql,
    'state IN
        (''queued'', ''running'', ''stale'', ''done'', ''failed'', ''canceled'', ''expired'')',
    '(state = ''queued'' OR state = ''running'' OR state = ''stale'' OR state = ''done'' OR state = ''failed'' OR state = ''canceled'' OR state = ''expired'')')
    WHERE type = 'table' AND name = 'jobs';
UPDATE sqlite_schema SET sql = replace(sql,
    'state IN (''queued'', ''running'', ''stale'')',
    '(state = ''queued'' OR state = ''running'' OR state = ''stale'')')
    WHERE type = 'table' AND name = 'jobs';
PRAGMA writable_schema = RESET;
