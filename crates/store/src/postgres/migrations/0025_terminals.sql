-- The tmux session in which a run's output is shown, as JSON.
ALTER TABLE runs ADD COLUMN terminal text;
-- Until when what the run prints is written soon: somebody follows it and has it from here.
ALTER TABLE runs ADD COLUMN followed_until bigint;
