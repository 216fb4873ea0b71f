"""Compare the URLs of a crawl with the expectations."""

from collections.abc import Callable, Iterable, Iterator

from swath.testing.web.expectation import Expectation, Requirement


def select_urls(
    expectations: Iterable[tuple[str, Expectation]],
    requirement: Requirement,
    *,
    sitemaps: bool = True,
    retries: int | None = None,
) -> frozenset[str]:
    """Return the URLs with this requirement. Without sitemaps, URLs that only a sitemap lists count as MAY. URLs that
    need more than `retries` count as TRY."""
    return frozenset(
        url for url, expectation in expectations if _adjust_requirement(expectation, sitemaps, retries) is requirement
    )


def describe_missing(
    expectations: Iterable[tuple[str, Expectation]],
    requested: frozenset[str],
    archived: frozenset[str],
    *,
    sitemaps: bool,
    retries: int | None,
) -> Iterator[str]:
    """Yield a line for each URL that the crawl should have requested or archived, and did not."""
    for url, expectation in expectations:
        requirement = _adjust_requirement(expectation, sitemaps, retries)
        if requirement in (Requirement.MUST, Requirement.TRY) and url not in requested:
            yield f"not requested: {url} ({expectation.kind})"
        elif requirement is Requirement.MUST and url not in archived:
            yield f"requested, not archived: {url} ({expectation.kind}, status {expectation.status})"


def describe_forbidden(expectation_of: Callable[[str], Expectation], urls: frozenset[str]) -> Iterator[str]:
    """Yield a line for each URL that the crawl should not have requested."""
    for url in urls:
        expectation = expectation_of(url)
        if expectation.requirement is Requirement.NEVER:
            yield f"requested although forbidden: {url} ({expectation.kind})"


def _adjust_requirement(expectation: Expectation, sitemaps: bool, retries: int | None) -> Requirement:
    if expectation.requirement is not Requirement.MUST:
        return expectation.requirement
    if expectation.by_sitemap and not sitemaps:
        return Requirement.MAY
    return Requirement.MUST if retries is None or expectation.retries <= retries else Requirement.TRY
