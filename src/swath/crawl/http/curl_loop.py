"""Run many libcurl transfers on an asyncio event loop. The loop watches the sockets and the timer, without polling."""

import asyncio
from collections.abc import Callable

import pycurl

OnDone = Callable[[pycurl.Curl, int, str], None]


class CurlLoop:
    """The transfers of one event loop. `done(curl, code, message)` is called when one ends; code 0 means success."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, done: OnDone, connections: int, idle: int) -> None:
        """Open at most `connections` at a time, and keep at most `idle` of them for reuse."""
        self._loop = loop
        self._done = done
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self.set_max_idle(idle)
        self._watched: dict[int, int] = {}  # socket -> POLL_IN and POLL_OUT bits that the loop watches
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when libcurl wants to be called
        self._fires = 0.0  # when the timer fires

    def set_max_idle(self, connections: int) -> None:
        """Limit the number of idle connections. libcurl takes 0 for unlimited, so the minimum is 1."""
        self._multi.setopt(pycurl.M_MAXCONNECTS, max(1, connections))

    def add(self, curl: pycurl.Curl) -> None:
        self._multi.add_handle(curl)
        self._running += 1

    def remove(self, curl: pycurl.Curl) -> None:
        """Abort a transfer."""
        self._multi.remove_handle(curl)
        self._running -= 1

    def close(self) -> None:
        """Close all connections. No transfer may be in flight."""
        self._multi.close()
        for socket in list(self._watched):
            self._watch(socket, 0)
        self._cancel_timer()

    def _on_socket(self, wanted: int, socket: int, multi: object, data: object) -> None:
        self._watch(socket, 0 if wanted == pycurl.POLL_REMOVE else wanted)

    def _watch(self, socket: int, wanted: int) -> None:
        """Watch a socket for the events in `wanted`, a set of POLL_IN and POLL_OUT bits."""
        before = self._watched.get(socket, 0)
        changed = before ^ wanted
        if changed & pycurl.POLL_IN:
            if wanted & pycurl.POLL_IN:
                self._loop.add_reader(socket, self._on_ready, socket, pycurl.CSELECT_IN)
            else:
                self._loop.remove_reader(socket)
        if changed & pycurl.POLL_OUT:
            if wanted & pycurl.POLL_OUT:
                self._loop.add_writer(socket, self._on_ready, socket, pycurl.CSELECT_OUT)
            else:
                self._loop.remove_writer(socket)
        if wanted:
            self._watched[socket] = wanted
        else:
            self._watched.pop(socket, None)

    def _on_ready(self, socket: int, what: int) -> None:
        _, running = self._multi.socket_action(socket, what)
        if running < self._running:
            self._reap()

    def _on_timer(self, milliseconds: int) -> None:
        """Set the timer. If libcurl postpones it, keep the earlier one: `_on_due` checks the time when it fires."""
        if milliseconds < 0:
            self._cancel_timer()
            return
        self._due = self._loop.time() + milliseconds / 1000
        if self._timer is None or self._due < self._fires:
            self._set_timer()

    def _set_timer(self) -> None:
        self._cancel_timer()
        self._fires = self._due
        self._timer = self._loop.call_at(self._due, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        if self._loop.time() < self._due:
            self._set_timer()
            return
        _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if running < self._running:
            self._reap()
        self._keep_timer()

    def _keep_timer(self) -> None:
        """Set the timer again. The loop's clock may be ahead of libcurl's, which then does not request a new timer."""
        if self._timer is None and self._running:
            self._on_timer(self._multi.timeout())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reap(self) -> None:
        waiting = 1
        while waiting:
            waiting, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self.remove(curl)
                self._done(curl, 0, "")
            for curl, code, message in failed:
                self.remove(curl)
                self._done(curl, code, message)
