"""No address outside the public ranges passes, however it is dressed up."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.crawl.http.address import is_public, parse_ip_literal

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",  # IPv4-compatible, withdrawn
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::10.1.2.3",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
    "",
    "127.1",
    "0x7f.0.0.1",
    "127.0.0.1:80",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2001:200::1",
    "2606:4700::1111",
    "2a00:1450:4001:80b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_passes(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses())
def test_nothing_passes_that_python_holds_to_be_private(address: IPv4Address | IPv6Address) -> None:
    if is_public(str(address)):
        inner = ip_address(int(address) & 0xFFFF_FFFF) if str(address).startswith("64:ff9b::") else address
        mapped = inner.ipv4_mapped if isinstance(inner, IPv6Address) else None
        assert (mapped or inner).is_global
        assert not (mapped or inner).is_multicast


def test_a_literal_is_told_from_a_name() -> None:
    assert parse_ip_literal("127.0.0.1") == "127.0.0.1"
    assert parse_ip_literal("[::1]") == "::1"
    assert parse_ip_literal("[2001:DB8::0:1]") == "2001:db8::1"
    for name in ("example.com", "localhost", "1.example", "a1", "1.2.3", ""):
        assert parse_ip_literal(name) is None
