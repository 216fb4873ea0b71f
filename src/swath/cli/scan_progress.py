"""The progress of a scan, for `swath scan` and `swath status`."""

from collections.abc import Iterator
from typing import Any

from swath.cli.formatting import format_duration, format_size, pluralize
from swath.scan.progress import ScanProgress


def list_progress(progress: ScanProgress, *, rate: float | None = None) -> Iterator[tuple[str, str]]:
    """Yield names and values. `rate` is the number of records per second."""
    now = "" if rate is None else f"   {rate:,.0f}/s now"
    yield "records", f"{describe_records(progress)}{now}"
    if read := describe_read(progress):
        yield "read", read
    yield "share", describe_share(progress)
    if (seconds := progress.seconds_left) is not None:
        yield "time left", f"about {format_duration(seconds)}"


def describe_records(progress: ScanProgress, *, noun: str | None = None) -> str:
    """Return the number of records, and how many there are if that is known."""
    records, total, about = progress.counts.records, progress.size.get("records"), progress.size.get("about_records")
    before = ""
    if total is not None:
        before = f"{records:,} of "
    elif about is not None and about > records and progress.share != 1.0:
        before, total = f"{records:,} of about ", about
    last = records if total is None else total
    return before + (f"{last:,}" if noun is None else pluralize(last, noun))


def describe_read(progress: ScanProgress) -> str:
    """Return the bytes that were read, and how many there are if that is known. Empty if nothing counts bytes."""
    counts, size = progress.counts, progress.size
    if "compressed" in size:
        return f"{format_size(counts.compressed)} of {format_size(size['compressed'])} compressed"
    if "bytes" in size:
        return f"{format_size(counts.bytes)} of {format_size(size['bytes'])}"
    return format_size(counts.bytes) if counts.bytes else ""


def describe_share(progress: ScanProgress) -> str:
    if progress.share is not None:
        return f"{progress.share:.1%}"
    if not (left := progress.folders_left):
        return "unknown"
    counts = progress.counts
    folders = "1 directory is" if left == 1 else f"{left:,} directories are"
    return (
        f"unknown while {folders} not listed; {counts.records + counts.skipped:,} of {counts.listed:,} listed "
        "entries are checked"
    )


def progress_to_json(progress: ScanProgress) -> dict[str, Any]:
    """Return the fields for --json. Those that are unknown are null."""
    counts, size, status = progress.counts, progress.size, progress.status
    return {
        "records": counts.records,
        "total_records": size.get("records"),
        "estimated_records": size.get("about_records"),
        "bytes": counts.bytes,
        "total_bytes": size.get("bytes"),
        "compressed_bytes": counts.compressed if "compressed" in size else None,
        "total_compressed_bytes": size.get("compressed"),
        "listed": counts.listed if size.get("listing") else None,
        "directories_left": progress.folders_left if size.get("listing") else None,
        "share": progress.share,
        "seconds_left": progress.seconds_left,
        "open": dict(counts.open),
        "waiting": status.waiting,
        "dead": status.dead,
    }
