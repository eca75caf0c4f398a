"""The one watcher of a machine: sees hand edits in awake stores, pokes their engines.

`python -m memories.host.watcher DATA PARENT_PID`, child of the host. Standard input
brings the awake workspaces, a JSON list a line; standard output tells the mode.
It watches with inotify, and polls when the user's inotify instances are used up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from memories.engine import types, wire

from .parent import die_with_parent
from .places import engine_socket, engines_folder, run_folder, workspace_folder
from .protocol import WatcherMode, receive_frame
from .sockets import SocketFolder

QUIET_SECONDS = 1.5
"""An editor writes a file in several steps; this long after the last, they are over."""

LATEST_SECONDS = 3.0
"""Agents write to the same store: without a latest moment their steady writes would
put off the poke, and a hand edit would not be seen within 5 s."""

REBUILD_SECONDS = 1.0
POLL_DELAY_MS = 1000
POKE_TIMEOUT_SECONDS = 2.0

CALLER = types.Caller(connection_id="system", name="watcher", acts=frozenset({"read"}))


class Notify(Protocol):
    """What is used of watchfiles' RustNotify."""

    def watch(
        self,
        debounce_ms: int,
        step_ms: int,
        timeout_ms: int,
        stop_event: threading.Event | None,
    ) -> set[tuple[int, str]] | str: ...

    def close(self) -> None: ...


MakeNotify = Callable[[list[str], bool], Notify]


@dataclass(slots=True)
class Pending:
    """Workspaces with changes, and when each is to be poked. Times are monotonic."""

    _first: dict[str, float] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)

    def add(self, workspace: str, now: float) -> None:
        self._first.setdefault(workspace, now)
        self._last[workspace] = now

    def take_due(self, now: float) -> list[str]:
        due = [w for w in self._last if self._due_at(w) <= now]
        for workspace in due:
            del self._first[workspace], self._last[workspace]
        return due

    def seconds_to_next(self, now: float) -> float | None:
        moments = [self._due_at(workspace) for workspace in self._last]
        return max(0.0, min(moments) - now) if moments else None

    def _due_at(self, workspace: str) -> float:
        quiet = self._last[workspace] + QUIET_SECONDS
        return min(quiet, self._first[workspace] + LATEST_SECONDS)


class Sight:
    """A watch over several stores; a new one takes the place of the old when they change."""

    def __init__(self, data: Path, make_notify: MakeNotify) -> None:
        self._workspaces = data / "workspaces"
        self._data = data
        self._make_notify = make_notify
        self._notify: Notify | None = None
        self._watched: tuple[str, ...] = ()
        self.mode: WatcherMode = "inotify"

    def look_at(self, workspaces: Iterable[str]) -> None:
        self._watched = tuple(workspaces)
        stores = [workspace_folder(self._data, w) / "store" for w in self._watched]
        present = [str(store) for store in stores if store.is_dir()]
        if self._notify is not None:
            self._notify.close()
            self._notify = None
        if present:
            self._notify = self._open(present)

    def _open(self, stores: list[str]) -> Notify:
        # Tried afresh each time: instances used up by others may be free again.
        try:
            notify = self._make_notify(stores, False)
        except (OSError, WatchfilesRustInternalError):
            self.mode = "polling"
            return self._make_notify(stores, True)
        self.mode = "inotify"
        return notify

    def changed(self, seconds: float, interrupt: threading.Event | None) -> set[str]:
        """Return the workspaces with changes, after `seconds` at the latest."""
        if self._notify is None:
            (interrupt or threading.Event()).wait(seconds)
            return set()
        try:
            found = self._notify.watch(50, 50, max(1, int(seconds * 1000)), interrupt)
        except WatchfilesRustInternalError:
            return self._look_again()
        if isinstance(found, str):  # nothing but "timeout", "stop" or "signal"
            return set()
        named = (self._workspace_of(path) for _kind, path in found)
        return {workspace for workspace in named if workspace}

    def _look_again(self) -> set[str]:
        """Watch anew after a failure; anything may have changed, so all have.

        A name that is not UTF-8 fails, and goes on failing in the same watch. The
        error holds the path, so nothing of it is told.
        """
        # Something that keeps writing to such a file must not keep a core busy.
        time.sleep(REBUILD_SECONDS / 4)
        self.look_at(self._watched)
        return set(self._watched)

    def _workspace_of(self, path: str) -> str:
        """Return whose store `path` lies in; "" for what is no memory (dot names)."""
        parts = Path(path).relative_to(self._workspaces).parts
        is_hidden = any(part.startswith(".") for part in parts)
        return "" if is_hidden else parts[0]


class Inbox:
    """The awake workspaces as the host last named them, read by a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._awake: set[str] = set()
        self.has_news = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> set[str]:
        with self._lock:
            self.has_news.clear()
            return set(self._awake)

    def _read(self) -> None:
        with open(self._descriptor, "rb") as lines:  # noqa: PTH123 - a descriptor
            for line in lines:
                awake = set(msgspec.json.decode(line, type=list[str]))
                with self._lock:
                    self._awake = awake
                    self.has_news.set()
        os._exit(0)  # the host is gone


def watch(data: Path, inbox: Inbox, make_notify: MakeNotify) -> None:
    sockets = SocketFolder(engines_folder(run_folder(data)))
    sight = Sight(data, make_notify)
    pending = Pending()
    watched: set[str] = set()
    rebuilt_at = -REBUILD_SECONDS
    tell_mode(sight.mode)
    while True:
        now = time.monotonic()
        if inbox.has_news.is_set() and now >= rebuilt_at + REBUILD_SECONDS:
            mode = sight.mode
            awake = inbox.take()
            sight.look_at(awake)
            if sight.mode != mode:
                tell_mode(sight.mode)
            # What changed between an engine's opening and this moment was not seen.
            for workspace in awake - watched:
                pending.add(workspace, now - LATEST_SECONDS)
            watched, rebuilt_at = awake, now
        for workspace in pending.take_due(now):
            if not poke(sockets, workspace):
                pending.add(workspace, time.monotonic())
        # News that must wait for its second no longer interrupt: that would spin.
        has_news = inbox.has_news.is_set()
        seconds = _patience(pending.seconds_to_next(now), has_news)
        interrupt = None if has_news else inbox.has_news
        for workspace in sight.changed(seconds, interrupt):
            pending.add(workspace, time.monotonic())


def _patience(seconds: float | None, has_news: bool) -> float:
    longest = REBUILD_SECONDS / 4 if has_news else 60.0
    return longest if seconds is None else min(seconds, longest)


def poke(sockets: SocketFolder, workspace: str) -> bool:
    """Let an engine look at its store. False: it did not answer, try again.

    One that sleeps is left asleep: it looks when it wakes.
    """
    request = wire.Request(operation=types.POKE.name, caller=CALLER)
    try:
        with sockets.connect(engine_socket(workspace), POKE_TIMEOUT_SECONDS) as link:
            link.sendall(wire.frame(wire.encode(request)))
            receive_frame(link)
    except (TimeoutError, BlockingIOError):
        return False
    except (OSError, EOFError, ValueError):
        return True  # nobody there
    return True


def tell_mode(mode: WatcherMode) -> None:
    line = msgspec.json.encode({"mode": mode}) + b"\n"
    os.write(1, line)


def make_rust_notify(stores: list[str], force_polling: bool) -> Notify:
    return RustNotify(stores, False, force_polling, POLL_DELAY_MS, True, True)


def main() -> None:
    data, parent = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host ends it
    die_with_parent(parent, signal.SIGKILL)
    watch(data, Inbox(0), make_rust_notify)


if __name__ == "__main__":
    main()
