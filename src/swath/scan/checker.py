"""Judge: what `check` and `fix` say about a record, whatever they do."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from swath import UsageError
from swath.scan.finding import Finding, Word, after_fix, opened
from swath.scan.record import AnyRecord, Unreadable
from swath.scan.sources.source import Step, Trouble

Refetch = Callable[[Sequence[str]], Iterator[Step]]

CHECK_FAILED = "check-failed"
FIX_FAILED = "fix-failed"
UNMENDABLE = (CHECK_FAILED, "vanished", "unreadable")  # `fix` has nothing to go by


class Abandoned(Exception):
    """Nobody waits for this any more."""


class Watch(Protocol):
    """What somebody else looks at meanwhile."""

    current: AnyRecord | None
    abandoned: bool


class BadCheck(UsageError):
    """`check` or `fix` does something that it will do again with every record."""


class Judge:
    """Asks `check` about records, and `fix` to mend what it found. Either may be an async function."""

    def __init__(self, check: Callable[..., Any], fix: Callable[..., Any] | None, refetch: Refetch) -> None:
        self._check = check
        self._fix = fix
        self._refetch = refetch
        self.asynchronous = any(map(_is_async, (check, fix)))

    def judge(
        self, records: Sequence[AnyRecord], watch: Watch, *, every: bool
    ) -> Iterator[tuple[AnyRecord, Sequence[Word]]]:
        """Ask about each record, and give back those that there is something to say of; all of them with `every`.

        This runs for every record there is, so it does no more than it must.
        """
        check = self._check
        for record in records:
            if watch.abandoned:
                raise Abandoned
            watch.current = record
            try:
                answer = check(record)
            except Exception as error:  # noqa: BLE001  whatever a user's function raises is about this record
                yield record, opened([_failure(CHECK_FAILED, error)])
                continue
            if answer is not None:
                yield record, self._answered(record, answer)
            elif every:
                yield record, ()
        watch.current = None

    def _answered(self, record: AnyRecord, answer: Any) -> Sequence[Word]:
        findings = _findings(answer, record)
        if self._fix is None or not _mendable(findings):
            return opened(findings)
        try:
            self._fix(record)
        except Exception as error:  # noqa: BLE001
            return opened([*findings, _failure(FIX_FAILED, error)])
        again: list[Finding] = []
        for step in self._refetch([record.key]):
            again += _troubles(step)
            for one in step if isinstance(step, list) else ():
                try:
                    again += _findings(self._check(one), one)
                except Exception as error:  # noqa: BLE001
                    again.append(_failure(CHECK_FAILED, error))
        return after_fix(findings, again)

    async def ask(self, record: AnyRecord, blocking: Callable[[Callable[[], Any]], Any]) -> Sequence[Word]:
        """The same for async functions. `blocking` runs what is not async elsewhere."""
        try:
            answer = await self._call(self._check, record, blocking)
        except Exception as error:  # noqa: BLE001
            return opened([_failure(CHECK_FAILED, error)])
        if answer is None:
            return ()
        findings = _findings(answer, record)
        if self._fix is None or not _mendable(findings):
            return opened(findings)
        try:
            await self._call(self._fix, record, blocking)
        except Exception as error:  # noqa: BLE001
            return opened([*findings, _failure(FIX_FAILED, error)])
        again: list[Finding] = []
        for step in await blocking(lambda: list(self._refetch([record.key]))):
            again += _troubles(step)
            for one in step if isinstance(step, list) else ():
                try:
                    again += _findings(await self._call(self._check, one, blocking), one)
                except Exception as error:  # noqa: BLE001
                    again.append(_failure(CHECK_FAILED, error))
        return after_fix(findings, again)

    async def _call(
        self, function: Callable[..., Any], record: AnyRecord, blocking: Callable[[Callable[[], Any]], Any]
    ) -> Any:
        if _is_async(function):
            return await function(record)
        return await blocking(lambda: function(record))


def _is_async(function: Callable[..., Any] | None) -> bool:
    """Whether calling it gives something to await: an async function, or an object that has one as its `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _troubles(step: Step) -> list[Finding]:
    return [step.finding] if isinstance(step, Trouble) else []


def _mendable(findings: Sequence[Finding]) -> bool:
    return any(finding.code not in UNMENDABLE for finding in findings)


def _findings(answer: Any, record: AnyRecord) -> list[Finding]:
    """What `check` returned. Anything but findings is refused: it would be wrong a million times."""
    if answer is None:
        return []
    if isinstance(answer, Finding):
        return [answer]
    if inspect.iscoroutine(answer):
        answer.close()
        raise BadCheck("check returned a coroutine: declare it with `async def`, so that it is awaited")
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | dict):
        try:
            found = list(answer)
        except BadCheck:
            raise
        except Exception as error:  # noqa: BLE001  a generator raises when it is asked, not when it is made
            return [_failure(CHECK_FAILED, error)]
        if all(isinstance(one, Finding) for one in found):
            return found
    raise BadCheck(
        f"check returned {answer!r:.100} for the record {record.key!r:.100}: "
        "return None, a swath.scan.Finding, or a list of them"
    )


def _failure(code: str, error: Exception) -> Finding:
    """What a user's function raised, and where."""
    if isinstance(error, BadCheck):
        raise error
    if isinstance(error, Unreadable):
        return Finding(error.code, error.said)
    if isinstance(error, UsageError):
        raise BadCheck(str(error)) from error  # a Finding that cannot be one
    last = traceback.format_exception_only(error)[-1].strip()
    places = traceback.extract_tb(error.__traceback__)
    where = f"{places[-1].filename}:{places[-1].lineno}" if places else None
    return Finding(code, last[:1_000], {"at": where})
