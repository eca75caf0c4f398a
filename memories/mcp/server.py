"""The SDK's server: two async handlers over the table of tools.

The low-level server, not MCPServer: schemas, the check of arguments and the shape
of errors are Renor's contract, and MCPServer derives all three from signatures.
Source: docs/decisions/0003.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import mcp_types as types
import msgspec
from django.conf import settings
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from memories import gateway

from . import prompts, research, resources, workers
from .exchange import Exchange, get_exchange
from .instructions import INSTRUCTIONS
from .schema import read_arguments
from .tools import TOOLS, Tool

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
R = TypeVar("R")

CLIENT_NAME_CHARS = 100
PROGRESS_SECONDS = 1.0
LIST_TTL_MS = 300_000
"""A changed permission or a new version shows within five minutes."""


async def list_tools(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """List what this connection may call, in the order of the table."""
    exchange = get_exchange()
    exchange.outcome = "ok"
    can_write = "write" in exchange.grant.acts
    tools = [_describe(tool) for tool in TOOLS.values() if can_write or not tool.writes]
    if exchange.has_research:
        tools += research.describe()
    return types.ListToolsResult(tools=tools)


def _describe(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


async def call_tool(
    ctx: Context, params: types.CallToolRequestParams
) -> types.CallToolResult:
    """Answer a call; what the agent can act on is a result, never an exception."""
    exchange = get_exchange()
    tool = TOOLS.get(params.name)
    is_research = exchange.has_research and params.name in research.NAMES
    if tool is None and not is_research:
        exchange.outcome = "unknown_tool"
        name = params.name[:CLIENT_NAME_CHARS]
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {name}")
    try:
        if tool is None:
            answer = await workers.run(
                research.call, exchange, params.name, params.arguments or {}
            )
        else:
            answer = await _call(tool, params.arguments or {}, ctx, exchange)
    except gateway.Unavailable as failure:
        return _unavailable(exchange, failure)
    except gateway.errors.EngineError as error:
        exchange.outcome = error.code
        return _render_error(
            error.code, error.message, retryable=error.retryable, **error.details
        )
    except Exception:
        # The message of a surprise may hold an argument: type and places alone are
        # logged (renor/logs.py), and the endpoint answers 500.
        logger.exception("%s failed, request %s", params.name, exchange.request_id)
        exchange.has_failed = True
        return _render_error(
            "unavailable",
            f"Renor failed on its side (request {exchange.request_id}); "
            "whether anything was written is unknown, a retry is harmless",
            retryable=True,
        )
    exchange.outcome = "ok"
    return _render(answer)


async def _call(
    tool: Tool, given: dict[str, Any], ctx: Context, exchange: Exchange
) -> bytes:
    if tool.writes and "write" not in exchange.grant.acts:
        message = (
            f"this connection may only read, {tool.name} writes; "
            "the owner can connect an agent that may write"
        )
        raise gateway.errors.ReadOnly(message)
    if exchange.malformed:
        name = exchange.malformed[0]
        message = (
            f'argument "{name}" is not valid Unicode (a lone surrogate); '
            "nothing was written"
        )
        raise gateway.errors.Invalid(message, argument=name)
    arguments = read_arguments(tool.name, tool.arguments, given)
    async with _progress(tool, ctx, exchange):
        return await workers.run(
            _call_gateway, tool, exchange, _client_name(ctx), arguments
        )


def _call_gateway(
    tool: Tool, exchange: Exchange, client_name: str, arguments: dict[str, Any]
) -> bytes:
    answer = gateway.call(
        exchange.grant,
        tool.operation,
        request_id=exchange.request_id,
        client_name=client_name,
        deadline_seconds=tool.deadline_seconds,
        **arguments,
    )
    return gateway.encode(answer)


def _client_name(ctx: Context) -> str:
    """Return what the client calls itself, made harmless: it must not fail a save."""
    client = ctx.session.client_params
    if client is None:
        return ""
    name = "".join(c if c.isprintable() else " " for c in client.client_info.name)
    return name.strip()[:CLIENT_NAME_CHARS]


@asynccontextmanager
async def _progress(
    tool: Tool, ctx: Context, exchange: Exchange
) -> AsyncIterator[None]:
    """Tell a client that asked that work goes on: seconds so far, once a second."""
    if not (exchange.is_streaming and tool.reports_progress):
        yield
        return
    started = time.monotonic()

    async def report() -> None:
        while True:
            await ctx.session.report_progress(
                time.monotonic() - started, message="indexing"
            )
            await asyncio.sleep(PROGRESS_SECONDS)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.wait([reporting])


async def list_resources(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    exchange = get_exchange()
    listed = await _answering(exchange, resources.list_resources(exchange))
    return types.ListResourcesResult(resources=listed)


async def list_resource_templates(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    get_exchange().outcome = "ok"
    return types.ListResourceTemplatesResult(resource_templates=[resources.TEMPLATE])


async def read_resource(
    ctx: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    exchange = get_exchange()
    read = await _answering(exchange, resources.read_resource(exchange, params.uri))
    return types.ReadResourceResult(contents=[read])


async def list_prompts(
    ctx: Context, params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    get_exchange().outcome = "ok"
    return types.ListPromptsResult(prompts=list(prompts.PROMPTS.values()))


async def get_prompt(
    ctx: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    exchange = get_exchange()
    exchange.outcome = "invalid"
    prompt = prompts.get_prompt(params.name, params.arguments or {})
    exchange.outcome = "ok"
    return prompt


async def _answering(exchange: Exchange, asking: Awaitable[R]) -> R:
    """Return an answer, or leave what stops it to the endpoint: an empty list would
    read as an empty memory.
    """
    try:
        answer = await asking
    except gateway.Unavailable as failure:
        exchange.outcome = "unavailable"
        exchange.unavailable = failure
        raise MCPError(code=types.INTERNAL_ERROR, message="unavailable") from failure
    except MCPError:
        exchange.outcome = "not_found"
        raise
    except gateway.errors.EngineError as error:
        exchange.outcome = error.code
        raise MCPError(code=types.INTERNAL_ERROR, message=error.message) from error
    except Exception as fault:
        logger.exception("a resource failed, request %s", exchange.request_id)
        exchange.has_failed = True
        raise MCPError(code=types.INTERNAL_ERROR, message="failed") from fault
    exchange.outcome = "ok"
    return answer


def _unavailable(
    exchange: Exchange, failure: gateway.Unavailable
) -> types.CallToolResult:
    """Leave the 503 to the endpoint; a stream that has begun can only say it."""
    exchange.outcome = "unavailable"
    exchange.unavailable = failure
    if failure.outcome_known:
        told = "memory unavailable, nothing was written; retry"
    else:
        told = "memory unavailable, outcome unknown; a retry is harmless"
    return _render_error(
        "unavailable",
        told,
        retryable=True,
        retryAfterSeconds=failure.retry_after_seconds,
    )


def _render(encoded: bytes) -> types.CallToolResult:
    """The text block is the answer as it was counted against the token budget."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=encoded.decode())],
        structured_content=msgspec.json.decode(encoded),
    )


def _render_error(
    code: str, message: str, *, retryable: bool, **details: object
) -> types.CallToolResult:
    content = {
        "error": {"code": code, "message": message, "retryable": retryable, **details}
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=content,
        is_error=True,
    )


def make_server() -> Server[Any]:
    server: Server[Any] = Server(
        "renor",
        version=gateway.operations.VERSION,
        title="Renor",
        description="A lasting memory for AI agents that its owner can read.",
        instructions=INSTRUCTIONS,
        website_url=settings.RENOR_PUBLIC_URL,
        cache_hints={
            "tools/list": CacheHint(ttl_ms=LIST_TTL_MS, scope="private"),
            "prompts/list": CacheHint(ttl_ms=LIST_TTL_MS, scope="private"),
            "resources/templates/list": CacheHint(ttl_ms=LIST_TTL_MS, scope="private"),
            "server/discover": CacheHint(ttl_ms=LIST_TTL_MS, scope="private"),
        },
        # No argument travels in a header: spares a tools/list for every call.
        get_tool_input_schema=lambda _name: None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_resource_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    # Its spans would carry the text of errors to whoever installs an exporter.
    server.middleware.clear()
    return server
