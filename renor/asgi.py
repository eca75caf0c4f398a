"""What an ASGI server runs: /mcp before Django, everything else through Channels.

The MCP endpoint is mounted here rather than as a view: a quarter of the cost of a
call, and no middleware that buffers. Source: docs/decisions/0003.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renor.settings")
pages = get_asgi_application()

from channels.routing import (  # type: ignore[import-untyped]  # noqa: E402 - ships no types; needs the apps loaded
    ProtocolTypeRouter,
)

from memories import gateway  # noqa: E402 - as above
from memories.mcp.endpoint import Endpoint  # noqa: E402 - as above

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

MCP_PATHS = frozenset({"/mcp", "/mcp/"})
"""Both are served: clients drop the token or the body on a redirect."""


async def refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close"})


endpoint = Endpoint()
router = ProtocolTypeRouter({"http": pages, "websocket": refuse_websocket})


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await endpoint.lifespan(receive, send)
    elif scope["type"] == "http" and scope["path"] in MCP_PATHS:
        await endpoint(scope, receive, send)
    else:
        await router(scope, receive, send)


# /readyz waits for it; a daemon, so that a server ending early does not.
threading.Thread(
    target=gateway.load_token_counter, name="token counter", daemon=True
).start()
