"""The web as a whole: which host answers, and what a perfect crawl fetches."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

from swath.testing.web import truth
from swath.testing.web.answer import NOT_FOUND, Answer, Ask
from swath.testing.web.expectation import OUTSIDE, STRAY, Fate, Verdict
from swath.testing.web.faults import sites as trouble_sites
from swath.testing.web.faults.fault_page import Sketch
from swath.testing.web.host import Host
from swath.testing.web.ordinary import Ordinary
from swath.testing.web.page import Page
from swath.testing.web.page_generator import draw
from swath.testing.web.paths import number_of
from swath.testing.web.plan import Plan, ordinary_name
from swath.testing.web.site import Site


@dataclass(frozen=True, kw_only=True)
class Web(Plan):
    """A web from a seed. It stores no page: every answer and every verdict is computed when asked for."""

    @cached_property
    def sites(self) -> dict[str, Site]:
        """Every host that is served, by name."""
        sites: dict[str, Site] = {}
        for number in range(self.hosts):
            sites[ordinary_name(number)] = Ordinary(Host(self, number))
        if self.trouble:
            hub = Sketch(self, "trouble")
            for site in trouble_sites(self):
                sites[site.host] = site
                if site.introduced:
                    hub.hrefs.append(self.url(site.host, "/"))
            sites[hub.host] = hub.site()
        return sites

    @property
    def seeds(self) -> tuple[str, ...]:
        """Where a crawl begins: all that must be fetched can be reached from here."""
        first = (ordinary_name(0), "trouble.demo.test") if self.trouble else (ordinary_name(0),)
        return tuple(self.url(host, "/") for host in first)

    def answer(self, ask: Ask) -> Answer:
        """What the web says to a request; strangers' hosts get a 404."""
        site = self.sites.get(ask.host)
        return NOT_FOUND if site is None else site.answer(ask)

    def verdict(self, url: str) -> Verdict:
        """The fate of any URL in its normal form, also of one that no page links to."""
        site, target = self._place(url)
        if site is None:
            return OUTSIDE
        return site.verdict(target) or STRAY

    def page(self, url: str) -> Page | None:
        """What is on a page of an ordinary host: its title, charset and links; None if there is no such page."""
        site, target = self._place(url)
        if not isinstance(site, Ordinary) or self.verdict(url).kind != "page":
            return None
        number = number_of(site.build.number, target)
        return None if number is None else draw(site.build, number)

    def _place(self, url: str) -> tuple[Site | None, str]:
        """The host that a URL is on, if it is ours, and the path and query there."""
        scheme, _, rest = url.partition("://")
        host, slash, path = rest.partition("/")
        return self.sites.get(host) if scheme == self.scheme else None, slash + path

    def verdicts(self, *, hosts: Collection[str] | None = None) -> Iterator[tuple[str, Verdict]]:
        """Every URL that these hosts have or name, without what lies within traps."""
        for name, site in self.sites.items():
            if hosts is None or name in hosts:
                for target, verdict in site.verdicts():
                    yield (self.url(name, target) if target.startswith("/") else target), verdict

    def expected(
        self, *, hosts: Collection[str] | None = None, sitemaps: bool = True, retries: int | None = None
    ) -> frozenset[str]:
        """The URLs that a crawl from the seeds must have fetched and archived in the end.

        Fetched means: answered in full with a status that is final, which is in `verdict(url).status`: 200 for most,
        also redirects and 404. In the scope of the web's own hosts, robots.txt obeyed, links of the kinds that
        `Link.tag` names followed, sitemaps and feeds read (unless `sitemaps` is False), no limit on depth or pages,
        and as many retries as it takes (unless `retries` says how many there are). `hosts` is for a crawl of scope
        `host`: the pages of an ordinary host can all be reached from its front page.
        """
        found = self.verdicts(hosts=hosts)
        return truth.urls_of(found, Fate.MUST, sitemaps=sitemaps, retries=retries)

    def tried(self, *, hosts: Collection[str] | None = None) -> frozenset[str]:
        """The URLs that a crawl must have requested and that never answer well."""
        return truth.urls_of(self.verdicts(hosts=hosts), Fate.TRY)

    def may(self, *, hosts: Collection[str] | None = None, sitemaps: bool = True) -> frozenset[str]:
        """The URLs outside of traps that a crawl may request or not. For one within a trap, ask `verdict`."""
        return truth.urls_of(self.verdicts(hosts=hosts), Fate.MAY, sitemaps=sitemaps)

    def forbidden(self, *, hosts: Collection[str] | None = None) -> frozenset[str]:
        """The URLs that the web tempts a crawl with and that it never requests. `verdict` knows all others."""
        return truth.urls_of(self.verdicts(hosts=hosts), Fate.NEVER)

    def check(
        self,
        requested: Collection[str],
        archived: Collection[str],
        *,
        hosts: Collection[str] | None = None,
        sitemaps: bool = True,
        retries: int | None = None,
    ) -> list[str]:
        """What is wrong with a finished crawl, a line each; nothing if it was perfect. For the rest see `expected`."""
        asked, kept = frozenset(requested), frozenset(archived)
        found = self.verdicts(hosts=hosts)
        lacking = truth.missing(found, asked, kept, sitemaps=sitemaps, retries=retries)
        return sorted([*lacking, *truth.excess(self.verdict, asked | kept)])
