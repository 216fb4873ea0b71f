"""The hosts of the network. Each name says what is wrong with the host."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from swath.testing.web.expectation import PageState
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.network.demo_host import DemoHost, Name, PageOutcome, Port
from swath.testing.web.page import reply_html
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import FOREVER_SECONDS, ScriptedResponse, Wait, close_after, reply

HUB = "hub.test"
LINKS = ("/page/1", "/page/2")
VANISHING_REQUESTS = 3  # robots.txt, the front page and the first link

FETCHED = PageOutcome(PageState.FETCHED)
DISALLOWED = PageOutcome(PageState.EXCLUDED, "robots")
REFUSED = PageOutcome(PageState.FAILED, "refused")


def build_hosts(plan: Plan) -> dict[str, DemoHost]:
    """Return every host of the network by name."""
    hosts = {host.name: host for host in _list_hosts(plan)}
    hosts[HUB] = DemoHost(HUB, _build_site(plan, HUB, links=list_hub_links(hosts.values())), {"/": FETCHED})
    return hosts


def list_hub_links(hosts: Iterable[DemoHost]) -> list[str]:
    """Return the URLs that the hub links to: every other host, except the one with a private address."""
    return [f"https://{host.name}/" for host in hosts if host.name != HUB and host.resolves_to is not Name.PRIVATE]


def _list_hosts(plan: Plan) -> Iterator[DemoHost]:
    yield _make_host(plan, "fine.test")
    yield _make_host(plan, "slow.test", wait=plan.slow_seconds)

    yield _make_host(plan, "unknown.test", resolves_to=Name.UNKNOWN)
    yield _make_host(plan, "no-address.test", resolves_to=Name.NO_ADDRESS)
    yield _make_host(plan, "dns-failure.test", resolves_to=Name.FAILURE)
    yield _make_host(plan, "dns-silent.test", resolves_to=Name.SILENT)
    yield _make_host(plan, "private.test", resolves_to=Name.PRIVATE)

    yield _make_host(plan, "refused.test", http=Port.REFUSE, https=Port.REFUSE)
    yield _make_host(plan, "silent.test", http=Port.SILENT, https=Port.SILENT)
    yield _make_host(plan, "hanging.test", http=Port.HANG, https=Port.HANG)
    yield _make_host(plan, "broken-tls.test", https=Port.NOT_TLS)
    yield _make_host(plan, "http-only.test", https=Port.REFUSE)
    yield _make_host(plan, "https-only.test", http=Port.REFUSE)
    yield _make_host(plan, "www-only.test", resolves_to=Name.UNKNOWN)
    yield _make_host(plan, "www.www-only.test")

    vanishing = _make_host(plan, "vanishing.test", links=("/page/1", "/page/2", "/page/3"))
    outcomes = {**vanishing.outcomes, "/page/2": REFUSED, "/page/3": REFUSED}
    yield replace(vanishing, outcomes=outcomes, max_requests=VANISHING_REQUESTS)

    disallowing = reply(200, b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    yield _make_host(plan, "robots-disallow.test", robots=disallowing, front=DISALLOWED)
    yield _make_host(plan, "robots-500.test", robots=reply(500, b""), front=DISALLOWED)
    silent, timed_out = close_after(Wait(FOREVER_SECONDS)), PageOutcome(PageState.FAILED, "timeout")
    yield _make_host(plan, "robots-silent.test", robots=silent, front=timed_out)


def _make_host(
    plan: Plan,
    name: str,
    *,
    links: tuple[str, ...] = LINKS,
    robots: ScriptedResponse | None = None,
    front: PageOutcome = FETCHED,
    wait: float = 0.0,
    resolves_to: Name = Name.ADDRESS,
    http: Port = Port.SERVE,
    https: Port = Port.SERVE,
) -> DemoHost:
    """Return a host whose front page links to the other pages. If a crawl does not fetch the front page, it finds no
    others."""
    targets = ("/", *links) if front is FETCHED else ("/",)
    return DemoHost(
        name,
        _build_site(plan, name, links=links, robots=robots, wait=wait),
        dict.fromkeys(targets, front),
        resolves_to,
        http,
        https,
    )


def _build_site(
    plan: Plan, name: str, *, links: Iterable[str], robots: ScriptedResponse | None = None, wait: float = 0.0
) -> FaultSite:
    builder = FaultSiteBuilder(plan, name.removesuffix(".test"), host=name)
    for target in links:
        if target.startswith("/"):
            builder.must(target, _delay(reply_html(f"{name}{target}", []), wait), linked=False)
    builder.must("/", _delay(reply_html(name, links), wait), linked=False)
    if robots is not None:
        builder.robots(robots)
    return builder.build()


def _delay(response: ScriptedResponse, seconds: float) -> ScriptedResponse:
    return replace(response, steps=(Wait(seconds), *response.steps)) if seconds else response
