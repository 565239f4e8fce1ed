-- Merges that a forge was told to make, and that nobody wants any more.

ALTER TABLE pulls ADD COLUMN is_revoked BOOLEAN NOT NULL DEFAULT FALSE;
