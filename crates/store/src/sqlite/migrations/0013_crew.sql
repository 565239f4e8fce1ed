-- A crew: its agents, their mail to each other and to people, and the log of what they decided.

CREATE TABLE crew_agents (
    org            INTEGER NOT NULL REFERENCES orgs (id),
    id             TEXT NOT NULL,
    type           TEXT NOT NULL CHECK (type IN ('SUPERVISOR', 'ORCHESTRATOR', 'WORKER')),
    epic           BLOB CHECK (length(epic) = 16),
    task           BLOB CHECK (length(task) = 16),
    idle_since     INTEGER,
    last_active_at INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    failed_at      INTEGER,
    PRIMARY KEY (org, id),
    CHECK (task IS NULL OR type = 'WORKER'),
    CHECK (task IS NULL OR idle_since IS NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX crew_agents_by_epic ON crew_agents (org, epic) WHERE epic IS NOT NULL;

-- A mail without a recipient is for people, one without a sender from them or from the server. Agents
-- that are gone leave their mail.
CREATE TABLE mails (
    id          BLOB PRIMARY KEY CHECK (length(id) = 16),
    org         INTEGER NOT NULL REFERENCES orgs (id),
    from_agent  TEXT,
    to_agent    TEXT,
    subject     TEXT NOT NULL,
    body        TEXT NOT NULL,
    in_reply_to BLOB CHECK (length(in_reply_to) = 16),
    created_at  INTEGER NOT NULL,
    read_at     INTEGER
) STRICT;

CREATE INDEX mails_inbox ON mails (org, to_agent, id);
CREATE INDEX mails_unread ON mails (org, to_agent, id) WHERE read_at IS NULL;

CREATE TABLE decisions (
    id        BLOB PRIMARY KEY CHECK (length(id) = 16),
    org       INTEGER NOT NULL REFERENCES orgs (id),
    agent     TEXT NOT NULL,
    decision  TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    context   TEXT,
    at        INTEGER NOT NULL
) STRICT;

CREATE INDEX decisions_by_org ON decisions (org, id);
CREATE INDEX decisions_by_agent ON decisions (org, agent, id);
