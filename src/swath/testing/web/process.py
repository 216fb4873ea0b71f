"""Serve the web from a child process, for tests that start and kill crawlers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from swath.testing.web.network import NetworkPorts
from swath.testing.web.request_log import LoggedRequest, read_log
from swath.testing.web.server import LOOPBACK
from swath.testing.web.web import Web

STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WebProcess:
    """A web that a child process serves."""

    web: Web
    port: int
    pid: int
    log: Path | None
    network: NetworkPorts | None = None

    @property
    def connect_to(self) -> str:
        return f"::{LOOPBACK}:{self.port}"

    @property
    def requests(self) -> list[LoggedRequest]:
        """The requests in the log so far. A request is in the log before the client has the whole response."""
        return [] if self.log is None else read_log(self.log)


@contextmanager
def spawn(web: Web, *, log: Path | None = None, port: int = 0, network: bool = False) -> Iterator[WebProcess]:
    """Serve the web in a child process until the block or this process ends, even if it is killed.

    With `network`, also serve the hosts of `swath.testing.web.network`.
    """
    command = [sys.executable, "-m", "swath.testing.web", "--until-eof", "--port", str(port)]
    command += ["--settings", plan_to_json(web), *(() if log is None else ("--log", str(log)))]
    command += ["--network"] if network else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # A new session: Ctrl-C on the terminal must reach the crawl only, which finishes its fetches in flight.
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child, child.stdin, child.stdout:
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"the demo web did not start; exit code {child.wait()}. Its error output is above")
        ready = json.loads(line)
        ports = NetworkPorts(ready["port"], ready["https_port"], ready["dns_port"]) if network else None
        try:
            yield WebProcess(web, ready["port"], child.pid, log, ports)
        finally:
            child.stdin.close()
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def plan_to_json(web: Web) -> str:
    """Return the plan of a web as JSON."""
    values = {each.name: getattr(web, each.name) for each in fields(web) if each.init}
    if isinstance(web.faults, frozenset):
        values["faults"] = sorted(web.faults)
    return json.dumps(values)


def plan_from_json(text: str) -> Web:
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in json.loads(text).items()}
    if isinstance(values.get("faults"), tuple):
        values["faults"] = frozenset(values["faults"])
    return Web(**values)
