"""Checker: call the user's `check` and `fix` for records, and handle whatever they return or raise."""

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from swath import UsageError
from swath.scan.finding import Finding, FindingEvent, compare_after_fix, make_open_events
from swath.scan.record import AnyRecord, Unreadable
from swath.scan.sources.source import ReadStep, SourceFinding

Refetch = Callable[[Sequence[str]], Iterator[ReadStep]]

CHECK_FAILED = "check-failed"
FIX_FAILED = "fix-failed"
UNFIXABLE = (CHECK_FAILED, "vanished", "unreadable")  # `fix` is not called for these alone


class Abandoned(Exception):
    """The result of this scan is no longer wanted."""


class CheckProgress(Protocol):
    """The progress of a check, which the event loop watches."""

    current: AnyRecord | None
    abandoned: bool


class BadCheck(UsageError):
    """`check` or `fix` is wrong in a way that would repeat for every record."""


class Checker:
    """Calls `check` for records, and `fix` for those with findings. Both may be async functions.

    `record_error` is that of `RunMonitor`. It is called in any thread.
    """

    def __init__(
        self,
        check: Callable[..., Any],
        fix: Callable[..., Any] | None,
        refetch: Refetch,
        record_error: Callable[..., None],
    ) -> None:
        self._check = check
        self._fix = fix
        self._refetch = refetch
        self._record_error = record_error
        self.is_async = any(map(_is_async, (check, fix)))

    def check_records(
        self, records: Sequence[AnyRecord], progress: CheckProgress, *, every: bool
    ) -> Iterator[tuple[AnyRecord, Sequence[FindingEvent]]]:
        """Check records and yield those that have findings; with `every`, yield all of them.

        This loop runs for every record, so it does no extra work.
        """
        check = self._check
        for record in records:
            if progress.abandoned:
                raise Abandoned
            progress.current = record
            try:
                answer = check(record)
            except Exception as error:  # noqa: BLE001  user code
                yield record, make_open_events([self._fail(record, CHECK_FAILED, error)])
                continue
            if answer is not None:
                yield record, self._apply_fix(record, answer)
            elif every:
                yield record, ()
        progress.current = None

    def _apply_fix(self, record: AnyRecord, answer: Any) -> Sequence[FindingEvent]:
        findings = self._parse_answer(answer, record)
        if self._fix is None or not _is_fixable(findings):
            return make_open_events(findings)
        try:
            self._fix(record)
        except Exception as error:  # noqa: BLE001
            return make_open_events([*findings, self._fail(record, FIX_FAILED, error)])
        again: list[Finding] = []
        for step in self._refetch([record.key]):
            again += _get_source_findings(step)
            for one in step if isinstance(step, list) else ():
                try:
                    again += self._parse_answer(self._check(one), one)
                except Exception as error:  # noqa: BLE001
                    again.append(self._fail(one, CHECK_FAILED, error))
        return compare_after_fix(findings, again)

    async def check_async(
        self, record: AnyRecord, run_blocking: Callable[[Callable[[], Any]], Any]
    ) -> Sequence[FindingEvent]:
        """Check one record with async functions. `run_blocking` runs blocking calls in a thread."""
        try:
            answer = await self._call(self._check, record, run_blocking)
        except Exception as error:  # noqa: BLE001
            return make_open_events([self._fail(record, CHECK_FAILED, error)])
        if answer is None:
            return ()
        findings = self._parse_answer(answer, record)
        if self._fix is None or not _is_fixable(findings):
            return make_open_events(findings)
        try:
            await self._call(self._fix, record, run_blocking)
        except Exception as error:  # noqa: BLE001
            return make_open_events([*findings, self._fail(record, FIX_FAILED, error)])
        again: list[Finding] = []
        for step in await run_blocking(lambda: list(self._refetch([record.key]))):
            again += _get_source_findings(step)
            for one in step if isinstance(step, list) else ():
                try:
                    again += self._parse_answer(await self._call(self._check, one, run_blocking), one)
                except Exception as error:  # noqa: BLE001
                    again.append(self._fail(one, CHECK_FAILED, error))
        return compare_after_fix(findings, again)

    async def _call(
        self, function: Callable[..., Any], record: AnyRecord, run_blocking: Callable[[Callable[[], Any]], Any]
    ) -> Any:
        if _is_async(function):
            return await function(record)
        return await run_blocking(lambda: function(record))

    def _parse_answer(self, answer: Any, record: AnyRecord) -> list[Finding]:
        """Return the findings that `check` returned. Raise BadCheck for anything else."""
        if answer is None:
            return []
        if isinstance(answer, Finding):
            return [answer]
        if inspect.iscoroutine(answer):
            answer.close()
            raise BadCheck("check returned a coroutine. Declare the function with `async def`, so that it is awaited")
        if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | dict):
            try:
                found = list(answer)
            except BadCheck:
                raise
            except Exception as error:  # noqa: BLE001  user code: a generator raises when it is iterated
                return [self._fail(record, CHECK_FAILED, error)]
            if all(isinstance(one, Finding) for one in found):
                return found
        raise BadCheck(
            f"check returned {answer!r:.100} for the record {record.key!r:.100}. "
            "Return None, a swath.scan.Finding or a list of them"
        )

    def _fail(self, record: AnyRecord, code: str, error: Exception) -> Finding:
        """Count an exception of a user's function, and return the finding for it, with its location."""
        if isinstance(error, BadCheck):
            raise error
        if isinstance(error, Unreadable):
            return Finding(error.code, error.message)
        if isinstance(error, UsageError):
            raise BadCheck(str(error)) from error  # an invalid Finding
        last = traceback.format_exception_only(error)[-1].strip()
        places = traceback.extract_tb(error.__traceback__)
        where = f"{places[-1].filename}:{places[-1].lineno}" if places else None
        self._record_error(record.key, last, error=error)
        return Finding(code, last[:1_000], {"at": where})


def _is_async(function: Callable[..., Any] | None) -> bool:
    """Return whether a call returns an awaitable: an async function, or an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _get_source_findings(step: ReadStep) -> list[Finding]:
    return [step.finding] if isinstance(step, SourceFinding) else []


def _is_fixable(findings: Sequence[Finding]) -> bool:
    return any(finding.code not in UNFIXABLE for finding in findings)
