"""The server that other tests rely on keeps what was committed, however it was stopped."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Server, StartPostgres, fresh_database
from tests.postgres_server import PostgresServer, StopMode, installations, major_version

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("major", list(installations()))
def test_committed_data_survives_a_stop(start_postgres: StartPostgres, major: int, mode: StopMode) -> None:
    server = start_postgres(major=major)
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    with psycopg.connect(server.dsn()) as open_connection:
        server.stop(mode)
        assert not server.running
        with pytest.raises(psycopg.OperationalError):
            open_connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.dsn())

    server.start()
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    recovered = "automatic recovery in progress" in server.log_tail(50)
    assert recovered == (mode == "immediate")


def test_settings_reach_the_server_and_are_durable_by_default(start_postgres: StartPostgres) -> None:
    def setting(server: PostgresServer, name: str) -> str:
        with psycopg.connect(server.dsn()) as connection:
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
        assert row is not None
        return str(row[0])

    assert setting(start_postgres(), "fsync") == "on"
    assert setting(start_postgres(fsync="off"), "fsync") == "off"


def test_tcp_port_stays_the_same_over_a_restart(start_postgres: StartPostgres) -> None:
    server = start_postgres(tcp=True)
    url = server.dsn(tcp=True)
    server.stop("immediate")
    server.start()
    psycopg.connect(url).close()
    psycopg.connect(server.dsn()).close()


def test_a_refused_setting_shows_the_servers_own_words() -> None:
    server = PostgresServer(settings={"shared_buffers": "a lot"})
    with pytest.raises(RuntimeError, match='invalid value for parameter "shared_buffers"'):
        server.start()
    server.close()
    assert not server.directory.exists()


def test_two_servers_run_side_by_side(start_postgres: StartPostgres) -> None:
    first, second = start_postgres(), start_postgres()
    first.stop()
    psycopg.connect(second.dsn()).close()


def test_programs_in_a_private_directory_can_be_run_also_by_root(tmp_path: Path) -> None:
    bundled = next(iter(installations().values()))
    package = bundled.parents[1]
    private = tmp_path / "private" / "site-packages"
    shutil.copytree(bundled.parent, private / package.name / bundled.parent.name, symlinks=True)
    shutil.copytree(package.with_name(package.name + ".libs"), private / (package.name + ".libs"))
    (tmp_path / "private").chmod(0o700)
    with PostgresServer(bin_dir=private / package.name / bundled.parent.name / "bin") as server:
        assert major_version(server.bin_dir) == major_version(bundled)
        psycopg.connect(server.dsn()).close()


def test_no_server_outlives_a_killed_test_process() -> None:
    program = (
        "from tests.postgres_server import PostgresServer\n"
        "server = PostgresServer()\n"
        "server.start()\n"
        "print(server.pid, server.directory, flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        pid, directory = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while Path(directory).exists() or Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"server {pid} still runs in {directory}"
        time.sleep(0.01)


@pytest.mark.parametrize("database", list(installations()), indirect=True)
def test_database_is_fresh_and_of_the_version_asked_for(database: str, request: pytest.FixtureRequest) -> None:
    with psycopg.connect(database) as connection:
        assert connection.info.server_version // 10_000 == request.node.callspec.params["database"]
        tables = connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone()
        assert tables == (0,)


def test_databases_of_one_server_are_apart_and_dropped(database: str, postgres: Server) -> None:
    with fresh_database(postgres) as other:
        with psycopg.connect(other) as connection:
            connection.execute("CREATE TABLE mine ()")
        with psycopg.connect(database) as connection:
            assert connection.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(other)
