"""One host of the network: what its name resolves to, what its ports do, and what becomes of its pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from swath.testing.web.expectation import PageState
from swath.testing.web.network.dns_server import NXDOMAIN, SERVFAIL, DNSAnswer
from swath.testing.web.site import Site

PRIVATE_ADDRESS = "10.0.0.1"
DNS_FAILURE = "dns"


class Port(Enum):
    """What a TCP port of a host does."""

    SERVE = "serve"
    REFUSE = "refuse"  # refuses connections
    SILENT = "silent"  # accepts connections and never sends a byte
    HANG = "hang"  # never completes a connection
    NOT_TLS = "not-tls"  # does not speak TLS


class Name(Enum):
    """What the name server says about a host."""

    ADDRESS = "address"  # an address of its own on loopback
    PRIVATE = "private"  # an address in a private network
    UNKNOWN = "unknown"
    NO_ADDRESS = "no-address"
    FAILURE = "failure"
    SILENT = "silent"  # the name server does not answer


FAILURES = {Port.REFUSE: "refused", Port.SILENT: "timeout", Port.HANG: "timeout", Port.NOT_TLS: "tls"}


class PageOutcome(NamedTuple):
    """What becomes of a page, and why: the kind of failure, the reason of an exclusion, or the URL of a fallback."""

    state: PageState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DemoHost:
    """One host. `outcomes` has every page that a crawl finds if it can reach the host."""

    name: str
    site: Site
    outcomes: Mapping[str, PageOutcome]
    resolves_to: Name = Name.ADDRESS
    http: Port = Port.SERVE
    https: Port = Port.SERVE
    max_requests: int | None = None  # then both ports refuse connections

    def resolve(self, loopback: str) -> DNSAnswer | None:
        """Return what the name server answers; None if it does not. `loopback` is the host's own address."""
        match self.resolves_to:
            case Name.ADDRESS:
                return DNSAnswer((loopback,))
            case Name.PRIVATE:
                return DNSAnswer((PRIVATE_ADDRESS,))
            case Name.UNKNOWN:
                return NXDOMAIN
            case Name.NO_ADDRESS:
                return DNSAnswer()
            case Name.FAILURE:
                return SERVFAIL
            case Name.SILENT:
                return None

    @property
    def has_address(self) -> bool:
        return self.resolves_to in (Name.ADDRESS, Name.PRIVATE)

    def find_failure(self, scheme: str) -> str | None:
        """Return how a crawl names the failure to reach this host or its robots.txt; None if there is none."""
        if not self.has_address:
            return DNS_FAILURE
        front = self.outcomes["/"]
        of_front = front.reason if front.state is PageState.FAILED else None
        return FAILURES.get(self.http if scheme == "http" else self.https, of_front)
