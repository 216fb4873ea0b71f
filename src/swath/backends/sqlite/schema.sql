-- The tables of a frontier in one SQLite file: the result of all migrations (a test compares them).
--
-- The state of an item is the table it is in. Times are microseconds on the store's clock, which is the time since the
-- boot plus `boot_offset`. Hashes are 20 bytes, payloads and results JSON.
-- Unlike PostgreSQL, SQLite has one writer at a time, so it needs no inbox and no row locks. A deleted row leaves its page
-- at once, even while a reader uses an old snapshot, so rows may be updated in place.

CREATE TABLE swath_frontier (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    format INTEGER NOT NULL,
    partitions INTEGER NOT NULL,
    min_interval INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    signal INTEGER NOT NULL DEFAULT 0,
    boot TEXT NOT NULL DEFAULT '',
    boot_offset INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE swath_migration (
    name TEXT PRIMARY KEY,
    applied_at INTEGER NOT NULL
);

CREATE TABLE swath_partition_state (
    partition INTEGER PRIMARY KEY,
    time INTEGER NOT NULL DEFAULT 0,
    next_position INTEGER NOT NULL DEFAULT 1,
    next_place INTEGER NOT NULL DEFAULT 1,
    checkpoint INTEGER NOT NULL DEFAULT 0,
    checkpoint_dead INTEGER NOT NULL DEFAULT 0,
    claims_made INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 0,
    delayed INTEGER NOT NULL DEFAULT 0,
    claimed INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    lanes INTEGER NOT NULL DEFAULT 0,
    visits INTEGER NOT NULL DEFAULT 0
);

-- head: the highest priority that waits, NULL when nothing does. low: no waiting item has a lower priority. level: the
-- head while the lane is in the queue, NULL while it is empty, busy or paused. counters: a JSON object, NULL when empty.
-- blocked_wall: a time of the wall clock, and ready_at is then after every time of the store's clock.
CREATE TABLE swath_lane (
    partition INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    min_interval INTEGER,
    concurrency INTEGER,
    paused INTEGER NOT NULL DEFAULT 0,
    blocked_until INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    in_flight INTEGER NOT NULL DEFAULT 0,
    last_at INTEGER NOT NULL DEFAULT 0,
    head INTEGER,
    low INTEGER,
    level INTEGER,
    ready_at INTEGER NOT NULL DEFAULT 0,
    visits INTEGER NOT NULL DEFAULT 0,
    counters TEXT,
    blocked_wall INTEGER,
    PRIMARY KEY (partition, number)
) WITHOUT ROWID;

CREATE UNIQUE INDEX swath_lane_name ON swath_lane (partition, name);

CREATE INDEX swath_lane_ready ON swath_lane (partition, level, ready_at, number) WHERE level IS NOT NULL;

CREATE INDEX swath_lane_wall ON swath_lane (partition, blocked_wall)
WHERE blocked_wall IS NOT NULL AND level IS NOT NULL;

CREATE TABLE swath_item (
    partition INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    place INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    span INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    losses INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    error TEXT,
    PRIMARY KEY (partition, lane, rank, place)
) WITHOUT ROWID;

CREATE UNIQUE INDEX swath_item_position ON swath_item (partition, position);

-- wall: whether due_at is a time of the wall clock instead of the store's.
CREATE TABLE swath_delayed (
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    hash BLOB NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    span INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    losses INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    error TEXT,
    due_at INTEGER NOT NULL,
    revisit INTEGER NOT NULL,
    settled_at INTEGER,
    result TEXT,
    wall INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (partition, position)
) WITHOUT ROWID;

CREATE INDEX swath_delayed_due ON swath_delayed (partition, wall, due_at, position);

-- The delayed items that hold back the checkpoint. A revisit does not: it was settled at its position and gets a new one.
CREATE INDEX swath_delayed_unsettled ON swath_delayed (partition, position) WHERE NOT revisit;

-- Ordered by claim, so that settling a claim or taking it back touches neighbouring rows.
CREATE TABLE swath_claimed (
    partition INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    hash BLOB NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    span INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    losses INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    error TEXT,
    PRIMARY KEY (partition, fence, position)
) WITHOUT ROWID;

CREATE UNIQUE INDEX swath_claimed_position ON swath_claimed (partition, position);

CREATE TABLE swath_claim (
    fence INTEGER PRIMARY KEY,
    token INTEGER NOT NULL,
    worker TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0,
    number INTEGER NOT NULL DEFAULT 0,
    claimed_at INTEGER NOT NULL DEFAULT 0
);

-- The partitions in which a claim holds items. Finds the next lease to end with one lookup, however many are in flight.
CREATE TABLE swath_hold (
    fence INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (fence, partition)
) WITHOUT ROWID;

CREATE INDEX swath_hold_expiry ON swath_hold (partition, expires_at);

CREATE TABLE swath_seen (
    partition INTEGER NOT NULL,
    hash BLOB NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (partition, hash)
) WITHOUT ROWID;

-- Ordered by settlement, so that rows are only appended. Positions are settled in any order.
CREATE TABLE swath_done (
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    hash BLOB NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    span INTEGER NOT NULL,
    settled_at INTEGER NOT NULL,
    result TEXT
);

CREATE UNIQUE INDEX swath_done_position ON swath_done (partition, position);

CREATE TABLE swath_dead (
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    hash BLOB NOT NULL,
    key TEXT NOT NULL,
    payload TEXT,
    span INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    settled_at INTEGER NOT NULL,
    reason TEXT,
    error TEXT,
    PRIMARY KEY (partition, position)
) WITHOUT ROWID;

-- The frontier's counters. One row for each partition, as on PostgreSQL, where settlements of two partitions run at once.
-- The check turns a sum above 2^63, which SQLite would make a float, into an error.
CREATE TABLE swath_counter (
    partition INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL CHECK (typeof(value) = 'integer'),
    PRIMARY KEY (partition, name)
) WITHOUT ROWID;

CREATE TABLE swath_output (
    name TEXT PRIMARY KEY,
    length INTEGER NOT NULL
);

-- A partition had reached a position at a time: one row a minute while it grows, later one an hour or a day.
CREATE TABLE swath_milestone (
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    time INTEGER NOT NULL,
    PRIMARY KEY (partition, position)
) WITHOUT ROWID;

-- The last changes that people made. `detail` is JSON.
CREATE TABLE swath_audit (
    number INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    lane TEXT,
    items INTEGER,
    detail TEXT
);

-- Facts that a job has learned, for all workers on the frontier.
CREATE TABLE swath_fact (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
