"""Errors of handlers: the first of a kind is logged with its traceback, the others are counted."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import swath
from swath import RunMonitor
from swath.core.item import Item, Outcome
from swath.runner.handler_errors import MAX_KINDS, MAX_REASON_CHARS, HandlerErrors, is_power_of_ten
from tests.bench import bench
from tests.cli.conftest import TIMEOUT, environment
from tests.recorder import LogRecorder

TRACE = 'Traceback (most recent call last):\n  File "/home/me/work.py", line 7, in visit\n    foo\nNameError: foo\n'


@pytest.fixture
def log() -> LogRecorder:
    recorder = LogRecorder()
    logging.getLogger("swath").addHandler(recorder)
    return recorder


def test_the_first_error_of_a_kind_has_its_traceback_and_the_others_are_counted(log: LogRecorder) -> None:
    errors = HandlerErrors(handler="handler")
    for number in range(1, 124):
        errors.record(f"k{number}", f"KeyError: {number}", TRACE)
    first = "the handler failed for 'k1': KeyError: 1 (work.py:7); more errors of this kind are only counted"
    assert log.lines[0] == f"{first}\n{TRACE.rstrip()}"
    assert log.lines[1:] == [
        "the handler failed 10 times: KeyError: 1 (work.py:7); last for 'k10'",
        "the handler failed 100 times: KeyError: 1 (work.py:7); last for 'k100'",
    ]
    errors.log_totals()
    errors.log_totals()
    assert log.lines[3:] == ["the handler failed 123 times in all: KeyError: 1 (work.py:7)"]
    (error,) = errors.list()
    assert (error.reason, error.place, error.count, error.key) == ("KeyError: 1", "work.py:7", 123, "k123")


def test_another_type_or_another_place_is_another_kind(log: LogRecorder) -> None:
    errors = HandlerErrors(handler="check")
    errors.record("a", "KeyError: 1", TRACE)
    errors.record("b", "ValueError: 1", TRACE)
    errors.record("c", "KeyError: 1", TRACE.replace("7", "8"))
    errors.record("d", "timed out after 5 s", None)
    assert [str(error) for error in errors.list()] == [
        "KeyError: 1 (work.py:7)",
        "ValueError: 1 (work.py:7)",
        "KeyError: 1 (work.py:8)",
        "timed out after 5 s",
    ]
    assert len(log.lines) == 4
    assert log.lines[3] == "the check failed for 'd': timed out after 5 s; more errors of this kind are only counted"


def test_kinds_and_texts_are_bounded(log: LogRecorder) -> None:
    """INV-9: whatever comes from outside."""
    errors = HandlerErrors(handler="handler")
    for number in range(3 * MAX_KINDS):
        errors.record("k" * 10_000, f"Error{number}: {'x' * 10_000}", TRACE * 1_000)
    assert len(errors.list()) == MAX_KINDS + 1
    assert (str(errors.list()[0]), errors.list()[0].count) == ("other errors", 2 * MAX_KINDS)
    assert all(len(error.reason) <= MAX_REASON_CHARS >= len(error.key) for error in errors.list())
    assert max(map(len, log.lines)) < 10_000


def test_a_long_reason_is_not_kept_as_the_name_of_a_kind(log: LogRecorder) -> None:
    errors = HandlerErrors(handler="handler")
    errors.record("k", "x" * 10_000, None)
    assert [len(name) for name, _ in errors._kinds] == [MAX_REASON_CHARS]


def test_texts_from_outside_cannot_control_a_terminal(log: LogRecorder) -> None:
    errors = HandlerErrors(handler="handler")
    errors.record("\x1b[2J", "ValueError: \x1b]0;owned\x07\u202e", TRACE + "ValueError: \x9b2J")
    (line,) = log.lines
    assert line.replace("\n", "").isprintable()
    assert str(errors.list()[0]).startswith(r"ValueError: \x1b]0;owned\x07\u202e")


def test_the_place_is_the_innermost_frame_outside_of_the_runner(log: LogRecorder) -> None:
    runner = Path(swath.__file__).parent / "runner" / "execution.py"
    crawler = Path(swath.__file__).parent / "crawl" / "page_handler.py"
    errors = HandlerErrors(handler="handler")
    for trace in (
        TRACE,
        f'  File "{crawler}", line 3, in x\n  File "{runner}", line 9, in y\n',
        f'  File "{runner}", line 9, in y\n',
        f'  File "{runner}", line 10, in y\n',
        '  | Traceback\n  |   File "/group.py", line 5, in x\n',
    ):
        errors.record("a", "ValueError: 1", trace)
    assert [error.place for error in errors.list()] == ["work.py:7", "page_handler.py:3", None, None, "group.py:5"]


def test_powers_of_ten() -> None:
    assert [number for number in range(-1, 10_001) if is_power_of_ten(number)] == [1, 10, 100, 1_000, 10_000]


async def test_a_run_logs_and_counts_every_way_in_which_a_handler_fails() -> None:
    async def handler(item: Item) -> Outcome | None:
        match item.key[0]:
            case "a":
                raise ValueError(item.key)
            case "b":
                return 5  # type: ignore[return-value]
            case "c":
                await asyncio.sleep(1_000)
            case "d":
                return item.done(output="no output was given")
        return None

    async with bench() as b:
        await b.frontier.add([f"{letter}{number}" for letter in "abcde" for number in range(12)])
        monitor = RunMonitor()
        summary = await b.frontier.run(handler, until="idle", timeout=0.05, monitor=monitor)
        failed = b.log.of("the handler failed for")
        assert len(failed) == 4
        (raised,) = [line for line in failed if "ValueError: a" in line]
        assert "Traceback (most recent call last)" in raised
        assert len(b.log.of("the handler failed 10 times")) == 4
        assert len(b.log.of("the handler failed 12 times in all")) == 4
    assert sorted(summary.errors.values()) == [12, 12, 12, 12]
    assert summary.errors["timed out after 0.05 s"] == 12
    assert [str(error) for error in monitor.errors] == list(summary.errors)
    assert (summary.done, summary.retried) == (12, 48)


async def test_an_error_that_a_handler_caught_counts_as_well() -> None:
    monitor = RunMonitor(handler="check")

    async def handler(item: Item) -> None:
        monitor.record_error(f"record {item.key}", "NameError: foo", error=TRACE)

    async with bench() as b:
        await b.frontier.add(["a", "b"])
        summary = await b.frontier.run(handler, workers=1, monitor=monitor)
        assert len(b.log.of("the check failed for 'record a': NameError: foo (work.py:7)")) == 1
    assert (summary.errors, summary.done) == ({"NameError: foo (work.py:7)": 2}, 2)


def test_a_new_user_sees_a_bug_at_once(tmp_path: Path) -> None:
    """Without any configuration of logging."""
    tour = Path(__file__).parents[2] / "examples" / "tour.py"
    program = tour.read_text().replace("await asyncio.sleep(", "await asyncio.slep(")
    (tmp_path / "tour.py").write_text(program)
    store = f"sqlite:///{tmp_path}/tour.db"

    async def fill() -> None:
        async with swath.open(store) as frontier:
            await frontier.add(str(number) for number in range(30))

    asyncio.run(fill())
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "tour.py")],
        env=environment(SWATH_STORE=store), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while "AttributeError: module 'asyncio' has no attribute 'slep'" not in said[-1] or len(said) == 1:
            said.append(process.stderr.readline())
        process.terminate()
        out, _ = process.communicate(timeout=TIMEOUT)
    assert said[0].startswith("the handler failed for '0': AttributeError: module 'asyncio' has no attribute 'slep'")
    assert "tour.py:11" in said[0]
    assert said[1] == "Traceback (most recent call last):\n"
    assert "stopped_by='SIGTERM', errors={" in out
    assert '(tour.py:11)": ' in out
