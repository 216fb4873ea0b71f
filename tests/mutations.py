"""Break each promise once on purpose, in a copy of the tree, and see which test catches it.

    python -m tests.mutations                 every mutation under the conformance suite, until the first failure
    python -m tests.mutations --machines      the same under the stateful machines
    python -m tests.mutations --only fence    those with this word in their name or file
    python -m tests.mutations --markdown      the table for tests/README.md

A mutation that survives, or whose text is no longer in its file, fails the run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "pyproject.toml", "README.md")
TIMEOUT_SECONDS = 1_200

CONFORMANCE = (
    "tests/conformance/test_stores.py",
    "tests/conformance/test_postgres_outputs.py",
    "tests/postgres/test_fences.py",
)
SQLITE_TESTS = tuple(f"tests/unit/test_sqlite_{name}.py" for name in ("store", "file", "schema", "model", "power_cut"))
CLOCK_TESTS = ("tests/unit/test_store_clock.py",)
SINK_TESTS = ("tests/crash/test_sink.py",)
MACHINES = ("tests/stateful/test_machine.py",)

SQLITE = "src/swath/backends/sqlite"
POSTGRES = "src/swath/backends/postgres/functions"


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    select: str  # for pytest -k, so that the other stores need not run
    tests: tuple[str, ...] = CONFORMANCE


MUTATIONS: Sequence[Mutation] = [
    # SQLite
    Mutation(
        "INV-1: a lane's items are handed out and stay where they are",
        f"{SQLITE}/queries.sql",
        "DELETE FROM swath_item WHERE partition = :partition AND position IN (SELECT value ",
        "DELETE FROM swath_item WHERE partition = :partition AND position IN (SELECT max(value) ",
        "sqlite",
    ),
    Mutation(
        "INV-1: a renewal does not reach those who take over",
        f"{SQLITE}/claim.py",
        '    session.connection.execute(session.sql["renew_holds"], where)\n',
        "",
        "sqlite",
    ),
    Mutation(
        "INV-2: the fence is not checked on settling",
        f"{SQLITE}/settle.py",
        "    require_held(session, ref, claim)\n    held",
        "    held",
        "sqlite",
    ),
    Mutation(
        "INV-2: a claim is known by its number alone, without its token",
        f"{SQLITE}/claim.py",
        "if row is not None and row[0] == ref.token else None",
        "if row is not None else None",
        "sqlite",
    ),
    Mutation(
        "INV-2: lost in one partition, and alive in the others",
        f"{SQLITE}/claim.py",
        '            self._connection.execute(self._sql["lose_claim"], {"fence": fence})\n',
        "",
        "sqlite",
    ),
    Mutation(
        "INV-2: a lease that has ended is renewed",
        f"{SQLITE}/claim.py",
        "    if ends <= now:\n",
        "    if False:\n",
        "sqlite",
    ),
    Mutation(
        "INV-3: a lane is queued although it is busy",
        f"{SQLITE}/state.py",
        "if self.head is None or self.paused or (pacing.concurrency and self.in_flight >= pacing.concurrency):",
        "if self.head is None or self.paused:",
        "sqlite",
    ),
    Mutation(
        "INV-3: a lane is placed at now, whatever its interval",
        f"{SQLITE}/state.py",
        "        if ready_at < earliest:\n",
        "        if False:\n",
        "sqlite",
    ),
    Mutation(
        "INV-3: the interval runs from the start instead of the settlement",
        f"{SQLITE}/settle.py",
        "if not starts_count(lane.pacing(default)):\n                    lane.pace(self._now)",
        "if not starts_count(lane.pacing(default)):\n                    pass",
        "sqlite",
    ),
    Mutation(
        "INV-3: work that never started counts as settled",
        f"{SQLITE}/settle.py",
        "            if move.started:\n                if not starts_count",
        "            if True:\n                if not starts_count",
        "sqlite",
    ),
    Mutation(
        "INV-3: a claim that starts nothing moves the lane's clock",
        f"{SQLITE}/claim.py",
        "            self.passed += 1\n            return 0\n",
        "            self.passed += 1\n",
        "sqlite",
    ),
    Mutation(
        "INV-3: a raised default does not hold for lanes that wait",
        f"{SQLITE}/claim.py",
        "ready = lane.earliest_start(pacing) <= self._now",
        "ready = True",
        "sqlite",
    ),
    Mutation(
        "INV-3: where starts begin to count, a lane's item in flight was never started",
        f"{SQLITE}/admin.py",
        "if lane.in_flight and starts_begin_to_count(before, pacing):",
        "if False:",
        "sqlite",
    ),
    Mutation(
        "INV-4: a lane counts what was dropped as waiting",
        f"{POSTGRES}/admin.sql",
        "s, _sum.lanes, _sum.levels, array_fill(-1, ARRAY[_sum.ready]), array_fill(0,",
        "s, _sum.lanes, _sum.levels, array_fill(0, ARRAY[_sum.ready]), array_fill(0,",
        "postgres",
    ),
    Mutation(
        "INV-6: the checkpoint waits for what was dropped",
        f"{POSTGRES}/admin.sql",
        "    IF _sum.advances THEN\n",
        "    IF false THEN\n",
        "postgres",
    ),
    Mutation(
        "INV-4: an inbox is emptied in part",
        f"{POSTGRES}/inbox.sql",
        "    RETURN {schema}.has_inbox_{set}(s);\nEND",
        "    RETURN false;\nEND",
        "postgres",
    ),
    Mutation(
        "INV-3: where starts begin to count by default, nothing in flight was ever started",
        f"{SQLITE}/admin.py",
        "if starts_begin_to_count(before, session.pacing):",
        "if False:",
        "sqlite",
    ),
    Mutation(
        "INV-4: the loss of a worker is forgotten",
        f"{SQLITE}/queries.sql",
        "span, attempts + 1, losses + 1, reason, error\nFROM swath_claimed",
        "span, attempts + 1, losses, reason, error\nFROM swath_claimed",
        "sqlite",
    ),
    Mutation(
        "INV-4: a retry that is due is dropped instead of made ready",
        f"{SQLITE}/claim.py",
        '        self._connection.executemany(self._sql["drain_item"], moved)\n',
        '        self._connection.executemany(self._sql["drain_item"], moved[1:])\n',
        "sqlite",
    ),
    Mutation(
        "INV-5: a settlement is applied again under the same number",
        f"{SQLITE}/settle.py",
        "if claim is not None and 0 < settlement.number <= claim.number:",
        "if claim is not None and 0 < settlement.number < claim.number:",
        "sqlite",
    ),
    Mutation(
        "INV-5: an output's length is set without being compared",
        f"{SQLITE}/settle.py",
        "    if committed != move.old:",
        "    if committed > move.new:",
        "sqlite",
    ),
    Mutation(
        "INV-6: the checkpoint goes one too far",
        f"{SQLITE}/state.py",
        "reached = (self.next_position if lowest is None else lowest) - 1",
        "reached = self.next_position - 1 if lowest is None else lowest",
        "sqlite",
    ),
    Mutation(
        "INV-6: the checkpoint passes what is claimed",
        f"{SQLITE}/queries.sql",
        "    SELECT min(position) FROM swath_claimed WHERE partition = :partition AND position > :checkpoint\n",
        "    SELECT NULL\n",
        "sqlite",
    ),
    Mutation(
        "INV-6: a revisit holds the checkpoint back",
        f"{SQLITE}/queries.sql",
        " INDEXED BY swath_delayed_unsettled\n"
        "    WHERE partition = :partition AND position > :checkpoint AND NOT revisit",
        " WHERE partition = :partition AND position > :checkpoint",
        "sqlite",
    ),
    Mutation(
        "INV-7: what is done is new again",
        f"{SQLITE}/queries.sql",
        "WHERE partition = :partition AND hash = substr(:hashes, 1 + 20 * i, 20))",
        "WHERE partition = :partition AND hash = substr(:hashes, 1 + 20 * i, 20)\n"
        "AND position NOT IN (SELECT position FROM swath_done WHERE partition = :partition))",
        "sqlite",
    ),
    Mutation(
        "fairness: nothing is left for lower levels",
        f"{SQLITE}/claim.py",
        "low = compute_low_share(limit, self._partition.claims_made) if len(levels) > 1 else 0",
        "low = 0",
        "sqlite",
    ),
    Mutation(
        "priority: a lane stands under the priority of what was taken from it",
        f"{SQLITE}/state.py",
        "if lane.low != lane.head}",
        "if False}",
        "sqlite",
    ),
    Mutation(
        "priority: a lane forgets that it has items of a lower priority",
        f"{SQLITE}/state.py",
        "if self.low is None or priority < self.low:",
        "if self.low is None:",
        "sqlite",
    ),
    Mutation(
        "fairness: a lane taken in part stays in front",
        f"{SQLITE}/claim.py",
        "lane.requeue(pacing, self._now, clock, new_turn=True)",
        "lane.requeue(pacing, self._now, clock)",
        "sqlite",
    ),
    Mutation(
        "INV-2: a lease is shortened when the clock steps back",
        f"{SQLITE}/claim.py",
        "    ends = max(ends, now + lease)",
        "    ends = now + lease",
        "sqlite",
    ),
    Mutation(
        "INV-2: where partition time is ahead of the clock, a lease ends too soon",
        f"{SQLITE}/claim.py",
        "        now = max(now, partition.time)",
        "        now = clock",
        "sqlite",
    ),
    Mutation(
        "INV-3: durations run on the wall clock",
        "src/swath/core/clock.py",
        "        return self._machine.since_boot() + self._offset\n",
        "        return self._machine.wall()\n",
        "sqlite",
        CLOCK_TESTS,
    ),
    Mutation(
        "INV-3: the offset of a boot is not stored",
        f"{SQLITE}/state.py",
        "        if writes:\n",
        "        if False:\n",
        "share",
        CLOCK_TESTS,
    ),
    Mutation(
        "INV-3: a boot with a wrong clock goes back in time",
        "src/swath/core/clock.py",
        "max(machine.wall(), latest)",
        "machine.wall()",
        "never_goes_back",
        CLOCK_TESTS,
    ),
    Mutation(
        "not_before does not follow the wall clock",
        f"{SQLITE}/claim.py",
        "(1, look.due_wall, self._ahead)",
        "(1, look.due_wall, 0)",
        "absolute",
        CLOCK_TESTS,
    ),
    Mutation(
        "INV-3: partition time steps back with the clock",
        f"{SQLITE}/state.py",
        "self.time = max(clock, self.time + 1)",
        "self.time = clock",
        "sqlite",
    ),
    Mutation(
        "INV-4: an item may lose one worker too many",
        f"{SQLITE}/claim.py",
        "if losses + 1 >= self._session.settings.max_attempts:",
        "if losses + 1 > self._session.settings.max_attempts:",
        "sqlite",
    ),
    Mutation(
        "INV-5: what is done takes the rest of its claim along",
        f"{SQLITE}/settle.py",
        "if len(self._results) == before and not any",
        "if self._results and not any",
        "sqlite",
    ),
    Mutation(
        "INV-5: results are lost where all of a claim is done",
        f"{SQLITE}/settle.py",
        "if len(self._results) == before and not any(self._results.values()):",
        "if len(self._results) == before:",
        "sqlite",
    ),
    Mutation(
        "INV-5: what was learned is not settled with the rest",
        f"{SQLITE}/settle.py",
        "    learn(session, settlement.facts)\n",
        "",
        "sqlite",
    ),
    Mutation(
        "INV-5: counters are not settled with the rest",
        f"{SQLITE}/settle.py",
        "    if settlement.counters:",
        "    if False:",
        "sqlite",
    ),
    Mutation(
        "INV-5: counters of lanes are not settled with the rest",
        f"{SQLITE}/settle.py",
        "_count_in_lanes(lanes, settlement.lane_counters)",
        "_count_in_lanes(lanes, {})",
        "sqlite",
    ),
    Mutation(
        "INV-5: a payload for the next visit is dropped",
        f"{SQLITE}/settle.py",
        'self._collect("settle_revisit", move, move.payload,',
        'self._collect("settle_revisit", move, None,',
        "sqlite",
    ),
    Mutation(
        "INV-7: a revisit is looked for at its old position",
        f"{SQLITE}/claim.py",
        '        self._connection.executemany(self._sql["renumber_seen"], renumbered)\n',
        "",
        "sqlite",
    ),
    Mutation(
        "INV-6: the checkpoint waits for what was dropped",
        f"{SQLITE}/admin.py",
        "wanted.intersection(position for _, position, _ in rows)",
        "()",
        "sqlite",
    ),
    Mutation(
        "priority: a lane stands under the priority of what was dropped from it",
        f"{SQLITE}/admin.py",
        "lanes.find_heads(touched.values())",
        "lanes.find_heads(())",
        "sqlite",
    ),
    Mutation(
        "INV-4: what a refused job of a group wrote is committed with the others",
        f"{SQLITE}/writer.py",
        '            self._connection.execute("ROLLBACK TO request")\n',
        "",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-3: lanes are remembered as a job left them that was rolled back",
        f"{SQLITE}/writer.py",
        "            request.error = error\n            self._session = None\n",
        "            request.error = error\n",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-3: lanes are remembered as they were before another process changed them",
        f"{SQLITE}/writer.py",
        "            self._version = version\n            self._session = None\n",
        "            self._version = version\n",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-5: the caller's writes can commit although the settlement was refused",
        f"{SQLITE}/external_transaction.py",
        "            _roll_back(connection)  # the caller",
        "            pass  # the caller",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-9: claims that ended are kept for ever",
        f"{SQLITE}/claim.py",
        "    if fence % PRUNE_EVERY == 0:",
        "    if False:",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "format: an older process continues after a migration",
        f"{SQLITE}/format.py",
        "    if stored > FORMAT:",
        "    if False:",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "schema: a frontier is made over tables of somebody else's",
        f"{SQLITE}/create.py",
        "        if clashes := location.find_clashes(self.names):",
        "        if clashes := []:",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "schema: all frontiers of a file have the same tables",
        f"{SQLITE}/location.py",
        '    return text.replace(f"{DEFAULT_SCHEMA}_", f"{schema}_")',
        "    return text",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-3: a power cut takes back the start of a paced lane",
        f"{SQLITE}/claim.py",
        "            self._session.need_durable()  # a power cut",
        "            pass  # the next start",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-4: a power cut takes back a settlement",
        f"{SQLITE}/writer.py",
        "        return self._may_sync and request.leases and alone",
        "        return self._may_sync and alone",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-6: a power cut moves the checkpoint back",
        f"{SQLITE}/claim.py",
        "        self._session.need_durable()  # a dead item",
        "        pass  # a dead item",
        "sqlite",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-9: a commit does not wait for a log that is too long",
        f"{SQLITE}/wal_limiter.py",
        "        if self._log.has_frame(self._wait_at):",
        "        if False:",
        "log",
        ("tests/crash/test_sqlite_wal_limit.py",),
    ),
    Mutation(
        "INV-9: items are claimed although their output cannot be written",
        "src/swath/runner/dispatcher.py",
        "        if self._committer.is_blocked:",
        "        if False:",
        "room",
        ("tests/unit/test_runner_output.py",),
    ),
    Mutation(
        "INV-9: a log is copied, and never begun anew",
        f"{SQLITE}/wal_limiter.py",
        "            if self._log.has_frame(self._next):",
        "            if False:",
        "log",
        ("tests/crash/test_sqlite_checkpointer.py",),
    ),
    Mutation(
        "fairness: a turn is as long as it can be, however many wait",
        f"{SQLITE}/writer.py",
        "ROUND_SECONDS / (1 + self._queue.waiting)",
        "ROUND_SECONDS",
        "turn",
        ("tests/crash/test_sqlite_write_queue.py",),
    ),
    Mutation(
        "fairness: whoever draws a ticket has the turn",
        f"{SQLITE}/write_queue.py",
        "                self._await_predecessor(self._file, self._ticket)\n",
        "",
        "share",
        ("tests/crash/test_sqlite_write_queue.py",),
    ),
    Mutation(
        "pacing: a looser default does not reach lanes that wait",
        f"{SQLITE}/admin.py",
        "        lane.requeue(lane.pacing(session.pacing), now, session.clock, new_turn=True)\n",
        "        pass\n",
        "sqlite",
    ),
    Mutation(
        "lost reply: a claim whose caller was cancelled is made a second time",
        f"{SQLITE}/store.py",
        "        before = self._unanswered.get(request.token)\n",
        "        before = None\n",
        "",
        SQLITE_TESTS,
    ),
    Mutation(
        "INV-4: what is confirmed goes into files that are gone",
        f"{SQLITE}/writer.py",
        "        self._files.check()\n",
        "",
        "",
        SQLITE_TESTS,
    ),
    Mutation(
        "transaction: with autocommit, the caller's writes commit without the settlement",
        f"{SQLITE}/external_transaction.py",
        "    if connection.in_transaction and getattr(",
        "    if False and getattr(",
        "",
        SQLITE_TESTS,
    ),
    # The runner, on both stores
    Mutation(
        "INV-5: rows are written again after a commit without a reply",
        "src/swath/runner/row_commit.py",
        "            if self._mark_committed is None:\n",
        "            if True:\n",
        "",
        SINK_TESTS,
    ),
    Mutation(
        "sink: a refused row ends the run",
        "src/swath/runner/row_commit.py",
        "            if (message := self._store.explain_refusal(error)) is not None:\n",
        "            if (message := None) is not None:\n",
        "",
        SINK_TESTS,
    ),
    # PostgreSQL
    Mutation(
        "INV-1: partitions are not locked",
        f"{POSTGRES}/partition.sql",
        "    PERFORM 1 FROM {schema}.partition WHERE partition = _partition FOR UPDATE;\n    RETURN",
        "    RETURN",
        "postgres",
    ),
    Mutation(
        "INV-1: a claim is taken over although it was renewed",
        f"{POSTGRES}/lease.sql",
        "AND NOT c.lost AND c.expires_at <= s.time FOR UPDATE SKIP LOCKED",
        "AND NOT c.lost FOR UPDATE SKIP LOCKED",
        "postgres",
    ),
    Mutation(
        "INV-2: the fence is not checked on settling",
        f"{POSTGRES}/settle.sql",
        "AND NOT c.lost AND (c.number < _number OR _number = 0);",
        "AND (c.number < _number OR _number = 0);",
        "postgres",
    ),
    Mutation(
        "INV-2: a lease that has ended is renewed",
        f"{POSTGRES}/lease.sql",
        "WHERE fence = _fence AND token = _token AND NOT lost AND expires_at > _now",
        "WHERE fence = _fence AND token = _token AND NOT lost",
        "postgres",
    ),
    Mutation(
        "INV-2: a claim is known by its number alone, without its token",
        f"{POSTGRES}/settle.sql",
        "WHERE c.fence = _fence AND c.token = _token AND NOT c.lost",
        "WHERE c.fence = _fence AND NOT c.lost",
        "postgres",
    ),
    Mutation(
        "INV-2: a claim takes what a later one had held, under its lower fence",
        f"{POSTGRES}/claim.sql",
        "IF fence > 0 AND s.last_fence > fence THEN",
        "IF false THEN",
        "postgres",
    ),
    Mutation(
        "INV-3: a lane is queued although it is busy, and started",
        f"{POSTGRES}/lanes.sql",
        "WHEN _paused OR (_concurrency > 0 AND _in_flight >= _concurrency) THEN NULL",
        "WHEN _paused THEN NULL",
        "postgres",
    ),
    Mutation(
        "INV-3: the interval runs from the start instead of the settlement",
        f"{POSTGRES}/settle.sql",
        "CASE WHEN coalesce(o.concurrency, _concurrency) = 1 THEN _time ELSE o.last_at END AS now_last_at",
        "o.last_at AS now_last_at",
        "postgres",
    ),
    Mutation(
        "INV-3: the interval of a lane that discovered runs from the start",
        f"{POSTGRES}/add.sql",
        "|| _waits, array_fill(-1, ARRAY[_items]), array_fill(true, ARRAY[_items]),\n",
        "|| _waits, array_fill(-1, ARRAY[_items]), NULL,\n",
        "postgres",
    ),
    Mutation(
        "INV-3: a lane that discovered what is known stays busy",
        f"{POSTGRES}/add.sql",
        "            s, _freed, NULL, NULL, array_fill(-1, ARRAY[_items]), array_fill(true, ARRAY[_items]),\n",
        "            s, _freed, NULL, NULL, array_fill(0, ARRAY[_items]), array_fill(true, ARRAY[_items]),\n",
        "postgres",
    ),
    Mutation(
        "INV-3: a lane taken back from a lost worker starts at once",
        f"{POSTGRES}/lanes.sql",
        "_cause IN ('back', 'count') OR (_cause = 'settle'",
        "_cause = 'count' OR (_cause = 'settle'",
        "postgres",
    ),
    Mutation(
        "INV-3: a lost worker keeps its place in the lane",
        f"{POSTGRES}/lease.sql",
        "s, _lanes, _levels, _waits, array_fill(-1, ARRAY[_count]), array_fill(true, ARRAY[_count]), NULL, 'back');",
        "s, _lanes, _levels, _waits, array_fill(0, ARRAY[_count]), array_fill(true, ARRAY[_count]), NULL, 'back');",
        "postgres",
    ),
    Mutation(
        "INV-3: a raised default does not hold for lanes that wait",
        f"{POSTGRES}/claim.sql",
        "                            AND l.last_at + coalesce(l.min_interval, _min_interval) > _time THEN 0\n",
        "                            AND false THEN 0\n",
        "postgres",
    ),
    Mutation(
        "INV-3: where starts begin to count, a lane's item in flight was never started",
        f"{POSTGRES}/admin.sql",
        "IF l.in_flight > 0 AND NOT _counted AND coalesce(l.concurrency, _default) <> 1 THEN",
        "IF false THEN",
        "postgres",
    ),
    Mutation(
        "pacing: a looser default does not reach lanes that wait",
        f"{POSTGRES}/admin.sql",
        "{schema}.change_lanes_{set}(_old, _lanes::integer[], NULL, NULL, NULL, NULL, NULL, 'limits'), _old, true",
        "{schema}.change_lanes_{set}(_old, _lanes::integer[], NULL, NULL, NULL, NULL, NULL, 'settle'), _old, true",
        "postgres",
    ),
    Mutation(
        "INV-3: where starts begin to count by default, nothing in flight was ever started",
        f"{POSTGRES}/admin.sql",
        "    IF _counts THEN\n",
        "    IF false THEN\n",
        "postgres",
    ),
    Mutation(
        "INV-3: a claim goes by a default that was changed before it had the lock",
        f"{POSTGRES}/claim.sql",
        "SELECT d.min_interval, d.concurrency INTO STRICT _min_interval, _concurrency FROM {schema}.frontier AS d;",
        "_min_interval := f.min_interval; _concurrency := f.concurrency;",
        "a_claim_that_waited_goes_by_the_default",
        ("tests/postgres/test_skipping.py",),
    ),
    Mutation(
        "INV-4: the inbox is drained and forgotten",
        f"{POSTGRES}/inbox.sql",
        "        RETURN s;\n    END IF;\n    RETURN {schema}.insert_items_{set}(s, ",
        "    END IF;\n    RETURN s;\n    RETURN {schema}.insert_items_{set}(s, ",
        "postgres",
    ),
    Mutation(
        "INV-4: an idle partition does not look into its inbox",
        f"{POSTGRES}/claim.sql",
        " AND NOT {schema}.has_inbox_{set}(_old) THEN",
        " THEN",
        "postgres",
    ),
    Mutation(
        "INV-4: the attempts of a lost worker are forgotten",
        f"{POSTGRES}/lease.sql",
        "            ({TOP_PRIORITY} - b.priority) * 2, b.attempts + 1, b.losses + 1",
        "            ({TOP_PRIORITY} - b.priority) * 2, b.attempts, b.losses + 1",
        "postgres",
    ),
    Mutation(
        "INV-4: the head of a deep lane is remembered one too far",
        f"{POSTGRES}/lanes.sql",
        "_heads[_rank + 2] := coalesce(_fresh + 1, _heads[_rank + 2]);",
        "_heads[_rank + 2] := coalesce(_fresh + 2, _heads[_rank + 2]);",
        "postgres",
    ),
    Mutation(
        "INV-4: the floor of the delayed passes what was not drained",
        f"{POSTGRES}/claim.sql",
        "s.delayed_floor := CASE WHEN _count < _most THEN s.time ELSE _last END;",
        "s.delayed_floor := s.time;",
        "postgres",
    ),
    Mutation(
        "INV-5: a settlement is applied again under the same number",
        f"{POSTGRES}/settle.sql",
        "AND NOT c.lost AND (c.number < _number OR _number = 0);",
        "AND NOT c.lost AND (c.number <= _number OR _number = 0);",
        "postgres",
    ),
    Mutation(
        "INV-5: an output's length is set without being compared",
        f"{POSTGRES}/settle.sql",
        "IF coalesce(_length, 0) <> _old_lengths[i] THEN",
        "IF coalesce(_length, 0) > _new_lengths[i] THEN",
        "postgres",
    ),
    Mutation(
        "INV-5: two who write one file look at its length at the same time",
        f"{POSTGRES}/settle.sql",
        "        PERFORM pg_advisory_xact_lock(hashtextextended({schema_literal} || '/' || _names[i], 0));\n",
        "",
        "postgres",
    ),
    Mutation(
        "INV-6: the checkpoint goes one too far",
        f"{POSTGRES}/partition.sql",
        "s.checkpoint := least(_found, _held, s.next_position) - 1;",
        "s.checkpoint := least(_found + 1, _held + 1, s.next_position) - 1;",
        "postgres",
    ),
    Mutation(
        "INV-6: the checkpoint passes what is delayed",
        f"{POSTGRES}/partition.sql",
        "                 AND NOT d.revisit\n             ORDER BY d.position + 0 LIMIT 1)",
        "                 AND d.revisit\n             ORDER BY d.position + 0 LIMIT 1)",
        "postgres",
    ),
    Mutation(
        "INV-6: an item that dies with its worker holds the checkpoint back",
        f"{POSTGRES}/lease.sql",
        "    IF _blocked THEN\n        s := {schema}.advance_checkpoint_{set}(s);\n    END IF;\n",
        "",
        "postgres",
    ),
    Mutation(
        "INV-7: what is done is new again",
        f"{POSTGRES}/add.sql",
        "        WHERE e.partition = _partition AND e.hash = ANY (_hashes)\n",
        "        WHERE e.partition = _partition AND e.hash = ANY (_hashes) AND NOT EXISTS (\n"
        "            SELECT 1 FROM {schema}.done AS x\n"
        "            WHERE x.partition = _partition AND x.position = e.position\n"
        "        )\n",
        "postgres",
    ),
    Mutation(
        "fairness: nothing is left for lower levels",
        f"{POSTGRES}/claim.sql",
        "THEN _wanted / 10 + (s.claims_made % 10 < _wanted % 10)::integer ELSE 0",
        "THEN 0 ELSE 0",
        "postgres",
    ),
    Mutation(
        "fairness: a lane taken in part stays in front",
        f"{POSTGRES}/claim.sql",
        "{schema}.lane_ready_at_{set}(_time, b.blocked_until, b.started_at, b.pause)",
        "{schema}.lane_ready_at_{set}(b.ready_at, b.blocked_until, b.started_at, b.pause)",
        "postgres",
    ),
    Mutation(
        "INV-2: a lease is shortened when the clock steps back",
        f"{POSTGRES}/lease.sql",
        "SET expires_at = greatest(expires_at, _now + _lease)  --",
        "SET expires_at = _now + _lease  --",
        "postgres",
    ),
    Mutation(
        "INV-3: partition time steps back with the clock",
        f"{POSTGRES}/partition.sql",
        "s.time := greatest({schema}.store_time_{set}(_test_time), s.time + 1);",
        "s.time := {schema}.store_time_{set}(_test_time);",
        "postgres",
    ),
    Mutation(
        "INV-5: what was learned is not settled with the rest",
        f"{POSTGRES}/settle.sql",
        "    IF cardinality(_fact_keys) > 0 THEN",
        "    IF false THEN",
        "postgres",
    ),
    Mutation(
        "INV-5: counters are not settled with the rest",
        f"{POSTGRES}/settle.sql",
        "    IF cardinality(_counter_names) > 0 THEN",
        "    IF false THEN",
        "postgres",
    ),
    Mutation(
        "INV-5: a claim forgets the counters of a lane",
        f"{POSTGRES}/claim.sql",
        "                    END,\n                    b.counters\n",
        "                    END,\n                    NULL::jsonb\n",
        "postgres",
    ),
    Mutation(
        "INV-5: a payload for the next visit is dropped",
        f"{POSTGRES}/settle.sql",
        "CASE WHEN h.kind = {DONE} THEN coalesce(h.payload, h.old_payload) ELSE h.old_payload END",
        "h.old_payload",
        "postgres",
    ),
    Mutation(
        "INV-4: what commits late into an inbox is never found",
        f"{POSTGRES}/inbox.sql",
        "AS x(xid) WHERE x.xid < s.inbox_from",
        "AS x(xid) WHERE false",
        "postgres",
        ("tests/postgres/test_inbox.py",),
    ),
    Mutation(
        "format: an older worker renews after a migration",
        f"{POSTGRES}/lease.sql",
        "    PERFORM {schema}.check_format_{set}(_format);\n    UPDATE {schema}.claim",
        "    UPDATE {schema}.claim",
        "postgres",
        ("tests/postgres/test_migration.py",),
    ),
    Mutation(
        "wake-up: discoveries for an idle partition wake no worker",
        f"{POSTGRES}/settle.sql",
        "        IF FOUND AND s.notified_at + {NOTIFY_INTERVAL} < s.time AND EXISTS (",
        "        IF false AND EXISTS (",
        "postgres",
        ("tests/postgres/test_notify.py",),
    ),
    Mutation(
        "lock: a client that stops reading keeps its partitions locked",
        f"{POSTGRES}/claim.sql",
        "> {MOST_BYTES_IN_REPLY}\n",
        "> 2000000000\n",
        "does_not_read",
        ("tests/postgres/test_stuck.py",),
    ),
    Mutation(
        "skip: a skipped partition counts as empty",
        "src/swath/frontier.py",
        "    return bool(reply.skipped) or (",
        "    return (",
        "",
        ("tests/postgres/test_skipping.py",),
    ),
    Mutation(
        "wake-up: every discovery notifies",
        f"{POSTGRES}/settle.sql",
        "        IF FOUND AND s.notified_at + {NOTIFY_INTERVAL} < s.time AND EXISTS (",
        "        IF FOUND AND EXISTS (",
        "postgres",
        ("tests/postgres/test_notify.py",),
    ),
]


class Verdict(NamedTuple):
    mutation: Mutation
    caught_by: str | None  # None: it survived
    trouble: str | None
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="WORD", help="mutations with this word in name or file")
    parser.add_argument("--machines", action="store_true", help="the stateful machines instead of the suite")
    parser.add_argument("--markdown", action="store_true", help="print the table of tests/README.md")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if arguments.only.lower() in f"{m.name} {m.file}".lower()]
    if arguments.machines:
        chosen = [m._replace(tests=MACHINES) for m in chosen if m.tests is CONFORMANCE]
    with tempfile.TemporaryDirectory(prefix="swath-mutations-") as directory:
        copy = Path(directory)
        copy_tree(copy)
        for tests, store in sorted({(mutation.tests, mutation.select) for mutation in chosen}):
            failed, _ = run_tests(copy, tests, store)
            if failed is not None:
                print(f"nothing is mutated, and {failed} fails: mend that first", file=sys.stderr)
                return 2
        verdicts = []
        for mutation in chosen:
            verdict = judge(copy, mutation)
            verdicts.append(verdict)
            print(said(verdict), file=sys.stderr if arguments.markdown else sys.stdout, flush=True)
    if arguments.markdown:
        print(table(verdicts))
    return int(any(verdict.caught_by is None for verdict in verdicts))


def copy_tree(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)


def judge(copy: Path, mutation: Mutation) -> Verdict:
    """Break the copy, run the tests until the first failure, and mend it."""
    started = time.monotonic()
    path = copy / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return Verdict(mutation, None, f"its text is there {text.count(mutation.old)} times", 0.0)
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        failed, _ = run_tests(copy, mutation.tests, mutation.select)
    finally:
        path.write_text(text, encoding="utf-8")
    return Verdict(mutation, failed, None, time.monotonic() - started)


def run_tests(copy: Path, selection: Sequence[str], select: str) -> tuple[str | None, str]:
    """The first test that fails, if one does; and what pytest said."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-k", select, *selection]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "SWATH_NO_SHRINK": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:  # it goes round in circles, which nobody overlooks
        return "the time limit", ""
    if done.returncode == 0:
        return None, done.stdout
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"pytest ended with {done.returncode} and named no test:\n{done.stdout}{done.stderr}")
    return found[1].rpartition("::")[2], done.stdout


def said(verdict: Verdict) -> str:
    fate = verdict.trouble or (f"caught by {verdict.caught_by}" if verdict.caught_by else "SURVIVED")
    return f"{fate:<90} {verdict.seconds:5.1f} s  {verdict.mutation.select}: {verdict.mutation.name}"


def table(verdicts: Sequence[Verdict]) -> str:
    lines = ["| mutation | file | caught by |", "|---|---|---|"]
    for mutation, caught_by, trouble, _ in verdicts:
        file = mutation.file.removeprefix("src/swath/backends/")
        lines.append(f"| {mutation.name} | `{file}` | {f'`{caught_by}`' if caught_by else trouble or 'nothing'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
