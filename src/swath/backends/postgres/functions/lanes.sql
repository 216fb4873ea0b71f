-- name: advance_heads
-- Moves the heads of a deep lane: for both ranks of a priority, the first place at which a live item can be.
CREATE FUNCTION {schema}.advance_heads_{set}(_heads bigint[], _rank integer, _returned bigint, _fresh bigint)
RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    _heads := coalesce(_heads, array_fill(0::bigint, ARRAY[{RANKS}]));
    _heads[_rank + 1] := coalesce(_returned + 1, _heads[_rank + 1]);
    _heads[_rank + 2] := coalesce(_fresh + 1, _heads[_rank + 2]);
    RETURN _heads;
END
$$;

-- name: lane_level
-- INV-3. Returns the level under which a lane is queued: the highest priority with waiting items, or null if none may
-- start. This function and `lane_ready_at` alone decide whether and where a lane is queued. PostgreSQL inlines both.
CREATE FUNCTION {schema}.lane_level_{set}(_counts integer[], _paused boolean, _concurrency integer, _in_flight integer)
RETURNS smallint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE
        WHEN _paused OR (_concurrency > 0 AND _in_flight >= _concurrency) THEN NULL
        WHEN _counts[8] > 0 THEN 7 WHEN _counts[7] > 0 THEN 6 WHEN _counts[6] > 0 THEN 5 WHEN _counts[5] > 0 THEN 4
        WHEN _counts[4] > 0 THEN 3 WHEN _counts[3] > 0 THEN 2 WHEN _counts[2] > 0 THEN 1 WHEN _counts[1] > 0 THEN 0
    END)::smallint
$$;

-- name: lane_ready_at
-- INV-3. Returns when a lane is ready: at its turn, but not before its block ends and its interval has passed.
CREATE FUNCTION {schema}.lane_ready_at_{set}(_turn bigint, _blocked_until bigint, _last_at bigint, _min_interval bigint)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(
        _turn, _blocked_until, CASE WHEN _last_at > 0 AND _min_interval > 0 THEN _last_at + _min_interval ELSE 0 END
    )
$$;

-- name: change_lanes
-- INV-3. Updates lanes that got items or whose items came back. Each change adds to the waiting items of a priority,
-- to the items in flight and to the visits of a lane. `_stamps` asks to restart the interval: always for 'back'
-- (taken over from a lost worker) and 'count' (starts begin to count while items are in flight), for 'settle' if the
-- concurrency is 1. A claim updates the lanes it takes from by itself, because it has read their rows.
CREATE FUNCTION {schema}.change_lanes_{set}(
    s {schema}.partition_state, _lanes integer[], _levels smallint[], _waits integer[], _flights integer[],
    _stamps boolean[], _visits integer[], _cause text
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- Copies of fields that each row needs: a field of a record costs several times as much as a variable.
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
            o.heads, o.counters, coalesce(o.taken, 0) AS taken, coalesce(o.paused, false) AS paused,
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
        SELECT c.*, {schema}.lane_level_{set}(c.counts, c.paused, c.at_once, c.in_flight) AS level FROM changed AS c
    ), gone AS (
        DELETE FROM {schema}.lane_state WHERE ctid = ANY (ARRAY(SELECT c.old_row FROM changed AS c))
    ), placed AS (
        INSERT INTO {schema}.lane_state (
            version, ready_at, last_at, blocked_until, min_interval, lane, in_flight, taken, visits, concurrency,
            partition, level, paused, counts, heads, counters
        )
        SELECT
            _version,
            -- A lane whose level does not change keeps its turn.
            {schema}.lane_ready_at_{set}(
                CASE WHEN p.level = p.old_level AND _cause <> 'limits' THEN p.old_ready_at ELSE _time END,
                p.blocked_until, p.last_at, p.pause
            ),
            p.last_at, p.blocked_until, p.min_interval, p.lane, p.in_flight, p.taken, p.visits, p.concurrency,
            _partition, p.level, p.paused, p.counts, p.heads, p.counters
        FROM paced AS p
        RETURNING ready_at, level
    )
    SELECT min(p.ready_at) INTO _first FROM placed AS p WHERE p.level IS NOT NULL;
    s.version := _version;
    s.next_ready_at := least(s.next_ready_at, _first);
    RETURN s;
END
$$;

-- name: next_level
-- Returns the first level between two ends that has a lane ready, or null.
CREATE FUNCTION {schema}.next_level_{set}(s {schema}.partition_state, _from integer, _to integer)
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

-- name: compute_next_ready
-- INV-8. Computes when this partition has something ready next. Also raises the floors to the first live entry, but
-- not above the present time, so that later scans skip the dead entries before it.
CREATE FUNCTION {schema}.compute_next_ready_{set}(s {schema}.partition_state) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _first bigint;
BEGIN
    SELECT
        -- The look-ups keep the order of the levels. Sorting would cost as much as the look-ups.
        min(l.ready_at), array_agg(least(l.ready_at, s.time)),
        array_agg(CASE WHEN l.ready_at <= s.time THEN l.lane ELSE 0 END),
        array_agg(CASE WHEN l.ready_at <= s.time THEN l.version ELSE 0 END)
    INTO _first, s.ready_floor, s.ready_lanes, s.ready_versions
    FROM generate_series(0, {TOP_PRIORITY}) AS g(level)
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
