-- One row for each open job. Numbers only grow, so that new rows join the end of the tree and fill its
-- pages; an index by queue would cost as much again.
BEGIN;
CREATE TABLE job (
    seq INTEGER PRIMARY KEY,
    line INTEGER NOT NULL,
    name TEXT,
    action INTEGER,
    cost INTEGER NOT NULL,
    deadline INTEGER,
    retries INTEGER NOT NULL,
    payload BLOB NOT NULL,
    -- The checksum of all that decides which request is sent; null in rows of an earlier version.
    sum INTEGER
);
-- Maps ranges of job numbers to queues (table line), in place of that index.
CREATE TABLE run (
    first INTEGER PRIMARY KEY,
    line INTEGER NOT NULL,
    count INTEGER NOT NULL
);
-- The changing part of a job: a claim rewrites these few bytes and not the payload.
CREATE TABLE mark (
    seq INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    throttles INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    due INTEGER,
    span INTEGER
);
-- Errors of attempts.
CREATE TABLE mishap (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    words TEXT NOT NULL
);
CREATE INDEX mishap_of ON mishap (seq);
-- Names that submitters set, while the job is open (until is null) and some time after.
CREATE TABLE name (
    name TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    remember INTEGER NOT NULL,
    until INTEGER
) WITHOUT ROWID;
CREATE INDEX name_until ON name (until) WHERE until IS NOT NULL;
CREATE TABLE lane (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE tenant (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0,
    ruled INTEGER NOT NULL DEFAULT 0,
    weight INTEGER NOT NULL DEFAULT 1,
    priority INTEGER NOT NULL DEFAULT 1,
    rate INTEGER,
    per INTEGER,
    in_flight INTEGER,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    throttles INTEGER NOT NULL DEFAULT 0,
    busy INTEGER NOT NULL DEFAULT 0,
    backoff INTEGER NOT NULL DEFAULT 0,
    speed INTEGER NOT NULL DEFAULT 0,
    updated INTEGER
);
-- Queues: one for each lane, tenant and class.
CREATE TABLE line (
    id INTEGER PRIMARY KEY,
    lane INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    class INTEGER NOT NULL,
    live INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE action (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    timeout INTEGER NOT NULL,
    keep INTEGER NOT NULL,
    note TEXT,
    opened INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    closed INTEGER NOT NULL DEFAULT 0,
    told INTEGER NOT NULL DEFAULT 0,
    fate INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    live INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    throttles INTEGER NOT NULL DEFAULT 0,
    busy INTEGER NOT NULL DEFAULT 0
);
-- Finished jobs of actions.
CREATE TABLE outcome (
    place INTEGER PRIMARY KEY,
    action INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    name TEXT,
    tenant TEXT NOT NULL,
    ended INTEGER NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    throttles INTEGER NOT NULL,
    status INTEGER,
    body BLOB,
    until INTEGER,
    words TEXT
);
CREATE INDEX outcome_of ON outcome (action);
CREATE INDEX outcome_until ON outcome (until) WHERE until IS NOT NULL;
CREATE TABLE dead (
    place INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    line INTEGER NOT NULL,
    name TEXT,
    action INTEGER,
    cost INTEGER NOT NULL,
    deadline INTEGER,
    retries INTEGER NOT NULL,
    at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    recoveries INTEGER NOT NULL,
    throttles INTEGER NOT NULL,
    payload BLOB NOT NULL,
    sum INTEGER
);
-- One row: the last numbers, and the counts of all jobs.
CREATE TABLE total (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL,
    place INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    mint TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    throttles INTEGER NOT NULL DEFAULT 0,
    busy INTEGER NOT NULL DEFAULT 0
);
PRAGMA application_id = 1333097574;
PRAGMA user_version = 3;
COMMIT;
