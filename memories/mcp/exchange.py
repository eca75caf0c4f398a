"""One HTTP request at the MCP endpoint, as its two ends share it.

The endpoint writes who calls; the tool handler, deep inside the SDK, writes how
it ended, since a handler alone cannot choose the HTTP status.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from memories.gateway import Unavailable
from workspaces.access import Grant


@dataclass(slots=True, kw_only=True)
class Exchange:
    """`malformed` names arguments whose text was not Unicode as it arrived.
    `has_research`: the connection's address asks for `search` and `fetch` too.
    """

    grant: Grant
    request_id: str
    is_streaming: bool = False
    has_research: bool = False
    malformed: tuple[str, ...] = ()
    outcome: str = ""
    unavailable: Unavailable | None = None
    has_failed: bool = False


_current: ContextVar[Exchange] = ContextVar("renor_mcp_exchange")


def get_exchange() -> Exchange:
    """Return the exchange of the request being handled. Raises: LookupError."""
    return _current.get()


@contextmanager
def during(exchange: Exchange) -> Iterator[None]:
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)
