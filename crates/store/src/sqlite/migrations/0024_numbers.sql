-- A number for each task, counted per org and prefix, so that people can say SHOP-12. Tasks that were
-- made before get theirs in the order they were made; removed ones count, so that no number comes back.
ALTER TABLE tasks ADD COLUMN number INTEGER NOT NULL DEFAULT 0;

UPDATE tasks SET number = counted.number
FROM (SELECT id, row_number() OVER (PARTITION BY org, prefix ORDER BY created_at, id) AS number
      FROM tasks) AS counted
WHERE tasks.id = counted.id;

CREATE UNIQUE INDEX tasks_by_number ON tasks (org, prefix, number);
