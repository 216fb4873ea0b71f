"""The race: every crawler on the same site, one after the other."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.crawl import tree
from benchmarks.crawl.settings import HERE
from benchmarks.crawl.site import Site
from benchmarks.crawl.tree import ContestantFailed, Used
from benchmarks.results import Figure
from tests.postgres_server import PostgresServer

AT_ONCE = 100  # requests of the bare loop and of the peers
TIMEOUT = 900.0  # seconds after which a crawler counts as stuck
OPEN = {
    "delay": 0.0,
    "max_workers_per_host": 0,
    "contact": "bench@example.com",
    "allow_private": True,
}  # politeness off


@dataclass(frozen=True, slots=True)
class Course:
    """Where a race is run: the site, what its server logs of errors, and a directory for what a crawler leaves."""

    site: Site
    errors: Path
    directory: Path

    @property
    def seeds(self) -> Path:
        return self.directory / "seeds.txt"

    def home(self, name: str) -> Path:
        """An empty directory."""
        home = self.directory / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        return home


Contestant = Callable[[Course], Figure]


def environment() -> dict[str, str]:
    """Ours, with this tree's swath in front, whichever is installed."""
    root = HERE.parent.parent
    before = os.environ.get("PYTHONPATH")
    paths = [str(root / "src"), str(root), *([before] if before else [])]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"}


def bare(course: Course, *, warc: bool = False) -> Figure:
    home = course.home("bare")
    archive = ["--warc", str(home / "bare.warc.gz")] if warc else []
    command = [sys.executable, "-m", "benchmarks.crawl.bare", "--at-once", str(AT_ONCE), *archive, str(course.seeds)]
    return _peer(course, "bare loop, the same WARC" if warc else "bare loop", command, home)


def scrapy(course: Course, *, jobdir: bool = False) -> Figure:
    home = course.home("scrapy")
    command = [sys.executable, str(HERE / "peers" / "scrapy_crawl.py"), str(course.seeds), str(AT_ONCE)]
    return _peer(course, "Scrapy, JOBDIR" if jobdir else "Scrapy, memory", command + ["job"] * jobdir, home)


def crawlee(course: Course) -> Figure:
    command = [sys.executable, str(HERE / "peers" / "crawlee_crawl.py"), str(course.seeds), str(AT_ONCE)]
    return _peer(course, "Crawlee, memory", command, course.home("crawlee"))


def _peer(course: Course, name: str, command: list[str], home: Path) -> Figure:
    used = tree.run(command, environment=environment(), cwd=home, timeout=TIMEOUT, codes={0})
    return figure(course, name, used, _said(used)["pages"])


def swath(course: Course, *, processes: int = 1) -> Figure:
    """The command that anybody would give, on its own frontier in a SQLite file, with WARC, list of pages and index."""
    home = course.home("swath")
    name = "swath, SQLite, WARC" + (f", {processes} processes" if processes > 1 else "")
    used = tree.run(
        _crawl(course, home, "--processes", str(processes)),
        environment=environment(), cwd=home, timeout=TIMEOUT, codes={0},
    )  # fmt: skip
    return figure(course, name, used, _summary(used))


def swath_postgres(course: Course, *, settings: Mapping[str, str]) -> Figure:
    home = course.home("swath-postgres")
    with PostgresServer(settings=settings) as server:
        store = f"{server.dsn()}&schema=crawl"
        before = tree.cpu_seconds(server.pid)
        used = tree.run(
            _crawl(course, home, "--store", store), environment=environment(), cwd=home, timeout=TIMEOUT, codes={0}
        )
        made = figure(course, "swath, PostgreSQL, WARC", used, _summary(used))
        return {**made, "server_cpu_seconds": tree.cpu_seconds(server.pid) - before}


def _crawl(course: Course, home: Path, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "swath", "crawl", "--seeds", str(course.seeds), "--out", str(home / "out"),
        "--delay", "0", "--max-workers-per-host", "0", "--contact", "bench@example.com", "--allow-private", "--json",
        *more,
    ]  # fmt: skip


def profiled(course: Course) -> Figure:
    """The same crawl once more, with samples of where its time goes."""
    home = course.home("profile")
    figures = _ours(course, home, "swath, profiled", profile=home / "profile.json")
    return {**figures, "parts": json.loads((home / "profile.json").read_text())}


def over_tls(course: Course, *, authority: Path, name: str) -> Figure:
    return _ours(course, course.home("tls"), name, verify=True, ca_file=str(authority))


def _ours(course: Course, home: Path, name: str, *, profile: Path | None = None, **more: object) -> Figure:
    (home / "settings.json").write_text(json.dumps({**OPEN, "out": str(home / "out"), **more}))
    command = [sys.executable, "-m", "benchmarks.crawl.ours", str(home / "settings.json"), str(course.seeds)]
    if profile is not None:
        command.append(str(profile))
    used = tree.run(command, environment=environment(), cwd=home, timeout=TIMEOUT, codes={0})
    return figure(course, name, used, _said(used)["pages"])


def figure(course: Course, name: str, used: Used, pages: int) -> Figure:
    failures = [line for line in course.errors.read_text().splitlines() if "[crit]" in line]
    if failures:
        raise ContestantFailed(f"{len(failures)} errors of the server spoil the figures; the last: {failures[-1]}")
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


def _said(used: Used) -> dict[str, int]:
    try:
        said: dict[str, int] = json.loads(used.output.splitlines()[-1])
    except (IndexError, ValueError):
        raise ContestantFailed(f"it did not say how many pages it got: {used.output[-500:]!r}") from None
    return said


def _summary(used: Used) -> int:
    summary = json.loads(used.output.splitlines()[-1])
    if summary["stopped_by"] != "done" or summary["queued"]:
        raise ContestantFailed(f"the crawl ended by {summary['stopped_by']} with {summary['queued']} URLs waiting")
    pages: int = summary["pages"]
    return pages


def certificate(directory: Path, addresses: list[str]) -> tuple[Path, Path, Path]:
    """An authority of our own, and a certificate of it for all hosts: authority, certificate, key."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Benchmark CA", "-days", "2")
    openssl("req", *key, "-keyout", "host.key", "-out", "host.csr", "-subj", "/CN=benchmark")
    (directory / "names").write_text("subjectAltName=" + ",".join(f"IP:{one}" for one in addresses) + "\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "host.csr", "-out", "host.pem", *signing)
    return directory / "ca.pem", directory / "host.pem", directory / "host.key"
