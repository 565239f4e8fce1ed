-- Agents that work on a task in its workspace: when one was seen at work, when nothing of it was left.

ALTER TABLE runs ADD COLUMN up_at INTEGER;
ALTER TABLE runs ADD COLUMN gone_at INTEGER;

-- Their queue, and those under way.
CREATE INDEX jobs_open_work ON jobs (priority, created_at, id)
    WHERE kind = 'work' AND due_at IS NOT NULL;
