"""Sets of URLs to compare a crawl with."""

from collections.abc import Callable, Iterable, Iterator

from swath.testing.web.expectation import Fate, Verdict


def urls_of(
    verdicts: Iterable[tuple[str, Verdict]], fate: Fate, *, sitemaps: bool = True, retries: int | None = None
) -> frozenset[str]:
    """The URLs of one fate. Without sitemaps, what only they name may be fetched or not; what needs more retries
    than there are is only tried."""
    return frozenset(url for url, verdict in verdicts if _fate(verdict, sitemaps, retries) is fate)


def missing(
    verdicts: Iterable[tuple[str, Verdict]],
    requested: frozenset[str],
    archived: frozenset[str],
    *,
    sitemaps: bool,
    retries: int | None,
) -> Iterator[str]:
    """What a crawl left out, a line each."""
    for url, verdict in verdicts:
        fate = _fate(verdict, sitemaps, retries)
        if fate in (Fate.MUST, Fate.TRY) and url not in requested:
            yield f"never requested: {url} ({verdict.kind})"
        elif fate is Fate.MUST and url not in archived:
            yield f"requested, not archived: {url} ({verdict.kind}, status {verdict.status})"


def excess(verdict_of: Callable[[str], Verdict], urls: frozenset[str]) -> Iterator[str]:
    """What it should have left out, a line each."""
    for url in urls:
        verdict = verdict_of(url)
        if verdict.fate is Fate.NEVER:
            yield f"requested against the rules: {url} ({verdict.kind})"


def _fate(verdict: Verdict, sitemaps: bool, retries: int | None) -> Fate:
    if verdict.fate is not Fate.MUST:
        return verdict.fate
    if verdict.by_sitemap and not sitemaps:
        return Fate.MAY
    return Fate.MUST if retries is None or verdict.retries <= retries else Fate.TRY
