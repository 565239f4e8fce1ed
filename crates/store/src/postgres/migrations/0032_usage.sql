-- The tokens and the cost that the runs of a job reported, as JSON.
ALTER TABLE runs ADD COLUMN usage text;
