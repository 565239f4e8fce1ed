-- A crew: its agents, their mail to each other and to people, and the log of what they decided.

CREATE TABLE crew_agents (
    org            bigint NOT NULL REFERENCES orgs (id),
    id             text NOT NULL,
    type           text NOT NULL CHECK (type IN ('SUPERVISOR', 'ORCHESTRATOR', 'WORKER')),
    epic           uuid,
    task           uuid,
    idle_since     bigint,
    last_active_at bigint NOT NULL,
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL,
    failed_at      bigint,
    PRIMARY KEY (org, id),
    CHECK (task IS NULL OR type = 'WORKER'),
    CHECK (task IS NULL OR idle_since IS NULL)
);

CREATE INDEX crew_agents_by_epic ON crew_agents (org, epic) WHERE epic IS NOT NULL;

-- A mail without a recipient is for people, one without a sender from them or from the server. Agents
-- that are gone leave their mail.
CREATE TABLE mails (
    id          uuid PRIMARY KEY,
    org         bigint NOT NULL REFERENCES orgs (id),
    from_agent  text,
    to_agent    text,
    subject     text NOT NULL,
    body        text NOT NULL,
    in_reply_to uuid,
    created_at  bigint NOT NULL,
    read_at     bigint
);

CREATE INDEX mails_inbox ON mails (org, to_agent, id);
CREATE INDEX mails_unread ON mails (org, to_agent, id) WHERE read_at IS NULL;

CREATE TABLE decisions (
    id        uuid PRIMARY KEY,
    org       bigint NOT NULL REFERENCES orgs (id),
    agent     text NOT NULL,
    decision  text NOT NULL,
    reasoning text NOT NULL,
    context   text,
    at        bigint NOT NULL
);

CREATE INDEX decisions_by_org ON decisions (org, id);
CREATE INDEX decisions_by_agent ON decisions (org, agent, id);
