"""`python -m swath.testing.web`: serve a web until SIGINT, SIGTERM or, with --until-eof, the end of standard input."""

import argparse
import asyncio
import json
import os
import resource
import signal
import ssl
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from swath.testing.web.network import serve_network
from swath.testing.web.process import plan_from_json
from swath.testing.web.request_log import RequestLog
from swath.testing.web.server import serve
from swath.testing.web.web import Web


def main() -> None:
    parser = _make_parser()
    arguments = parser.parse_args()
    if arguments.network and arguments.cert:
        parser.error("--network has a certificate of its own: leave out --cert")
    try:
        web = _make_web(arguments)
        web.sites  # noqa: B018 - built here, so that an unknown kind of fault is an error of the command
    except ValueError as error:
        parser.error(f"{error}")
    if arguments.expectations:
        for url, expectation in web.expectations():
            print(
                json.dumps(
                    {
                        "url": url,
                        "requirement": expectation.requirement.value,
                        "kind": expectation.kind,
                        "status": expectation.status,
                    }
                )
            )
        return
    _allow_many_connections()
    context = None
    if arguments.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.cert, arguments.key)
    try:
        asyncio.run(_run(web, arguments, context))
    except OSError as error:
        parser.exit(1, f"{parser.prog}: cannot serve on port {arguments.port}: {os.strerror(error.errno or 0)}\n")


def _make_web(arguments: argparse.Namespace) -> Web:
    if arguments.settings:
        return plan_from_json(arguments.settings)
    return Web(
        seed=arguments.seed,
        hosts=arguments.hosts,
        pages=arguments.pages,
        faults=frozenset(arguments.only.split(",")) if arguments.only else arguments.faults,
        sitemaps=arguments.sitemaps,
        size=tuple(arguments.size),
        links=tuple(arguments.links),
        skew=arguments.skew,
        slow_seconds=arguments.slow_seconds,
        latency_seconds=arguments.latency_seconds,
        shops=arguments.shops,
        books=arguments.books,
        scheme="https" if arguments.cert else "http",
    )


async def _run(web: Web, arguments: argparse.Namespace, context: ssl.SSLContext | None) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if arguments.until_eof:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    log = RequestLog(arguments.log, keep=False)
    try:
        async with _serve(web, arguments, log, context) as ready:
            print(json.dumps({**ready, "seeds": web.seeds, "hosts": len(web.sites), "pid": os.getpid()}), flush=True)
            await stop.wait()
    finally:
        log.close()


@asynccontextmanager
async def _serve(
    web: Web, arguments: argparse.Namespace, log: RequestLog, context: ssl.SSLContext | None
) -> AsyncIterator[dict[str, Any]]:
    """Serve the web, with the network if it was asked for, and yield the ports."""
    if not arguments.network:
        async with serve(web, port=arguments.port, log=log, ssl=context) as served:
            yield {"port": served.port, "connect_to": served.connect_to}
        return
    async with serve_network(web, port=arguments.port, log=log) as network:
        ports = network.ports
        yield {
            "port": ports.http,
            "https_port": ports.https,
            "dns_port": ports.dns,
            "crawl_options": " ".join(ports.crawl_options),
            "healed_options": " ".join(ports.healed_options),
        }


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # Read the descriptor: sys.stdin has a lock that a blocked thread would still hold when the interpreter exits.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:  # the loop is closed already
        pass


def _make_parser() -> argparse.ArgumentParser:
    default = Web()
    parser = argparse.ArgumentParser(
        prog="python -m swath.testing.web",
        description="Serve a demo web on 127.0.0.1. Prints its port and seeds as one line of JSON when it is ready.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    on_off = argparse.BooleanOptionalAction
    parser.add_argument("--port", type=int, default=0, help="TCP port; 0 selects a free one")
    parser.add_argument("--seed", type=int, default=default.seed, help="seed of the generated pages")
    parser.add_argument("--hosts", type=int, default=default.hosts, help="number of ordinary hosts")
    parser.add_argument("--pages", type=int, default=default.pages, help="total pages on the ordinary hosts")
    parser.add_argument("--faults", action=on_off, default=True, help="add hosts with faults")
    parser.add_argument("--only", metavar="KIND,…", help="only these kinds of faults")
    parser.add_argument("--sitemaps", action=on_off, default=True, help="give ordinary hosts sitemaps")
    parser.add_argument(
        "--size", type=int, nargs=2, default=default.size, metavar=("MIN", "MAX"), help="bytes per page"
    )
    parser.add_argument(
        "--links", type=int, nargs=2, default=default.links, metavar=("MIN", "MAX"), help="links per page"
    )
    parser.add_argument(
        "--skew", type=float, default=default.skew, help="how unequal the hosts are; 0: all have the same size"
    )
    parser.add_argument("--slow-seconds", type=float, default=default.slow_seconds, help="duration of a slow response")
    parser.add_argument(
        "--latency-seconds", type=float, default=default.latency_seconds, help="delay before each ordinary page"
    )
    parser.add_argument("--shops", type=int, default=default.shops, help="number of shops, which have books")
    parser.add_argument("--books", type=int, default=default.books, help="books of each shop")
    parser.add_argument(
        "--network", action="store_true", help="also serve hosts that cannot be reached, with a name server and https"
    )
    parser.add_argument("--log", type=Path, help="file to append one line of JSON per request to")
    parser.add_argument(
        "--until-eof", action="store_true", help="stop when standard input ends, for example when the parent exits"
    )
    parser.add_argument("--cert", help="certificate (PEM); serves https instead of http")
    parser.add_argument("--key", help="private key (PEM), if it is not in the certificate file")
    parser.add_argument("--settings", metavar="JSON", help="all settings of the web; replaces the flags above")
    parser.add_argument("--expectations", action="store_true", help="print the expectation for each URL and exit")
    return parser


if __name__ == "__main__":
    main()
