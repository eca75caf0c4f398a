"""The table of tools against the contract: schemas, hints, help, documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memories.gateway import errors
from memories.mcp.schema import flag, read_arguments, text, whole
from memories.mcp.server import make_server
from memories.mcp.tools import TOOLS, Tool

DOCS = Path(__file__).parents[2] / "docs" / "mcp.md"

READ, IDEMPOTENT, DESTRUCTIVE = "read-only", "idempotent", "destructive"
HINTS = {
    "get_context": {READ, IDEMPOTENT},
    "remember": {DESTRUCTIVE},
    "save_memory": {DESTRUCTIVE, IDEMPOTENT},
    "remember_note": {DESTRUCTIVE},
    "retrieve_memory": {READ, IDEMPOTENT},
    "search_memory": {READ, IDEMPOTENT},
    "search_text": {READ, IDEMPOTENT},
    "lookup_entity": {READ, IDEMPOTENT},
    "memory_map": {READ, IDEMPOTENT},
    "read_memory": {READ, IDEMPOTENT},
    "retire_memory": {DESTRUCTIVE, IDEMPOTENT},
    "restore_memory": {IDEMPOTENT},
    "index_memory": {IDEMPOTENT},
    "memory_status": {READ, IDEMPOTENT},
}
REQUIRED = {
    "get_context": [],
    "remember": ["statement"],
    "save_memory": ["subject", "predicate", "object"],
    "remember_note": ["text"],
    "retrieve_memory": ["subject"],
    "search_memory": ["query"],
    "search_text": ["query"],
    "lookup_entity": ["name"],
    "memory_map": [],
    "read_memory": ["id"],
    "retire_memory": ["id"],
    "restore_memory": ["id"],
    "memory_status": [],
    "index_memory": [],
}
FLAT_KEYS = {
    "type",
    "description",
    "default",
    "minimum",
    "maximum",
    "maxLength",
    "enum",
}
EACH_TOOL = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)

QUERY = text("query", "Words.", max_chars=10)
TOP_K = whole("top_k", "How many.", default=10, minimum=1, maximum=50)
OFFSET = whole("offset", "Where.", default=0, minimum=0)
RANK = text("rank", "Order.", default="score", choices=("score", "session_date"))
HISTORY = flag("include_history", "All.", default=False)
ARGUMENTS = (QUERY, TOP_K, OFFSET, RANK, HISTORY)


def iter_nodes(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema within a schema; names of properties are not schemas."""
    yield node
    for part in node.get("properties", {}).values():
        yield from iter_nodes(part)
    if "items" in node:
        yield from iter_nodes(node["items"])


def test_tools_are_these_in_this_order() -> None:
    assert list(TOOLS) == list(HINTS)


@EACH_TOOL
def test_input_schema_is_flat(tool: Tool) -> None:
    schema = tool.input_schema

    assert set(schema) <= {"type", "properties", "required", "additionalProperties"}
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema.get("required", []) == REQUIRED[tool.name]
    for name, node in schema["properties"].items():
        assert set(node) <= FLAT_KEYS, name
        assert node["type"] in {"string", "integer", "boolean"}
        assert node["description"].endswith(".")
        assert ("default" in node) is (name not in REQUIRED[tool.name])


@EACH_TOOL
def test_output_schema_is_an_open_object_without_references(tool: Tool) -> None:
    schema = tool.output_schema

    assert schema["type"] == "object"
    assert schema["properties"]["error"]["type"] == "object"
    for node in iter_nodes(schema):
        assert set(node) <= {"type", "properties", "items", "enum", "description"}
        assert isinstance(node["type"], str)


@EACH_TOOL
def test_hints_are_those_of_the_contract(tool: Tool) -> None:
    stated = {
        READ: tool.read_only,
        IDEMPOTENT: tool.idempotent,
        DESTRUCTIVE: tool.destructive,
    }

    assert {hint for hint, is_set in stated.items() if is_set} == HINTS[tool.name]
    assert not (tool.read_only and tool.writes)


@EACH_TOOL
def test_help_fits_what_clients_show(tool: Tool) -> None:
    assert re.fullmatch(r"[a-z_]{1,40}", tool.name)
    assert 0 < len(tool.title) <= 40
    assert 100 < len(tool.description) < 1_024
    assert "  " not in tool.description


@EACH_TOOL
def test_documentation_has_a_heading_and_every_argument(tool: Tool) -> None:
    sections = re.split(r"^### ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    section = {part.partition("\n")[0]: part for part in sections}[tool.name]

    arguments = [argument.name for argument in tool.arguments]

    assert [name for name in arguments if f"`{name}`" not in section] == []


def test_no_handler_is_a_plain_function() -> None:
    server = make_server()
    methods: tuple[str, ...] = ("ping", "server/discover", "tools/list", "tools/call")
    methods += ("resources/list", "resources/templates/list", "resources/read")
    methods += ("prompts/list", "prompts/get")

    for method in methods:
        entry = server.get_request_handler(method)
        assert entry is not None
        assert inspect.iscoroutinefunction(entry.handler), method


def test_nothing_else_is_offered() -> None:
    capabilities = make_server().get_capabilities()

    assert capabilities.model_dump(exclude_none=True) == {
        "tools": {"list_changed": False},
        "resources": {"list_changed": False, "subscribe": False},
        "prompts": {"list_changed": False},
    }


def test_arguments_left_out_take_their_defaults() -> None:
    assert read_arguments("search", ARGUMENTS, {"query": "Fjord"}) == {
        "query": "Fjord",
        "top_k": 10,
        "offset": 0,
        "rank": "score",
        "include_history": False,
    }


def test_whole_numbers_may_be_written_as_floats() -> None:
    given = {"query": "", "top_k": 5.0, "include_history": True}

    values = read_arguments("search", ARGUMENTS, given)

    assert (values["top_k"], type(values["top_k"])) == (5, int)
    assert values["include_history"] is True


@pytest.mark.parametrize(
    ("given", "argument", "message"),
    [
        (
            {"query": "x", "topk": 1},
            "topk",
            'search has no argument "topk"; its arguments are: '
            "query, top_k, offset, rank, include_history",
        ),
        ({}, "query", 'search needs the argument "query": Words.'),
        ({"query": 5}, "query", 'argument "query" must be a text, not the number 5'),
        (
            {"query": ["x"]},
            "query",
            'argument "query" must be a text, not a list',
        ),
        ({"query": {}}, "query", 'argument "query" must be a text, not an object'),
        ({"query": None}, "query", 'argument "query" must be a text, not null'),
        (
            {"query": "x", "top_k": None},
            "top_k",
            'argument "top_k" must be a whole number from 1 to 50, not null; '
            "leave it out if you have none",
        ),
        (
            {"query": "x", "top_k": True},
            "top_k",
            'argument "top_k" must be a whole number from 1 to 50, not true or false',
        ),
        (
            {"query": "x", "top_k": "5"},
            "top_k",
            'argument "top_k" must be a whole number from 1 to 50, not a text',
        ),
        (
            {"query": "x", "top_k": 1.5},
            "top_k",
            'argument "top_k" must be a whole number from 1 to 50, not the number 1.5',
        ),
        (
            {"query": "x", "top_k": float("inf")},
            "top_k",
            'argument "top_k" must be a whole number from 1 to 50, not the number inf',
        ),
        (
            {"query": "x", "top_k": 51},
            "top_k",
            'argument "top_k" is 51; it must be a whole number from 1 to 50',
        ),
        (
            {"query": "x", "top_k": 0},
            "top_k",
            'argument "top_k" is 0; it must be a whole number from 1 to 50',
        ),
        (
            {"query": "x", "offset": -1},
            "offset",
            'argument "offset" is -1; it must be a whole number from 0 up',
        ),
        (
            {"query": "x", "include_history": "yes"},
            "include_history",
            'argument "include_history" must be true or false, not a text',
        ),
        (
            {"query": "x", "rank": "newest"},
            "rank",
            'argument "rank" is "newest"; it must be "score" or "session_date"',
        ),
    ],
)
def test_wrong_argument_is_named_with_what_it_accepts(
    given: dict[str, object], argument: str, message: str
) -> None:
    with pytest.raises(errors.Invalid) as caught:
        read_arguments("search", ARGUMENTS, given)

    assert caught.value.message == message
    assert caught.value.details["argument"] == argument
