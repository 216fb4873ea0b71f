"""Explain why a crawl did not add a URL, from the settings and seeds of the crawl."""

from collections.abc import Collection, Mapping
from typing import Any

from swath.crawl import seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.urls import normalise
from swath.crawl.urls.scope import REASONS
from swath.crawl.urls.traps import TRAPS, find_trap


def explain_refusal(
    text: str, known: Mapping[str, Any], *, year: int, started: Collection[str] = (), has_handlers: bool = False
) -> tuple[str, str]:
    """Return the name of the rule that excludes a URL, and a sentence. `known` is the fact with the settings.

    `started` are the seeds that the start of the crawl has yielded. With `has_handlers`, the user's code chooses links.
    """
    url = normalise.parse_seed(text)
    if url is None:
        return "url", "It is not a URL that can be crawled."
    kept: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    settings = CrawlSettings(**kept)
    tidy = normalise.strip_session(url)
    if settings.strip_tracking:
        tidy = normalise.strip_tracking(tidy)
    if tidy != text:
        return "spelling", f"It is crawled as {tidy}."
    if (found := find_trap(url, year=year)) is not None:
        return found, f"It is refused as a trap ({found}): {TRAPS[found]}."
    try:
        scope = seeds.load_scope(settings, started)
    except OSError:
        return "unknown", f"Its scope cannot be checked without {settings.directory / seeds.FILE}."
    if (found := scope.find_refusal(url, 0)) is not None:
        return found, f"It is refused ({found}): {REASONS[found]}."
    deep = "" if settings.depth is None else f" within --depth {settings.depth}"
    if has_handlers:
        return "unlinked", f"No rule excludes it: no handler follows a link to it{deep}, or a link hook drops it."
    return "unlinked", f"No rule excludes it: no crawled page links to it{deep}."
