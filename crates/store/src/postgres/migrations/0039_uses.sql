-- Which tasks an entry of knowledge was handed out for, each with the newest attempt that got it.
CREATE TABLE knowledge_uses (
    entry   uuid NOT NULL,
    task    uuid NOT NULL,
    attempt uuid NOT NULL,
    actor   text NOT NULL,
    at      bigint NOT NULL,
    PRIMARY KEY (entry, task)
);
CREATE INDEX knowledge_uses_newest ON knowledge_uses (entry, at, task);
