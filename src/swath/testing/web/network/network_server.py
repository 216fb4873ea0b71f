"""Serve a web and the hosts of the network on loopback: a name server, and two ports on an address for each host."""

import math
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from swath.testing.web.network.demo_host import DemoHost, Name, Port
from swath.testing.web.network.dns_server import LOOPBACK, DNSAnswer, DNSServer
from swath.testing.web.network.hosts import build_hosts
from swath.testing.web.network.ports import Listener, open_port
from swath.testing.web.request_head import RequestHead
from swath.testing.web.request_log import RequestLog
from swath.testing.web.scripted_response import End, ScriptedResponse
from swath.testing.web.server import HTTPConnection, ServerState
from swath.testing.web.web import Web

CERTIFICATE = Path(__file__).with_name("certificate.pem")
FIRST_ADDRESS = 11  # the last number of the first host's address, 127.0.0.11


@dataclass(frozen=True, slots=True)
class NetworkPorts:
    """The ports of a network. `http` and `https` are the same on all addresses."""

    http: int
    https: int
    dns: int

    @property
    def crawl_options(self) -> tuple[str, ...]:
        """The options of `swath crawl` to reach every host by its own name and address, except --allow-private."""
        return (
            "--dns-servers", f"{LOOPBACK}:{self.dns}",
            "--connect-to", f":80::{self.http}",
            "--connect-to", f":443::{self.https}",
        )  # fmt: skip

    @property
    def healed_options(self) -> tuple[str, ...]:
        """The options of `swath crawl` to reach the same pages without faults of names, ports and TLS."""
        return (
            "--connect-to", f":80:{LOOPBACK}:{self.http}",
            "--connect-to", f":443:{LOOPBACK}:{self.https}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class NetworkServer:
    """A running network. It also serves `web`, over http and https."""

    web: Web
    hosts: Mapping[str, DemoHost]
    ports: NetworkPorts
    log: RequestLog


@asynccontextmanager
async def serve_network(web: Web, *, port: int = 0, log: RequestLog | None = None) -> AsyncIterator[NetworkServer]:
    """Serve until the block ends. `port` is for http; 0 selects a free one. A log that the caller passes stays open.

    The hosts have addresses of their own, 127.0.0.11 and following, which every Linux machine has.
    """
    hosts = build_hosts(web)
    addresses = {name: f"127.0.0.{FIRST_ADDRESS + number}" for number, name in enumerate(hosts)}
    ours = RequestLog() if log is None else log
    state = _NetworkState(web, hosts, ours)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with AsyncExitStack() as stack:
        if log is None:
            stack.callback(ours.close)
        stack.push_async_callback(state.close_connections)

        async def open_one(behaviour: Port, address: str, number: int, scheme: str) -> Listener:
            tls = context if scheme == "https" else None
            opened = open_port(behaviour, (address, number), lambda: HTTPConnection(state, scheme), tls)
            return await stack.enter_async_context(opened)

        http = (await open_one(Port.SERVE, LOOPBACK, port, "http")).port
        https = (await open_one(Port.SERVE, LOOPBACK, 0, "https")).port
        for name, host in hosts.items():
            if host.resolves_to is Name.ADDRESS:
                state.listeners[name] = [
                    await open_one(host.http, addresses[name], http, "http"),
                    await open_one(host.https, addresses[name], https, "https"),
                ]
        answers = {name: DNSAnswer((LOOPBACK,)) for name in web.sites}
        names = DNSServer(answers | {name: host.resolve(addresses[name]) for name, host in hosts.items()})
        await stack.enter_async_context(names)
        yield NetworkServer(web, hosts, NetworkPorts(http, https, names.port), ours)


class _NetworkState(ServerState):
    """The state of a network. It closes the ports of a host that has answered as often as it should."""

    def __init__(self, web: Web, hosts: Mapping[str, DemoHost], log: RequestLog) -> None:
        super().__init__({**web.sites, **{name: host.site for name, host in hosts.items()}}, log)
        self.listeners: dict[str, list[Listener]] = {}
        self._limits = {name: host.max_requests for name, host in hosts.items() if host.max_requests is not None}

    def respond(self, request: RequestHead, body: bytes) -> ScriptedResponse:
        response = super().respond(request, body)
        if self.host_requests[request.host] < self._limits.get(request.host, math.inf):
            return response
        for listener in self.listeners[request.host]:
            listener.close()
        return replace(response, end=End.CLOSE)
