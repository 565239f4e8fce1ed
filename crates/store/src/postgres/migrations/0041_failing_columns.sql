-- Tasks with a failing check in every column of the board: the board counts them, and its filter finds them.
CREATE INDEX tasks_failing_by_phase ON tasks (project, phase, id)
    WHERE removed_at IS NULL AND NOT is_plan AND strpos(checks, '"pass":false') > 0;
