-- Every statement of the SQLite store, by move. `?` are positional where rows are moved in bulk, `:name` elsewhere.
-- One transaction runs at a time (BEGIN IMMEDIATE), so nothing here locks a row and nothing is rechecked: what a
-- statement reads is what the next one finds. Lists come in as JSON arrays, hashes as one blob of 20 bytes each.
-- CROSS JOIN is SQLite's way to fix the order of a join: the list first, then an index look-up for each of its entries.


-- the frontier and its partitions

-- name: format
SELECT format FROM swath_frontier WHERE id = 1

-- name: frontier
-- Rule 16: read at the start of every transaction, so that a process older than the format stops by itself.
SELECT format, partitions, min_interval, concurrency, max_attempts, paused, signal FROM swath_frontier WHERE id = 1

-- name: insert_frontier
INSERT INTO swath_frontier (id, format, partitions, min_interval, concurrency, max_attempts)
VALUES (1, :format, :partitions, :min_interval, :concurrency, :max_attempts)

-- name: insert_partition
INSERT INTO swath_partition_state (partition) VALUES (?)

-- name: change_settings
UPDATE swath_frontier
SET min_interval = :min_interval, concurrency = :concurrency, max_attempts = :max_attempts,
    paused = :paused, signal = :signal
WHERE id = 1

-- name: partition_state
-- Differs from PostgreSQL: a plain row updated in place; there are no dead versions of it to walk past.
SELECT partition, time, next_position, next_place, checkpoint, checkpoint_dead, claims_made,
       ready, delayed, claimed, done, dead, lanes, visits
FROM swath_partition_state WHERE partition = ?

-- name: save_partition
UPDATE swath_partition_state
SET time = ?, next_position = ?, next_place = ?, checkpoint = ?, checkpoint_dead = ?, claims_made = ?,
    ready = ?, delayed = ?, claimed = ?, done = ?, dead = ?, lanes = ?, visits = ?
WHERE partition = ?

-- name: pulse
-- What tells a change to this frontier from one to its neighbours in the file: every move makes partition time rise.
SELECT (SELECT sum(time) FROM swath_partition_state), min_interval, concurrency, max_attempts, paused, signal
FROM swath_frontier WHERE id = 1

-- name: lock_partition
-- Rule 1, in the caller's transaction: the write lock is taken, or refused, before anything is read.
UPDATE swath_partition_state SET time = time WHERE partition = ?

-- name: next_ready
-- INV-8. When something will be ready here, by one index probe for each level, the first delayed item and the first
-- lease to end.
-- Differs from PostgreSQL: exact and not stored, since probes never meet dead entries.
SELECT (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 0),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 1),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 2),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 3),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 4),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 5),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 6),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 7),
       (SELECT min(due_at) FROM swath_delayed WHERE partition = :partition),
       (SELECT min(expires_at) FROM swath_hold WHERE partition = :partition)

-- name: lowest_unsettled
-- INV-6. Three probes that start at the checkpoint; asked only when the item just above it was settled.
SELECT min(position) FROM (
    SELECT min(position) AS position FROM swath_item WHERE partition = :partition AND position > :checkpoint
    UNION ALL
    SELECT min(position) FROM swath_delayed INDEXED BY swath_delayed_unsettled
    WHERE partition = :partition AND position > :checkpoint AND NOT revisit
    UNION ALL
    SELECT min(position) FROM swath_claimed WHERE partition = :partition AND position > :checkpoint
)

-- name: count_dead_between
SELECT count(*) FROM swath_dead WHERE partition = :partition AND position > :checkpoint AND position <= :reached


-- lanes

-- name: lanes_by_number
SELECT l.number, l.name, l.min_interval, l.concurrency, l.blocked_until, l.waiting, l.in_flight, l.last_at, l.ready_at,
       l.visits, l.counters, l.low, l.head, l.level, l.paused
FROM json_each(:numbers) AS wanted CROSS JOIN swath_lane AS l
WHERE l.partition = :partition AND l.number = wanted.value

-- name: lanes_by_name
SELECT l.number, l.name, l.min_interval, l.concurrency, l.blocked_until, l.waiting, l.in_flight, l.last_at, l.ready_at,
       l.visits, l.counters, l.low, l.head, l.level, l.paused
FROM json_each(:names) AS wanted CROSS JOIN swath_lane AS l
WHERE l.partition = :partition AND l.name = wanted.value

-- name: insert_lane
-- F11: a lane's row exists before its first item.
INSERT INTO swath_lane (name, min_interval, concurrency, paused, blocked_until,
                  waiting, in_flight, last_at, head, low, level, ready_at, partition, number)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_lanes
-- Rule 9: written by one function only. `level` and `ready_at` are the place in the queue. A move changes many lanes in
-- the same way, so that a few statements write them all; a moment that is NULL stays what it was.
UPDATE swath_lane
SET waiting = waiting + ?, in_flight = in_flight + ?, visits = visits + ?, last_at = coalesce(?, last_at), head = ?,
    low = ?, level = ?, ready_at = coalesce(?, ready_at)
WHERE partition = ? AND number IN (SELECT value FROM json_each(?))

-- name: save_lane_counts
-- For lanes that keep their place: naming `level` or `ready_at` would make SQLite rewrite the entry of the queue, which
-- for discovered links is a page of its own for each.
UPDATE swath_lane
SET waiting = waiting + ?, in_flight = in_flight + ?, visits = visits + ?, last_at = coalesce(?, last_at), head = ?,
    low = ?
WHERE partition = ? AND number IN (SELECT value FROM json_each(?))

-- name: default_lanes_in_flight
-- Those without a concurrency of their own, found from what is claimed, however many lanes there are.
SELECT number FROM swath_lane
WHERE partition = :partition AND concurrency IS NULL
  AND number IN (SELECT lane FROM swath_claimed WHERE partition = :partition)

-- name: save_lane_limits
UPDATE swath_lane SET min_interval = ?, concurrency = ?, paused = ?, blocked_until = ?
WHERE partition = ? AND number = ?


-- add

-- name: unknown_hashes
-- INV-7. Which entries of a blob of hashes are new, by their index. One statement for thousands of links.
WITH RECURSIVE entry (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM entry WHERE i + 1 < :count)
SELECT i FROM entry
WHERE NOT EXISTS (SELECT 1 FROM swath_seen WHERE partition = :partition AND hash = substr(:hashes, 1 + 20 * i, 20))

-- name: insert_seen
-- Given in order of hash, so that neighbours share a page.
INSERT INTO swath_seen (partition, hash, position) VALUES (?, ?, ?)

-- name: renumber_seen
UPDATE swath_seen SET position = ? WHERE partition = ? AND hash = ?

-- name: insert_item
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)

-- name: insert_delayed
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts, due_at, revisit)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0)


-- claim

-- name: last_fence
SELECT coalesce(max(fence), 0) FROM swath_claim

-- name: lost_holds
-- Rule 3 and F9: claims that ended, by an index range and never by item.
SELECT fence FROM swath_hold WHERE partition = :partition AND expires_at <= :now LIMIT :limit

-- name: lost_items
SELECT position, lane, priority, losses, fence FROM swath_claimed WHERE partition = :partition AND fence = :fence

-- name: lose_claim
-- Rule 3: lost in one partition is lost in all.
UPDATE swath_claim SET lost = 1 WHERE fence = :fence

-- name: take_back_item
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts, losses,
                  reason, error)
SELECT partition, lane, ?, ?, position, hash, key, payload, span, attempts + 1, losses + 1, reason, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: take_back_dead
INSERT INTO swath_dead (partition, position, lane, priority, hash, key, payload, span, attempts, settled_at, reason, error)
SELECT partition, position, lane, priority, hash, key, payload, span, attempts + 1, ?, ?, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: due_items
SELECT position, lane, priority, attempts, revisit, span, hash
FROM swath_delayed WHERE partition = :partition AND due_at <= :now
ORDER BY due_at, position LIMIT :limit

-- name: drain_item
-- Rule 13: a revisit gets a new position with its new turn; for a retry it is the old one.
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts, losses,
                  reason, error)
SELECT partition, lane, ?, ?, ?, hash, key, payload, span, attempts, losses, reason, error
FROM swath_delayed WHERE partition = ? AND position = ?

-- name: delete_delayed
DELETE FROM swath_delayed WHERE partition = ? AND position = ?

-- name: ready_lanes
-- INV-8. Lanes that may start, by (ready_at, number), from the place where the last look ended. Lanes that are not
-- ready sort behind :now and are never met.
SELECT number, name, min_interval, concurrency, blocked_until, waiting, in_flight, last_at, ready_at, visits, counters,
       low
FROM swath_lane
WHERE partition = :partition AND level = :level AND ready_at <= :now AND (ready_at, number) > (:ready_at, :number)
ORDER BY ready_at, number LIMIT :limit

-- name: lane_items
-- The head of one lane down to the lowest rank of its level.
SELECT position, key, payload, attempts, span, losses
FROM swath_item WHERE partition = ? AND lane = ? AND rank <= ?
ORDER BY rank, place LIMIT ?

-- name: lane_ranks
-- What comes next in lanes from which the first was taken.
SELECT wanted.value, (
    SELECT rank FROM swath_item WHERE partition = :partition AND lane = wanted.value ORDER BY rank LIMIT 1
) FROM json_each(:lanes) AS wanted

-- name: claim_firsts
-- INV-1. The first item of each lane, which is all that most of them may start. One statement for all: a row moved inside
-- SQLite costs a third of one that a statement is run for.
INSERT INTO swath_claimed (partition, fence, position, lane, priority, hash, key, payload, span, attempts, losses,
                     reason, error)
SELECT i.partition, :fence, i.position, i.lane, 7 - i.rank / 2, i.hash, i.key, i.payload, i.span, i.attempts, i.losses,
       i.reason, i.error
FROM json_each(:lanes) AS wanted CROSS JOIN swath_item AS i
WHERE i.partition = :partition AND i.lane = wanted.value AND (i.rank, i.place) = (
    SELECT rank, place FROM swath_item WHERE partition = :partition AND lane = wanted.value ORDER BY rank, place LIMIT 1
)

-- name: claimed_items
-- What a claim has got here so far.
SELECT position, key, payload, attempts, span, losses, lane
FROM swath_claimed WHERE partition = :partition AND fence = :fence

-- name: claim_items
INSERT INTO swath_claimed (partition, fence, position, lane, priority, hash, key, payload, span, attempts, losses,
                     reason, error)
SELECT i.partition, :fence, i.position, i.lane, 7 - i.rank / 2, i.hash, i.key, i.payload, i.span, i.attempts, i.losses,
       i.reason, i.error
FROM json_each(:positions) AS wanted CROSS JOIN swath_item AS i
WHERE i.partition = :partition AND i.position = wanted.value

-- name: delete_items
DELETE FROM swath_item WHERE partition = :partition AND position IN (SELECT value FROM json_each(:positions))

-- name: insert_hold
INSERT INTO swath_hold (fence, partition, expires_at, held) VALUES (?, ?, ?, ?)

-- name: insert_claim
INSERT INTO swath_claim (fence, token, worker, expires_at) VALUES (:fence, :token, :worker, :expires_at)

-- name: prune_claims
-- INV-9. A claim that ended is kept for whoever looks up a lost reply, and not for ever.
DELETE FROM swath_claim WHERE fence IN (
    SELECT fence FROM swath_claim WHERE fence < :below AND fence NOT IN (SELECT fence FROM swath_hold WHERE fence < :below)
    ORDER BY fence LIMIT :limit
)


-- renew

-- name: claim
SELECT token, worker, expires_at, lost, number FROM swath_claim WHERE fence = :fence

-- name: renew_claim
-- INV-2. Read and checked in the same transaction; no row lock, SQLite has a single writer.
UPDATE swath_claim SET expires_at = :expires_at WHERE fence = :fence

-- name: renew_holds
UPDATE swath_hold SET expires_at = :expires_at WHERE fence = :fence


-- settle

-- name: held_items
-- INV-2. Only what this claim holds is found.
SELECT c.position, c.lane, c.priority, c.span
FROM json_each(:positions) AS wanted CROSS JOIN swath_claimed AS c
WHERE c.partition = :partition AND c.fence = :fence AND c.position = wanted.value

-- name: is_seen
SELECT 1 FROM swath_seen WHERE partition = :partition AND hash = :hash

-- name: number_claim
-- Rule 5: a lost reply is looked up by the number of the claim's last settlement.
UPDATE swath_claim SET number = max(number, :number) WHERE fence = :fence

-- name: settle_done
-- Results by position, as one JSON object: what nearly every item of a settlement comes to.
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT c.partition, c.position, c.lane, c.priority, c.hash, c.key, c.payload, c.span, :now, wanted.value
FROM json_each(:results) AS wanted CROSS JOIN swath_claimed AS c
WHERE c.partition = :partition AND c.fence = :fence AND c.position = CAST(wanted.key AS INTEGER)

-- name: settle_done_all
-- A claim's items all done, and none with a result.
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at)
SELECT partition, position, lane, priority, hash, key, payload, span, :now
FROM swath_claimed WHERE partition = :partition AND fence = :fence

-- name: settle_revisit
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts,
                     due_at, revisit, settled_at, result)
SELECT partition, position, lane, priority, hash, key, coalesce(?, payload), span, 0, ?, 1, ?, ?
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_retry
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts, losses,
                     due_at, revisit, reason, error)
SELECT partition, position, lane, priority, hash, key, payload, span, attempts + 1, losses, ?, 0, ?, ?
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_dead
INSERT INTO swath_dead (partition, position, lane, priority, hash, key, payload, span, attempts, settled_at, reason, error)
SELECT partition, position, lane, priority, hash, key, payload, span, attempts + 1, ?, ?, ?
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_release
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts, losses,
                  reason, error)
SELECT partition, lane, ?, ?, position, hash, key, payload, span, attempts, losses, reason, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_later
-- Given back for a time; no attempt is counted.
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts, losses,
                     due_at, revisit, reason, error)
SELECT partition, position, lane, priority, hash, key, payload, span, attempts, losses, ?, 0, reason, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_smaller
-- Rule 12: a range of span 1 cannot be cut in two positions; the holder's rest takes its place.
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts, losses,
                  reason, error)
SELECT partition, lane, ?, ?, position, hash, key, ?, span, attempts, losses, reason, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_split
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT partition, position, lane, priority, hash, key, ?, ?, ?, ?
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: delete_claimed
DELETE FROM swath_claimed
WHERE partition = :partition AND fence = :fence AND position IN (SELECT value FROM json_each(:positions))

-- name: delete_claimed_all
DELETE FROM swath_claimed WHERE partition = :partition AND fence = :fence

-- name: held
SELECT held FROM swath_hold WHERE fence = :fence AND partition = :partition

-- name: save_hold
UPDATE swath_hold SET held = :held WHERE fence = :fence AND partition = :partition

-- name: delete_hold
DELETE FROM swath_hold WHERE fence = :fence AND partition = :partition

-- name: output
SELECT length FROM swath_output WHERE name = :name

-- name: save_output
-- INV-5. The length was compared in this transaction.
INSERT INTO swath_output (name, length) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET length = excluded.length

-- name: count
-- INV-5. Commits with the settlement.
INSERT INTO swath_counter (partition, name, value) VALUES (?, ?, ?)
ON CONFLICT (partition, name) DO UPDATE SET value = value + excluded.value

-- name: save_lane_counters
UPDATE swath_lane SET counters = ? WHERE partition = ? AND number = ?

-- name: learn
INSERT INTO swath_fact (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value


-- reopen

-- name: reopened_done
SELECT lane, priority, span, hash FROM swath_done WHERE partition = :partition AND position = :position

-- name: reopened_dead
SELECT lane, priority, span, hash FROM swath_dead WHERE partition = :partition AND position = :position

-- name: reopen_done
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts)
SELECT partition, lane, ?, ?, ?, hash, key, payload, span, 0 FROM swath_done WHERE partition = ? AND position = ?

-- name: reopen_dead
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts)
SELECT partition, lane, ?, ?, ?, hash, key, payload, span, 0 FROM swath_dead WHERE partition = ? AND position = ?

-- name: delete_done
DELETE FROM swath_done WHERE partition = :partition AND position = :position

-- name: delete_dead
DELETE FROM swath_dead WHERE partition = :partition AND position = :position


-- look: read by the second connection, which never waits for the writer

-- name: partition_states
SELECT partition, time, next_position, next_place, checkpoint, checkpoint_dead, claims_made,
       ready, delayed, claimed, done, dead, lanes, visits
FROM swath_partition_state ORDER BY partition

-- name: count_rows
-- As slow as the frontier is large; for tests and for whoever doubts the counters.
SELECT (SELECT count(*) FROM swath_item WHERE partition = :partition),
       (SELECT count(*) FROM swath_delayed WHERE partition = :partition),
       (SELECT count(*) FROM swath_claimed WHERE partition = :partition),
       (SELECT count(*) FROM swath_done WHERE partition = :partition),
       (SELECT count(*) FROM swath_dead WHERE partition = :partition),
       (SELECT count(*) FROM swath_lane WHERE partition = :partition),
       (SELECT coalesce(sum(visits), 0) FROM swath_lane WHERE partition = :partition)

-- name: find_seen
-- A hash begins with the key's, so a key is one range in each partition, whichever lanes it is in.
SELECT position FROM swath_seen WHERE partition = :partition AND hash >= :lowest AND hash <= :highest

-- name: find_ready
SELECT lane, key, 7 - rank / 2, payload, attempts, reason, error, rank, place
FROM swath_item WHERE partition = :partition AND position = :position

-- name: find_delayed
SELECT lane, key, priority, payload, attempts, reason, error, due_at, settled_at, result
FROM swath_delayed WHERE partition = :partition AND position = :position

-- name: find_claimed
SELECT i.lane, i.key, i.priority, i.payload, i.attempts, i.reason, i.error, c.fence, c.worker, c.expires_at
FROM swath_claimed AS i CROSS JOIN swath_claim AS c
WHERE i.partition = :partition AND i.position = :position AND c.fence = i.fence

-- name: find_done
SELECT lane, key, priority, payload, settled_at, result
FROM swath_done WHERE partition = :partition AND position = :position

-- name: find_dead
SELECT lane, key, priority, payload, attempts, reason, error, settled_at
FROM swath_dead WHERE partition = :partition AND position = :position

-- name: count_ahead
SELECT count(*) FROM (
    SELECT 1 FROM swath_item WHERE partition = :partition AND lane = :lane AND (rank, place) < (:rank, :place) LIMIT :limit
)

-- name: list_lanes
SELECT partition, number, name, min_interval, concurrency, blocked_until, waiting, in_flight, last_at, ready_at, visits,
       counters, low, head, level, paused
FROM swath_lane WHERE (partition, number) > (:after_partition, :after_number)
ORDER BY partition, number LIMIT :limit

-- name: list_dead
SELECT d.partition, d.position, l.name, d.priority, d.key, d.payload, d.attempts, d.settled_at,
       coalesce(d.reason, ''), d.error
FROM swath_dead AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.position) > (:after_partition, :after_position)
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.position LIMIT :limit

-- name: list_unsettled
-- Each table in order and no further than the limit: a frontier of millions is listed page by page.
WITH held AS (
    SELECT * FROM (
        SELECT partition, position, 'ready' AS state, lane, 7 - rank / 2 AS priority, key, payload, attempts
        FROM swath_item
        WHERE (partition, position) > (:after_partition, :after_position) ORDER BY partition, position LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT partition, position, 'delayed', lane, priority, key, payload, attempts
        FROM swath_delayed INDEXED BY swath_delayed_unsettled
        WHERE (partition, position) > (:after_partition, :after_position) AND NOT revisit
        ORDER BY partition, position LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT partition, position, 'claimed', lane, priority, key, payload, attempts FROM swath_claimed
        WHERE (partition, position) > (:after_partition, :after_position) ORDER BY partition, position LIMIT :limit)
    ORDER BY 1, 2 LIMIT :limit
)
SELECT h.partition, h.position, h.state, l.name, h.priority, h.key, h.payload, h.attempts
FROM held AS h CROSS JOIN swath_lane AS l WHERE l.partition = h.partition AND l.number = h.lane
ORDER BY h.partition, h.position

-- name: facts
SELECT f.key, f.value FROM json_each(:keys) AS wanted CROSS JOIN swath_fact AS f WHERE f.key = wanted.value

-- name: counters
SELECT name, sum(value) FROM swath_counter GROUP BY name ORDER BY name

-- name: outputs
SELECT name, length FROM swath_output ORDER BY name


-- the file itself

-- name: names
-- Of everything in the file, as SQLite compares them.
SELECT lower(name) FROM sqlite_master

-- name: migrations
SELECT name, applied_at FROM swath_migration ORDER BY name

-- name: record_migration
INSERT INTO swath_migration (name, applied_at) VALUES (:name, :applied_at)

-- name: save_format
UPDATE swath_frontier SET format = :format WHERE id = 1
