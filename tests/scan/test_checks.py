"""Whatever a check does, the scan knows what to make of it."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from swath import UsageError
from swath.cli import run_view, scan_command
from swath.cli.scan_command import ScanCommand
from swath.import_path import import_function
from swath.scan import Finding, handler
from swath.scan.checker import BadCheck
from tests.scan import checks
from tests.scan.driving import ROOT, scan, settings_of


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "records.jsonl"
    path.write_text("".join(f'{{"n": {number}}}\n' for number in range(10)))
    return path


def test_a_check_may_be_async(numbers: Path, tmp_path: Path) -> None:
    assert scan(numbers, tmp_path / "out.jsonl", check="odd_async").codes == {"odd": 5}


def test_a_check_may_be_a_generator_that_breaks_off(numbers: Path, tmp_path: Path) -> None:
    found = scan(numbers, tmp_path / "out.jsonl", check="generating")
    assert found.codes == {"first": 9, "second": 9, "check-failed": 1}


def test_a_check_that_raises_is_a_finding_of_that_record(numbers: Path, tmp_path: Path) -> None:
    found = scan(numbers, tmp_path / "out.jsonl", check="raising")
    (finding,) = found.findings
    assert finding["code"] == "check-failed"
    assert finding["key"] == "27"
    assert finding["message"] == "ValueError: three is too much"
    assert "checks.py:" in finding["data"]["at"]
    assert found.proof.complete


@pytest.mark.parametrize("check", ["hanging", "hanging_async"])
def test_a_check_that_hangs_is_a_finding_of_that_record(numbers: Path, tmp_path: Path, check: str) -> None:
    found = scan(numbers, tmp_path / "out.jsonl", check=check, timeout=1.0, workers=1)
    assert found.codes["check-hung"] == (2 if check == "hanging" else 1)
    assert found.codes.get("odd", 0) == (3 if check == "hanging" else 0)
    assert found.proof.complete
    assert found.proof.counts.records == 10


def test_an_async_check_that_hangs_is_cancelled(numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would wait until the scan ends."""
    events: list[str] = []
    monkeypatch.setattr(checks, "EVENTS", events)
    scan(numbers, tmp_path / "out.jsonl", check="hanging_async", timeout=0.2, workers=1)
    assert events.count("cancelled") == 1
    assert "checks 9" in events[events.index("cancelled") :], "the others are checked after it was cancelled"


def test_a_check_that_hangs_too_often_stops_the_scan(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler, "MAX_HUNG", 2)
    with pytest.raises(BadCheck, match=r"did not return within 0\.1 s for 2 records"):
        scan(numbers, tmp_path / "out.jsonl", check="hanging", timeout=0.1)


def test_nonsense_stops_the_scan_before_it_is_written_a_million_times(numbers: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(BadCheck, match=r"check returned True for the record '27'. Return None, a swath.scan.Finding"):
        scan(numbers, out, check="nonsense")
    assert out.read_bytes() == b""
    with pytest.raises(BadCheck, match="code 17 of a finding"):
        scan(numbers, tmp_path / "other.jsonl", check="bad_code")


def test_data_that_is_not_json_is_written_as_it_prints(numbers: Path, tmp_path: Path) -> None:
    found = scan(numbers, tmp_path / "out.jsonl", check="strange_data")
    first = {finding["code"]: finding for finding in found.findings[:3]}
    assert first["loop"]["data"] == "[[...]]"
    assert first["nan"]["data"] == "nan"
    assert (first["path"]["data"], first["path"]["message"]) == ("a", "\udcff")


def test_a_check_that_leaves_ends_the_run(numbers: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        scan(numbers, tmp_path / "out.jsonl", check="leaving")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("checks", "write module:function"),
        ("nowhere_at_all:check", "no module named 'nowhere_at_all'"),
        ("tests.scan.checks:od", "has no attribute 'od'; did you mean odd?"),
        ("tests.scan.checks:not_a_function", "is of type int and cannot be called"),
        ("broken:check", "broken cannot be imported: ZeroDivisionError: division by zero (HERE/broken.py:2)"),
        ("wanting:check", "wanting cannot be imported: No module named 'nowhere_at_all' (HERE/wanting.py:1)"),
        (
            "deep:check",
            "Expecting value: line 1 column 1 (char 0) (HERE/deep.py:2)",
        ),
        ("unfinished:check", "unfinished cannot be imported: SyntaxError: invalid syntax (HERE/unfinished.py:3)"),
        ("whole.py:check", "among the installed packages; write whole, without .py"),
    ],
)
def test_a_check_that_cannot_be_found_is_said_so(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("import json\n1 / 0\n")
    (tmp_path / "whole.py").touch()
    (tmp_path / "deep.py").write_text("import json\njson.loads('?')\n")
    (tmp_path / "unfinished.py").write_text("def check(record):\n    pass\ndef (\n")
    (tmp_path / "wanting.py").write_text("import nowhere_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UsageError) as raised:
        import_function(name, flag="--check")
    assert f"--check {name}" in str(raised.value).replace("'", "", 2)
    assert said.replace("HERE", str(tmp_path)) in str(raised.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nowhere", "nowhere does not exist"),
        ("nowhere.jsonl", "cannot be read: No such file"),
        ("nowhere.parquet", "cannot be read: No such file"),
        ("s4://bucket/prefix", "s4"),
        ("plain.txt", "is a file of an unknown format. Known formats: .jsonl, "),
        ("false.parquet", "false.parquet is not a Parquet file"),
        ("", "--source is empty"),
    ],
)
def test_a_source_that_cannot_be_scanned_is_said_so(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "false.parquet").write_text("text, and no more than that")
    settings = settings_of(source, tmp_path / "out.jsonl", check="nothing")
    with pytest.raises(UsageError) as raised:
        asyncio.run(ScanCommand(settings, json=False, quiet=True).run())
    assert said in str(raised.value)
    assert not (tmp_path / "out.jsonl").exists()
    assert not settings.store_path.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing to check"),
        ({"check": "odd", "against": "x"}, "ive only one of them"),
        ({"check": "odd", "columns": ("a",)}, "--columns needs --against"),
        ({"check": "odd", "workers": 0}, "--workers 0"),
        ({"check": "odd", "timeout": 0.0}, "--timeout 0"),
        ({"check": "odd", "lease": 0.5}, "--lease 0.5 s is too short"),
        ({"check": "odd", "fresh": True, "recheck": True}, "ive only one of them"),
        ({"check": "odd", "fresh": True, "store": "sqlite:///x.db"}, "--fresh removes only the default store"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        settings_of("source", tmp_path / "out.jsonl", **given)
    with pytest.raises(UsageError, match=r"must end in \.jsonl or \.parquet"):
        settings_of("source", tmp_path / "out.csv", check="odd")


def test_a_finding_needs_a_code_and_a_text() -> None:
    for code in ("", "a\nb", "x" * 101):
        with pytest.raises(UsageError, match="of a finding"):
            Finding(code)
    with pytest.raises(UsageError, match="is a int, not a str"):
        Finding("code", 3)  # type: ignore[arg-type]


def test_the_command_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "swath", "scan", "--source", str(tmp_path / "nowhere"), "--check", "x:y"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("swath: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["text", "json"])
def test_a_scan_prints_its_progress_until_it_ends(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    printed: list[Any] = []

    def record(line: Any, fields: Any = None, **more: Any) -> None:
        printed.append(line if fields is None else {"event": line, **fields})
        if len(printed) > 1 and (
            "open: none" in line or "share" in (fields or ())
        ):  # the store was asked how far it is
            checks.FOREVER.set()  # the check goes on

    monkeypatch.setattr(checks, "FOREVER", threading.Event())
    monkeypatch.setattr(scan_command, "REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(run_view, "LINE_SECONDS", 0.0)
    for name in ("print_line", "print_progress") if how == "text" else ("print_event",):
        monkeypatch.setattr(scan_command, name, record)
    settings = settings_of(numbers, tmp_path / "out.jsonl", check="hanging", timeout=60.0)
    assert asyncio.run(ScanCommand(settings, json=how == "json", quiet=False).run()) == 1
    if how == "text":
        assert printed[0].startswith("the scan of ")
        assert any(", 1 slice waiting, open: none" in line for line in printed)
    else:
        events = [line["event"] for line in printed]
        assert events[:2] == ["progress", "progress"]
        assert events[-1] == "summary"
        assert printed[0]["states"] == []
