"""RunLog: which events and records become lines, and what else happens to warnings."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import Frontier, InvalidSetting, Item, Outcome, RunMonitor
from swath.backends.memory import MemoryStore
from swath.core.store import Settings
from swath.logs.run_log import open_run_log
from swath.logs.settings import NO_LOG, LogSettings, find_secrets
from swath.scan.settings import ScanSettings


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def remove_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log without the handlers that pytest adds for each test, as in a command."""
    monkeypatch.setattr(logging.root, "handlers", [])


async def refuse_some(item: Item) -> Outcome:
    if item.key == "bad":
        raise KeyError("no such thing")
    return item.dead(reason="not wanted") if item.key == "dead" else item.done()


async def test_a_run_is_logged_from_its_events(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_run_log(LogSettings(file=str(path), level="debug", format="json")) as log:
        store = MemoryStore(Settings(partitions=1, max_attempts=1))
        async with Frontier(store, observer=log.observer) as frontier:
            log.worker = frontier.worker
            await frontier.add([Item("bad", lane="x"), "dead", "good"])
            await frontier.run(refuse_some, monitor=RunMonitor())
    lines = read(path)
    names = [line["event"] for line in lines]
    assert {"added", "claimed", "settled", "died", "handler_failed", "message"} == set(names)
    assert {line["worker"] for line in lines} == {frontier.worker}
    assert sum(line["done"] for line in lines if line["event"] == "settled") == 1
    fence = next(line["fence"] for line in lines if line["event"] == "claimed")
    died = {line["key"]: line for line in lines if line["event"] == "died"}
    assert (died["dead"]["reason"], died["dead"]["lane"]) == ("not wanted", "default")
    assert "gave up after 1 attempt: KeyError: 'no such thing'" in died["bad"]["reason"]
    (failed,) = [line for line in lines if line["event"] == "handler_failed"]
    assert (failed["key"], failed["lane"], failed["fence"]) == ("bad", "x", fence)
    (message,) = [line for line in lines if line["event"] == "message"]
    assert (message["level"], message["logger"]) == ("warning", "swath.runner")
    assert message["error"].rstrip().endswith("KeyError: 'no such thing'")


async def test_info_leaves_out_what_happens_for_every_claim(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_run_log(LogSettings(file=str(path), format="json")) as log:
        async with swath.open("memory:", observer=log.observer) as frontier:
            await frontier.add(["a", "dead"])
            await frontier.pause("default")
            await frontier.resume("default")
            await frontier.run(refuse_some)
    assert [line["event"] for line in read(path)] == ["lane_changed", "lane_changed", "died"]


async def test_a_state_of_a_run_is_logged_when_it_begins_and_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_run_log(LogSettings(file=str(path), format="json")) as log:
        async with swath.open("memory:", observer=log.observer, min_interval=2.5) as frontier:
            await frontier.add(["a", "b"])
            await frontier.run(refuse_some)
    began, ended = read(path)
    assert (began["event"], began["state"]) == ("state_began", "pacing")
    assert (ended["event"], ended["state"]) == ("state_ended", "pacing")
    assert ended["seconds"] > 0


def test_what_an_event_or_another_process_has_said_is_not_logged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_handlers(monkeypatch)
    path = tmp_path / "log"
    log = logging.getLogger("swath.runner")
    with open_run_log(LogSettings(file=str(path), format="json")):
        log.warning("once", extra=swath.events.AS_EVENT)
        log.warning("twice", extra={"swath_forwarded": True})
        log.warning("%s and %d", "a", 1)
        log.warning("%d", "not a number")
        log.debug("too little")
    assert [line["message"] for line in read(path)] == [
        "a and 1",
        "'%d' (its arguments cannot be shown: TypeError)",
    ]


def test_warnings_still_go_to_standard_error_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_handlers(monkeypatch)
    log = logging.getLogger("swath.runner")
    with open_run_log(LogSettings(file=str(tmp_path / "log"), level="debug")):
        log.warning("look here")
        log.info("not here")
    log.warning("and here")
    said = capsys.readouterr().err
    assert (said.count("look here"), said.count("and here"), "not here" in said) == (1, 1, False)


def test_a_log_on_standard_error_has_each_warning_once(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_handlers(monkeypatch)
    with open_run_log(LogSettings(level="info")):
        logging.getLogger("swath").warning("look here")
    said = capfd.readouterr().err
    assert said.count("look here") == 1
    assert " warning message " in said


def test_an_error_that_ends_the_command_is_the_last_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with pytest.raises(InvalidSetting), open_run_log(LogSettings(file=str(path), format="json")):
        raise InvalidSetting("no such thing")
    with pytest.raises(KeyboardInterrupt), open_run_log(LogSettings(file=str(path), format="json")):
        raise KeyboardInterrupt
    assert [(line["level"], line["event"], line["error"]) for line in read(path)] == [
        ("error", "failed", "no such thing"),
        ("error", "failed", "KeyboardInterrupt"),
    ]


def test_without_a_log_nobody_listens() -> None:
    with open_run_log(NO_LOG) as log:
        assert log.observer is None
        log.write(swath.events.Reopened(1))


@pytest.mark.parametrize("given", [{"level": "loud"}, {"format": "xml"}, {"file": ""}])
def test_a_wrong_option_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting, match="--log-"):
        LogSettings(**given)


def test_the_passwords_in_the_urls_of_a_job_are_secrets() -> None:
    settings = ScanSettings(
        source="postgresql://me:one%21secret@db/app#t", check="a:b", store="postgresql://db/app?password=two-secret"
    )
    assert find_secrets(settings) == {"one%21secret", "one!secret", "two-secret"}
