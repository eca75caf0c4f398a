"""The ASGI app at /mcp: who may speak, in which form, and what HTTP says of it.

Mounted before Django: its middleware does not run here. Protocol messages are the
SDK's, tools the table's. Source: docs/decisions/0003.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.http.request import split_domain_port, validate_host
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers, MutableHeaders

from memories.gateway import Unavailable
from workspaces.access import AccessDenied, Grant, grant_for_token

from . import research, workers
from .body import Disconnected, Message, parse_message, read_body
from .exchange import Exchange, during
from .managers import ManagerHost
from .refusal import JSON_TYPE, Refusal, refuse_message, refuse_unavailable
from .server import make_server
from .tools import TOOLS

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

CLIENT_ORIGINS = frozenset(
    {
        "https://claude.ai",
        "https://claude.com",
        "https://chatgpt.com",
        "http://localhost:6274",  # the MCP Inspector
        "http://127.0.0.1:6274",
    }
)
REALM = 'Bearer realm="Renor"'
PREFLIGHT_SECONDS = 600
READABLE_HEADERS = (
    "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version, Retry-After, X-Request-Id"
)
ASKABLE_HEADERS = (
    "authorization, content-type, accept, mcp-protocol-version, mcp-method, "
    "mcp-name, mcp-session-id, last-event-id"
)
EVENT_STREAM = "text/event-stream"
KNOWN_METHODS = frozenset(
    {"initialize", "server/discover", "ping", "tools/list", "tools/call"}
    | {"resources/list", "resources/templates/list", "resources/read"}
    | {"prompts/list", "prompts/get"}
    | {"notifications/initialized", "notifications/cancelled"}
)
"""The only methods a log line names: another's name is the client's own text."""
KNOWN_TOOLS = frozenset(TOOLS) | research.NAMES
KNOWN_VERBS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Endpoint:
    def __init__(self) -> None:
        self._managers = ManagerHost(make_server)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = _Call(scope, receive, send, self._managers)
        await call.answer()

    async def lifespan(self, receive: Receive, send: Send) -> None:
        """Take part in the life span of servers that announce one."""
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif event["type"] == "lifespan.shutdown":
                await self._managers.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


class _Call:
    """One request from the first header to the log line."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, managers: ManagerHost
    ) -> None:
        self._scope = scope
        self._headers = Headers(scope=scope)
        self._receive = receive
        self._send = send
        self._managers = managers
        self._request_id = uuid.uuid4().hex
        self._status = 0
        self._grant: Grant | None = None
        self._exchange: Exchange | None = None
        self._message: Message | None = None
        self._origin = ""
        self._is_replaced = False

    async def answer(self) -> None:
        started = time.monotonic()
        try:
            await self._serve()
        except Refusal as refusal:
            await self._refuse(refusal)
        except Disconnected:
            self._status = 499
        except Exception:
            logger.exception("request %s failed", self._request_id)
            if not self._status:
                await self._refuse(self._failure())
        finally:
            self._log((time.monotonic() - started) * 1_000)

    async def _serve(self) -> None:
        self._require_host()
        self._origin = self._require_origin()
        if self._scope["method"] == "OPTIONS":
            await self._answer_options()
            return
        grant = self._grant = await self._authenticate()
        if self._scope["method"] != "POST":
            raise Refusal(
                405,
                "invalid",
                "this address takes POST alone: it keeps no sessions and opens no "
                "stream of its own",
                headers={"Allow": "POST"},
            )
        has_research = self._wants_research()
        accept = self._require_types()
        body = await read_body(self._receive, self._headers.get("content-length", ""))
        message = self._message = parse_message(body)
        tool = TOOLS.get(message.tool_name)
        self._exchange = Exchange(
            grant=grant,
            request_id=self._request_id,
            has_research=has_research,
            is_streaming=(
                tool is not None
                and tool.reports_progress
                and message.has_progress_token
                and EVENT_STREAM in accept
            ),
            malformed=message.malformed,
        )
        if message.is_notification and self._is_old_era():
            # Nothing outlives a request here, so none changes anything; the SDK would
            # start a task for it and cancel that before it ran.
            await self._respond(202, {})
        else:
            await self._hand_over(message, self._exchange)

    def _wants_research(self) -> bool:
        """Whether the address asks for search and fetch. Raises: Refusal."""
        asked = parse_qs(self._scope.get("query_string", b"").decode("latin-1"))
        values = asked.get(research.PARAMETER, [])
        if any(value != research.VALUE for value in values):
            raise Refusal(
                400,
                "invalid",
                f"{research.PARAMETER} can only be {research.VALUE}, for the tools "
                "search and fetch; leave it out for all others",
            )
        return bool(values)

    def _is_old_era(self) -> bool:
        """Judge by the header, as the SDK does when it routes."""
        version = self._headers.get("mcp-protocol-version")
        return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS

    def _require_host(self) -> None:
        domain, _port = split_domain_port(self._headers.get("host", ""))
        allowed = settings.ALLOWED_HOSTS
        if not allowed and settings.DEBUG:
            allowed = [".localhost", "127.0.0.1", "[::1]"]
        if not domain or not validate_host(domain, allowed):
            raise Refusal(
                421,
                "invalid",
                "this server does not answer for the host named in the request",
            )

    def _require_origin(self) -> str:
        """Return the Origin of a browser's request, "" when there is none."""
        origin = self._headers.get("origin", "")
        if not origin:
            return ""
        own = {settings.RENOR_PUBLIC_URL, *CLIENT_ORIGINS}
        # The Host was checked before, so an origin on it is this server's own.
        is_same = _netloc(origin) == self._headers.get("host")
        if not is_same and origin not in own | set(settings.RENOR_ALLOWED_ORIGINS):
            raise Refusal(
                403,
                "invalid",
                "pages of this origin may not call this server; its operator can "
                "allow it with RENOR_ALLOWED_ORIGINS",
            )
        return origin

    async def _answer_options(self) -> None:
        asked = self._headers.get("access-control-request-headers", "")
        await self._respond(
            204,
            {
                "Allow": "POST",
                "Access-Control-Allow-Methods": "POST, GET, DELETE",
                "Access-Control-Allow-Headers": asked or ASKABLE_HEADERS,
                "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
                "Vary": "Access-Control-Request-Headers",
            },
        )

    async def _authenticate(self) -> Grant:
        scheme, _, token = self._headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise Refusal(
                401,
                "unauthorized",
                "connect with a token of Renor: Authorization: Bearer renor_...",
                headers={"WWW-Authenticate": REALM},
            )
        try:
            return await workers.run(_find_grant, token)
        except AccessDenied as fault:
            raise Refusal(
                401,
                "unauthorized",
                "this token is unknown or was revoked",
                headers={"WWW-Authenticate": f'{REALM}, error="invalid_token"'},
            ) from fault
        except (DatabaseError, InterfaceError) as fault:
            # Never a 401: a client would throw a good token away.
            logger.exception("request %s: no token check", self._request_id)
            raise refuse_unavailable(5, outcome_known=True) from fault
        except Unavailable as fault:
            raise _refuse_call(fault) from fault

    def _require_types(self) -> str:
        """Return the Accept header. Raises: Refusal unless both sides speak JSON."""
        kind = self._headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise refuse_message(-32600, f"the Content-Type must be {JSON_TYPE}")
        accept = self._headers.get("accept", "").lower() or "*/*"
        if not any(kind in accept for kind in (JSON_TYPE, "application/*", "*/*")):
            raise refuse_message(
                -32600, f"the Accept header must allow {JSON_TYPE}", status=406
            )
        return accept

    async def _hand_over(self, message: Message, exchange: Exchange) -> None:
        manager = await self._managers.get(streaming=exchange.is_streaming)
        scope = {**self._scope, "headers": self._forwarded_headers(message)}
        is_read = False

        async def replay() -> Event:
            nonlocal is_read
            if is_read:
                return await self._receive()
            is_read = True
            return {"type": "http.request", "body": message.body, "more_body": False}

        with during(exchange):
            await manager.handle_request(scope, replay, self._forward)

    def _forwarded_headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        """What was checked or changed here must not be judged again by the SDK."""
        ours = {b"content-length", b"accept", b"content-type"}
        kept = [(k, v) for k, v in self._scope["headers"] if k not in ours]
        return [
            *kept,
            (b"content-type", JSON_TYPE.encode()),
            (b"accept", f"{JSON_TYPE}, {EVENT_STREAM}".encode()),
            (b"content-length", str(len(message.body)).encode()),
        ]

    async def _forward(self, event: Event) -> None:
        """Pass the SDK's answer on, unless the call could not be answered."""
        if event["type"] != "http.response.start":
            if not self._is_replaced:
                await self._send(event)
            return
        refusal = self._replacement()
        if refusal is not None:
            self._is_replaced = True
            await self._refuse(refusal)
            return
        headers = MutableHeaders(raw=list(event["headers"]))
        is_stream = headers.get("content-type", "").startswith(EVENT_STREAM)
        headers["Cache-Control"] = "no-store, no-transform" if is_stream else "no-store"
        self._status = event["status"]
        await self._send({**event, "headers": self._finish(headers)})

    def _replacement(self) -> Refusal | None:
        exchange = self._exchange
        if exchange is None or exchange.is_streaming:
            return None
        if exchange.unavailable is not None:
            return _refuse_call(exchange.unavailable)
        return self._failure() if exchange.has_failed else None

    def _failure(self) -> Refusal:
        return Refusal(
            500,
            "unavailable",
            f"Renor failed on its side (request {self._request_id}); whether "
            "anything was written is unknown, a retry is harmless",
            retryable=True,
        )

    async def _refuse(self, refusal: Refusal) -> None:
        await self._respond(
            refusal.status,
            {"Content-Type": JSON_TYPE, **refusal.headers},
            refusal.render(),
        )

    async def _respond(
        self, status: int, headers: dict[str, str], body: bytes = b""
    ) -> None:
        self._status = status
        finished = MutableHeaders(headers={**headers, "Cache-Control": "no-store"})
        finished["Content-Length"] = str(len(body))
        raw = self._finish(finished)
        await self._send(
            {"type": "http.response.start", "status": status, "headers": raw}
        )
        await self._send({"type": "http.response.body", "body": body})

    def _finish(self, headers: MutableHeaders) -> list[tuple[bytes, bytes]]:
        headers["X-Request-Id"] = self._request_id
        headers["X-Content-Type-Options"] = "nosniff"
        if getattr(settings, "SECURE_HSTS_SECONDS", 0):
            headers["Strict-Transport-Security"] = (
                f"max-age={settings.SECURE_HSTS_SECONDS}"
            )
        headers.add_vary_header("Origin")
        if self._origin:
            headers["Access-Control-Allow-Origin"] = self._origin
            headers["Access-Control-Expose-Headers"] = READABLE_HEADERS
        return headers.raw

    def _log(self, spent_ms: float) -> None:
        message, exchange = self._message, self._exchange
        verb = self._scope["method"]
        method = message.method if message else ""
        tool_name = message.tool_name if message else ""
        logger.info(
            "request=%s verb=%s method=%s tool=%s status=%s outcome=%s ms=%.1f "
            "connection=%s",
            self._request_id,
            verb if verb in KNOWN_VERBS else "other",
            method if not method or method in KNOWN_METHODS else "other",
            tool_name if not tool_name or tool_name in KNOWN_TOOLS else "other",
            self._status,
            exchange.outcome if exchange else "",
            spent_ms,
            self._grant.connection_id if self._grant else "",
        )


def _netloc(origin: str) -> str | None:
    """Return the host and port of an Origin; None when it is no address at all."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _find_grant(token: str) -> Grant:
    """No Django request runs here, so no signal returns a database connection."""
    close_old_connections()
    try:
        return grant_for_token(token)
    finally:
        close_old_connections()


def _refuse_call(failure: Unavailable) -> Refusal:
    return refuse_unavailable(
        failure.retry_after_seconds, outcome_known=failure.outcome_known
    )
