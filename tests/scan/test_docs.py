"""What docs/scan.md and the README show of scans is what happens."""

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment
from tests.scan.driving import ROOT, read

PAGE = (ROOT / "docs/scan.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^\$ swath (scan .*?)(?: +# .*)?$", re.MULTILINE)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with what the examples speak of."""
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "checks.py").write_text(program)
    connection = sqlite3.connect(tmp_path / "app.db")
    connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT NOT NULL)")
    emails = [("ann@x.org",), ("Bob@x.org",), ("cyd@x.org",)]
    connection.executemany("INSERT INTO users (email) VALUES (?)", emails)
    connection.commit()
    connection.close()
    return tmp_path


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "swath", *shlex.split(command)]
    env = environment(PYTHONPATH=str(ROOT / "src"))
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_first_examples_find_and_mend(app: Path) -> None:
    find, mend, *_ = COMMAND.findall(PAGE)
    assert find in COMMAND.findall(README)
    found = run(find, app)
    assert found.returncode == 1, found.stderr
    assert "upper-case\t1   2: Bob@x.org is not in lower case" in found.stdout
    mended = run(mend, app)
    assert mended.returncode == 0, mended.stderr
    assert "open\tnone" in mended.stdout
    assert [line["state"] for line in read(app / "findings.jsonl")] == ["open", "fixed"]
    names = {line.split("\t")[0] for line in mended.stdout.splitlines()}
    shown = re.findall(r"^(\w+(?: \w+)?)  +\S", PAGE[PAGE.index("## The report") :], re.MULTILINE)
    assert set(shown) <= names | {"against"}


def test_fields_of_a_finding_are_those_that_are_listed(app: Path) -> None:
    run(COMMAND.findall(PAGE)[0], app)
    (line,) = (app / "findings.jsonl").read_text().splitlines()
    section = PAGE[PAGE.index("## Findings") : PAGE.index("## Recheck")]
    listed = {
        name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert set(json.loads(line)) == listed
