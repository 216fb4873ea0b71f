"""When positions were allotted, and who changed the frontier."""

from swath.conformance.trial import Conformance, Start
from swath.core.milestones import DAY, HOUR, MINUTE
from swath.core.store import AUDIT_KEPT, AuditChange


class History(Conformance):
    async def test_date_positions_while_a_partition_grows(self, start: Start) -> None:
        """A position has the time of the last change in its minute, and never an earlier time than its own."""
        trial = await start(partitions=2)
        lane, times = trial.lane(1), {}
        for n in range(1, 13):
            await trial.add(f"key{n}", lane=lane)
            times[n] = (await trial.status(1)).time
            trial.clock.advance(20)
        found = await trial.store.date_positions([(1, n) for n in range(1, 13)])
        for n, time in enumerate(found, 1):
            assert times[n] <= time <= times[n] + MINUTE
            assert time in times.values()
        assert await trial.store.date_positions([(1, 12), (1, 1)]) == [times[12], found[0]]
        assert await trial.store.date_positions([]) == []

    async def test_date_positions_is_not_changed_by_what_adds_nothing(self, start: Start) -> None:
        trial = await start()
        await trial.add("first")
        added = (await trial.status()).time
        trial.clock.advance(3 * 60)
        for n in range(3):
            await trial.change_lane("other", concurrency=n + 1)
            trial.clock.advance(3 * 60)
        await trial.add("last")
        assert (await trial.store.date_positions([(0, 1)]))[0] == added

    async def test_date_positions_after_hours_and_days(self, start: Start) -> None:
        """Old milestones are thinned: to one an hour, later to one a day."""
        trial = await start()
        times: dict[int, int] = {}

        async def add(count: int, seconds: float) -> None:
            for _ in range(count):
                await trial.add(f"key{len(times)}")
                times[len(times) + 1] = (await trial.status()).time
                trial.clock.advance(seconds)

        await add(12, 600)
        await add(30, 120)
        found = await trial.store.date_positions([(0, n) for n in times])
        for n, time in enumerate(found, 1):
            assert times[n] <= time < times[n] + HOUR
        assert len(set(found[:6])) <= 2
        await add(3, 9 * 86_400)
        found = await trial.store.date_positions([(0, n) for n in times])
        for n, time in enumerate(found, 1):
            assert times[n] <= time < times[n] + DAY
        assert len(set(found[:42])) <= 2

    async def test_date_positions_of_unsettled_items_above_the_checkpoint(self, start: Start) -> None:
        """What the checkpoint has passed is forgotten, and nothing else."""
        trial = await start()
        for n in range(4):
            await trial.add(f"key{n}")
            trial.clock.advance(4_000)
        before = await trial.store.date_positions([(0, 3), (0, 4)])
        await (await trial.claim(2)).finish()
        trial.clock.advance(7_200)
        await trial.add("last")
        assert (await trial.status()).checkpoint == 2
        assert await trial.store.date_positions([(0, 3), (0, 4)]) == before

    async def test_audit_lists_the_last_changes(self, start: Start) -> None:
        trial = await start()
        assert list(await trial.store.audit()) == []
        first = AuditChange("ann@host", "pause", None, None, None)
        second = AuditChange("bob@host", "reopen_dead", "lane", 7, '{"reason":"503"}')
        await trial.store.audit_change(first)
        trial.clock.advance(5)
        await trial.store.audit_change(second)
        found = list(await trial.store.audit())
        assert [AuditChange(*row[2:]) for row in found] == [second, first]
        assert found[0].number > found[1].number
        assert found[0].time - found[1].time == 5_000_000
        assert list(await trial.store.audit(limit=1)) == found[:1]

    async def test_audit_is_bounded(self, start: Start) -> None:
        trial = await start()
        for n in range(AUDIT_KEPT + 5):
            await trial.store.audit_change(AuditChange("ann@host", "pause", None, n, None))
        found = await trial.store.audit(limit=2 * AUDIT_KEPT)
        assert [row.items for row in found] == list(range(AUDIT_KEPT + 4, 4, -1))
