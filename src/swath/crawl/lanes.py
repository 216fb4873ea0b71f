"""Lane names. A lane groups the requests that share a pace: to one host, registrable domain or IP address (--lane)."""

from collections.abc import Callable, Sequence

from swath.crawl.http.address import parse_ip_literal
from swath.crawl.urls import normalise


def get_lane_namer(kind: str) -> Callable[[str], str]:
    """Return the function that names the lane of a URL.

    For `ip` the function returns the host: every page enters the lane of its host first (see `IpLanes`).
    """
    return normalise.site if kind == "domain" else normalise.host


def is_ip_lane(lane: str) -> bool:
    return parse_ip_literal(lane) is not None


def choose_ip_lane(addresses: Sequence[str]) -> str:
    """Return the name of the lane for a host with these addresses, spelled like a host in a URL.

    The order of the addresses does not matter, and machines with and without IPv6 choose the same name.
    """
    address = min(addresses, key=lambda one: (":" in one, one))
    return f"[{address}]" if ":" in address else address
