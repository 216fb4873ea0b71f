"""A store is a directory, a file or a URL, and naming one creates nothing."""

import asyncio
import shutil
from pathlib import Path

import pytest

import swath as library
from swath import Frontier, mask_password
from swath.backfill.ranges import PlanStep
from swath.cli.exit_codes import ExitCode
from swath.crawl.settings import CrawlSettings
from swath.crawl.settings_file import save_settings
from tests.cli.conftest import Run, add, kill, on, run_swath, sqlite_only
from tests.cli.test_errors import one_line

# Commands that take the store as an argument, and those that take it as an option
BY_ARGUMENT = [
    ("status",), ("status", "--json"), ("dead",), ("dead", "list"), ("lanes",), ("lanes", "list"), ("db", "check"),
    ("db", "info"), ("db", "migrate"), ("db", "init"),
]  # fmt: skip
BY_OPTION = [
    ("status",), ("explain", "k"), ("lanes",), ("lanes", "default"), ("lanes", "defaults"), ("dead",),
    ("pause",), ("resume",), ("db", "check"), ("db", "info"), ("db", "migrate"), ("add", "k"), ("db", "init"),
]  # fmt: skip


@pytest.fixture
def crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a crawl, as `crawl` in the current directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "crawl.json").write_text("{}")
    add(f"sqlite:///{folder}/frontier.db", "k")
    return folder


@pytest.mark.parametrize("command", BY_ARGUMENT, ids=" ".join)
def test_a_directory_a_file_and_a_url_are_arguments(crawl: Path, command: tuple[str, ...]) -> None:
    for store in ("crawl", "crawl/", "crawl/frontier.db", "sqlite:///crawl/frontier.db"):
        result = run_swath(*command, store)
        assert result.code == 0, result
        assert "note: using" not in result.err


@pytest.mark.parametrize("command", BY_OPTION, ids=" ".join)
def test_a_directory_and_a_file_are_values_of_the_option_and_the_variable(
    crawl: Path, command: tuple[str, ...]
) -> None:
    for store in ("crawl/", "crawl/frontier.db"):
        assert run_swath(*command, "--store", store).code == 0
        assert run_swath(*command, store=store).code == 0


def test_findings_of_a_scan_name_its_frontier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "findings.jsonl").touch()
    add(f"sqlite:///{tmp_path}/findings.jsonl.swath.db", "k")
    assert run_swath("status", "findings.jsonl").facts()["store"] == "sqlite:///findings.jsonl.swath.db"
    (tmp_path / "other.jsonl").write_text("{}\n")
    assert "there is no other.jsonl.swath.db beside it" in one_line(run_swath("status", "other.jsonl"), ExitCode.USAGE)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.db", "missing.db does not exist: give a directory of a crawl, a database file"),
        ("missing.db", "run `swath add` or `swath db init` with --store sqlite:///missing.db"),
        ("empty", "empty is a directory without a frontier"),
        ("notes.txt", "notes.txt is not a database of SQLite"),
        ("zero", "zero is empty"),
        ("several", "several is not the directory of a crawl; it holds several/a.db, several/b.db"),
        ("half", "half is the directory of a crawl, but it has no frontier.db"),
        ("several/a.db-wal", "belongs to the database several/a.db"),
    ],
)
def test_another_name_is_answered_with_what_it_is_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "several", "half"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "zero").touch()
    (tmp_path / "half" / "crawl.json").write_text("{}")
    for file in ("a.db", "b.db"):
        add(f"sqlite:///{tmp_path}/several/{file}", "k")
    (tmp_path / "several/a.db-wal").touch()
    before = sorted(tmp_path.rglob("*"))
    for command in (("status", name), ("add", "k", "--store", name), ("pause", "--store", name)):
        assert said in one_line(run_swath(*command), ExitCode.USAGE)
    assert [path for path in sorted(tmp_path.rglob("*")) if not path.name.endswith(("-shm", "-wal"))] == [
        path for path in before if not path.name.endswith("-wal")
    ]


def test_the_only_frontier_here_is_used_and_said(crawl: Path) -> None:
    result = run_swath("status")
    assert result.facts()["store"] == "sqlite:///crawl/frontier.db"
    assert result.err == "swath: note: using crawl/, the only frontier in this directory\n"
    add(f"sqlite:///{crawl.parent}/work.db", "k")
    assert "This directory has crawl/, work.db" in one_line(run_swath("status"), ExitCode.USAGE)
    assert "no store: give --store" in one_line(run_swath("add", "k"), ExitCode.USAGE)


def test_a_word_after_lanes_is_a_store_or_a_lane(crawl: Path) -> None:
    shutil.copytree(crawl, crawl.parent / "default")
    store = "sqlite:///crawl/frontier.db"
    assert run_swath("lanes", "crawl").out.startswith("default\t1")
    assert run_swath("lanes", "crawl", "default").facts()["lane"] == "default"
    assert run_swath("lanes", "default", store=store).facts()["lane"] == "default"  # although there is such a path
    assert run_swath("lanes", "crawl/", store="sqlite:///elsewhere.db").out.startswith("default\t1")
    assert run_swath("dead", "retr", store=store).words.endswith("No such command 'retr'. Did you mean 'retry'?")


def test_a_crawl_remembers_a_store_elsewhere_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    add("sqlite:///shared.db?schema=crawl", "k")
    folder = tmp_path / "crawl"
    folder.mkdir()
    save_settings(CrawlSettings(out="crawl", store="sqlite:///shared.db?schema=crawl"))
    monkeypatch.chdir(folder)
    assert run_swath("status", ".").facts()["ready"] == "1"
    save_settings(CrawlSettings(out=".", store="postgresql://me:hunter22@db.example/app"))
    assert "hunter22" not in (folder / "crawl.json").read_text()
    message = one_line(run_swath("status", str(folder)), ExitCode.USAGE)
    assert "keeps its frontier in postgresql://me@db.example/app, and swath saves no passwords" in message


# Several frontiers in a database


def with_schema(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def start_backfill(url: str) -> None:
    """Leave the first item of a backfill."""
    about = {
        "purpose": {}, "table": "users", "key_columns": ["id"], "text_key": False, "first_key": [1], "rows": 10,
        "upto": [10],
    }  # fmt: skip

    async def work(frontier: Frontier) -> None:
        await frontier.add(PlanStep(0, None, (10,), 5, 0).to_first_item(about))

    on(url, work, partitions=1)


def test_the_only_frontier_of_a_database_is_found(url: str, swath: Run) -> None:
    start_backfill(with_schema(url, "swath_backfill_users"))
    result = swath("status", "--json")
    assert result.json()["kind"] == "backfill"
    assert result.json()["backfill"]["table"] == "users"
    assert "swath_backfill_users, the only frontier in this database" in result.err
    for command in (("pause",), ("dead",), ("lanes",), ("db", "check"), ("db", "info"), ("explain", "begin")):
        assert swath(*command).code == 0


def test_several_frontiers_are_listed(url: str, swath: Run) -> None:
    start_backfill(with_schema(url, "swath_backfill_users"))
    kill(with_schema(url, "jobs"), "c")
    add(with_schema(url, "jobs"), "a", "b")
    rows = [line.split("\t") for line in swath("status").out.splitlines()]
    assert sorted(row[1:] for row in rows) == [["backfill", "1", "0", "0"], ["plain", "2", "0", "1"]]
    for row in rows:
        assert run_swath("status", "--json", store=row[0].replace("***", "x")).json()["kind"] == row[1]
    listed = swath("status", "--json").json()
    assert {one["kind"] for one in listed["frontiers"]} == {"backfill", "plain"}
    message = one_line(swath("pause"), ExitCode.SCHEMA)
    assert "holds 2 frontiers: name one of them with --store" in message
    assert "schema=jobs" in message


def test_the_default_frontier_stays_the_default_beside_others(url: str, swath: Run) -> None:
    add(with_schema(url, "jobs"), "a")
    if url.startswith("postgresql"):
        add(url, "b", "c")
    else:
        add(with_schema(url, "swath"), "b", "c")
    assert swath("lanes").out.startswith("default\t2")
    data = swath("status", "--json").json()
    assert data["ready"] == 2
    assert len(data["frontiers"]) == 2
    assert len(swath("status").out.splitlines()) == 2


async def test_list_frontiers_names_each_and_creates_nothing(url: str) -> None:
    assert await library.list_frontiers(url) == []
    for schema in ("jobs", "more"):
        async with library.open(with_schema(url, schema)):
            pass
    found = await library.list_frontiers(url)
    assert [mask_password(one).partition("schema=")[2] for one in found] == ["jobs", "more"]
    assert await library.list_frontiers(with_schema(url, "other")) == found
    for one in found:
        async with library.open(one, create=False):
            pass


@sqlite_only
def test_listing_does_not_create_the_file(url: str, tmp_path: Path) -> None:
    assert asyncio.run(library.list_frontiers(url)) == []
    assert list(tmp_path.iterdir()) == []
