-- A repeated call answers what the first one answered. `step` is empty for the whole call and names
-- the command otherwise; `digest` belongs to the call's arguments. Rows of older versions have
-- neither digest nor answer: their keys are known, and a repeated call is told so.
ALTER TABLE retries DROP COLUMN kind, DROP COLUMN id;
ALTER TABLE retries ADD COLUMN step text NOT NULL DEFAULT '', ADD COLUMN digest text, ADD COLUMN kept text;
ALTER TABLE retries ALTER COLUMN step DROP DEFAULT;
ALTER TABLE retries DROP CONSTRAINT retries_pkey, ADD PRIMARY KEY (org, actor, tool, key, step);
DELETE FROM retries WHERE length(key) > 500;
