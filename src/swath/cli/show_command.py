"""ShowCommand: find the capture of a URL, and print it."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import swath
from swath import Frontier, UsageError
from swath.cli.exit_codes import ExitCode
from swath.cli.explain import explain_in_crawl
from swath.cli.formatting import escape, format_size, format_time, pluralize
from swath.cli.terminal import is_terminal, print_error, print_json_line, print_line, print_note, print_rows
from swath.crawl.archive.cdxj import IndexEntry
from swath.crawl.archive.lookup import find_captures, find_lines
from swath.crawl.archive.warc_reader import ArchivedResponse, read_response
from swath.crawl.http.content_coding import decode_content
from swath.crawl.parse.charset import decode_text
from swath.crawl.parse.content_type import parse_media_type
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls import normalise

Part = Literal["page", "headers", "body", "raw", "json"]

MAX_DECODED = 1_000_000_000  # bytes of a body
SUGGESTED_KEYS = 3
SNIFFED = 4_096  # bytes that decide whether a body of unknown type is text
_TEXT_TYPES = {"application/json", "application/javascript", "application/xml", "application/x-javascript"}


def choose_part(*, headers: bool, body: bool, raw: bool, all_captures: bool, json: bool) -> Part:
    """Return what is printed, or raise UsageError if the options contradict each other."""
    wanted: dict[Part, bool] = {"headers": headers, "body": body, "raw": raw, "json": json}
    given = [name for name, value in wanted.items() if value]
    if len(given) > 1:
        raise UsageError(f"--{given[0]} and --{given[1]} exclude each other")
    if all_captures and given not in ([], ["json"]):
        raise UsageError(f"--all lists the captures: choose one with --time to print its {given[0]}")
    if raw and is_terminal():
        raise UsageError("--raw writes the bytes as received, which may control a terminal: redirect it to a file")
    return given[0] if given else "page"


class ShowCommand:
    """One run of `swath show`."""

    def __init__(self, settings: CrawlSettings, part: Part, *, time: datetime | None, all_captures: bool) -> None:
        self._settings = settings
        self._directory = settings.directory
        self._part = part
        self._time = time
        self._all = all_captures
        self._committed: Mapping[str, int] = {}

    async def run(self, text: str) -> int:
        async with swath.open(self._settings.store_url, create=False) as frontier:
            self._committed = await frontier.outputs()
            candidates = await list_candidates(frontier, text)
            if self._part == "json":
                return await self._print_lines(candidates, frontier)
            captures = await self._find_captures(candidates)
            if not captures:
                return await self._explain(candidates, frontier)
        if self._all:
            await print_rows(("time", "status", "type", "record"), _list_rows(captures))
            return ExitCode.OK
        chosen = self._choose(captures)
        await asyncio.to_thread(self._print_capture, chosen)
        if len(captures) > 1:
            print_note(f"{pluralize(len(captures), 'capture')}: --all lists them, --time chooses one")
        return ExitCode.OK

    async def _find_captures(self, candidates: Iterable[str]) -> Sequence[IndexEntry]:
        for url in candidates:
            if found := await asyncio.to_thread(find_captures, self._directory, self._committed, url):
                return found
        return []

    async def _find_lines(self, candidates: Iterable[str]) -> Sequence[dict[str, Any]]:
        for url in candidates:
            if found := await asyncio.to_thread(find_lines, self._directory, self._committed, url):
                return found
        return []

    def _choose(self, captures: Sequence[IndexEntry]) -> IndexEntry:
        """Return the latest capture, or the latest one at --time or before."""
        if self._time is None:
            return captures[-1]
        before = [entry for entry in captures if entry.time <= self._time.timestamp()]
        if not before:
            first = format_time(datetime.fromtimestamp(captures[0].time, UTC))
            raise UsageError(f"there is no capture of {captures[0].url} before {first}")
        return before[-1]

    async def _print_lines(self, candidates: Sequence[str], frontier: Frontier) -> int:
        lines = await self._find_lines(candidates)
        if not lines:
            return await self._explain(candidates, frontier)
        if self._time is not None:
            lines = [line for line in lines if line["time"] <= self._time.timestamp()] or lines[:1]
        for line in lines if self._all else lines[-1:]:
            print_json_line(line)
        return ExitCode.OK

    async def _explain(self, candidates: Sequence[str], frontier: Frontier) -> int:
        """Print why the archive does not have the page."""
        lines = await self._find_lines(candidates)
        if lines:
            print_error(_describe_line(lines[-1]))
        elif others := await asyncio.to_thread(
            find_lines, self._directory, self._committed, candidates[0], any_method=True
        ):
            print_error(f"{candidates[0]} was requested with other methods only: run {_suggest_keys(others)}")
        else:
            found = await explain_in_crawl(frontier, candidates[0])
            print_error(f"the archive in {self._directory} does not have this page. {found.sentence}")
        return ExitCode.NEGATIVE

    # printing

    def _print_capture(self, entry: IndexEntry) -> None:
        response = read_response(self._directory, entry)
        source = self._find_body(entry, response) if response.is_revisit else response
        if self._part in ("page", "headers"):
            _print_head(response)
        if self._part == "headers":
            return
        if source is None:
            where = response.fields.get("warc-refers-to-target-uri", "another page")
            raise UsageError(f"the body is that of {where}, which is not in {self._directory}: see other directories")
        if self._part == "page":
            print_line("")
        if self._part == "raw":
            _write_bytes(source.body)
            return
        codings = source.headers.get_list("content-encoding")
        decoded = decode_content(source.body, codings, limit=MAX_DECODED)
        if decoded.error is not None:
            print_error(f"the body cannot be decoded completely: {decoded.error}")
        _print_body(decoded.body, source.headers.get("content-type"), entry.url)

    def _find_body(self, entry: IndexEntry, revisit: ArchivedResponse) -> ArchivedResponse | None:
        """Return the record with the body of a revisit."""
        url = revisit.fields.get("warc-refers-to-target-uri", entry.url)
        for original in find_captures(self._directory, self._committed, url):
            if original.digest == entry.digest:
                found = read_response(self._directory, original)
                if not found.is_revisit:
                    return found
        return None


async def list_candidates(frontier: Frontier, text: str) -> Sequence[str]:
    """Return the keys that a text may stand for, the likeliest first."""
    url = normalise.parse_seed(text)
    if (await frontier.explain(text)).state != "unknown" and url != text:
        return [text]  # the key of a request with another method
    if url is None:
        raise UsageError(f"{text!r} is not a URL, a host name or the key of a page")
    found = [url, normalise.strip_session(url), normalise.strip_tracking(url)]
    if "://" not in text:  # the crawl may have found the host with another scheme or name only
        scheme, _, rest = url.partition("://")
        other = "http" if scheme == "https" else "https"
        found += [f"{other}://{rest}", f"{scheme}://www.{rest}", f"{other}://www.{rest}"]
    match (await frontier.explain(url)).data.get("result"):
        case {"fallback": str(fallback)}:
            found.insert(1, fallback)
    return list(dict.fromkeys(found))


def _describe_line(line: Mapping[str, Any]) -> str:
    when = format_time(datetime.fromtimestamp(line["time"], UTC))
    url = line["url"]
    if "failed" in line:
        return f"{url} could not be fetched at {when}: {line['failed']}"
    if "excluded" in line:
        return f"{url} was not fetched: {line['excluded']}: {line.get('rule', '')}"
    if not line.get("status"):
        return f"{url} could not be fetched at {when}: there was no response"
    why = "it has noarchive, or the crawl had --no-warc"
    return f"{url} was fetched at {when} (status {line['status']}), but not archived: {why}"


def _suggest_keys(lines: Sequence[Mapping[str, Any]]) -> str:
    keys = list(dict.fromkeys(line["key"] for line in lines))
    more = f", or one of {len(keys) - SUGGESTED_KEYS:,} more keys" if len(keys) > SUGGESTED_KEYS else ""
    return " or ".join(f"`swath show {shlex.quote(key)}`" for key in keys[:SUGGESTED_KEYS]) + more


async def _list_rows(captures: Sequence[IndexEntry]) -> AsyncIterator[Sequence[str]]:
    for entry in captures:
        moment = datetime.fromtimestamp(entry.time, UTC)
        yield f"{moment:%Y-%m-%dT%H:%M:%SZ}", str(entry.status), entry.mime, f"{entry.file}:{entry.offset}"


def _print_head(response: ArchivedResponse) -> None:
    for line in response.head.decode("latin-1").splitlines():
        print_line(line, keep="\t")


def _print_body(body: bytes, content_type: str | None, url: str) -> None:
    """Print a text in the encoding of standard output, and write other bytes as they are unless it is a terminal."""
    if not _is_text(body, content_type):
        if not is_terminal():
            _write_bytes(body)
            return
        kind = parse_media_type(content_type) or "unknown type"
        size = format_size(len(body))
        print_note(f"{kind}, {size}: not text. To save it, run `swath show {shlex.quote(url)} --body > FILE`")
        return
    text, _ = decode_text(body, content_type)
    if is_terminal():
        text = escape(text.replace("\r\n", "\n"), keep="\n\t")
    sys.stdout.write(text if text.endswith("\n") or not is_terminal() else f"{text}\n")
    sys.stdout.flush()


def _is_text(body: bytes, content_type: str | None) -> bool:
    kind = parse_media_type(content_type)
    if kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+xml", "+json")):
        return True
    if kind and kind != "application/octet-stream":
        return False
    head = body[:SNIFFED]
    return b"\0" not in head and "\ufffd" not in decode_text(head, "text/plain; charset=utf-8")[0][:-1]


def _write_bytes(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
