"""Redirects: chains, loops, to other hosts, to private addresses, to invalid URLs."""

from collections.abc import Iterator

from swath.testing.web.expectation import Requirement
from swath.testing.web.faults.fault_site import FaultSite, FaultSiteBuilder
from swath.testing.web.plan import Plan
from swath.testing.web.scripted_response import redirect, reply

NORMAL = {"http://0x7f.1/": "http://127.0.0.1/", "http://2130706433/": "http://127.0.0.1/"}
PRIVATE = {
    "ten": "http://10.0.0.1/",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "loopback": "http://127.0.0.1/",
    "hexadecimal": "http://0x7f.1/",
    "decimal": "http://2130706433/",
    "six": "http://[::1]/",
    "mapped": "http://[::ffff:a00:1]/",
    "home": "http://192.168.1.1/admin",
    "carrier": "http://100.64.0.1/",
    "localhost": "http://localhost/",
    "zero": "http://0.0.0.0/",
}
NO_TARGETS = {
    "ftp": "ftp://demo.test/file",
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,<a href='/redirected-data'>x</a>",
    "file": "file:///etc/passwd",
    "mailto": "mailto:info@demo.test",
    "bracket": "http://[::bad/",
    "port": "http://demo.test:99999/",
    "no-host": "http://",
}


def build_redirects(plan: Plan) -> Iterator[FaultSite]:
    """Build the host with redirects in chains and loops, to another host, and to targets that cannot be fetched."""
    builder = FaultSiteBuilder(plan, "redirects")
    elsewhere = FaultSiteBuilder(plan, "redirects", "elsewhere.demo.test")
    for left in (3, 2, 1):
        builder.must(f"/chain/{left}", redirect(302, f"/chain/{left - 1}"), status=302, linked=left == 3)
    builder.must("/chain/0", linked=False)
    # The crawler decides how a loop or a long chain ends, but it has to end.
    builder.attempt("/loop/a", redirect(302, "/loop/b"))
    builder.attempt("/loop/b", redirect(302, "/loop/a"), linked=False)
    builder.attempt("/self", redirect(301, "/self"))
    builder.attempt("/empty", redirect(302, ""))
    builder.attempt("/long/12", redirect(302, "/long/11"))
    for left in range(11, 0, -1):
        builder.may(f"/long/{left}", redirect(302, f"/long/{left - 1}"), linked=False)
    builder.may("/long/0", linked=False)

    builder.must("/away", redirect(301, elsewhere.url("/found")), status=301)
    elsewhere.must("/found")
    builder.must("/relative/here", redirect(302, "../relative-end#part"), status=302)
    builder.must("/relative-end", linked=False)
    builder.must("/no-scheme", redirect(302, f"//{elsewhere.host.upper()}/no-scheme-end"), status=302)
    elsewhere.must("/no-scheme-end", linked=False)
    builder.must("/letters", redirect(302, "/caf\u00e9-end"), status=302)
    builder.must("/caf%C3%A9-end", linked=False)
    builder.must(
        "/with-links", reply(302, b"<a href='/hidden'>x</a>", headers=[("Location", "/plain-end")]), status=302
    )
    builder.must("/plain-end", linked=False)
    builder.may("/hidden", linked=False)
    builder.must("/no-location", reply(301, b"<p>Where to?</p>"), status=301)
    for name, url in PRIVATE.items():
        builder.must(f"/private/{name}", redirect(302, url), status=302)
        builder.add_outside_link(NORMAL.get(url, url), written=url)
    for name, url in NO_TARGETS.items():
        builder.must(f"/no-target/{name}", redirect(302, url), status=302)
    yield builder.build(hrefs=NO_TARGETS.values())
    yield elsewhere.build(linked_from_hub=False, front=Requirement.NEVER)
