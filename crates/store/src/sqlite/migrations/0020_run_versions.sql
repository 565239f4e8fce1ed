-- The version of a job for an agent is the number of the event that was its newest step, so no two jobs
-- of a store ever show the same one. Until now each job counted for itself; its events say how far.
UPDATE runs SET version = coalesce((
    SELECT max(e.seq) FROM events e
    WHERE e.task = runs.task AND json_extract(e.data, '$.version') = runs.version
        AND e.name IN (
            'job.submitted', 'job.started', 'job.stale', 'job.requeued', 'job.succeeded', 'job.failed',
            'job.canceled', 'job.expired', 'job.artifact', 'job.pr', 'job.asked', 'job.answered')), version);
