"""A crawl in this process, with settings that the command line lacks: a certificate authority, and a profiler.

python -m benchmarks.crawl.ours SETTINGS.json SEEDS [PROFILE.json]
"""

import asyncio
import json
import sys
from pathlib import Path

import uvloop

from benchmarks.crawl.profile import Profile
from swath import Stop
from swath.crawl.fleet import Fleet
from swath.crawl.seeds import read_seeds
from swath.crawl.settings import CrawlSettings
from swath.crawl.workspace import open_workspace


async def crawl(settings: CrawlSettings, seeds: Path) -> int:
    with seeds.open() as lines:
        async with open_workspace(settings, read_seeds(lines)) as workspace:
            fleet = Fleet(settings, workspace.frontier, Stop())
            await fleet.run()
    pages: int = fleet.stats()["pages"]
    return pages


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    settings = CrawlSettings(**given)
    profile = Profile() if sys.argv[3:] else None
    if profile is not None:
        profile.start()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        pages = loop.run(crawl(settings, Path(sys.argv[2])))
    if profile is not None:
        Path(sys.argv[3]).write_text(json.dumps(profile.end()))
    print(json.dumps({"pages": pages}))


if __name__ == "__main__":
    main()
