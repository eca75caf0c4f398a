"""Every tool asked for what is another's: another owner's workspace, another scope.

There is always something to leak: the same canary words as entries, facts, notes,
tags, links and retired memories. What may not be seen answers exactly as what never was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from memories.mcp.tools import TOOLS, Tool
from tests.conftest import Person
from tests.factories import make_agent
from tests.mcp_door import ERAS, NEW, call, result_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("engine_host"),
]
EACH_TOOL = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
EACH_ERA = pytest.mark.parametrize("era", ERAS)
SECRET = "project:vault"
CANARY = "Kanarie"
NEVER = "Wombat"
"""In the place of the canary: a word that stands nowhere."""


def plant(person: Person, scope: str) -> dict[str, str]:
    """Save the canary in every way; return an id of each kind."""
    token = person.agents["claude"].token
    words = f"{CANARY} sings of #{CANARY} and [[{CANARY}]]."
    fact = {"subject": CANARY, "predicate": "is", "scope": scope}

    def save(tool: str, **arguments: str) -> str:
        return str(result_of(call(NEW, token, tool, **arguments))["id"])

    ids = {
        "entry": save("remember", statement=words, scope=scope),
        "old": save("save_memory", object=f"{CANARY} one", **fact),
        "fact": save("save_memory", object=f"{CANARY} two", **fact),
        "retired": save("remember", statement=f"Retired {CANARY}", scope=scope),
        "gone": save("save_memory", **{**fact, "predicate": "was"}, object=CANARY),
        "note": f"note:{CANARY}.md",
    }
    folder: Path = settings.RENOR_DATA / "workspaces" / str(person.workspace.id)
    (folder / "store" / f"{CANARY}.md").write_text(
        f"---\nscope: {scope}\naliases: [{CANARY} Alias]\n---\n# {CANARY}\n\n{words}\n",
        encoding="utf-8",
    )
    result_of(call(NEW, token, "index_memory"))
    for kind in ("retired", "gone"):
        result_of(call(NEW, token, "retire_memory", id=ids[kind]))
    return ids


def questions(tool: Tool, ids: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield arguments that ask a tool for what was planted, in every way it has."""
    names = {argument.name for argument in tool.arguments}
    required = {a.name for a in tool.arguments if a.is_required}
    looked_for = {"query", "name", "subject"} & names
    if "id" in names:
        yield from ({"id": one} for one in ids.values())
    elif tool.writes:
        fill = dict.fromkeys(required, "harmless words")
        yield from (
            {**fill, "replaces": one} for one in ids.values() if "replaces" in names
        )
        yield {**fill, "cites": ",".join(ids.values())}
    elif looked_for:
        for name in looked_for:
            for said in (CANARY, f"{CANARY} one", f"{CANARY} Alias", f"[[{CANARY}]]"):
                yield {name: said}
                yield {name: said, "scope": SECRET}
    else:
        yield {}
    if "query" in names - required or tool.name == "memory_map":
        yield {}


def never(value: Any) -> Any:
    """Return the same with another word in the canary's place and ids of nothing."""
    text = json.dumps(value).replace(CANARY, NEVER).replace("harmless", "innocent")
    return json.loads(text)


def without_echo(answer: dict[str, Any]) -> str:
    """Return an answer's text without the word that was asked for, ids and moments."""
    text = json.dumps(answer, sort_keys=True)
    for word in (CANARY, NEVER):
        text = text.replace(word, "*").replace(word.lower(), "*")
    return text


def ask(era: str, token: str, tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    response = call(era, token, tool.name, **arguments)
    assert CANARY not in str(response.headers)
    return result_of(response)


MOVING = {"at", "asOf", "id", "eventId", "indexed", "tokens", "storage"}


def settled(answer: Any) -> Any:
    """Return an answer without what differs from call to call."""
    if isinstance(answer, dict):
        return {k: settled(v) for k, v in answer.items() if k not in MOVING}
    if isinstance(answer, list):
        return [settled(one) for one in answer]
    return answer


def require_unknown(
    era: str, token: str, tool: Tool, ids: dict[str, str], unknown: dict[str, str]
) -> None:
    """Ask for what is planted and for what never was: the answers must be the same."""
    for arguments in questions(tool, ids):
        answer = ask(era, token, tool, arguments)
        text = json.dumps(arguments)
        for kind, one in ids.items():
            text = text.replace(one, unknown[kind])
        other = ask(era, token, tool, never(json.loads(text)))
        told, expected = settled(answer), settled(other)
        for kind, one in ids.items():
            told = json.loads(json.dumps(told).replace(one, unknown[kind]))
        assert without_echo(told) == without_echo(expected), (tool.name, arguments)
        echoed = json.dumps(arguments)
        for word in (f"{CANARY} two", f"{CANARY} sings", f"Retired {CANARY}"):
            assert word in echoed or word not in json.dumps(answer)


UNKNOWN = {
    "entry": "entry:2026-01-01.md#0000000000000001",
    "old": "fact:0000000000000002",
    "fact": "fact:0000000000000003",
    "retired": "entry:2026-01-01.md#0000000000000004",
    "gone": "fact:0000000000000005",
    "note": f"note:{NEVER}.md",
}


@EACH_ERA
@EACH_TOOL
def test_another_owners_memories_do_not_exist(
    alice: Person, bob: Person, tool: Tool, era: str
) -> None:
    ids = plant(alice, "global")
    token = bob.agents["claude"].token

    require_unknown(era, token, tool, ids, UNKNOWN)


@EACH_ERA
@EACH_TOOL
def test_other_scopes_do_not_exist_for_a_limited_connection(
    alice: Person, tool: Tool, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    ids = plant(alice, SECRET)
    _, token = make_agent(alice.workspace, scopes=("project:fjord",))
    caplog.set_level(logging.DEBUG)
    caplog.clear()

    require_unknown(era, token, tool, ids, UNKNOWN)

    assert CANARY not in caplog.text
