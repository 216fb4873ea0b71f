"""A crawl to look at: serves a made-up web on loopback and crawls it politely, in about half a minute.

    python examples/demo_crawl.py                     # into ./crawl
    python examples/demo_crawl.py --out DIR …         # any flag of `swath crawl`

Most of the web's hosts are ordinary. On some things go wrong: redirects in circles, pages that fail at first, endless
queries, copies, pages that robots.txt keeps out. Ctrl-C stops, the same command goes on; the web ends with the crawl.
"""

import sys
from itertools import pairwise
from pathlib import Path

from swath.cli.app import load_commands
from swath.cli.exit_codes import ExitCode
from swath.testing.web import Web, spawn

TROUBLE = frozenset({
    "statuses", "redirects", "twins", "codings", "flaky-503", "trap-filters", "robots-some",
    "robots-all", "robots-404", "sitemap-index", "feeds",
})  # fmt: skip
WEB = Web(seed=3, hosts=30, pages=900, skew=0.2, trouble=TROUBLE, patience=0.5)


def main(arguments: list[str], *, web: Web = WEB) -> None:
    """Leaves with the exit code of the crawl."""
    flags = ["--out", "crawl", "--scope", "domain", "--delay", "0.5s", "--retries", "2"]
    flags += arguments  # of two alike the second counts
    out = Path([value for name, value in pairwise(flags) if name in ("--out", "-o")][-1])
    if (stranger := stranger_in(out, web)) is not None:
        print(f"{out} holds a crawl of {stranger}, not of the demo web: give another --out", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    with spawn(web) as served:
        words = ["crawl", *web.seeds, "--connect-to", served.connect_to, "--allow-private", *flags]
        load_commands(["crawl"])(words, prog_name="swath")


def stranger_in(out: Path, web: Web) -> str | None:
    """A seed of another crawl, for whose pages those of this web would be taken."""
    seeds = out / "seeds.txt"
    lines = seeds.read_text().split() if seeds.exists() else []
    return next((url for url in lines if url not in web.seeds), None)


if __name__ == "__main__":
    main(sys.argv[1:])
