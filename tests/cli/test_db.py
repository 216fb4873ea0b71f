import re

from swath import Frontier, Item
from tests.cli.conftest import Run, add, kill, on


def test_init_creates_and_can_be_repeated(swath: Run) -> None:
    first = swath("db", "init", "--partitions", "2", "--min-interval", "1s", "--max-attempts", "3")
    assert first.code == 0
    assert "is ready: 2 partitions, one every 1 s, unlimited at once, up to 3 attempts" in first.out
    assert swath("db", "init").out == first.out
    assert swath("db", "init", "--concurrency", "4", "--json").json()["concurrency"] == 4
    assert swath("db", "init", "--partitions", "3").code == 2


def test_migrate_says_that_there_is_nothing_to_do(url: str, swath: Run) -> None:
    add(url)
    assert swath("db", "migrate").out == "nothing to do: the store has the current format\n"
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
    assert result.out.startswith("ok: counted 52 items in ")
    data = swath("db", "check", "--json").json()
    assert (data["ok"], data["mismatches"], data["skipped"]) == (True, [], [])
    assert result.out.splitlines()[1] == "ok: examined 104 keys and items, and each key is in one place"
    part = swath("db", "check", "--for", "0").out.splitlines()[1]
    assert part.startswith("ok: examined 52 keys and items, and each key is in one place. Not complete: continue with ")
    rest = swath("db", "check", *part.split()[-2:])
    assert (rest.code, rest.out) == (0, "ok: examined 52 keys and items, and each key is in one place\n")
    assert swath("db", "check", "--after", "nowhere").code == 2
