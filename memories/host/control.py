"""The control socket's listening side: questions in, answers out, never blocking."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import msgspec

from memories.engine import wire

from .loop import Loop
from .protocol import FrameBuffer, HostAnswer, Question, decode_question
from .sockets import is_peer_allowed

Answer = Callable[[Question, Callable[[HostAnswer], None]], None]
"""Answers a question by calling back, now or later."""

logger = logging.getLogger("renor.host")


class Control:
    def __init__(self, loop: Loop, listener: socket.socket, answer: Answer) -> None:
        self._loop = loop
        self._listener = listener
        self._answer = answer
        self._links: set[Link] = set()
        loop.watch(listener.fileno(), self._accept)

    def close(self) -> None:
        """Take no more questions; answers already due still leave."""
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def _accept(self) -> None:
        try:
            connected, _address = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: the next one may fit
            return
        if not is_peer_allowed(connected):
            logger.warning("control link of another user refused")
            connected.close()
            return
        connected.setblocking(False)
        self._links.add(Link(self._loop, connected, self._answer, self._links.discard))


class Link:
    """One client of the control socket."""

    def __init__(
        self,
        loop: Loop,
        connected: socket.socket,
        answer: Answer,
        on_close: Callable[[Link], None],
    ) -> None:
        self._loop = loop
        self._socket = connected
        self._answer = answer
        self._on_close = on_close
        self._incoming = FrameBuffer()
        self._outgoing = bytearray()
        self._is_open = True
        loop.watch(connected.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._socket.recv(64 * 1024)
            questions = [decode_question(body) for body in self._incoming.feed(data)]
        except (OSError, ValueError, msgspec.MsgspecError):
            self._close()
            return
        if not data:
            self._close()
            return
        for question in questions:
            self._answer(question, self._respond)

    def _respond(self, answer: HostAnswer) -> None:
        if self._is_open:  # who asked may have gone while the engine started
            self._outgoing += wire.frame(wire.encode(answer))
            self._write()

    def _write(self) -> None:
        was_full = False
        try:
            sent = self._socket.send(self._outgoing)
            del self._outgoing[:sent]
        except BlockingIOError:
            was_full = True
        except OSError:
            self._close()
            return
        if self._outgoing or was_full:
            self._loop.watch_writable(self._socket.fileno(), self._write)
        else:
            self._loop.watch_readable(self._socket.fileno(), self._read)

    def _close(self) -> None:
        self._is_open = False
        self._loop.forget(self._socket.fileno())
        self._socket.close()
        self._on_close(self)
