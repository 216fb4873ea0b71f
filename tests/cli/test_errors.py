"""What goes wrong is one line that says what to do, and an exit code."""

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import swath as library
from swath import Item
from swath.cli.exit_codes import MEANINGS, ExitCode, get_exit_code
from swath.core import errors
from tests.cli.conftest import TIMEOUT, Result, Run, add, environment, run_swath, sqlite_only
from tests.conftest import StartPostgres

NOBODY = 65534

READS = [
    ("status",), ("explain", "k"), ("lanes",), ("lanes", "set", "x", "--concurrency", "1"), ("dead",),
    ("dead", "retry", "--all"), ("drop", "--lane", "x"), ("drop", "k", "--undo"), ("pause",), ("pause", "x"),
    ("resume",), ("db", "check"), ("db", "info"), ("db", "migrate"),
]  # fmt: skip


def one_line(result: Result, code: int) -> str:
    assert result.code == code, result
    assert result.out == ""
    assert result.err.startswith("swath: "), result
    assert len(result.err.splitlines()) == 1, result
    assert "Traceback" not in result.err
    return result.err


def test_no_store_named() -> None:
    message = one_line(run_swath("status"), ExitCode.USAGE)
    assert "--store sqlite:///work.db" in message
    assert "SWATH_STORE" in message


def test_the_option_goes_before_the_environment(tmp_path: Path) -> None:
    assert run_swath("db", "init", "--store", f"sqlite:///{tmp_path}/a.db", store="nonsense").code == 0
    assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        (
            "sqlit:///work.db",
            "no backend for the scheme 'sqlit' (did you mean 'sqlite'?). The known schemes are memory",
        ),
        ("sqlite://work.db", "write three slashes before a relative path, sqlite:///work.db, or four"),
        ("sqlite:///", "does not name a file"),
        ("work.db", "work.db does not exist: give a directory of a crawl"),
        ("sqlite:///work.db?sync=off", "unknown parameter 'sync'"),
        ("memory:", "lives inside one process"),
        ("postgresql://localhost/db?schema=a-b", "not a name for a schema"),
    ],
)
def test_a_typo_in_the_url(url: str, hint: str) -> None:
    assert hint in one_line(run_swath("status", "--store", url), ExitCode.USAGE)


@pytest.mark.parametrize(
    "command",
    [
        ("crawl", "example.com"),
        ("export",),
        ("scan", "--source", "/tmp", "--check", "json:dumps"),
        ("backfill", "--db", "sqlite:///app.db", "--table", "t", "--set", "a = 1"),
    ],
    ids=lambda command: command[0],
)
def test_nothing_that_lasts_is_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "lives inside one process" in one_line(run_swath(*command, "--store", "memory:"), ExitCode.USAGE)


@pytest.mark.parametrize(
    "command",
    [
        ("backfill", "--table", "t", "--set", "a = 1", "--db"),
        ("status", "--store"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize("hosts", ["127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"])
def test_what_libpq_says_in_several_lines_is_one(command: tuple[str, ...], hosts: str) -> None:
    message = one_line(run_swath(*command, f"postgresql://u@{hosts}/x"), ExitCode.STORE)
    assert "cannot be reached" in message
    assert "\\n" not in message
    assert message.count("Is the server running") == 1
    assert all(f"port {host.rpartition(':')[2]} failed: Connection refused" in message for host in hosts.split(","))


def shell(line: str, store: str, **changes: str) -> Result:
    """`swath` as a shell starts it, with streams that are full or closed."""
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" -m swath {line}', sys.executable],
        env=environment(SWATH_STORE=store, **changes),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@sqlite_only
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("status >/dev/full", "cannot write to standard output: No space left on device"),
        ("lanes --json >/dev/full", "cannot write to standard output: No space left on device"),
        ("--version >/dev/full", "cannot write to standard output: No space left on device"),
        ("--help >/dev/full", "cannot write to standard output: No space left on device"),
        ("status >&-", "standard output is closed"),
        ("--version >&-", "standard output is closed"),
        ("add <&-", "standard input is closed: give keys as arguments or with --file FILE"),
        ("crawl --seeds - --out {tmp}/crawl --store sqlite:///{tmp}/c.db <&-", "--seeds -: standard input is closed"),
        ("export --format csv >/dev/full", "cannot write to standard output: No space left on device"),
    ],
)
def test_streams_that_cannot_be_used(url: str, tmp_path: Path, line: str, said: str) -> None:
    add(url, *(Item(f"k{number}", f"lane{number}") for number in range(90)))
    for unbuffered in ("", "1"):
        done = shell(line.format(tmp=tmp_path), url, PYTHONUNBUFFERED=unbuffered)
        assert said in one_line(done, ExitCode.USAGE)


@sqlite_only
def test_streams_that_are_not_used_may_be_closed(url: str) -> None:
    assert shell("add a <&-", url).out == "1 new of 1\n"
    assert shell("status --json <&-", url).json()["ready"] == 1
    assert shell("--version | true", url).code == 0


@pytest.mark.parametrize("command", READS)
def test_only_add_and_init_create_a_file(tmp_path: Path, command: tuple[str, ...]) -> None:
    one_line(run_swath(*command, store=f"sqlite:///{tmp_path}/work.db"), ExitCode.SCHEMA)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("status",), ("pause", "x"), ("db", "migrate")])
def test_only_add_and_init_create_a_schema(database: str, command: tuple[str, ...]) -> None:
    one_line(run_swath(*command, store=database), ExitCode.SCHEMA)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'swath'").fetchall() == []


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at" * 100)
    before = path.read_bytes()
    for command in [("status",), ("add", "k")]:
        message = one_line(run_swath(*command, store=f"sqlite:///{path}"), ExitCode.SCHEMA)
        assert str(path) in message
    assert path.read_bytes() == before


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE orders (id)")
    connection.close()
    for command in [("status",), ("add", "k")]:
        one_line(run_swath(*command, store=f"sqlite:///{path}"), ExitCode.SCHEMA)


def test_a_schema_of_something_else(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE public.orders (id integer)")
    store = f"{database}&schema=public"
    for command in [("status",), ("add", "k")]:
        one_line(run_swath(*command, store=store), ExitCode.SCHEMA)


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    message = one_line(run_swath("add", "k", store=f"sqlite:///{tmp_path}/no/such/work.db"), ExitCode.USAGE)
    assert "does not exist" in message


def as_nobody(*args: str) -> Result:
    """The command as a user without rights. The interpreter may be out of that user's reach, so the process starts as
    we are, runs once so that everything is imported, and then gives its rights away."""
    script = (
        "import contextlib, io, os, sys, tempfile\n"
        "from swath.cli import main\n"
        "given = sys.argv[1:]\n"
        "with tempfile.TemporaryDirectory() as there, contextlib.redirect_stdout(io.StringIO()):\n"
        "    for command in ('add', 'k'), ('status',):\n"
        "        sys.argv = ['swath', *command, '--store', f'sqlite:///{there}/a.db']\n"
        "        with contextlib.suppress(SystemExit): main()\n"
        f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "sys.argv = ['swath', *given]\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, env=environment(), timeout=TIMEOUT, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_file_this_user_may_not_read(shared_path: Path) -> None:
    store = f"sqlite:///{shared_path}/work.db"
    assert run_swath("add", "k", store=store).code == 0
    (shared_path / "work.db").chmod(0o600)
    shared_path.chmod(0o755)
    for command in [("status",), ("add", "other")]:
        message = one_line(as_nobody(*command, "--store", store), ExitCode.STORE)
        assert f"{shared_path}/work.db" in message


def test_a_file_this_user_may_not_write(shared_path: Path) -> None:
    store = f"sqlite:///{shared_path}/work.db"
    assert run_swath("add", "k", store=store).code == 0
    (shared_path / "work.db").chmod(0o644)
    shared_path.chmod(0o755)
    one_line(as_nobody("add", "other", "--store", store), ExitCode.STORE)
    assert run_swath("status", "--json", store=store).json()["ready"] == 1


def test_a_directory_this_user_may_not_write(shared_path: Path) -> None:
    shared_path.chmod(0o755)
    one_line(as_nobody("add", "k", "--store", f"sqlite:///{shared_path}/work.db"), ExitCode.STORE)
    assert list(shared_path.iterdir()) == []


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """A directory that another user can get to: pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="swath-cli-") as path:
        yield Path(path)


def test_a_server_that_is_not_there() -> None:
    store = "postgresql://user:hunter22@127.0.0.1:1/db"
    message = one_line(run_swath("status", store=store), ExitCode.STORE)
    assert "hunter22" not in message


def test_a_wrong_password_is_not_printed(start_postgres: StartPostgres) -> None:
    server = start_postgres(tcp=True, fsync="off")
    store = server.dsn(tcp=True).replace("postgres:", "postgres:not-it-", 1)
    password = store.split(":")[2].split("@")[0]
    message = one_line(run_swath("status", store=store), ExitCode.STORE)
    assert password not in message
    right = server.dsn(tcp=True)
    secret = right.split(":")[2].split("@")[0]
    for command in [
        ("db", "init"),
        ("status",),
        ("status", "--json"),
        ("db", "info"),
        ("db", "init", "--partitions", "9"),
    ]:
        result = run_swath(*command, store=right)
        assert secret not in result.out + result.err, command
        assert "***" in result.out + result.err, command


@sqlite_only
def test_unknown_options_and_commands_suggest_the_nearest(swath: Run) -> None:
    assert "--json" in swath("status", "--jsno").words
    assert "Did you mean 'status'?" in swath("statsu").words
    assert swath("status", "--jsno").code == ExitCode.USAGE


def test_without_the_extra_it_says_what_to_install() -> None:
    for missing in ("typer", "rich"):
        script = f"import sys; sys.modules[{missing!r}] = None\nfrom swath.cli import main\nsys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"swath: the command line needs {missing}: pip install 'swath[cli]'\n"


def test_what_nobody_expected_keeps_its_traceback(tmp_path: Path) -> None:
    script = (
        "import sys, swath.cli.status\n"
        "def broken(view): raise RuntimeError('a bug')\n"
        "swath.cli.status.to_json = broken\n"
        "sys.argv = ['swath', 'status', '--json']\n"
        "from swath.cli import main\n"
        "sys.exit(main())\n"
    )
    store = f"sqlite:///{tmp_path}/a.db"
    run_swath("db", "init", store=store)
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=environment(SWATH_STORE=store),
        timeout=TIMEOUT,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.endswith("RuntimeError: a bug\n")


def test_version_and_help() -> None:
    assert run_swath("--version").out == f"swath {library.__version__}\n"
    text = run_swath("--help").words
    for code, meaning in MEANINGS.items():
        assert f"{code:d} {meaning}" in text
    assert "SWATH_STORE" in run_swath("status", "-h").words


def test_every_error_has_an_exit_code() -> None:
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.SwathError):
            assert get_exit_code(error("")) in MEANINGS
