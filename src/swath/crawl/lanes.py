"""Lane names: which requests share a pace, as --lane says: one host, one registrable domain, or one IP address."""

from collections.abc import Callable, Sequence

from swath.crawl.http.address import parse_ip_literal
from swath.crawl.urls import normalise


def lane_naming(kind: str) -> Callable[[str], str]:
    """Return the function that names the lane of a URL. For `ip` that is the host's lane, which every page enters
    first (see `IpLanes`)."""
    return normalise.site if kind == "domain" else normalise.host


def is_ip_lane(lane: str) -> bool:
    return parse_ip_literal(lane) is not None


def ip_lane_name(addresses: Sequence[str]) -> str:
    """Return the name of the lane for a host with these addresses, spelled like a host in a URL.

    The order of the addresses does not matter, and machines with and without IPv6 choose the same name.
    """
    address = min(addresses, key=lambda one: (":" in one, one))
    return f"[{address}]" if ":" in address else address
