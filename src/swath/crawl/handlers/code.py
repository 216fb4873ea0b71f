"""The code of a crawl: load what `--run` names, and check it against the code of earlier runs and other machines."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from swath import UsageError
from swath.crawl.handlers.crawler import Crawler, make_crawler
from swath.crawl.handlers.select import NAME as SELECT
from swath.crawl.handlers.select import make_select_crawler
from swath.crawl.settings import CrawlSettings
from swath.import_path import import_object

CODE_FACT: Final = "crawl code"  # key of the fact with the handlers of a crawl
FLAG: Final = "--run"

_provided: dict[str, Crawler] = {}  # crawlers that are running their own command, by name


@dataclass(frozen=True, slots=True)
class CrawlCode:
    """A crawler and where it comes from."""

    name: str
    """module:name, as `--run` has it."""
    crawler: Crawler
    source_hash: str

    def describe(self) -> dict[str, Any]:
        """Return what the frontier keeps."""
        versions = {handler.name: handler.version for handler in self.crawler.handlers.values()}
        return {"run": self.name, "handlers": versions, "hash": self.source_hash}


def provide(name: str, crawler: Crawler) -> None:
    """Make `load_code` return this crawler instead of importing its module a second time."""
    _provided[name] = crawler


def load_settings_code(settings: CrawlSettings) -> CrawlCode | None:
    """Return the handlers that the settings of a crawl ask for, if any."""
    if settings.run is not None:
        return load_code(settings.run)
    if settings.select:
        digest = sha256("\n".join(settings.select).encode()).hexdigest()[:16]
        return CrawlCode(SELECT, make_select_crawler(settings.select), digest)
    return None


def load_code(name: str) -> CrawlCode:
    """Import a crawler, or a function that handles every page. Raise UsageError if that is not possible."""
    crawler = _provided.get(name)
    if crawler is None:
        crawler = make_crawler(import_object(name, flag=FLAG, example="books:crawler"), name=f"{FLAG} {name}")
    return CrawlCode(name, crawler, _hash_sources(crawler))


def _hash_sources(crawler: Crawler) -> str:
    """Return a hash over the modules that define the handlers."""
    modules = {handler.function.__module__ for handler in crawler.handlers.values()}
    files = {getattr(sys.modules.get(module), "__file__", None) for module in modules}
    digest = sha256()
    for file in sorted(file for file in files if file is not None):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()[:16]


def check_code(code: CrawlCode | None, known: Mapping[str, Any] | None, *, out: str, same: bool) -> list[str]:
    """Check the code of this run against what the frontier has of earlier ones; return notes for the user.

    Raise UsageError if the crawl cannot continue with this code. `same` refuses every change.
    """
    if known is None:
        if code is not None:
            raise UsageError(
                f"the crawl in {out} was begun without {FLAG} or {SELECT}, so its pages have no items: give "
                "another --out, or start over with --fresh"
            )
        return []
    if code is None:
        flag = SELECT if known["run"] == SELECT else f"{FLAG} {known['run']}"
        raise UsageError(f"the crawl in {out} has handlers: give {flag}")
    names = code.crawler.handlers.keys() | code.crawler.aliases.keys()
    if missing := sorted(known["handlers"].keys() - names):
        instead = f"name its successor with Crawler(aliases={{{missing[0]!r}: …}})"
        if code.name == SELECT:
            instead = f"{FLAG} {known['run']}"
        raise UsageError(
            f"the crawl in {out} runs {known['run']}, and its pages may wait for the handler {missing[0]!r}, which "
            f"{code.name} lacks: give another --out, or {instead}"
        )
    if known["hash"] == code.source_hash:
        return []
    if same:
        raise UsageError(f"the code of {code.name} is not that of {known['run']} in {out}, and --same-code was given")
    return [f"the code of {code.name} has changed since the last run of the crawl, here or on another machine"]


def merge_code(code: CrawlCode, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the frontier keeps: this code, and the names of all handlers that pages may wait for."""
    described = code.describe()
    return {**described, "handlers": {**(known or {}).get("handlers", {}), **described["handlers"]}}
