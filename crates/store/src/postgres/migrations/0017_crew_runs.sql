-- Workers of a crew that are run here: their queue, and those under way.
CREATE INDEX jobs_open_crew ON jobs (priority, created_at, id)
    WHERE kind = 'crew' AND due_at IS NOT NULL;
