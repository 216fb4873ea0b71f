"""The race: each crawler runs on the same site, one after the other."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl import tree
from benchmarks.crawl.fields import SELECTED
from benchmarks.crawl.settings import HERE
from benchmarks.crawl.site import Site
from benchmarks.crawl.tree import ContestantFailed, Used
from benchmarks.results import Figure
from tests.postgres_server import PostgresServer

AT_ONCE = 100  # requests of the bare loop and of the peers
TIMEOUT = 900.0  # seconds; a crawler that takes longer counts as stuck
OPEN = {
    "delay": 0.0,
    "max_workers_per_host": 0,
    "contact": "bench@example.com",
    "allow_private": True,
}  # politeness off


@dataclass(frozen=True, slots=True)
class Course:
    """What a crawler runs on: the site, the error log of its server, and a directory for the crawler's files."""

    site: Site
    errors: Path
    directory: Path

    @property
    def seeds(self) -> Path:
        return self.directory / "seeds.txt"

    def make_home(self, name: str) -> Path:
        """Create an empty directory."""
        home = self.directory / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        return home


Contestant = Callable[[Course], Figure]


def environment() -> dict[str, str]:
    """Return the environment of this process, in which `import swath` finds this tree first."""
    root = HERE.parent.parent
    before = os.environ.get("PYTHONPATH")
    paths = [str(root / "src"), str(root), *([before] if before else [])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"}


def bare(course: Course, *, warc: bool = False) -> Figure:
    home = course.make_home("bare")
    archive = ["--warc", str(home / "bare.warc.gz")] if warc else []
    command = [sys.executable, "-m", "benchmarks.crawl.bare", "--at-once", str(AT_ONCE), *archive, str(course.seeds)]
    return _peer(course, "bare loop, the same WARC" if warc else "bare loop", command, home)


def scrapy(course: Course, *, jobdir: bool = False) -> Figure:
    home = course.make_home("scrapy")
    command = [sys.executable, str(HERE / "peers" / "scrapy_crawl.py"), str(course.seeds), str(AT_ONCE)]
    return _peer(course, "Scrapy, JOBDIR" if jobdir else "Scrapy, memory", command + ["job"] * jobdir, home)


def crawlee(course: Course) -> Figure:
    command = [sys.executable, str(HERE / "peers" / "crawlee_crawl.py"), str(course.seeds), str(AT_ONCE)]
    return _peer(course, "Crawlee, memory", command, course.make_home("crawlee"))


def _peer(course: Course, name: str, command: list[str], home: Path) -> Figure:
    used = tree.run(command, environment=environment(), cwd=home, timeout=TIMEOUT, codes={0})
    return build_figure(course, name, used, _read_result(used)["pages"])


def swath(course: Course, *, processes: int = 1) -> Figure:
    """Run `swath crawl` like a user: with SQLite, WARC files, page list and index."""
    home = course.make_home("swath")
    name = "swath, SQLite, WARC" + (f", {processes} processes" if processes > 1 else "")
    used = tree.run(
        _crawl(course, home, "--processes", str(processes)),
        environment=environment(), cwd=home, timeout=TIMEOUT, codes={0},
    )  # fmt: skip
    return build_figure(course, name, used, _check_summary(used))


def swath_postgres(course: Course, *, settings: Mapping[str, str]) -> Figure:
    home = course.make_home("swath-postgres")
    with PostgresServer(settings=settings) as server:
        store = f"{server.dsn()}&schema=crawl"
        before = tree.cpu_seconds(server.pid)
        used = tree.run(
            _crawl(course, home, "--store", store), environment=environment(), cwd=home, timeout=TIMEOUT, codes={0}
        )
        made = build_figure(course, "swath, PostgreSQL, WARC", used, _check_summary(used))
        return {**made, "server_cpu_seconds": tree.cpu_seconds(server.pid) - before}


def _crawl(course: Course, home: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "swath", "crawl", "--seeds", str(course.seeds), "--out", str(home / "out"),
        "--delay", "0", "--max-workers-per-host", "0", "--contact", "bench@example.com", "--allow-private", "--json",
        *more,
    ]  # fmt: skip


FIELDS: Mapping[str, Sequence[str]] = {
    "swath, no handler": (),
    "swath, async handler": ("--run", "benchmarks.crawl.fields:read_in_loop"),
    "swath, plain handler, in threads": ("--run", "benchmarks.crawl.fields:read_in_thread"),
    "swath, async handler that follows links": ("--run", "benchmarks.crawl.fields:crawler"),
    "swath, --select": tuple(word for field in SELECTED for word in ("--select", field)),
}


def swath_fields(course: Course, name: str) -> Figure:
    """Run `swath crawl` with one of the handlers in `FIELDS`, which take six fields from each page."""
    home = course.make_home("swath-fields")
    handler, items = FIELDS[name], home / "items.jsonl"
    more = [*handler, "--items", str(items)] if handler else []
    used = tree.run(_crawl(course, home, *more), environment=environment(), cwd=home, timeout=TIMEOUT, codes={0})
    figure = build_figure(course, name, used, _check_summary(used))
    return _check_items(figure, items) if handler else figure


def scrapy_fields(course: Course) -> Figure:
    home = course.make_home("scrapy-fields")
    items = home / "items.jsonl"
    command = [sys.executable, str(HERE / "peers" / "scrapy_fields.py"), str(course.seeds), str(AT_ONCE), str(items)]
    return _check_items(_peer(course, "Scrapy, six fields", command, home), items)


def _check_items(figure: Figure, items: Path) -> Figure:
    with items.open("rb") as lines:
        count = sum(1 for _ in lines)
    if count != figure["pages"]:
        raise ContestantFailed(f"{figure['name']} has {count:,} items of {figure['pages']:,} pages")
    return {**figure, "items": count}


def profile(course: Course) -> Figure:
    """Run the same crawl again, with a sampling profiler."""
    home = course.make_home("profile")
    figures = _ours(course, home, "swath, profiled", profile=home / "profile.json")
    return {**figures, "parts": json.loads((home / "profile.json").read_text())}


def over_tls(course: Course, *, authority: Path, name: str) -> Figure:
    return _ours(course, course.make_home("tls"), name, verify=True, ca_file=str(authority))


def _ours(course: Course, home: Path, name: str, *, profile: Path | None = None, **more: object) -> Figure:
    (home / "settings.json").write_text(json.dumps({**OPEN, "out": str(home / "out"), **more}))
    command = [sys.executable, "-m", "benchmarks.crawl.ours", str(home / "settings.json"), str(course.seeds)]
    if profile is not None:
        command.append(str(profile))
    used = tree.run(command, environment=environment(), cwd=home, timeout=TIMEOUT, codes={0})
    return build_figure(course, name, used, _read_result(used)["pages"])


def build_figure(course: Course, name: str, used: Used, pages: int) -> Figure:
    failures = [line for line in course.errors.read_text().splitlines() if "[crit]" in line]
    if failures:
        raise ContestantFailed(
            f"{len(failures)} server errors, so the figures are not valid; the last one: {failures[-1]}"
        )
    return {
        "name": name,
        "pages": pages,
        "exist": course.site.pages,
        "cpu_seconds": used.cpu_seconds,
        "system_seconds": used.system_seconds,
        "seconds": used.seconds,
        "pages_per_cpu_s": pages / used.cpu_seconds,
        "pages_per_s": pages / used.seconds,
        "rss_mb": used.peak_rss_mb,
    }


def _read_result(used: Used) -> dict[str, int]:
    try:
        result: dict[str, int] = json.loads(used.output.splitlines()[-1])
    except (IndexError, ValueError):
        raise ContestantFailed(f"its last line has no number of pages: {used.output[-500:]!r}") from None
    return result


def _check_summary(used: Used) -> int:
    summary = json.loads(used.output.splitlines()[-1])
    if summary["stopped_by"] != "done" or summary["queued"]:
        raise ContestantFailed(f"the crawl was stopped by {summary['stopped_by']} with {summary['queued']} URLs queued")
    pages: int = summary["pages"]
    return pages


def make_certificate(directory: Path, addresses: list[str]) -> tuple[Path, Path, Path]:
    """Create a certificate authority and a certificate for all hosts; return authority, certificate and key."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Benchmark CA", "-days", "2")
    openssl("req", *key, "-keyout", "host.key", "-out", "host.csr", "-subj", "/CN=benchmark")
    (directory / "names").write_text("subjectAltName=" + ",".join(f"IP:{one}" for one in addresses) + "\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "host.csr", "-out", "host.pem", *signing)
    return directory / "ca.pem", directory / "host.pem", directory / "host.key"
