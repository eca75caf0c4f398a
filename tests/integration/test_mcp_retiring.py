"""Retiring and restoring as an agent does it, in both eras of the protocol."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.client import Client

from tests.conftest import Person
from tests.factories import make_agent
from tests.mcp_door import ERAS, NEW, ask, call, result_of, with_client

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_ERA = pytest.mark.parametrize("era", ERAS)


@pytest.fixture
def token(alice: Person) -> str:
    return alice.agents["claude"].token


async def use(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """Call as the client does: it holds the answer to the tool's output schema."""
    result = await client.call_tool(tool, arguments)
    content: dict[str, Any] = result.structured_content
    return content


@EACH_ERA
def test_retired_memories_are_found_by_nothing_until_restored(
    token: str, era: str
) -> None:
    async def story(client: Client) -> None:
        entry = await use(client, "remember", statement="The xylophone is blue.")
        fact = await use(
            client,
            "save_memory",
            subject="Xylophone",
            predicate="colour",
            object="blue",
        )
        for one in (entry, fact):
            retired = await use(client, "retire_memory", id=one["id"])
            again = await use(client, "retire_memory", id=one["id"])
            assert again == retired
            assert (retired["ok"], retired["action"]) == (True, "retired")

        context = await use(client, "get_context", query="xylophone")
        unknown = await use(client, "retrieve_memory", subject="Xylophone")
        read = await use(client, "read_memory", id=entry["id"])
        assert (context["facts"], context["memories"]) == ([], [])
        assert unknown["known"] is False
        assert "Xylophone" not in str(unknown["closestSubjects"])
        assert (read["retired"], read["text"]) == (True, "The xylophone is blue.")

        for one in (entry, fact):
            restored = await use(client, "restore_memory", id=one["id"])
            assert restored["action"] == "restored"
        assert restored["current"] is True
        context = await use(client, "get_context", query="xylophone")
        assert [one["id"] for one in context["facts"]] == [fact["id"]]
        assert [one["id"] for one in context["memories"]] == [entry["id"]]

    with_client(token, era, story)


@EACH_ERA
def test_what_cannot_be_done_says_why(token: str, era: str) -> None:
    entry = result_of(call(era, token, "remember", statement="words"))

    def error(tool: str, memory_id: str) -> dict[str, Any]:
        content: dict[str, Any] = result_of(call(era, token, tool, id=memory_id))
        return content["error"]  # type: ignore[no-any-return]  # it is an object

    assert error("restore_memory", entry["id"])["code"] == "conflict"
    assert error("retire_memory", "note:nowhere.md")["code"] == "not_found"
    assert error("retire_memory", " ")["code"] == "invalid"
    day = entry["id"].partition("#")[0].replace("entry:", "note:")
    refused = error("retire_memory", day)
    assert (refused["code"], refused["entryIds"]) == ("invalid", [entry["id"]])


def test_reader_neither_sees_nor_calls_them(alice: Person, token: str) -> None:
    _, reader = make_agent(alice.workspace, "reader", read_only=True)
    entry = result_of(call(NEW, token, "remember", statement="words"))

    listed = ask(NEW, reader, "tools/list").json()["result"]["tools"]
    refused = result_of(call(NEW, reader, "retire_memory", id=entry["id"]))

    assert not {"retire_memory", "restore_memory"} & {tool["name"] for tool in listed}
    assert refused["error"]["code"] == "read_only"


def test_agents_have_no_tool_that_deletes(token: str) -> None:
    for name in ("erase", "redact", "replace_note", "read_version"):
        answer = call(NEW, token, name, id="fact:1")
        assert answer.json()["error"]["code"] == -32602
