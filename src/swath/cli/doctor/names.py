"""Problems of name resolution, for a crawl."""

import asyncio
from collections.abc import Iterator, Sequence

from swath import Problem
from swath.crawl.http.address import parse_ip_literal
from swath.crawl.http.resolver import PERMANENT, ResolveError, Resolver

MAX_SECONDS = 10.0


async def resolve(host: str, servers: Sequence[str]) -> str | None:
    """Return why no name server answered for a host; None if one did, whatever it said."""
    if parse_ip_literal(host) is not None:
        return None
    try:
        async with asyncio.timeout(MAX_SECONDS), Resolver(nameservers=servers or None, tries=2) as resolver:
            await resolver.resolve(host)
    except TimeoutError:
        return f"no answer within {MAX_SECONDS:g} s"
    except ResolveError as error:
        return None if error.kind in PERMANENT else str(error)
    return None


def check_names(host: str, failure: str | None) -> Iterator[Problem]:
    if failure is not None:
        yield Problem(
            "dns",
            f"the name {host} cannot be resolved: {failure}",
            "check /etc/resolv.conf and the firewall (port 53), or give another name server with --dns-servers",
        )
