"""The body of a POST: read within its limit, and refused when it is not one message.

The SDK parses the body again; what is refused here would otherwise be answered
with the client's own text in the message, or raise deep inside a handler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from .refusal import Refusal, refuse_message

MAX_BODY_BYTES = 4 * 1024 * 1024
INVALID_REQUEST = -32600
PARSE_ERROR = -32700

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Disconnected(Exception):
    """The client left before its request was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What the endpoint must know of a message before the SDK has it.

    `malformed` names the arguments that held lone surrogates; in `body` those
    are replaced, so that the tool's handler can answer in the era's own shape.
    """

    body: bytes
    method: str
    is_notification: bool = False
    tool_name: str = ""
    has_progress_token: bool = False
    malformed: tuple[str, ...] = ()


async def read_body(receive: Receive, declared_bytes: str) -> bytes:
    """Return the body. Raises: Refusal 413 before more than the limit is kept."""
    if declared_bytes.isdecimal() and int(declared_bytes[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise Disconnected
        part = event.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
        if not event.get("more_body", False):
            return b"".join(parts)


def _too_large() -> Refusal:
    return Refusal(
        413,
        "too_large",
        f"the request is over {MAX_BODY_BYTES // 1024 // 1024} MiB; nothing was "
        "written. Save long texts in parts, or put the file into the memory folder",
    )


def parse_message(body: bytes) -> Message:
    """Raises: Refusal 400 unless `body` is one JSON-RPC request or notification."""
    message = _decode(body)
    method = _require_envelope(message)
    params = message.get("params") or {}
    arguments = params.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    malformed: tuple[str, ...] = ()
    if _SURROGATE_ESCAPE.search(body):
        malformed = _find_malformed(message, params, arguments)
        if malformed:
            body = _SURROGATE.sub("\ufffd", _dump(message)).encode()
    name = params.get("name")
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return Message(
        body=body,
        method=method,
        is_notification="id" not in message,
        tool_name=name if method == "tools/call" and isinstance(name, str) else "",
        has_progress_token=isinstance(token, str | int) and not isinstance(token, bool),
        malformed=malformed,
    )


def _decode(body: bytes) -> dict[str, Any]:
    try:
        decoded = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as fault:
        raise refuse_message(PARSE_ERROR, "the body is not valid UTF-8") from fault
    except (ValueError, RecursionError) as fault:
        raise refuse_message(PARSE_ERROR, "the body is not valid JSON") from fault
    if isinstance(decoded, list):
        text = "batches are not supported: send one message per request"
        raise refuse_message(INVALID_REQUEST, text)
    if not isinstance(decoded, dict):
        text = "the body must be one JSON-RPC object"
        raise refuse_message(INVALID_REQUEST, text)
    return decoded


def _require_envelope(message: dict[str, Any]) -> str:
    method = message.get("method")
    identifier = message.get("id", 0)
    if message.get("jsonrpc") != "2.0":
        text = 'a message needs "jsonrpc": "2.0"'
    elif not isinstance(method, str):
        text = 'a message needs a "method"; this server asks its clients nothing'
    elif not isinstance(identifier, str | int) or isinstance(identifier, bool):
        text = 'the "id" must be a text or a whole number'
    elif not isinstance(message.get("params"), dict | None):
        text = '"params" must be an object'
    else:
        return method
    raise refuse_message(INVALID_REQUEST, text)


def _find_malformed(
    message: dict[str, Any], params: dict[str, Any], arguments: dict[str, Any]
) -> tuple[str, ...]:
    envelope = {**message, "params": {**params, "arguments": None}}
    if _SURROGATE.search(_dump(envelope)):
        text = "the message holds a lone surrogate, which is not valid Unicode"
        raise refuse_message(PARSE_ERROR, text)
    return tuple(
        _SURROGATE.sub("\ufffd", name)
        for name, value in arguments.items()
        if _SURROGATE.search(_dump({name: value}))
    )


def _dump(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError as fault:
        text = "the body is nested too deeply"
        raise refuse_message(PARSE_ERROR, text) from fault
