"""The MCP endpoint as a client meets it: over HTTP, through the ASGI app, in both eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

R = TypeVar("R")

OLD, NEW = "2025-11-25", "2026-07-28"
ERAS = (OLD, NEW)
BASE = "http://localhost:8000"
CLIENT_NAME = "story-client"
META = {
    "io.modelcontextprotocol/protocolVersion": NEW,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": CLIENT_NAME, "version": "1"},
}


def _application() -> Any:
    from renor.asgi import application  # noqa: PLC0415 - needs the test's settings

    return application


def request(
    method: str = "POST",
    path: str = "/mcp",
    *,
    token: str = "",
    headers: Mapping[str, str] | None = None,
    content: bytes | AsyncIterator[bytes] = b"",
    base: str = BASE,
) -> httpx2.Response:
    """Send one request; JSON both ways unless `headers` say otherwise."""
    sent = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        sent["Authorization"] = f"Bearer {token}"

    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=_application())
        async with httpx2.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(
                method, path, headers={**sent, **(headers or {})}, content=content
            )

    return asyncio.run(send())


def message(era: str, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return the body of a request as a client of that era writes it."""
    sent = dict(params or {})
    if era == NEW:
        sent["_meta"] = {**META, **sent.get("_meta", {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": sent}
    return json.dumps(body).encode()


def era_headers(era: str, method: str, name: str = "") -> dict[str, str]:
    headers = {"MCP-Protocol-Version": era}
    if era == NEW:
        headers["Mcp-Method"] = method
        if name:
            headers["Mcp-Name"] = name
    return headers


def ask(
    era: str,
    token: str,
    method: str,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx2.Response:
    name = str((params or {}).get("name", ""))
    return request(
        token=token,
        headers={**era_headers(era, method, name), **(headers or {})},
        content=message(era, method, params),
    )


def call(era: str, token: str, tool: str, **arguments: object) -> httpx2.Response:
    return ask(era, token, "tools/call", {"name": tool, "arguments": arguments})


def result_of(response: httpx2.Response) -> dict[str, Any]:
    """Return the structured content of a call, after comparing it with its text."""
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    (block,) = result["content"]
    assert json.loads(block["text"]) == result["structuredContent"]
    content: dict[str, Any] = result["structuredContent"]
    return content


@asynccontextmanager
async def connect(token: str, era: str) -> AsyncIterator[Client]:
    """Yield the official Python client, connected in that era."""
    http = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=_application()),
        headers={"Authorization": f"Bearer {token}"},
    )
    transport = streamable_http_client(f"{BASE}/mcp", http_client=http)
    mode = "legacy" if era == OLD else "auto"
    async with http, Client(transport, mode=mode) as client:
        yield client


def with_client(token: str, era: str, story: Callable[[Client], Awaitable[R]]) -> R:
    async def tell() -> R:
        async with connect(token, era) as client:
            return await story(client)

    return asyncio.run(tell())
