-- Since when a task is in its phase, whatever else changes meanwhile.
ALTER TABLE tasks ADD COLUMN phase_at INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET phase_at = updated_at;

-- Where a crew works on a task, and why somebody gave it up.
ALTER TABLE cards ADD COLUMN workspace TEXT;
ALTER TABLE cards ADD COLUMN branch TEXT;
ALTER TABLE cards ADD COLUMN failed_reason TEXT;
ALTER TABLE cards ADD COLUMN failed_at INTEGER;

CREATE INDEX cards_by_workspace ON cards (workspace) WHERE workspace IS NOT NULL;
