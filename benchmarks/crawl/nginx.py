"""nginx: serves the site from a temporary directory, on loopback addresses only."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.progress import say

WORKERS = 2
PATHS = ("/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx")
START_SECONDS = 20.0
ERRORS = "error.log"

CONFIGURATION = """\
daemon off;
master_process on;
worker_processes {workers};
worker_rlimit_nofile 20000;
pid {directory}/nginx.pid;
error_log {directory}/{errors};
{user}
events {{ worker_connections 8000; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    types {{ text/html html; text/plain txt; }}
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
{servers}
}}
"""
SERVER = """\
    server {{
{listen}
        root {root}/$server_addr;
        keepalive_timeout {keep_alive}s;
        {tls}
    }}
"""


def find_program() -> str:
    """Return the path of nginx. Install it with apt-get if it is missing and we are root."""
    if found := _find():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing nginx-light")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=environment, stdout=subprocess.DEVNULL)
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "nginx-light"]
        # Debian starts a server when it is installed, unless a policy forbids it.
        policy = Path("/usr/sbin/policy-rc.d")
        ours = not policy.exists()
        if ours:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        try:
            subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL)
        finally:
            if ours:
                policy.unlink()
        if found := _find():
            return found
    raise SystemExit("the benchmark needs nginx. On Debian: sudo apt-get install nginx-light")


def _find() -> str | None:
    return shutil.which("nginx") or next((path for path in PATHS if os.access(path, os.X_OK)), None)


class ServerConfig:
    """One `server` block of nginx.conf, with the same port on all addresses."""

    def __init__(self, port: int, *, keep_alive: bool = True, certificate: tuple[Path, Path] | None = None) -> None:
        self.port = port
        self._keep_alive = keep_alive
        self._certificate = certificate

    def format(self, root: Path, addresses: Sequence[str]) -> str:
        tls = ""
        if self._certificate is not None:
            tls = f"ssl_certificate {self._certificate[0]}; ssl_certificate_key {self._certificate[1]};"
            tls += " ssl_session_cache off; ssl_session_tickets off;"
        ssl = " ssl" if tls else ""
        listen = "\n".join(f"        listen {address}:{self.port}{ssl} backlog=4096;" for address in addresses)
        return SERVER.format(listen=listen, root=root, keep_alive=75 if self._keep_alive else 0, tls=tls)


@contextmanager
def run_server(
    directory: Path, *, root: Path, addresses: Sequence[str], servers: Sequence[ServerConfig]
) -> Iterator[int]:
    """Serve `root` while the context lasts; yield the process id of the nginx master."""
    directory.mkdir(parents=True)
    user = "user root;" if os.geteuid() == 0 else ""
    text = CONFIGURATION.format(
        workers=WORKERS,
        directory=directory,
        errors=ERRORS,
        user=user,
        servers="".join(one.format(root, addresses) for one in servers),
    )
    (directory / "nginx.conf").write_text(text)
    command = [find_program(), "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", str(directory / ERRORS)]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        _wait_until_listening(server, servers[-1].port, addresses[-1], directory)
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_listening(server: "subprocess.Popen[bytes]", port: int, address: str, directory: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and server.poll() is None:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    log = directory / ERRORS
    raise RuntimeError(f"nginx did not start: {log.read_text()[-2000:] if log.exists() else 'no log'}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
