-- name: drain_inbox
-- INV-4. Inserts items that other partitions discovered for this one, a bounded number per call. Rows become visible
-- in the order of commits, not of their numbers. So the partition remembers a snapshot of what it drained: everything
-- below `inbox_from`, except the transactions in `inbox_open`, which had not ended by then.
CREATE FUNCTION {schema}.drain_inbox_{set}(s {schema}.partition_state, _most integer)
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
        s.inbox_from := '0';  -- restored into a newer cluster, whose transaction numbers are lower
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
                    WHERE i.partition = s.partition AND i.xid = o.xid ORDER BY i.number LIMIT {INBOX_ROWS}
                ) AS r
            )
            UNION ALL
            (
                SELECT false, i.ctid AS row, i.xid, i.number, i.size FROM {schema}.inbox AS i
                WHERE i.partition = s.partition AND i.xid >= s.inbox_from ORDER BY i.xid, i.number LIMIT {INBOX_ROWS}
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
            SELECT w.xid FROM waiting AS w WHERE NOT w.late AND (w.before >= _most OR w.nth = {INBOX_ROWS})
            ORDER BY w.xid LIMIT 1
        ),
        ARRAY(SELECT DISTINCT w.xid FROM waiting AS w WHERE w.late),
        array_agg(l.hash), array_agg(l.lane), array_agg(l.priority), array_agg(l.key), array_agg(l.payload),
        array_agg(l.not_before), array_agg(l.span)
    INTO _snapshot, _left, _late, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans
    FROM links AS l;
    -- The next drain begins at the first remaining row. It also looks at transactions before that row which are
    -- still open, or which had rows this time, because there may be more of them.
    s.inbox_from := coalesce(_left, pg_snapshot_xmax(_snapshot));
    s.inbox_open := ARRAY(
        SELECT x.xid FROM pg_snapshot_xip(_snapshot) AS x(xid) WHERE x.xid < s.inbox_from
        UNION SELECT l.xid FROM unnest(_late) AS l(xid)
    );
    IF _hashes IS NULL THEN
        RETURN s;
    END IF;
    RETURN {schema}.insert_items_{set}(s, _hashes, _lanes, _priorities, _keys, _payloads, _not_befores, _spans, '{}');
END
$$;

-- name: empty_inbox
-- INV-4. Takes in discovered items without a claim, a bounded number per call. Returns whether more remain.
CREATE FUNCTION {schema}.empty_inbox_{set}(_format integer, _test_time bigint, _partition integer, _most integer)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _old {schema}.partition_state := {schema}.lock_partition_{set}(_partition, _format, _test_time);
    s {schema}.partition_state := _old;
BEGIN
    IF NOT {schema}.has_inbox_{set}(s) THEN
        RETURN false;
    END IF;
    s := {schema}.drain_inbox_{set}(s, _most);
    PERFORM {schema}.write_state_{set}(s, _old, true);
    RETURN {schema}.has_inbox_{set}(s);
END
$$;

-- name: has_inbox
CREATE FUNCTION {schema}.has_inbox_{set}(s {schema}.partition_state) RETURNS boolean
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
-- Counts the items in a partition's inbox. INV-8: skips what was drained, even if vacuum could not remove it yet.
CREATE FUNCTION {schema}.inbox_size_{set}(_partition smallint, _from xid8, _open xid8[]) RETURNS bigint
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
