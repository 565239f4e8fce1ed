-- What a review page keeps. Drafts, viewed files, looks and snoozes are seen by their author alone, and
-- have no events; comments were sent with a rejection.

CREATE TABLE review_drafts (
    id         uuid PRIMARY KEY,
    org        bigint NOT NULL REFERENCES orgs (id),
    task       uuid NOT NULL,
    author     text NOT NULL,
    path       text NOT NULL,
    side       text NOT NULL CHECK (side IN ('old', 'new')),
    first_line bigint NOT NULL CHECK (first_line >= 1),
    last_line  bigint NOT NULL CHECK (last_line >= first_line),
    blob       text NOT NULL,
    quote      text NOT NULL,
    text       text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);

CREATE INDEX review_drafts_by_author ON review_drafts (task, author);

CREATE TABLE review_comments (
    id         uuid PRIMARY KEY,
    org        bigint NOT NULL REFERENCES orgs (id),
    task       uuid NOT NULL,
    author     text NOT NULL,
    path       text NOT NULL,
    side       text NOT NULL CHECK (side IN ('old', 'new')),
    first_line bigint NOT NULL CHECK (first_line >= 1),
    last_line  bigint NOT NULL CHECK (last_line >= first_line),
    blob       text NOT NULL,
    quote      text NOT NULL,
    text       text NOT NULL,
    round      bigint NOT NULL CHECK (round >= 1),
    head       text,
    sent_at    bigint NOT NULL
);

CREATE INDEX review_comments_by_round ON review_comments (task, round);

-- A tick belongs to the blob: a file with another blob is not viewed.
CREATE TABLE review_viewed (
    task   uuid NOT NULL,
    author text NOT NULL,
    path   text NOT NULL,
    org    bigint NOT NULL REFERENCES orgs (id),
    blob   text NOT NULL,
    PRIMARY KEY (task, author, path)
);

-- The commit that a reviewer saw last.
CREATE TABLE review_looks (
    task   uuid NOT NULL,
    author text NOT NULL,
    org    bigint NOT NULL REFERENCES orgs (id),
    head   text NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (task, author)
);

-- Rows of an actor's inbox that are put off: until a time, or while they have this fingerprint.
CREATE TABLE snoozes (
    org           bigint NOT NULL REFERENCES orgs (id),
    actor         text NOT NULL,
    key           text NOT NULL,
    until         bigint,
    until_changes text,
    PRIMARY KEY (org, actor, key),
    CHECK ((until IS NULL) <> (until_changes IS NULL))
);
