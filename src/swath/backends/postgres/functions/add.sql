-- name: insert_items
-- INV-4, INV-7. Inserts the items that are not known yet: each gets a position and a place, in the order given. Lanes
-- are created before their items. `_freed` has a lane for each item that the same settlement finished, so that a lane
-- that also gets items is written once. Nested loops are off: they would search the known hashes once per item.
CREATE FUNCTION {schema}.insert_items_{set}(
    s {schema}.partition_state, _hashes bytea[], _lanes text[], _priorities smallint[], _keys text[], _payloads text[],
    _not_befores bigint[], _spans bigint[], _freed integer[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- Copies of fields that each row needs: a field of a record costs several times as much as a variable.
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
        -- One scan goes from leaf to leaf. A descent for each hash takes twice as long.
        _known := ARRAY(
            SELECT e.hash FROM {schema}.seen AS e
            WHERE e.partition = _partition AND e.hash = ANY (_hashes)
        );
    ELSE
        -- Before PostgreSQL 17, the planner may use the list as a filter and read the whole partition.
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
                o.hash, o.lane, coalesce(o.priority, {DEFAULT_PRIORITY}::smallint) AS priority, o.key, o.payload,
                o.not_before, coalesce(o.span, 1) AS span, o.ord
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
        RETURN {schema}.change_lanes_{set}(
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
        INSERT INTO {schema}.delayed (
            due_at, position, span, lane, partition, priority, attempts, revisit, key, payload
        )
        SELECT f.not_before, f.position, f.span, f.lane, _partition, f.priority, 0, false, f.key, f.payload
        FROM fresh AS f WHERE f.later
    ), ready AS (
        INSERT INTO {schema}.item (place, position, span, lane, partition, rank, attempts, key, payload)
        SELECT
            _next_place + row_number() OVER (ORDER BY f.ord) - 1, f.position, f.span, f.lane, _partition,
            ({TOP_PRIORITY} - f.priority) * 2 + 1, 0, f.key, f.payload
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
    RETURN {schema}.change_lanes_{set}(
        s, _freed || _numbers, array_fill(0::smallint, ARRAY[_items]) || _priorities,
        array_fill(0, ARRAY[_items]) || _waits, array_fill(-1, ARRAY[_items]), array_fill(true, ARRAY[_items]),
        array_fill(1, ARRAY[_items]), 'settle');
END
$$;

-- name: add
CREATE FUNCTION {schema}.add_{set}(
    _format integer, _test_time bigint, _partition integer, _hashes bytea[], _lanes text[], _priorities smallint[],
    _keys text[], _payloads text[], _not_befores bigint[], _spans bigint[]
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
    s {schema}.partition_state := _old;
BEGIN
    s := {schema}.insert_items_{set}(s, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans, '{}');
    PERFORM {schema}.write_state_{set}(s, _old, true);
    RETURN s.ready + s.delayed - _old.ready - _old.delayed;
END
$$;
