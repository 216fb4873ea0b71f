-- The tables of one frontier, in a schema of its own. No row of any table that grows is ever updated: a move deletes it
-- from one table and inserts it into another, and state that changes with every move is written as insert-new,
-- delete-old and read newest first. So a snapshot that somebody keeps open slows nothing down (INV-8).
-- Times are microseconds since the epoch.
--
-- Where a table has two indexes, one of them is by an expression, `partition + 0`. A question that names the partition in
-- the one way cannot be answered with the index of the other, whatever the planner believes: of a table that was analysed
-- while it was empty it believes, until the next time, that any index will do, and would read all of a partition for each
-- item (INV-8).

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

-- The lock: every change to a partition happens in a transaction that holds its row here.
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

-- What changes about a lane. `level` is the priority of its head, null when it is not in the queue; `counts` are its
-- waiting items by priority; `taken` counts what was ever taken from it, and `heads` says from which place on living
-- items can be, by rank, once so much was taken that the dead ones before it are worth passing over.
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

-- With the version, so that a floor can stand between the dead rows of a lane that kept its turn and the living one.
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

-- A revisit is settled: the checkpoint does not wait for it. The position, too, is in both indexes.
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

-- One row renews a whole batch. Ended claims stay for a while, so that a lost reply can be looked up.
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

-- Discovered for a partition that somebody else may hold. Appended without that partition's lock, hence in order of
-- transaction and not of number (rule 10).
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

-- Where an item went that got a new position: `seen` keeps the first one.
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

-- Written as insert-new, delete-old and read longest first.
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

-- What a job knows, for everybody who works on the frontier.
CREATE TABLE {schema}.fact (
    key text PRIMARY KEY,
    value text NOT NULL
);
