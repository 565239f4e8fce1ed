-- Who may ask over HTTP. A row is never deleted: it tells who was let in, by whom and until when.

CREATE TABLE tokens (
    id         uuid PRIMARY KEY,
    hash       bytea NOT NULL CHECK (length(hash) = 32),
    org        bigint NOT NULL REFERENCES orgs (id),
    actor      text NOT NULL,
    rights     text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    revoked_by text,
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

-- A folder may hold a project in each of several orgs.
ALTER TABLE repos DROP CONSTRAINT repos_machine_path_key;
ALTER TABLE repos ADD UNIQUE (project, machine, path);
DROP INDEX repos_by_project;
CREATE INDEX repos_by_place ON repos (machine, path);
