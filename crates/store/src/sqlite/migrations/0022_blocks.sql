-- The reason why a task is stuck belongs to the task: every list of what can start leaves it out.
ALTER TABLE tasks ADD COLUMN blocked TEXT;
UPDATE tasks SET blocked = (
    SELECT json_object('by', coalesce(tasks.assignee, 'system:callboard'), 'at', c.blocked_at,
        'reason', c.blocked_reason)
    FROM cards c WHERE c.task = tasks.id)
    WHERE phase NOT IN ('closed_done', 'closed_canceled')
        AND id IN (SELECT task FROM cards WHERE blocked_at IS NOT NULL);

DROP INDEX tasks_free;
CREATE INDEX tasks_free ON tasks (project, priority, id)
    WHERE phase = 'initial' AND open_deps = 0 AND assignee IS NULL AND is_plan = 0
        AND removed_at IS NULL AND blocked IS NULL;
DROP INDEX tasks_startable;
CREATE INDEX tasks_startable ON tasks (project, id)
    WHERE phase = 'initial' AND open_deps = 0 AND removed_at IS NULL AND blocked IS NULL;
DROP INDEX tasks_left;
CREATE INDEX tasks_left ON tasks (project, priority, id)
    WHERE phase = 'working' AND open_deps = 0 AND assignee IS NULL AND is_plan = 0
        AND removed_at IS NULL AND blocked IS NULL;
-- Who waits for an answer.
CREATE INDEX tasks_blocked ON tasks (project, id)
    WHERE blocked IS NOT NULL AND removed_at IS NULL;

CREATE TABLE cards_22 (
    task           BLOB PRIMARY KEY CHECK (length(task) = 16),
    mode           TEXT NOT NULL CHECK (mode IN ('auto', 'pair')),
    criteria       TEXT NOT NULL,
    terminal       TEXT CHECK (terminal IN ('tmux', 'vscode', 'cursor')),
    agent          TEXT,
    base_branch    TEXT,
    created_by     TEXT,
    review         TEXT,
    workspace      TEXT,
    branch         TEXT,
    failed_reason  TEXT,
    failed_at      INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO cards_22 (task, mode, criteria, terminal, agent, base_branch, created_by, review,
        workspace, branch, failed_reason, failed_at)
    SELECT task, mode, criteria, terminal, agent, base_branch, created_by, review, workspace,
        branch, failed_reason, failed_at
    FROM cards;
DROP TABLE cards;
ALTER TABLE cards_22 RENAME TO cards;
CREATE INDEX cards_by_workspace ON cards (workspace) WHERE workspace IS NOT NULL;
