"""A demo crawl: serve a made-up web on loopback and crawl it politely, in about half a minute.

    python examples/demo_crawl.py                     # into ./demo-crawl
    python examples/demo_crawl.py --out DIR …         # any flag of `swath crawl`

Most hosts of the web are ordinary. Some have problems: circular redirects, pages that fail at first, endless query
parameters, duplicates, pages that robots.txt forbids. Ctrl-C stops the crawl and its web; the same command resumes it.
"""

import sys
from itertools import pairwise
from pathlib import Path

from swath.cli.app import load_commands
from swath.cli.exit_codes import ExitCode
from swath.testing.web import Web, spawn

FAULTS = frozenset({
    "statuses", "redirects", "twins", "codings", "flaky-503", "trap-filters", "robots-some",
    "robots-all", "robots-404", "sitemap-index", "feeds",
})  # fmt: skip
WEB = Web(seed=3, hosts=30, pages=900, skew=0.2, faults=FAULTS, slow_seconds=0.5)


def main(arguments: list[str], *, web: Web = WEB) -> None:
    """Run the demo and exit with the code of the crawl."""
    flags = ["--out", "demo-crawl", "--scope", "domain", "--delay", "0.5s", "--retries", "2"]
    flags += arguments  # the last value of a flag wins
    out = Path([value for name, value in pairwise(flags) if name in ("--out", "-o")][-1])
    if (other := find_other_seed(out, web)) is not None:
        print(f"{out} holds a crawl of {other}, not of the demo web: give another --out", file=sys.stderr)
        sys.exit(ExitCode.USAGE)
    with spawn(web) as served:
        words = ["crawl", *web.seeds, "--connect-to", served.connect_to, "--allow-private", *flags]
        load_commands(["crawl"])(words, prog_name="swath")


def find_other_seed(out: Path, web: Web) -> str | None:
    """Return a seed in `out` that is not of the demo web: the demo must not pose as another site."""
    seeds = out / "seeds.txt"
    lines = seeds.read_text().split() if seeds.exists() else []
    return next((url for url in lines if url not in web.seeds), None)


if __name__ == "__main__":
    main(sys.argv[1:])
