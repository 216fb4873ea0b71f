-- name: learn
-- Writes facts in the order of their keys, so that two processes that write the same facts do not deadlock.
CREATE FUNCTION {schema}.learn_{set}(_format integer, _keys text[], _values text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET lock_timeout TO '30s' AS $$
BEGIN
    PERFORM {schema}.check_format_{set}(_format);
    INSERT INTO {schema}.fact (key, value)
    SELECT f.key, f.value FROM unnest(_keys, _values) AS f(key, value) ORDER BY f.key
    ON CONFLICT (key) DO UPDATE SET value = excluded.value;
END
$$;

-- name: audit_change
-- Records a change that somebody made, and forgets older ones.
CREATE FUNCTION {schema}.audit_change_{set}(
    _format integer, _test_time bigint, _actor text, _action text, _lane text, _items bigint, _detail text
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET lock_timeout TO '30s' AS $$
DECLARE
    _number bigint;
BEGIN
    PERFORM {schema}.check_format_{set}(_format);
    INSERT INTO {schema}.audit (time, items, actor, action, lane, detail)
    VALUES ({schema}.store_time_{set}(_test_time), _items, _actor, _action, _lane, _detail)
    RETURNING number INTO _number;
    DELETE FROM {schema}.audit WHERE number <= _number - {AUDIT_KEPT};
END
$$;

-- name: change_lane
-- Changes the limits of a lane, and creates the lane if it does not exist. Null keeps a value; -1 restores the default.
CREATE FUNCTION {schema}.change_lane_{set}(
    _format integer, _test_time bigint, _partition integer, _name text, _min_interval bigint, _concurrency integer,
    _paused boolean, _blocked_until bigint, _at_least boolean, _blocked_for bigint
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
    s {schema}.partition_state := _old;
    l {schema}.lane_state;
    _default integer;
    _counted boolean;  -- whether the interval ran from the start
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
        l.last_at := s.time;  -- its start was not recorded, so it counts as started now
    END IF;
    l.paused := coalesce(_paused, l.paused, false);
    IF _blocked_for IS NOT NULL THEN
        _blocked_until := CASE WHEN _blocked_for > 0 THEN s.time + _blocked_for ELSE 0 END;
    END IF;
    IF _at_least THEN
        _blocked_until := greatest(_blocked_until, l.blocked_until);
    END IF;
    l.blocked_until := coalesce(_blocked_until, l.blocked_until, 0);
    DELETE FROM {schema}.lane_state AS q
    WHERE q.partition = s.partition AND q.lane = _number AND q.version = _version;
    INSERT INTO {schema}.lane_state SELECT (l).*;
    s := {schema}.change_lanes_{set}(s, ARRAY[_number], ARRAY[0::smallint], ARRAY[0], ARRAY[0], NULL, NULL, 'limits');
    PERFORM {schema}.write_state_{set}(s, _old, true);
    IF _paused THEN
        UPDATE {schema}.frontier SET signal_version = signal_version + 1;
    END IF;
END
$$;

-- name: change_settings
-- INV-3. With a concurrency of 1, the interval runs from the settlement; otherwise from the start. When the default
-- concurrency stops being 1, items in flight in lanes under the default count as started now. They are found through
-- the claimed items, so the number of lanes does not matter. All partitions are locked, in order and before the
-- frontier's row, as in `change_lane`. A shorter interval takes the locks as well: afterwards no transaction is open
-- that placed a lane by the old interval.
CREATE FUNCTION {schema}.change_settings_{set}(
    _format integer, _test_time bigint, _min_interval bigint, _concurrency integer, _max_attempts integer, _paused boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state;
    _counts boolean;  -- whether the interval begins to run from the start
    _partition integer;
    _lanes integer[];
BEGIN
    IF _concurrency <> 1 OR _min_interval <= (SELECT min_interval FROM {schema}.frontier) THEN
        PERFORM 1 FROM {schema}.partition ORDER BY partition FOR UPDATE;
    END IF;
    PERFORM {schema}.check_format_{set}(_format);
    _counts := _concurrency <> 1 AND (SELECT concurrency = 1 FROM {schema}.frontier);
    UPDATE {schema}.frontier SET
        min_interval = coalesce(_min_interval, min_interval),
        concurrency = coalesce(_concurrency, concurrency),
        max_attempts = coalesce(_max_attempts, max_attempts),
        paused = coalesce(_paused, paused),
        signal_version = signal_version + (_paused IS NOT NULL)::integer;
    IF _counts THEN
        FOR _partition IN SELECT partition FROM {schema}.partition LOOP
            _old := {schema}.read_partition_{set}(_partition, _format, _test_time);
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
                PERFORM {schema}.write_state_{set}({schema}.change_lanes_{set}(
                    _old, _lanes, NULL, NULL, NULL, array_fill(true, ARRAY[cardinality(_lanes)]), NULL, 'count'
                ), _old, false);
            END IF;
        END LOOP;
    END IF;
    PERFORM pg_notify({CHANNEL}, {schema_literal});
END
$$;

-- name: requeue_lanes
-- INV-3. Moves waiting lanes to the place in the queue that they have under the present defaults.
CREATE FUNCTION {schema}.requeue_lanes_{set}(_format integer, _test_time bigint, _partition integer, _lanes bigint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
BEGIN
    PERFORM {schema}.write_state_{set}(
        {schema}.change_lanes_{set}(_old, _lanes::integer[], NULL, NULL, NULL, NULL, NULL, 'limits'), _old, true
    );
END
$$;

-- name: reopen
-- INV-7. Makes done or dead items ready again, under new positions and without attempts.
CREATE FUNCTION {schema}.reopen_{set}(_format integer, _test_time bigint, _partition integer, _positions bigint[])
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
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
        SELECT s.next_place + o.nth, o.new_position, o.span, o.lane, s.partition,
            ({TOP_PRIORITY} - o.priority) * 2 + 1, 0, o.new_origin, o.key, o.payload
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
    s := {schema}.change_lanes_{set}(
        s, _sum.lanes, _sum.levels, array_fill(1, ARRAY[_sum.items]), array_fill(0, ARRAY[_sum.items]), NULL, NULL,
        'add');
    PERFORM {schema}.write_state_{set}(s, _old, true);
    RETURN _sum.items;
END
$$;

-- name: drop
-- INV-4, INV-6, INV-7. Makes ready and delayed items done with a result, without a claim and without a visit. A revisit
-- keeps its old position, which the checkpoint has passed.
CREATE FUNCTION {schema}.drop_{set}(
    _format integer, _test_time bigint, _partition integer, _positions bigint[], _result text
) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
    s {schema}.partition_state := _old;
    _sum record;
BEGIN
    WITH ready AS (
        DELETE FROM {schema}.item WHERE ctid = ANY (ARRAY(
            SELECT r.ctid FROM unnest(_positions) AS p(position) CROSS JOIN LATERAL (
                SELECT i.ctid FROM {schema}.item AS i
                WHERE i.partition + 0 = s.partition AND i.position = p.position LIMIT 1
            ) AS r
        ))
        RETURNING position, span, lane, ({TOP_PRIORITY} - rank / 2)::smallint AS priority, origin, key, payload,
            true AS was_ready
    ), later AS (
        DELETE FROM {schema}.delayed WHERE ctid = ANY (ARRAY(
            SELECT d.ctid FROM unnest(_positions) AS p(position) CROSS JOIN LATERAL (
                (SELECT i.ctid FROM {schema}.delayed AS i
                 WHERE i.partition + 0 = s.partition AND i.position + 0 = p.position AND NOT i.revisit LIMIT 1)
                UNION ALL
                (SELECT i.ctid FROM {schema}.delayed AS i
                 WHERE i.partition + 0 = s.partition AND i.position + 0 = p.position AND i.revisit LIMIT 1)
            ) AS d
        ))
        RETURNING position, span, lane, priority, origin, key, payload, false AS was_ready
    ), dropped AS (
        SELECT * FROM ready UNION ALL SELECT * FROM later
    ), done AS (
        INSERT INTO {schema}.done (position, settled_at, span, lane, partition, priority, origin, key, payload, result)
        SELECT d.position, s.time, d.span, d.lane, s.partition, d.priority, d.origin, d.key, d.payload, _result
        FROM dropped AS d
    )
    SELECT
        count(*)::integer AS items, (count(*) FILTER (WHERE d.was_ready))::integer AS ready,
        array_agg(d.lane) FILTER (WHERE d.was_ready) AS lanes,
        array_agg(d.priority) FILTER (WHERE d.was_ready) AS levels,
        bool_or(d.position = s.checkpoint + 1) AS advances
    INTO _sum FROM dropped AS d;
    IF _sum.items = 0 THEN
        RETURN 0;
    END IF;
    s.ready := s.ready - _sum.ready;
    s.delayed := s.delayed - (_sum.items - _sum.ready);
    s.done := s.done + _sum.items;
    IF _sum.ready > 0 THEN
        s := {schema}.change_lanes_{set}(
            s, _sum.lanes, _sum.levels, array_fill(-1, ARRAY[_sum.ready]), array_fill(0, ARRAY[_sum.ready]), NULL, NULL,
            'add');
        -- INV-8: no live item of an empty lane is before the next place, so later scans skip what was dropped.
        UPDATE {schema}.lane_state SET heads = array_fill(s.next_place, ARRAY[{RANKS}]) WHERE ctid = ANY (ARRAY(
            SELECT q.ctid FROM (SELECT DISTINCT l.lane FROM unnest(_sum.lanes) AS l(lane)) AS d
            CROSS JOIN LATERAL (
                SELECT l.ctid, l.counts FROM {schema}.lane_state AS l
                WHERE l.partition = s.partition AND l.lane = d.lane AND l.version = s.version LIMIT 1
            ) AS q
            WHERE 0 = ALL (q.counts)
        ));
    END IF;
    IF _sum.advances THEN
        s := {schema}.advance_checkpoint_{set}(s);
    END IF;
    PERFORM {schema}.write_state_{set}(s, _old, true);
    RETURN _sum.items;
END
$$;
