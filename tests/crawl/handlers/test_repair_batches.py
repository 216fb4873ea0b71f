"""Which repaired pages commit together, and when."""

from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from swath import Item
from swath.crawl import repair as repair_module
from swath.crawl.archive.record import Capture, ItemLine
from swath.crawl.repair import LINK_BYTES, CrawlRepair, _Repaired
from tests.crawl.handlers.running import make_settings


class Settled(NamedTuple):
    partition: int
    pages: int


@pytest.fixture
def repair(tmp_path: Path) -> CrawlRepair:
    return CrawlRepair(make_settings(tmp_path), cast(Any, None), cast(Any, None))


def add(repair: CrawlRepair, partition: int, *, size: int = 0, links: int = 0, dead: bool = False) -> None:
    item = Item("http://a.example/", partition=partition, position=1)
    lines = (ItemLine("Book", b"x" * size),) if size else ()
    outcome = item.dead(reason="no") if dead else item.done(discovered=[Item(f"{n}") for n in range(links)])
    page = _Repaired(outcome, Capture({}, None, lines))
    repair._waiting[partition].append(page)
    repair._count += 1
    repair._size += page.size


async def settle(repair: CrawlRepair, until: int) -> list[Settled]:
    found: list[Settled] = []

    async def note(pages: list[_Repaired], _: object) -> None:
        found.append(Settled(pages[0].outcome.item.partition, len(pages)))

    repair._settle = note  # type: ignore[method-assign,assignment]
    await repair._settle_some(cast(Any, None), until=until)
    return found


async def test_the_partition_with_the_most_pages_is_settled_until_few_wait(repair: CrawlRepair) -> None:
    for partition in (0, 1, 1, 1, 2, 2):
        add(repair, partition)
    assert await settle(repair, 7) == []
    assert await settle(repair, 6) == [(1, 3)]
    assert await settle(repair, 1) == [(2, 2), (0, 1)]
    assert (repair._count, repair._size, dict(repair._waiting)) == (0, 0, {})


async def test_large_pages_do_not_wait_for_others(repair: CrawlRepair, monkeypatch: pytest.MonkeyPatch) -> None:
    add(repair, 0, size=500)
    add(repair, 1, size=100)
    add(repair, 1, size=100)
    total = repair._size
    monkeypatch.setattr(repair_module, "BATCH_BYTES", total + 1)
    assert await settle(repair, 9) == []
    monkeypatch.setattr(repair_module, "BATCH_BYTES", total)
    assert await settle(repair, 9) == [(1, 2)]
    assert (repair._count, list(repair._waiting)) == (1, [0])
    assert 500 < repair._size < total


def test_links_count_with_their_bytes() -> None:
    item = Item("a")
    plain = _Repaired(item.done(), Capture({}, None, ())).size
    assert _Repaired(item.done(discovered=[Item("b"), Item("c")]), Capture({}, None, ())).size == plain + 2 * LINK_BYTES
    assert _Repaired(item.dead(reason="no"), Capture({}, None, ())).size == plain
