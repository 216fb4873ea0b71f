"""Redirects: long, endless, to other hosts, to addresses that are nobody's business, to what is no URL."""

from collections.abc import Iterator

from swath.testing.web.answer import redirect, reply
from swath.testing.web.expectation import Fate
from swath.testing.web.faults.fault_page import Sketch, Spots
from swath.testing.web.plan import Plan

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
    "mailto": "mailto:somebody@demo.test",
    "bracket": "http://[::bad/",
    "port": "http://demo.test:99999/",
    "no-host": "http://",
}


def redirects(plan: Plan) -> Iterator[Spots]:
    """Chains of 3, loops, to another host that nothing else names, and into the dark."""
    sketch = Sketch(plan, "redirects")
    elsewhere = Sketch(plan, "redirects", "elsewhere.demo.test")
    for left in (3, 2, 1):
        sketch.must(f"/chain/{left}", redirect(302, f"/chain/{left - 1}"), status=302, linked=left == 3)
    sketch.must("/chain/0", linked=False)
    # How a loop and a chain beyond the limit end is the crawler's affair; that they end is not.
    sketch.attempt("/loop/a", redirect(302, "/loop/b"))
    sketch.attempt("/loop/b", redirect(302, "/loop/a"), linked=False)
    sketch.attempt("/self", redirect(301, "/self"))
    sketch.attempt("/empty", redirect(302, ""))
    sketch.attempt("/long/12", redirect(302, "/long/11"))
    for left in range(11, 0, -1):
        sketch.may(f"/long/{left}", redirect(302, f"/long/{left - 1}"), linked=False)
    sketch.may("/long/0", linked=False)

    sketch.must("/away", redirect(301, elsewhere.url("/found")), status=301)
    elsewhere.must("/found")
    sketch.must("/relative/here", redirect(302, "../relative-end#part"), status=302)
    sketch.must("/relative-end", linked=False)
    sketch.must("/no-scheme", redirect(302, f"//{elsewhere.host.upper()}/no-scheme-end"), status=302)
    elsewhere.must("/no-scheme-end", linked=False)
    sketch.must("/letters", redirect(302, "/caf\u00e9-end"), status=302)
    sketch.must("/caf%C3%A9-end", linked=False)
    sketch.must("/with-links", reply(302, b"<a href='/hidden'>x</a>", headers=[("Location", "/plain-end")]), status=302)
    sketch.must("/plain-end", linked=False)
    sketch.may("/hidden", linked=False)
    sketch.must("/no-location", reply(301, b"<p>Where to?</p>"), status=301)
    for name, url in PRIVATE.items():
        sketch.must(f"/private/{name}", redirect(302, url), status=302)
        sketch.stranger(NORMAL.get(url, url), written=url)
    for name, url in NO_TARGETS.items():
        sketch.must(f"/no-target/{name}", redirect(302, url), status=302)
    yield sketch.site(hrefs=NO_TARGETS.values())
    yield elsewhere.site(introduced=False, front=Fate.NEVER)
