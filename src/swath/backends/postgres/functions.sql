-- The moves, as functions: one call is one round trip and one transaction, and every statement inside sees what was
-- committed before it began, so that what is read after the lock is true (rule 1). `{schema}` is replaced by the
-- quoted name of the frontier's schema. Each function turns sequential and bitmap scans off for itself and plans once, so
-- that no plan depends on statistics (INV-8): a bitmap of what the planner takes for one row walks all its dead versions
-- and sorts what is left. `partition + 0` chooses the index (see the tables). Those that the store calls have a limit on
-- the time they wait for a lock, and turn off compiling: before PostgreSQL 18 a scan that is turned off counts as so
-- costly that every call would compile it.

-- name: store_time
-- The seam for tests: `_given` is null in production, and the time is the database's.
CREATE OR REPLACE FUNCTION {schema}.store_time(_given bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(_given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- name: check_format
-- Rule 16, for what takes no partition's lock: an older worker stops here too.
CREATE OR REPLACE FUNCTION {schema}.check_format(_format integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _found integer;
BEGIN
    SELECT format INTO STRICT _found FROM {schema}.frontier;
    IF _found <> _format THEN
        RAISE EXCEPTION 'the store has format %', _found USING ERRCODE = 'SW005';
    END IF;
END
$$;

-- name: read_partition
-- INV-6. The state of a partition whose lock is held, and the format, by a later statement than the lock (rules 1, 16).
-- Partition time never stands still.
CREATE OR REPLACE FUNCTION {schema}.read_partition(_partition integer, _format integer, _given bigint)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    s {schema}.partition_state;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the transaction is %', current_setting('transaction_isolation') USING ERRCODE = 'SW004';
    END IF;
    SELECT * INTO s FROM {schema}.partition_state
    WHERE partition = _partition AND _format = (SELECT format FROM {schema}.frontier) ORDER BY version DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the store has format %', (SELECT format FROM {schema}.frontier) USING ERRCODE = 'SW005';
    END IF;
    s.time := greatest({schema}.store_time(_given), s.time + 1);
    RETURN s;
END
$$;

-- name: lock_partition
-- Lock, then look.
CREATE OR REPLACE FUNCTION {schema}.lock_partition(_partition integer, _format integer, _given bigint)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    PERFORM 1 FROM {schema}.partition WHERE partition = _partition FOR UPDATE;
    RETURN {schema}.read_partition(_partition, _format, _given);
END
$$;

-- name: write_state
-- Insert-new, delete-old. `_notify` wakes sleeping processes when the partition went from idle to ready, at a bounded rate.
CREATE OR REPLACE FUNCTION {schema}.write_state(
    s {schema}.partition_state, _old {schema}.partition_state, _notify boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    IF s.version = _old.version THEN
        s.version := s.version + 1;
    END IF;
    IF _notify AND s.next_ready_at <= s.time AND s.notified_at + 100000 < s.time
        AND (_old.next_ready_at IS NULL OR _old.next_ready_at > s.time)
    THEN
        s.notified_at := s.time;
        PERFORM pg_notify('swath', {schema_literal});
    END IF;
    WITH gone AS (
        DELETE FROM {schema}.partition_state WHERE partition = _old.partition AND version = _old.version
    )
    INSERT INTO {schema}.partition_state SELECT (s).*;
END
$$;

-- name: raise_heads
-- The first place, of the two ranks of one priority, at which a living item of a deep lane can be.
CREATE OR REPLACE FUNCTION {schema}.raise_heads(_heads bigint[], _rank integer, _returned bigint, _fresh bigint)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    _heads := coalesce(_heads, array_fill(0::bigint, ARRAY[16]));
    _heads[_rank + 1] := coalesce(_returned + 1, _heads[_rank + 1]);
    _heads[_rank + 2] := coalesce(_fresh + 1, _heads[_rank + 2]);
    RETURN _heads;
END
$$;

-- name: lane_level
-- INV-3. Under which level a lane is queued: the highest at which it has items waiting, null when none may start. With
-- the next one, the only place that says where a lane stands, whatever changed it. Both are inlined.
CREATE OR REPLACE FUNCTION {schema}.lane_level(_counts integer[], _paused boolean, _at_once integer, _in_flight integer)
RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE
        WHEN _paused OR (_at_once > 0 AND _in_flight >= _at_once) THEN NULL
        WHEN _counts[8] > 0 THEN 7 WHEN _counts[7] > 0 THEN 6 WHEN _counts[6] > 0 THEN 5 WHEN _counts[5] > 0 THEN 4
        WHEN _counts[4] > 0 THEN 3 WHEN _counts[3] > 0 THEN 2 WHEN _counts[2] > 0 THEN 1 WHEN _counts[1] > 0 THEN 0
    END)::smallint
$$;

-- name: lane_ready_at
-- INV-3. From when on: its turn, unless it is blocked until later or its interval has not passed.
CREATE OR REPLACE FUNCTION {schema}.lane_ready_at(_turn bigint, _blocked_until bigint, _last_at bigint, _pause bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(_turn, _blocked_until, CASE WHEN _last_at > 0 AND _pause > 0 THEN _last_at + _pause ELSE 0 END)
$$;

-- name: change_lanes
-- INV-3. Places lanes that got items or whose items came back. Per change: what is added to its waiting items of a
-- priority, to its items in flight and to its visits, and whether its clock starts anew: always for 'back' (taken back
-- from a lost worker) and 'count' (starts begin to count while it has items in flight), for 'settle' where one at a time
-- is allowed. A claim places those that it takes from by itself, since it has their rows in hand.
CREATE OR REPLACE FUNCTION {schema}.change_lanes(
    s {schema}.partition_state, _lanes integer[], _levels smallint[], _waits integer[], _flights integer[],
    _stamps boolean[], _visits integer[], _cause text
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- As values of their own: a field of a record costs several times as much, and these are asked for with every row.
    _partition smallint := s.partition;
    _version bigint := s.version + 1;
    _time bigint := s.time;
    _min_interval bigint;
    _concurrency integer;
    _first bigint;
BEGIN
    SELECT min_interval, concurrency INTO STRICT _min_interval, _concurrency FROM {schema}.frontier;
    WITH delta AS (
        SELECT
            d.lane, coalesce(sum(d.flight), 0)::integer AS flight, bool_or(d.stamp) AS stamp,
            coalesce(sum(d.visit), 0)::integer AS visits,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 0), 0)::integer AS w0,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 1), 0)::integer AS w1,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 2), 0)::integer AS w2,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 3), 0)::integer AS w3,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 4), 0)::integer AS w4,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 5), 0)::integer AS w5,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 6), 0)::integer AS w6,
            coalesce(sum(d.wait) FILTER (WHERE d.level = 7), 0)::integer AS w7
        FROM unnest(_lanes, _levels, _waits, _flights, _stamps, _visits) AS d(lane, level, wait, flight, stamp, visit)
        GROUP BY d.lane
    ), changed AS (
        SELECT
            d.lane, o.ctid AS old_row, o.min_interval, o.concurrency, o.ready_at AS old_ready_at, o.level AS old_level,
            o.heads, coalesce(o.taken, 0) AS taken, coalesce(o.paused, false) AS paused,
            coalesce(o.visits, 0) + d.visits AS visits,
            coalesce(o.min_interval, _min_interval) AS pause,
            coalesce(o.concurrency, _concurrency) AS at_once,
            coalesce(o.in_flight, 0) + d.flight AS in_flight,
            coalesce(o.blocked_until, 0) AS blocked_until,
            CASE
                WHEN d.stamp AND (
                    _cause IN ('back', 'count') OR (_cause = 'settle' AND coalesce(o.concurrency, _concurrency) = 1)
                ) THEN _time
                ELSE coalesce(o.last_at, 0)
            END AS last_at,
            ARRAY[
                coalesce(o.counts[1], 0) + d.w0, coalesce(o.counts[2], 0) + d.w1,
                coalesce(o.counts[3], 0) + d.w2, coalesce(o.counts[4], 0) + d.w3,
                coalesce(o.counts[5], 0) + d.w4, coalesce(o.counts[6], 0) + d.w5,
                coalesce(o.counts[7], 0) + d.w6, coalesce(o.counts[8], 0) + d.w7
            ] AS counts
        FROM delta AS d
        LEFT JOIN LATERAL (
            SELECT l.ctid, l.* FROM {schema}.lane_state AS l
            WHERE l.partition = _partition AND l.lane = d.lane
            ORDER BY l.version DESC LIMIT 1
        ) AS o ON true
    ), paced AS (
        SELECT c.*, {schema}.lane_level(c.counts, c.paused, c.at_once, c.in_flight) AS level FROM changed AS c
    ), gone AS (
        DELETE FROM {schema}.lane_state WHERE ctid = ANY (ARRAY(SELECT c.old_row FROM changed AS c))
    ), placed AS (
        INSERT INTO {schema}.lane_state (
            version, ready_at, last_at, blocked_until, min_interval, lane, in_flight, taken, visits, concurrency,
            partition, level, paused, counts, heads
        )
        SELECT
            _version,
            -- A lane that stays where it was keeps its turn.
            {schema}.lane_ready_at(
                CASE WHEN p.level = p.old_level AND _cause <> 'limits' THEN p.old_ready_at ELSE _time END,
                p.blocked_until, p.last_at, p.pause
            ),
            p.last_at, p.blocked_until, p.min_interval, p.lane, p.in_flight, p.taken, p.visits, p.concurrency,
            _partition, p.level, p.paused, p.counts, p.heads
        FROM paced AS p
        RETURNING ready_at, level
    )
    SELECT min(p.ready_at) INTO _first FROM placed AS p WHERE p.level IS NOT NULL;
    s.version := _version;
    s.next_ready_at := least(s.next_ready_at, _first);
    RETURN s;
END
$$;

-- name: advance_checkpoint
-- INV-6. The checkpoint stands just below the lowest unsettled position, which a few index probes find. Called only when
-- the item just above it was settled, so what is dead between is walked once.
CREATE OR REPLACE FUNCTION {schema}.advance_checkpoint(s {schema}.partition_state)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _old bigint := s.checkpoint;
    _above bigint := _old;
    _upto bigint := _old;
    _ahead bigint := 128;
    _found bigint;
    _held bigint;
BEGIN
    IF s.claimed > 0 THEN
        _held := (
            SELECT min(c.position) FROM unnest(s.claims) AS held(fence) CROSS JOIN LATERAL (
                SELECT position FROM {schema}.claimed
                WHERE partition = s.partition AND fence = held.fence AND position > s.checkpoint
                ORDER BY position LIMIT 1
            ) AS c
        );
    END IF;
    -- In steps that grow, and in both tables by turns: so that what is dead in one beyond the living of the other is not
    -- walked before the checkpoint gets there.
    WHILE _found IS NULL AND _upto < coalesce(_held, s.next_position) LOOP
        _above := _upto;
        _upto := least(_above + _ahead, coalesce(_held, s.next_position));
        _ahead := least(_ahead * 8, 1::bigint << 56);
        _found := least(
            (SELECT i.position FROM {schema}.item AS i
             WHERE i.partition + 0 = s.partition AND i.position > _above AND i.position <= _upto
             ORDER BY i.position LIMIT 1),
            (SELECT d.position FROM {schema}.delayed AS d
             WHERE s.delayed > 0 AND d.partition + 0 = s.partition AND d.position + 0 > _above AND d.position + 0 <= _upto
                 AND NOT d.revisit
             ORDER BY d.position + 0 LIMIT 1)
        );
    END LOOP;
    s.checkpoint := least(_found, _held, s.next_position) - 1;
    IF s.dead > 0 THEN
        s.checkpoint_dead := s.checkpoint_dead + (
            SELECT count(*) FROM {schema}.dead AS d
            WHERE d.partition = s.partition AND d.position > _old AND d.position <= s.checkpoint
        );
    END IF;
    RETURN s;
END
$$;

-- name: take_in
-- INV-4, INV-7. What is new gets a position and a place, in the order given; its lane exists before it does (F11).
-- `_freed` has a lane for each item that was settled just before, so that a lane that got items as well is written once.
-- Nested loops are off for the sake of what is known, which would be searched for every item.
CREATE OR REPLACE FUNCTION {schema}.take_in(
    s {schema}.partition_state, _hashes bytea[], _lanes text[], _priorities smallint[], _keys text[], _payloads text[],
    _not_befores bigint[], _spans bigint[], _freed integer[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- As values of their own: a field of a record costs several times as much, and these are asked for with every row.
    _partition smallint := s.partition;
    _time bigint := s.time;
    _next_position bigint := s.next_position;
    _next_place bigint := s.next_place;
    _items integer := cardinality(_freed);
    _count integer;
    _delayed integer;
    _positions bigint;
    _first_due bigint;
    _numbers integer[];
    _waits integer[];
    _known bytea[];
BEGIN
    IF current_setting('server_version_num')::integer >= 170000 THEN
        -- In one scan that goes from leaf to leaf: to descend for each hash is twice as dear.
        _known := ARRAY(
            SELECT e.hash FROM {schema}.seen AS e
            WHERE e.partition = _partition AND e.hash = ANY (_hashes)
        );
    ELSE
        -- Before, the planner may take the list for a filter and read all of the partition.
        _known := ARRAY(
            SELECT h.hash FROM unnest(_hashes) AS h(hash) CROSS JOIN LATERAL (
                SELECT FROM {schema}.seen AS e WHERE e.partition = _partition AND e.hash = h.hash LIMIT 1
            ) AS e
        );
    END IF;
    SELECT
        array_agg(n.hash), array_agg(n.lane), array_agg(n.priority), array_agg(n.key), array_agg(n.payload),
        array_agg(n.not_before), array_agg(n.span), array_agg(l.number)
    INTO _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans, _numbers
    FROM (
        SELECT u.* FROM (
            SELECT DISTINCT ON (o.hash)
                o.hash, o.lane, coalesce(o.priority, 3::smallint) AS priority, o.key, o.payload, o.not_before,
                coalesce(o.span, 1) AS span, o.ord
            FROM unnest(_hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans) WITH ORDINALITY
                AS o(hash, lane, priority, key, payload, not_before, span, ord)
            LEFT JOIN unnest(_known) AS k(hash) ON k.hash = o.hash
            WHERE k.hash IS NULL
            ORDER BY o.hash, o.ord
        ) AS u ORDER BY u.ord
    ) AS n
    LEFT JOIN LATERAL (
        SELECT number FROM {schema}.lane WHERE partition + 0 = _partition AND name = n.lane LIMIT 1
    ) AS l ON true;
    IF _hashes IS NULL AND _items = 0 THEN
        RETURN s;
    ELSIF _hashes IS NULL THEN
        RETURN {schema}.change_lanes(
            s, _freed, NULL, NULL, array_fill(-1, ARRAY[_items]), array_fill(true, ARRAY[_items]),
            array_fill(1, ARRAY[_items]), 'settle');
    END IF;

    IF array_position(_numbers, NULL) > 0 THEN
        INSERT INTO {schema}.lane (number, partition, name)
        SELECT s.lanes + row_number() OVER (ORDER BY min(l.ord)), _partition, l.name
        FROM unnest(_lanes, _numbers) WITH ORDINALITY AS l(name, number, ord) WHERE l.number IS NULL GROUP BY l.name;
        GET DIAGNOSTICS _count = ROW_COUNT;
        s.lanes := s.lanes + _count;
        _numbers := ARRAY(
            SELECT coalesce(l.number, (
                SELECT number FROM {schema}.lane WHERE partition + 0 = _partition AND name = l.name
            ))
            FROM unnest(_lanes, _numbers) WITH ORDINALITY AS l(name, number, ord) ORDER BY l.ord
        );
    END IF;

    WITH fresh AS (
        SELECT
            o.*, coalesce(o.not_before > _time, false) AS later,
            _next_position + sum(o.span) OVER (ORDER BY o.ord)::bigint - o.span AS position
        FROM unnest(_hashes, _numbers, _priorities, _keys, _payloads, _not_befores, _spans) WITH ORDINALITY
            AS o(hash, lane, priority, key, payload, not_before, span, ord)
    ), known AS (
        INSERT INTO {schema}.seen (position, partition, hash)
        SELECT f.position, _partition, f.hash FROM fresh AS f ORDER BY f.hash
    ), later AS (
        INSERT INTO {schema}.delayed (due_at, position, span, lane, partition, priority, attempts, revisit, key, payload)
        SELECT f.not_before, f.position, f.span, f.lane, _partition, f.priority, 0, false, f.key, f.payload
        FROM fresh AS f WHERE f.later
    ), ready AS (
        INSERT INTO {schema}.item (place, position, span, lane, partition, rank, attempts, key, payload)
        SELECT
            _next_place + row_number() OVER (ORDER BY f.ord) - 1, f.position, f.span, f.lane, _partition,
            (7 - f.priority) * 2 + 1, 0, f.key, f.payload
        FROM fresh AS f WHERE NOT f.later
    )
    SELECT
        count(*) FILTER (WHERE NOT f.later), count(*) FILTER (WHERE f.later), sum(f.span)::bigint,
        min(f.not_before) FILTER (WHERE f.later), array_agg((NOT f.later)::integer ORDER BY f.ord)
    INTO _count, _delayed, _positions, _first_due, _waits
    FROM fresh AS f;

    s.ready := s.ready + _count;
    s.delayed := s.delayed + _delayed;
    s.next_position := s.next_position + _positions;
    s.next_place := s.next_place + _count;
    s.next_ready_at := least(s.next_ready_at, _first_due);
    RETURN {schema}.change_lanes(
        s, _freed || _numbers, array_fill(0::smallint, ARRAY[_items]) || _priorities,
        array_fill(0, ARRAY[_items]) || _waits, array_fill(-1, ARRAY[_items]), array_fill(true, ARRAY[_items]),
        array_fill(1, ARRAY[_items]), 'settle');
END
$$;

-- name: add
CREATE OR REPLACE FUNCTION {schema}.add(
    _format integer, _given bigint, _partition integer, _hashes bytea[], _lanes text[], _priorities smallint[],
    _keys text[], _payloads text[], _not_befores bigint[], _spans bigint[]
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition(_partition, _format, _given);
    s {schema}.partition_state := _old;
BEGIN
    s := {schema}.take_in(s, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans, '{}');
    PERFORM {schema}.write_state(s, _old, true);
    RETURN s.ready + s.delayed - _old.ready - _old.delayed;
END
$$;

-- name: take_back
-- INV-2, INV-4. Take-over begins on the claim's row, where it meets renewal; lost in one partition is lost in all.
-- Items are ready again, or dead when this has happened too often.
CREATE OR REPLACE FUNCTION {schema}.take_back(s {schema}.partition_state) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    f {schema}.frontier;
    _lost bigint[];
    _count integer;
    _died integer;
    _lanes integer[];
    _levels smallint[];
    _waits integer[];
    _blocked boolean;
BEGIN
    SELECT * INTO STRICT f FROM {schema}.frontier;
    -- A row that is locked is being settled or renewed at this moment: its holder lives.
    UPDATE {schema}.claim SET lost = true WHERE fence = ANY (ARRAY(
        SELECT c.fence FROM {schema}.claim AS c
        WHERE c.fence = ANY (s.claims) AND NOT c.lost AND c.expires_at <= s.time FOR UPDATE SKIP LOCKED
    ));
    -- A claim whose row is gone ended so long ago that it was forgotten.
    _lost := ARRAY(
        SELECT k.fence FROM unnest(s.claims) AS k(fence)
        LEFT JOIN LATERAL (SELECT c.lost FROM {schema}.claim AS c WHERE c.fence = k.fence LIMIT 1) AS c ON true
        WHERE coalesce(c.lost, true)
    );
    WITH held AS (
        DELETE FROM {schema}.claimed WHERE partition = s.partition AND fence = ANY (_lost) RETURNING *
    ), back AS (
        SELECT h.*, h.losses + 1 >= f.max_attempts AS dies,
            sum((h.losses + 1 < f.max_attempts)::integer) OVER (ORDER BY h.position) - 1 AS nth
        FROM held AS h
    ), died AS (
        INSERT INTO {schema}.dead (
            position, settled_at, span, lane, partition, priority, attempts, origin, key, payload, reason, error
        )
        SELECT b.position, s.time, b.span, b.lane, s.partition, b.priority, b.attempts + 1, b.origin, b.key, b.payload,
            replace({lost_worker}, '{losses}', (b.losses + 1)::text), b.error
        FROM back AS b WHERE b.dies
    ), ready AS (
        INSERT INTO {schema}.item (
            place, position, span, lane, partition, rank, attempts, losses, origin, key, payload, reason, error
        )
        SELECT s.next_place + b.nth, b.position, b.span, b.lane, s.partition, (7 - b.priority) * 2, b.attempts + 1,
            b.losses + 1, b.origin, b.key, b.payload, b.reason, b.error
        FROM back AS b WHERE NOT b.dies
    )
    SELECT count(*), count(*) FILTER (WHERE b.dies), array_agg(b.lane), array_agg(b.priority),
        array_agg((NOT b.dies)::integer), bool_or(b.dies AND b.position = s.checkpoint + 1)
    INTO _count, _died, _lanes, _levels, _waits, _blocked
    FROM back AS b;
    s.claims := ARRAY(SELECT k.fence FROM unnest(s.claims) AS k(fence) WHERE k.fence <> ALL (_lost));
    s.next_expiry := (SELECT min(c.expires_at) FROM {schema}.claim AS c WHERE c.fence = ANY (s.claims));
    IF _count = 0 THEN
        RETURN s;
    END IF;
    s.claimed := s.claimed - _count;
    s.dead := s.dead + _died;
    s.ready := s.ready + _count - _died;
    s.next_place := s.next_place + _count - _died;
    s := {schema}.change_lanes(
        s, _lanes, _levels, _waits, array_fill(-1, ARRAY[_count]), array_fill(true, ARRAY[_count]), NULL, 'back');
    IF _blocked THEN
        s := {schema}.advance_checkpoint(s);
    END IF;
    RETURN s;
END
$$;

-- name: drain_inbox
-- INV-4. Takes in what others discovered for this partition, a bounded number a time. Rows become visible in the order
-- in which their transactions commit, so what was drained is remembered as a snapshot: everything below `inbox_from`
-- except the transactions that were still open then (rule 10).
CREATE OR REPLACE FUNCTION {schema}.drain_inbox(s {schema}.partition_state, _most integer)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _snapshot pg_snapshot;
    _left xid8;
    _late xid8[];
    _hashes bytea[];
    _lanes text[];
    _priorities smallint[];
    _keys text[];
    _payloads text[];
    _not_befores bigint[];
    _spans bigint[];
BEGIN
    IF pg_snapshot_xmax(pg_current_snapshot()) < s.inbox_from THEN
        s.inbox_from := '0';  -- restored into a younger cluster: its transaction numbers start again
        s.inbox_open := '{}';
    END IF;
    WITH waiting AS (
        SELECT
            w.row, w.xid, w.late, sum(w.size) OVER (ORDER BY w.xid, w.number) - w.size AS before,
            row_number() OVER (PARTITION BY w.late ORDER BY w.xid, w.number) AS nth
        FROM (
            (
                SELECT true AS late, r.* FROM unnest(s.inbox_open) AS o(xid) CROSS JOIN LATERAL (
                    SELECT i.ctid AS row, i.xid, i.number, i.size FROM {schema}.inbox AS i
                    WHERE i.partition = s.partition AND i.xid = o.xid ORDER BY i.number LIMIT 1000
                ) AS r
            )
            UNION ALL
            (
                SELECT false, i.ctid AS row, i.xid, i.number, i.size FROM {schema}.inbox AS i
                WHERE i.partition = s.partition AND i.xid >= s.inbox_from ORDER BY i.xid, i.number LIMIT 1000
            )
        ) AS w
    ), gone AS (
        DELETE FROM {schema}.inbox
        WHERE ctid = ANY (ARRAY(SELECT w.row FROM waiting AS w WHERE w.before < _most)) RETURNING *
    ), links AS (
        SELECT u.* FROM gone AS g CROSS JOIN LATERAL unnest(
            g.hashes, g.lanes, g.priorities, g.keys, g.payloads, g.not_befores, g.spans
        ) WITH ORDINALITY AS u(hash, lane, priority, key, payload, not_before, span, ord)
        ORDER BY g.xid, g.number, u.ord
    )
    SELECT
        pg_current_snapshot(),
        (
            SELECT w.xid FROM waiting AS w WHERE NOT w.late AND (w.before >= _most OR w.nth = 1000)
            ORDER BY w.xid LIMIT 1
        ),
        ARRAY(SELECT DISTINCT w.xid FROM waiting AS w WHERE w.late),
        array_agg(l.hash), array_agg(l.lane), array_agg(l.priority), array_agg(l.key), array_agg(l.payload),
        array_agg(l.not_before), array_agg(l.span)
    INTO _snapshot, _left, _late, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans
    FROM links AS l;
    -- The next time begins at the first row left. Of the transactions before it, those count that are still open, and
    -- those that were late this time, of which there may be more.
    s.inbox_from := coalesce(_left, pg_snapshot_xmax(_snapshot));
    s.inbox_open := ARRAY(
        SELECT x.xid FROM pg_snapshot_xip(_snapshot) AS x(xid) WHERE x.xid < s.inbox_from
        UNION SELECT l.xid FROM unnest(_late) AS l(xid)
    );
    IF _hashes IS NULL THEN
        RETURN s;
    END IF;
    RETURN {schema}.take_in(s, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans, '{}');
END
$$;

-- name: has_inbox
CREATE OR REPLACE FUNCTION {schema}.has_inbox(s {schema}.partition_state) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM {schema}.inbox AS i WHERE i.partition = s.partition AND i.xid >= s.inbox_from
    ) OR EXISTS (
        SELECT 1 FROM unnest(s.inbox_open) AS o(xid) CROSS JOIN LATERAL (
            SELECT 1 FROM {schema}.inbox AS i WHERE i.partition = s.partition AND i.xid = o.xid LIMIT 1
        ) AS r
    ) OR pg_snapshot_xmax(pg_current_snapshot()) < s.inbox_from;
END
$$;

-- name: inbox_size
-- How many items wait in a partition's inbox. What was drained is not met, also while it cannot be vacuumed (rule 8).
CREATE OR REPLACE FUNCTION {schema}.inbox_size(_partition smallint, _from xid8, _open xid8[]) RETURNS bigint
LANGUAGE plpgsql STABLE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    IF pg_snapshot_xmax(pg_current_snapshot()) < _from THEN
        _from := '0';  -- as in `drain_inbox`
        _open := '{}';
    END IF;
    RETURN (
        SELECT coalesce(sum(i.size), 0) FROM {schema}.inbox AS i WHERE i.partition = _partition AND i.xid >= _from
    ) + (
        SELECT coalesce(sum(i.size), 0) FROM {schema}.inbox AS i WHERE i.partition = _partition AND i.xid = ANY (_open)
    );
END
$$;

-- name: drain_delayed
-- Retries, not-befores and revisits that are due become ready. A revisit is new work and gets a new position (rule 13).
CREATE OR REPLACE FUNCTION {schema}.drain_delayed(s {schema}.partition_state, _most integer)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _count integer;
    _positions bigint;
    _last bigint;
    _last_position bigint;
    _lanes integer[];
    _levels smallint[];
BEGIN
    WITH due AS (
        SELECT d.ctid AS row, d.* FROM {schema}.delayed AS d
        WHERE d.partition = s.partition AND (d.due_at, d.position) >= (s.delayed_floor, s.delayed_from)
            AND d.due_at <= s.time
        ORDER BY d.due_at, d.position LIMIT _most
    ), gone AS (
        DELETE FROM {schema}.delayed WHERE ctid = ANY (ARRAY(SELECT d.row FROM due AS d))
    ), numbered AS (
        SELECT
            d.*, row_number() OVER w - 1 AS nth,
            CASE
                WHEN d.revisit
                THEN s.next_position + sum(CASE WHEN d.revisit THEN d.span ELSE 0 END) OVER w::bigint - d.span
                ELSE d.position
            END AS new_position,
            CASE WHEN d.revisit THEN coalesce(d.origin, d.position) ELSE d.origin END AS new_origin
        FROM due AS d WINDOW w AS (ORDER BY d.due_at, d.position)
    ), renumbered AS (
        INSERT INTO {schema}.moved (origin, position, partition)
        SELECT n.new_origin, n.new_position, s.partition FROM numbered AS n WHERE n.revisit
        ON CONFLICT (partition, origin) DO UPDATE SET position = excluded.position
    ), ready AS (
        INSERT INTO {schema}.item (
            place, position, span, lane, partition, rank, attempts, losses, origin, key, payload, reason, error
        )
        SELECT s.next_place + n.nth, n.new_position, n.span, n.lane, s.partition,
            (7 - n.priority) * 2 + (n.attempts = 0)::integer, n.attempts, n.losses, n.new_origin, n.key,
            n.payload, n.reason, n.error
        FROM numbered AS n
    )
    SELECT count(*), coalesce(sum(n.span) FILTER (WHERE n.revisit), 0)::bigint, max(n.due_at),
        max(n.position) FILTER (WHERE n.nth = _most - 1), array_agg(n.lane), array_agg(n.priority)
    INTO _count, _positions, _last, _last_position, _lanes, _levels
    FROM numbered AS n;
    s.delayed_floor := CASE WHEN _count < _most THEN s.time ELSE _last END;
    s.delayed_from := CASE WHEN _count < _most THEN 0 ELSE _last_position END;
    IF _count = 0 THEN
        RETURN s;
    END IF;
    s.delayed := s.delayed - _count;
    s.ready := s.ready + _count;
    s.next_position := s.next_position + _positions;
    s.next_place := s.next_place + _count;
    RETURN {schema}.change_lanes(
        s, _lanes, _levels, array_fill(1, ARRAY[_count]), array_fill(0, ARRAY[_count]), NULL, NULL, 'add');
END
$$;

-- name: next_level
-- The first level from one end that has a lane ready; null when there is none.
CREATE OR REPLACE FUNCTION {schema}.next_level(s {schema}.partition_state, _from integer, _to integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    RETURN (
        SELECT g.level
        FROM generate_series(_from, _to, CASE WHEN _from > _to THEN -1 ELSE 1 END) AS g(level)
        CROSS JOIN LATERAL (
            SELECT 1 FROM {schema}.lane_state AS l
            WHERE l.partition + 0 = s.partition AND l.level = g.level
                AND (l.ready_at, l.lane, l.version) >= (
                    s.ready_floor[g.level + 1], s.ready_lanes[g.level + 1], s.ready_versions[g.level + 1]
                ) AND l.ready_at <= s.time
            LIMIT 1
        ) AS l
        LIMIT 1
    );
END
$$;

-- name: look_ahead
-- INV-8. When this partition has something ready next. The floors rise to the first living entry, never above now, so
-- that no later scan walks the dead ones before it (rule 8).
CREATE OR REPLACE FUNCTION {schema}.look_ahead(s {schema}.partition_state) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _first bigint;
BEGIN
    SELECT
        -- In the order of the levels, which a look-up in each keeps: to sort them costs as much as to look.
        min(l.ready_at), array_agg(least(l.ready_at, s.time)),
        array_agg(CASE WHEN l.ready_at <= s.time THEN l.lane ELSE 0 END),
        array_agg(CASE WHEN l.ready_at <= s.time THEN l.version ELSE 0 END)
    INTO _first, s.ready_floor, s.ready_lanes, s.ready_versions
    FROM generate_series(0, 7) AS g(level)
    LEFT JOIN LATERAL (
        SELECT q.ready_at, q.lane, q.version FROM {schema}.lane_state AS q
        WHERE q.partition + 0 = s.partition AND q.level = g.level
            AND (q.ready_at, q.lane, q.version) >= (
                s.ready_floor[g.level + 1], s.ready_lanes[g.level + 1], s.ready_versions[g.level + 1]
            )
        ORDER BY q.ready_at, q.lane, q.version LIMIT 1
    ) AS l ON true;
    s.next_ready_at := least(_first, s.next_expiry);
    IF s.delayed > 0 THEN
        s.next_ready_at := least(s.next_ready_at, (
            SELECT d.due_at FROM {schema}.delayed AS d
            WHERE d.partition = s.partition AND (d.due_at, d.position) >= (s.delayed_floor, s.delayed_from)
            ORDER BY d.due_at, d.position LIMIT 1
        ));
    END IF;
    RETURN s;
END
$$;

-- name: claim
-- INV-1, INV-3, INV-8. Partitions are taken in the order given; those that somebody else holds are skipped and said so,
-- except `_wait_for`, for which it queues. In each: take back what is lost, take in what was discovered, make ready what
-- is due, then lanes by priority and turn, and from each as many of its head items as it may start. Nested loops are off
-- for the sake of the heads of deep lanes, which would be searched for every lane; a look-up can be nothing else.
CREATE OR REPLACE FUNCTION {schema}.claim(
    _format integer, _given bigint, _limit integer, _lease bigint, _worker text, _token bigint, _order smallint[],
    _wait_for integer, _most_partitions integer, _most_delayed integer, _most_inbox integer,
    OUT now bigint, OUT fence bigint, OUT expires_at bigint, OUT next_ready_at bigint, OUT skipped smallint[],
    OUT recovered integer, OUT died integer, OUT paused boolean, OUT signal_version bigint,
    OUT min_interval bigint, OUT concurrency integer, OUT max_attempts integer, OUT versions bigint[],
    OUT starts_count boolean,
    -- What was taken, in runs of one partition and one priority, and in each of one lane after the other. `besides` is how
    -- many of its lane were in flight before the first one that was taken of it in this run. From the payloads on, a
    -- column is null where all have the usual value, as they mostly do.
    OUT partitions smallint[], OUT priorities smallint[], OUT counts integer[],
    OUT positions bigint[], OUT lanes text[], OUT keys text[], OUT visits integer[], OUT payloads text[],
    OUT attempts smallint[], OUT losses smallint[], OUT spans bigint[], OUT besides integer[]
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off SET jit TO off
SET plan_cache_mode TO force_generic_plan SET lock_timeout TO '250ms' AS $$
#variable_conflict use_column
DECLARE
    f {schema}.frontier;
    s {schema}.partition_state;
    _old {schema}.partition_state;
    _partition smallint;
    _held smallint[] := '{}';
    _wanted integer;
    _low integer;
    _level integer;
    _lowest integer;
    _down boolean;
    _taken integer := 0;
    _count integer;
    _items integer;
    _moved integer;
    _starts boolean;
    _flooded boolean;
    _drains integer := 0;
    _passed integer := 0;  -- lanes that were put off
    _most_passed CONSTANT integer := 5000;
    _look integer;  -- lanes to look at, at least
    _last_ready_at bigint;
    _last_lane integer;
    _last_version bigint;
    -- As values of their own: a field of a record costs several times as much, and these are asked for with every row.
    _min_interval bigint;
    _concurrency integer;
    _time bigint;
    _version bigint;
    _rank integer;
    _floor bigint;
    _floor_lane integer;
    _floor_version bigint;
BEGIN
    SELECT * INTO STRICT f FROM {schema}.frontier;
    IF f.format <> _format THEN
        RAISE EXCEPTION 'the store has format %', f.format USING ERRCODE = 'SW005';
    END IF;
    now := {schema}.store_time(_given);
    fence := 0; recovered := 0; died := 0; skipped := '{}'; versions := '{}';
    paused := f.paused; signal_version := f.signal_version;
    min_interval := f.min_interval; concurrency := f.concurrency; max_attempts := f.max_attempts;
    starts_count := false;
    IF f.paused THEN
        RETURN;
    END IF;
    IF _wait_for IS NOT NULL THEN
        BEGIN
            PERFORM 1 FROM {schema}.partition WHERE partition = _wait_for FOR UPDATE;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END IF;

    FOREACH _partition IN ARRAY _order LOOP
        EXIT WHEN _taken >= _limit OR cardinality(_held) >= _most_partitions;
        IF _drains >= 5 * _most_partitions OR _passed >= _most_passed THEN
            next_ready_at := now;  -- enough done under these locks: the rest is for the next look, which is due at once
            EXIT;
        END IF;
        SELECT * INTO STRICT _old FROM {schema}.partition_state
        WHERE partition = _partition ORDER BY version DESC LIMIT 1;
        IF coalesce(_old.next_ready_at > greatest(now, _old.time + 1), true) AND NOT {schema}.has_inbox(_old) THEN
            next_ready_at := least(next_ready_at, _old.next_ready_at);
            CONTINUE;
        END IF;
        PERFORM 1 FROM {schema}.partition WHERE partition = _partition FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            skipped := skipped || _partition;
            CONTINUE;
        END IF;
        _old := {schema}.read_partition(_partition, _format, _given);
        s := _old;
        -- After the lock, which whoever makes starts count holds everywhere (INV-3).
        SELECT d.min_interval, d.concurrency INTO STRICT _min_interval, _concurrency FROM {schema}.frontier AS d;
        IF fence > 0 AND s.last_fence > fence THEN
            skipped := skipped || _partition;  -- a later claim was here first: per item, fences only rise
            CONTINUE;
        END IF;
        IF s.next_expiry <= s.time THEN
            s := {schema}.take_back(s);
            recovered := recovered + (_old.claimed - s.claimed)::integer;
            died := died + (s.dead - _old.dead)::integer;
            -- A claim may have been found lost in another partition since the clock was read: its lease ended first.
            s.time := greatest(s.time, {schema}.store_time(_given));
        END IF;
        _time := s.time;
        -- Above the high-water mark, a claim only drains: so the inbox cannot outgrow those who fill it (rule 10).
        _flooded := {schema}.has_inbox(s);
        FOR i IN 1 .. 5 LOOP
            EXIT WHEN NOT _flooded;
            s := {schema}.drain_inbox(s, _most_inbox);
            _flooded := {schema}.has_inbox(s);
            _drains := _drains + 1;
        END LOOP;
        IF s.delayed > 0 THEN
            s := {schema}.drain_delayed(s, _most_delayed);
        END IF;

        _wanted := _limit - _taken;
        _count := 0;
        _down := true;
        _level := NULL;
        IF NOT _flooded THEN
            SELECT max(g.level), min(g.level) INTO _level, _lowest
            FROM generate_series(0, 7) AS g(level)
            CROSS JOIN LATERAL (
                SELECT FROM {schema}.lane_state AS l
                WHERE l.partition + 0 = _partition AND l.level = g.level
                    AND (l.ready_at, l.lane, l.version) >= (
                        s.ready_floor[g.level + 1], s.ready_lanes[g.level + 1], s.ready_versions[g.level + 1]
                    ) AND l.ready_at <= _time
                LIMIT 1
            ) AS l;
        END IF;
        IF _level IS NOT NULL AND fence = 0 THEN
            fence := nextval({fence});
        END IF;
        -- One in ten goes to the lowest levels first, so that nothing starves.
        _low := CASE
            WHEN _level > _lowest THEN _wanted / 10 + (s.claims_made % 10 < _wanted % 10)::integer ELSE 0
        END;
        _wanted := _wanted - _low;
        _look := 0;
        WHILE _level IS NOT NULL LOOP
            s.version := s.version + 1;
            _version := s.version;
            _rank := (7 - _level) * 2;
            _floor := s.ready_floor[_level + 1];
            _floor_lane := s.ready_lanes[_level + 1];
            _floor_version := s.ready_versions[_level + 1];
            WITH queue AS (
                SELECT
                    l.ctid AS row, l.*, l.counts[_level + 1] AS waiting,
                    coalesce(l.min_interval, _min_interval) AS pause,
                    coalesce(l.concurrency, _concurrency) AS at_once,
                    CASE
                        WHEN l.blocked_until > _time THEN 0
                        WHEN coalesce(l.min_interval, _min_interval) > 0 AND l.last_at > 0
                            AND l.last_at + coalesce(l.min_interval, _min_interval) > _time THEN 0
                        WHEN coalesce(l.concurrency, _concurrency) > 0
                            AND l.in_flight >= coalesce(l.concurrency, _concurrency) THEN 0
                        WHEN coalesce(l.min_interval, _min_interval) > 0 THEN 1
                        WHEN coalesce(l.concurrency, _concurrency) = 0 THEN _wanted
                        ELSE coalesce(l.concurrency, _concurrency) - l.in_flight
                    END AS room
                FROM {schema}.lane_state AS l
                WHERE l.partition + 0 = _partition AND l.level = _level
                    AND (l.ready_at, l.lane, l.version) >= (_floor, _floor_lane, _floor_version)
                    AND l.ready_at <= _time
                ORDER BY l.ready_at, l.lane LIMIT greatest(_wanted, _look)
            ), taken AS (
                -- In the order of the lanes, and of the items of each, until there are enough: a nested loop keeps the
                -- order of its outer side, and goes no further than it is asked to.
                SELECT
                    q.ready_at, q.version, q.visits, q.in_flight, n.name,
                    q.at_once <> 1 AND q.pause > 0 AS starts,
                    q.heads IS NOT NULL OR q.taken + least(q.room, q.waiting) >= 16 AS deep, i.*
                FROM queue AS q
                CROSS JOIN LATERAL (
                    SELECT l.name FROM {schema}.lane AS l WHERE l.partition = _partition AND l.number = q.lane LIMIT 1
                ) AS n
                CROSS JOIN LATERAL (
                    SELECT b.* FROM (
                        (
                            -- Both ranks at once, as long as so little was taken from the lane that it has no heads.
                            SELECT r.ctid AS row, r.* FROM {schema}.item AS r
                            WHERE r.partition = _partition AND r.lane = q.lane
                                AND (r.rank, r.place) >= (_rank, coalesce(q.heads[_rank + 1], 0))
                                AND r.rank <= _rank + (q.heads IS NULL)::integer
                            ORDER BY r.rank, r.place LIMIT least(q.room, q.waiting)
                        )
                        UNION ALL
                        (
                            SELECT r.ctid AS row, r.* FROM {schema}.item AS r
                            WHERE q.heads IS NOT NULL
                                AND r.partition = _partition AND r.lane = q.lane AND r.rank = _rank + 1
                                AND r.place >= q.heads[_rank + 2]
                            ORDER BY r.place LIMIT least(q.room, q.waiting)
                        )
                    ) AS b LIMIT least(q.room, q.waiting)
                ) AS i
                LIMIT _wanted
            ), gone AS (
                DELETE FROM {schema}.item WHERE ctid = ANY (ARRAY(SELECT t.row FROM taken AS t))
            ), held AS (
                INSERT INTO {schema}.claimed (
                    position, fence, span, lane, partition, priority, attempts, losses, origin, key, payload, reason,
                    error
                )
                SELECT t.position, claim.fence, t.span, t.lane, _partition, _level, t.attempts, t.losses, t.origin,
                    t.key, t.payload, t.reason, t.error
                FROM taken AS t
            ), last AS (
                -- The lane of the last item where there were enough, else the last of all.
                (SELECT t.ready_at, t.lane, t.version FROM taken AS t OFFSET greatest(_wanted, 1) - 1 LIMIT 1)
                UNION ALL
                (SELECT q.ready_at, q.lane, q.version FROM queue AS q ORDER BY q.ready_at DESC, q.lane DESC LIMIT 1)
                LIMIT 1
            ), chosen AS (
                -- All up to there. Those before the last gave as much as they had room for.
                SELECT q.*, CASE
                    WHEN q.lane = (SELECT l.lane FROM last AS l)
                    THEN (SELECT count(*)::integer FROM taken AS t WHERE t.lane = (SELECT l.lane FROM last AS l))
                    ELSE least(q.room, q.waiting)
                END AS takes
                FROM queue AS q WHERE (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                OFFSET 0  -- so that it is computed once
            ), started AS (
                SELECT
                    c.*, c.in_flight + c.takes AS now_in_flight, h.returned, h.fresh,
                    least(c.taken + c.takes, 1000000) AS now_taken,
                    -- Where several may be in flight, the interval runs from the start and not from the settlement.
                    CASE WHEN c.takes > 0 AND c.at_once <> 1 THEN _time ELSE c.last_at END AS started_at,
                    c.counts[:_level] || ARRAY[c.waiting - c.takes] || c.counts[_level + 2:] AS now_counts
                FROM chosen AS c LEFT JOIN (
                    SELECT t.lane, max(t.place) FILTER (WHERE t.rank % 2 = 0) AS returned,
                        max(t.place) FILTER (WHERE t.rank % 2 = 1) AS fresh
                    FROM taken AS t WHERE t.deep GROUP BY t.lane
                ) AS h ON h.lane = c.lane
                OFFSET 0  -- so that it is computed once
            ), left_queue AS (
                DELETE FROM {schema}.lane_state WHERE ctid = ANY (ARRAY(
                    SELECT q.row FROM queue AS q WHERE (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                ))
            ), placed AS (
                -- A lane that was taken in part goes back behind the others.
                INSERT INTO {schema}.lane_state (
                    version, ready_at, last_at, blocked_until, min_interval, lane, in_flight, taken, visits,
                    concurrency, partition, level, paused, counts, heads
                )
                SELECT
                    _version, {schema}.lane_ready_at(_time, b.blocked_until, b.started_at, b.pause), b.started_at,
                    b.blocked_until, b.min_interval, b.lane, b.now_in_flight, b.now_taken, b.visits, b.concurrency,
                    _partition,
                    {schema}.lane_level(b.now_counts, b.paused, b.at_once, b.now_in_flight), b.paused, b.now_counts,
                    CASE
                        WHEN b.heads IS NULL AND b.now_taken < 16 THEN NULL
                        ELSE {schema}.raise_heads(b.heads, _rank, b.returned, b.fresh)
                    END
                FROM started AS b
            )
            SELECT
                count(*)::integer, coalesce(bool_or(t.starts), false),
                (
                    SELECT count(*) FROM queue AS q
                    WHERE q.room = 0 AND (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                ),
                (SELECT l.ready_at FROM last AS l), (SELECT l.lane FROM last AS l), (SELECT l.version FROM last AS l),
                claim.positions || array_agg(t.position), claim.lanes || array_agg(t.name),
                claim.keys || array_agg(t.key), claim.visits || array_agg(t.visits),
                CASE
                    WHEN count(t.payload) > 0 OR claim.payloads IS NOT NULL
                    THEN coalesce(claim.payloads, array_fill(NULL::text, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.payload FROM taken AS o)
                END,
                CASE
                    WHEN max(t.attempts) > 0 OR claim.attempts IS NOT NULL
                    THEN coalesce(claim.attempts, array_fill(0::smallint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.attempts FROM taken AS o)
                END,
                CASE
                    WHEN max(t.losses) > 0 OR claim.losses IS NOT NULL
                    THEN coalesce(claim.losses, array_fill(0::smallint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.losses FROM taken AS o)
                END,
                CASE
                    WHEN max(t.span) > 1 OR claim.spans IS NOT NULL
                    THEN coalesce(claim.spans, array_fill(1::bigint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.span FROM taken AS o)
                END,
                CASE
                    WHEN max(t.in_flight) > 0 OR claim.besides IS NOT NULL
                    THEN coalesce(claim.besides, array_fill(0, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.in_flight FROM taken AS o)
                END
            INTO _items, _starts, _moved, _last_ready_at, _last_lane, _last_version,
                positions, lanes, keys, visits, payloads, attempts, losses, spans, besides
            FROM taken AS t;
            partitions := partitions || _partition;
            priorities := priorities || _level::smallint;
            counts := counts || _items;

            -- All lanes up to the last of these have left the queue, or are back in it at the present time or later.
            IF _last_ready_at < _time THEN
                s.ready_floor[_level + 1] := _last_ready_at;
                s.ready_lanes[_level + 1] := _last_lane;
                s.ready_versions[_level + 1] := _last_version;
            END IF;
            _count := _count + _items;
            _wanted := _wanted - _items;
            starts_count := starts_count OR _starts;
            _passed := _passed + _moved;
            _look := CASE WHEN _moved > 0 THEN 500 ELSE 0 END;
            IF _wanted > 0 AND _passed >= _most_passed THEN
                _level := NULL;
            ELSIF _wanted > 0 AND _moved > 0 THEN
                CONTINUE;  -- lanes whose limits had changed were put off: others of this level may be next
            ELSIF _wanted > 0 THEN
                _level := CASE
                    WHEN _down AND _level > 0 THEN {schema}.next_level(s, _level - 1, 0)
                    WHEN NOT _down AND _level < 7 THEN {schema}.next_level(s, _level + 1, 7)
                END;
            ELSIF _down AND _low > 0 THEN
                _down := false;
                _wanted := _low;
                _level := {schema}.next_level(s, 0, 7);
            ELSE
                _level := NULL;
            END IF;
        END LOOP;

        IF _count > 0 THEN
            _taken := _taken + _count;
            s.ready := s.ready - _count;
            s.claimed := s.claimed + _count;
            s.claims_made := s.claims_made + 1;
            s.last_fence := fence;
            s.claims := s.claims || fence;
            s.next_expiry := least(s.next_expiry, s.time + _lease);
            _held := _held || _partition;
        END IF;
        now := greatest(now, s.time);
        s := {schema}.look_ahead(s);
        IF _flooded THEN
            s.next_ready_at := s.time;  -- what is left in the inbox may be ready, whatever was taken in
        END IF;
        next_ready_at := least(next_ready_at, s.next_ready_at);
        PERFORM {schema}.write_state(s, _old, false);
        versions := versions || _partition::bigint || s.version;
    END LOOP;

    IF cardinality(_held) = 0 THEN
        fence := 0;
        RETURN;
    END IF;
    expires_at := now + _lease;
    -- A reply is sent before its transaction ends. One that the buffers on its way may not hold is left for
    -- `claimed_items`: else a client that stands still would hold the partitions for as long, whatever its lease.
    IF _taken > 1000 OR pg_column_size(keys) + pg_column_size(lanes) + coalesce(pg_column_size(payloads), 0) > 65536 THEN
        partitions := NULL; priorities := NULL; counts := NULL; positions := NULL; lanes := NULL; keys := NULL;
        payloads := NULL; attempts := NULL; spans := NULL; losses := NULL; visits := NULL; besides := NULL;
    END IF;
    -- Claims that ended long ago are forgotten, a few with each new one. Where there are so many claims that the first
    -- look comes within the hour, the second does not.
    WITH forgotten AS (
        DELETE FROM {schema}.claim AS c
        WHERE c.fence BETWEEN claim.fence - 100010 AND claim.fence - 100000 AND c.expires_at < now - 3600000000
    ), forgotten_later AS (
        DELETE FROM {schema}.claim AS c
        WHERE c.fence BETWEEN claim.fence - 10000010 AND claim.fence - 10000000 AND c.expires_at < now - 3600000000
    )
    INSERT INTO {schema}.claim (fence, token, expires_at, partitions, worker)
    VALUES (claim.fence, _token, claim.expires_at, _held, _worker);
END
$$;

-- name: find_claim
-- Rule 5. A claim whose reply was lost, with its lease begun anew; fence 0 when it was not made, and then it never will
-- be: the row under its token waits for the one that is under way, and keeps out the one that is yet to arrive.
CREATE OR REPLACE FUNCTION {schema}.find_claim(
    _format integer, _given bigint, _token bigint, _lease bigint,
    OUT now bigint, OUT fence bigint, OUT expires_at bigint, OUT paused boolean, OUT signal_version bigint
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.check_format(_format);
    INSERT INTO {schema}.claim (fence, token, expires_at, lost, partitions, worker)
    VALUES (nextval({fence}), _token, 0, true, '{}', '') ON CONFLICT (token) DO NOTHING;
    now := {schema}.store_time(_given);
    SELECT f.paused, f.signal_version INTO STRICT paused, signal_version FROM {schema}.frontier AS f;
    UPDATE {schema}.claim AS c SET expires_at = greatest(c.expires_at, now + _lease)
    WHERE c.token = _token AND NOT c.lost AND c.expires_at > now
    RETURNING c.fence, c.expires_at INTO fence, expires_at;
    fence := coalesce(fence, 0);
END
$$;

-- name: claimed_items
-- What a claim holds, higher priorities first. Beside an item, others of its lane count that are in flight now, and of its
-- own claim those before it. No lock is held while this is sent.
CREATE OR REPLACE FUNCTION {schema}.claimed_items(
    _fence bigint,
    OUT partitions smallint[], OUT positions bigint[], OUT lanes text[], OUT priorities smallint[], OUT keys text[],
    OUT payloads text[], OUT attempts smallint[], OUT spans bigint[], OUT losses smallint[], OUT visits integer[],
    OUT in_flights integer[]
)
LANGUAGE plpgsql STABLE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    SELECT array_agg(i.partition), array_agg(i.position), array_agg(i.name), array_agg(i.priority), array_agg(i.key),
        array_agg(i.payload), array_agg(i.attempts), array_agg(i.span), array_agg(i.losses), array_agg(i.visits),
        array_agg(i.beside)
    INTO partitions, positions, lanes, priorities, keys, payloads, attempts, spans, losses, visits, in_flights
    FROM (
        SELECT
            h.*, l.visits,
            (SELECT n.name FROM {schema}.lane AS n WHERE n.partition = h.partition AND n.number = h.lane) AS name,
            (l.in_flight - count(*) OVER (PARTITION BY h.partition, h.lane) + row_number() OVER (
                PARTITION BY h.partition, h.lane ORDER BY h.priority DESC, h.position
            ) - 1)::integer AS beside
        FROM {schema}.claim AS c
        CROSS JOIN LATERAL unnest(c.partitions) AS p(partition)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.claimed AS k WHERE k.partition = p.partition AND k.fence = c.fence
            OFFSET 0  -- so that it is looked up: a join may read all that is claimed
        ) AS h
        CROSS JOIN LATERAL (
            SELECT q.visits, q.in_flight FROM {schema}.lane_state AS q
            WHERE q.partition = h.partition AND q.lane = h.lane ORDER BY q.version DESC LIMIT 1
        ) AS l
        WHERE c.fence = _fence ORDER BY h.priority DESC, h.position
    ) AS i;
END
$$;

-- name: renew
-- INV-2. Meets take-over on the claim's row: the lease must be live and must not have ended.
CREATE OR REPLACE FUNCTION {schema}.renew(
    _format integer, _given bigint, _fence bigint, _token bigint, _lease bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _now bigint := {schema}.store_time(_given);
    _expires_at bigint;
BEGIN
    PERFORM {schema}.check_format(_format);
    UPDATE {schema}.claim SET expires_at = greatest(expires_at, _now + _lease)  -- also when the clock stepped back
    WHERE fence = _fence AND token = _token AND NOT lost AND expires_at > _now
    RETURNING expires_at INTO _expires_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION '%', coalesce((
            SELECT CASE WHEN lost THEN 'lost' ELSE 'ended' END || ' ' || (_now - expires_at)
            FROM {schema}.claim WHERE fence = _fence AND token = _token
        ), 'unknown 0') USING ERRCODE = 'SW001';
    END IF;
    RETURN _expires_at;
END
$$;

-- name: settle_done
-- INV-3, INV-5. What most settlements are made of: items that were started and are done for good, and lanes that
-- have room again. Nested loops are off for the sake of the results, which would be searched for every item; a look-up
-- of a lane can be nothing else.
CREATE OR REPLACE FUNCTION {schema}.settle_done(
    s {schema}.partition_state, _fence bigint, _positions bigint[], _results text[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- As values of their own: a field of a record costs several times as much, and these are asked for with every row.
    _partition smallint := s.partition;
    _version bigint := s.version + 1;
    _time bigint := s.time;
    _min_interval bigint;
    _concurrency integer;
    _named bigint[] := CASE WHEN cardinality(_results) > 0 THEN _positions END;
    _count integer;
    _first bigint;
BEGIN
    SELECT min_interval, concurrency INTO STRICT _min_interval, _concurrency FROM {schema}.frontier;
    WITH h AS (
        DELETE FROM {schema}.claimed
        WHERE partition = _partition AND fence = _fence AND position = ANY (_positions)
        RETURNING position, span, lane, priority, origin, key, payload
    ), done AS (
        INSERT INTO {schema}.done (position, settled_at, span, lane, partition, priority, origin, key, payload, result)
        SELECT h.position, _time, h.span, h.lane, _partition, h.priority, h.origin, h.key, h.payload, m.result
        FROM h LEFT JOIN unnest(_named, _results) AS m(position, result) ON m.position = h.position
    ), freed AS (
        SELECT
            o.*, o.in_flight - d.items AS now_in_flight, o.visits + d.items AS now_visits,
            CASE WHEN coalesce(o.concurrency, _concurrency) = 1 THEN _time ELSE o.last_at END AS now_last_at,
            {schema}.lane_level(
                o.counts, o.paused, coalesce(o.concurrency, _concurrency), o.in_flight - d.items
            ) AS now_level
        FROM (SELECT h.lane, count(*)::integer AS items FROM h GROUP BY h.lane) AS d
        CROSS JOIN LATERAL (
            SELECT l.ctid AS row, l.* FROM {schema}.lane_state AS l
            WHERE l.partition = _partition AND l.lane = d.lane
            ORDER BY l.version DESC LIMIT 1
        ) AS o
    ), left_lanes AS (
        DELETE FROM {schema}.lane_state WHERE ctid = ANY (ARRAY(SELECT o.row FROM freed AS o))
    ), placed AS (
        INSERT INTO {schema}.lane_state (
            version, ready_at, last_at, blocked_until, min_interval, lane, in_flight, taken, visits, concurrency,
            partition, level, paused, counts, heads
        )
        SELECT
            _version,
            {schema}.lane_ready_at(
                CASE WHEN o.now_level = o.level THEN o.ready_at ELSE _time END,
                o.blocked_until, o.now_last_at, coalesce(o.min_interval, _min_interval)
            ),
            o.now_last_at, o.blocked_until, o.min_interval, o.lane, o.now_in_flight, o.taken, o.now_visits,
            o.concurrency, _partition, o.now_level, o.paused, o.counts, o.heads
        FROM freed AS o
        RETURNING ready_at, level
    )
    SELECT (SELECT count(*) FROM h), min(p.ready_at) INTO _count, _first FROM placed AS p WHERE p.level IS NOT NULL;
    s.version := _version;
    s.claimed := s.claimed - _count;
    s.done := s.done + _count;
    s.visits := s.visits + _count;
    s.next_ready_at := least(s.next_ready_at, _first);
    RETURN s;
END
$$;

-- name: settle_items
-- INV-5. The same without the lanes, of which one is returned for each item: they are placed with what was discovered.
CREATE OR REPLACE FUNCTION {schema}.settle_items(
    s {schema}.partition_state, _fence bigint, _positions bigint[], _results text[]
) RETURNS integer[]
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _partition smallint := s.partition;
    _time bigint := s.time;
    _named bigint[] := CASE WHEN cardinality(_results) > 0 THEN _positions END;
    _lanes integer[];
BEGIN
    WITH h AS (
        DELETE FROM {schema}.claimed
        WHERE partition = _partition AND fence = _fence AND position = ANY (_positions)
        RETURNING position, span, lane, priority, origin, key, payload
    ), done AS (
        INSERT INTO {schema}.done (position, settled_at, span, lane, partition, priority, origin, key, payload, result)
        SELECT h.position, _time, h.span, h.lane, _partition, h.priority, h.origin, h.key, h.payload, m.result
        FROM h LEFT JOIN unnest(_named, _results) AS m(position, result) ON m.position = h.position
    )
    SELECT coalesce(array_agg(h.lane), '{}') INTO _lanes FROM h;
    RETURN _lanes;
END
$$;

-- name: settle_other
-- INV-3, INV-5. Every other outcome: retries, revisits, what is given up, given back or split, and what was done without
-- being started.
CREATE OR REPLACE FUNCTION {schema}.settle_other(
    s {schema}.partition_state, _fence bigint, _positions bigint[], _kinds smallint[], _delays bigint[],
    _results text[], _reasons text[], _errors text[], _starteds boolean[], _payloads text[], _rest_hashes bytea[],
    _rest_keys text[], _rest_payloads text[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _sum record;
BEGIN
    WITH h AS (
        SELECT
            m.*, c.ctid AS row, c.span, c.lane, c.priority, c.attempts, c.losses, c.origin, c.key,
            c.payload AS old_payload, c.reason AS old_reason, c.error AS old_error,
            m.kind = 0 AND m.delay IS NULL AS whole, m.kind IN (0, 1, 3) AND m.delay IS NOT NULL AS later,
            (m.kind = 3 AND m.delay IS NULL) OR (m.kind = 4 AND c.span = 1) AS back, m.kind = 4 AND c.span > 1 AS parts,
            m.kind = 4 OR (m.kind = 3 AND m.delay IS NULL) AS waits,
            sum((m.kind = 4 OR (m.kind = 3 AND m.delay IS NULL))::integer) OVER (ORDER BY m.ord) - 1 AS nth
        FROM unnest(
            _positions, _kinds, _delays, _results, _reasons, _errors, _starteds, _payloads, _rest_hashes, _rest_keys,
            _rest_payloads
        ) WITH ORDINALITY AS m(
            position, kind, delay, result, reason, error, started, payload, rest_hash, rest_key, rest_payload, ord
        )
        CROSS JOIN LATERAL (
            SELECT i.ctid, i.* FROM {schema}.claimed AS i
            WHERE i.partition = s.partition AND i.fence = _fence AND i.position = m.position
            LIMIT 1  -- keeps it a look-up each: a join would read the whole claim for every part of it that is settled
        ) AS c
    ), gone AS (
        DELETE FROM {schema}.claimed WHERE ctid = ANY (ARRAY(SELECT h.row FROM h))
    ), done AS (
        INSERT INTO {schema}.done (position, settled_at, span, lane, partition, priority, origin, key, payload, result)
        SELECT h.position, s.time, CASE WHEN h.parts THEN h.span / 2 ELSE h.span END, h.lane, s.partition, h.priority,
            h.origin, h.key, CASE WHEN h.parts THEN h.payload ELSE h.old_payload END, h.result
        FROM h WHERE h.parts OR h.whole
    ), later AS (
        INSERT INTO {schema}.delayed (
            due_at, position, span, lane, partition, priority, attempts, losses, revisit, origin, settled_at, key,
            payload, result, reason, error
        )
        SELECT s.time + h.delay, h.position, h.span, h.lane, s.partition, h.priority,
            CASE h.kind WHEN 0 THEN 0 WHEN 1 THEN h.attempts + 1 ELSE h.attempts END,
            CASE h.kind WHEN 0 THEN 0 ELSE h.losses END, h.kind = 0, h.origin,
            CASE WHEN h.kind = 0 THEN s.time END, h.key, h.old_payload, h.result,
            CASE h.kind WHEN 3 THEN h.old_reason ELSE h.reason END, CASE h.kind WHEN 3 THEN h.old_error ELSE h.error END
        FROM h WHERE h.later
    ), dead AS (
        INSERT INTO {schema}.dead (
            position, settled_at, span, lane, partition, priority, attempts, origin, key, payload, reason, error
        )
        SELECT h.position, s.time, h.span, h.lane, s.partition, h.priority, h.attempts + 1, h.origin, h.key,
            h.old_payload, h.reason, h.error
        FROM h WHERE h.kind = 2
    ), ready AS (
        INSERT INTO {schema}.item (
            place, position, span, lane, partition, rank, attempts, losses, origin, key, payload, reason, error
        )
        SELECT s.next_place + h.nth, h.position, h.span, h.lane, s.partition, (7 - h.priority) * 2, h.attempts,
            h.losses, h.origin, h.key, CASE WHEN h.kind = 4 THEN h.rest_payload ELSE h.old_payload END, h.old_reason, h.old_error
        FROM h WHERE h.back
        UNION ALL
        SELECT s.next_place + h.nth, h.position + h.span / 2, h.span - h.span / 2, h.lane, s.partition,
            (7 - h.priority) * 2 + 1, 0, 0, NULL, h.rest_key, h.rest_payload, NULL, NULL
        FROM h WHERE h.parts
    ), known AS (
        INSERT INTO {schema}.seen (position, partition, hash)
        SELECT h.position + h.span / 2, s.partition, h.rest_hash FROM h WHERE h.parts
    )
    SELECT
        count(*)::integer AS items, count(DISTINCT h.position) AS places,
        count(*) FILTER (WHERE h.parts OR h.whole) AS done,
        count(*) FILTER (WHERE h.later) AS delayed,
        count(*) FILTER (WHERE h.kind = 2) AS dead,
        count(*) FILTER (WHERE h.waits) AS ready,
        count(*) FILTER (WHERE h.kind = 0 AND h.started) AS visited,
        min(s.time + h.delay) AS first_due,
        array_agg(h.lane) AS lanes, array_agg(h.priority) AS levels, array_agg(h.waits::integer) AS waits,
        array_agg(h.started) AS stamps, array_agg((h.kind = 0 AND h.started)::integer) AS visits
    INTO _sum FROM h;
    IF _sum.items > 0 THEN
        s.claimed := s.claimed - _sum.places;
        s.done := s.done + _sum.done;
        s.delayed := s.delayed + _sum.delayed;
        s.dead := s.dead + _sum.dead;
        s.visits := s.visits + _sum.visited;
        s.ready := s.ready + _sum.ready;
        s.next_place := s.next_place + _sum.ready;
        s.next_ready_at := least(s.next_ready_at, _sum.first_due);
        s := {schema}.change_lanes(
            s, _sum.lanes, _sum.levels, _sum.waits, array_fill(-1, ARRAY[_sum.items]), _sum.stamps,
            _sum.visits, 'settle');
    END IF;
    RETURN s;
END
$$;

-- name: learn
-- In the order of their keys, so that two who learn the same things do not wait for each other.
CREATE OR REPLACE FUNCTION {schema}.learn(_format integer, _keys text[], _values text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET lock_timeout TO '30s' AS $$
BEGIN
    PERFORM {schema}.check_format(_format);
    INSERT INTO {schema}.fact (key, value)
    SELECT f.key, f.value FROM unnest(_keys, _values) AS f(key, value) ORDER BY f.key
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
END
$$;

-- name: settle
-- INV-2, INV-5, INV-6. The fence, then the moves, what they discovered, the outputs and the checkpoint, all or nothing.
-- `_number` rises with each settlement of a claim: one that was applied already answers so and changes nothing. In a
-- caller's transaction it is 0, because such a settlement is never repeated and others overtake it.
CREATE OR REPLACE FUNCTION {schema}.settle(
    _format integer, _given bigint, _partition integer, _fence bigint, _token bigint, _number integer,
    _done bigint[], _done_results text[],
    _positions bigint[], _kinds smallint[], _delays bigint[], _results text[], _reasons text[], _errors text[],
    _starteds boolean[], _payloads text[], _rest_hashes bytea[], _rest_keys text[], _rest_payloads text[],
    _d_hashes bytea[], _d_lanes text[], _d_priorities smallint[], _d_keys text[], _d_payloads text[],
    _d_not_befores bigint[], _d_spans bigint[],
    _o_partitions smallint[], _o_hashes bytea[], _o_lanes text[], _o_priorities smallint[], _o_keys text[],
    _o_payloads text[], _o_not_befores bigint[], _o_spans bigint[],
    _names text[], _old_lengths bigint[], _new_lengths bigint[], _fact_keys text[], _fact_values text[],
    OUT now bigint, OUT discovered bigint, OUT checkpoint bigint, OUT version bigint
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
#variable_conflict use_column
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition(_partition, _format, _given);
    s {schema}.partition_state := _old;
    _items integer := cardinality(_done) + cardinality(_positions);
    _freed integer[] := '{}';
    _length bigint;
BEGIN
    UPDATE {schema}.claim AS c SET number = greatest(c.number, _number)
    WHERE c.fence = _fence AND c.token = _token AND NOT c.lost AND (c.number < _number OR _number = 0);
    IF NOT FOUND THEN
        PERFORM 1 FROM {schema}.claim AS c
        WHERE c.fence = _fence AND c.token = _token AND c.number >= _number AND _number > 0;
        IF FOUND THEN
            now := s.time; discovered := 0; checkpoint := s.checkpoint; version := s.version;
            RETURN;
        END IF;
        RAISE EXCEPTION '%', coalesce((
            SELECT 'lost ' || (s.time - c.expires_at) FROM {schema}.claim AS c
            WHERE c.fence = _fence AND c.token = _token
        ), 'unknown 0') USING ERRCODE = 'SW001';
    END IF;

    IF cardinality(_done) > 0 AND cardinality(_d_hashes) > 0 THEN
        _freed := {schema}.settle_items(s, _fence, _done, _done_results);
        s.claimed := s.claimed - cardinality(_freed);
        s.done := s.done + cardinality(_freed);
        s.visits := s.visits + cardinality(_freed);
    ELSIF cardinality(_done) > 0 THEN
        s := {schema}.settle_done(s, _fence, _done, _done_results);
    END IF;
    IF cardinality(_positions) > 0 THEN
        s := {schema}.settle_other(
            s, _fence, _positions, _kinds, _delays, _results, _reasons, _errors, _starteds, _payloads, _rest_hashes,
            _rest_keys, _rest_payloads);
    END IF;
    IF _old.claimed - s.claimed <> _items THEN
        RAISE EXCEPTION 'holds % of %', _old.claimed - s.claimed, _items USING ERRCODE = 'SW002';
    END IF;
    -- The look walks what was deleted a moment ago, so it is spared where nobody holds anything.
    IF _items > 0 AND (s.claimed = 0 OR NOT EXISTS (
        SELECT 1 FROM {schema}.claimed AS c
        WHERE c.partition = s.partition AND c.fence = _fence AND c.position > s.checkpoint
    )) THEN
        s.claims := array_remove(s.claims, _fence);
    END IF;

    discovered := s.ready + s.delayed;
    IF cardinality(_d_hashes) > 0 THEN
        s := {schema}.take_in(
            s, _d_hashes, _d_lanes, _d_priorities, _d_keys, _d_payloads, _d_not_befores, _d_spans, _freed);
    END IF;
    discovered := s.ready + s.delayed - discovered;

    IF cardinality(_o_partitions) > 0 THEN
        -- A mark by which this transaction has long ended is that of an older cluster, before a restore, and whoever
        -- drains once its number has been reached would pass by what lies below: it goes where everybody looks.
        INSERT INTO {schema}.inbox (
            xid, partition, size, hashes, lanes, priorities, keys, payloads, not_befores, spans
        )
        SELECT
            (
                SELECT CASE
                    WHEN t.inbox_from > pg_current_xact_id() AND pg_current_xact_id() <> ALL (t.inbox_open)
                    THEN '9223372036854775807' ELSE pg_current_xact_id()
                END
                FROM {schema}.partition_state AS t WHERE t.partition = o.partition ORDER BY t.version DESC LIMIT 1
            ),
            o.partition, count(*), array_agg(o.hash), array_agg(o.lane), array_agg(o.priority), array_agg(o.key),
            array_agg(o.payload), array_agg(o.not_before), array_agg(o.span)
        FROM unnest(
            _o_partitions, _o_hashes, _o_lanes, _o_priorities, _o_keys, _o_payloads, _o_not_befores, _o_spans
        ) AS o(partition, hash, lane, priority, key, payload, not_before, span)
        LEFT JOIN LATERAL (
            SELECT true AS known FROM {schema}.seen AS e
            WHERE e.partition = o.partition AND e.hash = o.hash LIMIT 1
        ) AS k ON true
        WHERE k.known IS NULL
        GROUP BY o.partition;
        -- Where nothing else is ready, somebody may sleep. Their partition is not ours to write to, so the rate is bounded
        -- by our own, and they are looked at no more often (rule 15).
        IF FOUND AND s.notified_at + 100000 < s.time AND EXISTS (
            SELECT 1 FROM (SELECT DISTINCT o.partition FROM unnest(_o_partitions) AS o(partition)) AS o
            CROSS JOIN LATERAL (
                SELECT t.next_ready_at FROM {schema}.partition_state AS t
                WHERE t.partition = o.partition ORDER BY t.version DESC LIMIT 1
            ) AS t
            WHERE t.next_ready_at IS NULL OR t.next_ready_at > s.time
        ) THEN
            s.notified_at := s.time;
            PERFORM pg_notify('swath', {schema_literal});
        END IF;
    END IF;

    FOR i IN 1 .. cardinality(_names) LOOP
        -- Whoever else writes this file waits here, and looks at its length afterwards (rule 1).
        PERFORM pg_advisory_xact_lock(hashtextextended({schema_literal} || '/' || _names[i], 0));
        SELECT o.length INTO _length FROM {schema}.output AS o WHERE o.name = _names[i] ORDER BY o.length DESC LIMIT 1;
        IF coalesce(_length, 0) <> _old_lengths[i] THEN
            RAISE EXCEPTION '% % %', coalesce(_length, 0), _old_lengths[i], _names[i] USING ERRCODE = 'SW003';
        END IF;
        DELETE FROM {schema}.output AS o WHERE o.name = _names[i] AND o.length = _length;
        INSERT INTO {schema}.output (name, length) VALUES (_names[i], _new_lengths[i]);
    END LOOP;

    IF cardinality(_fact_keys) > 0 THEN
        PERFORM {schema}.learn(_format, _fact_keys, _fact_values);
    END IF;

    -- Only then: what is still waiting just above it would be found again, behind all that is dead there.
    IF s.checkpoint + 1 = ANY (_done) OR _kinds[array_position(_positions, s.checkpoint + 1)] IN (0, 2, 4) THEN
        s := {schema}.advance_checkpoint(s);
    END IF;
    PERFORM {schema}.write_state(s, _old, true);
    now := s.time; checkpoint := s.checkpoint; version := s.version;
END
$$;

-- name: change_lane
-- The lane exists from now on, whether it has items or not. Null leaves a value as it is; -1 goes back to the default.
CREATE OR REPLACE FUNCTION {schema}.change_lane(
    _format integer, _given bigint, _partition integer, _name text, _min_interval bigint, _concurrency integer,
    _paused boolean, _blocked_until bigint, _at_least boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition(_partition, _format, _given);
    s {schema}.partition_state := _old;
    l {schema}.lane_state;
    _default integer;
    _counted boolean;  -- whether starts counted before
    _number integer;
    _version bigint;
BEGIN
    SELECT concurrency INTO STRICT _default FROM {schema}.frontier;
    SELECT number INTO _number FROM {schema}.lane WHERE partition + 0 = s.partition AND name = _name;
    IF NOT FOUND THEN
        s.lanes := s.lanes + 1;
        _number := s.lanes;
        INSERT INTO {schema}.lane (number, partition, name) VALUES (_number, s.partition, _name);
    END IF;
    SELECT * INTO l FROM {schema}.lane_state AS q
    WHERE q.partition = s.partition AND q.lane = _number ORDER BY q.version DESC LIMIT 1;
    _version := l.version;
    s.version := s.version + 1;
    l.version := s.version;
    l.partition := s.partition;
    l.lane := _number;
    l.ready_at := coalesce(l.ready_at, 0);
    l.last_at := coalesce(l.last_at, 0);
    l.in_flight := coalesce(l.in_flight, 0);
    l.taken := coalesce(l.taken, 0);
    l.visits := coalesce(l.visits, 0);
    l.counts := coalesce(l.counts, '{0,0,0,0,0,0,0,0}');
    l.min_interval := nullif(coalesce(_min_interval, l.min_interval), -1);
    _counted := coalesce(l.concurrency, _default) <> 1;
    l.concurrency := nullif(coalesce(_concurrency, l.concurrency), -1);
    IF l.in_flight > 0 AND NOT _counted AND coalesce(l.concurrency, _default) <> 1 THEN
        l.last_at := s.time;  -- its start was not written down: it counts as started now
    END IF;
    l.paused := coalesce(_paused, l.paused, false);
    IF _at_least THEN
        _blocked_until := greatest(_blocked_until, l.blocked_until);
    END IF;
    l.blocked_until := coalesce(_blocked_until, l.blocked_until, 0);
    DELETE FROM {schema}.lane_state AS q
    WHERE q.partition = s.partition AND q.lane = _number AND q.version = _version;
    INSERT INTO {schema}.lane_state SELECT (l).*;
    s := {schema}.change_lanes(s, ARRAY[_number], ARRAY[0::smallint], ARRAY[0], ARRAY[0], NULL, NULL, 'limits');
    PERFORM {schema}.write_state(s, _old, true);
    IF _paused THEN
        UPDATE {schema}.frontier SET signal_version = signal_version + 1;
    END IF;
END
$$;

-- name: change_settings
-- INV-3. Where starts begin to count, what is in flight in lanes without a concurrency of their own counts as started now.
-- They are found from what is claimed, however many lanes there are, with all partitions locked: in order, and before the
-- frontier's row, as `change_lane` does. For a shorter interval, too: then whoever places a lane by the one of before has
-- committed when the lanes that wait are told.
CREATE OR REPLACE FUNCTION {schema}.change_settings(
    _format integer, _given bigint, _min_interval bigint, _concurrency integer, _max_attempts integer, _paused boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state;
    _counts boolean;  -- whether starts begin to count
    _partition integer;
    _lanes integer[];
BEGIN
    IF _concurrency <> 1 OR _min_interval <= (SELECT min_interval FROM {schema}.frontier) THEN
        PERFORM 1 FROM {schema}.partition ORDER BY partition FOR UPDATE;
    END IF;
    PERFORM {schema}.check_format(_format);
    _counts := _concurrency <> 1 AND (SELECT concurrency = 1 FROM {schema}.frontier);
    UPDATE {schema}.frontier SET
        min_interval = coalesce(_min_interval, min_interval),
        concurrency = coalesce(_concurrency, concurrency),
        max_attempts = coalesce(_max_attempts, max_attempts),
        paused = coalesce(_paused, paused),
        signal_version = signal_version + (_paused IS NOT NULL)::integer;
    IF _counts THEN
        FOR _partition IN SELECT partition FROM {schema}.partition LOOP
            _old := {schema}.read_partition(_partition, _format, _given);
            _lanes := ARRAY(
                SELECT l.lane FROM (
                    SELECT DISTINCT c.lane FROM {schema}.claimed AS c
                    WHERE c.partition = _partition AND c.fence = ANY (_old.claims)
                ) AS c
                CROSS JOIN LATERAL (
                    SELECT q.lane, q.concurrency FROM {schema}.lane_state AS q
                    WHERE q.partition = _partition AND q.lane = c.lane ORDER BY q.version DESC LIMIT 1
                ) AS l
                WHERE l.concurrency IS NULL
            );
            IF cardinality(_lanes) > 0 THEN
                PERFORM {schema}.write_state({schema}.change_lanes(
                    _old, _lanes, NULL, NULL, NULL, array_fill(true, ARRAY[cardinality(_lanes)]), NULL, 'count'
                ), _old, false);
            END IF;
        END LOOP;
    END IF;
    PERFORM pg_notify('swath', {schema_literal});
END
$$;

-- name: place_lanes
-- INV-3. Lanes that waited under other defaults take the place that is theirs under those of now.
CREATE OR REPLACE FUNCTION {schema}.place_lanes(_format integer, _given bigint, _partition integer, _lanes bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition(_partition, _format, _given);
BEGIN
    PERFORM {schema}.write_state(
        {schema}.change_lanes(_old, _lanes::integer[], NULL, NULL, NULL, NULL, NULL, 'limits'), _old, true
    );
END
$$;

-- name: reopen
-- INV-7. Done or dead items are ready again, with no attempts counted and under new positions.
CREATE OR REPLACE FUNCTION {schema}.reopen(_format integer, _given bigint, _partition integer, _positions bigint[])
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition(_partition, _format, _given);
    s {schema}.partition_state := _old;
    _sum record;
BEGIN
    WITH done AS (
        DELETE FROM {schema}.done WHERE ctid = ANY (ARRAY(
            SELECT d.ctid FROM unnest(_positions) AS p(position) CROSS JOIN LATERAL (
                SELECT i.ctid FROM {schema}.done AS i
                WHERE i.partition = s.partition AND i.position = p.position LIMIT 1
            ) AS d
        ))
        RETURNING position, span, lane, priority, origin, key, payload, false AS was_dead
    ), dead AS (
        DELETE FROM {schema}.dead WHERE ctid = ANY (ARRAY(
            SELECT d.ctid FROM unnest(_positions) AS p(position) CROSS JOIN LATERAL (
                SELECT i.ctid FROM {schema}.dead AS i
                WHERE i.partition = s.partition AND i.position = p.position LIMIT 1
            ) AS d
        ))
        RETURNING position, span, lane, priority, origin, key, payload, true AS was_dead
    ), opened AS (
        SELECT u.*, row_number() OVER w - 1 AS nth,
            s.next_position + sum(u.span) OVER w::bigint - u.span AS new_position,
            coalesce(u.origin, u.position) AS new_origin
        FROM (SELECT * FROM done UNION ALL SELECT * FROM dead) AS u
        WINDOW w AS (ORDER BY array_position(_positions, u.position))
    ), renumbered AS (
        INSERT INTO {schema}.moved (origin, position, partition)
        SELECT o.new_origin, o.new_position, s.partition FROM opened AS o
        ON CONFLICT (partition, origin) DO UPDATE SET position = excluded.position
    ), ready AS (
        INSERT INTO {schema}.item (place, position, span, lane, partition, rank, attempts, origin, key, payload)
        SELECT s.next_place + o.nth, o.new_position, o.span, o.lane, s.partition, (7 - o.priority) * 2 + 1, 0,
            o.new_origin, o.key, o.payload
        FROM opened AS o
    )
    SELECT count(*)::integer AS items, count(*) FILTER (WHERE o.was_dead) AS dead, sum(o.span)::bigint AS positions,
        count(*) FILTER (WHERE o.was_dead AND o.position <= s.checkpoint) AS below,
        array_agg(o.lane) AS lanes, array_agg(o.priority) AS levels
    INTO _sum FROM opened AS o;
    IF _sum.items = 0 THEN
        RETURN 0;
    END IF;
    s.dead := s.dead - _sum.dead;
    s.done := s.done - (_sum.items - _sum.dead);
    s.checkpoint_dead := s.checkpoint_dead - _sum.below;
    s.ready := s.ready + _sum.items;
    s.next_position := s.next_position + _sum.positions;
    s.next_place := s.next_place + _sum.items;
    s := {schema}.change_lanes(
        s, _sum.lanes, _sum.levels, array_fill(1, ARRAY[_sum.items]), array_fill(0, ARRAY[_sum.items]), NULL, NULL,
        'add');
    PERFORM {schema}.write_state(s, _old, true);
    RETURN _sum.items;
END
$$;

-- name: lane_now
-- Lanes as they are now, for questions.
CREATE OR REPLACE VIEW {schema}.lane_now AS
SELECT
    n.partition, n.number, n.name, s.min_interval, s.concurrency, coalesce(s.paused, false) AS paused,
    coalesce(s.blocked_until, 0) AS blocked_until,
    coalesce((SELECT sum(c) FROM unnest(s.counts) AS c), 0)::integer AS waiting,
    coalesce(s.in_flight, 0) AS in_flight, CASE WHEN s.level IS NOT NULL THEN s.ready_at END AS ready_at,
    coalesce(s.last_at, 0) AS last_at, coalesce(s.visits, 0) AS visits
FROM {schema}.lane AS n
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.lane_state AS l
    WHERE l.partition = n.partition AND l.lane = n.number ORDER BY l.version DESC LIMIT 1
) AS s ON true;

-- name: partition_now
CREATE OR REPLACE VIEW {schema}.partition_now AS
SELECT s.*
FROM {schema}.partition AS p
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.partition_state AS s WHERE s.partition = p.partition ORDER BY s.version DESC LIMIT 1
) AS s;
