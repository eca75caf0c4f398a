"""The SDK's session managers: two for each event loop, owned by one task.

A manager must be entered and left by the same task, once. Servers differ in
whether they announce a life span (daphne does not), so the task starts with the
first request of a loop. Source: docs/decisions/0003.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from .body import MAX_BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    answering: StreamableHTTPSessionManager
    streaming: StreamableHTTPSessionManager
    ready: asyncio.Event
    stop: asyncio.Event
    task: asyncio.Task[None]


class ManagerHost:
    def __init__(self, make_server: Callable[[], Server[Any]]) -> None:
        self._make_server = make_server
        self._by_loop: dict[asyncio.AbstractEventLoop, _Running] = {}

    async def get(self, *, streaming: bool) -> StreamableHTTPSessionManager:
        """Return the running manager of this loop, started on first use."""
        loop = asyncio.get_running_loop()
        running = self._by_loop.get(loop)
        if running is None or running.task.done():
            running = self._by_loop[loop] = self._start(loop)
        await running.ready.wait()
        return running.streaming if streaming else running.answering

    async def stop(self) -> None:
        """End this loop's managers; a request after that starts new ones."""
        running = self._by_loop.pop(asyncio.get_running_loop(), None)
        if running is not None:
            running.stop.set()
            await asyncio.wait([running.task])

    def _start(self, loop: asyncio.AbstractEventLoop) -> _Running:
        # Loops come and go in tests only; a task would keep its dead loop alive.
        for ended in [other for other in self._by_loop if other.is_closed()]:
            del self._by_loop[ended]
        server = self._make_server()
        answering = _make_manager(server, json_response=True)
        streaming = _make_manager(server, json_response=False)
        ready, stop = asyncio.Event(), asyncio.Event()

        async def own() -> None:
            try:
                async with answering.run(), streaming.run():
                    ready.set()
                    await stop.wait()
            finally:
                ready.set()

        # An empty context: this long-lived task must not inherit the first caller.
        task = loop.create_task(own(), context=contextvars.Context())
        return _Running(
            answering=answering, streaming=streaming, ready=ready, stop=stop, task=task
        )


def _make_manager(
    server: Server[Any], *, json_response: bool
) -> StreamableHTTPSessionManager:
    """Host and Origin are the endpoint's: the SDK cannot express ".example.com"."""
    return StreamableHTTPSessionManager(
        app=server,
        json_response=json_response,
        stateless=True,
        security_settings=None,
        max_request_body_size=MAX_BODY_BYTES,
    )
