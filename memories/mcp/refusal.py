"""Answers that end a request before the SDK has it, all in one shape.

`{"error": {"code", "message", "retryable"}}` as tools answer; a JSON-RPC error
without an id where the message itself was at fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

JSON_TYPE = "application/json"


class Refusal(Exception):
    """An HTTP answer other than 200; nothing was read or written."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.body: Mapping[str, object] = {
            "error": {"code": code, "message": message, "retryable": retryable}
        }

    def render(self) -> bytes:
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode()


def refuse_message(code: int, message: str, *, status: int = 400) -> Refusal:
    """Return the JSON-RPC error of a message whose id cannot be trusted."""
    refusal = Refusal(status, str(code), message)
    refusal.body = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": message},
    }
    return refusal


def refuse_unavailable(
    retry_after_seconds: int, *, outcome_known: bool, reason: str = ""
) -> Refusal:
    """Return the 503: it must never look like "nothing relevant"."""
    if outcome_known:
        told = "memory unavailable, nothing was written; retry"
    else:
        told = "memory unavailable, outcome unknown; a retry is harmless"
    refusal = Refusal(
        503,
        "unavailable",
        f"{told} ({reason})" if reason else told,
        headers={"Retry-After": str(max(1, retry_after_seconds))},
        retryable=True,
    )
    refusal.body = {
        "error": {
            **refusal.body["error"],  # type: ignore[dict-item]  # object, as set above
            "outcomeKnown": outcome_known,
        }
    }
    return refusal
