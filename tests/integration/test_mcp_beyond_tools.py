"""Resources, prompts, and the two tools of deep research, in both eras."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from mcp.client import Client
from mcp_types import TextResourceContents

from tests.conftest import Person
from tests.factories import make_agent
from tests.mcp_door import (
    ERAS,
    NEW,
    ask,
    call,
    era_headers,
    message,
    request,
    result_of,
    with_client,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_ERA = pytest.mark.parametrize("era", ERAS)
WORDS = "The xylophone is kept in the attic."


@pytest.fixture
def token(alice: Person) -> str:
    return alice.agents["claude"].token


def uri_of(memory_id: str) -> str:
    return f"renor://memory/{quote(memory_id, safe='')}"


def read_resource(era: str, token: str, uri: str) -> Any:
    headers = {"Mcp-Name": uri} if era == NEW else {}
    return ask(era, token, "resources/read", {"uri": uri}, headers).json()


def research(era: str, token: str, method: str, params: dict[str, Any]) -> Any:
    response = request(
        path="/mcp?tools=research",
        token=token,
        headers=era_headers(era, method, str(params.get("name", ""))),
        content=message(era, method, params),
    )
    return response.json()


# --- resources


@EACH_ERA
def test_memories_are_listed_and_read_as_resources(token: str, era: str) -> None:
    saved = result_of(call(era, token, "remember", statement=WORDS))

    async def story(client: Client) -> None:
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource(uri_of(saved["id"]))
        status = await client.read_resource("renor://status")

        assert listed[0].uri == "renor://status"
        assert uri_of(saved["id"]) in [one.uri for one in listed]
        assert [one.uri_template for one in templates] == ["renor://memory/{id}"]
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "text/markdown"
        assert WORDS in content.text
        assert f"`{saved['id']}`" in content.text
        (content,) = status.contents
        assert isinstance(content, TextResourceContents)
        assert json.loads(content.text)["entries"] == 1
        assert "xylophone" not in content.text

    with_client(token, era, story)


@EACH_ERA
def test_marks_of_a_retired_memory_are_said_plainly(token: str, era: str) -> None:
    saved = result_of(call(era, token, "remember", statement=WORDS, source="system"))
    result_of(call(era, token, "retire_memory", id=saved["id"]))

    read = read_resource(era, token, uri_of(saved["id"]))
    listed = ask(era, token, "resources/list").json()["result"]["resources"]

    text = read["result"]["contents"][0]["text"]
    assert "**retired" in text
    assert "**untrusted" in text
    assert saved["id"] not in str(listed)


@EACH_ERA
@pytest.mark.parametrize(
    "uri", ["renor://memory/note%3Anowhere.md", "renor://other", "file:///etc/passwd"]
)
def test_unknown_resource(token: str, era: str, uri: str) -> None:
    error = read_resource(era, token, uri)["error"]

    assert error["code"] == -32602
    assert error["message"].startswith("Unknown resource")
    assert "passwd" not in str(error)


@EACH_ERA
def test_limited_connection_meets_only_its_own(
    alice: Person, token: str, era: str
) -> None:
    saved = result_of(call(era, token, "remember", statement=WORDS))
    _, limited = make_agent(alice.workspace, scopes=("project:fjord",))
    unknown = read_resource(era, limited, uri_of("entry:x#1"))

    read = read_resource(era, limited, uri_of(saved["id"]))
    listed = ask(era, limited, "resources/list").json()["result"]["resources"]

    assert read["error"] == unknown["error"]
    assert [one["uri"] for one in listed] == ["renor://status"]


# --- prompts


@EACH_ERA
def test_prompts_are_listed_and_filled_in(token: str, era: str) -> None:
    async def story(client: Client) -> None:
        listed = (await client.list_prompts()).prompts
        recall = await client.get_prompt("recall", {"task": "move {the} database"})
        save = await client.get_prompt(
            "save-decision",
            {"decision": "Use SQLite", "reason": "one file", "project": "fjord"},
        )

        assert [one.name for one in listed] == ["recall", "save-decision"]
        asked, saved = str(recall.messages[0].content), str(save.messages[0].content)
        assert "move {the} database" in asked
        assert "get_context" in asked
        assert "Use SQLite" in saved
        assert "project:fjord" in saved

    with_client(token, era, story)


@EACH_ERA
@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("forget", {}, "forget"),
        ("recall", {}, "task"),
        ("recall", {"task": "x", "speed": "y"}, "speed"),
    ],
)
def test_prompt_that_cannot_be_filled_in(
    token: str, era: str, name: str, arguments: dict[str, str], named: str
) -> None:
    params = {"name": name, "arguments": arguments}

    error = ask(era, token, "prompts/get", params).json()["error"]

    assert error["code"] == -32602
    assert named in error["message"]


# --- search and fetch


@EACH_ERA
def test_research_tools_have_the_required_shape(token: str, era: str) -> None:
    saved = result_of(call(era, token, "remember", statement=WORDS))
    params = {"name": "search", "arguments": {"query": "xylophone attic"}}

    found = research(era, token, "tools/call", params)["result"]
    params = {"name": "fetch", "arguments": {"id": saved["id"]}}
    fetched = research(era, token, "tools/call", params)["result"]

    (block,) = found["content"]
    assert json.loads(block["text"]) == found["structuredContent"]
    (result,) = found["structuredContent"]["results"]
    assert set(result) == {"id", "title", "url"}
    assert result["id"] == saved["id"]
    assert result["url"].endswith(f"/m/{quote(saved['id'], safe='')}")
    memory = fetched["structuredContent"]
    assert set(memory) == {"id", "title", "text", "url", "metadata"}
    assert memory["text"] == WORDS
    assert memory["metadata"]["scope"] == "global"


def test_research_tools_are_there_for_who_asks(token: str) -> None:
    plain = ask(NEW, token, "tools/list").json()["result"]["tools"]
    asked = research(NEW, token, "tools/list", {})["result"]["tools"]
    refused = call(NEW, token, "search", query="x").json()

    names = [tool["name"] for tool in plain]
    assert [tool["name"] for tool in asked] == [*names, "search", "fetch"]
    assert all(tool["annotations"]["readOnlyHint"] for tool in asked[-2:])
    assert refused["error"]["code"] == -32602


def test_other_value_in_the_address_is_named(token: str) -> None:
    response = request(
        path="/mcp?tools=all",
        token=token,
        headers=era_headers(NEW, "tools/list"),
        content=message(NEW, "tools/list"),
    )

    assert response.status_code == 400
    assert "research" in response.text


@EACH_ERA
def test_research_errors_name_what_is_wrong(token: str, era: str) -> None:
    params = {"name": "fetch", "arguments": {"id": "note:nowhere.md"}}
    unknown = research(era, token, "tools/call", params)["result"]
    params = {"name": "search", "arguments": {"words": "x"}}
    wrong = research(era, token, "tools/call", params)["result"]

    assert unknown["structuredContent"]["error"]["code"] == "not_found"
    assert wrong["structuredContent"]["error"]["argument"] == "words"
