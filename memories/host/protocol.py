"""The control socket: frames of memories.engine.wire, one question, one answer.

`ensure` starts or finds an engine, `status` tells what is awake, `sleep` ends one
engine, `suspect` reports one that did not answer in time, `ping` answers at once.
"""

from __future__ import annotations

import socket
from typing import Literal

import msgspec

from memories.engine import wire

MAX_CONTROL_BYTES = 64 * 1024
"""Above any question; answers are ours and may be longer (status)."""

Verb = Literal["ensure", "status", "sleep", "suspect", "ping"]
Reason = Literal[
    "unknown",  # no such folder, or not a workspace id
    "marker",  # the folder has no workspace.json: perhaps an unmounted disk
    "unreadable",  # the folder cannot be looked into
    "refused",  # the engine could not open it: lock held elsewhere, damage, disk
    "crashed",  # backing off after crashes
    "starting",  # not ready in the time a caller can be kept
    "full",  # as many awake as allowed, and none can sleep now
    "ending",  # the host itself ends
]
WatcherMode = Literal["inotify", "polling", "starting"]


class Question(msgspec.Struct, kw_only=True, omit_defaults=True):
    verb: Verb
    workspace: str = ""


class AwakeEngine(msgspec.Struct, kw_only=True):
    """Moments are Unix times in seconds."""

    workspace: str
    pid: int
    state: Literal["starting", "awake", "ending"]
    since: float
    last_used: float


class BackingOff(msgspec.Struct, kw_only=True):
    workspace: str
    failure_count: int
    retry_after_seconds: float


class HostStatus(msgspec.Struct, kw_only=True):
    pid: int
    max_awake: int
    watcher: WatcherMode
    engines: list[AwakeEngine]
    backing_off: list[BackingOff]


class NotNow(msgspec.Struct, kw_only=True):
    reason: Reason
    message: str
    retry_after_seconds: float


def not_now(reason: Reason, message: str, retry_after_seconds: float) -> NotNow:
    return NotNow(
        reason=reason, message=message, retry_after_seconds=retry_after_seconds
    )


class HostAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`not_now` is set when the question could not be granted."""

    not_now: NotNow | None = None
    status: HostStatus | None = None


class EngineRefusal(msgspec.Struct, kw_only=True):
    """What an engine writes to its ready pipe, after a "-", when it cannot open."""

    code: str = "unavailable"
    message: str = "the workspace could not be opened"
    retry_after_seconds: float = 1.0


class FrameBuffer:
    """Bytes as they arrive, frames as they become whole."""

    def __init__(self, limit: int = MAX_CONTROL_BYTES) -> None:
        self._bytes = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames now whole. Raises: ValueError over the limit."""
        self._bytes += data
        frames = []
        while len(self._bytes) >= wire.LENGTH_BYTES:
            length = int.from_bytes(self._bytes[: wire.LENGTH_BYTES], "big")
            if length > self._limit:
                message = f"frame of {length} bytes is over {self._limit}"
                raise ValueError(message)
            end = wire.LENGTH_BYTES + length
            if len(self._bytes) < end:
                break
            frames.append(bytes(self._bytes[wire.LENGTH_BYTES : end]))
            del self._bytes[:end]
        return frames


def receive_frame(link: socket.socket) -> bytes:
    """Return the next frame of a blocking socket. Raises: EOFError, OSError, ValueError."""
    length = int.from_bytes(_receive_exactly(link, wire.LENGTH_BYTES), "big")
    if length > wire.MAX_FRAME_BYTES:
        message = f"frame of {length} bytes is over {wire.MAX_FRAME_BYTES}"
        raise ValueError(message)
    return _receive_exactly(link, length)


def _receive_exactly(link: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = link.recv(count - len(parts))
        if not part:
            raise EOFError("the other side closed the link")
        parts += part
    return bytes(parts)


_questions = msgspec.json.Decoder(Question)
_answers = msgspec.json.Decoder(HostAnswer)


def decode_question(body: bytes) -> Question:
    """Raises: msgspec.ValidationError or DecodeError on anything but a question."""
    return _questions.decode(body)


def decode_answer(body: bytes) -> HostAnswer:
    """Raises: msgspec.ValidationError or DecodeError on anything but an answer."""
    return _answers.decode(body)
