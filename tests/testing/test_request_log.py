"""The functions that judge a log find what is wrong with one, and nothing where nothing is."""

from pathlib import Path

import pytest

from swath.testing.web import (
    LoggedRequest,
    RequestLog,
    find_repeats,
    find_too_close,
    find_too_early,
    find_too_many_at_once,
    read_log,
)


def entry(
    started: float, ended: float, *, host: str = "a", target: str = "/", retry_after: float | None = None
) -> LoggedRequest:
    return LoggedRequest(started, ended, host, target, "tests", 200, True, retry_after=retry_after)


POLITE = [entry(0, 1), entry(2, 3, target="/2"), entry(4, 5, target="/3"), entry(0, 9, host="b"), entry(1, 2, host="c")]


def test_a_polite_log_has_nothing_wrong() -> None:
    assert find_too_close(POLITE, 1.0) == []
    assert find_too_many_at_once(POLITE, 1) == {}
    assert find_too_early(POLITE) == []
    assert find_repeats(POLITE) == {}


def test_too_close_counts_from_the_end_of_the_one_before() -> None:
    first, second = entry(0, 5), entry(5.5, 6)
    (pair,) = find_too_close([second, first], 1.0)
    assert (pair.first, pair.second, pair.gap) == (first, second, 0.5)
    assert find_too_close([first, second], 0.5) == []
    assert find_too_close([first, second], 1.0, slack=0.6) == []


def test_too_close_knows_a_long_answer_under_a_short_one() -> None:
    long, short, late = entry(0, 10), entry(2, 3), entry(10.5, 11)
    assert [pair.gap for pair in find_too_close([long, short, late], 1.0)] == [-8, 0.5]


def test_too_close_counts_from_the_start_where_several_at_once_are_allowed() -> None:
    log = [entry(0, 5), entry(1, 5), entry(1.5, 5)]
    assert [pair.gap for pair in find_too_close(log, 1.0, since="start")] == [0.5]
    with pytest.raises(ValueError, match="since='middle'"):
        find_too_close(log, 1.0, since="middle")


def test_too_close_leaves_hosts_apart() -> None:
    assert find_too_close([entry(0, 1, host="a"), entry(1, 2, host="b")], 10.0) == []


def test_what_is_paced_together_can_be_chosen() -> None:
    log = [entry(0, 1, host="a.test"), entry(0.5, 2, host="b.test", retry_after=9), entry(3, 4, host="c.test")]

    def domain(entry: LoggedRequest) -> str:
        return entry.host.partition(".")[2]

    assert find_too_close(log, 1.0) == find_too_early(log) == []
    assert [pair.gap for pair in find_too_close(log, 2.0, lane=domain)] == [-0.5, 1]
    assert find_too_many_at_once(log, 1, lane=domain) == {"test": 2}
    assert len(find_too_early(log, lane=domain)) == 1


def test_too_many_at_once_names_the_host_and_the_number() -> None:
    log = [entry(0, 5), entry(1, 5), entry(2, 5), entry(5, 6), entry(0, 1, host="b")]
    assert find_too_many_at_once(log, 2) == {"a": 3}
    assert find_too_many_at_once(log, 3) == {}


def test_too_early_holds_to_the_last_retry_after() -> None:
    asked = entry(0, 0.1, retry_after=2.0)
    assert find_too_early([asked, entry(2.1, 3)]) == []
    assert [pair.gap for pair in find_too_early([asked, entry(1.5, 1.6)])] == [1.5]
    assert find_too_early([asked, entry(1.5, 1.6, host="b")]) == []


def test_repeats_counts_urls() -> None:
    assert find_repeats([entry(0, 1), entry(2, 3), entry(4, 5, target="/2")]) == {"http://a/": 2}


def test_a_file_is_readable_after_every_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = RequestLog(path)
    log.add(POLITE[0])
    log.add(POLITE[1])
    assert read_log(path) == log.requests == POLITE[:2]
    log.close()
    with path.open("a") as torn:
        torn.write('{"started": 1')
    assert read_log(path) == POLITE[:2]


def test_a_log_that_keeps_nothing_still_counts(tmp_path: Path) -> None:
    log = RequestLog(tmp_path / "log.jsonl", keep=False)
    log.add(POLITE[0])
    log.close()
    assert (log.requests, log.count) == ([], 1)
    again = RequestLog(tmp_path / "log.jsonl")
    again.add(POLITE[1])
    again.close()
    assert read_log(tmp_path / "log.jsonl") == POLITE[:2]
