"""Faults of the web by kind. A kind has a host `<kind>.demo.test`, or several whose names start with the kind.

Each module builds the hosts of one group of faults. It imports the modules of `swath.testing.web` below `web` itself.
"""

from collections.abc import Callable, Iterator

from swath.testing.web.faults import bodies, markup, outages, redirects, robots, sitemaps, statuses, traps, wire
from swath.testing.web.faults.fault_site import FaultSite
from swath.testing.web.plan import Plan

FAULTS: dict[str, Callable[[Plan], Iterator[FaultSite]]] = {
    "statuses": statuses.statuses,
    "errors": statuses.errors,
    "retry-after": statuses.retry_after,
    "redirects": redirects.redirects,
    "slow": wire.slow,
    "broken": wire.broken,
    "unusual": wire.unusual,
    "codings": bodies.codings,
    "large": bodies.large,
    "charsets": bodies.charsets,
    "twins": bodies.twins,
    "binary": bodies.binary,
    "html": markup.html,
    "urls": markup.urls,
    "hints": markup.hints,
    "feeds": sitemaps.feeds,
    **{f"trap-{name}": traps.trap(name) for name in traps.ENTRANCES},
    **{f"flaky-{how}": outages.flaky(how) for how in outages.DOWN},
    **{f"down-at-first-{how}": outages.down_at_first(how) for how in outages.DOWN},
    "dying": outages.dying,
    "dead": outages.dead,
    **{f"robots-{name}": robots.spelling(name) for name in robots.SPELLINGS},
    **{f"robots-{name}": robots.allowing(name) for name in robots.ALLOWING},
    **{f"robots-{name}": robots.forbidding(name) for name in robots.FORBIDDING},
    "robots-some": robots.some,
    "robots-agents": robots.agents,
    "robots-huge": robots.huge,
    "robots-delay": robots.delay,
    **{f"robots-redirect-{hops}": robots.redirect_chain(hops) for hops in (1, 2, 5, 6)},
    "robots-redirect-away": robots.redirect_to_other_host,
    "robots-loop": robots.redirect_loop,
    "robots-500-at-first": robots.failing_at_first,
    **{f"sitemap-{name}": sitemaps.form(name) for name in sitemaps.FORMS},
    "sitemap-index": sitemaps.index,
    "sitemap-elsewhere": sitemaps.elsewhere,
    "sitemap-broken": sitemaps.damaged,
    "sitemap-unannounced": sitemaps.not_announced,
}


# Only a limit on depth or pages ends a crawl of these, so a web has them only if they are named.
BY_NAME_ONLY = frozenset({"trap-counter"})


def build_fault_sites(plan: Plan) -> Iterator[FaultSite]:
    """Yield the hosts of the kinds of faults that the plan selects."""
    if not isinstance(plan.faults, bool) and (unknown := sorted(plan.faults - FAULTS.keys())):
        raise ValueError(f"unknown kinds of faults: {', '.join(unknown)}. Use some of {', '.join(FAULTS)}")
    wanted = FAULTS.keys() - BY_NAME_ONLY if plan.faults is True else plan.faults or frozenset()
    for kind, build in FAULTS.items():
        if kind in wanted:
            yield from build(plan)
