"""Which IP addresses a crawler may connect to: those of the public internet only.

The ranges come from the IANA special-purpose address registries. `ipaddress.is_global` is not used, because its results
differ between Python releases. If a registry does not say whether a range is global, it counts as private.
"""

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

CACHED_ADDRESSES = 65_536

NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link local, includes the metadata services of clouds
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private use
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
GLOBAL_UNICAST: Final = IPv6Network("2000::/3")  # all ranges that IANA has allocated so far
NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, includes Teredo tunnels to hidden IPv4 addresses
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4 tunnels
        "3fff::/20",  # documentation
    )
)
NAT64: Final = IPv6Network("64:ff9b::/96")  # how IPv6-only networks reach IPv4; check the embedded address


@lru_cache(maxsize=CACHED_ADDRESSES)
def is_public(address: str) -> bool:
    """Return whether the address belongs to the public internet. Return False if it is not an IP address."""
    try:
        if ":" not in address:
            return _is_public_4(IPv4Address(address))
        return _is_public_6(IPv6Address(address.partition("%")[0]))
    except AddressValueError:
        return False


def parse_ip_literal(host: str) -> str | None:
    """Return the IP address that the host of a URL consists of, or None if the host is a name."""
    return _parse_ip_literal(host) if host[:1] == "[" or host[-1:].isdigit() else None


@lru_cache(maxsize=CACHED_ADDRESSES)
def _parse_ip_literal(host: str) -> str | None:
    try:
        return str(IPv6Address(host[1:].removesuffix("]")) if host[0] == "[" else IPv4Address(host))
    except AddressValueError:
        return None


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in network for network in NOT_PUBLIC_4)


def _is_public_6(address: IPv6Address) -> bool:
    mapped = address.ipv4_mapped
    if mapped is not None:
        return _is_public_4(mapped)
    if address in NAT64:
        return _is_public_4(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in GLOBAL_UNICAST and not any(address in network for network in NOT_PUBLIC_6)
