"""Prepare the frontier and the file of findings before a scan, and plan rechecks."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import swath
from swath import Frontier, Item, NotAFrontier, UsageError, mask_password
from swath.files.append_file import AppendFile
from swath.scan.finding import make_line_prefix
from swath.scan.open_findings import OpenFindings, read_findings
from swath.scan.path_keys import path_to_key
from swath.scan.progress import ENDED, RECHECK, SCAN
from swath.scan.settings import ScanSettings, list_differences
from swath.scan.sources.source import Source, make_item

RECHECK_KEYS = 200  # per item
RECHECK_BYTES = 150_000  # of keys and codes per item
MAX_ATTEMPTS = 5


class PreparedScan(NamedTuple):
    """A scan that is ready to run."""

    resumed: bool
    began: str
    mark: str  # of this output, in each of its lines
    round: int  # 0: the scan itself; otherwise the number of the recheck


def format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def get_output_name(settings: ScanSettings) -> str:
    """Return the name of this output in the store. Not the path: directories move and differ between machines."""
    return path_to_key(settings.findings_path.name)


async def prepare(settings: ScanSettings, source: Source) -> PreparedScan:
    """Prepare the frontier and the output, and add the first items."""
    if settings.fresh:
        await _remove(settings)
    await _check_existing(settings, source)
    async with swath.open(settings.store_url, partitions=1, max_attempts=MAX_ATTEMPTS) as frontier:
        known = await _read_scan(frontier, settings, source)
        resumed = known is not None
        if known is None:
            known = await _start(frontier, settings, source)
        mark = await _claim_output(frontier, settings)
        if not known["planned"]:
            await frontier.add(_iterate_in_thread(source.list_first_items(known["state"])))
            await frontier.learn({SCAN: {**known, "planned": True}})
        number = await _start_recheck(frontier, settings, source)
    return PreparedScan(resumed, known["began"], mark, number)


async def _check_existing(settings: ScanSettings, source: Source) -> None:
    """Raise what `prepare` would raise, before it creates or changes anything."""
    try:
        async with swath.open(settings.store_url, create=False) as frontier:
            if await _read_scan(frontier, settings, source) is not None:
                await _read_output(frontier, settings)
                return
    except NotAFrontier:
        pass
    if settings.recheck:
        raise UsageError(f"--recheck: no scan with --out {settings.out} exists yet. Run it without --recheck first")
    await asyncio.to_thread(_check_file, settings, 0, None)


async def _read_scan(frontier: Frontier, settings: ScanSettings, source: Source) -> dict[str, Any] | None:
    """Return the facts of this scan, or None for a new one. Raise UsageError if the frontier holds something else."""
    begun = (await frontier.status()).begun  # read first: another process may start the scan in between
    known: dict[str, Any] | None = (await frontier.facts([SCAN])).get(SCAN)
    if known is not None:
        await _check_resumable(settings, source, known)
    elif begun:
        raise UsageError(f"{mask_password(settings.store_url)} holds work that is not a scan. Choose another --store")
    return known


async def _start(frontier: Frontier, settings: ScanSettings, source: Source) -> dict[str, Any]:
    state = dict(await asyncio.to_thread(source.snapshot))
    size = await asyncio.to_thread(source.measure, state)
    known = {
        "settings": settings.get_identity(),
        "state": state,
        "size": size,
        "began": format_now(),
        "planned": False,
    }
    await frontier.learn({SCAN: known})
    return known


async def _check_resumable(settings: ScanSettings, source: Source, known: Mapping[str, Any]) -> None:
    if changes := list_differences(known["settings"], settings.get_identity()):
        raise UsageError(
            f"{mask_password(settings.store_url)} belongs to another scan: {'; '.join(changes)}. Repeat the same "
            f"settings to resume, or choose another --out{'' if settings.store else ', or start over with --fresh'}"
        )
    changed = await asyncio.to_thread(source.explain_change, known["state"])
    if changed is not None:
        raise UsageError(
            f"{changed}, so records may be missed, and the keys of findings may be wrong. {advise_restart(settings)}"
        )


def advise_restart(settings: ScanSettings) -> str:
    """Return what to do if the source changed, so that this scan cannot continue."""
    return f"Start over with {'another --out and --store' if settings.store else '--fresh'}"


async def _iterate_in_thread(items: Any) -> AsyncIterator[Item]:
    """Iterate over the items of a source in a thread, since it blocks."""
    each = iter(items)
    while chunk := await asyncio.to_thread(_take_chunk, each):
        for item in chunk:
            yield item


def _take_chunk(each: Iterator[Item]) -> list[Item]:
    return [item for _, item in zip(range(1_000), each, strict=False)]


# Output


async def _claim_output(frontier: Frontier, settings: ScanSettings) -> str:
    """Return the mark of this output. Truncate lines that an earlier run wrote but did not settle."""
    # The lock on the file ensures that two processes do not both choose a mark.
    file = await asyncio.to_thread(AppendFile, settings.findings_path)
    try:
        committed, mark = await _read_output(frontier, settings)
        if mark is None:
            mark = secrets.token_hex(4)
            await frontier.learn({_get_mark_key(settings): mark})
        await asyncio.to_thread(file.restore, committed)
    finally:
        file.close()
    return mark


async def _read_output(frontier: Frontier, settings: ScanSettings) -> tuple[int, str | None]:
    """Return the committed length of this output and its mark, if it has one. Refuse a file of something else."""
    committed = (await frontier.outputs()).get(get_output_name(settings), 0)
    mark: str | None = (await frontier.facts([_get_mark_key(settings)])).get(_get_mark_key(settings))
    await asyncio.to_thread(_check_file, settings, committed, mark)
    return committed, mark


def _get_mark_key(settings: ScanSettings) -> str:
    """Return the key of the fact that holds the mark of this output."""
    return f"output {get_output_name(settings)}"


def _check_file(settings: ScanSettings, committed: int, mark: str | None) -> None:
    path = settings.findings_path
    size = path.stat().st_size if path.exists() else 0
    if size < committed:
        raise UsageError(
            f"{path} has {size:,} bytes, but {committed:,} are committed: it was deleted or truncated, or it is on "
            "another machine. Restore it, or give each machine an --out with its own file name"
        )
    if size and (mark is None or not _has_mark(path, mark)):
        anew = "" if settings.store else ", or start over with --fresh"
        raise UsageError(f"{path} holds something other than the findings of this scan. Choose another --out{anew}")


def _has_mark(path: Path, mark: str) -> bool:
    """Return whether a file starts with the mark, or with a part of it after a crash."""
    begins = make_line_prefix(mark)
    with path.open("rb") as file:
        return begins.startswith(file.read(len(begins)))


async def _remove(settings: ScanSettings) -> None:
    """Remove the findings and the frontier of a scan. Refuse while another process uses them."""
    await asyncio.to_thread(_check_unused, settings.findings_path)
    with suppress(NotAFrontier):
        await swath.delete(settings.store_url)
    for path in (settings.findings_path, Path(settings.out)):
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _check_unused(path: Path) -> None:
    """Raise OutputBusy if another process writes to the file."""
    if path.exists():
        AppendFile(path).close()


# Rechecks


async def _start_recheck(frontier: Frontier, settings: ScanSettings, source: Source) -> int:
    """Add the keys with open findings if --recheck is given. Return the number of the current recheck, or 0."""
    status = await frontier.status()
    known = (await frontier.facts([RECHECK])).get(RECHECK) or {"round": 0, "ended": True}
    name = get_output_name(settings)
    if not known["ended"] and known["out"] != name:
        raise UsageError(f"a recheck of {known['out']} is running. Wait until it has ended")
    if not settings.recheck and known["ended"]:
        return 0
    if known["ended"]:
        if status.waiting:
            raise UsageError("--recheck: the scan is not complete. Run it without --recheck first")
        known = {"round": known["round"] + 1, "ended": False, "out": name, "began": format_now()}
        await frontier.learn({RECHECK: known})
    length = (await frontier.outputs()).get(name, 0)
    await frontier.add(_iterate_in_thread(_plan_recheck(settings.findings_path, length, known["round"], source)))
    return int(known["round"])


def _plan_recheck(path: Path, length: int, number: int, source: Source) -> Iterator[Item]:
    """Yield items for all keys that were open before this round. Repeating this yields the same items."""
    open_findings = OpenFindings(finding for finding in read_findings(path, length) if finding["round"] < number)
    before: dict[str, Mapping[str, int]] = {}
    room, count = RECHECK_BYTES, 0
    for key, codes, findings in open_findings.list_keys():
        rest = next((task for one in findings if (task := source.find_unread_part(key, one)) is not None), None)
        if rest is not None:
            yield make_item(f"recheck {number}: {key}", {**rest, "round": number, "before": {key: codes}})
            continue
        room -= 6 * len(key) + sum(len(code) + 20 for code in codes)
        if before and (room < 0 or len(before) == RECHECK_KEYS):
            count += 1
            yield _make_recheck_item(number, count, before)
            before, room = {}, RECHECK_BYTES
        before[key] = codes
    if before:
        yield _make_recheck_item(number, count + 1, before)
    open_findings.close()


def _make_recheck_item(number: int, count: int, before: Mapping[str, Mapping[str, int]]) -> Item:
    return make_item(f"recheck {number}: keys {count}", {"keys": list(before), "round": number, "before": before})


async def record_end(frontier: Frontier, prepared: PreparedScan, *, worked: bool) -> None:
    """Record when everything was settled. `worked` says whether this run settled anything."""
    if prepared.round:
        known = (await frontier.facts([RECHECK]))[RECHECK]
        await frontier.learn({RECHECK: {**known, "ended": True, "at": format_now()}})
    elif worked or ENDED not in await frontier.facts([ENDED]):
        await frontier.learn({ENDED: format_now()})
