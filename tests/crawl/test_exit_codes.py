"""Every exit code of `swath crawl` that is documented, from a real command that produces it."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from swath.cli.exit_codes import ExitCode
from swath.testing.web import Web, WebProcess, spawn
from tests.cli.conftest import COMMAND, TIMEOUT, Result, add, environment, run_swath
from tests.crawl.reporting import QUICK
from tests.crawl.web import Exchange, Server, serving

DOCS = Path(__file__).parents[2] / "docs"
CODE_ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
WEB = Web(hosts=1, pages=3, faults=False, slow_seconds=60.0)


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    with spawn(WEB, network=True) as process:
        yield process


def crawl(web: WebProcess, out: Path, *words: str) -> Result:
    return run_swath("crawl", *words, *options(web), "--out", str(out))


def options(web: WebProcess) -> Sequence[str]:
    assert web.network is not None
    return (*web.network.crawl_options, *QUICK, "--allow-private")


def list_documented_codes(page: str) -> set[int]:
    _, _, section = (DOCS / page).read_text().partition("## Exit codes\n")
    return {int(code) for code in CODE_ROW.findall(section.partition("\n## ")[0])}


def test_the_codes_here_are_those_that_are_documented() -> None:
    names = "".join(name for name in globals() if name.startswith("test_"))
    tested = {int(code) for code in re.findall(r"test_(\d+)_", names)}
    assert tested == set(ExitCode)
    assert list_documented_codes("crawl.md") == list_documented_codes("reference/cli.md") == tested


def test_0_every_page_was_fetched(web: WebProcess, tmp_path: Path) -> None:
    assert crawl(web, tmp_path, "https://fine.test/").code == 0
    assert crawl(web, tmp_path, "https://fine.test/").code == 0


def test_1_pages_are_left(web: WebProcess, tmp_path: Path) -> None:
    ran = crawl(web, tmp_path, "https://fine.test/", "--max-pages", "1")
    assert ran.code == 1
    assert "left" in ran.err


def test_1_pages_are_dead(web: WebProcess, tmp_path: Path) -> None:
    assert crawl(web, tmp_path, "https://vanishing.test/").code == 1


def test_1_nothing_was_fetched(web: WebProcess, tmp_path: Path) -> None:
    assert crawl(web, tmp_path, "https://robots-disallow.test/").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("exa mple",),
        ("fine.test", "--seeds", "/nowhere.txt"),
        ("fine.test", "--no-such-flag"),
        ("fine.test", "--delay", "fast"),
        ("fine.test", "--scope", "any"),
        ("fine.test", "--dns-servers", "dns.example"),
        (),
    ],
    ids=" ".join,
)
def test_2_the_command_is_wrong(words: tuple[str, ...], tmp_path: Path) -> None:
    assert run_swath("crawl", *words, "--out", str(tmp_path / "crawl")).code == 2
    assert not (tmp_path / "crawl").exists()


def test_2_the_directory_or_the_frontier_belongs_to_something_else(web: WebProcess, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert crawl(web, tmp_path / "file", "https://fine.test/").code == 2
    add(store := f"sqlite:///{tmp_path}/work.db", "a", "b")
    assert crawl(web, tmp_path / "crawl", "https://fine.test/", "--store", store).code == 2


def test_3_the_store_cannot_be_reached(tmp_path: Path) -> None:
    store = "postgresql://nobody@127.0.0.1:1/crawl"
    assert run_swath("crawl", "fine.test", "--out", str(tmp_path), "--store", store).code == 3


def test_4_the_store_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("These are notes, not a database. " * 100)
    ran = run_swath("crawl", "fine.test", "--out", str(tmp_path), "--store", f"sqlite:///{tmp_path}/notes.db")
    assert ran.code == 4


async def test_5_a_copy_of_the_directory_is_crawled_into_as_well(tmp_path: Path) -> None:
    """Both processes continue the same files. The first one to settle wins."""
    agents: set[bytes] = set()
    both_have_asked = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        (agent,) = re.findall(rb"User-Agent: (\w+)/", exchange.request)
        agents.add(agent)
        if exchange.host != "first.test" and len(agents) < 3:
            await both_have_asked.wait()
        if len(agents) == 3:
            both_have_asked.set()
        await exchange.ok()

    seeds = [f"http://{name}.test/" for name in "abcdefgh"]
    store = f"sqlite:///{tmp_path}/crawl.db"
    async with serving(answer) as server:
        assert await run_here(server, tmp_path / "one", store, "first", "http://first.test/") == 0
        shutil.copytree(tmp_path / "one", tmp_path / "two")
        codes = await asyncio.gather(
            *(run_here(server, tmp_path / name, store, name, *seeds, "--workers", "1") for name in ("one", "two"))
        )
    assert sorted(codes) == [0, 5]


async def run_here(server: Server, out: Path, store: str, agent: str, *words: str) -> int:
    """Run a crawl of a server in this process."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "crawl", *words, *QUICK[:4], "--connect-to", f"::127.0.0.1:{server.port}", "--allow-private",
        "--out", str(out), "--store", store, "--user-agent", agent, "--lease", "2s", env=environment(),
    )  # fmt: skip
    return await asyncio.wait_for(process.wait(), TIMEOUT)


def test_130_stopped_with_ctrl_c(web: WebProcess, tmp_path: Path) -> None:
    command = [*COMMAND, "crawl", "https://fine.test/", *options(web), "--delay", "9s", "--out", str(tmp_path)]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    with process:
        assert process.stderr is not None
        assert "starts" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    again = run_swath("status", "--json", store=f"sqlite:///{tmp_path}/frontier.db")
    assert json.loads(again.out)["waiting"] >= 1
