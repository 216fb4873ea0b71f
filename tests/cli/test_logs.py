"""`--log-file`: real commands that write a log, alone and with several processes."""

import json
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from swath.logs.lines import MAX_LINE_BYTES
from tests.cli.conftest import run_swath
from tests.cli.running import running
from tests.cli.test_crawl_end import CLOSED, serving

SECRET = "hunter2secret"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().splitlines(keepends=True)
    assert all(len(line) <= MAX_LINE_BYTES and line.endswith(b"\n") for line in lines)
    return [json.loads(line) for line in lines]


def list_names(lines: list[dict[str, Any]]) -> Counter[str]:
    return Counter(line["event"] for line in lines)


def test_every_process_of_a_crawl_writes_to_one_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving() as connect_to:
        result = run_swath(
            "crawl", "http://a.test", "http://b.test", "http://c.test", "--out", str(tmp_path / "out"), "--connect-to",
            connect_to, "--allow-private", "--delay", "0s", "--processes", "2", "--log-file", str(log),
            "--log-level", "debug", "--log-format", "json",
        )  # fmt: skip
    assert result.code == 0, result
    lines = read(log)
    names = list_names(lines)
    first, last = lines[0], lines[-1]
    assert (first["event"], first["command"], first["settings"]["processes"]) == ("started", "crawl", 2)
    assert (last["event"], last["stopped_by"], last["summary"]["pages"]) == ("finished", "done", 6)
    assert first["process"] == last["process"]
    assert names["claimed"]
    assert sum(line["done"] for line in lines if line["event"] == "settled") == 6
    fetched = {line["key"]: line for line in lines if line["event"] == "fetched"}
    page = fetched["http://a.test/next"]
    assert (page["lane"], page["status"]) == ("a.test", 200)
    claims = {line["fence"]: line["worker"] for line in lines if line["event"] == "claimed"}
    assert claims[page["fence"]] == page["worker"]
    assert page["worker"].split(":")[1] == f"{page['process']}" != f"{first['process']}"


def test_a_crawl_logs_pages_that_died_and_no_password(tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = run_swath(
        "crawl", "http://a.test", "--out", str(tmp_path / "out"), *CLOSED, "--retries", "0", "--log-file", str(log),
        "--proxy", f"me:{SECRET}@127.0.0.1:1", "--log-level", "debug",
    )  # fmt: skip
    assert result.code == 1
    text = log.read_text()
    assert SECRET not in text
    assert f"{TIME.search(text)}" != "None"
    assert " info    died process=" in text
    assert 'key=http://a.test/ lane=a.test attempt=1 reason="' in text
    assert text.splitlines()[-1].split()[1:3] == ["info", "finished"]


def test_a_command_that_fails_logs_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = run_swath("crawl", "--out", str(tmp_path / "out"), "--log-file", str(log), "--log-format", "json")
    assert result.code == 2
    assert [line["event"] for line in read(log)] == ["started", "failed"]
    assert read(log)[1]["error"] == "nothing to crawl: give URLs, or a file of URLs with --seeds; in code, Crawler(URL)"


def test_a_log_file_that_cannot_be_written_is_refused_before_anything_is_created(tmp_path: Path) -> None:
    result = run_swath(
        "crawl", "http://a.test", "--out", str(tmp_path / "out"), "--log-file", str(tmp_path / "no" / "log")
    )
    assert (result.code, result.err) == (
        2,
        f"swath: --log-file {tmp_path}/no/log: No such file or directory\n",
    )
    assert not (tmp_path / "out").exists()


def test_a_backfill_and_a_scan_write_a_log(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "app.db") as connection:
        connection.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO users VALUES (1, 'A'), (2, 'B')")
    database, log = f"sqlite:///{tmp_path}/app.db", tmp_path / "log"
    words = ("--log-file", str(log), "--log-format", "json", "--log-level", "debug")
    result = run_swath("backfill", "--db", database, "--table", "users", "--set", "name = lower(name)", *words)
    assert result.code == 0, result
    names = list_names(read(log))
    assert names.keys() >= {"started", "resumed", "added", "claimed", "settled", "finished"}
    assert read(log)[-1]["summary"]["rows"] == 2
    log.unlink()
    out = tmp_path / "findings.jsonl"
    result = run_swath(
        "scan", "--source", f"{database}#users", "--against", f"{database}#users", "--out", str(out), *words
    )
    assert result.code == 0, result
    assert list_names(read(log)).keys() >= {"started", "resumed", "claimed", "settled", "finished"}
    assert {line["command"] for line in read(log) if line["event"] == "started"} == {"scan"}


def test_an_extraction_writes_a_log(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with serving() as connect_to:
        words = ("--connect-to", connect_to, "--allow-private", "--delay", "0s", "--select", "text=a")
        run_swath("crawl", "http://a.test", "--out", str(out), *words)
    result = run_swath(
        "extract", "--out", str(out), "--select", "text=a", "--log-file", str(log), "--log-format", "json"
    )
    assert result.code == 0, result
    started, finished = read(log)
    assert (started["command"], finished["summary"]["pages"]) == ("extract", 2)
    repair = ("extract", "--out", str(out), "--select", "text=a", "--failed", "--log-file", str(log))
    assert run_swath(*repair).code == 0
    assert log.read_text().splitlines()[-1].split()[1:3] == ["info", "finished"]


@pytest.mark.parametrize("option", ["--log-level", "--log-format"])
def test_a_wrong_value_says_which_ones_there_are(tmp_path: Path, option: str) -> None:
    result = run_swath("scan", "--source", str(tmp_path), "--check", "a:b", option, "loud")
    assert result.code == 2
    assert f"{option} loud: must be one of " in result.err


def test_progress_lines_warnings_and_json_lines_have_a_time(tmp_path: Path) -> None:
    with serving() as connect_to:
        words = ["crawl", "http://a.test", "--connect-to", connect_to, "--allow-private", "--delay", "0s"]
        found = run_swath(*words, "--out", str(tmp_path), "--max-pages", "1", "--json")
        assert all(TIME.fullmatch(json.loads(line)["time"]) for line in found.out.splitlines())
        assert run_swath("pause", store=str(tmp_path)).code == 0
        with running(*words, "--out", str(tmp_path)) as crawl:
            crawl.says(" in flight, ", "the frontier is paused until `swath resume`\n")
            crawl.signal()
            crawl.ends()
        progress = [line for line in crawl.text.splitlines() if "pages, " in line]
        warnings = [line for line in crawl.text.splitlines() if line.endswith("until `swath resume`")]
        assert progress
        assert warnings
        assert all(TIME.match(line) for line in [*progress, *warnings])
