"""One engine behind its socket: a single-threaded loop, requests in turn.

The only process that touches the workspace's folder. It ends when idle, on
SIGTERM, and when its host's pipe closes; indexing runs in slices between
requests. Source: docs/architecture.md, docs/decisions/0006.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path

import msgspec

from . import files, wire
from .engine import Engine
from .errors import Busy, Conflict, EngineError, Invalid
from .keeping import SLICE_SECONDS
from .types import OPERATIONS, PING, POKE, Nothing

READ_BYTES = 256 * 1024
DRAIN_SECONDS = 1.0
PAGE_SECONDS = 2.0
"""Quiet after the last request before the page of facts is made anew."""

CANNOT_OPEN = 3
RETRY_SECONDS = 2
_QUIET = frozenset({PING.name, POKE.name})


def run(
    directory: Path,
    listener: socket.socket,
    *,
    idle_seconds: float,
    lifeline_fd: int | None = None,
    ready_fd: int | None = None,
    allow_network_disk: bool = False,
) -> int:
    """Open a workspace and serve it until idle, SIGTERM or EOF on `lifeline_fd`.

    Writes one line to `ready_fd`: `+`, or `-` and JSON saying why not. Returns the
    process's exit code: 0, or CANNOT_OPEN.
    """
    try:
        if not allow_network_disk:
            files.require_local_disk(directory)
        lock = files.WorkspaceLock(directory / "lock")
        engine = Engine(directory)
    except (EngineError, OSError, files.DiskFailed) as fault:
        _say_ready(ready_fd, _why_not(fault))
        return CANNOT_OPEN
    except Exception as fault:  # noqa: BLE001 - refused with a reason, not crashed
        _report(fault)
        _say_ready(ready_fd, _why_not(OSError(0, type(fault).__name__)))
        return CANNOT_OPEN
    loop = _Loop(engine, lock, listener, idle_seconds, lifeline_fd)
    _say_ready(ready_fd, b"+\n")
    try:
        return loop.serve()
    finally:
        engine.close()
        lock.release()


def _why_not(fault: Exception) -> bytes:
    if isinstance(fault, EngineError):
        code, message = fault.code, fault.message
    else:
        reason = fault.strerror if isinstance(fault, OSError) else str(fault)
        code, message = "unavailable", f"the workspace cannot be opened: {reason}"
    said = {"code": code, "message": message, "retry_after_seconds": RETRY_SECONDS}
    return b"-" + msgspec.json.encode(said) + b"\n"


def _say_ready(ready_fd: int | None, line: bytes) -> None:
    if ready_fd is None:
        return
    with contextlib.suppress(BrokenPipeError):
        os.write(ready_fd, line)
    os.close(ready_fd)


class _Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.received = bytearray()
        self.to_send = bytearray()

    def take_frame(self) -> bytes | None:
        """Return the next whole frame's body. Raises: ValueError over the limit."""
        if len(self.received) < wire.LENGTH_BYTES:
            return None
        size = int.from_bytes(self.received[: wire.LENGTH_BYTES], "big")
        if size > wire.MAX_FRAME_BYTES:
            raise ValueError
        end = wire.LENGTH_BYTES + size
        if len(self.received) < end:
            return None
        body = bytes(self.received[wire.LENGTH_BYTES : end])
        del self.received[:end]
        return body


class _Loop:
    def __init__(
        self,
        engine: Engine,
        lock: files.WorkspaceLock,
        listener: socket.socket,
        idle_seconds: float,
        lifeline_fd: int | None,
    ) -> None:
        self._engine = engine
        self._lock = lock
        self._listener = listener
        self._idle_seconds = idle_seconds
        self._lifeline_fd = lifeline_fd
        self._selector = selectors.DefaultSelector()
        self._connections: set[_Connection] = set()
        self._last_use = time.monotonic()
        self._ending = False
        self._has_work = True
        self._wants_page = True
        self._exit_code = 0
        self._socket_path = Path(listener.getsockname())
        self._socket_inode = _inode(self._socket_path)

    def serve(self) -> int:
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        if self._lifeline_fd is not None:
            self._selector.register(self._lifeline_fd, selectors.EVENT_READ)
        # A flag alone is not enough: select() restarts after a signal.
        signals, wake = socket.socketpair()
        for end in (signals, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        self._selector.register(signals, selectors.EVENT_READ)
        try:
            while not self._ending:
                self._turn(signals)
            with contextlib.suppress(Busy):
                self._require_lock()
                self._engine.write_page()
        except files.DiskFailed:
            self._exit_code = 1
        self._end()
        signal.set_wakeup_fd(-1)
        return self._exit_code

    def _turn(self, signals: socket.socket) -> None:
        left = self._idle_seconds - (time.monotonic() - self._last_use)
        if left <= 0 and not self._has_work:
            self._ending = True
            return
        ready = self._selector.select(self._patience(left))
        requests: list[tuple[_Connection, bytes]] = []
        for key, _ in ready:
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _Connection):
                requests += self._receive(key.data)
            elif key.fileobj is signals or key.fd == self._lifeline_fd:
                self._ending = True
        # What was read is answered even when this turn is the last.
        self._answer_all(requests)
        if self._has_work and not self._ending:
            self._work()

    def _work(self) -> None:
        """Take in what other hands did, which may write: the lock must be ours."""
        try:
            self._require_lock()
        except Busy:
            return
        self._has_work = self._engine.work(SLICE_SECONDS)

    def _patience(self, left: float) -> float:
        """Return how long to wait for requests; make the page when it is quiet."""
        if self._has_work:
            return 0
        due = self._engine.store.settle_in()
        if due == 0:
            self._engine.look_again()
            self._has_work = True
            return 0
        if due is not None:
            return min(max(left, 0), due)
        if not self._wants_page:
            return max(left, 0)
        quiet = time.monotonic() - self._last_use
        if quiet < PAGE_SECONDS:
            return PAGE_SECONDS - quiet
        self._wants_page = False
        with contextlib.suppress(Busy):
            self._require_lock()
            self._engine.write_page()
        return 0

    def _answer_all(self, requests: list[tuple[_Connection, bytes]]) -> None:
        """Answer in order; writes that wait together share a flush.

        Raises: files.DiskFailed, nobody answered: what is on the disk is unknown. The
        next engine reads it afresh, and the gateway asks that one what was written.
        """
        if len(requests) > 1:
            with self._engine.sharing_flushes():
                answers = [self._answer(body) for _, body in requests]
        else:
            answers = [self._answer(body) for _, body in requests]
        for (connection, _), answer in zip(requests, answers, strict=True):
            connection.to_send += wire.frame(answer)
        for connection in {id(c): c for c, _ in requests}.values():
            self._send(connection)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            sock, _ = self._listener.accept()
            if _peer_uid(sock) not in (os.getuid(), 0):
                sock.close()
                return
            sock.setblocking(False)
            connection = _Connection(sock)
            self._connections.add(connection)
            self._selector.register(sock, selectors.EVENT_READ, connection)

    def _receive(self, connection: _Connection) -> list[tuple[_Connection, bytes]]:
        """Take in what a connection has sent; return its whole requests."""
        try:
            if connection.to_send:
                self._send(connection)
                return []
            data = connection.sock.recv(READ_BYTES)
            if not data:
                self._drop(connection)
                return []
            connection.received += data
            requests = []
            while (body := connection.take_frame()) is not None:
                requests.append((connection, body))
        except BlockingIOError:
            return []
        except (OSError, ValueError):
            self._drop(connection)
            return []
        return requests

    def _send(self, connection: _Connection) -> None:
        """Send what the socket takes; the rest when it is ready for more."""
        try:
            while connection.to_send:
                sent = connection.sock.send(connection.to_send)
                del connection.to_send[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return
        wanted = selectors.EVENT_WRITE if connection.to_send else selectors.EVENT_READ
        self._selector.modify(connection.sock, wanted, connection)

    def _drop(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._selector.unregister(connection.sock)
        connection.sock.close()

    def _answer(self, body: bytes) -> bytes:
        """Return the reply to a request. Raises: files.DiskFailed."""
        try:
            request = wire.decode_request(body)
            if request.operation not in _QUIET:
                self._last_use = time.monotonic()
            answer = self._perform(request)
        except EngineError as fault:
            return wire.encode(wire.Reply(error=wire.error_to_wire(fault)))
        except msgspec.MsgspecError:
            broken = Invalid("the engine did not understand the request")
            return wire.encode(wire.Reply(error=wire.error_to_wire(broken)))
        except files.DiskFailed:
            raise
        except Exception as fault:  # noqa: BLE001 - the loop must outlive a defect
            _report(fault)
            # No answer: whoever asks learns from the store what a write has done.
            return wire.encode(wire.Reply())
        reply = wire.encode(wire.Reply(ok=msgspec.Raw(wire.encode(answer))))
        if len(reply) > wire.MAX_FRAME_BYTES:
            too_long = EngineError("the answer is too long to be sent")
            return wire.encode(wire.Reply(error=wire.error_to_wire(too_long)))
        return reply

    def _perform(self, request: wire.Request) -> msgspec.Struct:
        operation = OPERATIONS.get(request.operation)
        if operation is None:
            message = f"unknown operation {request.operation[:40]}"
            raise Invalid(message)
        if operation is PING:
            return Nothing()
        if operation is POKE:
            self._engine.look_again()
            self._has_work = True
            return Nothing()
        if operation.act != "read":
            self._require_lock()
            self._wants_page = True
        method = getattr(self._engine, operation.name)
        answer: msgspec.Struct = method(request.caller, **request.arguments)
        self._has_work = self._engine.store.has_work
        return answer

    def _require_lock(self) -> None:
        try:
            self._lock.require_held()
        except Conflict as fault:
            self._ending = True
            raise Busy(fault.message) from fault

    def _end(self) -> None:
        """Stop taking requests, then say goodbye to who is still connected."""
        if _inode(self._socket_path) == self._socket_inode:
            with contextlib.suppress(OSError):
                self._socket_path.unlink()
        self._listener.close()
        bye = wire.frame(wire.encode(wire.Reply(bye=True)))
        until = time.monotonic() + DRAIN_SECONDS
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.sock.settimeout(max(until - time.monotonic(), 0.01))
                if self._exit_code == 0:
                    connection.sock.sendall(connection.to_send + bye)
                connection.sock.close()


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return -1


def _peer_uid(sock: socket.socket) -> int:
    """Return the user at the other end; our own where the system cannot say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", data)[1])


def _report(fault: Exception) -> None:
    """Log where a defect struck; never its message, which may hold memory text."""
    frames = traceback.extract_tb(fault.__traceback__)[-4:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    sys.stderr.write(f"engine: {type(fault).__name__} at {places}\n")
