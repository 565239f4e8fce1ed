-- What pull requests became, and whether their forge merges them by itself; those of a task.

ALTER TABLE pulls ADD COLUMN is_awaited INTEGER NOT NULL DEFAULT 0 CHECK (is_awaited IN (0, 1));
ALTER TABLE pulls ADD COLUMN merge_commit TEXT;

CREATE INDEX pulls_by_task ON pulls (task) WHERE task IS NOT NULL;
