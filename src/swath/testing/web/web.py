"""The whole web: which host answers a request, and what a correct crawl fetches."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from swath.testing.web import comparison
from swath.testing.web.expectation import OUTSIDE, STRAY, Expectation, Requirement
from swath.testing.web.faults import build_fault_sites
from swath.testing.web.faults.fault_site import FaultSiteBuilder
from swath.testing.web.host_layout import HostLayout
from swath.testing.web.ordinary_site import OrdinarySite
from swath.testing.web.page import DemoPage
from swath.testing.web.page_generator import generate_page
from swath.testing.web.page_paths import page_number
from swath.testing.web.plan import Plan, fault_host, ordinary_host
from swath.testing.web.scripted_response import NOT_FOUND, Request, ScriptedResponse
from swath.testing.web.shop import Shop, shop_host
from swath.testing.web.site import Site


@dataclass(frozen=True, kw_only=True)
class Web(Plan):
    """A web that is generated from a seed. It stores no pages: responses and expectations are computed on demand."""

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Every host that the server answers for, by name."""
        sites: dict[str, Site] = {}
        for number in range(self.hosts):
            sites[ordinary_host(number)] = OrdinarySite(HostLayout(self, number))
        if self.faults:
            hub = FaultSiteBuilder(self, "faults")
            for site in build_fault_sites(self):
                sites[site.host] = site
                if site.linked_from_hub:
                    hub.hrefs.append(self.url(site.host, "/"))
            sites[hub.host] = hub.build()
        for number in range(self.shops):
            sites[shop_host(number)] = Shop(self, number)
        return sites

    @property
    def seeds(self) -> tuple[str, ...]:
        """The start URLs of a crawl. Every URL to archive can be reached from them."""
        first = (ordinary_host(0), fault_host("faults")) if self.faults else (ordinary_host(0),)
        return (*(self.url(host, "/") for host in first), *self.shop_seeds)

    @property
    def shop_seeds(self) -> tuple[str, ...]:
        """The front pages of the shops, which no other host links to."""
        return tuple(self.url(shop_host(number), "/") for number in range(self.shops))

    def respond(self, request: Request) -> ScriptedResponse:
        """Return the response to a request. Unknown hosts get a 404."""
        site = self.sites.get(request.host)
        return NOT_FOUND if site is None else site.respond(request)

    def expectation(self, url: str) -> Expectation:
        """Return the expectation for any URL in normal form, even one that no page links to."""
        site, target = self._find_site(url)
        if site is None:
            return OUTSIDE
        return site.expectation(target) or STRAY

    def page(self, url: str) -> DemoPage | None:
        """Return a page of an ordinary host with its title, charset and links; None if the page does not exist."""
        site, target = self._find_site(url)
        if not isinstance(site, OrdinarySite) or self.expectation(url).kind != "page":
            return None
        number = page_number(site.layout.number, target)
        return None if number is None else generate_page(site.layout, number)

    def _find_site(self, url: str) -> tuple[Site | None, str]:
        """Return the site that serves a URL, if any, and the path and query."""
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        return self.sites.get(host) if scheme == self.scheme else None, slash + path

    def expectations(self, *, hosts: Collection[str] | None = None) -> Iterator[tuple[str, Expectation]]:
        """Yield every URL that these hosts have or mention, except those inside traps."""
        for name, site in self.sites.items():
            if hosts is None or name in hosts:
                for target, expectation in site.expectations():
                    yield (self.url(name, target) if target.startswith("/") else target), expectation

    def urls_to_archive(
        self, *, hosts: Collection[str] | None = None, sitemaps: bool = True, retries: int | None = None
    ) -> frozenset[str]:
        """Return the URLs that a crawl from the seeds has to fetch and archive.

        Each gives a complete response with the final status `expectation(url).status`: mostly 200, also redirects and
        404. The crawl covers the hosts of the web, obeys robots.txt, follows the kinds of links in `PageLink.tag` and
        has no limit on depth or pages. It reads sitemaps and feeds unless `sitemaps` is False, and retries as often as
        necessary unless `retries` limits it. Pass `hosts` for a crawl of scope `host`: every page of an ordinary host
        can be reached from its front page.
        """
        found = self.expectations(hosts=hosts)
        return comparison.select_urls(found, Requirement.MUST, sitemaps=sitemaps, retries=retries)

    def urls_to_try(self, *, hosts: Collection[str] | None = None) -> frozenset[str]:
        """Return the URLs that a crawl has to request and that never give a final response."""
        return comparison.select_urls(self.expectations(hosts=hosts), Requirement.TRY)

    def optional_urls(self, *, hosts: Collection[str] | None = None, sitemaps: bool = True) -> frozenset[str]:
        """Return the URLs that a crawl may request, except those inside traps; `expectation` covers those."""
        return comparison.select_urls(self.expectations(hosts=hosts), Requirement.MAY, sitemaps=sitemaps)

    def forbidden_urls(self, *, hosts: Collection[str] | None = None) -> frozenset[str]:
        """Return the URLs that the web mentions and that a crawl must not request; `expectation` covers all others."""
        return comparison.select_urls(self.expectations(hosts=hosts), Requirement.NEVER)

    def check(
        self,
        requested: Collection[str],
        archived: Collection[str],
        *,
        hosts: Collection[str] | None = None,
        sitemaps: bool = True,
        retries: int | None = None,
    ) -> list[str]:
        """Return the errors of a finished crawl, one line each. See `urls_to_archive` for the other arguments."""
        asked, kept = frozenset(requested), frozenset(archived)
        found = self.expectations(hosts=hosts)
        lacking = comparison.describe_missing(found, asked, kept, sitemaps=sitemaps, retries=retries)
        return sorted([*lacking, *comparison.describe_forbidden(self.expectation, asked | kept)])
