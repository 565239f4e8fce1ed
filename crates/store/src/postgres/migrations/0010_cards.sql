-- What the board knows of a task besides the task itself. A task without a row has what a new one has.
CREATE TABLE cards (
    task           uuid PRIMARY KEY,
    mode           text NOT NULL CHECK (mode IN ('auto', 'pair')),
    criteria       text NOT NULL,
    terminal       text CHECK (terminal IN ('tmux', 'vscode', 'cursor')),
    agent          text,
    base_branch    text,
    created_by     text,
    blocked_reason text,
    blocked_at     bigint,
    review         text,
    CHECK ((blocked_reason IS NULL) = (blocked_at IS NULL))
);

-- Notes that are only ever added to, apart because they grow.
CREATE TABLE scratchpads (
    task uuid PRIMARY KEY,
    text text NOT NULL
);
