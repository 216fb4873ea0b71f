"""Hosts that a crawl cannot reach, or not at first: names, ports and TLS that fail, hosts that vanish.

    async with serve_network(Web()) as network:      # a name server, and an address on 127.0.0.0/8 for each host
        ...                                          # swath crawl {network.ports.crawl_options} --allow-private
        report = expect_report(network.hosts, ["fine.test", "refused.test"])

`expect_report` says what became of every URL in such a crawl, and its exit code. `swath.testing.web.spawn(web,
network=True)` serves the network from another process, `python -m swath.testing.web --network` from a shell.
Modules in this package import the standard library and `swath.testing.web`.

| host | what happens |
|---|---|
| `fine.test`, `slow.test` | all pages can be fetched, from the second after a while |
| `unknown.test` | the name does not exist, like every name that is not in this table |
| `no-address.test` | the name has no addresses |
| `dns-failure.test`, `dns-silent.test` | the name server fails, or does not answer |
| `private.test` | the name has an address in a private network |
| `refused.test` | connections are refused |
| `silent.test`, `hanging.test` | connections are accepted and nothing is sent, or never completed |
| `broken-tls.test` | https does not speak TLS; http works |
| `http-only.test`, `https-only.test` | the other port refuses connections |
| `www-only.test` | the name does not exist, `www.www-only.test` does |
| `vanishing.test` | after three requests, connections are refused |
| `robots-disallow.test`, `robots-500.test` | robots.txt disallows everything, or is a server error |
| `robots-silent.test` | robots.txt is never answered |
| `hub.test` | links to all other hosts, with https, except to `private.test` |
"""

from swath.testing.web.network.crawl_report import CrawlReport, expect_report
from swath.testing.web.network.demo_host import DemoHost, Name, PageOutcome, Port
from swath.testing.web.network.dns_server import DNSAnswer, DNSCode, DNSServer
from swath.testing.web.network.hosts import build_hosts
from swath.testing.web.network.network_server import NetworkPorts, NetworkServer, serve_network

__all__ = [
    "CrawlReport",
    "DNSAnswer",
    "DNSCode",
    "DNSServer",
    "DemoHost",
    "Name",
    "NetworkPorts",
    "NetworkServer",
    "PageOutcome",
    "Port",
    "build_hosts",
    "expect_report",
    "serve_network",
]
