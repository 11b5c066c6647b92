-- One row for each job that is not over. Numbers rise for ever, so new rows are always added at the
-- end of the tree, where pages are filled to the brim; an index by line would cost as much again.
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
    -- Of everything about it that decides what is sent; nothing if it came with an earlier version.
    sum INTEGER
);
-- Which numbers belong to which line: instead of that index.
CREATE TABLE run (
    first INTEGER PRIMARY KEY,
    line INTEGER NOT NULL,
    count INTEGER NOT NULL
);
-- What changes in a job's life, apart from it: a claim rewrites these few bytes and not the payload.
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
CREATE TABLE mishap (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    words TEXT NOT NULL
);
CREATE INDEX mishap_of ON mishap (seq);
-- Names that submitters gave, while the job is not over (until is null) and some time after.
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
-- Jobs of actions that are over.
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
-- One row: where the numbers stand, and what became of all jobs that ever were.
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
