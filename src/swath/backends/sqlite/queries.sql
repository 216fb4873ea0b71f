-- Every statement of the SQLite store, by topic. Bulk statements have positional parameters `?`, others `:name`.
-- One transaction runs at a time (BEGIN IMMEDIATE), so no statement locks a row or reads a value a second time to
-- check it. Lists are passed as JSON arrays, hashes as one blob of 20 bytes each.
-- In SQLite, CROSS JOIN fixes the order of a join: first the list, then an index lookup for each of its entries.


-- the frontier and its partitions

-- name: format
SELECT format FROM swath_frontier WHERE id = 1

-- name: frontier
-- Read at the start of every transaction, so that an older process stops after a migration.
SELECT format, partitions, min_interval, concurrency, max_attempts, paused, signal, boot, boot_offset
FROM swath_frontier WHERE id = 1

-- name: latest_time
SELECT max(time) FROM swath_partition_state

-- name: save_boot
UPDATE swath_frontier SET boot = :boot, boot_offset = :offset WHERE id = 1

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
-- Unlike PostgreSQL, SQLite updates the row in place and keeps no dead versions of it.
SELECT partition, time, next_position, next_place, checkpoint, checkpoint_dead, claims_made,
       ready, delayed, claimed, done, dead, lanes, visits
FROM swath_partition_state WHERE partition = ?

-- name: save_partition
UPDATE swath_partition_state
SET time = ?, next_position = ?, next_place = ?, checkpoint = ?, checkpoint_dead = ?, claims_made = ?,
    ready = ?, delayed = ?, claimed = ?, done = ?, dead = ?, lanes = ?, visits = ?
WHERE partition = ?

-- name: insert_milestone
-- A partition that did not grow has a milestone at its last position already.
INSERT INTO swath_milestone (partition, position, time) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: thin_milestones
-- Once an hour. A partition has at most some hundred milestones. See `thin_milestones` in core/milestones.py.
DELETE FROM swath_milestone WHERE partition = :partition AND position IN (
    SELECT position FROM (
        SELECT position, time, lead(time) OVER (ORDER BY position) AS above,
               CASE WHEN time < :week_ago THEN :day WHEN time < :hour_ago THEN :hour ELSE 1 END AS span
        FROM swath_milestone WHERE partition = :partition
    )
    WHERE position <= :checkpoint OR time / span = above / span
)

-- name: pulse
-- Its value changes when this frontier changes, because every write advances partition time, but not when another
-- frontier in the file changes.
SELECT (SELECT sum(time) FROM swath_partition_state), min_interval, concurrency, max_attempts, paused, signal
FROM swath_frontier WHERE id = 1

-- name: lock_partition
-- Acquires the write lock in the caller's transaction before anything is read, or fails.
UPDATE swath_partition_state SET time = time WHERE partition = ?

-- name: next_ready
-- INV-8. Returns when something is ready in a partition: one index lookup for each level, one for the first delayed item
-- of each clock, one for the first block by the wall clock to end, and one for the first lease to end. Unlike
-- PostgreSQL, SQLite has no dead index entries, so the result is exact and need not be stored.
SELECT (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 0),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 1),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 2),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 3),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 4),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 5),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 6),
       (SELECT min(ready_at) FROM swath_lane WHERE partition = :partition AND level = 7),
       (SELECT min(due_at) FROM swath_delayed WHERE partition = :partition AND wall = 0),
       (SELECT min(due_at) FROM swath_delayed WHERE partition = :partition AND wall = 1),
       (SELECT min(blocked_wall) FROM swath_lane
        WHERE partition = :partition AND blocked_wall IS NOT NULL AND level IS NOT NULL),
       (SELECT min(expires_at) FROM swath_hold WHERE partition = :partition)

-- name: lowest_unsettled
-- INV-6. Three index lookups from the checkpoint. Runs only when the item just above the checkpoint was settled.
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
       l.visits, l.counters, l.low, l.head, l.level, l.paused, l.blocked_wall
FROM json_each(:numbers) AS wanted CROSS JOIN swath_lane AS l
WHERE l.partition = :partition AND l.number = wanted.value

-- name: lanes_by_name
SELECT l.number, l.name, l.min_interval, l.concurrency, l.blocked_until, l.waiting, l.in_flight, l.last_at, l.ready_at,
       l.visits, l.counters, l.low, l.head, l.level, l.paused, l.blocked_wall
FROM json_each(:names) AS wanted CROSS JOIN swath_lane AS l
WHERE l.partition = :partition AND l.name = wanted.value

-- name: insert_lane
-- A lane's row exists before its first item.
INSERT INTO swath_lane (name, min_interval, concurrency, paused, blocked_until,
                  waiting, in_flight, last_at, head, low, level, ready_at, partition, number)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_lanes
-- Only `Lanes.write` runs this. `level` and `ready_at` are the place in the queue. Many lanes change in the same way, so
-- a few statements write them all. A time that is NULL stays unchanged.
UPDATE swath_lane
SET waiting = waiting + ?, in_flight = in_flight + ?, visits = visits + ?, last_at = coalesce(?, last_at), head = ?,
    low = ?, level = ?, ready_at = coalesce(?, ready_at)
WHERE partition = ? AND number IN (SELECT value FROM json_each(?))

-- name: save_lane_counts
-- For lanes that keep their place in the queue. If the statement named `level` or `ready_at`, SQLite would rewrite the
-- index entry of the queue, which for discovered links is usually on a separate page for each lane.
UPDATE swath_lane
SET waiting = waiting + ?, in_flight = in_flight + ?, visits = visits + ?, last_at = coalesce(?, last_at), head = ?,
    low = ?
WHERE partition = ? AND number IN (SELECT value FROM json_each(?))

-- name: default_lanes_in_flight
-- Lanes with items in flight and no concurrency of their own. Reads the claimed items, not all lanes.
SELECT number FROM swath_lane
WHERE partition = :partition AND concurrency IS NULL
  AND number IN (SELECT lane FROM swath_claimed WHERE partition = :partition)

-- name: save_lane_limits
UPDATE swath_lane SET min_interval = ?, concurrency = ?, paused = ?, blocked_until = ?, blocked_wall = ?
WHERE partition = ? AND number = ?


-- add

-- name: unknown_hashes
-- INV-7. Returns the indexes of the new hashes in a blob. One statement checks thousands of links.
WITH RECURSIVE entry (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM entry WHERE i + 1 < :count)
SELECT i FROM entry
WHERE NOT EXISTS (SELECT 1 FROM swath_seen WHERE partition = :partition AND hash = substr(:hashes, 1 + 20 * i, 20))

-- name: insert_seen
-- Rows are inserted in the order of their hashes, so that neighbours share a page.
INSERT INTO swath_seen (partition, hash, position) VALUES (?, ?, ?)

-- name: renumber_seen
UPDATE swath_seen SET position = ? WHERE partition = ? AND hash = ?

-- name: insert_item
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)

-- name: insert_delayed
-- Only `not_before` is a time of the wall clock. Other delays are durations.
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts, due_at, revisit, wall)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0, ?)


-- claim

-- name: last_fence
SELECT coalesce(max(fence), 0) FROM swath_claim

-- name: lost_holds
-- Finds expired claims with one index range, without reading their items.
SELECT fence FROM swath_hold WHERE partition = :partition AND expires_at <= :now LIMIT :limit

-- name: lost_items
SELECT position, lane, priority, losses, fence FROM swath_claimed WHERE partition = :partition AND fence = :fence

-- name: lose_claim
-- A claim that is lost in one partition is lost in all.
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
SELECT position, lane, priority, attempts, revisit, span, hash, due_at - :ahead
FROM swath_delayed WHERE partition = :partition AND wall = :wall AND due_at <= :now + :ahead
ORDER BY due_at, position LIMIT :limit

-- name: unblocked_lanes
SELECT number FROM swath_lane
WHERE partition = :partition AND blocked_wall <= :now AND level IS NOT NULL ORDER BY blocked_wall LIMIT :limit

-- name: unblock_lane
UPDATE swath_lane SET blocked_wall = NULL, blocked_until = ? WHERE partition = ? AND number = ?

-- name: drain_item
-- A revisit gets a new position; a retry keeps its own.
INSERT INTO swath_item (partition, lane, rank, place, position, hash, key, payload, span, attempts, losses,
                  reason, error)
SELECT partition, lane, ?, ?, ?, hash, key, payload, span, attempts, losses, reason, error
FROM swath_delayed WHERE partition = ? AND position = ?

-- name: delete_delayed
DELETE FROM swath_delayed WHERE partition = ? AND position = ?

-- name: ready_lanes
-- INV-8. Lanes that may start, by (ready_at, number), from the place where the last page ended. The index range ends
-- at :now, so lanes that are not ready cost nothing.
SELECT number, name, min_interval, concurrency, blocked_until, waiting, in_flight, last_at, ready_at, visits, counters,
       low
FROM swath_lane
WHERE partition = :partition AND level = :level AND ready_at <= :now AND (ready_at, number) > (:ready_at, :number)
ORDER BY ready_at, number LIMIT :limit

-- name: lane_items
-- The first items of one lane, down to the lowest rank of a level.
SELECT position, key, payload, attempts, span, losses
FROM swath_item WHERE partition = ? AND lane = ? AND rank <= ?
ORDER BY rank, place LIMIT ?

-- name: lane_ranks
-- The rank of the next item in each of these lanes, after items were taken from them.
SELECT wanted.value, (
    SELECT rank FROM swath_item WHERE partition = :partition AND lane = wanted.value ORDER BY rank LIMIT 1
) FROM json_each(:lanes) AS wanted

-- name: claim_firsts
-- INV-1. Moves the first item of each lane, which is all that most lanes may start. One statement moves them all: that
-- takes a third of the time of one statement per row.
INSERT INTO swath_claimed (partition, fence, position, lane, priority, hash, key, payload, span, attempts, losses,
                     reason, error)
SELECT i.partition, :fence, i.position, i.lane, 7 - i.rank / 2, i.hash, i.key, i.payload, i.span, i.attempts, i.losses,
       i.reason, i.error
FROM json_each(:lanes) AS wanted CROSS JOIN swath_item AS i
WHERE i.partition = :partition AND i.lane = wanted.value AND (i.rank, i.place) = (
    SELECT rank, place FROM swath_item WHERE partition = :partition AND lane = wanted.value ORDER BY rank, place LIMIT 1
)

-- name: claimed_items
-- The items that a claim holds in this partition.
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
INSERT INTO swath_claim (fence, token, worker, expires_at, claimed_at)
VALUES (:fence, :token, :worker, :expires_at, :claimed_at)

-- name: prune_claims
-- INV-9. An ended claim is kept for a while, so that a repeated settlement is recognised.
DELETE FROM swath_claim WHERE fence IN (
    SELECT fence FROM swath_claim WHERE fence < :below AND fence NOT IN (SELECT fence FROM swath_hold WHERE fence < :below)
    ORDER BY fence LIMIT :limit
)


-- renew

-- name: claim
SELECT token, worker, expires_at, lost, number FROM swath_claim WHERE fence = :fence

-- name: renew_claim
-- INV-2. The claim was read and checked in the same transaction. SQLite has a single writer and needs no row lock.
UPDATE swath_claim SET expires_at = :expires_at WHERE fence = :fence

-- name: renew_holds
UPDATE swath_hold SET expires_at = :expires_at WHERE fence = :fence


-- settle

-- name: held_items
-- INV-2. Finds only items that this claim holds.
SELECT c.position, c.lane, c.priority, c.span
FROM json_each(:positions) AS wanted CROSS JOIN swath_claimed AS c
WHERE c.partition = :partition AND c.fence = :fence AND c.position = wanted.value

-- name: is_seen
SELECT 1 FROM swath_seen WHERE partition = :partition AND hash = :hash

-- name: number_claim
-- A repeated settlement is recognised by the number of the claim's last one.
UPDATE swath_claim SET number = max(number, :number) WHERE fence = :fence

-- name: settle_done
-- The outcome of nearly every item. Results are passed as one JSON object, by position.
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT c.partition, c.position, c.lane, c.priority, c.hash, c.key, c.payload, c.span, :now, wanted.value
FROM json_each(:results) AS wanted CROSS JOIN swath_claimed AS c
WHERE c.partition = :partition AND c.fence = :fence AND c.position = CAST(wanted.key AS INTEGER)

-- name: settle_done_all
-- For a claim whose items are all done without results.
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
-- Released until a later time; no attempt is counted.
INSERT INTO swath_delayed (partition, position, lane, priority, hash, key, payload, span, attempts, losses,
                     due_at, revisit, reason, error)
SELECT partition, position, lane, priority, hash, key, payload, span, attempts, losses, ?, 0, reason, error
FROM swath_claimed WHERE partition = ? AND fence = ? AND position = ?

-- name: settle_smaller
-- A range of span 1 cannot be split into two positions; its rest replaces it.
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


-- name: audit_change
INSERT INTO swath_audit (time, actor, action, lane, items, detail) VALUES (?, ?, ?, ?, ?, ?)

-- name: prune_audit
DELETE FROM swath_audit WHERE number <= :below


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


-- repair

-- name: dead_positions
SELECT d.position
FROM json_each(:positions) AS wanted CROSS JOIN swath_dead AS d
WHERE d.partition = :partition AND d.position = wanted.value

-- name: repair_done
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT partition, position, lane, priority, hash, key, payload, span, :now, :result
FROM swath_dead WHERE partition = :partition AND position = :position

-- name: repair_dead
UPDATE swath_dead SET attempts = attempts + 1, settled_at = :now, reason = :reason, error = :error
WHERE partition = :partition AND position = :position


-- drop

-- name: waiting_items
-- The ready and delayed items at these positions: two index lookups for each.
SELECT 'ready', i.position, i.lane
FROM json_each(:positions) AS wanted CROSS JOIN swath_item AS i
WHERE i.partition = :partition AND i.position = wanted.value
UNION ALL
SELECT 'delayed', d.position, d.lane
FROM json_each(:positions) AS wanted CROSS JOIN swath_delayed AS d
WHERE d.partition = :partition AND d.position = wanted.value

-- name: drop_ready
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT i.partition, i.position, i.lane, 7 - i.rank / 2, i.hash, i.key, i.payload, i.span, :now, :result
FROM json_each(:positions) AS wanted CROSS JOIN swath_item AS i
WHERE i.partition = :partition AND i.position = wanted.value

-- name: drop_delayed
-- A revisit keeps its old position, which the checkpoint has passed.
INSERT INTO swath_done (partition, position, lane, priority, hash, key, payload, span, settled_at, result)
SELECT d.partition, d.position, d.lane, d.priority, d.hash, d.key, d.payload, d.span, :now, :result
FROM json_each(:positions) AS wanted CROSS JOIN swath_delayed AS d
WHERE d.partition = :partition AND d.position = wanted.value


-- reads: on the second connection, which never waits for the writer

-- name: partition_states
SELECT partition, time, next_position, next_place, checkpoint, checkpoint_dead, claims_made,
       ready, delayed, claimed, done, dead, lanes, visits
FROM swath_partition_state ORDER BY partition

-- name: count_rows
-- Reads every row. For tests and `swath db check`.
SELECT (SELECT count(*) FROM swath_item WHERE partition = :partition),
       (SELECT count(*) FROM swath_delayed WHERE partition = :partition),
       (SELECT count(*) FROM swath_claimed WHERE partition = :partition),
       (SELECT count(*) FROM swath_done WHERE partition = :partition),
       (SELECT count(*) FROM swath_dead WHERE partition = :partition),
       (SELECT count(*) FROM swath_lane WHERE partition = :partition),
       (SELECT coalesce(sum(visits), 0) FROM swath_lane WHERE partition = :partition)

-- name: known_places
-- For `swath db check`: five index lookups for each known hash.
SELECT s.partition, s.hash, s.position,
       EXISTS (SELECT 1 FROM swath_item AS i WHERE i.partition = s.partition AND i.position = s.position),
       EXISTS (SELECT 1 FROM swath_delayed AS i WHERE i.partition = s.partition AND i.position = s.position),
       EXISTS (SELECT 1 FROM swath_claimed AS i WHERE i.partition = s.partition AND i.position = s.position),
       EXISTS (SELECT 1 FROM swath_done AS i WHERE i.partition = s.partition AND i.position = s.position),
       EXISTS (SELECT 1 FROM swath_dead AS i WHERE i.partition = s.partition AND i.position = s.position)
FROM swath_seen AS s
WHERE (s.partition, s.hash) > (:partition, :hash)
ORDER BY s.partition, s.hash LIMIT :limit

-- name: find_position
SELECT position FROM swath_seen WHERE partition = ? AND hash = ?

-- name: find_seen
-- A hash begins with the hash of the key, so all lanes that have a key are one range in each partition.
SELECT position FROM swath_seen WHERE partition = :partition AND hash >= :lowest AND hash <= :highest

-- name: find_ready
SELECT lane, key, 7 - rank / 2, payload, attempts, reason, error, rank, place
FROM swath_item WHERE partition = :partition AND position = :position

-- name: find_delayed
SELECT lane, key, priority, payload, attempts, reason, error, due_at, settled_at, result, wall
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
       counters, low, head, level, paused, blocked_wall
FROM swath_lane WHERE (partition, number) > (:after_partition, :after_number)
ORDER BY partition, number LIMIT :limit

-- name: list_ready
-- Each of the next six reads at most `examined` rows in order, so that a page costs the same in a frontier of millions.
-- It returns for each row whether it is in the lane, and its place behind the partition.
SELECT d.partition, d.position, 'ready', l.name, 7 - d.rank / 2, d.key, d.payload, d.attempts,
       NULL, 0, NULL, NULL, NULL, d.reason, d.error, 0, d.position, 0, 1
FROM swath_item AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.position) > (:partition, :first)
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.position LIMIT :examined

-- name: list_ready_of_lane
-- Only ready items have an index by lane.
SELECT i.partition, i.position, 'ready', l.name, 7 - i.rank / 2, i.key, i.payload, i.attempts,
       NULL, 0, NULL, NULL, NULL, i.reason, i.error, 0, i.rank, i.place, 1
FROM swath_lane AS l CROSS JOIN swath_item AS i
WHERE l.partition = :partition AND l.name = :lane
  AND i.partition = l.partition AND i.lane = l.number AND (i.rank, i.place) > (:first, :second)
ORDER BY i.rank, i.place LIMIT :examined

-- name: list_delayed
SELECT d.partition, d.position, 'delayed', l.name, d.priority, d.key, d.payload, d.attempts,
       d.due_at, d.revisit, NULL, d.settled_at, d.result, d.reason, d.error, d.wall, d.position, 0,
       :lane IS NULL OR l.name = :lane
FROM swath_delayed AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.position) > (:partition, :first) AND d.partition <= :last_partition
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.position LIMIT :examined

-- name: list_claimed
SELECT d.partition, d.position, 'claimed', l.name, d.priority, d.key, d.payload, d.attempts,
       NULL, 0, d.fence, NULL, NULL, d.reason, d.error, 0, d.fence, d.position,
       :lane IS NULL OR l.name = :lane
FROM swath_claimed AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.fence, d.position) > (:partition, :first, :second) AND d.partition <= :last_partition
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.fence, d.position LIMIT :examined

-- name: list_done
SELECT d.partition, d.position, 'done', l.name, d.priority, d.key, d.payload, 0,
       NULL, 0, NULL, d.settled_at, d.result, NULL, NULL, 0, d.position, 0,
       (:lane IS NULL OR l.name = :lane) AND (:result_text IS NULL OR instr(d.result, :result_text) > 0)
FROM swath_done AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.position) > (:partition, :first) AND d.partition <= :last_partition
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.position LIMIT :examined

-- name: list_dead
SELECT d.partition, d.position, 'dead', l.name, d.priority, d.key, d.payload, d.attempts,
       NULL, 0, NULL, d.settled_at, NULL, d.reason, d.error, 0, d.position, 0,
       :lane IS NULL OR l.name = :lane
FROM swath_dead AS d CROSS JOIN swath_lane AS l
WHERE (d.partition, d.position) > (:partition, :first) AND d.partition <= :last_partition
  AND l.partition = d.partition AND l.number = d.lane
ORDER BY d.partition, d.position LIMIT :examined

-- name: list_claims
-- Only claims that hold items have rows in `hold`.
SELECT c.fence, c.worker, c.claimed_at, c.expires_at, sum(h.held)
FROM swath_hold AS h CROSS JOIN swath_claim AS c
WHERE h.fence > :after AND c.fence = h.fence
GROUP BY h.fence ORDER BY h.fence LIMIT :limit

-- name: list_pending
-- Reads each table in order and up to the limit, so that a page costs the same in a frontier of millions.
WITH held AS (
    SELECT * FROM (
        SELECT partition, position, 'ready' AS state, lane, 7 - rank / 2 AS priority, key, payload, attempts, 0 AS revisit
        FROM swath_item
        WHERE (partition, position) > (:after_partition, :after_position) ORDER BY partition, position LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT partition, position, 'delayed', lane, priority, key, payload, attempts, 0
        FROM swath_delayed INDEXED BY swath_delayed_unsettled
        WHERE (partition, position) > (:after_partition, :after_position) AND NOT revisit
        ORDER BY partition, position LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT partition, position, 'delayed', lane, priority, key, payload, attempts, 1
        FROM swath_delayed
        WHERE :revisits AND (partition, position) > (:after_partition, :after_position) AND revisit
        ORDER BY partition, position LIMIT :limit)
    UNION ALL
    SELECT * FROM (
        SELECT partition, position, 'claimed', lane, priority, key, payload, attempts, 0 FROM swath_claimed
        WHERE (partition, position) > (:after_partition, :after_position) ORDER BY partition, position LIMIT :limit)
    ORDER BY 1, 2 LIMIT :limit
)
SELECT h.partition, h.position, h.state, l.name, h.priority, h.key, h.payload, h.attempts, NULL, h.revisit
FROM held AS h CROSS JOIN swath_lane AS l WHERE l.partition = h.partition AND l.number = h.lane
ORDER BY h.partition, h.position

-- name: date_position
SELECT time FROM swath_milestone WHERE partition = :partition AND position >= :position ORDER BY position LIMIT 1

-- name: list_audit
SELECT number, time, actor, action, lane, items, detail FROM swath_audit ORDER BY number DESC LIMIT :limit

-- name: facts
SELECT f.key, f.value FROM json_each(:keys) AS wanted CROSS JOIN swath_fact AS f WHERE f.key = wanted.value

-- name: counters
SELECT name, sum(value) FROM swath_counter GROUP BY name ORDER BY name

-- name: outputs
SELECT name, length FROM swath_output ORDER BY name


-- the file itself

-- name: names
-- The names of all tables and indexes in the file, in lowercase, because SQLite ignores the case.
SELECT lower(name) FROM sqlite_master

-- name: migrations
SELECT name, applied_at FROM swath_migration ORDER BY name

-- name: record_migration
INSERT INTO swath_migration (name, applied_at) VALUES (:name, :applied_at)

-- name: save_format
UPDATE swath_frontier SET format = :format WHERE id = 1
