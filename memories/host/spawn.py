"""Forking an engine off the warm host, and what the child owes before it serves."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
import resource
import signal
import socket
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from memories.engine import server

from .parent import die_with_parent

_FAILED = 70  # EX_SOFTWARE of sysexits.h: counted as a crash
HANDLED_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


logger = logging.getLogger("renor.engine")


@dataclass(frozen=True, slots=True)
class Spawned:
    """A started engine as the host sees it: its pid and the host's ends of two pipes.

    The engine writes one line to `ready`; it ends when `lifeline` closes.
    """

    pid: int
    ready: int
    lifeline: int


@dataclass(frozen=True, slots=True)
class EngineOptions:
    idle_seconds: float
    allow_network_disk: bool


def spawn_engine(
    directory: Path, listener: socket.socket, keep: int, options: EngineOptions
) -> Spawned:
    """Fork an engine that serves `listener`; the caller closes its own copy.

    `keep` is the descriptor of the sockets' folder, which the listener's address
    goes through. Must be called with the host's state still referenced: the child
    never returns, so that no inherited object closes a descriptor number again.
    """
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    lifeline_read, lifeline_write = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    # A signal between fork and reset would reach the host's wakeup pipe.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        pid = os.fork()
        if pid == 0:
            _be_engine(
                parent, directory, listener, keep, lifeline_read, ready_write, options
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(ready_write)
        os.close(lifeline_read)
    os.set_blocking(ready_read, False)
    return Spawned(pid=pid, ready=ready_read, lifeline=lifeline_write)


def _be_engine(
    parent: int,
    directory: Path,
    listener: socket.socket,
    keep: int,
    lifeline: int,
    ready: int,
    options: EngineOptions,
) -> None:
    """Serve, then leave without running anything of the host's own ending."""
    code = _FAILED
    try:
        gc.freeze()  # nothing inherited is ever collected here
        _reset_signals()
        _close_all_but({0, 1, 2, listener.fileno(), keep, lifeline, ready})
        random.seed()
        # By force: an engine that hangs would keep the lock from the next host's, and
        # the store survives any death. The lifeline is the gentle way.
        die_with_parent(parent, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        code = server.run(
            directory,
            listener,
            idle_seconds=options.idle_seconds,
            lifeline_fd=lifeline,
            ready_fd=ready,
            allow_network_disk=options.allow_network_disk,
        )
    except BaseException:  # noqa: BLE001 - a process's last frame: told, then ended
        _tell_where()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _tell_where() -> None:
    """Log the places of a surprise, not its message, which could quote a memory."""
    kind, _error, frames = sys.exc_info()
    name = kind.__name__ if kind else "unknown"
    places = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(frames))
    ]
    logger.error("engine ended by %s at %s", name, ", in ".join(places))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in HANDLED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    # Ctrl-C reaches the whole group; the host decides when an engine ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _close_all_but(kept: set[int]) -> None:
    low = 0
    for descriptor in sorted(kept):
        if low < descriptor:  # closerange(0, 0) closes everything on Linux
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, max(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
