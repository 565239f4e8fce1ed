-- What happened to tasks is called what callers call it.

UPDATE events SET name = 'task.updated' WHERE name = 'task.edited';
UPDATE events SET name = 'task.deleted' WHERE name = 'task.removed';
