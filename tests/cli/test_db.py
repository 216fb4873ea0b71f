import re

from swath import Frontier, Item
from swath.cli.check import Finding, LaneSums, compare
from swath.core.store import PartitionStatus
from tests.cli.conftest import Run, add, kill, on


def test_init_creates_and_can_be_repeated(swath: Run) -> None:
    first = swath("db", "init", "--partitions", "2", "--min-interval", "1s", "--max-attempts", "3")
    assert first.code == 0
    assert "is ready: 2 partitions, one every 1 s, any number at once, up to 3 attempts" in first.out
    assert swath("db", "init").out == first.out
    assert swath("db", "init", "--concurrency", "4", "--json").json()["concurrency"] == 4
    assert swath("db", "init", "--partitions", "3").code == 2


def test_migrate_says_that_there_is_nothing_to_do(url: str, swath: Run) -> None:
    add(url)
    assert swath("db", "migrate").out == "nothing to do: the store has this version's format\n"
    assert swath("db", "migrate", "--json").json()["applied"] == []


def test_info(url: str, swath: Run) -> None:
    add(url, "a", partitions=2)
    facts = swath("db", "info").facts()
    assert facts["backend"] == url.partition(":")[0]
    assert facts["partitions"] == "2"
    assert re.fullmatch(r"[\d.]+ [kM]B", facts["size"])
    data = swath("db", "info", "--json").json()
    assert data["format"] == int(facts["format"])
    assert data["bytes"] > 0


def test_check_of_a_sound_store(url: str, swath: Run) -> None:
    kill(url, "a", "b")

    async def work(frontier: Frontier) -> None:
        await frontier.add([Item(f"k{n}", f"lane{n % 5}") for n in range(50)])
        claim = await frontier.claim(limit=20)
        assert claim is not None
        await claim.settle([item.done(revisit_after=60) for item in claim.items[:3]])

    on(url, work)
    result = swath("db", "check")
    assert (result.code, result.err) == (0, ""), result
    assert result.out.startswith("ok: 52 items in ")
    data = swath("db", "check", "--json").json()
    assert (data["ok"], data["findings"], data["moving"]) == (True, [], [])


SOUND = PartitionStatus(
    0, ready=2, delayed=1, claimed=1, done=3, visits=3, dead=1, lanes=2, inbox=0, checkpoint=2, checkpoint_dead=1,
    end=8, next_ready_at=None, time=0,
)  # fmt: skip
LANES = LaneSums(waiting=2, in_flight=1)


def texts(kept: PartitionStatus, counted: PartitionStatus = SOUND, lanes: LaneSums = LANES) -> list[str]:
    return [finding.text for finding in compare(kept, counted, lanes)]


def test_what_a_check_finds() -> None:
    assert texts(SOUND) == []
    assert texts(SOUND._replace(done=4)) == ["done says 4, the rows say 3"]
    assert texts(SOUND._replace(visits=4)) == ["visits says 4, the rows say 3"]
    assert "waiting" in texts(SOUND, lanes=LaneSums(1, 1))[0]
    assert "in flight" in texts(SOUND, lanes=LaneSums(2, 0))[0]
    too_far = SOUND._replace(checkpoint=9)
    assert texts(too_far, too_far) == ["INV-6: the checkpoint 9 is not between 0 and the end, 8"]
    settled = SOUND._replace(ready=0, delayed=0, claimed=0)
    assert "INV-6: all is settled" in texts(settled, settled, LaneSums())[0]
    crowded = SOUND._replace(done=9)
    assert "INV-4" in texts(crowded, crowded)[0]
    assert isinstance(next(compare(too_far, too_far, LANES)), Finding)
