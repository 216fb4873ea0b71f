"""`python -m benchmarks.crawl`: run the chosen crawlers on one site, save the figures, and write them into the docs."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import machine, report
from benchmarks.crawl import nginx, polite, race, slow
from benchmarks.crawl.race import Contestant, Course
from benchmarks.crawl.report import SECTIONS
from benchmarks.crawl.settings import HOSTS, Settings
from benchmarks.crawl.site import Site, address
from benchmarks.crawl.tree import ContestantFailed
from benchmarks.progress import say
from benchmarks.results import Figure, Results

PACKAGES = (
    "swath", "pycurl", "selectolax", "ada-url", "isal", "uvloop", "psycopg", "scrapy", "crawlee",
)  # fmt: skip
COMMAND = "make bench-crawl"
WORKERS = (500, 5_000)
OWN_SERVER = {"slow", "polite"}  # these need no nginx
IN_ROUNDS = ("bare-warc", "swath", "swath-2", "swath-postgres")  # those with goals are measured several times


def main() -> int:
    settings = Settings.from_environment()
    if sys.argv[1:] == ["report"]:
        report.write(settings.results, settings.docs, SECTIONS, COMMAND)
        return 0
    if sys.argv[1:]:
        print(f"{__doc__}\n`python -m benchmarks.crawl report` writes the docs from saved results.", file=sys.stderr)
        return 2
    about = {
        **machine.describe(trial=settings.trial, packages=PACKAGES, module="benchmarks.crawl"),
        "settings": _describe_site(settings),
    }
    signal.signal(
        signal.SIGTERM, lambda number, frame: sys.exit(128 + number)
    )  # so that `finally` blocks stop the servers
    directory = Path(tempfile.mkdtemp(prefix="swath-bench-crawl-"))
    code = 1
    try:
        code = Run(settings, about, directory).all()
    except KeyboardInterrupt:
        say("interrupted: the figures so far are saved")
        code = 130
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report.write(settings.results, settings.docs, SECTIONS, COMMAND)
    report.show(settings.results, SECTIONS)
    say(f"figures are in {settings.results}, tables in {settings.docs}")
    return code


class Run:
    """One run of the benchmark."""

    def __init__(self, settings: Settings, about: Mapping[str, object], directory: Path) -> None:
        self._settings = settings
        self._about = about
        self._directory = directory
        self._failed = 0

    def all(self) -> int:
        parts = set(self._settings.parts)
        if parts - {"tls"} - OWN_SERVER:
            with self._serve(self._settings.pages) as (course, _):
                self._race(course)
                if "handlers" in parts:
                    self._handlers(course)
                if "profile" in parts:
                    results = self._results("crawl-profile")
                    self._measure("profile", results, lambda: race.profile(course))
        if "tls" in parts:
            self._tls()
        if "slow" in parts:
            results = self._results("crawl-slow")
            for workers in WORKERS:
                self._measure(f"slow hosts, {workers:,} workers", results, lambda: self._slow(workers))  # noqa: B023
        if "polite" in parts:
            self._measure("polite", self._results("crawl-polite"), self._polite)
        return 1 if self._failed else 0

    def _race(self, course: Course) -> None:
        contestants: Mapping[str, Contestant] = {
            "bare": race.bare,
            "bare-warc": lambda course: race.bare(course, warc=True),
            "swath": race.swath,
            "swath-2": lambda course: race.swath(course, processes=2),
            "swath-postgres": lambda course: race.swath_postgres(course, settings=dict(self._settings.postgres)),
            "scrapy": race.scrapy,
            "scrapy-jobdir": lambda course: race.scrapy(course, jobdir=True),
            "crawlee": race.crawlee,
        }
        chosen = [name for name in contestants if name in self._settings.parts]
        if not chosen:
            return
        results = self._results("crawl-race")
        for turn in range(self._settings.rounds):
            for name in chosen:
                if turn == 0 or name in IN_ROUNDS:
                    self._measure(name, results, lambda: contestants[name](course))  # noqa: B023

    def _handlers(self, course: Course) -> None:
        """Compare handlers with a crawl without one in each round, and Scrapy once."""
        results = self._results("crawl-handlers")
        for turn in range(self._settings.rounds):
            for name in race.FIELDS:
                self._measure(name, results, lambda: race.swath_fields(course, name))  # noqa: B023
            if turn == 0:
                self._measure("Scrapy, six fields", results, lambda: race.scrapy_fields(course))

    def _tls(self) -> None:
        results = self._results("crawl-tls")
        for name, keep_alive, secure in (
            ("HTTP, connections kept", True, False),
            ("HTTP, a new connection for every page", False, False),
            ("HTTPS, connections kept", True, True),
            ("HTTPS, a new connection for every page", False, True),
        ):
            with self._serve(self._settings.tls_pages, secure=secure, keep_alive=keep_alive) as (course, authority):
                self._measure(
                    name, results, lambda: race.over_tls(course, authority=authority, name=name)  # noqa: B023
                )  # fmt: skip

    def _slow(self, workers: int) -> Figure:
        return slow.measure(
            self._directory, workers=workers, seconds=self._settings.slow_seconds, environment=race.environment()
        )

    def _polite(self) -> Figure:
        settings = self._settings
        return polite.measure(
            self._directory,
            hosts=settings.polite_hosts,
            delay=settings.polite_delay,
            seconds=settings.polite_seconds,
            environment=race.environment(),
        )

    @contextmanager
    def _serve(self, pages: int, *, secure: bool = False, keep_alive: bool = True) -> Iterator[tuple[Course, Path]]:
        """Serve a new site with nginx; yield the course and the certificate authority of the site."""
        home = Path(tempfile.mkdtemp(prefix="site-", dir=self._directory))
        site = Site(pages, HOSTS, nginx.free_port(), "https" if secure else "http")
        say(f"writing {pages:,} pages")
        site.write(home / "site")
        addresses = [address(host) for host in range(HOSTS)]
        authority, certificate = home / "ca.pem", None
        if secure:
            authority, *pair = race.make_certificate(home, addresses)
            certificate = (pair[0], pair[1])
        config = nginx.ServerConfig(site.port, keep_alive=keep_alive, certificate=certificate)
        course = Course(site, home / "nginx" / nginx.ERRORS, home / "course")
        course.directory.mkdir()
        course.seeds.write_text("".join(f"{seed}\n" for seed in site.seeds()))
        with nginx.run_server(home / "nginx", root=home / "site", addresses=addresses, servers=[config]):
            yield course, authority
        shutil.rmtree(home, ignore_errors=True)

    def _results(self, part: str) -> Results:
        return Results(self._settings.results / f"{part}.json", {"part": part, **self._about})

    def _measure(self, name: str, results: Results, measure: Callable[[], Figure]) -> None:
        """Measure one crawler and save its figure. If it fails, report that and continue with the others."""
        began = time.monotonic()
        try:
            figure = measure()
        except (ContestantFailed, RuntimeError, OSError, subprocess.SubprocessError) as error:
            say(f"{name} FAILED: {type(error).__name__}: {error}")
            self._failed += 1
            return
        results.add(figure)
        result = (
            f"{figure['pages_per_cpu_s']:,.0f} pages per CPU-second" if "pages_per_cpu_s" in figure else str(figure)
        )
        say(f"{name}: {figure['pages']:,} pages, {result}, {time.monotonic() - began:.0f} s")


def _describe_site(settings: Settings) -> Mapping[str, str]:
    if not set(settings.parts) - OWN_SERVER:
        return {}
    return {"nginx": _nginx_version(), "pages": f"{settings.pages:,}", "hosts": str(HOSTS)}


def _nginx_version() -> str:
    shown = subprocess.run([nginx.find_program(), "-v"], capture_output=True, text=True, check=False)
    return (shown.stderr or shown.stdout).strip().rpartition("/")[2]


if __name__ == "__main__":
    raise SystemExit(main())
