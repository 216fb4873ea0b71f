"""A web served by a process of its own, for tests whose crawlers come and go."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from swath.testing.web.log import Entry, read_log
from swath.testing.web.server import LOOPBACK
from swath.testing.web.web import Web

STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Spawned:
    """A web that another process serves."""

    web: Web
    port: int
    pid: int
    log: Path | None

    @property
    def connect_to(self) -> str:
        return f"::{LOOPBACK}:{self.port}"

    @property
    def entries(self) -> list[Entry]:
        """What its log has so far: every request whose answer a client can have seen to its end."""
        return [] if self.log is None else read_log(self.log)


@contextmanager
def spawn(web: Web, *, log: Path | None = None, port: int = 0) -> Iterator[Spawned]:
    """Serve in a child process until the block ends, or until this process does, however that happens."""
    command = [sys.executable, "-m", "swath.testing.web", "--until-eof", "--port", str(port)]
    command += ["--settings", to_settings(web), *(() if log is None else ("--log", str(log)))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # In a session of its own: Ctrl-C on the terminal is for the crawl, which finishes what it has begun to fetch.
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child, child.stdin, child.stdout:
        line = child.stdout.readline()
        if not line:
            raise RuntimeError(f"the web did not start and ended with {child.wait()}; what it said is above")
        try:
            yield Spawned(web, json.loads(line)["port"], child.pid, log)
        finally:
            child.stdin.close()
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def to_settings(web: Web) -> str:
    """The settings of a web as JSON."""
    values = {each.name: getattr(web, each.name) for each in fields(web) if each.init}
    if isinstance(web.trouble, frozenset):
        values["trouble"] = sorted(web.trouble)
    return json.dumps(values)


def from_settings(text: str) -> Web:
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in json.loads(text).items()}
    if isinstance(values.get("trouble"), tuple):
        values["trouble"] = frozenset(values["trouble"])
    return Web(**values)
