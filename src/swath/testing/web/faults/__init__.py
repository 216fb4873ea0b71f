"""Everything that goes wrong on the web, by name. A kind has a host `<kind>.demo.test`, or some that begin with it."""

from collections.abc import Callable, Iterator

from swath.testing.web.faults import bodies, maps, markup, outages, redirects, robots, statuses, traps, wire
from swath.testing.web.faults.fault_page import Spots
from swath.testing.web.plan import Plan

KINDS: dict[str, Callable[[Plan], Iterator[Spots]]] = {
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
    "feeds": maps.feeds,
    **{f"trap-{name}": traps.trap(name) for name in traps.DOORS},
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
    **{f"robots-redirect-{hops}": robots.redirected(hops) for hops in (1, 2, 5, 6)},
    "robots-redirect-away": robots.redirected_away,
    "robots-loop": robots.redirect_loop,
    "robots-500-at-first": robots.failing_at_first,
    **{f"sitemap-{name}": maps.form(name) for name in maps.FORMS},
    "sitemap-index": maps.index,
    "sitemap-elsewhere": maps.elsewhere,
    "sitemap-broken": maps.spoilt,
    "sitemap-unannounced": maps.unannounced,
}


# Only a depth or a budget ends these, so a web has them when they are asked for by name.
BY_NAME_ONLY = frozenset({"trap-counter"})


def sites(plan: Plan) -> Iterator[Spots]:
    """The hosts of the kinds that a web has."""
    if not isinstance(plan.trouble, bool) and (unknown := sorted(plan.trouble - KINDS.keys())):
        raise ValueError(f"no such trouble: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    wanted = KINDS.keys() - BY_NAME_ONLY if plan.trouble is True else plan.trouble or frozenset()
    for kind, build in KINDS.items():
        if kind in wanted:
            yield from build(plan)
