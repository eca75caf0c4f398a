"""A connection limited to one scope is answered as if there were nothing else.

The same words, names, links and retired memories stand in two scopes of one workspace,
and in one scope of another. Whatever a limited caller asks, both answer the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import EngineError
from tests.unit.engine.homes import FakeClock, Home, make_caller, scan

MINE, THEIRS = "project:fjord", "project:other"
GUEST = make_caller("guest", scopes=(MINE,))
WRITER = make_caller("claude")
_UNLIKE = re.compile(r"\b01[0-9a-z]{13}\b|\d{4}-\d\d-\d\dT[\d:.]+Z")


def fill(home: Home, engine: Engine, scope: str, folder: str) -> dict[str, str]:
    """Put one of each thing into a scope; return ids by what they are."""
    slug = scope.partition(":")[2]
    front = f"---\nscope: {slug}\naliases: [Zed]\ntags: [stripes]\ntitle: Zebra\n---\n"
    for name, text in (
        ("zebra", f"{front}Zebra words, [[barn]] and [[hidden]]."),
        ("barn", f"---\nscope: {slug}\n---\nA barn."),
    ):
        os.utime(home.write(f"{folder}/{name}.md", text), (1e9, 1e9))
    scan(engine)
    said: dict[str, Any] = {"scope": scope}
    fact = {"subject": "Zebra", "predicate": "food", "scope": scope}
    ids = {
        "note": f"note:{folder}/zebra.md",
        "entry": engine.remember(WRITER, statement="Zebra entry #stripes", **said).id,
        "old": engine.save_memory(WRITER, object="grass", **fact).id,
        "fact": engine.save_memory(make_caller("codex"), object="hay", **fact).id,
        "gone": engine.remember(WRITER, statement="Zebra gone #gone", **said).id,
        "lost": engine.save_memory(
            WRITER, subject="Lost zebra", predicate="food", object="x", scope=scope
        ).id,
    }
    ids["correction"] = engine.remember(
        WRITER, statement="Zebra corrected", replaces=ids["entry"], **said
    ).id
    for one in ("gone", "lost"):
        engine.retire_memory(WRITER, id=ids[one])
    return ids


class World:
    """A workspace with the guest's scope, and perhaps others beside it."""

    def __init__(self, home: Home, *, is_shared: bool) -> None:
        self.home = home
        self.engine = home.open()
        self.theirs: dict[str, str] = {}
        if is_shared:
            self.theirs = fill(home, self.engine, THEIRS, "theirs")
            self.engine.remember(WRITER, statement="Zebra for all")
            self.engine.remember_note(WRITER, text="Zebra then", date="2026-01-02")
            home.write("zebra.md", "---\naliases: [Zed]\n---\nZebra of all [[barn]]")
            home.write("hidden.md", "Hidden zebra.")
        self.mine = fill(home, self.engine, MINE, "mine")
        scan(self.engine)

    def ask(self, verb: str, given: dict[str, Any]) -> object:
        known = {f"<{name}>": memory_id for name, memory_id in self.mine.items()}
        given = {name: known.get(said, said) for name, said in given.items()}
        try:
            answer = getattr(self.engine, verb)(GUEST, **given)
        except EngineError as error:
            answer = {"code": error.code, "message": error.message, **error.details}
        said = json.dumps(msgspec.to_builtins(answer), sort_keys=True)
        for name, memory_id in self.mine.items():
            said = said.replace(memory_id, f"<{name}>")
        return json.loads(_UNLIKE.sub("*", said))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, World]]:
    folder: Path = tmp_path_factory.mktemp("worlds")
    homes = [Home(folder / name, FakeClock()) for name in ("alone", "shared")]
    yield World(homes[0], is_shared=False), World(homes[1], is_shared=True)
    for home in homes:
        home.close()


READS: dict[str, list[dict[str, Any]]] = {
    "get_context": [
        {"query": query, "scope": scope}
        for query in (
            *("", "zebra", "zed", "stripes", "hidden", "barn", "grass", "gone"),
            *("note:zebra.md", "note:theirs/zebra.md", "theirs", "corrected"),
        )
        for scope in ("", MINE, THEIRS, "global")
    ],
    "search_text": [
        {"query": query, "top_k": 50}
        for query in (
            *("zebra", "zebra words", "Zed", "theirs", "hidden zebra", "lost"),
            *("note:hidden.md", "zebra for all", "other", "zebra gone"),
        )
    ],
    "search_memory": [{"query": "zebra"}],
    "lookup_entity": [
        {"name": name, "scope": scope}
        for name in ("Zebra", "zed", "eb", "hidden", "theirs", "lost zebra", "mine")
        for scope in ("", THEIRS, "global")
    ],
    "memory_map": [
        {"query": query, "scope": scope, "limit": 200}
        for query in ("", "zebra", "gone lost", "hidden")
        for scope in ("", MINE, THEIRS, "global")
    ],
    "retrieve_memory": [
        {"subject": subject, "include_history": True}
        for subject in ("Zebra", "Lost zebra", "Zebr", "")
    ],
    "read_memory": [
        {"id": one}
        for one in (
            *("<note>", "<entry>", "<old>", "<fact>", "<gone>", "<lost>"),
            *("<correction>", "note:hidden.md", "note:theirs/zebra.md"),
            *("note:2026-11-30.md", "note:2026-01-02.md", "note:none.md"),
        )
    ],
    "list_recent": [{"limit": 50}],
    "index_memory": [{}],
    "retire_memory": [{"id": "note:hidden.md"}, {"id": "note:2026-11-30.md"}],
    "restore_memory": [{"id": "note:hidden.md"}],
}
QUESTIONS = [(verb, given) for verb, asked in READS.items() for given in asked]


@pytest.mark.parametrize(("verb", "given"), QUESTIONS, ids=str)
def test_limited_caller_cannot_tell_that_there_is_more(
    worlds: tuple[World, World], verb: str, given: dict[str, Any]
):
    alone, shared = (world.ask(verb, given) for world in worlds)

    assert shared == alone


def test_status_counts_what_the_limited_caller_may_see(worlds: tuple[World, World]):
    alone, shared = (world.engine.memory_status(GUEST) for world in worlds)

    assert shared == alone
    assert (alone.notes, alone.retired, alone.problems) == (2, 2, [])


@pytest.mark.parametrize("name", ["note", "entry", "old", "fact", "gone", "lost"])
@pytest.mark.parametrize("verb", ["read_memory", "retire_memory", "restore_memory"])
def test_ids_of_another_scope_are_unknown(
    worlds: tuple[World, World], verb: str, name: str
):
    shared = worlds[1]
    unseen = shared.theirs[name]
    unknown = unseen[:-1] + ("0" if unseen[-1] != "0" else "1")

    def answer_to(memory_id: str) -> tuple[str, str, dict[str, object]]:
        with pytest.raises(EngineError) as raised:
            getattr(shared.engine, verb)(GUEST, id=memory_id)
        said = raised.value.message.replace(memory_id, "*")
        return raised.value.code, said, dict(raised.value.details)

    assert answer_to(unseen) == answer_to(unknown)


def test_day_log_of_others_is_not_told_to_who_sees_global_alone(
    home: Home, engine: Engine
):
    engine.remember(WRITER, statement="Elsewhere", scope=THEIRS)
    caller = make_caller("guest", scopes=("global",))

    assert engine.memory_status(caller).notes == 0
    assert engine.index_memory(caller).total == 0
    assert engine.memory_status(WRITER).notes == 1
    with pytest.raises(EngineError):
        engine.read_memory(caller, id="note:2026-11-30.md")


def test_what_a_limited_caller_retires_and_restores_is_its_own(
    home: Home, engine: Engine
):
    ids = fill(home, engine, MINE, "mine")
    others = fill(home, engine, THEIRS, "theirs")

    def listed(scope: str) -> dict[str, int]:
        total = engine.memory_map(WRITER, scope=scope).total
        return {"memories": total.memories, "retired": total.retired}

    before = listed(THEIRS)
    for one in ("note", "entry", "fact"):
        assert engine.retire_memory(GUEST, id=ids[one]).ok
    assert listed(THEIRS) == before
    assert engine.memory_map(GUEST).total.retired == 5
    for one in ("note", "entry", "fact"):
        assert engine.restore_memory(GUEST, id=ids[one]).ok
    assert listed(MINE) == listed(THEIRS) == before
    assert engine.read_memory(WRITER, id=others["note"]).retired is msgspec.UNSET


def test_answers_hold_something_that_could_leak(worlds: tuple[World, World]):
    engine = worlds[1].engine

    whole: t.Context = engine.get_context(WRITER, query="zebra", max_tokens=4_000)

    scopes = {hit.scope for hit in whole.memories}
    assert scopes == {MINE, THEIRS, "global"}
