-- The tmux session in which a run's output is shown, as JSON.
ALTER TABLE runs ADD COLUMN terminal TEXT;
-- Until when what the run prints is written soon: somebody follows it and has it from here.
ALTER TABLE runs ADD COLUMN followed_until INTEGER;
