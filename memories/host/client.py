"""The client side of engines and host: a few connections to each awake workspace.

Sockets are tried first; the host is asked only when nobody listens. Thread-safe;
after a fork the child starts with none of its parent's connections.
Source: docs/architecture.md, "Processes".
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import OrderedDict
from pathlib import Path

import msgspec

from memories.engine import wire

from .places import CONTROL_SOCKET, engine_socket, engines_folder
from .protocol import (
    HostAnswer,
    HostStatus,
    NotNow,
    Question,
    Verb,
    decode_answer,
    not_now,
    receive_frame,
)
from .sockets import SocketFolder

IDLE_PER_WORKSPACE = 8
IDLE_WORKSPACES = 128
BUSY_PER_WORKSPACE = 8
PLACE_SECONDS = 1.0
"""An engine answers in turn, so more at once would only wait in its queue, each in a
thread of the door's: half of those stay free for other workspaces, and who finds no
place soon hears "not now"."""

ATTEMPTS = 4
"""One retry is for the race with sleep; more are for a machine with more workspaces in
use than may be awake, where the least recently used is always about to be needed."""

TOUCH_EVERY_SECONDS = 1.0
CONTROL_SECONDS = 9.0


class CannotReach(Exception):
    """No engine took the request: nothing was done. Carries why, and when to retry."""

    def __init__(self, refusal: NotNow) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class LinkBroke(Exception):
    """The request was sent and no answer came: its outcome is unknown."""

    def __init__(self, message: str, *, timed_out: bool) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class _Untaken(Exception):
    """The engine ended before it read the request: connect again."""


class _Workspace:
    """One workspace's idle connections, and the count of those in use."""

    __slots__ = ("free", "idle", "touched_at")

    def __init__(self) -> None:
        self.idle: list[socket.socket] = []
        self.free = threading.BoundedSemaphore(BUSY_PER_WORKSPACE)
        self.touched_at = 0.0


class Client:
    def __init__(self, run: Path) -> None:
        self._run_path = run
        self._lock = threading.Lock()
        self._workspaces: OrderedDict[str, _Workspace] = OrderedDict()
        self._folder: SocketFolder | None = None
        os.register_at_fork(after_in_child=self._drop_inherited)

    def ask(self, workspace: str, request: bytes, deadline: float) -> wire.Reply:
        """Send one framed request and return the reply; `deadline` is monotonic.

        Raises: CannotReach: nothing was done. LinkBroke: unknown.
        """
        entry = self._entry(workspace)
        if not entry.free.acquire(timeout=min(PLACE_SECONDS, _remaining(deadline))):
            raise CannotReach(not_now("full", "the workspace is busy", 1.0))
        try:
            return self._ask(entry, workspace, request, deadline)
        finally:
            entry.free.release()

    def ping_host(self, seconds: float = 1.0) -> bool:
        try:
            self._ask_host("ping", "", seconds)
        except CannotReach:
            return False
        return True

    def host_status(self) -> HostStatus:
        """Raises: CannotReach."""
        answer = self._ask_host("status", "", CONTROL_SECONDS)
        if answer.status is None:
            raise CannotReach(not_now("ending", "the engine host gave no status", 1.0))
        return answer.status

    def sleep(self, workspace: str) -> None:
        """Let an engine end once it has answered what it read. Raises: CannotReach."""
        self._ask_host("sleep", workspace, CONTROL_SECONDS)

    def report_silent(self, workspace: str) -> None:
        """Tell the host that an engine did not answer in time: it may hang."""
        try:
            self._ask_host("suspect", workspace, 1.0)
        except CannotReach:
            return  # without a host, its engines end anyway

    # One request

    def _ask(
        self, entry: _Workspace, workspace: str, request: bytes, deadline: float
    ) -> wire.Reply:
        link = self._take_idle(entry)
        # An engine may fall asleep between the connect and the request.
        for _attempt in range(ATTEMPTS):
            if link is None:
                link = self._connect(workspace, deadline)
            try:
                reply = _exchange(link, request, deadline)
            except _Untaken:
                link.close()
                link = None
                continue
            except BaseException:
                link.close()  # an answer may still come: no later request may read it
                raise
            self._give_back(entry, link)
            self._touch(entry, workspace)
            return reply
        message = "the workspace fell asleep each time it was asked"
        raise CannotReach(not_now("full", message, 1.0))

    def _connect(self, workspace: str, deadline: float) -> socket.socket:
        name = engine_socket(workspace)
        # The engine just ensured may be the one that was about to sleep.
        for _attempt in range(ATTEMPTS):
            link = self._try_connect(name, deadline)
            if link is not None:
                return link
            seconds = min(CONTROL_SECONDS, _remaining(deadline))
            answer = self._ask_host("ensure", workspace, seconds)
            if answer.not_now is not None:
                raise CannotReach(answer.not_now)
        message = "the workspace falls asleep as soon as it wakes"
        raise CannotReach(not_now("full", message, 1.0))

    def _try_connect(self, name: str, deadline: float) -> socket.socket | None:
        try:
            folder = self._engines_folder()
            return folder.connect(name, _remaining(deadline))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:  # its queue of connects was full until the deadline
            raise CannotReach(not_now("full", "the workspace is busy", 1.0)) from error

    def _ask_host(self, verb: Verb, workspace: str, seconds: float) -> HostAnswer:
        question = wire.encode(Question(verb=verb, workspace=workspace))
        try:
            folder = SocketFolder(self._run_path)
            try:
                with folder.connect(CONTROL_SOCKET, max(seconds, 0.001)) as link:
                    link.sendall(wire.frame(question))
                    return decode_answer(receive_frame(link))
            finally:
                folder.close()
        except TimeoutError as error:
            message = "the engine host did not answer in time"
            raise CannotReach(not_now("starting", message, 1.0)) from error
        except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
            message = "the engine host is not running"
            raise CannotReach(not_now("ending", message, 1.0)) from error

    # Connections kept

    def close(self) -> None:
        """Close what is kept open; a later call opens afresh."""
        with self._lock:
            for entry in self._workspaces.values():
                _close_all(entry)
            if self._folder is not None:
                self._folder.close()
                self._folder = None

    def _drop_inherited(self) -> None:
        """Close a forked child's copies of the connections; the parent keeps its own.

        Not through `close`: another thread may have held the lock at the fork.
        """
        for entry in self._workspaces.values():
            _close_all(entry)
        if self._folder is not None:
            self._folder.close()
        self._lock = threading.Lock()
        self._workspaces = OrderedDict()
        self._folder = None

    def _engines_folder(self) -> SocketFolder:
        """Return the folder of sockets, opened once the host has made it."""
        with self._lock:
            if self._folder is None:
                self._folder = SocketFolder(engines_folder(self._run_path))
            return self._folder

    def _entry(self, workspace: str) -> _Workspace:
        with self._lock:
            entry = self._workspaces.get(workspace)
            if entry is None:
                entry = self._workspaces[workspace] = _Workspace()
            self._workspaces.move_to_end(workspace)
            if len(self._workspaces) > IDLE_WORKSPACES:
                _name, oldest = self._workspaces.popitem(last=False)
                _close_all(oldest)
            return entry

    def _take_idle(self, entry: _Workspace) -> socket.socket | None:
        """Return a kept connection that is still quiet: no bye, no end."""
        while True:
            with self._lock:
                if not entry.idle:
                    return None
                link = entry.idle.pop()
            if not _has_input(link):
                return link
            link.close()

    def _give_back(self, entry: _Workspace, link: socket.socket) -> None:
        with self._lock:
            if len(entry.idle) < IDLE_PER_WORKSPACE:
                entry.idle.append(link)
                return
        link.close()

    def _touch(self, entry: _Workspace, workspace: str) -> None:
        now = time.monotonic()
        if now - entry.touched_at >= TOUCH_EVERY_SECONDS:
            entry.touched_at = now
            self._engines_folder().touch(engine_socket(workspace))


def _exchange(link: socket.socket, request: bytes, deadline: float) -> wire.Reply:
    try:
        link.settimeout(_remaining(deadline))
        link.sendall(request)
    except TimeoutError as error:
        # A part may lie in the socket, but no engine acts on a part of a frame.
        raise CannotReach(not_now("full", "the workspace is busy", 1.0)) from error
    except OSError as error:
        raise _Untaken from error
    try:
        link.settimeout(_remaining(deadline))
        reply = wire.decode_reply(receive_frame(link))
    except ConnectionResetError as error:
        # The other end closed with bytes unread, or never accepted: no engine acts on
        # a part of a frame. Had it read all, this would be an end without a reset.
        raise _Untaken from error
    except TimeoutError as error:
        message = "the workspace did not answer in time"
        raise LinkBroke(message, timed_out=True) from error
    except (OSError, EOFError, ValueError, msgspec.MsgspecError) as error:
        message = "the workspace's engine ended while it answered"
        raise LinkBroke(message, timed_out=False) from error
    if reply.bye:
        raise _Untaken
    return reply


def _has_input(link: socket.socket) -> bool:
    poller = select.poll()  # select.select fails on descriptors above 1023
    poller.register(link, select.POLLIN | select.POLLHUP)
    return bool(poller.poll(0))


def _close_all(entry: _Workspace) -> None:
    while entry.idle:
        entry.idle.pop().close()


def _remaining(deadline: float) -> float:
    """Return seconds until `deadline`, never 0: that would mean "do not block"."""
    return max(0.001, deadline - time.monotonic())
