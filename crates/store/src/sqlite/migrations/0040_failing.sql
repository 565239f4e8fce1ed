-- Tasks at work or in review with a failing check. Every page counts them for its inbox.
CREATE INDEX tasks_failing ON tasks (org, id)
    WHERE removed_at IS NULL AND is_plan = 0 AND phase IN ('working', 'review')
        AND instr(checks, '"pass":false') > 0;
