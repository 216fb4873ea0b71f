"""Connections that break at any moment: what was asked for is looked up, not guessed."""

import asyncio
import random
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.conftest import StartPostgres
from tests.crash.checker import check
from tests.crash.conftest import TIMEOUT
from tests.crash.crew import Crew
from tests.crash.journal import Log
from tests.crash.places import postgres_place
from tests.crash.proxy import CuttingProxy
from tests.crash.workload import Workload
from tests.postgres_server import PostgresServer

LEASE = 300.0  # no claim may be left to its lease: the test would not end in time
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'swath' AND pid = %s"
BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'swath' AND state IS NOT NULL ORDER BY pid"

pytestmark = pytest.mark.timeout(TIMEOUT)


@pytest.fixture
def server(start_postgres: StartPostgres) -> PostgresServer:
    return start_postgres(tcp=True, fsync="off", full_page_writes="off")


def _work(scale: int) -> Workload:
    return Workload(items=2_500 * scale, slow=10, brisk=20, roots=200, lanes=100, retries=False)


def _check_no_attempts(log: Log) -> None:
    """Nobody was lost, so no attempt was counted: a claim whose reply was lost was found again."""
    assert not log.recovered
    assert {hand_out.attempts for hand_out in log.hand_outs} == {0}


async def test_replies_are_cut_off(server: PostgresServer, tmp_path: Path, seed: int, scale: int) -> None:
    """INV-4, INV-5: no item is settled twice and none is left behind, wherever the connection is cut."""
    workload = _work(scale)
    place = postgres_place(server.dsn(tcp=True))
    async with (
        CuttingProxy(server.port or 0, random.Random(seed), most=250 * scale, bytes_between=6_000) as proxy,
        place.open() as frontier,
    ):
        await workload.begin(frontier)
        parts = urlsplit(place.url)
        through = parts._replace(netloc=parts.netloc.replace(f":{server.port}", f":{proxy.port}")).geturl()
        with Crew(tmp_path, through, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(2):
                crew.spawn("run", workers=50)
                crew.spawn("loop")
            await crew.finish(seconds=60 * scale)
        log = crew.log()
        await check(place, log, workload, exact_times=False)
    _check_no_attempts(log)
    assert len(proxy.cuts) >= 50 * scale, "hardly any connection was cut"


async def test_backends_are_terminated(server: PostgresServer, tmp_path: Path, seed: int, scale: int) -> None:
    """The same, with the server's side of a connection ended in the middle of whatever it does."""
    workload = _work(scale)
    place = postgres_place(server.dsn())
    random_ = random.Random(seed)
    async with place.open() as frontier:
        await workload.begin(frontier)
        with Crew(tmp_path, place.url, workload, seed=seed, lease=LEASE) as crew:
            for _ in range(2):
                crew.spawn("run", workers=50)
                crew.spawn("loop")
            terminated = 0
            while terminated < 60 * scale and len(crew.alive) == len(crew.members):
                await crew.progress(random_.randrange(15_000), seconds=1)
                terminated += await asyncio.to_thread(_terminate_one, server.dsn(), random_)
            await crew.finish(seconds=60 * scale)
        log = crew.log()
        await check(place, log, workload, exact_times=False)
    _check_no_attempts(log)
    assert terminated >= 20 * scale, "hardly any backend was terminated"


def _terminate_one(dsn: str, random_: random.Random) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        backends = connection.execute(BACKENDS).fetchall()
        return bool(backends) and bool(connection.execute(TERMINATE, random_.choice(backends)).fetchall())
