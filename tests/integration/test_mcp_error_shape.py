"""Every way in which a call can fail has one of three shapes, the same in both eras.

What the agent can act on: a result with isError and
{"error": {"code", "message", "retryable", ...}}, the same JSON as text.
What only waiting mends: HTTP 503 or 500, Retry-After, the same object as the body.
What the client got wrong about the protocol: a JSON-RPC error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.conf import settings

from memories import gateway
from tests.conftest import Person
from tests.factories import make_agent
from tests.mcp_door import ERAS, NEW, ask, call, result_of
from workspaces.models import Workspace

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_ERA = pytest.mark.parametrize("era", ERAS)
CODES = {
    "invalid",
    "too_large",
    "not_found",
    "conflict",
    "read_only",
    "quota_exceeded",
    "unavailable",
}
FACT = {"subject": "Fjord", "predicate": "database", "object": "SQLite"}
LONG = "x" * 4_001


@pytest.fixture
def token(alice: Person) -> str:
    return alice.agents["claude"].token


def folder_of(workspace: Workspace) -> Path:
    folder: Path = settings.RENOR_DATA / "workspaces" / str(workspace.id)
    return folder


def error_of(response: httpx2.Response) -> dict[str, Any]:
    """Return a tool error, after holding it to the shape."""
    content = result_of(response)
    error: dict[str, Any] = content["error"]
    assert response.json()["result"]["isError"] is True
    assert set(content) == {"error"}
    assert list(error)[:3] == ["code", "message", "retryable"]
    assert error["code"] in CODES
    assert error["message"]
    assert error["retryable"] is False
    return error


def nothing_is_kept(token: str) -> bool:
    status = result_of(call(NEW, token, "memory_status"))
    return (status["entries"], status["facts"]) == (0, 0)


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "named"),
    [
        ("remember", {}, "invalid", "statement"),
        ("remember", {"statement": 5}, "invalid", "statement"),
        ("remember", {"statement": None}, "invalid", "statement"),
        ("remember", {"statement": ""}, "invalid", "statement"),
        ("remember", {"statement": " \n"}, "invalid", "statement"),
        ("remember", {"statement": LONG}, "too_large", "statement"),
        ("remember", {"statement": "a\x00b"}, "invalid", "statement"),
        ("remember", {"statement": "a\x7fb"}, "invalid", "statement"),
        ("remember", {"statement": "a\ud800b"}, "invalid", "statement"),
        ("remember", {"statement": "x", "tags": []}, "invalid", "tags"),
        ("remember", {"statement": "x", "subject": "y"}, "invalid", "predicate"),
        ("remember", {"statement": "x", "scope": "Fjord"}, "invalid", "scope"),
        ("remember", {"statement": "x", "timezone": "Mars"}, "invalid", "timezone"),
        ("remember", {"statement": "x", "replaces": "entry:x"}, "not_found", "entry:x"),
        ("remember_note", {"text": "x", "date": "2026-02-30"}, "invalid", "date"),
        ("remember_note", {"text": LONG}, "too_large", "text"),
        ("save_memory", {**FACT, "subject": "x" * 201}, "too_large", "subject"),
        ("save_memory", {**FACT, "source": "x" * 101}, "too_large", "source"),
        ("get_context", {"query": "x" * 10_001}, "too_large", "query"),
        ("get_context", {"max_tokens": 99}, "invalid", "max_tokens"),
        ("get_context", {"max_tokens": "800"}, "invalid", "max_tokens"),
        ("get_context", {"max_tokens": True}, "invalid", "max_tokens"),
        ("retrieve_memory", {"subject": "x", "as_of": "soon"}, "invalid", "as_of"),
        ("retrieve_memory", {"subject": ""}, "invalid", "subject"),
        ("search_text", {"query": "x", "top_k": 51}, "invalid", "top_k"),
        ("search_text", {"query": "\ud800"}, "invalid", "query"),
        ("read_memory", {"id": "note:no.md"}, "not_found", "note:no.md"),
        ("read_memory", {"id": "note:../../x"}, "not_found", "note:../../x"),
        ("memory_status", {"verbose": True}, "invalid", "verbose"),
    ],
)
@EACH_ERA
def test_call_that_cannot_be_done_names_what_is_at_fault(
    tool: str,
    arguments: dict[str, object],
    code: str,
    named: str,
    era: str,
    token: str,
) -> None:
    error = error_of(call(era, token, tool, **arguments))

    assert error["code"] == code
    assert named in error["message"]
    assert nothing_is_kept(token)


@EACH_ERA
def test_look_up_without_a_subject_lists_the_known_ones(era: str, token: str) -> None:
    call(era, token, "save_memory", **FACT)

    error = error_of(call(era, token, "retrieve_memory"))

    assert error["code"] == "invalid"
    assert error["knownSubjects"] == [FACT["subject"]]


@EACH_ERA
def test_unknown_argument_lists_the_allowed_ones(era: str, token: str) -> None:
    error = error_of(call(era, token, "get_context", question="x"))

    assert error["argument"] == "question"
    assert error["allowedArguments"] == ["query", "scope", "max_tokens"]


@EACH_ERA
def test_saving_without_permission_is_read_only(era: str, alice: Person) -> None:
    _, reader = make_agent(alice.workspace, "reader", read_only=True)

    error = error_of(call(era, reader, "save_memory", **FACT))

    assert error["code"] == "read_only"
    assert nothing_is_kept(reader)


@EACH_ERA
def test_saving_outside_the_allowed_scopes_names_them(era: str, alice: Person) -> None:
    _, limited = make_agent(alice.workspace, "limited", scopes=("project:fjord",))

    error = error_of(call(era, limited, "save_memory", **FACT, scope="project:delta"))

    assert error["code"] == "invalid"
    assert error["allowedScopes"] == ["project:fjord"]


@EACH_ERA
def test_workspace_that_cannot_be_opened_is_a_503(
    era: str, alice: Person, token: str
) -> None:
    marker = folder_of(alice.workspace) / "workspace.json"
    away = marker.rename(marker.with_name("away"))

    responses = [
        call(era, token, "get_context", query="Fjord"),
        call(era, token, "save_memory", **FACT),
    ]

    for response in responses:
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert response.headers["cache-control"] == "no-store"
        assert response.json() == {
            "error": {
                "code": "unavailable",
                "message": "memory unavailable, nothing was written; retry",
                "retryable": True,
                "outcomeKnown": True,
            }
        }
    away.rename(marker)


@EACH_ERA
def test_unavailable_within_a_stream_is_a_tool_error(
    era: str, alice: Person, token: str
) -> None:
    marker = folder_of(alice.workspace) / "workspace.json"
    marker.rename(marker.with_name("away"))
    params = {
        "name": "index_memory",
        "arguments": {},
        "_meta": {"progressToken": 1},
    }
    stream = {"Accept": "application/json, text/event-stream"}

    response = ask(era, token, "tools/call", params, stream)

    assert response.status_code == 200
    last = [line for line in response.text.splitlines() if line.startswith("data: ")][
        -1
    ]
    result = json.loads(last.removeprefix("data: "))["result"]
    assert result["isError"] is True
    error = result["structuredContent"]["error"]
    assert (error["code"], error["retryable"]) == ("unavailable", True)
    assert error["retryAfterSeconds"] >= 1


@EACH_ERA
def test_unknown_outcome_says_that_a_retry_is_harmless(
    era: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*arguments: object, **more: object) -> None:
        raise gateway.Unavailable("lost", retry_after_seconds=3, outcome_known=False)

    monkeypatch.setattr(gateway, "call", lose)

    response = call(era, token, "save_memory", **FACT)

    assert (response.status_code, response.headers["retry-after"]) == (503, "3")
    assert response.json()["error"] == {
        "code": "unavailable",
        "message": "memory unavailable, outcome unknown; a retry is harmless",
        "retryable": True,
        "outcomeKnown": False,
    }


@EACH_ERA
def test_fault_in_renor_is_a_500_that_tells_nothing_of_it(
    era: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise RuntimeError("zephyrine")

    monkeypatch.setattr(gateway, "call", fail)

    response = call(era, token, "save_memory", **FACT)

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "unavailable"
    assert response.headers["x-request-id"] in response.text
    assert "zephyrine" not in response.text
    assert "Traceback" not in response.text
