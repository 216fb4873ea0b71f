-- Time since the boot instead of the wall clock: durations do not change when the machine's clock is set.

ALTER TABLE swath_frontier ADD COLUMN boot TEXT NOT NULL DEFAULT '';
ALTER TABLE swath_frontier ADD COLUMN boot_offset INTEGER NOT NULL DEFAULT 0;

ALTER TABLE swath_lane ADD COLUMN blocked_wall INTEGER;

CREATE INDEX swath_lane_wall ON swath_lane (partition, blocked_wall)
WHERE blocked_wall IS NOT NULL AND level IS NOT NULL;

ALTER TABLE swath_delayed ADD COLUMN wall INTEGER NOT NULL DEFAULT 0;

DROP INDEX swath_delayed_due;

CREATE INDEX swath_delayed_due ON swath_delayed (partition, wall, due_at, position);
