"""StateWatch: finds out what an idle run waits for, and logs when a state begins and ends."""

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable

from swath.core import events
from swath.core.clock import as_datetime, lease_clock
from swath.core.status import summarize_status
from swath.core.store import Store
from swath.runner.run_state import NO_ANSWER, Holder, IdleCounts, RunState, StateName
from swath.runner.store_retry import UNAVAILABLE

log = logging.getLogger("swath.runner")

WATCH_SECONDS = 1.0
IDLE_SECONDS = 1.0  # a run that has had no item for this long asks what it waits for
MAX_PENDING = 100  # items among which a claimed one is looked for
LOGGED_ELSEWHERE = {"stopping", "store away", "disk full"}  # except a store that does not answer

_OWN_NAME = re.compile(r"(?P<host>.+):(?P<pid>\d+):[0-9a-f]{6}")  # of a worker, as `Session` chooses it


class StateWatch:
    """Looks once a second. While items are in flight it asks the store nothing."""

    def __init__(self, store: Store, emit: Callable[[events.Event], None]) -> None:
        self._store = store
        self._emit = emit
        self._looked: tuple[float, IdleCounts] | None = None  # the `idle_since` of the run, and its counts then
        self._logged: dict[StateName, tuple[float, int]] = {}  # when a state began that was logged, and its level

    async def look_repeatedly(
        self, idle_since: Callable[[], float | None], states: Callable[[], tuple[RunState, ...]]
    ) -> None:
        while True:
            since = idle_since()
            if since is not None and lease_clock() - since >= IDLE_SECONDS:
                try:
                    self._looked = since, await self._look()
                except UNAVAILABLE:
                    self._looked = None  # the claim loop reports it
                self.log_changes(states())
            await asyncio.sleep(WATCH_SECONDS)

    async def log_repeatedly(self, states: Callable[[], tuple[RunState, ...]]) -> None:
        """Log changes also while the store does not answer `look_repeatedly`."""
        while True:
            self.log_changes(states())
            await asyncio.sleep(WATCH_SECONDS)

    def get_waiting(self, idle_since: float | None) -> IdleCounts | None:
        """Return the counts for a run that is idle since then; None if they are not known or older."""
        if self._looked is None or self._looked[0] != idle_since:
            return None
        return self._looked[1]

    async def _look(self) -> IdleCounts:
        status = summarize_status(await self._store.status())
        return IdleCounts(
            status.ready,
            status.delayed,
            status.claimed,
            status.now,
            status.next_ready_at,
            await self._find_holder() if status.claimed else None,
        )

    async def _find_holder(self) -> Holder | None:
        """Return the worker of the oldest claim."""
        for claim in await self._store.claims(limit=1):
            return Holder(claim.worker, has_ended(claim.worker), as_datetime(claim.expires_at))
        return None

    def log_changes(self, states: tuple[RunState, ...]) -> None:
        """Log which states have begun and ended since the last call."""
        now = lease_clock()
        current = {
            state.name: state
            for state in states
            if state.name not in LOGGED_ELSEWHERE or state.detail.startswith(NO_ANSWER)
        }
        for name in self._logged.keys() - {state.name for state in states}:
            since, level = self._logged.pop(name)
            log.log(level, "no longer %s, after %.1f s", name, now - since, extra=events.AS_EVENT)
            self._emit(events.StateEnded(name, now - since))
        for name, state in current.items():
            if name not in self._logged:
                level = logging.WARNING if self._is_alarming(state) else logging.INFO
                self._logged[name] = now - state.seconds, level
                log.log(level, "%s", state, extra=events.AS_EVENT)
                self._emit(events.StateBegan(name, state.detail))

    def _is_alarming(self, state: RunState) -> bool:
        """Return whether a state is worth a warning. Waiting for a lane or for a worker that lives is normal."""
        if state.name == "leased" and self._looked is not None:
            holder = self._looked[1].holder
            return holder is not None and holder.ended
        return state.name in ("paused", "store away")


def has_ended(worker: str) -> bool:
    """Return whether a worker was a process of this machine that has ended. False if that is not known."""
    match = _OWN_NAME.fullmatch(worker)
    if match is None or match["host"] != socket.gethostname():
        return False
    try:
        os.kill(int(match["pid"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
