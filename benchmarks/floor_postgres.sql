-- The floor's statements on PostgreSQL. `state` is read after the lock, in a statement of its own, and written as
-- insert-new, delete-old, as swath does: rows that are updated would make the floor slow. What a new state row is made of
-- is in floor_postgres.py: a few values that change, and the rest of the row as it was.

-- name: lock
SELECT FROM partition WHERE partition = %(partition)s FOR UPDATE

-- name: take
-- Lanes that are ready, the head of each, and everything that changes with them.
WITH state AS MATERIALIZED (
    SELECT s.ctid AS row, s.* FROM partition_state AS s
    WHERE s.partition = %(partition)s ORDER BY s.version DESC LIMIT 1
), fence AS MATERIALIZED (
    SELECT nextval('fence') AS fence
), queue AS MATERIALIZED (
    SELECT l.* FROM state AS s CROSS JOIN LATERAL (
        SELECT q.ctid AS row, q.* FROM lane_state AS q
        WHERE q.partition + 0 = %(partition)s AND q.level = 3
            AND q.ready_at >= s.ready_floor[4] AND q.ready_at <= %(now)s
        ORDER BY q.ready_at, q.lane LIMIT %(limit)s
    ) AS l
), taken AS MATERIALIZED (
    SELECT i.*, n.name FROM queue AS q
    CROSS JOIN LATERAL (
        SELECT r.ctid AS row, r.* FROM item AS r
        WHERE r.partition = %(partition)s AND r.lane = q.lane AND r.rank = 9 ORDER BY r.place LIMIT 1
    ) AS i
    CROSS JOIN LATERAL (
        SELECT l.name FROM lane AS l WHERE l.partition = %(partition)s AND l.number = q.lane
    ) AS n
), gone AS (
    DELETE FROM item WHERE ctid = ANY (ARRAY(SELECT t.row FROM taken AS t))
), held AS (
    INSERT INTO claimed (position, fence, span, lane, partition, priority, attempts, origin, key, payload, reason, error)
    SELECT t.position, f.fence, t.span, t.lane, t.partition, 3, t.attempts, t.origin, t.key, t.payload, t.reason, t.error
    FROM taken AS t CROSS JOIN fence AS f
), left_queue AS (
    DELETE FROM lane_state WHERE ctid = ANY (ARRAY(SELECT q.row FROM queue AS q))
), busy AS (
    INSERT INTO lane_state ({lane_columns}) SELECT {started_lane} FROM queue AS q CROSS JOIN state AS s
), old_state AS (
    DELETE FROM partition_state WHERE ctid = ANY (ARRAY(SELECT s.row FROM state AS s))
), new_state AS (
    INSERT INTO partition_state ({state_columns}) SELECT {claimed_state}
    FROM state AS s CROSS JOIN fence AS f CROSS JOIN (SELECT count(*) AS items FROM taken) AS t
), claim AS (
    INSERT INTO claim (fence, token, expires_at, partitions, worker)
    SELECT f.fence, %(token)s, %(expires_at)s, ARRAY[%(partition)s::smallint], 'floor' FROM fence AS f
)
SELECT f.fence, t.position, t.name, t.key, t.payload, t.attempts, t.span FROM taken AS t CROSS JOIN fence AS f

-- name: drain
-- What others left in the inbox for this partition.
WITH state AS MATERIALIZED (
    SELECT s.ctid AS row, s.* FROM partition_state AS s
    WHERE s.partition = %(partition)s ORDER BY s.version DESC LIMIT 1
), inboxed AS MATERIALIZED (
    DELETE FROM inbox WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM inbox AS i WHERE i.partition = %(partition)s ORDER BY i.xid, i.number LIMIT 1000
    ))
    RETURNING hashes, lanes, keys
), arrived AS (
    SELECT u.* FROM inboxed AS i CROSS JOIN LATERAL unnest(i.hashes, i.lanes, i.keys) AS u(hash, lane, key)
), settled AS MATERIALIZED (
    SELECT NULL::integer AS lane WHERE false
), {intake}
SELECT count(*) FROM fresh

-- name: settle
-- Claimed items become done; links for this partition are taken in, those for others go to their inbox.
WITH state AS MATERIALIZED (
    SELECT s.ctid AS row, s.* FROM partition_state AS s
    WHERE s.partition = %(partition)s ORDER BY s.version DESC LIMIT 1
), numbered AS (
    UPDATE claim SET number = 1 WHERE fence = %(fence)s AND token = %(token)s AND NOT lost
), settled AS MATERIALIZED (
    DELETE FROM claimed
    WHERE partition = %(partition)s AND fence = %(fence)s AND position = ANY (%(positions)s::bigint[])
    RETURNING *
), done AS (
    INSERT INTO done (position, settled_at, span, lane, partition, priority, origin, key, payload)
    SELECT h.position, %(now)s, h.span, h.lane, h.partition, h.priority, h.origin, h.key, h.payload FROM settled AS h
), elsewhere AS (
    INSERT INTO inbox (partition, size, hashes, lanes, priorities, keys, payloads, not_befores, spans)
    SELECT o.partition, count(*), array_agg(o.hash), array_agg(o.lane), '{}', array_agg(o.key), '{}', '{}', '{}'
    FROM unnest(
        %(other_partitions)s::smallint[], %(other_hashes)s::bytea[], %(other_lanes)s::text[], %(other_keys)s::text[]
    ) AS o(partition, hash, lane, key)
    LEFT JOIN LATERAL (
        SELECT true AS known FROM seen AS e WHERE e.partition = o.partition AND e.hash = o.hash LIMIT 1
    ) AS k ON true
    WHERE k.known IS NULL
    GROUP BY o.partition
), arrived AS (
    SELECT u.* FROM unnest(%(hashes)s::bytea[], %(lanes)s::text[], %(keys)s::text[]) AS u(hash, lane, key)
), {intake}
SELECT count(*) FROM settled

-- name: intake
-- Shared by both: new keys get positions and rows, every lane that lost or got an item is written once, then the state.
unknown AS MATERIALIZED (
    SELECT DISTINCT ON (a.hash) a.* FROM arrived AS a
    LEFT JOIN LATERAL (
        SELECT true AS known FROM seen AS e WHERE e.partition = %(partition)s AND e.hash = a.hash LIMIT 1
    ) AS k ON true
    WHERE k.known IS NULL ORDER BY a.hash
), fresh AS MATERIALIZED (
    SELECT u.hash, u.key, n.number, row_number() OVER () - 1 AS nth FROM unknown AS u
    CROSS JOIN LATERAL (SELECT l.number FROM lane AS l WHERE l.partition + 0 = %(partition)s AND l.name = u.lane) AS n
), known AS (
    INSERT INTO seen (position, partition, hash)
    SELECT s.next_position + f.nth, %(partition)s, f.hash FROM fresh AS f CROSS JOIN state AS s
), ready AS (
    INSERT INTO item (place, position, span, lane, partition, rank, attempts, key)
    SELECT s.next_place + f.nth, s.next_position + f.nth, 1, f.number, %(partition)s, 9, 0, f.key
    FROM fresh AS f CROSS JOIN state AS s
), delta AS MATERIALIZED (
    SELECT d.lane, sum(d.flight)::integer AS flight, sum(d.wait)::integer AS wait
    FROM (
        SELECT h.lane, -1 AS flight, 0 AS wait FROM settled AS h
        UNION ALL
        SELECT f.number, 0, 1 FROM fresh AS f
    ) AS d GROUP BY d.lane
), old_lanes AS MATERIALIZED (
    SELECT o.*, d.flight, d.wait FROM delta AS d CROSS JOIN LATERAL (
        SELECT l.ctid AS row, l.* FROM lane_state AS l
        WHERE l.partition = %(partition)s AND l.lane = d.lane ORDER BY l.version DESC LIMIT 1
    ) AS o
), left_lanes AS (
    DELETE FROM lane_state WHERE ctid = ANY (ARRAY(SELECT o.row FROM old_lanes AS o))
), new_lanes AS (
    INSERT INTO lane_state ({lane_columns}) SELECT {changed_lane} FROM old_lanes AS o CROSS JOIN state AS s
), changed AS MATERIALIZED (
    SELECT s.*, (SELECT count(*) FROM settled) AS items, (SELECT count(*) FROM fresh) AS found FROM state AS s
    WHERE EXISTS (SELECT FROM settled) OR EXISTS (SELECT FROM fresh)
), old_state AS (
    DELETE FROM partition_state WHERE ctid = ANY (ARRAY(SELECT c.row FROM changed AS c))
), new_state AS (
    INSERT INTO partition_state ({state_columns}) SELECT {changed_state} FROM changed AS c
)
