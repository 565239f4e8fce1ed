-- The reason why a task is stuck belongs to the task: every list of what can start leaves it out.
ALTER TABLE tasks ADD COLUMN blocked text;
UPDATE tasks t SET blocked = json_build_object('by', coalesce(t.assignee, 'system:callboard'),
        'at', c.blocked_at, 'reason', c.blocked_reason)::text
    FROM cards c
    WHERE c.task = t.id AND c.blocked_at IS NOT NULL
        AND t.phase NOT IN ('closed_done', 'closed_canceled');

DROP INDEX tasks_free;
CREATE INDEX tasks_free ON tasks (project, priority, id)
    WHERE phase = 'initial' AND open_deps = 0 AND assignee IS NULL AND NOT is_plan
        AND removed_at IS NULL AND blocked IS NULL;
DROP INDEX tasks_startable;
CREATE INDEX tasks_startable ON tasks (project, id)
    WHERE phase = 'initial' AND open_deps = 0 AND removed_at IS NULL AND blocked IS NULL;
DROP INDEX tasks_left;
CREATE INDEX tasks_left ON tasks (project, priority, id)
    WHERE phase = 'working' AND open_deps = 0 AND assignee IS NULL AND NOT is_plan
        AND removed_at IS NULL AND blocked IS NULL;
-- Who waits for an answer.
CREATE INDEX tasks_blocked ON tasks (project, id)
    WHERE blocked IS NOT NULL AND removed_at IS NULL;

ALTER TABLE cards DROP COLUMN blocked_reason;
ALTER TABLE cards DROP COLUMN blocked_at;
