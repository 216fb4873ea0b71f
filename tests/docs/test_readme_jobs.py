"""The commands that the README shows for backfills and scans, run as they stand there."""

import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.s3 import s3_bucket

README = (Path(__file__).parents[2] / "README.md").read_text()
ROWS = 300


def run_shown(beginning: str, folder: Path, *, changed: dict[str, str] | None = None) -> str:
    """Run the one command that begins so, with some of its words changed."""
    (line,) = re.findall(rf"^\$ ({re.escape(beginning)}.*?)(?: +# .*)?$", README, re.MULTILINE)
    words = [(changed or {}).get(word, word) for word in shlex.split(line)]
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def bucket() -> Iterator[Any]:
    with s3_bucket() as filesystem:
        yield filesystem


def test_the_backfill(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE users (id bigint PRIMARY KEY, email text, email_lower text)")
        connection.execute("INSERT INTO users SELECT n, 'User' || n FROM generate_series(1, %s) AS n", (ROWS,))
        run_shown("swath backfill ", tmp_path, changed={"postgresql:///app": database})
        row = connection.execute("SELECT count(*) FROM users WHERE email_lower = lower(email)").fetchone()
    assert row == (ROWS,)


def test_the_scan_of_a_table(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT)")
        connection.executemany("INSERT INTO users VALUES (?, ?)", [(n, f"{n}@example.com") for n in range(ROWS)])
    connection.close()
    (tmp_path / "checks.py").write_text(
        "def email(record):\n    if '@' not in record['email']:\n        return 'no-at', 'is no address'\n"
    )
    assert re.search(rf"records\s+{ROWS}\b", run_shown("swath scan --source sqlite:", tmp_path))


def test_the_comparison_of_two_trees(bucket: Any, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(20):
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(b"%d" % number)
        bucket.pipe(f"bucket/photos/{number}.jpg", b"%d" % number)
    assert re.search(r"records\s+20\b", run_shown("swath scan --source photos/", tmp_path))
