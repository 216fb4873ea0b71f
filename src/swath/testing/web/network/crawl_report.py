"""What a true report about a crawl of the network says: what became of each URL, and the exit code."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from swath.testing.web.expectation import PageState
from swath.testing.web.network.demo_host import DNS_FAILURE, DemoHost, PageOutcome
from swath.testing.web.network.hosts import HUB, list_hub_links

COMPLETE, FAILED = 0, 1
# What a bare host name stands for, in this order.
FORMS = ("https://{}/", "http://{}/", "https://www.{}/", "http://www.{}/")
PRIVATE = PageOutcome(PageState.EXCLUDED, "private")


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """What became of every URL that a complete crawl finds."""

    outcomes: Mapping[str, PageOutcome]

    def count(self, state: PageState) -> int:
        return len(self.select_urls(state))

    def select_urls(self, state: PageState) -> list[str]:
        return [url for url, outcome in self.outcomes.items() if outcome.state is state]

    @property
    def exit_code(self) -> int:
        """0 if the crawl fetched at least one page and no page failed, otherwise 1."""
        complete = self.count(PageState.FETCHED) and not self.count(PageState.FAILED)
        return COMPLETE if complete else FAILED


def expect_report(
    hosts: Mapping[str, DemoHost], seeds: Iterable[str], *, allow_private: bool = True, any_host: bool = False
) -> CrawlReport:
    """Return the report about a crawl from these seeds: URLs of front pages, or bare host names.

    The crawl covers the hosts of the seeds, and with `any_host` also the hosts that the hub links to. It obeys
    robots.txt and has no limits. Without `allow_private` every host that has an address is refused, because all of
    them are on loopback; with it, a crawl must not include `private.test`, which would really be connected to.
    """
    seeds = [*seeds]
    if any_host and any(HUB in seed for seed in seeds):
        seeds += list_hub_links(hosts.values())
    outcomes: dict[str, PageOutcome] = {}
    for seed in seeds:
        outcomes.update(_expect_outcomes(hosts, seed, allow_private))
    return CrawlReport(outcomes)


def _expect_outcomes(
    hosts: Mapping[str, DemoHost], seed: str, allow_private: bool
) -> Iterator[tuple[str, PageOutcome]]:
    forms = [seed] if "://" in seed else [form.format(seed) for form in FORMS]
    cause = None  # the failure of the first form is that of the seed
    while True:
        url, *forms = forms
        scheme, _, name = url.removesuffix("/").partition("://")
        host = hosts.get(name)
        if host is not None and host.has_address and not allow_private:
            yield url, PRIVATE
            return
        failure = DNS_FAILURE if host is None else host.find_failure(scheme)
        if failure == DNS_FAILURE:  # the other scheme has the same name
            forms = [form for form in forms if f"://{name}/" not in form]
        cause = cause or failure
        if failure is None or not forms:
            break
        yield url, PageOutcome(PageState.FALLBACK, forms[0])
    if host is None or failure is not None:
        yield url, PageOutcome(PageState.FAILED, cause or "")
    else:
        for target, outcome in host.outcomes.items():
            yield url.removesuffix("/") + target, outcome
