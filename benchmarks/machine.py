"""The machine, versions and settings that belong to every figure."""

import os
import platform
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psycopg

PACKAGES = ("swath", "psycopg", "psycopg-binary", "asyncpg", "SQLAlchemy", "aiosqlite", "uvloop")
PEERS = ("pgqueuer", "procrastinate", "crawlee")
POSTGRES_SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_level", "shared_buffers",
    "max_wal_size", "checkpoint_timeout", "maintenance_work_mem", "autovacuum", "jit",
)  # fmt: skip


def describe(
    *, trial: bool, packages: Sequence[str] = (*PACKAGES, *PEERS), module: str = "benchmarks"
) -> dict[str, object]:
    """Return the machine, the versions, the commit and the command."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "trial": trial,
        "machine": {
            "cpu": _cpu(),
            "cores": os.cpu_count() or 0,
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": f"{_distribution()}, {platform.system()} {platform.release()}",
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "Python": platform.python_version(),
            "SQLite": sqlite3.sqlite_version,
            **{name: found for name in packages if (found := _version(name)) is not None},
        },
        "commit": _commit(),
        "command": _command(module),
    }


def describe_postgres(dsn: str) -> Mapping[str, str]:
    """Read the settings of the server that determine the durability and the cost of a commit."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)", (list(POSTGRES_SETTINGS),)
        ).fetchall()
        (number,) = connection.execute("SHOW server_version").fetchone() or ("",)
    found: dict[str, str] = dict(rows)
    return {"PostgreSQL": number, **{name: found[name] for name in POSTGRES_SETTINGS if name in found}}


def describe_sqlite(synchronous: str) -> Mapping[str, str]:
    return {"SQLite": sqlite3.sqlite_version, "journal_mode": "wal", "synchronous": synchronous}


def _cpu() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str:
    """Return the commit, and whether the working tree has changes."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "none yet"
    return f"{head} with changes" if _git("status", "--porcelain", "--", "src", "benchmarks") else head


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _command(module: str) -> str:
    chosen = [f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items()) if name.startswith("BENCH_")]
    return " ".join([*chosen, f"python -m {module}", *map(shlex.quote, sys.argv[1:])])


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
