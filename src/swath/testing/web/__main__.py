"""`python -m swath.testing.web`: serves a web until SIGINT, SIGTERM or, with --until-eof, the end of standard input."""

import argparse
import asyncio
import json
import os
import resource
import signal
import ssl
import sys
import threading
from pathlib import Path

from swath.testing.web.log import Log
from swath.testing.web.process import from_settings
from swath.testing.web.server import serve
from swath.testing.web.web import Web


def main() -> None:
    arguments = _parser().parse_args()
    web = _web(arguments)
    if arguments.truth:
        for url, verdict in web.verdicts():
            print(json.dumps({"url": url, "fate": verdict.fate.value, "kind": verdict.kind, "status": verdict.status}))
        return
    _allow_many_connections()
    context = None
    if arguments.cert:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.cert, arguments.key)
    asyncio.run(_run(web, arguments.port, arguments.log, context, until_eof=arguments.until_eof))


def _web(arguments: argparse.Namespace) -> Web:
    if arguments.settings:
        return from_settings(arguments.settings)
    return Web(
        seed=arguments.seed,
        hosts=arguments.hosts,
        pages=arguments.pages,
        trouble=frozenset(arguments.only.split(",")) if arguments.only else arguments.trouble,
        sitemaps=arguments.sitemaps,
        size=tuple(arguments.size),
        links=tuple(arguments.links),
        skew=arguments.skew,
        patience=arguments.patience,
        latency=arguments.latency,
        scheme="https" if arguments.cert else "http",
    )


async def _run(web: Web, port: int, path: Path | None, context: ssl.SSLContext | None, *, until_eof: bool) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_eof:
        threading.Thread(target=_watch_stdin, args=(loop, stop), daemon=True).start()
    log = Log(path, keep=False)
    try:
        async with serve(web, port=port, log=log, ssl=context) as served:
            ready = {
                "port": served.port,
                "connect_to": served.connect_to,
                "seeds": web.seeds,
                "hosts": len(web.sites),
                "pid": os.getpid(),
            }
            print(json.dumps(ready), flush=True)
            await stop.wait()
    finally:
        log.close()


def _allow_many_connections() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # Not through sys.stdin, whose lock a thread that still reads would keep when the interpreter ends.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    try:
        loop.call_soon_threadsafe(stop.set)
    except RuntimeError:  # the loop has ended by itself
        pass


def _parser() -> argparse.ArgumentParser:
    default = Web()
    parser = argparse.ArgumentParser(
        prog="python -m swath.testing.web",
        description="Serve a web to crawl on 127.0.0.1. One line of JSON says the port and the seeds when it is ready.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    on_off = argparse.BooleanOptionalAction
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--seed", type=int, default=default.seed, help="another seed is another web")
    parser.add_argument("--hosts", type=int, default=default.hosts, help="ordinary hosts")
    parser.add_argument("--pages", type=int, default=default.pages, help="pages on the ordinary hosts together")
    parser.add_argument("--trouble", action=on_off, default=True, help="hosts on which things go wrong")
    parser.add_argument("--only", metavar="KIND,…", help="only these kinds of trouble")
    parser.add_argument("--sitemaps", action=on_off, default=True, help="sitemaps on ordinary hosts")
    parser.add_argument(
        "--size", type=int, nargs=2, default=default.size, metavar=("LEAST", "MOST"), help="bytes a page"
    )
    parser.add_argument(
        "--links", type=int, nargs=2, default=default.links, metavar=("LEAST", "MOST"), help="links a page"
    )
    parser.add_argument("--skew", type=float, default=default.skew, help="0: hosts of one size")
    parser.add_argument("--patience", type=float, default=default.patience, help="seconds that a slow answer takes")
    parser.add_argument("--latency", type=float, default=default.latency, help="seconds before each ordinary page")
    parser.add_argument("--log", type=Path, help="append a line of JSON for every request")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends, as with its parent")
    parser.add_argument("--cert", help="certificate (PEM): serve https")
    parser.add_argument("--key", help="its key (PEM), if in a file of its own")
    parser.add_argument("--settings", metavar="JSON", help="all settings of the web, in place of the flags above")
    parser.add_argument("--truth", action="store_true", help="print each URL and its fate instead of serving")
    return parser


if __name__ == "__main__":
    main()
