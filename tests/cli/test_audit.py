"""`swath audit`: changes by the command line and by Frontier, with who made them."""

import getpass

from swath import Frontier, Item
from tests.cli.conftest import Run, on


def test_changes_are_listed_with_who_made_them(url: str, swath: Run) -> None:
    async def work(frontier: Frontier) -> None:
        await frontier.add([Item("a", lane="x"), Item("b", lane="x"), Item("c", lane="y")])
        claim = await frontier.claim(1)
        assert claim is not None
        await claim.settle([claim.items[0].dead(reason="gone")])
        await frontier.limit("x", min_interval=5)
        await frontier.limit("x", concurrency=None, audit=False)
        await frontier.configure(concurrency=None, max_attempts=3)
        assert await frontier.reopen("nobody") == 0
        assert await frontier.reopen_dead(reason="gone") == 1
        assert await frontier.drop(lane="y", reason="red \x1b[31m") == 1
        assert await frontier.reopen_done(result_key="dropped") == 1

    assert swath("db", "init").code == 0
    assert swath("audit").out == ""
    on(url, work)
    assert swath("pause", "x").code == 0
    result = swath("audit")
    assert (result.code, result.err) == (0, "")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[2:] for row in rows] == [
        ["pause", "x", "", ""],
        ["reopen_done", "", "1", "result_key dropped"],
        ["drop", "y", "1", r"reason red \x1b[31m"],
        ["reopen_dead", "", "1", "reason gone"],
        ["configure", "", "", "max_attempts 3, concurrency null"],
        ["limit", "x", "", "min_interval 5"],
    ]
    assert all(row[1].startswith(f"{getpass.getuser()}@") for row in rows)
    (entry,) = swath("audit", "--limit", "1", "--json").json_lines()
    assert (entry["change"], entry["lane"], entry["items"], entry["details"]) == ("pause", "x", None, {})
    assert swath("audit", "--limit", "0").code == 2
