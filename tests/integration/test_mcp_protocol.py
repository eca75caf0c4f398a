"""HTTP and JSON-RPC at /mcp: who may speak, in which form, in both protocol eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from django.db import OperationalError
from mcp.client import Client

from memories.mcp import endpoint, workers
from tests.conftest import Person
from tests.mcp_door import (
    ERAS,
    META,
    NEW,
    OLD,
    ask,
    call,
    era_headers,
    message,
    request,
    result_of,
    with_client,
)
from workspaces.access import revoke_connection

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_ERA = pytest.mark.parametrize("era", ERAS)

LIST = message(OLD, "tools/list")
UNKNOWN_TOKEN = "renor_" + "x" * 43
CAPABILITIES = {
    "tools": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "prompts": {"listChanged": False},
}


@pytest.fixture
def token(alice: Person) -> str:
    return alice.agents["claude"].token


def error_of(response: httpx2.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    return error


# --- Who may speak --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT", "HEAD"])
@pytest.mark.parametrize(
    "authorization",
    [{}, {"Authorization": "Basic x"}, {"Authorization": "Bearer"}],
)
def test_request_without_token_is_challenged(
    method: str, authorization: dict[str, str]
) -> None:
    response = request(method, headers=authorization)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == 'Bearer realm="Renor"'


@pytest.mark.parametrize("unknown", [UNKNOWN_TOKEN, "x", "renor_", "x" * 5_000])
def test_wrong_token_is_called_invalid(unknown: str) -> None:
    response = request(token=unknown, content=LIST)

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == (
        'Bearer realm="Renor", error="invalid_token"'
    )
    assert unknown not in response.text


def test_revoked_token_is_refused_at_once(alice: Person, token: str) -> None:
    assert request(token=token, content=LIST).status_code == 200
    revoke_connection(alice.agents["claude"].connection)

    response = request(token=token, content=LIST)

    assert response.status_code == 401


def test_scheme_may_be_written_in_any_case(token: str) -> None:
    response = request(headers={"Authorization": f"bEaReR  {token}"}, content=LIST)

    assert response.status_code == 200


def test_unreachable_accounts_database_is_not_a_wrong_token(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(token: str) -> None:
        raise OperationalError

    monkeypatch.setattr(endpoint, "grant_for_token", fail)

    response = request(token=token, content=LIST)

    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0


# --- In which form --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
def test_only_post_is_taken_once_the_token_is_known(method: str, token: str) -> None:
    response = request(method, token=token)

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_both_spellings_of_the_address_answer(path: str, token: str) -> None:
    assert request(path=path, token=token, content=LIST).status_code == 200


@pytest.mark.parametrize(
    ("headers", "content", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, LIST, 400, -32600),
        ({"Content-Type": "application/jsonp"}, LIST, 400, -32600),
        ({"Accept": "text/html"}, LIST, 406, -32600),
        ({}, b"{", 400, -32700),
        ({}, b"\xff", 400, -32700),
        ({}, b"[" + LIST + b"]", 400, -32600),
        ({}, b"{}", 400, -32600),
        ({}, b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', 400, -32700),
        ({}, b'{"jsonrpc":"2.0","id":1,"result":{}}', 400, -32600),
    ],
)
@EACH_ERA
def test_anything_but_a_message_is_a_json_rpc_error(
    headers: dict[str, str],
    content: bytes,
    status: int,
    code: int,
    era: str,
    token: str,
) -> None:
    sent = {**era_headers(era, "tools/list"), **headers}

    response = request(token=token, headers=sent, content=content)

    assert response.status_code == status
    assert response.json()["id"] is None
    assert error_of(response)["code"] == code
    assert "Traceback" not in response.text


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/html, */*;q=0.1"])
@EACH_ERA
def test_accept_is_taken_as_it_comes(accept: str, era: str, token: str) -> None:
    response = ask(era, token, "tools/list", headers={"Accept": accept})

    assert response.headers["content-type"] == "application/json"
    assert response.status_code == 200


def test_content_type_may_name_its_charset(token: str) -> None:
    kind = {"Content-Type": "application/json; charset=utf-8"}

    assert request(token=token, headers=kind, content=LIST).status_code == 200


def test_body_of_five_mebibytes_is_refused_without_being_read_whole(
    token: str,
) -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(5 * 16):
            sent += 1
            yield b" " * 65_536

    response = request(token=token, content=parts())

    assert response.status_code == 413
    assert error_of(response)["code"] == "too_large"
    assert sent == 4 * 16 + 1


def test_declared_size_alone_is_enough_to_refuse(token: str) -> None:
    assert request(token=token, content=b" " * 5 * 1024 * 1024).status_code == 413


# --- Browsers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:8000",
        "http://127.0.0.1:8000",
        "https://claude.ai",
        "https://chatgpt.com",
        "http://localhost:6274",
    ],
)
def test_pages_of_known_origins_may_read_answers(origin: str, token: str) -> None:
    response = request(token=token, headers={"Origin": origin}, content=LIST)

    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin
    assert "WWW-Authenticate" in response.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in response.headers
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:8001", "http://["]
)
def test_pages_of_foreign_origins_are_refused(origin: str, token: str) -> None:
    response = request(token=token, headers={"Origin": origin}, content=LIST)

    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_operator_may_allow_more_origins(token: str, settings: Any) -> None:
    settings.RENOR_ALLOWED_ORIGINS = ["https://ide.example"]

    response = request(
        token=token, headers={"Origin": "https://ide.example"}, content=LIST
    )

    assert response.status_code == 200


def test_preflight_is_answered_before_the_token_is_asked_for() -> None:
    wanted = "authorization, mcp-protocol-version, mcp-param-x"

    response = request(
        "OPTIONS",
        headers={
            "Origin": "https://claude.ai",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": wanted,
        },
    )

    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "https://claude.ai"
    assert response.headers["access-control-allow-headers"] == wanted
    assert "POST" in response.headers["access-control-allow-methods"]


def test_unauthenticated_page_may_read_the_challenge() -> None:
    response = request(headers={"Origin": "https://claude.ai"})

    assert response.status_code == 401
    assert response.headers["access-control-allow-origin"] == "https://claude.ai"


def test_host_that_is_not_this_servers_is_refused(token: str) -> None:
    response = request(token=token, content=LIST, base="http://evil.example")

    assert response.status_code == 421


def test_every_answer_is_named_and_not_to_be_stored(token: str) -> None:
    responses = [
        request("GET"),
        request("OPTIONS"),
        request(token=token, content=b"{"),
        ask(OLD, token, "tools/list"),
        ask(NEW, token, "tools/list"),
    ]

    assert {response.headers["cache-control"] for response in responses} == {"no-store"}
    assert len({response.headers["x-request-id"] for response in responses}) == 5


# --- The eras -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (OLD, OLD),
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", OLD),
    ],
)
def test_initialize_agrees_on_a_version(asked: str, given: str, token: str) -> None:
    params = {
        "protocolVersion": asked,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }

    response = request(token=token, content=message(OLD, "initialize", params))

    result = response.json()["result"]
    assert result["protocolVersion"] == given
    assert result["capabilities"] == CAPABILITIES
    assert result["serverInfo"]["name"] == "renor"
    assert "get_context" in result["instructions"]
    assert "mcp-session-id" not in response.headers


def test_discover_describes_the_server(token: str) -> None:
    result = ask(NEW, token, "server/discover").json()["result"]

    assert result["supportedVersions"] == [NEW]
    assert result["capabilities"] == CAPABILITIES
    assert "get_context" in result["instructions"]
    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "private")


def test_new_era_results_say_how_long_they_hold(token: str) -> None:
    result = ask(NEW, token, "tools/list").json()["result"]

    assert (result["ttlMs"], result["cacheScope"]) == (300_000, "private")
    assert result["resultType"] == "complete"


def test_both_eras_list_the_same_tools_in_the_same_order(token: str) -> None:
    old, new, again = (
        ask(era, token, "tools/list").json()["result"]["tools"]
        for era in (OLD, NEW, NEW)
    )

    assert old == new == again
    assert old[0]["name"] == "get_context"
    assert old[0]["annotations"] == {
        "title": "Recall what matters now",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def test_request_without_a_version_is_answered(token: str) -> None:
    content = message(OLD, "tools/call", {"name": "memory_status"})

    response = request(token=token, content=content)

    assert result_of(response)["facts"] == 0


@EACH_ERA
def test_notification_is_taken_without_an_answer(era: str, token: str) -> None:
    content = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    headers = {"MCP-Protocol-Version": era}

    response = request(token=token, headers=headers, content=content)

    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize("method", ["tasks/list", "no/such"])
def test_unknown_method_is_a_protocol_error(method: str, token: str) -> None:
    old, new = ask(OLD, token, method), ask(NEW, token, method)

    assert (old.status_code, error_of(old)["code"]) == (200, -32601)
    assert (new.status_code, error_of(new)["code"]) == (404, -32601)


@EACH_ERA
def test_unknown_tool_is_a_protocol_error(era: str, token: str) -> None:
    error = error_of(call(era, token, "forget_everything"))

    assert error["code"] == -32602
    assert error["message"] == "Unknown tool: forget_everything"


def test_new_era_headers_must_match_the_body(token: str) -> None:
    headers = {"Mcp-Name": "remember"}
    params = {"name": "get_context", "arguments": {}}

    response = ask(NEW, token, "tools/call", params, headers)

    assert (response.status_code, error_of(response)["code"]) == (400, -32020)


def test_unknown_version_is_told_the_known_ones(token: str) -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    headers = {**era_headers(NEW, "tools/list"), "MCP-Protocol-Version": "2031-01-01"}
    content = message(NEW, "tools/list", {"_meta": meta})

    response = request(token=token, headers=headers, content=content)

    assert (response.status_code, error_of(response)["code"]) == (400, -32022)


@EACH_ERA
def test_index_memory_streams_only_to_clients_that_ask(era: str, token: str) -> None:
    params = {"name": "index_memory", "arguments": {}}
    asked = {**params, "_meta": {"progressToken": "p"}}
    stream = {"Accept": "application/json, text/event-stream"}

    streamed = ask(era, token, "tools/call", asked, stream)
    no_token = ask(era, token, "tools/call", params, stream)
    no_stream = ask(era, token, "tools/call", asked)
    other_tool = ask(
        era, token, "tools/call", {**asked, "name": "memory_status"}, stream
    )

    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.headers["cache-control"] == "no-store, no-transform"
    events = [
        json.loads(line.removeprefix("data: "))
        for line in streamed.text.splitlines()
        if line.startswith("data: ")
    ]
    assert events[0]["params"]["progressToken"] == "p"
    assert events[-1]["result"]["structuredContent"]["ok"] is True
    for plain in (no_token, no_stream, other_tool):
        assert plain.headers["content-type"] == "application/json"


@EACH_ERA
def test_calls_at_once_do_not_mix_their_callers(
    alice: Person, bob: Person, era: str
) -> None:
    tokens = {
        "Fjord": alice.agents["claude"].token,
        "Delta": bob.agents["claude"].token,
    }

    async def save(client: Client, subject: str, number: int) -> None:
        arguments = {"subject": subject, "predicate": f"p{number}", "object": "x"}
        result = await client.call_tool("save_memory", arguments)
        assert not result.is_error

    for subject, token in tokens.items():

        async def story(client: Client, subject: str = subject) -> None:
            await asyncio.gather(*(save(client, subject, n) for n in range(10)))

        with_client(token, era, story)

    for subject, token in tokens.items():
        facts = result_of(call(era, token, "get_context"))["facts"]
        assert {fact["subject"] for fact in facts} == {subject}
        assert len(facts) == 10


def test_too_many_calls_at_once_are_told_to_come_back(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    while workers._places.acquire(blocking=False):
        taken += 1
    try:
        response = call(OLD, token, "memory_status")
    finally:
        workers._places.release(taken)

    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert taken == workers.THREAD_COUNT + workers.MAX_WAITING
    assert call(OLD, token, "memory_status").status_code == 200
