"""Runs several processes as one: starts them, prefixes what they print, starts again
what dies, and ends all of them together. Knows nothing of what they do.

Output never blocks the loop: a terminal held with Ctrl-S, or a reader that has stopped
reading, must not keep it from seeing SIGTERM.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from memories.host.loop import Loop

# A pipe that polls as writable takes this much without blocking (POSIX: PIPE_BUF).
WRITE_BYTES: Final = 4096
# What waits while nobody reads; beyond it lines are left out, and counted.
WAITING_BYTES: Final = 1_048_576
READ_BYTES: Final = 8192
LINE_BYTES: Final = 16_384

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
# A part that has lived this long starts again after the first pause.
STEADY_SECONDS: Final = 60.0
# All has ended in 5 s: the parts that others lean on are told after these seconds at
# the latest, what is left is killed, and the last lines have a moment to leave.
LEAN_SECONDS: Final = 2.5
KILL_SECONDS: Final = 4.0
FLUSH_SECONDS: Final = 0.5

PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
COLOURS: Final = (36, 32, 35, 34, 33)


def end_with_parent(signum: signal.Signals) -> None:
    """Have the kernel send this process `signum` when its parent ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)


class Terminal:
    """Standard output, line by line, without ever waiting for its reader."""

    def __init__(self, stream: TextIO, loop: Loop) -> None:
        self._fd = stream.fileno()
        self._loop = loop
        self._waiting = bytearray()
        self._left_out = 0
        self._is_watched = False
        self._has_colour = stream.isatty() and "NO_COLOR" not in os.environ
        self._colour_of: dict[str, int] = {}
        self.is_gone = False

    def say(self, name: str, text: str) -> None:
        label = f"{name:<7} |"
        if self._has_colour:
            colour = COLOURS[len(self._colour_of) % len(COLOURS)]
            colour = self._colour_of.setdefault(name, colour)
            label = f"\x1b[{colour}m{label}\x1b[0m"
        self.write(f"{label} {text}\n")

    def write(self, text: str) -> None:
        if self.is_gone:
            return
        if len(self._waiting) > WAITING_BYTES:
            self._left_out += 1
            return
        if self._left_out:
            self._waiting += f"({self._left_out} lines left out)\n".encode()
            self._left_out = 0
        self._waiting += text.encode("utf-8", "replace")
        if not self._is_watched:
            self._watch()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def _watch(self) -> None:
        try:
            self._loop.watch(self._fd, self._write_some)
        except PermissionError:  # epoll refuses what always takes all: a file
            while self._waiting:
                self._write()
            return
        self._loop.watch_writable(self._fd, self._write_some)
        self._is_watched = True

    def _write_some(self) -> None:
        self._write()
        if not self._waiting:
            self._loop.forget(self._fd)
            self._is_watched = False

    def _write(self) -> None:
        try:
            written = os.write(self._fd, self._waiting[:WRITE_BYTES])
        except OSError:  # the reader has gone, or the disk is full
            self.is_gone = True
            written = len(self._waiting)
        del self._waiting[:written]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One process to keep running; parts that others lean on end after those."""

    name: str
    command: Sequence[str]
    is_leaned_on: bool = False


@dataclass(slots=True, eq=False)
class _Child:
    part: Part
    process: subprocess.Popen[bytes]
    output: int
    started: float
    unfinished: bytes = field(default=b"")


class Supervisor:
    """Keeps parts running until it is told to end."""

    def __init__(
        self,
        stream: TextIO,
        *,
        folder: Path,
        env: Mapping[str, str],
        on_ending: Callable[[], None],
    ) -> None:
        self.loop = Loop()
        self.terminal = Terminal(stream, self.loop)
        self._folder = folder
        self._env = env
        self._on_ending = on_ending
        self._children: list[_Child] = []
        self._pauses: dict[str, float] = {}
        self._ending_since: float | None = None

    def say(self, text: str) -> None:
        self.terminal.say("serve", text)

    def wait_for(
        self,
        condition: Callable[[], bool],
        *,
        seconds: float,
        every_seconds: float,
        then: Callable[[bool], None],
    ) -> None:
        """Call `then` in the loop with whether the condition came true in time."""
        deadline = time.monotonic() + seconds

        def look() -> None:
            if self.is_ending:
                return
            is_true = condition()
            if is_true or time.monotonic() > deadline:
                then(is_true)
            else:
                self.loop.call_later(every_seconds, look)

        look()

    @property
    def is_ending(self) -> bool:
        return self._ending_since is not None

    def start(self, part: Part) -> None:
        if self.is_ending:
            return
        read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write_end, True)  # for the part; only this end is ours
        try:
            process = subprocess.Popen(  # noqa: S603  fixed commands of our own
                part.command,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                # Safe: this process has one thread.
                preexec_fn=_prepare_child(os.getpid()),
            )
        finally:
            os.close(write_end)
        child = _Child(part, process, read_end, time.monotonic())
        self._children.append(child)
        self.loop.watch(read_end, lambda: self._read(child))

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or SIGHUP, and then until every part has ended."""
        self.loop.on_signals(
            (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD),
            self._on_signal,
        )
        # A part may have ended before its SIGCHLD could be heard.
        self.loop.call_later(0, self._reap)
        try:
            self.loop.run()
        finally:
            self._kill()

    def end(self) -> None:
        """Tell every part to end, those that others lean on last."""
        self._ending_since = time.monotonic()
        self._on_ending()
        for child in self._children:
            if not child.part.is_leaned_on:
                child.process.terminate()
        self.loop.call_later(LEAN_SECONDS, self._tell_leaned_on)
        self.loop.call_later(KILL_SECONDS, self._kill)
        self._reap()

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        elif self._ending_since is None:
            self.say("ending")
            self.end()
        elif number == signal.SIGINT and time.monotonic() > self._ending_since + 1:
            self._kill()  # asked a second time: now

    def _read(self, child: _Child) -> None:
        data = os.read(child.output, READ_BYTES)
        *lines, rest = (child.unfinished + data).split(b"\n")
        if not data or len(rest) > LINE_BYTES:
            lines, rest = [*lines, rest], b""
        child.unfinished = rest
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text:
                self.terminal.say(child.part.name, text)
        if not data:
            self.loop.forget(child.output)
            os.close(child.output)
        if self.terminal.is_gone and not self.is_ending:
            self.end()  # as a program ends whose terminal was closed

    def _reap(self) -> None:
        for child in list(self._children):
            if child.process.poll() is not None:
                self._children.remove(child)
                self._start_again(child)
        if not self.is_ending:
            return
        if all(child.part.is_leaned_on for child in self._children):
            self._tell_leaned_on()
        if not self._children:
            self._stop_when_said()

    def _start_again(self, child: _Child) -> None:
        if self.is_ending:
            return
        name = child.part.name
        if time.monotonic() - child.started > STEADY_SECONDS:
            self._pauses.pop(name, None)
        pause = self._pauses.get(name, FIRST_PAUSE_SECONDS)
        self._pauses[name] = min(pause * 2, LONGEST_PAUSE_SECONDS)
        how = _describe_end(child.process.returncode)
        self.say(f"{name} ended ({how}) and starts again in {pause:.0f} s")
        self.loop.call_later(pause, lambda: self.start(child.part))

    def _tell_leaned_on(self) -> None:
        for child in self._children:
            if child.part.is_leaned_on:
                child.process.terminate()

    def _kill(self) -> None:
        for child in self._children:
            child.process.kill()

    def _stop_when_said(self) -> None:
        """Leave once the last lines have left, or after half a second without a reader."""
        self.loop.call_later(FLUSH_SECONDS, self.loop.stop)

        def look() -> None:
            if self.terminal.has_waiting:
                self.loop.call_later(0.01, look)
            else:
                self.loop.stop()

        # Not at once: what the parts said last may still lie in their pipes.
        self.loop.call_later(0.05, look)


def _prepare_child(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        end_with_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was asked
            os._exit(1)
        # Ctrl-C and a closed terminal reach the whole process group. The parts leave
        # both to this process, which then ends them in order, one by one.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})

    return prepare


def _describe_end(returncode: int) -> str:
    if returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit code {returncode}"
