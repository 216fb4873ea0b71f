-- Read-only queries. None of them takes a lock. Only `recount`, and `find` in an inbox, read more rows than they
-- return. Other queries select from the first two.

-- name: lane_now
-- The present state of each lane.
SELECT
    n.partition, n.number, n.name, s.min_interval, s.concurrency, coalesce(s.paused, false) AS paused,
    coalesce(s.blocked_until, 0) AS blocked_until,
    coalesce((SELECT sum(c) FROM unnest(s.counts) AS c), 0)::integer AS waiting,
    coalesce(s.in_flight, 0) AS in_flight, CASE WHEN s.level IS NOT NULL THEN s.ready_at END AS ready_at,
    coalesce(s.last_at, 0) AS last_at, coalesce(s.visits, 0) AS visits, s.counters
FROM {schema}.lane AS n
LEFT JOIN LATERAL (
    SELECT * FROM {schema}.lane_state AS l
    WHERE l.partition = n.partition AND l.lane = n.number ORDER BY l.version DESC LIMIT 1
) AS s ON true;

-- name: partition_now
SELECT s.*
FROM {schema}.partition AS p
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.partition_state AS s WHERE s.partition = p.partition ORDER BY s.version DESC LIMIT 1
) AS s;

-- name: signal
SELECT paused, signal_version FROM {schema}.frontier;

-- name: clock
SELECT {schema}.store_time_{set}(NULL);

-- name: frontier
SELECT partitions, min_interval, concurrency, max_attempts, paused, signal_version, {schema}.store_time_{set}(NULL)
FROM {schema}.frontier;

-- name: status
-- The inbox is small: claims drain it faster than settlements fill it. `next_ready_at` is what the last change
-- computed. It may be too early. It is null if nothing waits.
SELECT
    s.partition, s.ready, s.delayed, s.claimed, s.done, s.visits, s.dead, s.lanes, i.size,
    s.checkpoint, s.checkpoint_dead, s.next_position - 1,
    CASE WHEN i.size > 0 THEN s.time WHEN s.ready + s.delayed + s.claimed > 0 THEN s.next_ready_at END, s.time
FROM ({partition_now}) AS s
CROSS JOIN LATERAL {schema}.inbox_size_{set}(s.partition, s.inbox_from, s.inbox_open) AS i(size)
ORDER BY s.partition;

-- name: recount
SELECT
    s.partition,
    (SELECT count(*) FROM {schema}.item AS i WHERE i.partition = s.partition),
    (SELECT count(*) FROM {schema}.delayed AS i WHERE i.partition = s.partition),
    (SELECT count(*) FROM {schema}.claimed AS i WHERE i.partition = s.partition),
    (SELECT count(*) FROM {schema}.done AS i WHERE i.partition = s.partition),
    (SELECT coalesce(sum(i.visits), 0)::bigint FROM ({lane_now}) AS i WHERE i.partition = s.partition),
    (SELECT count(*) FROM {schema}.dead AS i WHERE i.partition = s.partition),
    (SELECT count(*)::integer FROM {schema}.lane AS i WHERE i.partition = s.partition),
    w.size,
    coalesce(least(
        (SELECT min(i.position) FROM {schema}.item AS i WHERE i.partition + 0 = s.partition),
        (SELECT min(i.position + 0) FROM {schema}.delayed AS i WHERE i.partition + 0 = s.partition AND NOT i.revisit),
        (SELECT min(i.position) FROM {schema}.claimed AS i WHERE i.partition = s.partition)
    ), s.next_position) - 1,
    (SELECT count(*) FROM {schema}.dead AS i WHERE i.partition = s.partition AND i.position <= s.checkpoint),
    s.next_position - 1,
    CASE WHEN w.size > 0 THEN s.time WHEN s.ready + s.delayed + s.claimed > 0 THEN s.next_ready_at END, s.time
FROM ({partition_now}) AS s
CROSS JOIN LATERAL (
    SELECT coalesce(sum(i.size), 0)::bigint AS size FROM {schema}.inbox AS i WHERE i.partition = s.partition
) AS w
ORDER BY s.partition;

-- name: lane
SELECT
    n.name, n.partition, n.min_interval, n.concurrency, n.paused, n.blocked_until, n.waiting, n.in_flight, n.visits,
    n.ready_at, n.last_at, n.counters
FROM ({lane_now}) AS n
WHERE n.partition + 0 = %(partition)s AND n.name = %(lane)s;

-- name: lanes
SELECT
    n.number, n.name, n.partition, n.min_interval, n.concurrency, n.paused, n.blocked_until, n.waiting, n.in_flight,
    n.visits, n.ready_at, n.last_at, n.counters
FROM ({lane_now}) AS n
WHERE (n.partition, n.number) > (%(partition)s, %(number)s)
ORDER BY n.partition, n.number LIMIT %(limit)s;

-- name: list_ready
-- Each of the next six reads at most `examined` rows in order, so that a page costs the same in a frontier of millions.
-- It returns those that are wanted, with their place behind the partition and how many rows were read up to them, and
-- the last row that it may read.
SELECT
    d.partition, d.position, 'ready', n.name, {TOP_PRIORITY} - d.rank / 2, d.key, d.payload, d.attempts,
    NULL::bigint, false, NULL::bigint, NULL::bigint, NULL, d.reason, d.error,
    d.position, 0, w.wanted, d.nth
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.partition, r.position) AS nth
    FROM (
        SELECT i.* FROM {schema}.item AS i
        WHERE (i.partition + 0, i.position) > (%(partition)s, %(first)s) AND i.partition + 0 <= %(last_partition)s
        ORDER BY i.partition + 0, i.position LIMIT %(examined)s
    ) AS r
) AS d
CROSS JOIN LATERAL (
    SELECT name FROM {schema}.lane WHERE partition = d.partition AND number = d.lane LIMIT 1
) AS n
CROSS JOIN LATERAL (SELECT coalesce(n.name = %(lane)s, %(lane)s::text IS NULL) AS wanted) AS w
WHERE w.wanted OR d.nth = %(examined)s
ORDER BY d.nth LIMIT %(limit)s;

-- name: list_ready_of_lane
-- Only ready items have an index by lane.
SELECT
    i.partition, i.position, 'ready', n.name, {TOP_PRIORITY} - i.rank / 2, i.key, i.payload, i.attempts,
    NULL::bigint, false, NULL::bigint, NULL::bigint, NULL, i.reason, i.error, i.rank, i.place, true, 0
FROM {schema}.lane AS n
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.item AS i
    WHERE i.partition = n.partition AND i.lane = n.number AND (i.rank, i.place) > (%(first)s, %(second)s)
    ORDER BY i.rank, i.place LIMIT %(limit)s
) AS i
WHERE n.partition + 0 = %(partition)s AND n.name = %(lane)s
ORDER BY i.rank, i.place;

-- name: list_delayed
SELECT
    d.partition, d.position, 'delayed', n.name, d.priority, d.key, d.payload, d.attempts,
    d.due_at, d.revisit, NULL::bigint, d.settled_at, d.result, d.reason, d.error,
    d.position, 0, w.wanted, d.nth
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.partition, r.position) AS nth
    FROM (
        (SELECT i.* FROM {schema}.delayed AS i
         WHERE (i.partition + 0, i.position + 0) > (%(partition)s, %(first)s)
             AND i.partition + 0 <= %(last_partition)s AND NOT i.revisit
         ORDER BY i.partition + 0, i.position + 0 LIMIT %(examined)s)
        UNION ALL
        (SELECT i.* FROM {schema}.delayed AS i
         WHERE (i.partition + 0, i.position + 0) > (%(partition)s, %(first)s)
             AND i.partition + 0 <= %(last_partition)s AND i.revisit
         ORDER BY i.partition + 0, i.position + 0 LIMIT %(examined)s)
        ORDER BY partition, position LIMIT %(examined)s
    ) AS r
) AS d
CROSS JOIN LATERAL (
    SELECT name FROM {schema}.lane WHERE partition = d.partition AND number = d.lane LIMIT 1
) AS n
CROSS JOIN LATERAL (SELECT coalesce(n.name = %(lane)s, %(lane)s::text IS NULL) AS wanted) AS w
WHERE w.wanted OR d.nth = %(examined)s
ORDER BY d.nth LIMIT %(limit)s;

-- name: list_claimed
SELECT
    d.partition, d.position, 'claimed', n.name, d.priority, d.key, d.payload, d.attempts,
    NULL::bigint, false, d.fence, NULL::bigint, NULL, d.reason, d.error,
    d.fence, d.position, w.wanted, d.nth
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.partition, r.fence, r.position) AS nth
    FROM (
        SELECT i.* FROM {schema}.claimed AS i
        WHERE (i.partition, i.fence, i.position) > (%(partition)s, %(first)s, %(second)s) AND i.partition <= %(last_partition)s
        ORDER BY i.partition, i.fence, i.position LIMIT %(examined)s
    ) AS r
) AS d
CROSS JOIN LATERAL (
    SELECT name FROM {schema}.lane WHERE partition = d.partition AND number = d.lane LIMIT 1
) AS n
CROSS JOIN LATERAL (SELECT coalesce(n.name = %(lane)s, %(lane)s::text IS NULL) AS wanted) AS w
WHERE w.wanted OR d.nth = %(examined)s
ORDER BY d.nth LIMIT %(limit)s;

-- name: list_done
SELECT
    d.partition, d.position, 'done', n.name, d.priority, d.key, d.payload, 0,
    NULL::bigint, false, NULL::bigint, d.settled_at, d.result, NULL, NULL,
    d.position, 0, w.wanted, d.nth
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.partition, r.position) AS nth
    FROM (
        SELECT i.* FROM {schema}.done AS i
        WHERE (i.partition, i.position) > (%(partition)s, %(first)s) AND i.partition <= %(last_partition)s
        ORDER BY i.partition, i.position LIMIT %(examined)s
    ) AS r
) AS d
CROSS JOIN LATERAL (
    SELECT name FROM {schema}.lane WHERE partition = d.partition AND number = d.lane LIMIT 1
) AS n
CROSS JOIN LATERAL (SELECT coalesce(n.name = %(lane)s, %(lane)s::text IS NULL)
    AND coalesce(strpos(d.result, %(result_text)s) > 0, %(result_text)s::text IS NULL) AS wanted) AS w
WHERE w.wanted OR d.nth = %(examined)s
ORDER BY d.nth LIMIT %(limit)s;

-- name: list_dead
SELECT
    d.partition, d.position, 'dead', n.name, d.priority, d.key, d.payload, d.attempts,
    NULL::bigint, false, NULL::bigint, d.settled_at, NULL, d.reason, d.error,
    d.position, 0, w.wanted, d.nth
FROM (
    SELECT r.*, row_number() OVER (ORDER BY r.partition, r.position) AS nth
    FROM (
        SELECT i.* FROM {schema}.dead AS i
        WHERE (i.partition, i.position) > (%(partition)s, %(first)s) AND i.partition <= %(last_partition)s
        ORDER BY i.partition, i.position LIMIT %(examined)s
    ) AS r
) AS d
CROSS JOIN LATERAL (
    SELECT name FROM {schema}.lane WHERE partition = d.partition AND number = d.lane LIMIT 1
) AS n
CROSS JOIN LATERAL (SELECT coalesce(n.name = %(lane)s, %(lane)s::text IS NULL) AS wanted) AS w
WHERE w.wanted OR d.nth = %(examined)s
ORDER BY d.nth LIMIT %(limit)s;

-- name: claims
-- The state of a partition names the claims that hold items there.
SELECT c.fence, c.worker, c.claimed_at, c.expires_at, h.items
FROM (
    SELECT l.fence, sum(l.items)::bigint AS items
    FROM (
        SELECT f.fence, (
            SELECT count(*) FROM {schema}.claimed AS i WHERE i.partition = s.partition AND i.fence = f.fence
        ) AS items
        FROM ({partition_now}) AS s CROSS JOIN LATERAL unnest(s.claims) AS f(fence)
        WHERE f.fence > %(after)s
    ) AS l
    GROUP BY l.fence ORDER BY l.fence LIMIT %(limit)s
) AS h
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.claim AS c WHERE c.fence = h.fence LIMIT 1
) AS c
ORDER BY h.fence;

-- name: pending
-- Reads each table in order, up to the limit, so that a page costs the same in a frontier of millions.
SELECT u.partition, u.position, u.state, n.name, u.priority, u.key, u.payload, u.attempts, NULL, u.revisit
FROM (
    (SELECT i.partition, i.position, 'ready' AS state, i.lane, {TOP_PRIORITY} - i.rank / 2 AS priority, i.key, i.payload,
         i.attempts, false AS revisit
     FROM {schema}.item AS i WHERE (i.partition + 0, i.position) > (%(partition)s, %(position)s)
     ORDER BY i.partition + 0, i.position LIMIT %(limit)s)
    UNION ALL
    (SELECT i.partition, i.position, 'delayed', i.lane, i.priority, i.key, i.payload, i.attempts, false
     FROM {schema}.delayed AS i
     WHERE (i.partition + 0, i.position + 0) > (%(partition)s, %(position)s) AND NOT i.revisit
     ORDER BY i.partition + 0, i.position + 0 LIMIT %(limit)s)
    UNION ALL
    (SELECT i.partition, i.position, 'delayed', i.lane, i.priority, i.key, i.payload, i.attempts, true
     FROM {schema}.delayed AS i
     WHERE %(revisits)s AND (i.partition + 0, i.position + 0) > (%(partition)s, %(position)s) AND i.revisit
     ORDER BY i.partition + 0, i.position + 0 LIMIT %(limit)s)
    UNION ALL
    (SELECT i.partition, i.position, 'claimed', i.lane, i.priority, i.key, i.payload, i.attempts, false
     FROM {schema}.claimed AS i WHERE (i.partition, i.position) > (%(partition)s, %(position)s)
     ORDER BY i.partition, i.position LIMIT %(limit)s)
    ORDER BY partition, position LIMIT %(limit)s
) AS u
JOIN {schema}.lane AS n ON n.partition = u.partition AND n.number = u.lane
ORDER BY u.partition, u.position;

-- name: known_places
-- For `swath db check`: an index lookup in each table for each known hash, in `claimed` one for each claim.
SELECT
    e.partition, e.hash, e.position,
    EXISTS (SELECT FROM {schema}.item AS i WHERE i.partition + 0 = e.partition AND i.position = e.position),
    EXISTS (
        SELECT FROM {schema}.delayed AS i
        WHERE i.partition + 0 = e.partition AND i.position + 0 = e.position AND NOT i.revisit
    ) OR EXISTS (
        SELECT FROM {schema}.delayed AS i
        WHERE i.partition + 0 = e.partition AND i.position + 0 = e.position AND i.revisit
    ),
    EXISTS (
        SELECT FROM (
            SELECT s.claims FROM {schema}.partition_state AS s
            WHERE s.partition = e.partition ORDER BY s.version DESC LIMIT 1
        ) AS s
        CROSS JOIN LATERAL unnest(s.claims) AS f(fence)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}.claimed AS i
            WHERE i.partition = e.partition AND i.fence = f.fence AND i.position = e.position LIMIT 1
        ) AS i
    ),
    EXISTS (SELECT FROM {schema}.done AS i WHERE i.partition = e.partition AND i.position = e.position),
    EXISTS (SELECT FROM {schema}.dead AS i WHERE i.partition = e.partition AND i.position = e.position)
FROM (
    SELECT k.partition, k.hash, coalesce(m.position, k.position) AS position
    FROM (
        SELECT * FROM {schema}.seen AS k WHERE (k.partition, k.hash) > (%(partition)s, %(hash)s)
        ORDER BY k.partition, k.hash LIMIT %(limit)s
    ) AS k
    LEFT JOIN LATERAL (
        SELECT position FROM {schema}.moved AS m WHERE m.partition = k.partition AND m.origin = k.position LIMIT 1
    ) AS m ON true
) AS e
ORDER BY e.partition, e.hash;

-- name: find_positions
SELECT coalesce(m.position, e.position)
FROM unnest(%(hashes)s::bytea[]) WITH ORDINALITY AS h(hash, ord)
LEFT JOIN LATERAL (
    SELECT position FROM {schema}.seen AS e WHERE e.partition = %(partition)s AND e.hash = h.hash LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT position FROM {schema}.moved AS m WHERE m.partition = %(partition)s AND m.origin = e.position LIMIT 1
) AS m ON true
ORDER BY h.ord;

-- name: date_positions
-- After the last milestone, a position was allotted before the last change of its partition.
SELECT coalesce(
    (
        SELECT m.time FROM {schema}.milestone AS m
        WHERE m.partition = p.partition AND m.position >= p.position ORDER BY m.position LIMIT 1
    ),
    (
        SELECT s.time FROM {schema}.partition_state AS s WHERE s.partition = p.partition ORDER BY s.version DESC LIMIT 1
    )
)
FROM unnest(%(partitions)s::smallint[], %(positions)s::bigint[]) WITH ORDINALITY AS p(partition, position, ord)
ORDER BY p.ord;

-- name: audit
SELECT number, time, actor, action, lane, items, detail
FROM {schema}.audit ORDER BY number DESC LIMIT %(limit)s;

-- name: facts
SELECT f.key, f.value FROM unnest(%(keys)s::text[]) AS k(key)
CROSS JOIN LATERAL (SELECT * FROM {schema}.fact AS f WHERE f.key = k.key) AS f;

-- name: counters
-- Reads the newest row of each counter of a partition, with one index probe for each name.
SELECT v.name, sum(v.value)::bigint AS value
FROM {schema}.partition AS p
CROSS JOIN LATERAL (
    WITH RECURSIVE newest AS (
        (
            SELECT c.name, c.value FROM {schema}.counter AS c
            WHERE c.partition = p.partition ORDER BY c.name, c.version DESC LIMIT 1
        )
        UNION ALL
        SELECT n.name, n.value FROM newest AS l CROSS JOIN LATERAL (
            SELECT c.name, c.value FROM {schema}.counter AS c
            WHERE c.partition = p.partition AND c.name > l.name ORDER BY c.name, c.version DESC LIMIT 1
        ) AS n
    )
    SELECT name, value FROM newest
) AS v
GROUP BY v.name;

-- name: outputs
SELECT name, length FROM {schema}.output ORDER BY name;

-- name: find
-- The hash of a key is the first part of `seen.hash`, in every lane; `moved` has the present position.
WITH known AS (
    SELECT p.partition, coalesce(m.position, e.position) AS position
    FROM {schema}.partition AS p
    CROSS JOIN LATERAL (
        SELECT e.position, e.hash FROM {schema}.seen AS e
        WHERE e.partition = p.partition AND e.hash >= %(key)s AND e.hash <= %(key)s::bytea || decode('ffffffff', 'hex')
    ) AS e
    LEFT JOIN {schema}.moved AS m ON m.partition = p.partition AND m.origin = e.position
    WHERE %(lane)s::bytea IS NULL OR substring(e.hash FROM 17) = %(lane)s
), places AS (
    SELECT
        'ready' AS state, i.lane, k.*, i.key, {TOP_PRIORITY} - i.rank / 2 AS priority, i.payload, i.attempts,
        (SELECT count(*) FROM (
            SELECT 1 FROM {schema}.item AS a
            WHERE a.partition = k.partition AND a.lane = i.lane AND (a.rank, a.place) < (i.rank, i.place)
            LIMIT %(ahead)s
        ) AS ahead) AS ahead,
        NULL::bigint AS due_at, NULL::bigint AS fence, NULL::bigint AS settled_at, NULL AS result, i.reason, i.error
    FROM known AS k
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.item WHERE partition + 0 = k.partition AND position = k.position
    ) AS i
    UNION ALL
    SELECT
        'delayed', i.lane, k.*, i.key, i.priority, i.payload, i.attempts, NULL, i.due_at, NULL, i.settled_at,
        i.result, i.reason, i.error
    FROM known AS k
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.delayed WHERE partition + 0 = k.partition AND position + 0 = k.position AND NOT revisit
        UNION ALL
        SELECT * FROM {schema}.delayed WHERE partition + 0 = k.partition AND position + 0 = k.position AND revisit
    ) AS i
    UNION ALL
    SELECT
        'claimed', i.lane, k.*, i.key, i.priority, i.payload, i.attempts, NULL, NULL, i.fence, NULL, NULL,
        i.reason, i.error
    FROM known AS k
    JOIN ({partition_now}) AS s ON s.partition = k.partition
    CROSS JOIN LATERAL unnest(s.claims) AS c(fence)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.claimed AS h
        WHERE h.partition = k.partition AND h.fence = c.fence AND h.position = k.position
    ) AS i
    UNION ALL
    SELECT
        'done', i.lane, k.*, i.key, i.priority, i.payload, 0, NULL, NULL, NULL, i.settled_at, i.result, NULL, NULL
    FROM known AS k
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.done WHERE partition = k.partition AND position = k.position
    ) AS i
    UNION ALL
    SELECT
        'dead', i.lane, k.*, i.key, i.priority, i.payload, i.attempts, NULL, NULL, NULL, i.settled_at, NULL,
        i.reason, i.error
    FROM known AS k
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.dead WHERE partition = k.partition AND position = k.position
    ) AS i
    UNION ALL
    SELECT
        -- Two settlements may have discovered it; the first counts. Priorities are null if all are the default.
        'inbox', NULL, i.partition, NULL, i.key, coalesce(i.priority, {DEFAULT_PRIORITY}::smallint), i.payload, 0,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (
        SELECT DISTINCT ON (w.partition, u.hash) w.partition, u.*
        FROM {schema}.inbox AS w
        CROSS JOIN LATERAL unnest(w.hashes, w.priorities, w.keys, w.payloads) AS u(hash, priority, key, payload)
        WHERE substring(u.hash FROM 1 FOR 16) = %(key)s
            AND (%(lane)s::bytea IS NULL OR substring(u.hash FROM 17) = %(lane)s)
            AND NOT EXISTS (SELECT 1 FROM {schema}.seen AS e WHERE e.partition = w.partition AND e.hash = u.hash)
        ORDER BY w.partition, u.hash, w.xid, w.number
    ) AS i
)
SELECT
    i.state, i.partition, i.position, i.key, i.priority, i.payload, i.attempts, i.ahead, i.due_at, i.fence,
    c.worker, c.expires_at, i.settled_at, i.result, i.reason, i.error,
    n.name, n.partition, n.min_interval, n.concurrency, n.paused, n.blocked_until, n.waiting, n.in_flight, n.visits,
    n.ready_at, n.last_at, n.counters
FROM places AS i
LEFT JOIN ({lane_now}) AS n ON n.partition = i.partition AND n.number = i.lane
LEFT JOIN {schema}.claim AS c ON c.fence = i.fence
ORDER BY i.partition, i.position;
