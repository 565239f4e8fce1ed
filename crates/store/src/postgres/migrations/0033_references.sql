-- The name of an imported task moves to the task's own row, where an index keeps it unique among the tasks of a project
-- that are not removed. Of tasks that two imports made at one time, the oldest keeps the name.
ALTER TABLE tasks ADD COLUMN reference text;

UPDATE tasks SET reference = named.reference
FROM (SELECT t.id, c.reference, row_number() OVER (
          PARTITION BY t.project, c.reference ORDER BY t.created_at, t.id) AS place
      FROM tasks t JOIN cards c ON c.task = t.id
      WHERE c.reference IS NOT NULL AND t.removed_at IS NULL) AS named
WHERE tasks.id = named.id AND named.place = 1;

CREATE UNIQUE INDEX tasks_by_reference ON tasks (project, reference)
    WHERE reference IS NOT NULL AND removed_at IS NULL;

ALTER TABLE cards DROP COLUMN reference;
