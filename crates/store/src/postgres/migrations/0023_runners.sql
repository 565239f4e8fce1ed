-- Processes that start agents, and when each last said so.
CREATE TABLE runners (
    runner  text PRIMARY KEY,
    machine text NOT NULL,
    seen_at bigint NOT NULL
);

-- Jobs that are over, the newest first.
CREATE INDEX jobs_by_end ON jobs (org, ended_at) WHERE ended_at IS NOT NULL;

-- What somebody told the agent of a task, as JSON, until an agent has it.
ALTER TABLE cards ADD COLUMN told text;
