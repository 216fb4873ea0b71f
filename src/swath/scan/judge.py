"""Judge: what `check` and `fix` say about a record, whatever they do."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from swath.core.errors import UsageError
from swath.scan.finding import Finding, Word, after_fix, opened
from swath.scan.record import FileRecord, Record, Unreadable
from swath.scan.sources.source import Step, Trouble

AnyRecord = Record | FileRecord
Refetch = Callable[[Sequence[str]], Iterator[Step]]

CHECK_FAILED = "check-failed"
FIX_FAILED = "fix-failed"
UNMENDABLE = (CHECK_FAILED, "vanished", "unreadable")  # `fix` has nothing to go by


class BadCheck(UsageError):
    """`check` or `fix` does something that it will do again with every record."""


class Judge:
    """Asks `check` about records, and `fix` to mend what it found. Either may be an async function."""

    def __init__(self, check: Callable[..., Any], fix: Callable[..., Any] | None, refetch: Refetch) -> None:
        self._check = check
        self._fix = fix
        self._refetch = refetch
        self.asynchronous = any(map(_is_async, (check, fix)))

    def __call__(self, record: AnyRecord) -> Sequence[Word]:
        try:
            answer = self._check(record)
        except Exception as error:  # noqa: BLE001  whatever a user's function raises is about this record
            return opened([_failure(CHECK_FAILED, error)])
        if answer is None:
            return ()
        findings = _findings(answer, record)
        if self._fix is None or not _mendable(findings):
            return opened(findings)
        try:
            self._fix(record)
        except Exception as error:  # noqa: BLE001
            return opened([*findings, _failure(FIX_FAILED, error)])
        return after_fix(findings, list(self._checked_again(record)))

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
            if isinstance(step, Trouble):
                again.append(step.finding)
            elif isinstance(step, Record | FileRecord):
                try:
                    again += _findings(await self._call(self._check, step, blocking), step)
                except Exception as error:  # noqa: BLE001
                    again.append(_failure(CHECK_FAILED, error))
        return after_fix(findings, again)

    def _checked_again(self, record: AnyRecord) -> Iterator[Finding]:
        """A record that was mended, as it is now. One that is gone has nothing wrong any more."""
        for step in self._refetch([record.key]):
            if isinstance(step, Trouble):
                yield step.finding
            elif isinstance(step, Record | FileRecord):
                try:
                    answer = self._check(step)
                except Exception as error:  # noqa: BLE001
                    yield _failure(CHECK_FAILED, error)
                else:
                    yield from _findings(answer, step)

    async def _call(
        self, function: Callable[..., Any], record: AnyRecord, blocking: Callable[[Callable[[], Any]], Any]
    ) -> Any:
        if _is_async(function):
            return await function(record)
        return await blocking(lambda: function(record))


def _is_async(function: Callable[..., Any] | None) -> bool:
    """Whether calling it gives something to await: an async function, or an object that has one as its `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


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
