"""The engine's socket: frames of a 4-byte big-endian length and one JSON object.

One request, one answer, in turn. A reply with `bye` says that the engine is
ending and read nothing further: connect again. Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from . import errors
from .types import Caller, Detail

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Above the largest answer (20,000 tokens) and the largest request (4 MiB body)."""

LENGTH_BYTES = 4

Argument = str | int | bool | list[list[int]]
"""What a caller may say of an operation; spans of text are pairs of numbers."""


class Request(msgspec.Struct, kw_only=True):
    operation: str
    caller: Caller
    arguments: Mapping[str, Argument] = {}


class ErrorAnswer(msgspec.Struct, kw_only=True):
    code: str
    message: str
    retryable: bool
    details: dict[str, Detail] = {}


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`ok` holds the answer's own JSON, still encoded, or `error` is set, or `bye`.

    `ok` is empty, not None, when absent: msgspec decodes no union with Raw.
    """

    ok: msgspec.Raw = msgspec.Raw()
    error: ErrorAnswer | None = None
    bye: bool = False


_encoder = msgspec.json.Encoder()
_requests = msgspec.json.Decoder(Request)
_replies = msgspec.json.Decoder(Reply)


def frame(body: bytes) -> bytes:
    """Return `body` with its length in front. Raises: ValueError over the limit."""
    if len(body) > MAX_FRAME_BYTES:
        message = f"frame of {len(body)} bytes is over {MAX_FRAME_BYTES}"
        raise ValueError(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def encode(message: msgspec.Struct) -> bytes:
    """Return the compact JSON of a message or an answer, non-ASCII unescaped."""
    return _encoder.encode(message)


def decode_request(body: bytes) -> Request:
    """Raises: msgspec.ValidationError or DecodeError on anything but a request."""
    return _requests.decode(body)


def decode_reply(body: bytes) -> Reply:
    """Raises: msgspec.ValidationError or DecodeError on anything but a reply."""
    return _replies.decode(body)


def error_to_wire(error: errors.EngineError) -> ErrorAnswer:
    return ErrorAnswer(
        code=error.code,
        message=error.message,
        retryable=error.retryable,
        details=dict(error.details),
    )


def error_from_wire(answer: ErrorAnswer) -> errors.EngineError:
    kind = errors.BY_CODE.get(answer.code, errors.EngineError)
    if answer.code == errors.Busy.code and not answer.retryable:
        kind = errors.Corrupt
    return kind(answer.message, **answer.details)
