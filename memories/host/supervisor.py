"""The engine host: supervisor and warm fork server in one single-threaded loop.

Wires the control socket to the engines and the watcher, and ends them all. It
imports no Django and nothing that starts threads, and opens no database: every
engine is forked off it. Source: docs/architecture.md, "Processes".
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memories.engine import types, wire

from .control import Control
from .engines import Engines
from .loop import Loop, Timer
from .places import CONTROL_SOCKET, engine_socket, engines_folder, run_folder
from .protocol import HostAnswer, HostStatus, Question
from .sockets import SocketFolder
from .spawn import HANDLED_SIGNALS, EngineOptions
from .watching import Watcher

END_SECONDS = 2.5
"""Engines not gone by then are killed: all is over within 3 s of a SIGTERM."""

SUSPECT_SECONDS = 60.0
"""A reported engine that does not answer a ping this long hangs. Requests are
answered in turn, so a long one (verify) delays the answer of a sound engine."""

HOST_CALLER = types.Caller(
    connection_id="system", name="host", acts=frozenset({"read"})
)

logger = logging.getLogger("renor.host")

Respond = Callable[[HostAnswer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    data: Path
    max_awake: int
    engine: EngineOptions


class Supervisor:
    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._loop = Loop()
        run = run_folder(options.data)
        self._run = SocketFolder(run)
        self._sockets = SocketFolder(engines_folder(run))
        self._watcher = Watcher(self._loop, options.data)
        self._engines = Engines(
            loop=self._loop,
            data=options.data,
            sockets=self._sockets,
            max_awake=options.max_awake,
            options=options.engine,
            on_change=self._on_change,
        )
        self._suspects: dict[str, tuple[socket.socket, Timer]] = {}
        self._control: Control | None = None

    def run(self) -> None:
        """Serve until a SIGTERM, SIGINT or SIGHUP; everything is gone on return."""
        self._loop.on_signals(HANDLED_SIGNALS, self._on_signal)
        self._watcher.start()
        listener = self._run.listen(CONTROL_SOCKET)
        inode = self._run.inode(CONTROL_SOCKET)
        self._control = Control(self._loop, listener, self._answer)
        logger.info("engine host %d serves", os.getpid())
        self._loop.run()
        self._run.remove(CONTROL_SOCKET, inode)
        logger.info("engine host %d ended", os.getpid())

    # Questions

    def _answer(self, question: Question, respond: Respond) -> None:
        if question.verb == "ensure":
            self._engines.ensure(
                question.workspace,
                lambda refusal: respond(HostAnswer(not_now=refusal)),
            )
            return
        if question.verb == "status":
            respond(HostAnswer(status=self._status()))
            return
        if question.verb == "sleep":
            self._engines.sleep(question.workspace)
        elif question.verb == "suspect":
            self._ping_suspect(question.workspace)
        respond(HostAnswer())

    def _status(self) -> HostStatus:
        return HostStatus(
            pid=os.getpid(),
            max_awake=self._options.max_awake,
            watcher=self._watcher.mode,
            engines=self._engines.list_engines(),
            backing_off=self._engines.list_backing_off(),
        )

    def _ping_suspect(self, workspace: str) -> None:
        """Kill an engine that a caller gave up on, unless it answers a ping in time."""
        pid = self._engines.suspect_pid(workspace)
        if pid is None or workspace in self._suspects:
            return
        request = wire.Request(operation=types.PING.name, caller=HOST_CALLER)
        try:
            link = self._sockets.connect(engine_socket(workspace), 0.0)
            link.send(wire.frame(wire.encode(request)))
        except OSError:
            return  # ending, dead or its queue is full: the next report decides
        timer = self._loop.call_later(
            SUSPECT_SECONDS, lambda: self._condemn(workspace, pid)
        )
        self._suspects[workspace] = (link, timer)
        # Any byte, or the end of the link, shows that the engine does something.
        self._loop.watch(link.fileno(), lambda: self._drop_suspicion(workspace))

    def _condemn(self, workspace: str, pid: int) -> None:
        self._drop_suspicion(workspace)
        self._engines.kill(workspace, pid)

    def _drop_suspicion(self, workspace: str) -> None:
        link, timer = self._suspects.pop(workspace)
        timer.cancel()
        self._loop.forget(link.fileno())
        link.close()

    # Signals

    def _on_change(self) -> None:
        self._watcher.tell(self._engines.awake())

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._watcher.reap()
            self._engines.reap()
            self._stop_if_all_ended()
        else:
            self._end()

    def _end(self) -> None:
        """Ask all to end; asked again, do not wait for them."""
        if self._control is None:
            self._engines.end_all(signal.SIGKILL)
            return
        self._control.close()
        self._control = None
        self._watcher.end()
        self._engines.end_all(signal.SIGTERM)
        self._loop.call_later(
            END_SECONDS, lambda: self._engines.end_all(signal.SIGKILL)
        )
        self._stop_if_all_ended()

    def _stop_if_all_ended(self) -> None:
        is_over = not self._engines.engines and not self._watcher.is_running
        if self._control is None and is_over:
            self._loop.stop()
