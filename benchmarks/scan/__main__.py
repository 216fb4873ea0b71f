"""`python -m benchmarks.scan`: scans beside plain loops over the same sources, saved, and written into the docs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, report
from benchmarks import settings as base
from benchmarks.progress import say
from benchmarks.results import Figure, Results
from benchmarks.scan import sources
from benchmarks.scan.report import SECTIONS
from tests.postgres_server import PostgresServer

PARTS = ("sqlite", "postgres", "lines", "parquet", "files")
PACKAGES = ("swath", "psycopg", "pyarrow", "fsspec")
FULL_ROWS, FULL_FILES = 1_000_000, 100_000
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Settings:
    rows: int
    files: int
    rounds: int
    parts: tuple[str, ...]
    postgres: tuple[tuple[str, str], ...]
    results: Path
    docs: Path

    @property
    def trial(self) -> bool:
        """Whether the run is too small to say how fast anything is."""
        return self.rows < FULL_ROWS or self.files < FULL_FILES

    @classmethod
    def from_environment(cls, given: Mapping[str, str] = os.environ) -> "Settings":
        return cls(
            rows=base.parse_number("BENCH_ROWS", given.get("BENCH_ROWS", str(FULL_ROWS)), least=1_000),
            files=base.parse_number("BENCH_FILES", given.get("BENCH_FILES", str(FULL_FILES)), least=1_000),
            rounds=base.parse_number("BENCH_ROUNDS", given.get("BENCH_ROUNDS", "3"), least=1),
            parts=base.select("BENCH_ONLY", given.get("BENCH_ONLY", ""), PARTS),
            postgres=base.parse_pairs("BENCH_POSTGRES", given.get("BENCH_POSTGRES", base.POSTGRES)),
            results=Path(given.get("BENCH_RESULTS", HERE.parent / "results")),
            docs=Path(given.get("BENCH_DOCS", HERE.parent.parent / "docs" / "benchmarks.md")),
        )


def main() -> int:
    settings = Settings.from_environment()
    if sys.argv[1:] == ["report"]:
        report.write(settings.results, settings.docs, SECTIONS, "make bench-scan")
        return 0
    about = machine.describe(trial=settings.trial, packages=PACKAGES, module="benchmarks.scan")
    results = Results(
        settings.results / "scan.json",
        {"part": "scan", **about, "settings": {"rows": f"{settings.rows:,}", "files": f"{settings.files:,}"}},
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swath-bench-scan-")))
        for kind in settings.parts:
            say(f"making {kind}")
            source = _source(kind, settings, directory, stack)
            for turn in range(settings.rounds):
                contestants = ("swath", "plain") if turn % 2 else ("plain", "swath")
                for who in contestants:
                    figure = _plain(kind, source) if who == "plain" else _swath(kind, source, directory)
                    results.add({"kind": kind, "who": who, **figure})
                    say(f"{kind}, {who}: {figure['records'] / figure['seconds']:,.0f} a second")
    report.write(settings.results, settings.docs, SECTIONS, "make bench-scan")
    report.show(settings.results, SECTIONS)
    say(f"figures are in {settings.results}, tables in {settings.docs}")
    return 0


def _source(kind: str, settings: Settings, directory: Path, stack: ExitStack) -> str:
    if kind == "postgres":
        server = stack.enter_context(PostgresServer(settings=dict(settings.postgres)))
        return sources.postgres(server.dsn("postgres"), settings.rows)
    if kind == "files":
        return sources.files(directory, settings.files)
    return {"sqlite": sources.sqlite, "lines": sources.findings_path, "parquet": sources.parquet}[kind](
        directory, settings.rows
    )


def _plain(kind: str, source: str) -> Figure:
    return _run_command([sys.executable, "-m", "benchmarks.scan.plain", kind, source], code=0)


def _swath(kind: str, source: str, directory: Path) -> Figure:
    check = "benchmarks.scan.checks:" + ("file" if kind == "files" else "row")
    out = directory / f"{kind}.jsonl"
    words = ["--source", source, "--check", check, "--out", str(out), "--workers", "1", "--fresh", "--json"]
    said = _run_command([sys.executable, "-m", "swath", "scan", *words], code=0)
    return {"records": said["records"], "seconds": said["seconds"]}


def _run_command(command: list[str], *, code: int) -> Figure:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE.parent.parent)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    figure: Figure = json.loads(done.stdout.splitlines()[-1])
    return figure


if __name__ == "__main__":
    raise SystemExit(main())
