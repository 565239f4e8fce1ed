-- The name of an imported task in the backlog that it came from. A second import finds the task by this name.
ALTER TABLE cards ADD COLUMN reference text;
