"""What an agent does with the tools, told through the official client in both eras."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from mcp.client import Client

from tests.conftest import Person
from tests.factories import make_agent
from tests.mcp_door import CLIENT_NAME, ERAS, NEW, OLD, call, result_of, with_client

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_ERA = pytest.mark.parametrize("era", ERAS)

QUESTION = "what database does Fjord use?"
FACT = {"subject": "Fjord", "predicate": "database"}


@pytest.fixture
def token(alice: Person) -> str:
    return alice.agents["claude"].token


async def ask(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """Call as the client does: it holds the answer to the tool's output schema."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    return content


def objects(answer: dict[str, Any]) -> list[str]:
    return [fact["object"] for fact in answer["facts"]]


def shift(moment: str, **span: float) -> str:
    moved = datetime.fromisoformat(moment) + timedelta(**span)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@EACH_ERA
def test_newest_value_is_recalled_and_the_old_one_kept(token: str, era: str) -> None:
    async def story(client: Client) -> None:
        first = await ask(client, "save_memory", **FACT, object="PostgreSQL")
        second = await ask(client, "save_memory", **FACT, object="SQLite")
        again = await ask(client, "save_memory", **FACT, object="SQLite")
        context = await ask(client, "get_context", query=QUESTION)
        history = await ask(
            client, "retrieve_memory", subject="Fjord", include_history=True
        )
        between = shift(second["at"], milliseconds=-1)
        then = await ask(client, "retrieve_memory", subject="Fjord", as_of=between)
        before = shift(first["at"], days=-1)
        earlier = await ask(client, "retrieve_memory", subject="Fjord", as_of=before)

        assert (first["action"], second["action"]) == ("store", "supersede")
        assert second["supersedes"] == [first["id"]]
        assert (again["action"], again["id"]) == ("nochange", second["id"])
        assert objects(context) == ["SQLite"]
        assert context["relevance"] == {"relevant": True}
        assert 0 < context["tokens"]["used"] <= context["tokens"]["max"] == 800
        assert objects(history) == ["SQLite", "PostgreSQL"]
        assert history["facts"][0].get("validTo") is None
        assert history["facts"][1]["validTo"] == second["at"]
        assert objects(then) == ["PostgreSQL"]
        assert (earlier["known"], earlier["facts"]) == (True, [])

    with_client(token, era, story)


@EACH_ERA
def test_statement_and_note_are_found_by_their_words_and_read(
    token: str, era: str
) -> None:
    async def story(client: Client) -> None:
        said = "Fjord deploys on Fridays, because São Paulo is quiet then."
        receipt = await ask(client, "remember", statement=said)
        await ask(client, "remember_note", text="Retro: slow tests.", date="2026-01-02")

        found = await ask(client, "search_text", query="sao paulo is quiet")
        other_day = await ask(client, "search_text", query="slow tests")
        memory = await ask(client, "read_memory", id=receipt["id"])
        status = await ask(client, "memory_status")

        assert [hit["id"] for hit in found["hits"]] == [receipt["id"]]
        assert [hit["session_date"] for hit in other_day["hits"]] == ["2026-01-02"]
        assert (memory["text"], memory["kind"]) == (said, "entry")
        assert memory["writer"] == "claude"
        assert (status["entries"], status["facts"]) == (2, 0)

    with_client(token, era, story)


@EACH_ERA
def test_what_is_there_can_be_looked_up_and_browsed(token: str, era: str) -> None:
    async def story(client: Client) -> None:
        fact = await ask(client, "save_memory", **FACT, object="SQLite")
        entry = await ask(client, "remember", statement="Fjord sails #ships [[plan]]")

        by_meaning = await ask(client, "search_memory", query="boats", rank="score")
        entity = await ask(client, "lookup_entity", name="fjörd")
        nobody = await ask(client, "lookup_entity", name="Bergen")
        whole = await ask(client, "memory_map")
        some = await ask(client, "memory_map", query="sails", limit=1)

        assert (by_meaning["hits"], by_meaning["reason"]) == (
            [],
            "semantic-unavailable",
        )
        assert (entity["found"], entity["match"], entity["name"]) == (
            *(True, "name"),
            "Fjord",
        )
        assert [one["id"] for one in entity["facts"]] == [fact["id"]]
        assert nobody == {
            "found": False,
            "reason": "no-entity-match",
            "entities": 1,
        }
        assert [one["id"] for one in whole["memories"]] == [entry["id"]]
        assert whole["links"] == [
            {"kind": "tag", "from": entry["id"], "to": "ships"},
            {"kind": "wikilink", "from": entry["id"], "to": "plan"},
        ]
        assert whole["total"]["events"] == 2
        assert [one["id"] for one in some["memories"]] == [entry["id"]]

    with_client(token, era, story)


@EACH_ERA
def test_empty_memory_says_so(token: str, era: str) -> None:
    async def story(client: Client) -> None:
        context = await ask(client, "get_context", query=QUESTION)

        assert context["relevance"] == {"relevant": False, "reason": "empty"}
        assert (context["facts"], context["memories"]) == ([], [])

    with_client(token, era, story)


def test_indexing_reports_progress_when_asked(token: str) -> None:
    for era in ERAS:
        seen: list[float] = []

        async def report(
            progress: float,
            total: float | None,
            message: str | None,
            seen: list[float] = seen,
        ) -> None:
            seen.append(progress)

        async def story(client: Client, report: Any = report) -> Any:
            return await client.call_tool("index_memory", {}, progress_callback=report)

        answer = with_client(token, era, story)

        assert answer.structured_content["ok"] is True
        assert seen, era


def test_connection_that_may_only_read_sees_and_saves_nothing_new(
    alice: Person, token: str
) -> None:
    _, reader = make_agent(alice.workspace, "reader", read_only=True)
    call(OLD, token, "save_memory", **FACT, object="SQLite")

    async def story(client: Client) -> None:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        context = await ask(client, "get_context", query=QUESTION)
        refused = await client.call_tool("save_memory", {**FACT, "object": "MySQL"})

        assert listed == [
            "get_context",
            "retrieve_memory",
            "search_memory",
            "search_text",
            "lookup_entity",
            "memory_map",
            "read_memory",
            "index_memory",
            "memory_status",
        ]
        assert objects(context) == ["SQLite"]
        assert refused.is_error
        assert refused.structured_content["error"]["code"] == "read_only"

    for era in ERAS:
        with_client(reader, era, story)
    assert objects(result_of(call(NEW, token, "retrieve_memory", subject="Fjord"))) == [
        "SQLite"
    ]


def test_owners_never_see_each_other(alice: Person, bob: Person) -> None:
    saved = result_of(
        call(NEW, alice.agents["claude"].token, "remember", statement="Fjord: SQLite.")
    )
    stranger = bob.agents["claude"].token

    context = result_of(call(NEW, stranger, "get_context", query="Fjord SQLite"))
    reading = result_of(call(NEW, stranger, "read_memory", id=saved["id"]))

    assert context["relevance"] == {"relevant": False, "reason": "empty"}
    assert reading["error"]["code"] == "not_found"


def test_source_defaults_to_what_the_client_calls_itself(token: str) -> None:
    call(NEW, token, "save_memory", **FACT, object="SQLite")

    facts = result_of(call(NEW, token, "retrieve_memory", subject="Fjord"))["facts"]

    assert [(fact["source"], fact["writer"]) for fact in facts] == [
        (CLIENT_NAME, "claude")
    ]
