"""One thread that waits for descriptors, signals and moments.

Signals arrive as bytes of a wakeup pipe: `select` restarts after a signal, so a
flag set by a handler would be seen only at the next event (research: 300 s late).
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable

Callback = Callable[[], None]


class Timer:
    """A call that is due at a moment, unless cancelled."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callback) -> None:
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        self._callback = None

    def fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._is_running = False

    def watch(self, descriptor: int, callback: Callback) -> None:
        """Call back whenever `descriptor` can be read."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def watch_writable(self, descriptor: int, callback: Callback) -> None:
        """As `watch`, for writing instead; `watch_readable` returns to reading."""
        self._selector.modify(descriptor, selectors.EVENT_WRITE, callback)

    def watch_readable(self, descriptor: int, callback: Callback) -> None:
        self._selector.modify(descriptor, selectors.EVENT_READ, callback)

    def forget(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        due = time.monotonic() + seconds
        heapq.heappush(self._timers, (due, next(self._order), timer))
        return timer

    def on_signals(
        self, numbers: Iterable[signal.Signals], callback: Callable[[int], None]
    ) -> None:
        """Call back in the loop, never inside another callback."""
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _ignore_here)
        self.watch(read_end, lambda: _deliver(read_end, callback))

    def run(self) -> None:
        self._is_running = True
        while self._is_running:
            for key, _events in self._selector.select(self._seconds_to_next()):
                # An earlier callback of this round may have forgotten this one.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._fire_due()

    def stop(self) -> None:
        self._is_running = False

    def _seconds_to_next(self) -> float | None:
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - time.monotonic())

    def _fire_due(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].fire()


def _ignore_here(_number: int, _frame: object) -> None:
    """Stand in for a handler: the wakeup pipe carries the number to the loop."""


def _deliver(read_end: int, callback: Callable[[int], None]) -> None:
    for number in os.read(read_end, 4096):
        callback(number)
