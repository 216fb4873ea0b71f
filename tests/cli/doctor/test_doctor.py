"""`swath doctor` on real stores: nothing on healthy ones, and each fault that is planted."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

import swath as library
from swath import Problem
from swath.backends.postgres import examine
from swath.backends.postgres.examine import TableVacuum, check_autovacuum
from swath.cli.doctor import machine, names
from swath.cli.doctor.examination import examine_store
from swath.testing.web.network.dns_server import NXDOMAIN, SERVFAIL, DNSAnswer, DNSServer
from tests.cli.conftest import Run, environment, on, run_swath
from tests.cli.test_crawl_end import CLOSED
from tests.skewed import write_offset

ROLE = "doctor_role"


async def find(store: str, **options: int) -> list[str]:
    workers = options.get("workers")
    return [one.name for one in (await examine_store(store, workers=workers, dns_servers=()))[1]]


def test_a_healthy_store_has_no_problem(swath: Run, url: str) -> None:
    on(url, lambda frontier: frontier.add(["a", "b"]))
    result = swath("doctor")
    assert (result.code, result.out.endswith(": no problem was found\n"), result.err) == (0, True, "")
    assert swath("doctor", "--json", "--workers", "2").json()["problems"] == []


def test_a_problem_has_what_to_do_and_an_exit_code(swath: Run, url: str) -> None:
    on(url, lambda frontier: frontier.add(["a", "b"]), concurrency=1)
    result = swath("doctor", "--workers", "9")
    assert result.code == 1
    first, advice, last = result.out.splitlines()
    assert first.startswith("idle-workers: 9 workers, but 1 lane with ready items, whose limits allow 1 in flight")
    assert advice.startswith("    what to do: use --workers 1: ")
    assert last.endswith(": 1 problem")
    (problem,) = json.loads(swath("doctor", "--workers", "9", "--json").out)["problems"]
    assert set(problem) == {"name", "text", "advice"}


def test_a_machine_whose_clock_is_wrong_is_found(database: str, tmp_path: Path) -> None:
    on(database, lambda frontier: frontier.add(["a"]))
    write_offset(tmp_path / "offset", -3_600.0)
    command = [sys.executable, "-m", "tests.skewed", str(tmp_path / "offset"), "swath.__main__", "doctor", database]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=60)
    assert ran.returncode == 1, ran
    assert "clock: the clock of this machine is 60 min behind the store's" in ran.stdout


async def test_autovacuum_that_is_off_is_found(database: str) -> None:
    async with library.open(database) as frontier:
        await frontier.add("a")
    assert await find(database) == []
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE swath.done SET (autovacuum_enabled = false)")
    (problem,) = await library.examine(database)
    assert (problem.name, "autovacuum is off for done" in problem.text) == ("autovacuum-off", True)
    assert "ALTER TABLE swath.done RESET (autovacuum_enabled)" in problem.advice


def test_autovacuum_that_is_behind_is_found() -> None:
    good = TableVacuum("done", 1e6, 240_000, True, True, 200_050.0)
    assert not list(check_autovacuum([good], "swath"))
    (behind,) = check_autovacuum([good._replace(dead_rows=1_100_000)], "swath")
    assert behind.text == "done has 1,100,000 dead rows, and autovacuum should have started at 200,050"
    assert not list(check_autovacuum([good._replace(dead_rows=90_000, starts_at=50.0)], "swath"))
    (off,) = check_autovacuum([good._replace(server_enabled=False)], "swath")
    assert "off for the whole server" in off.text


async def test_a_transaction_that_stays_open_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with library.open(database) as frontier:
        await frontier.add("a")
    with psycopg.connect(database, application_name="report") as connection:
        connection.execute("SELECT 1")
        assert await find(database) == []
        monkeypatch.setattr(examine, "LONG_SECONDS", 0.0)
        (problem,) = await library.examine(database)
        assert problem.name == "long-transaction"
        assert f"process {connection.info.backend_pid} of report, idle in transaction" in problem.text


async def test_privileges_that_are_missing_are_found_and_the_advice_helps(database: str) -> None:
    async with library.open(database) as frontier:
        await frontier.add("a")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        connection.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA swath FROM PUBLIC")
        try:
            as_role = psycopg.conninfo.conninfo_to_dict(database) | {"user": ROLE}
            host, port, name = (as_role.get(part) for part in ("host", "port", "dbname"))
            url = f"postgresql:///{name}?host={host}&user={ROLE}" + (f"&port={port}" if port else "")
            (problem,) = await library.examine(url)
            assert problem.text == (
                f"the role {ROLE} lacks USAGE ON SCHEMA swath, SELECT ON ALL TABLES IN SCHEMA swath, "
                "INSERT ON ALL TABLES IN SCHEMA swath, UPDATE ON ALL TABLES IN SCHEMA swath, "
                "DELETE ON ALL TABLES IN SCHEMA swath, USAGE ON ALL SEQUENCES IN SCHEMA swath, "
                "EXECUTE ON ALL FUNCTIONS IN SCHEMA swath"
            )
            connection.execute(problem.advice.partition("run ")[2].encode())
            assert await library.examine(url) == []
            async with library.open(url, create=False) as frontier:
                assert (await frontier.run(finish)).done == 1
        finally:
            connection.execute(f"DROP OWNED BY {ROLE}")
            connection.execute(f"DROP ROLE {ROLE}")


async def finish(item: library.Item) -> None:
    pass


@pytest.mark.parametrize(("step", "advice"), [(-1, "run `swath db migrate --store "), (1, "upgrade swath")])
async def test_a_store_of_another_format_is_found(database: str, step: int, advice: str) -> None:
    async with library.open(database) as frontier:
        await frontier.add("a")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE swath.frontier SET format = format + %s", (step,))
    (problem,) = (await examine_store(database, workers=None, dns_servers=()))[1]
    assert (problem.name, problem.advice.startswith(advice)) == ("schema", True)


async def test_a_server_that_does_not_answer_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert await find(f"postgresql://127.0.0.1:{port}/none?schema=s") == ["store-away"]


async def test_a_sqlite_file_on_a_network_file_system_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with library.open(f"sqlite:///{tmp_path}/work.db") as frontier:
        await frontier.add("a")
    table = tmp_path / "mountinfo"
    table.write_text(f"40 22 0:35 / {tmp_path} rw shared:2 - nfs files.example:/srv rw\n")
    monkeypatch.setattr(machine, "MOUNTS", table)
    assert await find(str(tmp_path / "work.db")) == ["network-file-system"]


async def test_a_name_server_is_reachable_if_it_says_anything() -> None:
    answers = {"there.test": DNSAnswer(("192.0.2.1",)), "broken.test": SERVFAIL, "gone.test": NXDOMAIN}
    async with DNSServer(answers) as server:
        address = [server.address]
        assert await names.resolve("there.test", address) is None
        assert await names.resolve("gone.test", address) is None
        assert await names.resolve("broken.test", address) == "the name server failed"
    assert await names.resolve("192.0.2.1", address) is None


async def test_a_name_server_that_does_not_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_SECONDS", 0.3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        failure = await names.resolve("there.test", [f"127.0.0.1:{silent.getsockname()[1]}"])
    assert failure == "no answer within 0.3 s"
    (problem,) = names.check_names("there.test", failure)
    assert problem == Problem(
        "dns",
        "the name there.test cannot be resolved: no answer within 0.3 s",
        "check /etc/resolv.conf and the firewall (port 53), or give another name server with --dns-servers",
    )


def test_a_crawl_is_examined_with_its_directory_and_its_first_seed(tmp_path: Path) -> None:
    run_swath("crawl", "http://a.onion", "--out", str(tmp_path), *CLOSED, "--retries", "0")
    result = run_swath("doctor", str(tmp_path))
    assert (result.code, "no problem was found" in result.out) == (0, True), result
