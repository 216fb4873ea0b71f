"""`swath crawl --out DIR` continues with the saved settings, store and seeds."""

import json
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from swath.cli import crawl_view as view
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import FILE
from tests.cli.conftest import COMMAND, TIMEOUT, Result, environment, look, run_swath, sqlite_only, where

LINKS = {"/": ["/1", "/moved"], "/1": ["/2"]}
REDIRECTS = {"/moved": "/moved-1"}


class Site(BaseHTTPRequestHandler):
    agents: set[str | None]

    def do_GET(self) -> None:
        self.agents.add(self.headers["user-agent"])
        links = "".join(f"<a href={link}>x</a>" for link in LINKS.get(self.path, []))
        body = f"<!doctype html><p>{self.path}{links}".encode()
        self.send_response(404 if self.path == "/robots.txt" else 301 if self.path in REDIRECTS else 200)
        if self.path in REDIRECTS:
            self.send_header("location", REDIRECTS[self.path])
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def site() -> Iterator[str]:
    Site.agents = set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def crawl(out: Path, *args: str) -> Result:
    return run_swath("crawl", *args, "--out", str(out))


def saved(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / FILE).read_text()))


def add_query(url: str, text: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{text}"


def test_a_crawl_resumes_without_options(site: str, url: str, tmp_path: Path) -> None:
    store = url if url.startswith("sqlite") else add_query(url, "password=secret&schema=news")
    first = crawl(tmp_path, site, "--store", store, "--allow-private", "--delay", "10ms", "--max-pages", "1")
    assert first.code == 1, first.err
    before = saved(tmp_path)
    assert (before["delay"], before["allow_private"]) == (0.01, True)
    assert "secret" not in (tmp_path / FILE).read_text()
    second = crawl(tmp_path)
    assert second.code == 0, second.err
    assert "note:" not in second.err
    assert "every 10 ms" in second.err
    assert saved(tmp_path) == before
    assert look(store).done == 5
    assert {page["url"].removeprefix(site) for page in run_swath("export", "--out", str(tmp_path)).json_lines()} == {
        "", "1", "2", "moved", "moved-1", "robots.txt",
    }  # fmt: skip


@sqlite_only
def test_the_index_of_the_archive_exists_only_while_it_is_complete(site: str, url: str, tmp_path: Path) -> None:
    index, common = tmp_path / "index.cdxj", ("--allow-private", "--delay", "0s")
    assert crawl(tmp_path, f"{site}2", *common).code == 0
    assert index.read_text().count("\n") == 2  # with robots.txt
    assert crawl(tmp_path, site, "--max-pages", "2").code == 1
    assert not index.exists()
    assert run_swath("show", f"{site}2", "--headers", "--out", str(tmp_path)).out.startswith("HTTP/1.0 200")
    assert crawl(tmp_path).code == 0
    assert index.read_text().count("\n") == 6


@sqlite_only
def test_a_given_option_replaces_the_saved_one_and_the_difference_is_said(site: str, url: str, tmp_path: Path) -> None:
    crawl(tmp_path, site, "--allow-private", "--delay", "10ms", "--exclude", "/1$", "--exclude", "/moved")
    changed = crawl(tmp_path, "--delay", "20ms", "--no-allow-private", "--reset", "exclude")
    assert "note: --delay was 0.01 before and is now 0.02" in changed.err
    assert "note: --allow-private was true before and is now false (the default)" in changed.err
    assert 'note: --exclude was ["/1$", "/moved"] before and is now not set' in changed.err
    assert (saved(tmp_path)["delay"], saved(tmp_path)["exclude"]) == (0.02, [])


def test_a_store_without_its_password_says_how_to_give_it(tmp_path: Path) -> None:
    store = "postgresql://me@db.invalid/news"
    (tmp_path / FILE).write_text(json.dumps({"store": store, "store_without_password": True}))
    refused = crawl(tmp_path)
    assert refused.code == 3
    assert f"{tmp_path}/crawl.json has the store without its password: set PGPASSWORD, or give --store" in refused.err
    given = crawl(tmp_path, "--store", "postgresql://you:pw@db.invalid/news")
    assert (given.code, "PGPASSWORD" in given.err) == (3, False)


@sqlite_only
def test_a_user_agent_string_is_sent_as_it_is(site: str, url: str, tmp_path: Path) -> None:
    done = crawl(tmp_path, site, "--allow-private", "--delay", "0s", "--user-agent-string", "Mozilla/5.0 (X11)")
    assert done.code == 0
    assert Site.agents == {"Mozilla/5.0 (X11)"}
    assert "has neither swath, the name in robots.txt rules, nor a contact" in done.err


def test_the_depth_of_a_page_decides_its_priority(site: str, url: str, tmp_path: Path) -> None:
    common = ("--store", url, "--allow-private", "--delay", "0s")
    assert crawl(tmp_path, site, *common, "--priority-by", "depth", "--max-pages", "1").code == 1
    assert crawl(tmp_path).code == 0
    levels = {path: where(url, f"{site}{path}").data["priority"] for path in ("", "1", "2", "moved", "moved-1")}
    assert levels == {"": 7, "1": 6, "2": 5, "moved": 6, "moved-1": 6}


@pytest.mark.parametrize("processes", [1, 2])
@sqlite_only
def test_the_workers_that_really_run_are_reported(site: str, url: str, tmp_path: Path, processes: int) -> None:
    """The limit of open files allows fewer workers than --workers asks for."""
    words = shlex.join([*COMMAND, "crawl", site, "--out", str(tmp_path), "--allow-private", "--delay", "0s", "--json"])
    limited = ["bash", "-c", f"ulimit -n 400; exec {words} --workers 5000 --processes {processes}"]
    ran = subprocess.run(limited, env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=True)
    allowed = int(re.findall(r"continuing with (\d+) workers", ran.stderr)[0])
    summary = json.loads(ran.stdout.splitlines()[-1])
    assert 0 < allowed < 200
    assert processes * allowed * 0.9 <= summary["workers"] <= processes * allowed * 1.1  # their open files differ
    drawn = Console(width=100, file=StringIO(), record=True)
    drawn.print(view.build_panel(CrawlSettings(out="x", workers=5000), summary, None))
    assert f"of {summary['workers']:,}" in drawn.export_text()
