"""A web server in its own process that prints its ports on the first line, and then a sample on each line, as JSON."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.crawl.tree import ContestantFailed

START_SECONDS = 20.0
END_SECONDS = 10.0


@contextmanager
def run_server_process(module: str, *arguments: str, log: Path, environment: Mapping[str, str]) -> Iterator[list[int]]:
    """Run `python -m MODULE serve` until the context ends; yield its ports. The samples go to `log`."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", module, "serve", *arguments],
            stdin=subprocess.PIPE, stdout=output, env=dict(environment),
        )  # fmt: skip
    try:
        yield _wait_for_ports(server, log)
    finally:
        assert server.stdin is not None
        server.stdin.close()  # which ends it
        try:
            server.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for_ports(server: "subprocess.Popen[bytes]", log: Path) -> list[int]:
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and server.poll() is None:
        line, newline, _ = log.read_text().partition("\n")
        if newline:
            ports: list[int] = json.loads(line)
            return ports
        time.sleep(0.05)
    raise ContestantFailed("the benchmark's server did not start")


def read_samples(log: Path) -> list[list[Any]]:
    """Return the samples after the server has ended."""
    return [json.loads(line) for line in log.read_text().splitlines()[1:]]
