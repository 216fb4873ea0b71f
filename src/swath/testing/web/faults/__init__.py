"""Faults of the web by kind. A kind has a host `<kind>.demo.test`, or several whose names start with the kind.

Each module builds the hosts of one group of faults. It imports the modules of `swath.testing.web` below `web` itself.
"""

from collections.abc import Callable, Iterator

from swath.testing.web.faults import bodies, markup, outages, redirects, robots, sitemaps, statuses, traps, wire
from swath.testing.web.faults.fault_site import FaultSite
from swath.testing.web.plan import Plan

FAULTS: dict[str, Callable[[Plan], Iterator[FaultSite]]] = {
    "statuses": statuses.build_statuses,
    "errors": statuses.build_errors,
    "retry-after": statuses.build_retry_after,
    "redirects": redirects.build_redirects,
    "slow": wire.build_slow,
    "broken": wire.build_broken,
    "unusual": wire.build_unusual,
    "codings": bodies.build_codings,
    "large": bodies.build_large,
    "charsets": bodies.build_charsets,
    "twins": bodies.build_twins,
    "binary": bodies.build_binary,
    "html": markup.build_html,
    "urls": markup.build_urls,
    "hints": markup.build_hints,
    "feeds": sitemaps.build_feeds,
    **{f"trap-{name}": traps.build_trap(name) for name in traps.ENTRANCES},
    **{f"flaky-{how}": outages.build_flaky(how) for how in outages.DOWN},
    **{f"down-at-first-{how}": outages.build_down_at_first(how) for how in outages.DOWN},
    "dying": outages.build_dying,
    "dead": outages.build_dead,
    **{f"robots-{name}": robots.build_spelling(name) for name in robots.SPELLINGS},
    **{f"robots-{name}": robots.build_allowing(name) for name in robots.ALLOWING},
    **{f"robots-{name}": robots.build_forbidding(name) for name in robots.FORBIDDING},
    "robots-some": robots.build_some_rules,
    "robots-agents": robots.build_agents,
    "robots-huge": robots.build_huge,
    "robots-delay": robots.build_delay,
    **{f"robots-redirect-{hops}": robots.build_redirect_chain(hops) for hops in (1, 2, 5, 6)},
    "robots-redirect-away": robots.build_redirect_to_other_host,
    "robots-loop": robots.build_redirect_loop,
    "robots-500-at-first": robots.build_failing_at_first,
    **{f"sitemap-{name}": sitemaps.build_format(name) for name in sitemaps.FORMS},
    "sitemap-index": sitemaps.build_index,
    "sitemap-elsewhere": sitemaps.build_elsewhere,
    "sitemap-broken": sitemaps.build_broken,
    "sitemap-unannounced": sitemaps.build_unannounced,
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
