-- Whom jobs tell of their end, what is on its way to them, what it is signed with; pull requests.

ALTER TABLE runs ADD COLUMN webhook text;

-- A message beside the job that sends it; its state is the job's.
CREATE TABLE deliveries (
    job      uuid PRIMARY KEY,
    org      bigint NOT NULL REFERENCES orgs (id),
    about    uuid NOT NULL,
    url      text NOT NULL,
    kind     text NOT NULL,
    data     text NOT NULL,
    ended_at bigint NOT NULL,
    tried_at bigint,
    outcome  text,
    CHECK ((tried_at IS NULL) = (outcome IS NULL))
);

CREATE INDEX deliveries_by_org ON deliveries (org, job);
CREATE INDEX deliveries_by_run ON deliveries (about);

CREATE TABLE secrets (
    org   bigint NOT NULL REFERENCES orgs (id),
    name  text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (org, name)
);

CREATE TABLE pulls (
    org        bigint NOT NULL REFERENCES orgs (id),
    forge      text NOT NULL,
    repo       text NOT NULL,
    number     bigint NOT NULL CHECK (number >= 1),
    url        text NOT NULL,
    status     text NOT NULL CHECK (status IN ('open', 'merged', 'closed')),
    branch     text NOT NULL,
    base       text NOT NULL,
    head       text NOT NULL,
    title      text NOT NULL,
    task       uuid,
    job        uuid,
    machine    text,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    PRIMARY KEY (org, forge, repo, number)
);

-- Callboard's own are numbered per org, whatever the repository.
CREATE UNIQUE INDEX pulls_of_org ON pulls (org, number) WHERE forge = 'local';
CREATE INDEX pulls_open ON pulls (created_at) WHERE status = 'open';
CREATE INDEX pulls_by_job ON pulls (job) WHERE job IS NOT NULL;
