"""Lines of a log: bounded, in one piece, without secrets and control characters, whatever the values are."""

import json
import logging
import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath import events
from swath.crawl import events as crawl_events
from swath.logs import entries
from swath.logs.entries import Message, Started, get_level, get_name
from swath.logs.lines import MAX_LINE_BYTES, Origin, format_entry

HERE = Origin(4711, "host:4711:abc")
SECRET = "hunter2secret"


def line(entry: events.Event, *, as_json: bool = False, secrets: tuple[str, ...] = ()) -> str:
    data = format_entry(entry, level=logging.INFO, time=0.1239, origin=HERE, as_json=as_json, secrets=secrets)
    return data.decode()


def test_a_text_line_has_time_level_name_process_worker_and_fields() -> None:
    found = line(events.Died(12, "http://a.example/", "a.example", 3, 'status 503, "busy"'))
    assert found == (
        "1970-01-01T00:00:00.123Z info    died process=4711 worker=host:4711:abc fence=12 key=http://a.example/ "
        'lane=a.example attempt=3 reason="status 503, \\"busy\\""\n'
    )


def test_a_json_line_has_the_same_fields() -> None:
    assert json.loads(line(events.Lost(7, 2, "replaced"), as_json=True)) == {
        "time": "1970-01-01T00:00:00.123Z", "level": "info", "process": 4711, "worker": "host:4711:abc",
        "event": "lost", "fence": 7, "items": 2, "reason": "replaced",
    }  # fmt: skip


def test_every_level_belongs_to_an_event_and_names_are_unique() -> None:
    found = [
        value
        for module in (events, crawl_events, entries)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, events.Event) and value.__module__ == module.__name__
    ]
    assert set(entries.LEVELS) <= set(found)
    assert len({get_name(event) for event in found}) == len(found)
    assert get_name(events.HandlerFailed) == "handler_failed"
    assert get_level(events.Claimed) == get_level(crawl_events.Fetched) == logging.DEBUG


@pytest.mark.parametrize("as_json", [False, True])
@given(text=st.text(max_size=300), size=st.integers(1, 40))
def test_any_value_is_one_bounded_line_that_can_be_read_again(as_json: bool, text: str, size: int) -> None:
    entry = Started("crawl", text, {text[:20]: text * size, "list": (text,) * size, "deep": {"a": {"b": text}}})
    data = format_entry(entry, level=logging.INFO, time=1.0, origin=Origin(1, text), as_json=as_json)
    assert len(data) <= MAX_LINE_BYTES
    assert data.endswith(b"\n")
    assert data.decode()[:-1].isprintable()
    if as_json:
        assert json.loads(data)["event"] == "started"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_long_value_is_cut_and_a_traceback_keeps_its_end(as_json: bool) -> None:
    found = line(Message("swath", "m" * 9_000, "t" * 9_000 + "KeyError"), as_json=as_json)
    assert len(found) <= MAX_LINE_BYTES
    assert re.search(r"m{100,}…", found)
    assert re.search(r"…t{100,}KeyError", found)


@pytest.mark.parametrize(
    "text",
    [
        f"cannot connect to postgresql://me:{SECRET}@db/app",
        f"proxy http://user:{SECRET}@proxy.example:3128 refused",
        f"connection failed: host=db user=me password={SECRET} dbname=app",
        f"password='{SECRET}' host=db",
        f'{{"password": "{SECRET}"}}',
        f"GET / HTTP/1.1 Authorization: Basic {SECRET}",
        f"Proxy-Authorization: Bearer {SECRET}",
        f"curl -H 'authorization: Bearer {SECRET}'",
        f"token was bearer {SECRET}",
        f"postgresql://db/app?sslpassword={SECRET}&x=1",
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_secrets_that_a_text_quotes_are_masked(text: str, as_json: bool) -> None:
    found = line(Message("swath", text, f"Traceback\n{text}"), as_json=as_json)
    assert SECRET not in found
    assert "***" in found


def test_the_passwords_of_the_commands_own_urls_are_masked_wherever_they_are() -> None:
    assert SECRET not in line(Started("crawl", "1", {"proxy": f"odd {SECRET} text"}), secrets=(SECRET,))


def test_a_text_without_secrets_stays_as_it_is() -> None:
    text = 'password authentication failed for user "me" at https://a.example/login?user=me@home'
    assert json.loads(line(Message("swath", text, None), as_json=True))["message"] == text


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    rng = random.Random(5)
    pieces = ["//", ":", "@", "password=", "authorization:", "bearer ", "'", '"', "a", " ", "//a:"]

    def measure(count: int) -> float:
        texts = [piece * count for piece in pieces]
        texts += ["".join(rng.choices(pieces, k=count)) for _ in range(5)]
        began = time.process_time()
        for text in texts:
            line(Message("swath", text, text))
        return time.process_time() - began

    measure(100)
    assert measure(20_000) < 100 * max(measure(1_000), 0.001)  # a quadratic one would take 400 times as long
