"""What becomes of records whose `check` or `fix` returns, raises or awaits this or that."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from swath.scan.checker import Abandoned, BadCheck, Checker
from swath.scan.finding import Finding
from swath.scan.record import Record, Unreadable
from swath.scan.sources.source import ReadCounts, ReadStep, SourceFinding

ODD, EVEN = Record("odd", 1), Record("even", 2)
BAD = Finding("odd")


class Progress:
    current: Any = None
    abandoned = False


class Trial:
    """A checker whose source returns `again` when a record is fetched once more."""

    def __init__(self, check: Callable[..., Any], fix: Callable[..., Any] | None, again: Sequence[ReadStep]) -> None:
        self.errors: list[tuple[str, str]] = []
        self._again = again
        self._checker = Checker(check, fix, self._fetch, self._record_error)

    def _fetch(self, keys: Sequence[str]) -> Iterator[ReadStep]:
        assert keys == ["odd"]
        yield from self._again

    def _record_error(self, key: str, text: str, *, error: Exception) -> None:
        self.errors.append((key, text))

    async def run(self) -> dict[str, list[tuple[str, str]]]:
        """The codes of both records, with their states."""
        events: dict[str, Sequence[Any]] = {}
        if self._checker.is_async:
            for record in (ODD, EVEN):
                events[record.key] = await self._checker.check_async(record, call)
        else:
            progress = Progress()
            for checked, found in self._checker.check_records([ODD, EVEN], progress, every=False):
                assert progress.current is checked
                events[checked.key] = found
            assert progress.current is None
        return {key: [(event.finding.code, event.state) for event in found] for key, found in events.items() if found}


async def call(function: Callable[[], Any]) -> Any:
    return function()


Make = Callable[..., Trial]


@pytest.fixture(params=["plain", "async"])
def make(request: pytest.FixtureRequest) -> Make:
    """A trial of plain functions, or of async ones that do the same."""

    def make_async(function: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        if function is None or request.param == "plain":
            return function

        async def wrapped(record: Any) -> Any:
            return function(record)

        return wrapped

    def make(check: Callable[[Any], Any], fix: Any = None, again: Sequence[ReadStep] = ()) -> Trial:
        checked = make_async(check)
        assert checked is not None
        return Trial(checked, make_async(fix), again)

    return make


def find_odd(record: Any) -> Finding | None:
    return BAD if record.value % 2 else None


def fail(record: Any) -> None:
    raise ValueError(f"no {record.key}")


def refuse() -> Finding:
    raise BadCheck("no")


def do_nothing(record: Any) -> None:
    pass


async def test_only_records_with_findings_are_reported(make: Make) -> None:
    assert await make(find_odd).run() == {"odd": [("odd", "open")]}
    assert await make(lambda record: [BAD, Finding("b")] if record is ODD else []).run() == {
        "odd": [("odd", "open"), ("b", "open")]
    }
    assert await make(do_nothing).run() == {}


async def test_every_record_is_reported_if_asked_for() -> None:
    checker = Checker(find_odd, None, lambda keys: iter(()), lambda *args, **more: None)
    found = list(checker.check_records([ODD, EVEN], Progress(), every=True))
    assert [(record.key, len(events)) for record, events in found] == [("odd", 1), ("even", 0)]


async def test_a_check_that_raises_is_a_finding_and_the_next_record_is_checked(make: Make) -> None:
    trial = make(lambda record: fail(record) if record is ODD else BAD)
    assert await trial.run() == {"odd": [("check-failed", "open")], "even": [("odd", "open")]}
    assert trial.errors == [("odd", "ValueError: no odd")]


async def test_a_generator_that_raises_is_a_finding_with_its_place(make: Make) -> None:
    def check(record: Any) -> Iterator[Finding]:
        yield BAD
        raise ValueError

    trial = make(check)
    assert await trial.run() == {"odd": [("check-failed", "open")], "even": [("check-failed", "open")]}
    assert [key for key, _ in trial.errors] == ["odd", "even"]


@pytest.mark.parametrize("code", ["vanished", "unreadable", "check-failed"])
async def test_what_a_fix_cannot_help_is_not_fixed(make: Make, code: str) -> None:
    """Such as when a generator raises. With another finding beside it, the fix is called."""
    fixed: list[str] = []
    trial = make(lambda record: Finding(code), lambda record: fixed.append(record.key))
    assert await trial.run() == {"odd": [(code, "open")], "even": [(code, "open")]}
    assert fixed == []
    both = make(lambda record: [Finding(code), BAD] if record is ODD else None, lambda record: fixed.append(record.key))
    await both.run()
    assert fixed == ["odd"]


async def test_a_file_that_cannot_be_read_is_a_finding_of_its_own_code(make: Make) -> None:
    def check(record: Any) -> None:
        if record is ODD:
            raise Unreadable(FileNotFoundError(2, "gone"))

    trial = make(check, fix=fail)
    assert await trial.run() == {"odd": [("vanished", "open")]}
    assert trial.errors == [], "it is not the fault of the check, and there is nothing to fix"


@pytest.mark.parametrize(
    ("again", "events"),
    [
        ([], [("odd", "fixed")]),
        ([ReadCounts(), [Record("odd", 2)]], [("odd", "fixed")]),
        ([[Record("odd", 3)]], [("odd", "open")]),
        ([SourceFinding("odd", Finding("unreadable"))], [("odd", "fixed"), ("unreadable", "open")]),
    ],
)
async def test_a_fixed_record_is_fetched_and_checked_again(
    make: Make, again: Sequence[ReadStep], events: list[tuple[str, str]]
) -> None:
    fixed: list[str] = []
    assert await make(find_odd, lambda record: fixed.append(record.key), again).run() == {"odd": events}
    assert fixed == ["odd"]


async def test_a_fix_that_raises_leaves_the_finding_open(make: Make) -> None:
    trial = make(find_odd, fail, [[Record("odd", 2)]])
    assert await trial.run() == {"odd": [("odd", "open"), ("fix-failed", "open")]}
    assert trial.errors == [("odd", "ValueError: no odd")]


async def test_a_check_that_raises_after_the_fix_is_a_finding(make: Make) -> None:
    trial = make(lambda record: BAD if record is ODD else None if record is EVEN else fail(record), do_nothing,
                 [[Record("odd", 2)]])  # fmt: skip
    assert await trial.run() == {"odd": [("odd", "fixed"), ("check-failed", "open")]}


@pytest.mark.parametrize(
    ("check", "complaint"),
    [
        (lambda record: "text", "check returned 'text' for the record 'odd'. Return None"),
        (lambda record: {"code": 1}, "check returned {'code': 1}"),
        (lambda record: [BAD, 7], r"check returned \[Finding"),
        (lambda record: Finding(""), "code '' of a finding is not valid"),
        (lambda record: (Finding("\n") for _ in range(1)), "of a finding is not valid"),
        (lambda record: (refuse() for _ in range(1)), "^no$"),
    ],
)
async def test_an_answer_that_would_be_wrong_for_every_record_ends_the_scan(
    make: Make, check: Callable[..., Any], complaint: str
) -> None:
    with pytest.raises(BadCheck, match=complaint):
        await make(check).run()


async def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async() -> None:
    async def later(record: Any) -> None:
        pass

    with pytest.raises(BadCheck, match="Declare the function with `async def`"):
        await Trial(lambda record: later(record), None, ()).run()  # noqa: PLW0108  it is not async itself


async def test_a_scan_that_is_no_longer_wanted_checks_no_further_record() -> None:
    progress, checked = Progress(), list[str]()
    checker = Checker(lambda record: checked.append(record.key), None, lambda keys: iter(()), lambda *_, **more: None)
    results = checker.check_records([ODD, EVEN], progress, every=True)
    next(results)
    progress.abandoned = True
    with pytest.raises(Abandoned):
        next(results)
    assert checked == ["odd"]


def test_records_are_printed_with_their_key_and_a_bounded_value() -> None:
    assert repr(Record(7, {"a": 1})) == "<Record 7: {'a': 1}>"
    assert len(repr(Record("k", "x" * 10_000))) < 300
