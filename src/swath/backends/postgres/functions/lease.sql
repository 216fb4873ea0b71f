-- name: take_over
-- INV-2, INV-4. Takes over the items of expired claims. The claim's row decides between take-over and renewal; a
-- claim that is lost in one partition is lost in all. The items become ready again, or dead after too many losses.
CREATE FUNCTION {schema}.take_over_{set}(s {schema}.partition_state) RETURNS {schema}.partition_state
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
    -- A locked row is being settled or renewed at this moment: its worker is alive.
    UPDATE {schema}.claim SET lost = true WHERE fence = ANY (ARRAY(
        SELECT c.fence FROM {schema}.claim AS c
        WHERE c.fence = ANY (s.claims) AND NOT c.lost AND c.expires_at <= s.time FOR UPDATE SKIP LOCKED
    ));
    -- If a claim has no row, it expired long ago and its row was deleted.
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
            replace({LOST_WORKER}, '{losses}', (b.losses + 1)::text), b.error
        FROM back AS b WHERE b.dies
    ), ready AS (
        INSERT INTO {schema}.item (
            place, position, span, lane, partition, rank, attempts, losses, origin, key, payload, reason, error
        )
        SELECT s.next_place + b.nth, b.position, b.span, b.lane, s.partition,
            ({TOP_PRIORITY} - b.priority) * 2, b.attempts + 1, b.losses + 1, b.origin, b.key, b.payload, b.reason, b.error
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
    s := {schema}.change_lanes_{set}(
        s, _lanes, _levels, _waits, array_fill(-1, ARRAY[_count]), array_fill(true, ARRAY[_count]), NULL, 'back');
    IF _blocked THEN
        s := {schema}.advance_checkpoint_{set}(s);
    END IF;
    RETURN s;
END
$$;

-- name: find_claim
-- Finds a claim whose reply was lost, and renews its lease. Returns fence 0 if the claim was not made. Then it never
-- will be: inserting a row with its token waits for a claim that is still running, and makes one that arrives later
-- fail.
CREATE FUNCTION {schema}.find_claim_{set}(
    _format integer, _test_time bigint, _token bigint, _lease bigint,
    OUT now bigint, OUT fence bigint, OUT expires_at bigint, OUT paused boolean, OUT signal_version bigint
)
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
#variable_conflict use_column
BEGIN
    PERFORM {schema}.check_format_{set}(_format);
    INSERT INTO {schema}.claim (fence, token, expires_at, lost, partitions, worker)
    VALUES (nextval({fence_sequence}), _token, 0, true, '{}', '') ON CONFLICT (token) DO NOTHING;
    now := {schema}.store_time_{set}(_test_time);
    SELECT f.paused, f.signal_version INTO STRICT paused, signal_version FROM {schema}.frontier AS f;
    UPDATE {schema}.claim AS c SET expires_at = greatest(c.expires_at, now + _lease)
    WHERE c.token = _token AND NOT c.lost AND c.expires_at > now
    RETURNING c.fence, c.expires_at INTO fence, expires_at;
    fence := coalesce(fence, 0);
END
$$;

-- name: claimed_items
-- Returns the items of a claim, higher priorities first. `lane_in_flights` counts the items of the lane that are in
-- flight now, and of this claim those before the item. Holds no lock while the reply is sent.
CREATE FUNCTION {schema}.claimed_items_{set}(
    _fence bigint,
    OUT partitions smallint[], OUT positions bigint[], OUT lanes text[], OUT priorities smallint[], OUT keys text[],
    OUT payloads text[], OUT attempts smallint[], OUT spans bigint[], OUT losses smallint[], OUT visits integer[],
    OUT lane_in_flights integer[], OUT lane_counters text[]
)
LANGUAGE plpgsql STABLE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    SELECT array_agg(i.partition), array_agg(i.position), array_agg(i.name), array_agg(i.priority), array_agg(i.key),
        array_agg(i.payload), array_agg(i.attempts), array_agg(i.span), array_agg(i.losses), array_agg(i.visits),
        array_agg(i.beside), CASE WHEN count(i.counters) > 0 THEN array_agg(i.counters::text) END
    INTO partitions, positions, lanes, priorities, keys, payloads, attempts, spans, losses, visits, lane_in_flights,
        lane_counters
    FROM (
        SELECT
            h.*, l.visits, l.counters,
            (SELECT n.name FROM {schema}.lane AS n WHERE n.partition = h.partition AND n.number = h.lane) AS name,
            (l.in_flight - count(*) OVER (PARTITION BY h.partition, h.lane) + row_number() OVER (
                PARTITION BY h.partition, h.lane ORDER BY h.priority DESC, h.position
            ) - 1)::integer AS beside
        FROM {schema}.claim AS c
        CROSS JOIN LATERAL unnest(c.partitions) AS p(partition)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.claimed AS k WHERE k.partition = p.partition AND k.fence = c.fence
            OFFSET 0  -- force a look-up: a join might read all claimed items
        ) AS h
        CROSS JOIN LATERAL (
            SELECT q.visits, q.in_flight, q.counters FROM {schema}.lane_state AS q
            WHERE q.partition = h.partition AND q.lane = h.lane ORDER BY q.version DESC LIMIT 1
        ) AS l
        WHERE c.fence = _fence ORDER BY h.priority DESC, h.position
    ) AS i;
END
$$;

-- name: renew
-- INV-2. Renews a lease that has not expired. The claim's row decides between renewal and take-over.
CREATE FUNCTION {schema}.renew_{set}(
    _format integer, _test_time bigint, _fence bigint, _token bigint, _lease bigint
) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET enable_seqscan TO off SET enable_bitmapscan TO off SET jit TO off SET plan_cache_mode TO force_generic_plan
SET lock_timeout TO '30s' AS $$
DECLARE
    _now bigint := {schema}.store_time_{set}(_test_time);
    _expires_at bigint;
BEGIN
    PERFORM {schema}.check_format_{set}(_format);
    UPDATE {schema}.claim SET expires_at = greatest(expires_at, _now + _lease)  -- even if the clock stepped back
    WHERE fence = _fence AND token = _token AND NOT lost AND expires_at > _now
    RETURNING expires_at INTO _expires_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION '%', coalesce((
            SELECT CASE WHEN lost THEN 'lost' ELSE 'ended' END || ' ' || (_now - expires_at)
            FROM {schema}.claim WHERE fence = _fence AND token = _token
        ), 'unknown 0') USING ERRCODE = {LEASE_LOST};
    END IF;
    RETURN _expires_at;
END
$$;
