"""Place: the frontier and the file of findings of a scan, made ready before anything is looked at."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import swath
from swath import Frontier, Item, NotAFrontier, UsageError
from swath.files.append_file import AppendFile
from swath.scan.counts import file_name
from swath.scan.finding import start
from swath.scan.open_findings import Ledger, lines_of
from swath.scan.path_keys import key_of
from swath.scan.settings import ScanSettings, differences
from swath.scan.sources.source import Source, work

SCAN = "scan"  # keys of facts
ENDED = "scan ended"
RECHECK = "recheck"
KEYS_AT_ONCE = 200  # of a recheck, in one item
KEYS_SIZE = 150_000  # and bytes of them
MAX_ATTEMPTS = 5


class Prepared(NamedTuple):
    """What was found and made."""

    resumed: bool
    began: str
    scan: str  # what the lines of this output are marked with
    round: int  # 0: the scan itself; else the number of the recheck


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def output_name(settings: ScanSettings) -> str:
    """What the store knows this output by. Not its path: directories are moved, and machines have other ones."""
    return key_of(settings.lines.name)


async def prepare(settings: ScanSettings, source: Source) -> Prepared:
    """Make frontier and output ready, and queue what there is to look at."""
    if settings.fresh:
        await asyncio.to_thread(_remove, settings)
    await _refuse(settings, source)
    async with swath.open(settings.store_url, partitions=1, max_attempts=MAX_ATTEMPTS) as frontier:
        known = await _known(frontier, settings, source)
        resumed = known is not None
        if known is None:
            known = await _begin(frontier, settings, source)
        mark = await _own_output(frontier, settings)
        if not known["planned"]:
            await frontier.add(_each(source.first(known["state"])))
            await frontier.learn({SCAN: {**known, "planned": True}})
        number = await _recheck(frontier, settings, source)
    return Prepared(resumed, known["began"], mark, number)


async def _refuse(settings: ScanSettings, source: Source) -> None:
    """What is refused leaves nothing behind, and every frontier as it is."""
    try:
        async with swath.open(settings.store_url, create=False) as frontier:
            if await _known(frontier, settings, source) is not None:
                await _output_of(frontier, settings)
                return
    except NotAFrontier:
        pass
    if settings.recheck:
        raise UsageError(
            f"--recheck: nothing was scanned yet with --out {settings.out}. Run it without --recheck first"
        )
    await asyncio.to_thread(_refuse_stranger, settings, 0, None)


async def _known(frontier: Frontier, settings: ScanSettings, source: Source) -> dict[str, Any] | None:
    """What is known of this scan; None if it is yet to begin, UsageError where the frontier is not its own."""
    begun = (await frontier.status()).begun  # first: another process may begin the scan meanwhile
    known: dict[str, Any] | None = (await frontier.facts([SCAN])).get(SCAN)
    if known is not None:
        await _go_on(settings, source, known)
    elif begun:
        raise UsageError(f"{settings.store_url} holds work that is not a scan. Choose another --store")
    return known


async def _begin(frontier: Frontier, settings: ScanSettings, source: Source) -> dict[str, Any]:
    state = dict(await asyncio.to_thread(source.state))
    known = {"settings": settings.saved(), "state": state, "began": now(), "planned": False}
    await frontier.learn({SCAN: known})
    return known


async def _go_on(settings: ScanSettings, source: Source, known: Mapping[str, Any]) -> None:
    if changes := differences(known["settings"], settings.saved()):
        raise UsageError(
            f"{settings.store_url} belongs to another scan: {'; '.join(changes)}. Give the same to go on, or "
            f"another --out{'' if settings.store else ', or --fresh to begin anew'}"
        )
    changed = await asyncio.to_thread(source.changed, known["state"])
    if changed is not None:
        anew = "another --out and --store" if settings.store else "--fresh"
        raise UsageError(f"{changed}: what was found may be elsewhere now. Begin anew with {anew}")


async def _each(items: Any) -> AsyncIterator[Item]:
    """Items of a source that blocks while it makes them."""
    each = iter(items)
    while chunk := await asyncio.to_thread(_some, each):
        for item in chunk:
            yield item


def _some(each: Iterator[Item]) -> list[Item]:
    return [item for _, item in zip(range(1_000), each, strict=False)]


# the output


async def _own_output(frontier: Frontier, settings: ScanSettings) -> str:
    """The mark on the lines of this output, from which is cut off what a run before this one wrote and did not settle,
    also when nothing is left to do."""
    file = await asyncio.to_thread(AppendFile, settings.lines)  # of two that begin at once, one has its mark
    try:
        committed, mark = await _output_of(frontier, settings)
        if mark is None:
            mark = secrets.token_hex(4)
            await frontier.learn({_fact(settings): mark})
        await asyncio.to_thread(file.restore, committed)
    finally:
        file.close()
    return mark


async def _output_of(frontier: Frontier, settings: ScanSettings) -> tuple[int, str | None]:
    """How much of this output is committed, and the mark on its lines, if it has one. A file that is not this scan's is
    left alone."""
    committed = (await frontier.outputs()).get(file_name(output_name(settings)), 0)
    mark: str | None = (await frontier.facts([_fact(settings)])).get(_fact(settings))
    await asyncio.to_thread(_refuse_stranger, settings, committed, mark)
    return committed, mark


def _fact(settings: ScanSettings) -> str:
    """The key of the fact that has the mark of this output."""
    return f"output {output_name(settings)}"


def _refuse_stranger(settings: ScanSettings, committed: int, mark: str | None) -> None:
    path = settings.lines
    size = path.stat().st_size if path.exists() else 0
    if size < committed:
        raise UsageError(
            f"{path} is {size:,} bytes long and the store has {committed:,} of it: it is gone, or belongs to another "
            "machine. Put it back; or give each machine an --out of its own name"
        )
    if size and (mark is None or not _marked(path, mark)):
        anew = "" if settings.store else ", or --fresh to begin anew"
        raise UsageError(f"{path} holds something else than what this scan has found: give another --out{anew}")


def _marked(path: Path, mark: str) -> bool:
    """Whether a file begins as this scan's does, as far as a crash has let it."""
    begins = start(mark)
    with path.open("rb") as file:
        return begins.startswith(file.read(len(begins)))


def _remove(settings: ScanSettings) -> None:
    """Forget a scan: its findings and its frontier, unless somebody works on them."""
    for path in (settings.lines, Path(settings.out)):
        if path.exists() and path == settings.lines:
            AppendFile(path).close()  # refused while another process writes to it
        path.unlink(missing_ok=True)
    for name in settings.store_files:
        Path(name).unlink(missing_ok=True)


# rechecks


async def _recheck(frontier: Frontier, settings: ScanSettings, source: Source) -> int:
    """Queue the keys with open findings, if that is asked for; return the number of the recheck that is under way."""
    status = await frontier.status()
    known = (await frontier.facts([RECHECK])).get(RECHECK) or {"round": 0, "ended": True}
    name = output_name(settings)
    if not known["ended"] and known["out"] != name:
        raise UsageError(f"a recheck of {known['out']} is under way: wait until it has ended")
    if not settings.recheck and known["ended"]:
        return 0
    if known["ended"]:
        if status.waiting:
            raise UsageError("--recheck: the scan is not over. Run it without --recheck first")
        known = {"round": known["round"] + 1, "ended": False, "out": name, "began": now()}
        await frontier.learn({RECHECK: known})
    length = (await frontier.outputs()).get(file_name(name), 0)
    await frontier.add(_each(_rechecks(settings.lines, length, known["round"], source)))
    return int(known["round"])


def _rechecks(path: Path, length: int, number: int, source: Source) -> Iterator[Item]:
    """Items for all keys that were open before this round; the same ones whenever they are asked for."""
    ledger = Ledger(finding for finding in lines_of(path, length) if finding["round"] < number)
    before: dict[str, Mapping[str, int]] = {}
    room, count = KEYS_SIZE, 0
    for key, codes, findings in ledger.open_keys():
        rest = next((task for one in findings if (task := source.rest(key, one)) is not None), None)
        if rest is not None:
            yield work(f"recheck {number}: {key}", {**rest, "round": number, "before": {key: codes}})
            continue
        room -= 6 * len(key) + sum(len(code) + 20 for code in codes)
        if before and (room < 0 or len(before) == KEYS_AT_ONCE):
            count += 1
            yield _keys(number, count, before)
            before, room = {}, KEYS_SIZE
        before[key] = codes
    if before:
        yield _keys(number, count + 1, before)
    ledger.close()


def _keys(number: int, count: int, before: Mapping[str, Mapping[str, int]]) -> Item:
    return work(f"recheck {number}: keys {count}", {"keys": list(before), "round": number, "before": before})


async def ended(frontier: Frontier, prepared: Prepared, *, worked: bool) -> None:
    """Everything is settled: keep when that was. `worked` says that something was settled just now."""
    if prepared.round:
        known = (await frontier.facts([RECHECK]))[RECHECK]
        await frontier.learn({RECHECK: {**known, "ended": True, "at": now()}})
    elif worked or ENDED not in await frontier.facts([ENDED]):
        await frontier.learn({ENDED: now()})
