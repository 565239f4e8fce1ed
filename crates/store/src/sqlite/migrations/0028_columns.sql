-- The columns of the board, each in its own order. A task is in at most one of the first three indexes.
CREATE INDEX tasks_initial ON tasks (project,
        (CASE WHEN open_deps > 0 OR blocked IS NOT NULL OR open_blockers > 0 THEN 1 ELSE 0 END),
        priority, id)
    WHERE phase = 'initial' AND is_plan = 0 AND removed_at IS NULL;
CREATE INDEX tasks_under_way ON tasks (project, phase, phase_at, id)
    WHERE phase <> 'initial' AND phase <> 'closed_done' AND phase <> 'closed_canceled' AND is_plan = 0 AND removed_at IS NULL;
CREATE INDEX tasks_closed ON tasks (project, phase_at, id)
    WHERE phase IN ('closed_done', 'closed_canceled') AND is_plan = 0 AND removed_at IS NULL;
-- Epics by their title.
CREATE INDEX tasks_plans ON tasks (org, id) WHERE is_plan AND removed_at IS NULL;
-- Comments and plans that wait for a person.
CREATE INDEX comments_open ON comments (created_at, id)
    WHERE resolved_at IS NULL AND kind IN ('blocker', 'nack');
CREATE INDEX plans_open ON plans (org, id) WHERE state = 'draft';
