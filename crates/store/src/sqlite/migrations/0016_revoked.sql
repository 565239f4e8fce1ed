-- Merges that a forge was told to make, and that nobody wants any more.

ALTER TABLE pulls ADD COLUMN is_revoked INTEGER NOT NULL DEFAULT 0 CHECK (is_revoked IN (0, 1));
