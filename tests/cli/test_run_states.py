"""What a crawl, a backfill and a scan say while nothing happens: real commands on real stores that are in the way."""

import asyncio
import json
import logging
import multiprocessing
import os
import re
import resource
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import psycopg
import pytest
from rich.console import Console, RenderableType

import swath as library
from swath import Frontier, RunState
from swath.backfill.stats import BackfillStats
from swath.cli import backfill_view, crawl_view, run_view, scan_view
from swath.crawl import fleet
from swath.crawl.fleet import merge_states, sum_errors
from swath.crawl.settings import CrawlSettings
from tests.cli.conftest import TIMEOUT, look, on
from tests.cli.running import Running, running
from tests.cli.test_crawl import status
from tests.cli.test_terminal import Terminal
from tests.conftest import StartPostgres
from tests.crawl.driving import prepare

STOPPING = "swath: stopping: 1 page in flight, at most 10 s; Ctrl-C again leaves now\n"


class Site(NamedTuple):
    """A host with one page, which is not answered before `answer` is set."""

    url: str
    asked: threading.Semaphore
    answer: threading.Event


@pytest.fixture
def site() -> Iterator[Site]:
    asked, answer = threading.Semaphore(0), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.release()
            answer.wait(TIMEOUT)
            body = b"<!doctype html><title>here</title>"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(f"http://127.0.0.1:{server.server_port}/", asked, answer)
        answer.set()
        server.shutdown()


def crawl_words(site: Site, out: Path, store: str, *more: str) -> tuple[str, ...]:
    given = ("--out", str(out), "--store", store, "--allow-private", "--no-robots", "--delay", "0s")
    return ("crawl", site.url, *given, *more)


def prepare_crawl(site: Site, out: Path, store: str) -> None:
    """Queue the page without fetching it."""
    settings = CrawlSettings(out=str(out), store=store, allow_private=True, robots=False, delay=0.0)
    asyncio.run(prepare(settings, [site.url]))


# states


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_crawl_of_a_paused_frontier_says_how_to_resume_it(
    site: Site, tmp_path: Path, url: str, processes: str
) -> None:
    prepare_crawl(site, tmp_path / "crawl", url)
    on(url, lambda frontier: frontier.pause(), create=False)
    site.answer.set()
    with running(*crawl_words(site, tmp_path / "crawl", url, "--processes", processes)) as crawl:
        logged = "Z paused: the frontier is paused until `swath resume`\n"
        said = crawl.says(", paused: the frontier is paused until `swath resume --store ", logged)
        assert "0 pages" in said
        on(url, lambda frontier: frontier.resume(), create=False)
        assert crawl.ends() == 0
    assert "Z no longer paused, after " in crawl.text


def test_a_crawl_that_is_paused_while_it_runs_says_so_in_json(site: Site, tmp_path: Path, url: str) -> None:
    with running(*crawl_words(site, tmp_path / "crawl", url, "--json")) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        on(url, lambda frontier: frontier.pause(), create=False)
        crawl.says('"name": "paused"')
        on(url, lambda frontier: frontier.resume(), create=False)
        site.answer.set()
        assert crawl.ends() == 0
    progress = [json.loads(line) for line in crawl.text.splitlines() if line.startswith("{")]
    (state,) = next(line["states"] for line in progress if line["states"])
    assert (state["name"], state["detail"]) == ("paused", "the frontier is paused until `swath resume`")
    assert progress[-1]["states"] == []


def test_a_crawl_waits_for_the_pages_of_a_killed_process_by_name(site: Site, tmp_path: Path, url: str) -> None:
    words = crawl_words(site, tmp_path / "crawl", url, "--lease", "12")
    with running(*words) as killed:
        assert site.asked.acquire(timeout=TIMEOUT)
        pid = killed.process.pid
        killed.signal(signal.SIGKILL)
    site.answer.set()
    with running(*words) as crawl:
        said = crawl.says("leased: 1 page of a process that ended (", " s)")
        assert re.search(rf":{pid}:[0-9a-f]{{6}}\), until \d\d:\d\d:\d\d UTC \(at most \d+ s\)", said)
        assert crawl.ends() == 0
    assert "no longer leased, after " in crawl.text


def test_a_crawl_says_how_long_a_stopped_server_is_away(
    site: Site, tmp_path: Path, start_postgres: StartPostgres
) -> None:
    server = start_postgres()
    with running(*crawl_words(site, tmp_path / "crawl", server.dsn())) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        server.stop("immediate")
        site.answer.set()
        crawl.says("waiting for the store: ", ", store away: ")
        crawl.text = ""
        crawl.says(" (for ", " s)\n")  # in a later progress line
        server.start()
        assert crawl.ends() == 0
    assert "the store answers again after " in crawl.text


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process has an exclusive transaction on a SQLite file."""
    program = (
        "import sqlite3, sys\n"
        "sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30).execute('BEGIN EXCLUSIVE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.communicate()


def test_a_crawl_names_the_store_if_another_process_locks_its_file(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "work.db"
    with running(*crawl_words(site, tmp_path / "crawl", f"sqlite:///{file}")) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        with locked(file):
            site.answer.set()
            crawl.says(", store away: the store does not answer")
        assert crawl.ends() == 0


NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER no_room AFTER INSERT ON swath.done FOR EACH STATEMENT EXECUTE FUNCTION no_room();
"""


def test_a_crawl_says_that_the_disk_of_its_server_is_full(site: Site, tmp_path: Path, database: str) -> None:
    prepare_crawl(site, tmp_path / "crawl", database)
    site.answer.set()
    with closing(psycopg.connect(database, autocommit=True)) as connection:
        connection.execute(NO_ROOM)
        with running(*crawl_words(site, tmp_path / "crawl", database)) as crawl:
            crawl.says(", disk full: ", "No space left on device")
            connection.execute("DROP TRIGGER no_room ON swath.done")
            assert crawl.ends() == 0


FULL_DISK = """
import asyncio, sys, swath

async def main():
    monitor = swath.RunMonitor()

    async def handler(item):
        if item.key == "1":
            print("started", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        return item.done(result="x" * 50_000)

    async def show():
        while not any(state.name == "disk full" for state in monitor.states):
            await asyncio.sleep(0.01)
        print(*monitor.states, flush=True)

    async with swath.open(sys.argv[1]) as frontier:
        await frontier.add(str(number) for number in range(100))
        showing = asyncio.create_task(show())
        await frontier.run(handler, monitor=monitor)
        await showing
        print("then", monitor.states, flush=True)

asyncio.run(main())
"""


def test_a_run_says_that_its_own_disk_is_full(tmp_path: Path) -> None:
    """A limit for the size of files stands for a full disk."""
    store = f"sqlite:///{tmp_path}/work.db"
    with subprocess.Popen(
        [sys.executable, "-c", FULL_DISK, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "started\n"
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        print(file=process.stdin, flush=True)
        said = process.stdout.readline()
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        out, _ = process.communicate(timeout=TIMEOUT)
    assert said.startswith("disk full: ")
    assert out == "then ()\n"


# errors of handlers


@pytest.fixture
def table(database: str) -> str:
    with closing(psycopg.connect(database, autocommit=True)) as connection:
        connection.execute("CREATE TABLE users (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)")
        connection.execute("INSERT INTO users SELECT g FROM generate_series(1, 500) AS g")
    return database


@pytest.fixture
def sqlite_table(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        connection.execute("CREATE TABLE users (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
        connection.executemany("INSERT INTO users (id) VALUES (?)", [(number,) for number in range(500)])
    return f"sqlite:///{tmp_path}/app.db"


BUG = r"NameError: name 'foo' is not defined \(mine.py:2\)"


def write_bug(folder: Path) -> None:
    (folder / "mine.py").write_text("def work(rows, connection=None):\n    return foo\n")


@pytest.mark.parametrize("kind", ["table", "sqlite_table"])
def test_a_backfill_whose_handler_fails_says_why_at_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    write_bug(tmp_path)
    words = ("backfill", "--db", request.getfixturevalue(kind), "--table", "users", "--run", "mine:work")
    with running(*words, "--batch", "100", cwd=tmp_path) as backfill:
        said = backfill.says("errors: NameError: name 'foo' is not defined (mine.py:2)", "slice ")
        assert said.count("Traceback (most recent call last)") == 1
        assert re.search(r"the handler failed for 'slice \d: \w+ to ", said)
        assert "0 processed" in said
        backfill.signal()
        assert backfill.ends() == 130
    assert re.search(rf"\nerrors\t{BUG}, \d+ times, last at slice", backfill.text)


def test_a_backfill_on_a_terminal_shows_its_errors_and_its_stop(tmp_path: Path, sqlite_table: str) -> None:
    write_bug(tmp_path)
    words = ("backfill", "--db", sqlite_table, "--table", "users", "--run", "mine:work", "--batch", "100")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        terminal = Terminal(*words, store="", width=120)
    finally:
        os.chdir(before)
    terminal.read_until(lambda text: "│ errors" in text)
    assert "NameError: name 'foo' is not defined" in terminal.text
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until(lambda text: "swath: stopping: " in text)
    assert re.search(r"stopping: \d+ slices? in flight, at most 15 s; Ctrl-C again leaves now", terminal.text)
    assert terminal.finish() == 130
    assert terminal.text.count("Traceback (most recent call last)") == 1


def test_a_backfill_says_that_it_is_throttled_in_json(tmp_path: Path, sqlite_table: str) -> None:
    pause = tmp_path / "pause"
    pause.touch()
    words = ("backfill", "--db", sqlite_table, "--table", "users", "--set", "n = 1", "--pause-file", str(pause))
    with running(*words) as backfill:
        backfill.says(f"paused: the pause file {pause} exists")
        backfill.signal()
        assert backfill.ends() == 130
    with running(*words, "--json") as backfill:
        backfill.says('"event": "throttle"')
        backfill.says('"name": "throttled"')
        backfill.signal()
        assert backfill.ends() == 130


def test_a_scan_whose_check_fails_says_why_at_once(tmp_path: Path, sqlite_table: str) -> None:
    (tmp_path / "mine.py").write_text("def check(record):\n    return foo\n")
    words = ("scan", "--source", f"{sqlite_table}#users", "--check", "mine:check", "--out", str(tmp_path / "f.jsonl"))
    with running(*words, cwd=tmp_path) as scan:
        assert scan.ends() == 1
    assert scan.text.count("Traceback (most recent call last)") == 1
    assert "the check failed for '0': NameError: name 'foo' is not defined (mine.py:2)" in scan.text
    assert "the check failed 100 times: " in scan.text
    assert re.search(rf"\nerrors\t{BUG}, 500 times, last at \d+\n", scan.text)
    with running(*words, "--fresh", "--json", cwd=tmp_path) as scan:
        assert scan.ends() == 1
    (error,) = json.loads(scan.text.splitlines()[-1])["handler_errors"]
    assert (error["place"], error["count"]) == ("mine.py:2", 500)


# signals


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGTERM, "1"), (signal.SIGINT, "2")])
def test_a_crawl_answers_a_signal_at_once(site: Site, tmp_path: Path, number: signal.Signals, processes: str) -> None:
    words = crawl_words(site, tmp_path / "crawl", f"sqlite:///{tmp_path}/work.db", "--processes", processes)
    with running(*words) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        if processes == "2":
            crawl.says("1 in flight")  # the parent knows
        crawl.signal(number)
        crawl.says(STOPPING)
        crawl.says(", stopping: 1 page in flight, at most ")
        site.answer.set()
        assert crawl.ends() == 130
    assert crawl.text.count("stopping (") == 0  # the log does not repeat it


def test_a_second_signal_says_when_the_pages_come_back(site: Site, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/work.db"
    with running(*crawl_words(site, tmp_path / "crawl", store, "--lease", "70")) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        crawl.signal()
        crawl.says(STOPPING)
        crawl.signal()
        crawl.says("swath: leaving now: 1 page in flight comes back when its lease ends, after at most 70 s\n")
        assert crawl.ends() == 130
    assert look(store).claimed == 1


def test_a_crawl_that_stops_ends_within_the_time_it_has_named(site: Site, tmp_path: Path) -> None:
    """The page is never answered. Its handler is cancelled after the grace, and its page released."""
    store = f"sqlite:///{tmp_path}/work.db"
    with running(*crawl_words(site, tmp_path / "crawl", store)) as crawl:
        assert site.asked.acquire(timeout=TIMEOUT)
        crawl.signal()
        crawl.says(STOPPING)
        assert crawl.ends() == 130
    assert look(store).ready == 1


def test_a_crawl_on_a_terminal_answers_above_its_panel(site: Site, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/work.db"
    terminal = Terminal(*crawl_words(site, tmp_path / "crawl", store), store=store)
    assert site.asked.acquire(timeout=TIMEOUT)
    terminal.read_until(lambda text: "in flight  1 of" in text)
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until(lambda text: STOPPING in text)
    before = terminal.raw[: terminal.raw.index(STOPPING.rstrip())]
    assert before.endswith("\x1b[2K"), "it was written into the panel"
    terminal.read_until(lambda text: "stopping: 1 page in flight, at most " in text.replace(STOPPING, ""))
    site.answer.set()
    assert terminal.finish() == 130


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"postgresql://127.0.0.1:{listener.getsockname()[1]}/app"


@pytest.mark.parametrize(
    ("command", "number"), [("crawl", signal.SIGINT), ("backfill", signal.SIGTERM), ("scan", signal.SIGINT)]
)
def test_a_signal_ends_a_command_that_has_not_started(
    command: str, number: signal.Signals, silent: str, tmp_path: Path
) -> None:
    words = {
        "crawl": ("http://127.0.0.1:8001/", "--out", str(tmp_path / "crawl"), "--store", silent),
        "backfill": ("--db", silent, "--table", "users", "--set", "n = 1"),
        "scan": ("--source", f"{silent}#users", "--check", "json:dumps", "--out", str(tmp_path / "f.jsonl")),
    }
    with running(command, *words[command]) as started:
        wait_for_connection(started, silent)
        started.signal(number)
        started.says(f"swath: stopping: the {command} has not started; Ctrl-C again leaves now\n")
        assert started.ends() == 130
    assert "Traceback" not in started.text


def wait_for_connection(started: Running, server: str) -> None:
    """Wait until the command is connected to a server that does not answer."""
    port = int(server.rpartition(":")[2].partition("/")[0])
    while f":{port:04X} 01" not in Path(f"/proc/{started.process.pid}/net/tcp").read_text():
        assert started.process.poll() is None, started.text


def test_a_second_signal_ends_a_crawl_that_reads_its_seeds(tmp_path: Path) -> None:
    """Whatever the loop is doing."""
    seeds = tmp_path / "seeds"
    os.mkfifo(seeds)
    with running("crawl", "--seeds", str(seeds), "--out", str(tmp_path / "crawl")) as crawl, seeds.open("w") as writer:
        print("http://127.0.0.1:8001/", file=writer, flush=True)
        crawl.signal()
        crawl.says("swath: stopping: the crawl has not started; Ctrl-C again leaves now\n")
        crawl.signal()
        assert crawl.ends() == 130


def test_adding_keys_answers_a_signal_at_once(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/work.db"
    read, write = os.pipe()
    with running("add", "--store", store, stdin=read) as adding, open(write, "w") as writer:
        os.close(read)
        print("a\nb", file=writer, flush=True)
        wait_until_ready(store, 2)
        adding.signal()
        adding.says("swath: stopping: what was read so far is being added; Ctrl-C again leaves now\n", "2 new of 2")
        assert adding.ends() == 130


def wait_until_ready(store: str, count: int) -> None:
    async def work(frontier: Frontier) -> None:
        while (await frontier.status()).ready < count:
            await frontier._store.wait(0.02)

    on(store, work)


# texts


def test_politeness_is_a_state_with_its_arithmetic() -> None:
    settings = CrawlSettings(out="crawl", scope="any", contact="me@example.com")
    now = status(ready=5_000, lanes=700)
    own = RunState("pacing", "5,000 pages in lanes that are not ready: see `swath lanes`", 4.0)
    (state,) = crawl_view.add_pacing([own], settings, {"in_flight": 2, "workers": 500}, now)
    assert (state.name, state.seconds) == ("pacing", 4.0)
    assert "700 hosts, one page every 70 s each, at most 10.0 pages/s; more workers do not help" in state.detail
    paused = RunState("paused", "", 1.0)
    assert crawl_view.add_pacing([paused], settings, {"in_flight": 2, "workers": 500}, now) == [paused]
    assert crawl_view.add_pacing([own], settings, {"in_flight": 400, "workers": 500}, now) == [own]


def test_states_of_several_processes_are_one_list() -> None:
    away, longer = RunState("store away", "a", 1.0), RunState("store away", "b", 2.0)
    leased, pacing = RunState("leased", "", 1.0), RunState("pacing", "", 1.0)
    assert merge_states([[away], [], [longer]]) == [longer]
    assert merge_states([[leased], []]) == []  # the other process works on these items
    assert merge_states([[leased], [pacing]]) == [leased, pacing]


def test_a_child_process_logs_through_its_parent() -> None:
    """Above the parent's panel."""
    here, there = multiprocessing.Pipe()
    logger = logging.getLogger("swath.runner")

    async def work() -> None:
        forwarder = fleet.LogForwarder(there, asyncio.get_running_loop())
        logger.addHandler(forwarder)
        logger.info("not this")
        logger.warning("waiting for %s", "the store")
        logger.removeHandler(forwarder)
        await asyncio.sleep(0)

    with here, there:
        asyncio.run(work())
        assert here.recv() == ("log", ("swath.runner", logging.WARNING, "waiting for the store"))
        assert not here.poll()


def test_errors_of_several_processes_add_up() -> None:
    error = library.HandlerError("KeyError: 1", "mine.py:2", 3, "a")
    other = library.HandlerError("ValueError", None, 5, "b")
    assert [(str(one), one.count) for one in sum_errors([error, other, error])] == [
        ("KeyError: 1 (mine.py:2)", 6),
        ("ValueError", 5),
    ]


def test_a_progress_line_is_printed_at_once_when_a_state_begins_or_ends() -> None:
    timer = run_view.LineTimer(0.0)
    paused, pacing = RunState("paused", "", 1.0), RunState("pacing", "", 1.0)
    error = library.HandlerError("KeyError: 1", "mine.py:2", 3, "a")
    moments = [
        (1.0, [], []), (2.0, [pacing], []), (3.0, [paused], []), (4.0, [paused], []), (5.0, [paused], [error]),
        (6.0, [], [error]), (7.0, [], [error]), (16.0, [], [error]), (17.0, [], [error]),
    ]  # fmt: skip
    due = [timer.is_due(now, states, errors) for now, states, errors in moments]
    assert due == [False, False, True, False, True, True, False, True, False]


def test_rows_bound_and_mask_what_they_show() -> None:
    errors = [library.HandlerError(f"Error{number}", None, 9 - number, "k") for number in range(5)]
    (row,) = run_view.list_error_rows(errors)
    assert row == (
        "errors",
        "Error0, 9 times, last at k; Error1, 8 times, last at k; Error2, 7 times, last at k; and 2 more kinds",
    )
    (row,) = run_view.list_state_rows(
        [RunState("paused", "the frontier is paused until `swath resume`", 90.0)], "postgresql://me:secret@db/x"
    )
    assert row[1] == "the frontier is paused until `swath resume --store 'postgresql://me:***@db/x'` (for 90 s)"


PAUSED = RunState("paused", "the frontier is paused until `swath resume`", 1.0)


def render(panel: RenderableType) -> str:
    console = Console(width=60, file=StringIO(), record=True)
    console.print(panel)
    return console.export_text()


@pytest.mark.parametrize("store", ["big", "sqlite:///a.db?schema=users"])
def test_a_command_in_a_panel_has_a_line_of_its_own(store: str) -> None:
    """At 60 columns it would be wrapped within the text around it, and could not be copied."""
    line = f"\n│   swath resume --store {shlex.quote(store)} "
    settings = SimpleNamespace(store_url=store, table="users", get_identity=lambda: {"source": "t"})
    job: Any = SimpleNamespace(
        settings=settings, states=[PAUSED], progress=None, stats=BackfillStats(), sizer=SimpleNamespace(size=1),
        monitor=SimpleNamespace(errors=()), unsettled=0,
    )  # fmt: skip
    assert line in render(backfill_view.make_progress_panel(job))
    assert line in render(scan_view.make_progress_panel(job, 0.0, [PAUSED]))
    assert line in render(crawl_view.build_panel(CrawlSettings(out=store), {"workers": 1}, None, [PAUSED]))


def read_words(panel: RenderableType) -> str:
    return " ".join(render(panel).replace("│", " ").split())


@pytest.mark.parametrize("name", sorted(crawl_view.SERIOUS))
def test_the_panel_of_a_crawl_names_no_ready_hosts_while_none_is_fetched(name: Any) -> None:
    now = status(ready=5_000, lanes=700)
    panel = crawl_view.build_panel(CrawlSettings(out="big"), {"workers": 1}, now, [RunState(name, "why", 1.0)])
    assert "some ready now" not in read_words(panel)
    assert "some ready now" in read_words(crawl_view.build_panel(CrawlSettings(out="big"), {}, now))
