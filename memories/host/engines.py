"""The engines of one machine: which are awake, who waits for one, and who must sleep.

Last use is the time of a workspace's socket file: clients touch it at most once a
second (client.py), so the hot path never passes through the host.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from .backoff import Backoff
from .loop import Loop, Timer
from .places import engine_socket, why_not_on_disk, workspace_folder
from .protocol import AwakeEngine, BackingOff, EngineRefusal, NotNow, not_now
from .sockets import SocketFolder
from .spawn import EngineOptions, Spawned, spawn_engine

PATIENCE_SECONDS = 8.0
"""How long a caller is kept waiting; below the gateway's deadline of 10 s."""

START_LIMIT_SECONDS = 120.0
"""An engine not ready by then is ended: opening is replaying a tail, not a rebuild."""

ENDING_LIMIT_SECONDS = 60.0
"""An engine told to end finishes what it has read; this is for one that hangs."""

EXIT_REFUSED = 3
_READY_LIMIT_BYTES = 4096

logger = logging.getLogger("renor.host")

Respond = Callable[[NotNow | None], None]
"""Called once with None when the engine serves, else with why not."""


@dataclass(slots=True)
class Waiter:
    respond: Respond
    patience: Timer | None = None


@dataclass(slots=True)
class Engine:
    workspace: str
    process: Spawned
    socket_inode: int | None
    started_at: float  # monotonic
    since: float  # Unix time
    state: Literal["starting", "awake", "ending"] = "starting"
    is_ready_open: bool = True
    was_ready: bool = False
    ready_line: bytes = b""
    was_asked_to_end: bool = False
    limit: Timer | None = None
    refusal: EngineRefusal | None = None


@dataclass(slots=True)
class Engines:
    loop: Loop
    data: Path
    sockets: SocketFolder
    max_awake: int
    options: EngineOptions
    on_change: Callable[[], None]
    engines: dict[str, Engine] = field(default_factory=dict)
    waiters: dict[str, list[Waiter]] = field(default_factory=dict)
    backoffs: dict[str, Backoff] = field(default_factory=dict)
    is_ending: bool = False

    # Asking

    def ensure(self, workspace: str, respond: Respond) -> None:
        """Answer once the engine serves; concurrent callers share one start."""
        engine = self.engines.get(workspace)
        if engine is not None:
            self._reap([engine])  # the client may have learned first that it died
        refusal = self._why_not(workspace)
        if refusal is not None:
            respond(refusal)
            return
        engine = self.engines.get(workspace)
        if engine is not None and engine.state == "awake":
            if self._is_listening(engine):
                respond(None)
                return
            # It sleeps of its own accord, or has died a moment ago.
            self._mark_ending(engine)
        self._add_waiter(workspace, respond)
        if engine is None:
            self._start_or_make_room(workspace)

    def sleep(self, workspace: str) -> None:
        """Let an engine end, unless it ends already or someone waits for its start."""
        engine = self.engines.get(workspace)
        if engine is None or engine.state == "ending" or workspace in self.waiters:
            return
        self._put_to_sleep(engine)

    def suspect_pid(self, workspace: str) -> int | None:
        """Return the pid of an engine that should be answering."""
        engine = self.engines.get(workspace)
        return engine.process.pid if engine and engine.state == "awake" else None

    def kill(self, workspace: str, pid: int) -> None:
        """End an engine that does not answer; it counts as a crash."""
        engine = self.engines.get(workspace)
        if engine is not None and engine.process.pid == pid:
            logger.warning("engine of %s does not answer, killed", workspace)
            os.kill(pid, signal.SIGKILL)

    def awake(self) -> list[str]:
        return [e.workspace for e in self.engines.values() if e.state == "awake"]

    def list_engines(self) -> list[AwakeEngine]:
        return [
            AwakeEngine(
                workspace=engine.workspace,
                pid=engine.process.pid,
                state=engine.state,
                since=engine.since,
                last_used=self._used_at(engine),
            )
            for engine in self.engines.values()
        ]

    def list_backing_off(self) -> list[BackingOff]:
        now = time.monotonic()
        return [
            BackingOff(
                workspace=workspace,
                failure_count=backoff.failure_count,
                retry_after_seconds=backoff.wait_seconds(now),
            )
            for workspace, backoff in self.backoffs.items()
            if backoff.wait_seconds(now) > 0
        ]

    # Starting

    def _why_not(self, workspace: str) -> NotNow | None:
        if self.is_ending:
            return not_now("ending", "the engine host is ending", 1.0)
        refusal = why_not_on_disk(self.data, workspace)
        if refusal is not None:
            return refusal
        backoff = self.backoffs.get(workspace)
        if backoff is not None:
            now = time.monotonic()
            if backoff.is_over(now):
                del self.backoffs[workspace]
            elif backoff.wait_seconds(now) > 0 and workspace not in self.engines:
                wait = backoff.wait_seconds(now)
                return not_now("crashed", "the workspace's engine has crashed", wait)
        return None

    def _is_listening(self, engine: Engine) -> bool:
        name = engine_socket(engine.workspace)
        if self.sockets.inode(name) != engine.socket_inode:
            return False
        try:
            self.sockets.connect(name, 0.0).close()
        except BlockingIOError:
            return True  # its queue is full: it lives
        except OSError:
            return False
        return True

    def _start_or_make_room(self, workspace: str) -> None:
        if len(self.engines) < self.max_awake:
            self._start(workspace)
            return
        ending = sum(e.state == "ending" for e in self.engines.values())
        promised = sum(self._is_to_be_started(w) for w in self.waiters)
        if ending >= promised:
            return
        oldest = choose_oldest(self.list_engines())
        if oldest is None:
            message = f"{self.max_awake} workspaces are awake and none can sleep now"
            self._respond(workspace, not_now("full", message, 1.0))
            return
        self._put_to_sleep(self.engines[oldest])

    def _is_to_be_started(self, workspace: str) -> bool:
        engine = self.engines.get(workspace)
        return engine is None or engine.state == "ending"

    def _start(self, workspace: str) -> None:
        name = engine_socket(workspace)
        try:
            listener = self.sockets.listen(name)
        except OSError as error:
            reason = errno.errorcode.get(error.errno or 0, "unknown error")
            message = f"no socket could be made ({reason})"
            self._respond(workspace, not_now("refused", message, 5.0))
            return
        try:
            spawned = self._spawn(workspace, listener)
        finally:
            # With a copy left here, a dead engine's callers would wait, not be refused.
            listener.close()
        if spawned is None:
            self.sockets.remove(name)
            message = "the system has no room for one more process"
            self._respond(workspace, not_now("refused", message, 2.0))
            return
        engine = Engine(
            workspace=workspace,
            process=spawned,
            socket_inode=self.sockets.inode(name),
            started_at=time.monotonic(),
            since=time.time(),
        )
        self._limit(engine, START_LIMIT_SECONDS)
        self.engines[workspace] = engine
        self.loop.watch(spawned.ready, lambda: self._read_ready(engine))

    def _spawn(self, workspace: str, listener: socket.socket) -> Spawned | None:
        folder = workspace_folder(self.data, workspace)
        try:
            return spawn_engine(folder, listener, self.sockets.descriptor, self.options)
        except OSError as error:
            logger.warning("fork failed: %s", errno.errorcode.get(error.errno or 0))
            return None

    def _read_ready(self, engine: Engine) -> None:
        data = os.read(engine.process.ready, _READY_LIMIT_BYTES)
        engine.ready_line += data
        if data and b"\n" not in engine.ready_line:
            return
        self._close_ready(engine)
        if engine.ready_line.startswith(b"+"):
            self._become_awake(engine)
        elif engine.ready_line.startswith(b"-"):
            engine.refusal = _decode_refusal(engine.ready_line[1:])
        # Whoever waits is answered when the process is reaped.

    def _become_awake(self, engine: Engine) -> None:
        if engine.state == "starting":  # else it was told to end meanwhile
            engine.state = "awake"
            engine.was_ready = True
            self.on_change()
            self._respond(engine.workspace, None)

    # Ending

    def _put_to_sleep(self, engine: Engine) -> None:
        engine.was_asked_to_end = True
        self._mark_ending(engine)
        os.kill(engine.process.pid, signal.SIGTERM)

    def _mark_ending(self, engine: Engine) -> None:
        engine.state = "ending"
        self._limit(engine, ENDING_LIMIT_SECONDS)
        self.on_change()

    def _limit(self, engine: Engine, seconds: float) -> None:
        """End the engine by force unless it is ready, or gone, by then."""
        if engine.limit is not None:
            engine.limit.cancel()
        pid = engine.process.pid
        engine.limit = self.loop.call_later(
            seconds, lambda: self.kill(engine.workspace, pid)
        )

    def reap(self) -> None:
        """Take note of every engine that has ended, then serve who waited for that."""
        self._reap(list(self.engines.values()))

    def _reap(self, engines: list[Engine]) -> None:
        ended = [engine for engine in engines if self._has_ended(engine)]
        if ended:
            self.on_change()
            self._use_room()

    def _has_ended(self, engine: Engine) -> bool:
        pid, status = os.waitpid(engine.process.pid, os.WNOHANG)
        if pid == 0:
            return False
        if engine.is_ready_open:
            self._read_last_words(engine)
        self._forget(engine)
        code = os.waitstatus_to_exitcode(status)
        if code == EXIT_REFUSED:
            self._refuse_waiting(engine)
        elif not _is_clean_end(engine, code):
            logger.warning("engine of %s ended with %d", engine.workspace, code)
            self._count_crash(engine)
        return True

    def _read_last_words(self, engine: Engine) -> None:
        """Read a ready line that came together with the end."""
        with contextlib.suppress(BlockingIOError):
            engine.ready_line += os.read(engine.process.ready, _READY_LIMIT_BYTES)
        if engine.ready_line.startswith(b"-"):
            engine.refusal = _decode_refusal(engine.ready_line[1:])
        self._close_ready(engine)

    def _close_ready(self, engine: Engine) -> None:
        engine.is_ready_open = False
        self.loop.forget(engine.process.ready)
        os.close(engine.process.ready)
        if engine.limit is not None and engine.state == "starting":
            engine.limit.cancel()

    def _forget(self, engine: Engine) -> None:
        if engine.limit is not None:
            engine.limit.cancel()
        os.close(engine.process.lifeline)
        name = engine_socket(engine.workspace)
        if engine.socket_inode is not None:
            self.sockets.remove(name, engine.socket_inode)
        del self.engines[engine.workspace]

    def _refuse_waiting(self, engine: Engine) -> None:
        refusal = engine.refusal or EngineRefusal()
        wait = max(refusal.retry_after_seconds, 0.5)
        self._respond(engine.workspace, not_now("refused", refusal.message, wait))

    def _count_crash(self, engine: Engine) -> None:
        now = time.monotonic()
        backoff = self.backoffs.setdefault(engine.workspace, Backoff())
        backoff.add_failure(now=now, lived_seconds=now - engine.started_at)
        message = "the workspace's engine has crashed"
        wait = backoff.wait_seconds(now)
        self._respond(engine.workspace, not_now("crashed", message, wait))

    def end_all(self, number: signal.Signals) -> None:
        """Tell every engine to end, and everyone who waits that the host ends."""
        self.is_ending = True
        for workspace in list(self.waiters):
            self._respond(
                workspace, not_now("ending", "the engine host is ending", 1.0)
            )
        for engine in self.engines.values():
            engine.was_asked_to_end = True
            os.kill(engine.process.pid, number)

    # Waiting

    def _add_waiter(self, workspace: str, respond: Respond) -> None:
        waiter = Waiter(respond)
        waiter.patience = self.loop.call_later(
            PATIENCE_SECONDS, lambda: self._give_up(workspace, waiter)
        )
        self.waiters.setdefault(workspace, []).append(waiter)

    def _give_up(self, workspace: str, waiter: Waiter) -> None:
        waiting = self.waiters.get(workspace, [])
        waiting.remove(waiter)
        if not waiting:
            self.waiters.pop(workspace, None)
        waiter.respond(not_now("starting", "the workspace is still starting", 2.0))

    def _respond(self, workspace: str, answer: NotNow | None) -> None:
        for waiter in self.waiters.pop(workspace, []):
            if waiter.patience is not None:
                waiter.patience.cancel()
            waiter.respond(answer)

    def _use_room(self) -> None:
        """Start engines for those who waited for an old process, or for room."""
        for workspace in list(self.waiters):
            if workspace not in self.engines and not self.is_ending:
                self._start_or_make_room(workspace)

    def _used_at(self, engine: Engine) -> float:
        used = self.sockets.used_at(engine_socket(engine.workspace))
        return max(engine.since, used)


def _is_clean_end(engine: Engine, code: int) -> bool:
    if engine.was_asked_to_end:
        return code in (0, -signal.SIGTERM)  # the latter: before its handler stood
    return code == 0 and engine.was_ready


def choose_oldest(engines: list[AwakeEngine]) -> str | None:
    """Return the least recently used engine that can sleep."""
    able = [engine for engine in engines if engine.state == "awake"]
    if not able:
        return None
    return min(able, key=lambda engine: engine.last_used).workspace


def _decode_refusal(line: bytes) -> EngineRefusal:
    try:
        return msgspec.json.decode(line, type=EngineRefusal)
    except msgspec.MsgspecError:
        return EngineRefusal()
