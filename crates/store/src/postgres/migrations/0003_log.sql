-- Events that speak of no task (something learned, say) belong to an org alone.
ALTER TABLE events ADD COLUMN org bigint REFERENCES orgs (id);
UPDATE events e SET org = p.org FROM projects p WHERE p.id = e.project;
ALTER TABLE events ALTER COLUMN org SET NOT NULL;
ALTER TABLE events ALTER COLUMN project DROP NOT NULL;
ALTER TABLE events ALTER COLUMN task DROP NOT NULL;

-- What a retried call answered may be anything with an id.
ALTER TABLE retries DROP CONSTRAINT retries_kind_check;
