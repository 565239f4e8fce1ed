-- Runs in workspaces (they have no key) of which processes may be left on a machine: few at any time.
CREATE INDEX runs_left ON runs (runs_on) WHERE key = '' AND gone_at IS NULL AND runs_on IS NOT NULL;

-- Runs in workspaces that ended. Every page counts the failed ones for its inbox.
CREATE INDEX jobs_work_over ON jobs (org, state, ended_at, id)
    WHERE ended_at IS NOT NULL AND kind IN ('work', 'crew');
