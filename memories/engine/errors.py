"""The engine's error family: one class for each next step of a caller.

EngineError            code, message naming the value and the way out, retryable
├── NotFound           unknown memory id
├── Invalid            a statement, id, scope or query breaks a stated rule
│   └── TooLarge       over a stated length: refused, never cut
├── Conflict           the target changed or was taken meanwhile
├── ReadOnly           the caller may not write
├── QuotaExceeded      the workspace is at its limit
├── Busy               cannot answer now; nothing was written        retryable
└── Corrupt            a file cannot be trusted; reads go on, writes do not
"""

from __future__ import annotations

from collections.abc import Mapping

Detail = str | int | bool | list[str]


class EngineError(Exception):
    """Something the caller can act on; nothing was written when it is raised.

    `details` travels to the agent beside the message (`closestSubjects`,
    `allowedScopes` ...): values the caller may see, never other memories' text.
    """

    code = "unavailable"
    retryable = False

    def __init__(self, message: str, **details: Detail) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Detail] = details


class NotFound(EngineError):
    """No memory the caller may see has this id."""

    code = "not_found"


class Invalid(EngineError):
    """An argument breaks a stated rule."""

    code = "invalid"


class TooLarge(Invalid):
    """An argument is longer than its stated limit."""

    code = "too_large"


class Conflict(EngineError):
    """The target was changed, retired or taken meanwhile."""

    code = "conflict"


class ReadOnly(EngineError):
    """The caller's connection has no permission to write."""

    code = "read_only"


class QuotaExceeded(EngineError):
    """The write would pass the workspace's limit."""

    code = "quota_exceeded"


class Busy(EngineError):
    """The workspace cannot answer in time; the same call may succeed later."""

    code = "unavailable"
    retryable = True


class Corrupt(EngineError):
    """The store is damaged where this call would write; reads still work."""

    code = "unavailable"


BY_CODE: Mapping[str, type[EngineError]] = {
    kind.code: kind
    for kind in (NotFound, Invalid, TooLarge, Conflict, ReadOnly, QuotaExceeded, Busy)
}
"""For the client side of the socket: a code back to its class."""
