"""The threads that carry blocking calls: few, bounded, and gone at exit.

The SDK's own worker threads (plain `def` handlers) live on, keep database
connections and hold up the server's end (docs/decisions/0003); these do not.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from memories.gateway import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

THREAD_COUNT = 16
MAX_WAITING = 112
"""Waiting beyond the threads; a call past that is told to come back, not queued.

A call takes 3 to 5 ms, so a full queue is under a tenth of a second of waiting.
"""

_pool = ThreadPoolExecutor(max_workers=THREAD_COUNT, thread_name_prefix="mcp")
_places = threading.BoundedSemaphore(THREAD_COUNT + MAX_WAITING)


async def run(call: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `call` returns, run in a thread with this task's context.

    Raises: Unavailable at once when too many calls wait.
    """
    if not _places.acquire(blocking=False):
        raise Unavailable("too many calls at once", retry_after_seconds=1)
    bound = partial(contextvars.copy_context().run, partial(call, *args, **kwargs))
    try:
        future = _pool.submit(bound)
    except BaseException:
        _places.release()
        raise
    future.add_done_callback(lambda _: _places.release())
    return await asyncio.wrap_future(future)
