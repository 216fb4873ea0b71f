"""Lanes: what of a crawl is paced together, and what it is called.

A host, all hosts of a registrable domain, or all hosts of one address. The address is not known when a link to it is
found, and names have several, in an order that changes. But the lane is part of what a page is (INV-7): the whole fleet
has to mean the same one, for good. So a page of a host whose address is not known here enters the lane of the host, and
is only passed on there, without a request (`Visitor`). Who is alone in that lane decides on the address, and it is a
fact from that settlement on; nobody else's is ever kept.
"""

from collections.abc import Callable, Sequence

from swath.crawl.http.address import literal
from swath.crawl.urls import normalise

KEY = "address "  # before the host: the key of a fact, the name of its lane
PASSED_ON = "passed_on_to"  # in the result of a page that only found its lane
REMEMBERED = 100_000  # hosts


def lane_of(kind: str) -> Callable[[str], str]:
    """What the lane of a URL is called; for `ip`, the lane that every page can enter."""
    return normalise.site if kind == "domain" else normalise.host


class Addresses:
    """The lanes of the hosts whose address is known here. Only what is settled is told to it."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def lane(self, url: str) -> str:
        host = normalise.host(url)
        return self._known.get(host, host)

    def remember(self, host: str, lane: str) -> None:
        if host not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[host] = lane


def is_address(lane: str) -> bool:
    return literal(lane) is not None


def lane_of_addresses(addresses: Sequence[str]) -> str:
    """The lane of a host that has these: named after one of them that is the same in whatever order they come, and
    for machines with and without IPv6. Spelt as a host in a URL is."""
    address = min(addresses, key=lambda one: (":" in one, one))
    return f"[{address}]" if ":" in address else address
