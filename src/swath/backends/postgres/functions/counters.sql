-- name: add_to_counters
-- INV-5. Adds to the counters of a partition, in the settling transaction. INV-8: the new value is inserted and the
-- old one deleted, so that a look-up finds the newest row first and skips dead versions.
CREATE FUNCTION {schema}.add_to_counters_{set}(s {schema}.partition_state, _names text[], _amounts bigint[])
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    s.version := s.version + 1;
    WITH changed AS (
        SELECT n.name, n.amount + coalesce(o.value, 0) AS value, o.ctid AS old_row
        FROM unnest(_names, _amounts) AS n(name, amount)
        LEFT JOIN LATERAL (
            SELECT c.ctid, c.value FROM {schema}.counter AS c
            WHERE c.partition = s.partition AND c.name = n.name ORDER BY c.version DESC LIMIT 1
        ) AS o ON true
    ), gone AS (
        DELETE FROM {schema}.counter WHERE ctid = ANY (ARRAY(SELECT c.old_row FROM changed AS c))
    )
    INSERT INTO {schema}.counter (version, value, partition, name)
    SELECT s.version, c.value, s.partition, c.name FROM changed AS c;
    RETURN s;
END
$$;

-- name: add_to_lane_counters
-- INV-5. Adds to the counters of lanes. The settlement has just written the rows of these lanes, because they are
-- lanes of its items, and updating a row of the own transaction adds no index entry (INV-8).
CREATE FUNCTION {schema}.add_to_lane_counters_{set}(
    s {schema}.partition_state, _lanes text[], _names text[], _amounts bigint[]
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    _lane record;
    _row tid;
    _counters jsonb;
BEGIN
    FOR _lane IN
        SELECT d.lane AS name, array_agg(d.name) AS names, array_agg(d.amount) AS amounts
        FROM unnest(_lanes, _names, _amounts) AS d(lane, name, amount) GROUP BY d.lane
    LOOP
        SELECT q.ctid, coalesce(q.counters, '{}') INTO STRICT _row, _counters
        FROM {schema}.lane_state AS q
        WHERE q.partition = s.partition AND q.lane = (
            SELECT n.number FROM {schema}.lane AS n WHERE n.partition + 0 = s.partition AND n.name = _lane.name
        )
        ORDER BY q.version DESC LIMIT 1;
        UPDATE {schema}.lane_state SET counters = _counters || (
            SELECT jsonb_object_agg(a.name, coalesce((_counters ->> a.name)::bigint, 0) + a.amount)
            FROM unnest(_lane.names, _lane.amounts) AS a(name, amount)
        )
        WHERE ctid = _row;
    END LOOP;
END
$$;
