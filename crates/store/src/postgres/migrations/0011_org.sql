-- What an org has besides tasks: settings it changed, several projects with several repositories,
-- who works in which of them, and plans that wait for a yes.

-- Values as JSON. A key that nobody changed has no row.
CREATE TABLE settings (
    org   bigint NOT NULL REFERENCES orgs (id),
    key   text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (org, key)
);

ALTER TABLE projects ADD COLUMN description text NOT NULL DEFAULT '';
ALTER TABLE projects ADD COLUMN opened_at bigint;

-- The lowest position is a project's primary repository; of two on it the newer one, whose folder
-- was moved.
ALTER TABLE repos ADD COLUMN position integer NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN default_branch text;

CREATE TABLE open_projects (
    org     bigint NOT NULL REFERENCES orgs (id),
    actor   text NOT NULL,
    project bigint NOT NULL REFERENCES projects (id),
    at      bigint NOT NULL,
    PRIMARY KEY (org, actor)
);

CREATE TABLE plans (
    id         uuid PRIMARY KEY,
    org        bigint NOT NULL REFERENCES orgs (id),
    actor      text NOT NULL,
    at         bigint NOT NULL,
    tasks      text NOT NULL,
    todos      text NOT NULL,
    state      text NOT NULL CHECK (state IN ('draft', 'approved', 'rejected')),
    decided_at bigint,
    decided_by text,
    made       text,
    CHECK ((state = 'draft') = (decided_at IS NULL)),
    CHECK ((decided_at IS NULL) = (decided_by IS NULL)),
    CHECK ((state = 'approved') = (made IS NOT NULL))
);

CREATE INDEX plans_by_org ON plans (org, id);
