-- name: settle_done
-- INV-3, INV-5. Settles items that were started and are done without a revisit, the bulk of most settlements, and
-- updates their lanes. Nested loops are off: they would search the results once per item. The look-up of a lane
-- still uses one.
CREATE FUNCTION {schema}.settle_done_{set}(
    s {schema}.partition_state, _fence bigint, _positions bigint[], _results text[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    -- Copies of fields that each row needs: a field of a record costs several times as much as a variable.
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
            {schema}.lane_level_{set}(
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
            partition, level, paused, counts, heads, counters
        )
        SELECT
            _version,
            {schema}.lane_ready_at_{set}(
                CASE WHEN o.now_level = o.level THEN o.ready_at ELSE _time END,
                o.blocked_until, o.now_last_at, coalesce(o.min_interval, _min_interval)
            ),
            o.now_last_at, o.blocked_until, o.min_interval, o.lane, o.now_in_flight, o.taken, o.now_visits,
            o.concurrency, _partition, o.now_level, o.paused, o.counts, o.heads, o.counters
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
-- INV-5. Does the same as `settle_done` without updating the lanes. Returns one lane per item, so that `insert_items`
-- updates them together with the lanes of the discovered items.
CREATE FUNCTION {schema}.settle_items_{set}(
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

-- name: settle_moves
-- INV-3, INV-5. Settles all other outcomes: retries, revisits, dead, released and split items, and items that are
-- done without having been started.
CREATE FUNCTION {schema}.settle_moves_{set}(
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
            m.kind = {DONE} AND m.delay IS NULL AS whole,
            m.kind IN ({DONE}, {RETRY}, {RELEASE}) AND m.delay IS NOT NULL AS later,
            (m.kind = {RELEASE} AND m.delay IS NULL) OR (m.kind = {SPLIT} AND c.span = 1) AS back,
            m.kind = {SPLIT} AND c.span > 1 AS parts,
            m.kind = {SPLIT} OR (m.kind = {RELEASE} AND m.delay IS NULL) AS waits,
            sum(
                (m.kind = {SPLIT} OR (m.kind = {RELEASE} AND m.delay IS NULL))::integer
            ) OVER (ORDER BY m.ord) - 1 AS nth
        FROM unnest(
            _positions, _kinds, _delays, _results, _reasons, _errors, _starteds, _payloads, _rest_hashes, _rest_keys,
            _rest_payloads
        ) WITH ORDINALITY AS m(
            position, kind, delay, result, reason, error, started, payload, rest_hash, rest_key, rest_payload, ord
        )
        CROSS JOIN LATERAL (
            SELECT i.ctid, i.* FROM {schema}.claimed AS i
            WHERE i.partition = s.partition AND i.fence = _fence AND i.position = m.position
            LIMIT 1  -- force a look-up each: a join would read the whole claim for each part of it
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
            CASE h.kind WHEN {DONE} THEN 0 WHEN {RETRY} THEN h.attempts + 1 ELSE h.attempts END,
            CASE h.kind WHEN {DONE} THEN 0 ELSE h.losses END, h.kind = {DONE}, h.origin,
            CASE WHEN h.kind = {DONE} THEN s.time END, h.key,
            CASE WHEN h.kind = {DONE} THEN coalesce(h.payload, h.old_payload) ELSE h.old_payload END, h.result,
            CASE h.kind WHEN {RELEASE} THEN h.old_reason ELSE h.reason END,
            CASE h.kind WHEN {RELEASE} THEN h.old_error ELSE h.error END
        FROM h WHERE h.later
    ), dead AS (
        INSERT INTO {schema}.dead (
            position, settled_at, span, lane, partition, priority, attempts, origin, key, payload, reason, error
        )
        SELECT h.position, s.time, h.span, h.lane, s.partition, h.priority, h.attempts + 1, h.origin, h.key,
            h.old_payload, h.reason, h.error
        FROM h WHERE h.kind = {DEAD}
    ), ready AS (
        INSERT INTO {schema}.item (
            place, position, span, lane, partition, rank, attempts, losses, origin, key, payload, reason, error
        )
        SELECT s.next_place + h.nth, h.position, h.span, h.lane, s.partition, ({TOP_PRIORITY} - h.priority) * 2,
            h.attempts, h.losses, h.origin, h.key,
            CASE WHEN h.kind = {SPLIT} THEN h.rest_payload ELSE h.old_payload END, h.old_reason, h.old_error
        FROM h WHERE h.back
        UNION ALL
        SELECT s.next_place + h.nth, h.position + h.span / 2, h.span - h.span / 2, h.lane, s.partition,
            ({TOP_PRIORITY} - h.priority) * 2 + 1, 0, 0, NULL, h.rest_key, h.rest_payload, NULL, NULL
        FROM h WHERE h.parts
    ), known AS (
        INSERT INTO {schema}.seen (position, partition, hash)
        SELECT h.position + h.span / 2, s.partition, h.rest_hash FROM h WHERE h.parts
    )
    SELECT
        count(*)::integer AS items, count(DISTINCT h.position) AS places,
        count(*) FILTER (WHERE h.parts OR h.whole) AS done,
        count(*) FILTER (WHERE h.later) AS delayed,
        count(*) FILTER (WHERE h.kind = {DEAD}) AS dead,
        count(*) FILTER (WHERE h.waits) AS ready,
        count(*) FILTER (WHERE h.kind = {DONE} AND h.started) AS visited,
        min(s.time + h.delay) AS first_due,
        array_agg(h.lane) AS lanes, array_agg(h.priority) AS levels, array_agg(h.waits::integer) AS waits,
        array_agg(h.started) AS stamps, array_agg((h.kind = {DONE} AND h.started)::integer) AS visits
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
        s := {schema}.change_lanes_{set}(
            s, _sum.lanes, _sum.levels, _sum.waits, array_fill(-1, ARRAY[_sum.items]), _sum.stamps,
            _sum.visits, 'settle');
    END IF;
    RETURN s;
END
$$;

-- name: repair
-- INV-5, INV-6. Settles dead items, which no claim holds: they are done, or dead with another reason. They keep their
-- positions, so the checkpoint stays, and counts those below it as dead no longer.
CREATE FUNCTION {schema}.repair_{set}(
    s {schema}.partition_state, _positions bigint[], _kinds smallint[], _results text[], _reasons text[], _errors text[]
) RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET enable_nestloop TO off
SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _rows {schema}.dead[];
    _sum record;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.dead AS d WHERE d.ctid = ANY (ARRAY(
            SELECT i.ctid FROM unnest(_positions) AS p(position) CROSS JOIN LATERAL (
                SELECT i.ctid FROM {schema}.dead AS i
                WHERE i.partition = s.partition AND i.position = p.position LIMIT 1
            ) AS i
        ))
        RETURNING d
    )
    SELECT coalesce(array_agg(g.d), '{}') INTO _rows FROM gone AS g;
    IF cardinality(_rows) <> cardinality(_positions) THEN
        RAISE EXCEPTION '% %', cardinality(_rows), cardinality(_positions) USING ERRCODE = {ITEMS_NOT_DEAD};
    END IF;
    WITH m AS (
        SELECT r.*, m.kind, m.result, m.reason AS new_reason, m.error AS new_error
        FROM unnest(_rows) AS r
        JOIN unnest(_positions, _kinds, _results, _reasons, _errors) AS m(position, kind, result, reason, error)
            ON m.position = r.position
    ), done AS (
        INSERT INTO {schema}.done (position, settled_at, span, lane, partition, priority, origin, key, payload, result)
        SELECT m.position, s.time, m.span, m.lane, m.partition, m.priority, m.origin, m.key, m.payload, m.result
        FROM m WHERE m.kind = {DONE}
    ), dead AS (
        INSERT INTO {schema}.dead (
            position, settled_at, span, lane, partition, priority, attempts, origin, key, payload, reason, error
        )
        SELECT m.position, s.time, m.span, m.lane, m.partition, m.priority, m.attempts + 1, m.origin, m.key, m.payload,
            m.new_reason, m.new_error
        FROM m WHERE m.kind = {DEAD}
    )
    SELECT count(*)::integer AS items, count(*) FILTER (WHERE m.position <= s.checkpoint) AS below
    INTO _sum FROM m WHERE m.kind = {DONE};
    s.done := s.done + _sum.items;
    s.dead := s.dead - _sum.items;
    s.checkpoint_dead := s.checkpoint_dead - _sum.below;
    RETURN s;
END
$$;

-- name: settle
-- INV-2, INV-5, INV-6. Checks the fence, then applies the moves, the discovered items, outputs, facts, counters and
-- the checkpoint, all or nothing. `_number` rises with each settlement of a claim: a settlement that was applied
-- before changes nothing. In a caller's transaction it is 0: such a settlement is never repeated, and others may
-- overtake it. Without a fence, the items are dead and get repaired.
CREATE FUNCTION {schema}.settle_{set}(
    _format integer, _test_time bigint, _partition integer, _fence bigint, _token bigint, _number integer,
    _done bigint[], _done_results text[],
    _positions bigint[], _kinds smallint[], _delays bigint[], _results text[], _reasons text[], _errors text[],
    _starteds boolean[], _payloads text[], _rest_hashes bytea[], _rest_keys text[], _rest_payloads text[],
    _d_hashes bytea[], _d_lanes text[], _d_priorities smallint[], _d_keys text[], _d_payloads text[],
    _d_not_befores bigint[], _d_spans bigint[],
    _o_partitions smallint[], _o_hashes bytea[], _o_lanes text[], _o_priorities smallint[], _o_keys text[],
    _o_payloads text[], _o_not_befores bigint[], _o_spans bigint[],
    _names text[], _old_lengths bigint[], _new_lengths bigint[], _fact_keys text[], _fact_values text[],
    _counter_names text[], _counter_amounts bigint[], _lane_counter_lanes text[], _lane_counter_names text[],
    _lane_counter_amounts bigint[],
    OUT now bigint, OUT discovered bigint, OUT checkpoint bigint, OUT version bigint
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
#variable_conflict use_column
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
    s {schema}.partition_state := _old;
    _items integer := cardinality(_done) + cardinality(_positions);
    _freed integer[] := '{}';
    _length bigint;
BEGIN
    UPDATE {schema}.claim AS c SET number = greatest(c.number, _number)
    WHERE c.fence = _fence AND c.token = _token AND NOT c.lost AND (c.number < _number OR _number = 0);
    IF _fence IS NULL THEN
        s := {schema}.repair_{set}(s, _positions, _kinds, _results, _reasons, _errors);
        _positions := '{}';  -- nothing is left to move
        _items := 0;
    ELSIF NOT FOUND THEN
        PERFORM 1 FROM {schema}.claim AS c
        WHERE c.fence = _fence AND c.token = _token AND c.number >= _number AND _number > 0;
        IF FOUND THEN
            now := s.time; discovered := 0; checkpoint := s.checkpoint; version := s.version;
            RETURN;
        END IF;
        RAISE EXCEPTION '%', coalesce((
            SELECT 'lost ' || (s.time - c.expires_at) FROM {schema}.claim AS c
            WHERE c.fence = _fence AND c.token = _token
        ), 'unknown 0') USING ERRCODE = {LEASE_LOST};
    END IF;

    IF cardinality(_done) > 0 AND cardinality(_d_hashes) > 0 THEN
        _freed := {schema}.settle_items_{set}(s, _fence, _done, _done_results);
        s.claimed := s.claimed - cardinality(_freed);
        s.done := s.done + cardinality(_freed);
        s.visits := s.visits + cardinality(_freed);
    ELSIF cardinality(_done) > 0 THEN
        s := {schema}.settle_done_{set}(s, _fence, _done, _done_results);
    END IF;
    IF cardinality(_positions) > 0 THEN
        s := {schema}.settle_moves_{set}(
            s, _fence, _positions, _kinds, _delays, _results, _reasons, _errors, _starteds, _payloads, _rest_hashes,
            _rest_keys, _rest_payloads);
    END IF;
    IF _old.claimed - s.claimed <> _items THEN
        RAISE EXCEPTION 'holds % of %', _old.claimed - s.claimed, _items USING ERRCODE = {NOT_HELD};
    END IF;
    -- The probe walks the rows that were just deleted, so skip it if nothing is claimed.
    IF _items > 0 AND (s.claimed = 0 OR NOT EXISTS (
        SELECT 1 FROM {schema}.claimed AS c
        WHERE c.partition = s.partition AND c.fence = _fence AND c.position > s.checkpoint
    )) THEN
        s.claims := array_remove(s.claims, _fence);
    END IF;

    discovered := s.ready + s.delayed;
    IF cardinality(_d_hashes) > 0 THEN
        s := {schema}.insert_items_{set}(
            s, _d_hashes, _d_lanes, _d_priorities, _d_keys, _d_payloads, _d_not_befores, _d_spans, _freed);
    END IF;
    discovered := s.ready + s.delayed - discovered;

    IF cardinality(_o_partitions) > 0 THEN
        -- If the receiving partition's mark is ahead of this transaction, which has not ended, the mark comes from
        -- another cluster, before a restore. A drain would skip this row once transaction numbers reach the mark. The
        -- highest possible number is never skipped.
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
        -- If nothing else is ready in the other partition, its workers may sleep. This transaction must not write the
        -- state of that partition, so its own state bounds the rate.
        IF FOUND AND s.notified_at + {NOTIFY_INTERVAL} < s.time AND EXISTS (
            SELECT 1 FROM (SELECT DISTINCT o.partition FROM unnest(_o_partitions) AS o(partition)) AS o
            CROSS JOIN LATERAL (
                SELECT t.next_ready_at FROM {schema}.partition_state AS t
                WHERE t.partition = o.partition ORDER BY t.version DESC LIMIT 1
            ) AS t
            WHERE t.next_ready_at IS NULL OR t.next_ready_at > s.time
        ) THEN
            s.notified_at := s.time;
            PERFORM pg_notify({CHANNEL}, {schema_literal});
        END IF;
    END IF;

    FOR i IN 1 .. cardinality(_names) LOOP
        -- Wait for other settlements of the same file, then read its length.
        PERFORM pg_advisory_xact_lock(hashtextextended({schema_literal} || '/' || _names[i], 0));
        SELECT o.length INTO _length FROM {schema}.output AS o WHERE o.name = _names[i] ORDER BY o.length DESC LIMIT 1;
        IF coalesce(_length, 0) <> _old_lengths[i] THEN
            RAISE EXCEPTION '% % %', coalesce(_length, 0), _old_lengths[i], _names[i] USING ERRCODE = {OUTPUT_MOVED};
        END IF;
        DELETE FROM {schema}.output AS o WHERE o.name = _names[i] AND o.length = _length;
        INSERT INTO {schema}.output (name, length) VALUES (_names[i], _new_lengths[i]);
    END LOOP;

    IF cardinality(_fact_keys) > 0 THEN
        PERFORM {schema}.learn_{set}(_format, _fact_keys, _fact_values);
    END IF;
    IF cardinality(_counter_names) > 0 THEN
        s := {schema}.add_to_counters_{set}(s, _counter_names, _counter_amounts);
    END IF;
    IF cardinality(_lane_counter_lanes) > 0 THEN
        PERFORM {schema}.add_to_lane_counters_{set}(
            s, _lane_counter_lanes, _lane_counter_names, _lane_counter_amounts);
    END IF;

    -- Only then: otherwise the scan would find the same item again, behind all the dead rows before it.
    IF s.checkpoint + 1 = ANY (_done)
        OR _kinds[array_position(_positions, s.checkpoint + 1)] IN ({DONE}, {DEAD}, {SPLIT})
    THEN
        s := {schema}.advance_checkpoint_{set}(s);
    END IF;
    PERFORM {schema}.write_state_{set}(s, _old, true);
    now := s.time; checkpoint := s.checkpoint; version := s.version;
END
$$;
