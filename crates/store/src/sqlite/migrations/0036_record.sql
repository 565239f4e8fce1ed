-- Tasks that were done at the first try and calls that came too late are counted for days that are over as well: all
-- days are counted again from the log, in the background.

DELETE FROM day_counts;
UPDATE day_counts_position SET seq = 0;

-- Refused calls are counted beside the log, and each setting says who changed it. Both kinds of events are rare, so the
-- indexes are small.

CREATE INDEX events_refused ON events (org, seq) WHERE name = 'call.refused';
CREATE INDEX events_settings ON events (org, seq) WHERE name = 'settings.updated';
