"""Resolve host names concurrently, and cache the addresses for the TTL of the answer.

A negative answer (the name does not exist, or it has no addresses) counts after a second query has confirmed it.

c-ares (through aiodns) sends the queries. Unlike `getaddrinfo` it reports the TTL and needs no thread per query. It
reads /etc/hosts, resolv.conf and nsswitch.conf as usual.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

import aiodns
import pycares

from swath import SwathError, lease_clock

MIN_TTL_SECONDS = 60.0
MAX_TTL_SECONDS = 86_400.0
NEGATIVE_SECONDS = 60.0  # how long a negative answer is cached, after its repeat
FAILURE_SECONDS = 1.0  # other failures: long enough for concurrent calls, shorter than the pause before a retry
REPEAT_SECONDS = 1.0  # before the query after a negative answer is repeated
MAX_CACHED_NAMES = 100_000
MAX_QUERIES = 500
MAX_ADDRESSES = 8  # per name; more are never tried

ERROR_KINDS: Final = {
    pycares.errno.ARES_ENOTFOUND: "nxdomain",
    pycares.errno.ARES_ENODATA: "nodata",
    pycares.errno.ARES_ESERVFAIL: "servfail",
    pycares.errno.ARES_EREFUSED: "refused",
    pycares.errno.ARES_ETIMEOUT: "timeout",
    pycares.errno.ARES_ECONNREFUSED: "unreachable",
    pycares.errno.ARES_EBADNAME: "badname",
    pycares.errno.ARES_ECANCELLED: "cancelled",
    pycares.errno.ARES_EDESTRUCTION: "cancelled",
}
NEGATIVE: Final = frozenset({"nxdomain", "nodata"})  # an answer: no later query is expected to find more
PERMANENT: Final = NEGATIVE | {"badname"}
DETAILS: Final = {
    "nxdomain": "no such host",
    "nodata": "the name has no addresses",
    "servfail": "the name server failed",
    "refused": "the name server refused to answer",
    "timeout": "the name server did not answer",
    "unreachable": "the name server did not answer",
    "badname": "not a valid host name",
}


class ResolveError(SwathError):
    """A name could not be resolved. `kind` is one of the values of ERROR_KINDS, or "other"."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind

    @property
    def is_permanent(self) -> bool:
        """Whether the name does not exist, as far as DNS can tell. The query was repeated."""
        return self.kind in PERMANENT


class AddressResolver(Protocol):
    """The interface that the fetcher uses to resolve names."""

    async def resolve(self, host: str, /) -> Sequence[str]:
        """Return the addresses of a host, best first, at least one. Raise ResolveError if there are none."""
        ...


class _CachedAnswer(NamedTuple):
    expires: float
    addresses: tuple[str, ...]
    error: tuple[str, str] | None


class Resolver:
    """A cache of addresses in front of c-ares. It belongs to one event loop."""

    def __init__(
        self,
        *,
        nameservers: Sequence[str] | None = None,
        family: socket.AddressFamily | None = None,
        timeout: float = 2.0,
        tries: int = 3,
        cached_names: int = MAX_CACHED_NAMES,
        at_once: int = MAX_QUERIES,
        repeat_seconds: float = REPEAT_SECONDS,
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        """`nameservers` replace those of the system, as `address` or `address:port`. `family` defaults to both, or to
        IPv4 if this machine has no route to IPv6. `timeout` applies to the first try and doubles with each. A negative
        answer is checked with a second query after `repeat_seconds`."""
        self._family = (socket.AF_UNSPEC if has_ipv6() else socket.AF_INET) if family is None else family
        self._nameservers = nameservers
        self._timeout = timeout
        self._tries = tries
        self._max_cached = cached_names
        self._repeat_seconds = repeat_seconds
        self._clock = clock
        self._slots = asyncio.Semaphore(at_once)
        self._cache: OrderedDict[str, _CachedAnswer] = OrderedDict()
        self._pending: dict[str, asyncio.Task[_CachedAnswer]] = {}
        self._dns: aiodns.DNSResolver | None = None

    async def resolve(self, host: str, /) -> tuple[str, ...]:
        """Return the addresses of a host, from the cache if they have not expired. Concurrent calls share one query."""
        entry = self._cache.get(host)
        if entry is None or entry.expires <= self._clock():
            asking = self._pending.get(host)
            if asking is None:
                asking = self._pending[host] = asyncio.ensure_future(self._query(host))
            # Shielded: if this call is cancelled, others may still wait for the query.
            entry = await asyncio.shield(asking)
        else:
            self._cache.move_to_end(host)
        if entry.error is not None:
            raise ResolveError(*entry.error)
        return entry.addresses

    async def close(self) -> None:
        """Cancel the queries in flight."""
        for asking in list(self._pending.values()):
            asking.cancel()
        if self._dns is not None:
            await self._dns.close()
            self._dns = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _query(self, host: str) -> _CachedAnswer:
        try:
            async with self._slots:
                entry = await self._lookup(host, self._get_channel())
            if entry.error is not None and entry.error[0] in NEGATIVE:
                await asyncio.sleep(self._repeat_seconds)
                entry = await self._repeat(host)
            self._cache[host] = entry
            self._cache.move_to_end(host)
            if len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)
            return entry
        finally:
            del self._pending[host]

    async def _repeat(self, host: str) -> _CachedAnswer:
        """Query again on a channel of its own: c-ares caches negative answers, for up to an hour."""
        async with self._slots, self._open_channel() as channel:
            return await self._lookup(host, channel)

    async def _lookup(self, host: str, channel: aiodns.DNSResolver) -> _CachedAnswer:
        try:
            found = await channel.getaddrinfo(host, family=self._family, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            return self._make_failure(ERROR_KINDS.get(error.args[0], "other"), f"{error.args[-1]}")
        except UnicodeError as error:  # the name cannot be sent in a DNS query
            return self._make_failure("badname", f"{error}")
        addresses = tuple(dict.fromkeys(_to_text(node.addr[0]) for node in found.nodes))[:MAX_ADDRESSES]
        if not addresses:
            return self._make_failure("nodata", "")
        seconds = min([float(node.ttl) for node in found.nodes] + [float(alias.ttl) for alias in found.cnames])
        holds = min(max(seconds, MIN_TTL_SECONDS), MAX_TTL_SECONDS)
        return _CachedAnswer(self._clock() + holds, addresses, None)

    def _make_failure(self, kind: str, text: str) -> _CachedAnswer:
        holds = NEGATIVE_SECONDS if kind in PERMANENT else FAILURE_SECONDS
        return _CachedAnswer(self._clock() + holds, (), (kind, DETAILS.get(kind, text)))

    def _get_channel(self) -> aiodns.DNSResolver:
        """Return the channel. The first query opens it, because that needs a running loop."""
        if self._dns is None:
            self._dns = self._open_channel()
        return self._dns

    def _open_channel(self) -> aiodns.DNSResolver:
        return aiodns.DNSResolver(self._nameservers, timeout=self._timeout, tries=self._tries)


def has_ipv6() -> bool:
    """Return whether this machine has a route to the IPv6 internet. Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.connect(("2001:4860:4860::8888", 53))
    except OSError:
        return False
    return True


def _to_text(address: str | bytes) -> str:
    return address.decode("ascii") if isinstance(address, bytes) else address
