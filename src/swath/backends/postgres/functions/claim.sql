-- name: drain_delayed
-- Makes delayed items ready that are due: retries, items with a not-before time, revisits. A revisit is new work, so
-- it gets a new position.
CREATE FUNCTION {schema}.drain_delayed_{set}(s {schema}.partition_state, _most integer)
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
            ({TOP_PRIORITY} - n.priority) * 2 + (n.attempts = 0)::integer, n.attempts, n.losses, n.new_origin, n.key,
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
    RETURN {schema}.change_lanes_{set}(
        s, _lanes, _levels, array_fill(1, ARRAY[_count]), array_fill(0, ARRAY[_count]), NULL, NULL, 'add');
END
$$;

-- name: claim
-- INV-1, INV-3, INV-8. Goes through partitions in the order given. A partition that another transaction has locked is
-- skipped and listed in `skipped`, except `_wait_for`, whose lock the claim waits for. In each partition: take over
-- expired claims, drain the inbox, make due items ready, then take items from lanes by priority and turn, from each
-- lane as many as may start. Nested loops are off: they would search the heads of deep lanes once per lane. A LATERAL
-- look-up still is a nested loop.
CREATE FUNCTION {schema}.claim_{set}(
    _format integer, _test_time bigint, _limit integer, _lease bigint, _worker text, _token bigint, _order smallint[],
    _wait_for integer, _most_partitions integer, _most_delayed integer, _most_inbox integer,
    OUT now bigint, OUT fence bigint, OUT expires_at bigint, OUT next_ready_at bigint, OUT skipped smallint[],
    OUT recovered integer, OUT died integer, OUT paused boolean, OUT signal_version bigint,
    OUT min_interval bigint, OUT concurrency integer, OUT max_attempts integer, OUT versions bigint[],
    OUT starts_count boolean,
    -- The items, in runs of one partition and one priority, and lane by lane within a run. `lane_in_flights` counts
    -- the items of the lane that were in flight before the run. From `payloads` on, a column is null if all items
    -- have the usual value, which is the common case.
    OUT partitions smallint[], OUT priorities smallint[], OUT counts integer[],
    OUT positions bigint[], OUT lanes text[], OUT keys text[], OUT visits integer[], OUT payloads text[],
    OUT attempts smallint[], OUT losses smallint[], OUT spans bigint[], OUT lane_in_flights integer[],
    OUT lane_counters text[]
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
    _passed integer := 0;  -- lanes that were moved back because their limits changed
    _most_passed CONSTANT integer := {MOST_LANES_PUT_OFF};
    _look integer;  -- the least number of lanes to read
    _last_ready_at bigint;
    _last_lane integer;
    _last_version bigint;
    -- Copies of fields that each row needs: a field of a record costs several times as much as a variable.
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
        RAISE EXCEPTION 'the store has format %', f.format USING ERRCODE = {WRONG_FORMAT};
    END IF;
    now := {schema}.store_time_{set}(_test_time);
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
            next_ready_at := now;  -- enough work under these locks; the next claim continues at once
            EXIT;
        END IF;
        SELECT * INTO STRICT _old FROM {schema}.partition_state
        WHERE partition = _partition ORDER BY version DESC LIMIT 1;
        IF coalesce(_old.next_ready_at > greatest(now, _old.time + 1), true) AND NOT {schema}.has_inbox_{set}(_old) THEN
            next_ready_at := least(next_ready_at, _old.next_ready_at);
            CONTINUE;
        END IF;
        PERFORM 1 FROM {schema}.partition WHERE partition = _partition FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            skipped := skipped || _partition;
            CONTINUE;
        END IF;
        _old := {schema}.read_partition_{set}(_partition, _format, _test_time);
        s := _old;
        -- INV-3: read after the lock. `change_settings` holds all locks when it changes how intervals run.
        SELECT d.min_interval, d.concurrency INTO STRICT _min_interval, _concurrency FROM {schema}.frontier AS d;
        IF fence > 0 AND s.last_fence > fence THEN
            skipped := skipped || _partition;  -- a later claim was here first, and the fences of an item only rise
            CONTINUE;
        END IF;
        IF s.next_expiry <= s.time THEN
            s := {schema}.take_over_{set}(s);
            recovered := recovered + (_old.claimed - s.claimed)::integer;
            died := died + (s.dead - _old.dead)::integer;
            -- Another partition may have declared a claim lost after the clock was read: the lease expired before
            -- that.
            s.time := greatest(s.time, {schema}.store_time_{set}(_test_time));
        END IF;
        _time := s.time;
        -- If the inbox is too full, a claim only drains it, so that it cannot grow without bound.
        _flooded := {schema}.has_inbox_{set}(s);
        FOR i IN 1 .. 5 LOOP
            EXIT WHEN NOT _flooded;
            s := {schema}.drain_inbox_{set}(s, _most_inbox);
            _flooded := {schema}.has_inbox_{set}(s);
            _drains := _drains + 1;
        END LOOP;
        IF s.delayed > 0 THEN
            s := {schema}.drain_delayed_{set}(s, _most_delayed);
        END IF;

        _wanted := _limit - _taken;
        _count := 0;
        _down := true;
        _level := NULL;
        IF NOT _flooded THEN
            SELECT max(g.level), min(g.level) INTO _level, _lowest
            FROM generate_series(0, {TOP_PRIORITY}) AS g(level)
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
            fence := nextval({fence_sequence});
        END IF;
        -- One item in ten is taken from the lowest levels first, so that nothing starves.
        _low := CASE
            WHEN _level > _lowest THEN _wanted / 10 + (s.claims_made % 10 < _wanted % 10)::integer ELSE 0
        END;
        _wanted := _wanted - _low;
        _look := 0;
        WHILE _level IS NOT NULL LOOP
            s.version := s.version + 1;
            _version := s.version;
            _rank := ({TOP_PRIORITY} - _level) * 2;
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
                -- In the order of the lanes and of their items, up to the number wanted: a nested loop keeps the
                -- order of its outer side and stops when it has enough.
                SELECT
                    q.ready_at, q.version, q.visits, q.in_flight, q.counters, n.name,
                    q.at_once <> 1 AND q.pause > 0 AS starts,
                    q.heads IS NOT NULL OR q.taken + least(q.room, q.waiting) >= {DEEP_LANE} AS deep, i.*
                FROM queue AS q
                CROSS JOIN LATERAL (
                    SELECT l.name FROM {schema}.lane AS l WHERE l.partition = _partition AND l.number = q.lane LIMIT 1
                ) AS n
                CROSS JOIN LATERAL (
                    SELECT b.* FROM (
                        (
                            -- Both ranks in one scan, while the lane has no heads yet.
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
                SELECT t.position, claim_{set}.fence, t.span, t.lane, _partition, _level, t.attempts, t.losses,
                    t.origin, t.key, t.payload, t.reason, t.error
                FROM taken AS t
            ), last AS (
                -- The lane of the last item wanted or, if there were fewer items, the last lane.
                (SELECT t.ready_at, t.lane, t.version FROM taken AS t OFFSET greatest(_wanted, 1) - 1 LIMIT 1)
                UNION ALL
                (SELECT q.ready_at, q.lane, q.version FROM queue AS q ORDER BY q.ready_at DESC, q.lane DESC LIMIT 1)
                LIMIT 1
            ), chosen AS (
                -- All lanes up to that one. Those before it gave as many items as they have room for.
                SELECT q.*, CASE
                    WHEN q.lane = (SELECT l.lane FROM last AS l)
                    THEN (SELECT count(*)::integer FROM taken AS t WHERE t.lane = (SELECT l.lane FROM last AS l))
                    ELSE least(q.room, q.waiting)
                END AS takes
                FROM queue AS q WHERE (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                OFFSET 0  -- compute it once
            ), started AS (
                SELECT
                    c.*, c.in_flight + c.takes AS now_in_flight, h.returned, h.fresh,
                    least(c.taken + c.takes, 1000000) AS now_taken,
                    -- Unless the concurrency is 1, the interval runs from the start, not from the settlement.
                    CASE WHEN c.takes > 0 AND c.at_once <> 1 THEN _time ELSE c.last_at END AS started_at,
                    c.counts[:_level] || ARRAY[c.waiting - c.takes] || c.counts[_level + 2:] AS now_counts
                FROM chosen AS c LEFT JOIN (
                    SELECT t.lane, max(t.place) FILTER (WHERE t.rank % 2 = 0) AS returned,
                        max(t.place) FILTER (WHERE t.rank % 2 = 1) AS fresh
                    FROM taken AS t WHERE t.deep GROUP BY t.lane
                ) AS h ON h.lane = c.lane
                OFFSET 0  -- compute it once
            ), left_queue AS (
                DELETE FROM {schema}.lane_state WHERE ctid = ANY (ARRAY(
                    SELECT q.row FROM queue AS q
                    WHERE (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                ))
            ), placed AS (
                -- A lane that still has items goes behind the others.
                INSERT INTO {schema}.lane_state (
                    version, ready_at, last_at, blocked_until, min_interval, lane, in_flight, taken, visits,
                    concurrency, partition, level, paused, counts, heads, counters
                )
                SELECT
                    _version, {schema}.lane_ready_at_{set}(_time, b.blocked_until, b.started_at, b.pause), b.started_at,
                    b.blocked_until, b.min_interval, b.lane, b.now_in_flight, b.now_taken, b.visits, b.concurrency,
                    _partition,
                    {schema}.lane_level_{set}(b.now_counts, b.paused, b.at_once, b.now_in_flight), b.paused,
                    b.now_counts,
                    CASE
                        WHEN b.heads IS NULL AND b.now_taken < {DEEP_LANE} THEN NULL
                        ELSE {schema}.advance_heads_{set}(b.heads, _rank, b.returned, b.fresh)
                    END,
                    b.counters
                FROM started AS b
            )
            SELECT
                count(*)::integer, coalesce(bool_or(t.starts), false),
                (
                    SELECT count(*) FROM queue AS q
                    WHERE q.room = 0 AND (q.ready_at, q.lane) <= (SELECT l.ready_at, l.lane FROM last AS l)
                ),
                (SELECT l.ready_at FROM last AS l), (SELECT l.lane FROM last AS l), (SELECT l.version FROM last AS l),
                claim_{set}.positions || array_agg(t.position), claim_{set}.lanes || array_agg(t.name),
                claim_{set}.keys || array_agg(t.key), claim_{set}.visits || array_agg(t.visits),
                CASE
                    WHEN count(t.payload) > 0 OR claim_{set}.payloads IS NOT NULL
                    THEN coalesce(claim_{set}.payloads, array_fill(NULL::text, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.payload FROM taken AS o)
                END,
                CASE
                    WHEN max(t.attempts) > 0 OR claim_{set}.attempts IS NOT NULL
                    THEN coalesce(claim_{set}.attempts, array_fill(0::smallint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.attempts FROM taken AS o)
                END,
                CASE
                    WHEN max(t.losses) > 0 OR claim_{set}.losses IS NOT NULL
                    THEN coalesce(claim_{set}.losses, array_fill(0::smallint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.losses FROM taken AS o)
                END,
                CASE
                    WHEN max(t.span) > 1 OR claim_{set}.spans IS NOT NULL
                    THEN coalesce(claim_{set}.spans, array_fill(1::bigint, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.span FROM taken AS o)
                END,
                CASE
                    WHEN max(t.in_flight) > 0 OR claim_{set}.lane_in_flights IS NOT NULL
                    THEN coalesce(claim_{set}.lane_in_flights, array_fill(0, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.in_flight FROM taken AS o)
                END,
                CASE
                    WHEN count(t.counters) > 0 OR claim_{set}.lane_counters IS NOT NULL
                    THEN coalesce(claim_{set}.lane_counters, array_fill(NULL::text, ARRAY[_taken + _count]))
                        || ARRAY(SELECT o.counters::text FROM taken AS o)
                END
            INTO _items, _starts, _moved, _last_ready_at, _last_lane, _last_version,
                positions, lanes, keys, visits, payloads, attempts, losses, spans, lane_in_flights, lane_counters
            FROM taken AS t;
            partitions := partitions || _partition;
            priorities := priorities || _level::smallint;
            counts := counts || _items;

            -- All lanes up to the last one have left the queue, or are in it again at the present time or later.
            IF _last_ready_at < _time THEN
                s.ready_floor[_level + 1] := _last_ready_at;
                s.ready_lanes[_level + 1] := _last_lane;
                s.ready_versions[_level + 1] := _last_version;
            END IF;
            _count := _count + _items;
            _wanted := _wanted - _items;
            starts_count := starts_count OR _starts;
            _passed := _passed + _moved;
            _look := CASE WHEN _moved > 0 THEN {LANES_LOOKED_AT} ELSE 0 END;
            IF _wanted > 0 AND _passed >= _most_passed THEN
                _level := NULL;
            ELSIF _wanted > 0 AND _moved > 0 THEN
                CONTINUE;  -- lanes were moved back, so read the next ones of this level
            ELSIF _wanted > 0 THEN
                _level := CASE
                    WHEN _down AND _level > 0 THEN {schema}.next_level_{set}(s, _level - 1, 0)
                    WHEN NOT _down AND _level < {TOP_PRIORITY}
                    THEN {schema}.next_level_{set}(s, _level + 1, {TOP_PRIORITY})
                END;
            ELSIF _down AND _low > 0 THEN
                _down := false;
                _wanted := _low;
                _level := {schema}.next_level_{set}(s, 0, {TOP_PRIORITY});
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
        s := {schema}.compute_next_ready_{set}(s);
        IF _flooded THEN
            s.next_ready_at := s.time;  -- the rest of the inbox may be ready
        END IF;
        next_ready_at := least(next_ready_at, s.next_ready_at);
        PERFORM {schema}.write_state_{set}(s, _old, false);
        versions := versions || _partition::bigint || s.version;
    END LOOP;

    IF cardinality(_held) = 0 THEN
        fence := 0;
        RETURN;
    END IF;
    expires_at := now + _lease;
    -- PostgreSQL sends a reply before the transaction ends. If the network buffers cannot hold it, a client that does
    -- not read would keep the partitions locked. So a large reply leaves out the items, and the client calls
    -- `claimed_items`, which holds no lock.
    IF _taken > {MOST_ITEMS_IN_REPLY} OR pg_column_size(keys) + pg_column_size(lanes)
        + coalesce(pg_column_size(payloads), 0) + coalesce(pg_column_size(lane_counters), 0)
        > {MOST_BYTES_IN_REPLY}
    THEN
        partitions := NULL; priorities := NULL; counts := NULL; positions := NULL; lanes := NULL; keys := NULL;
        payloads := NULL; attempts := NULL; spans := NULL; losses := NULL; visits := NULL; lane_in_flights := NULL;
        lane_counters := NULL;
    END IF;
    -- Each claim deletes a few claims that ended long ago. If more than 100,000 claims are made in an hour, the second
    -- range finds those that the first one left.
    WITH forgotten AS (
        DELETE FROM {schema}.claim AS c
        WHERE c.fence BETWEEN claim_{set}.fence - 100010 AND claim_{set}.fence - 100000
            AND c.expires_at < now - 3600000000
    ), forgotten_later AS (
        DELETE FROM {schema}.claim AS c
        WHERE c.fence BETWEEN claim_{set}.fence - 10000010 AND claim_{set}.fence - 10000000
            AND c.expires_at < now - 3600000000
    )
    INSERT INTO {schema}.claim (fence, token, expires_at, claimed_at, partitions, worker)
    VALUES (claim_{set}.fence, _token, claim_{set}.expires_at, claim_{set}.expires_at - _lease, _held, _worker);
END
$$;
