-- The tables of one frontier, in its own schema. Times are microseconds since the epoch.
--
-- INV-8: a transaction that keeps an old snapshot must not make others slower, although vacuum then cannot remove
-- dead rows. So a row of a table that grows is not updated: a change deletes it from one table and inserts it into
-- another. State that changes often is inserted under a new version, the old version is deleted, and readers take the
-- newest first.
--
-- If a table has two indexes, one of them is on the expression `partition + 0`. A condition on `partition` cannot use
-- that index, and a condition on `partition + 0` cannot use the other. Otherwise the planner could choose the wrong
-- one: after ANALYZE of an empty table it takes any index as good, and would read a whole partition for each item.

CREATE TABLE {schema}.frontier (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format integer NOT NULL,
    partitions integer NOT NULL,
    min_interval bigint NOT NULL,
    concurrency integer NOT NULL,
    max_attempts integer NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    signal_version bigint NOT NULL DEFAULT 0
);

-- `hash` is that of the migration's file: a store made from another version of the file has other tables.
CREATE TABLE {schema}.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    hash text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- The sets of stored functions in this schema. The names of the functions of a set end in its hash. Each process that
-- uses a set updates `used_at` about once an hour.
CREATE TABLE {schema}.function_set (
    hash text PRIMARY KEY,
    installed_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz NOT NULL DEFAULT now()
);

-- The lock of a partition: a transaction that changes a partition holds its row here.
CREATE TABLE {schema}.partition (
    partition smallint PRIMARY KEY
);

CREATE TABLE {schema}.partition_state (
    version bigint NOT NULL,
    time bigint NOT NULL DEFAULT 0,
    next_position bigint NOT NULL DEFAULT 1,
    next_place bigint NOT NULL DEFAULT 1,
    checkpoint bigint NOT NULL DEFAULT 0,
    checkpoint_dead bigint NOT NULL DEFAULT 0,
    ready bigint NOT NULL DEFAULT 0,
    delayed bigint NOT NULL DEFAULT 0,
    claimed bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    dead bigint NOT NULL DEFAULT 0,
    visits bigint NOT NULL DEFAULT 0,
    claims_made bigint NOT NULL DEFAULT 0,
    last_fence bigint NOT NULL DEFAULT 0,
    next_ready_at bigint,
    next_expiry bigint,
    delayed_floor bigint NOT NULL DEFAULT 0,
    delayed_from bigint NOT NULL DEFAULT 0,
    notified_at bigint NOT NULL DEFAULT 0,
    lanes integer NOT NULL DEFAULT 0,
    partition smallint NOT NULL,
    inbox_from xid8 NOT NULL DEFAULT '0',
    ready_floor bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0}',
    ready_lanes integer[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0}',
    ready_versions bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0}',
    claims bigint[] NOT NULL DEFAULT '{}',
    inbox_open xid8[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (partition, version)
);

CREATE TABLE {schema}.lane (
    number integer NOT NULL,
    partition smallint NOT NULL,
    name text NOT NULL,
    PRIMARY KEY (partition, number)
);

CREATE UNIQUE INDEX lane_name ON {schema}.lane ((partition + 0), name);

-- The state of a lane. `level` is the priority of its first item, null if the lane is not in the queue. `counts` are
-- the waiting items by priority. `taken` counts the items that were ever taken; after the first few, `heads` has the
-- first place of a live item, by rank, so that scans skip the dead ones before it.
CREATE TABLE {schema}.lane_state (
    version bigint NOT NULL,
    ready_at bigint NOT NULL,
    last_at bigint NOT NULL,
    blocked_until bigint NOT NULL,
    min_interval bigint,
    lane integer NOT NULL,
    in_flight integer NOT NULL,
    taken integer NOT NULL,
    visits integer NOT NULL DEFAULT 0,
    concurrency integer,
    partition smallint NOT NULL,
    level smallint,
    paused boolean NOT NULL,
    counts integer[] NOT NULL,
    heads bigint[],
    counters jsonb,
    PRIMARY KEY (partition, lane, version)
);

-- Includes the version, so that a floor can skip the dead rows of a lane that kept its turn.
CREATE INDEX lane_ready ON {schema}.lane_state ((partition + 0), level, ready_at, lane, version) WHERE level IS NOT NULL;

CREATE TABLE {schema}.item (
    place bigint NOT NULL,
    position bigint NOT NULL,
    span bigint NOT NULL,
    lane integer NOT NULL,
    partition smallint NOT NULL,
    rank smallint NOT NULL,
    attempts smallint NOT NULL,
    losses smallint NOT NULL DEFAULT 0,
    origin bigint,
    key text NOT NULL,
    payload text,
    reason text,
    error text,
    PRIMARY KEY (partition, lane, rank, place)
);

CREATE UNIQUE INDEX item_position ON {schema}.item ((partition + 0), position);

CREATE TABLE {schema}.delayed (
    due_at bigint NOT NULL,
    position bigint NOT NULL,
    span bigint NOT NULL,
    lane integer NOT NULL,
    partition smallint NOT NULL,
    priority smallint NOT NULL,
    attempts smallint NOT NULL,
    losses smallint NOT NULL DEFAULT 0,
    revisit boolean NOT NULL,
    origin bigint,
    settled_at bigint,
    key text NOT NULL,
    payload text,
    result text,
    reason text,
    error text,
    PRIMARY KEY (partition, due_at, position)
);

-- A revisit counts as settled: the checkpoint does not wait for it. Both indexes contain the position.
CREATE UNIQUE INDEX delayed_position ON {schema}.delayed ((partition + 0), (position + 0)) WHERE NOT revisit;
CREATE UNIQUE INDEX delayed_revisit ON {schema}.delayed ((partition + 0), (position + 0)) WHERE revisit;

CREATE TABLE {schema}.claimed (
    position bigint NOT NULL,
    fence bigint NOT NULL,
    span bigint NOT NULL,
    lane integer NOT NULL,
    partition smallint NOT NULL,
    priority smallint NOT NULL,
    attempts smallint NOT NULL,
    losses smallint NOT NULL DEFAULT 0,
    origin bigint,
    key text NOT NULL,
    payload text,
    reason text,
    error text,
    PRIMARY KEY (partition, fence, position)
);

CREATE SEQUENCE {schema}.fence;

-- One row per claim, so that one update renews all of its items. A row stays for a while after the claim ended, to
-- look up a lost reply.
CREATE TABLE {schema}.claim (
    fence bigint PRIMARY KEY,
    token bigint NOT NULL,
    expires_at bigint NOT NULL,
    number integer NOT NULL DEFAULT 0,
    lost boolean NOT NULL DEFAULT false,
    partitions smallint[] NOT NULL,
    worker text NOT NULL,
    CONSTRAINT claim_token UNIQUE (token)
);

-- Items that were discovered for another partition, appended without its lock. So rows become visible in the order of
-- commits, which the transaction number tells; the row's number does not.
CREATE TABLE {schema}.inbox (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number bigint GENERATED ALWAYS AS IDENTITY,
    partition smallint NOT NULL,
    size integer NOT NULL,
    hashes bytea[] NOT NULL,
    lanes text[] NOT NULL,
    priorities smallint[] NOT NULL,
    keys text[] NOT NULL,
    payloads text[] NOT NULL,
    not_befores bigint[] NOT NULL,
    spans bigint[] NOT NULL,
    PRIMARY KEY (partition, xid, number)
);

CREATE TABLE {schema}.seen (
    position bigint NOT NULL,
    partition smallint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (partition, hash)
);

-- The present position of an item that got a new one; `seen` has the first.
CREATE TABLE {schema}.moved (
    origin bigint NOT NULL,
    position bigint NOT NULL,
    partition smallint NOT NULL,
    PRIMARY KEY (partition, origin)
);

CREATE TABLE {schema}.done (
    position bigint NOT NULL,
    settled_at bigint NOT NULL,
    span bigint NOT NULL,
    lane integer NOT NULL,
    partition smallint NOT NULL,
    priority smallint NOT NULL,
    origin bigint,
    key text NOT NULL,
    payload text,
    result text,
    PRIMARY KEY (partition, position)
);

CREATE TABLE {schema}.dead (
    position bigint NOT NULL,
    settled_at bigint NOT NULL,
    span bigint NOT NULL,
    lane integer NOT NULL,
    partition smallint NOT NULL,
    priority smallint NOT NULL,
    attempts smallint NOT NULL,
    origin bigint,
    key text NOT NULL,
    payload text,
    reason text NOT NULL,
    error text,
    PRIMARY KEY (partition, position)
);

-- The committed lengths of output files: the new row is inserted, the old one deleted, and readers take the longest.
CREATE TABLE {schema}.output (
    name text NOT NULL,
    length bigint NOT NULL,
    PRIMARY KEY (name, length)
);

-- Counters of a partition. A settlement inserts the new value and deletes the old one; the newest comes first.
CREATE TABLE {schema}.counter (
    version bigint NOT NULL,
    value bigint NOT NULL,
    partition smallint NOT NULL,
    name text NOT NULL
);

CREATE UNIQUE INDEX counter_value ON {schema}.counter (partition, name, version DESC);

-- Facts that a job shares between its workers.
CREATE TABLE {schema}.fact (
    key text PRIMARY KEY,
    value text NOT NULL
);
