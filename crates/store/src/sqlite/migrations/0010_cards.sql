-- What the board knows of a task besides the task itself. A task without a row has what a new one has.
CREATE TABLE cards (
    task           BLOB PRIMARY KEY CHECK (length(task) = 16),
    mode           TEXT NOT NULL CHECK (mode IN ('auto', 'pair')),
    criteria       TEXT NOT NULL,
    terminal       TEXT CHECK (terminal IN ('tmux', 'vscode', 'cursor')),
    agent          TEXT,
    base_branch    TEXT,
    created_by     TEXT,
    blocked_reason TEXT,
    blocked_at     INTEGER,
    review         TEXT,
    CHECK ((blocked_reason IS NULL) = (blocked_at IS NULL))
) STRICT, WITHOUT ROWID;

-- Notes that are only ever added to, apart because they grow.
CREATE TABLE scratchpads (
    task BLOB PRIMARY KEY CHECK (length(task) = 16),
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;
