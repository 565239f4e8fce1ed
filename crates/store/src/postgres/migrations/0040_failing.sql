-- Tasks at work or in review with a failing check. Every page counts them for its inbox.
CREATE INDEX tasks_failing ON tasks (org, id)
    WHERE removed_at IS NULL AND NOT is_plan AND phase IN ('working', 'review')
        AND strpos(checks, '"pass":false') > 0;
