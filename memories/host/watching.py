"""The host's side of the one watcher: started, told what is awake, restarted."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import msgspec

from .loop import Loop
from .protocol import WatcherMode

RESTART_SECONDS = 2.0
_ROOT = Path(__file__).resolve().parents[2]

logger = logging.getLogger("renor.host")


class WatcherWord(msgspec.Struct, kw_only=True):
    """What the watcher says on its standard output, one JSON object a line."""

    mode: WatcherMode


class Watcher:
    """The child process that watches the stores of awake workspaces."""

    def __init__(self, loop: Loop, data: Path) -> None:
        self._loop = loop
        self._data = data
        self._pid: int | None = None
        self._said = b""
        self._input = self._output = -1
        self._awake: list[str] = []
        self._is_telling_due = False
        self._is_ending = False
        self.mode: WatcherMode = "starting"

    def start(self) -> None:
        if self._is_ending:
            return
        input_read, self._input = os.pipe2(os.O_CLOEXEC)
        self._output, output_write = os.pipe2(os.O_CLOEXEC)
        command = [sys.executable, "-m", "memories.host.watcher", str(self._data)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [*command, str(os.getpid())],
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, input_read, 0),
                    (os.POSIX_SPAWN_DUP2, output_write, 1),
                ],
                setsigdef=[signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE],
            )
        finally:
            os.close(input_read)
            os.close(output_write)
        os.set_blocking(self._input, False)
        self._loop.watch(self._output, self._read)
        self._tell()

    def tell(self, awake: list[str]) -> None:
        """Let the watcher know what is awake, soon: several changes go together."""
        self._awake = awake
        if not self._is_telling_due:
            self._is_telling_due = True
            self._loop.call_later(0.02, self._tell)

    def _tell(self) -> None:
        self._is_telling_due = False
        if self._pid is None:
            return
        line = msgspec.json.encode(self._awake) + b"\n"
        try:
            sent = os.write(self._input, line)
        except (BrokenPipeError, BlockingIOError):
            sent = 0
        if sent < len(line):  # it no longer reads: a fresh one gets the whole list
            self.kill()

    def _read(self) -> None:
        data = os.read(self._output, 4096)
        if not data:
            self._loop.forget(self._output)
            os.close(self._output)
            self._output = -1
            return
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self.mode = msgspec.json.decode(line, type=WatcherWord).mode

    def reap(self) -> None:
        """Notice its end and start another."""
        if self._pid is None or os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            return
        self._pid = None
        self.mode = "starting"
        self._said = b""
        os.close(self._input)
        if self._output >= 0:
            self._loop.forget(self._output)
            os.close(self._output)
            self._output = -1
        if not self._is_ending:
            logger.warning("the watcher ended, another one starts")
            self._loop.call_later(RESTART_SECONDS, self.start)

    def kill(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)

    def end(self) -> None:
        """It holds nothing: no need for a gentle end."""
        self._is_ending = True
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._pid is not None
