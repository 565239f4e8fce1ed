-- Calls that outlive their request. `alive_until` is how long the process that runs one may be
-- silent; after that it has failed, whatever stands here.
CREATE TABLE handles (
    id           uuid PRIMARY KEY,
    org          bigint NOT NULL REFERENCES orgs (id),
    actor        text NOT NULL,
    tool         text NOT NULL,
    scope        text NOT NULL,
    runner       text NOT NULL,
    state        text NOT NULL
        CHECK (state IN ('working', 'input_required', 'completed', 'failed', 'cancelled')),
    alive_until  bigint,
    cancel_asked boolean NOT NULL,
    questions    text NOT NULL,
    answers      text NOT NULL,
    outcome      text,
    message      text,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    CHECK ((state IN ('working', 'input_required')) = (alive_until IS NOT NULL)),
    CHECK (state <> 'completed' OR outcome IS NOT NULL)
);

CREATE INDEX handles_by_expiry ON handles (expires_at);
