-- Functions on a whole partition. These remarks hold for all files in this folder.
--
-- One call is one round trip and one transaction. Each statement inside sees what was committed before it began, so a
-- value that is read after the lock is current. `{schema}` is the quoted name of the frontier's schema, and `{set}`
-- is the hash over all functions (see statements.py).
--
-- INV-8: no plan depends on statistics. Each function disables sequential and bitmap scans and plans once: if the
-- planner expects one row, a bitmap scan reads all of its dead versions and sorts the rest. `partition + 0` chooses
-- the index (see the tables). Functions that the store calls limit the time they wait for a lock, and disable JIT:
-- before PostgreSQL 18 a disabled scan counts as so expensive that each call would be compiled.

-- name: store_time
-- Returns the database's time, or the time that a test passes.
CREATE FUNCTION {schema}.store_time_{set}(_test_time bigint) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(_test_time, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- name: check_format
-- Stops workers of another format. For functions that take no partition's lock.
CREATE FUNCTION {schema}.check_format_{set}(_format integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _found integer;
BEGIN
    SELECT format INTO STRICT _found FROM {schema}.frontier;
    IF _found <> _format THEN
        RAISE EXCEPTION 'the store has format %', _found USING ERRCODE = {WRONG_FORMAT};
    END IF;
END
$$;

-- name: read_partition
-- INV-6. Reads the state of a partition and checks the format, in a statement after the lock: it sees what was
-- committed before the lock was granted. Partition time always advances.
CREATE FUNCTION {schema}.read_partition_{set}(_partition integer, _format integer, _test_time bigint)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
DECLARE
    s {schema}.partition_state;
    _before bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the transaction is %', current_setting('transaction_isolation')
            USING ERRCODE = {WRONG_ISOLATION};
    END IF;
    SELECT * INTO s FROM {schema}.partition_state
    WHERE partition = _partition AND _format = (SELECT format FROM {schema}.frontier) ORDER BY version DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the store has format %', (SELECT format FROM {schema}.frontier) USING ERRCODE = {WRONG_FORMAT};
    END IF;
    _before := s.time;
    s.time := greatest({schema}.store_time_{set}(_test_time), _before + 1);
    IF s.time / {MINUTE} <> _before / {MINUTE} AND s.next_position > 1 THEN
        PERFORM {schema}.write_milestone_{set}(s, _before);
    END IF;
    RETURN s;
END
$$;

-- name: write_milestone
-- Records the position that a partition had reached at its last change, and thins older milestones once an hour (see
-- core/milestones.py). A partition that did not grow has a milestone at its last position already.
CREATE FUNCTION {schema}.write_milestone_{set}(s {schema}.partition_state, _before bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    INSERT INTO {schema}.milestone (position, time, partition) VALUES (s.next_position - 1, _before, s.partition)
    ON CONFLICT (partition, position) DO NOTHING;
    IF s.time / {HOUR} <> _before / {HOUR} THEN
        DELETE FROM {schema}.milestone AS m WHERE m.partition = s.partition AND m.position IN (
            SELECT t.position
            FROM (
                SELECT o.position, o.time, lead(o.time) OVER (ORDER BY o.position) AS above,
                    CASE
                        WHEN o.time < s.time - {WEEK} THEN {DAY} WHEN o.time < s.time - {HOUR} THEN {HOUR} ELSE 1
                    END AS span
                FROM {schema}.milestone AS o WHERE o.partition = s.partition
            ) AS t
            WHERE t.position <= s.checkpoint OR t.time / t.span = t.above / t.span
        );
    END IF;
END
$$;

-- name: lock_partition
-- Locks a partition, then reads its state.
CREATE FUNCTION {schema}.lock_partition_{set}(_partition integer, _format integer, _test_time bigint)
RETURNS {schema}.partition_state
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    PERFORM 1 FROM {schema}.partition WHERE partition = _partition FOR UPDATE;
    RETURN {schema}.read_partition_{set}(_partition, _format, _test_time);
END
$$;

-- name: write_state
-- Writes the state of a partition: inserts the new row and deletes the old one. With `_notify`, wakes sleeping
-- processes if the partition went from idle to ready, at a bounded rate.
CREATE FUNCTION {schema}.write_state_{set}(
    s {schema}.partition_state, _old {schema}.partition_state, _notify boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET plan_cache_mode TO force_generic_plan AS $$
BEGIN
    IF s.version = _old.version THEN
        s.version := s.version + 1;
    END IF;
    IF _notify AND s.next_ready_at <= s.time AND s.notified_at + {NOTIFY_INTERVAL} < s.time
        AND (_old.next_ready_at IS NULL OR _old.next_ready_at > s.time)
    THEN
        s.notified_at := s.time;
        PERFORM pg_notify({CHANNEL}, {schema_literal});
    END IF;
    WITH gone AS (
        DELETE FROM {schema}.partition_state WHERE partition = _old.partition AND version = _old.version
    )
    INSERT INTO {schema}.partition_state SELECT (s).*;
END
$$;

-- name: advance_checkpoint
-- INV-6. Moves the checkpoint to just below the lowest unsettled position. Called only when the item just above the
-- checkpoint was settled, so that dead rows in between are walked once.
CREATE FUNCTION {schema}.advance_checkpoint_{set}(s {schema}.partition_state)
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
    -- In growing steps, and in both tables alternately: otherwise the scan of one table would walk its dead rows
    -- beyond the first live row of the other.
    WHILE _found IS NULL AND _upto < coalesce(_held, s.next_position) LOOP
        _above := _upto;
        _upto := least(_above + _ahead, coalesce(_held, s.next_position));
        _ahead := least(_ahead * 8, 1::bigint << 56);
        _found := least(
            (SELECT i.position FROM {schema}.item AS i
             WHERE i.partition + 0 = s.partition AND i.position > _above AND i.position <= _upto
             ORDER BY i.position LIMIT 1),
            (SELECT d.position FROM {schema}.delayed AS d
             WHERE s.delayed > 0 AND d.partition + 0 = s.partition
                 AND d.position + 0 > _above AND d.position + 0 <= _upto
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
