"""`swath crawl --fresh` discards a crawl on purpose, on both stores."""

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import swath as library
from swath import Frontier, Item
from swath.crawl import workspace
from swath.crawl.archive.output import CrawlOutput
from tests.cli import discarding
from tests.cli.conftest import COMMAND, TIMEOUT, Result, environment, look, on, run_swath, sqlite_only

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"  # a live line hides the cursor
COMMON = ("--allow-private", "--delay", "0s", "--no-robots")


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"<!doctype html><title>{self.path}</title>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/out/frontier.db" if request.param == "sqlite" else request.getfixturevalue("database")


@pytest.fixture
def old(site: str, store: str, tmp_path: Path) -> Path:
    """The directory of a complete crawl."""
    out = tmp_path / "out"
    done = run_swath("crawl", f"{site}old", *COMMON, "--depth", "3", "--store", store, "--out", str(out))
    assert done.code == 0, done.err
    (out / "notes.txt").write_text("mine")
    return out


def start_over(out: Path, seed: str, *args: str) -> Result:
    return run_swath("crawl", seed, "--fresh", *COMMON, *args, "--out", str(out))


def list_urls(out: Path) -> set[str]:
    return {page["url"] for page in run_swath("export", "--out", str(out)).json_lines()}


def snapshot(out: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in out.iterdir()
        if path.is_file() and not path.name.startswith("frontier.db") and not path.name.endswith(".lock")
    }


def test_fresh_names_what_it_discards_and_starts_over(old: Path, site: str, store: str) -> None:
    fresh = start_over(old, f"{site}new", "--yes")
    assert fresh.code == 0, fresh.err
    assert f"swath: --fresh discards {old}/: 1 WARC file (" in fresh.err
    assert f"), 1 page, 0 queued URLs; frontier {store}" in fresh.err
    assert "note: --depth was 3 before and is now not set" in fresh.err
    assert list_urls(old) == {f"{site}new"}
    assert (old / "seeds.txt").read_text() == f"{site}new\n"
    assert (old / "index.cdxj").read_text().count("\n") == 1
    assert (old / "notes.txt").read_text() == "mine"
    assert len(list(old.glob("*.warc.gz"))) == 1
    assert look(store).done == 1


def test_fresh_is_refused_without_a_terminal_and_without_yes(old: Path, site: str, store: str) -> None:
    before = snapshot(old)
    refused = start_over(old, f"{site}new")
    assert refused.code == 2
    assert f"--fresh discards {old}/: 1 WARC file" in refused.err
    assert "there is no terminal to ask on, so add --yes" in refused.err
    assert snapshot(old) == before
    assert look(store).done == 1


@pytest.mark.parametrize(("answer", "code"), [("\n", 2), ("yes\n", 0), ("\x03", 130)])
@sqlite_only
def test_fresh_asks_on_a_terminal(site: str, url: str, tmp_path: Path, answer: str, code: int) -> None:
    out = tmp_path / "out"
    run_swath("crawl", f"{site}old", *COMMON, "--out", str(out))
    command = [*COMMAND, "crawl", f"{site}new", "--fresh", *COMMON, "--out", str(out)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment()
    )
    os.close(theirs)
    seen = ""
    while "[y/N]" not in seen:
        seen += os.read(ours, 1_000).decode()
    assert seen.rfind(SHOW_CURSOR) >= seen.rfind(HIDE_CURSOR), "a line that changes is drawn over the question"
    os.write(ours, answer.encode())
    threading.Thread(target=drain, args=(ours,), daemon=True).start()
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == code
    assert list_urls(out) == {f"{site}new" if code == 0 else f"{site}old"}


def drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1_000):
            pass
    except OSError:
        pass


def test_fresh_needs_seeds_and_checks_them_first(old: Path, site: str, store: str) -> None:
    before = snapshot(old)
    for seeds, said in {(): "--fresh starts over: give the URLs", ("htp://x",): "'htp://x' is not a URL"}.items():
        refused = run_swath("crawl", *seeds, "--fresh", "--yes", "--out", str(old))
        assert (refused.code, said in refused.err) == (2, True)
    assert snapshot(old) == before
    assert look(store).done == 1


def test_fresh_in_a_new_directory_is_a_normal_start(site: str, store: str, tmp_path: Path) -> None:
    started = start_over(tmp_path / "out", f"{site}new", "--store", store)
    assert (started.code, "discards" in started.err) == (0, False)


def test_fresh_is_refused_while_another_process_works_on_the_frontier(old: Path, site: str, store: str) -> None:
    before = snapshot(old)

    async def work(frontier: Frontier) -> None:
        await frontier.add(Item("x", "lane"))
        claim = await frontier.claim()
        assert claim is not None
        refused = start_over(old, f"{site}new", "--yes")
        assert refused.code == 3, refused.err
        assert "is open in another process" in refused.err or "is in use: worker" in refused.err

    on(store, work)
    assert snapshot(old) == before
    assert look(store).claimed == 1


def test_fresh_is_refused_while_a_crawl_writes_to_the_directory(old: Path, site: str, store: str) -> None:
    running = CrawlOutput(old, unique=workspace.get_output_name(old, 0), warc_size=None, about={})
    refused = start_over(old, f"{site}new", "--yes")
    running.close()
    assert (refused.code, "is locked by process" in refused.err) == (2, True)
    assert list_urls(old) == {f"{site}old"}


@sqlite_only
def test_fresh_discards_no_work_that_is_not_a_crawl(url: str, tmp_path: Path) -> None:
    on(url, lambda frontier: frontier.add(["a"]))
    refused = start_over(tmp_path / "out", "example.com", "--yes", "--store", url)
    assert (refused.code, "holds work that is not a crawl" in refused.err) == (2, True)
    assert look(url).ready == 1


def test_fresh_does_not_take_another_store_for_that_of_the_directory(old: Path, site: str, tmp_path: Path) -> None:
    before = snapshot(old)
    refused = start_over(old, f"{site}new", "--yes", "--store", f"sqlite:///{tmp_path}/other.db")
    assert (refused.code, "leave out --store and SWATH_STORE" in refused.err) == (2, True)
    assert snapshot(old) == before


@sqlite_only
def test_files_of_another_crawl_are_not_removed(site: str, url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_swath("crawl", f"{site}old", *COMMON, "--out", str(out))
    other = out / "swath-20260101000000000-00000-elsewhere-1234_0.warc.gz"
    other.write_bytes(b"x")
    refused = start_over(out, f"{site}new", "--yes")
    assert (refused.code, f"{other} belongs to another crawl" in refused.err) == (2, True)
    other.unlink()
    assert list_urls(out) == {f"{site}old"}


@pytest.mark.parametrize("step", [0, 3, 9])
def test_after_a_kill_fresh_works_and_a_normal_start_says_so(old: Path, site: str, store: str, step: int) -> None:
    arguments = ["crawl", f"{site}new", "--fresh", "--yes", *COMMON, "--out", str(old)]
    command = [sys.executable, discarding.__file__, str(step), *arguments]
    path = os.pathsep.join(filter(None, sys.path))
    killed = subprocess.run(command, env=environment(PYTHONPATH=path), capture_output=True, check=False)
    assert killed.returncode == -9, killed.stderr
    normal = run_swath("crawl", f"{site}new", *COMMON, "--out", str(old))
    assert normal.code == 2
    assert f"--fresh was interrupted while it discarded {old}: run the command with --fresh" in normal.err
    assert start_over(old, f"{site}new", "--yes", "--store", store).code == 0
    assert list_urls(old) == {f"{site}new"}
    assert run_swath("crawl", "--out", str(old)).code == 0
    assert library.mask_password(store) in look_up_store(old, store)


def look_up_store(out: Path, store: str) -> str:
    text = (out / "crawl.json").read_text()
    return store if store.startswith("sqlite") else text
