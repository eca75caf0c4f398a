"""Facts side by side: look-alikes, what disagrees, whose value was overwritten."""

from __future__ import annotations

import msgspec
import pytest

from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.facts import subject_forms
from tests.unit.engine.homes import Home, make_caller


def save(
    engine: Engine,
    caller: t.Caller,
    object_: str,
    *,
    subject: str = "Fjord",
    scope: str = "",
) -> t.Receipt:
    return engine.save_memory(
        caller, subject=subject, predicate="database", object=object_, scope=scope
    )


@pytest.mark.parametrize(
    "other", ["Fjord app", "the Fjord", "fjord", "Fjórd"], ids=ascii
)
def test_save_warns_of_a_subject_that_looks_alike(
    engine: Engine, claude: t.Caller, other: str
):
    known = save(engine, claude, "SQLite")

    receipt = save(engine, claude, "PostgreSQL", subject=other)

    assert receipt.action == "store"
    (duplicate,) = receipt.possible_duplicates
    assert (duplicate.id, duplicate.subject, duplicate.object) == (
        known.id,
        "Fjord",
        "SQLite",
    )


@pytest.mark.parametrize("other", ["Fjords", "the new Fjord", "app", "Fjord-app"])
def test_save_does_not_warn_of_another_subject(
    engine: Engine, claude: t.Caller, other: str
):
    save(engine, claude, "SQLite")

    assert save(engine, claude, "MySQL", subject=other).possible_duplicates == []


def test_save_warns_of_the_same_subject_in_another_scope(
    engine: Engine, claude: t.Caller
):
    known = save(engine, claude, "SQLite", scope="project:fjord")

    receipt = save(engine, claude, "SQLite")

    assert [one.id for one in receipt.possible_duplicates] == [known.id]


def test_limited_connection_is_not_told_of_what_it_may_not_see(
    engine: Engine, claude: t.Caller, guest: t.Caller
):
    save(engine, claude, "SQLite")

    receipt = save(engine, guest, "MySQL", subject="Fjord app", scope="project:fjord")
    history = engine.retrieve_memory(guest, subject="Fjord app")

    assert receipt.possible_duplicates == []
    assert history.conflicts == []


def test_duplicates_are_the_newest_five_and_current(engine: Engine, claude: t.Caller):
    for number in range(7):
        save(engine, claude, "SQLite", subject=f"Fjord {number}")
    save(engine, claude, "MySQL", subject="Fjord 6")

    receipt = save(engine, claude, "SQLite")

    assert [(one.subject, one.object) for one in receipt.possible_duplicates] == [
        ("Fjord 6", "MySQL"),
        *((f"Fjord {number}", "SQLite") for number in (5, 4, 3, 2)),
    ]


def test_reads_name_what_disagrees_and_not_what_agrees(
    engine: Engine, claude: t.Caller
):
    save(engine, claude, "SQLite")
    save(engine, claude, "SQLite", subject="fjord")
    other = save(engine, claude, "MySQL", subject="Fjord app")

    history = engine.retrieve_memory(claude, subject="Fjord")
    context = engine.get_context(claude, query="which database has Fjord?")

    assert [(one.id, one.object) for one in history.conflicts] == [(other.id, "MySQL")]
    assert isinstance(context.conflicts, list)
    assert other.id in [one.id for one in context.conflicts]


def test_value_overwritten_by_another_writer_stands_as_a_conflict(
    engine: Engine, claude: t.Caller, codex: t.Caller
):
    first = save(engine, claude, "PostgreSQL")
    save(engine, codex, "SQLite")

    (fact,) = engine.retrieve_memory(claude, subject="Fjord").facts

    assert fact.writer_conflict == [
        t.WriterConflict(object="PostgreSQL", writer="claude", at=first.at)
    ]


@pytest.mark.parametrize("value", ["SQLite", "MySQL"])
def test_writer_conflict_ends_when_that_writer_saves_again(
    engine: Engine, claude: t.Caller, codex: t.Caller, value: str
):
    save(engine, claude, "PostgreSQL")
    save(engine, codex, "SQLite")
    save(engine, claude, value)

    (fact,) = engine.retrieve_memory(claude, subject="Fjord").facts

    lost = fact.writer_conflict or []
    assert "claude" not in [one.writer for one in lost]


def test_writer_conflict_ends_for_all_when_the_owner_corrects(
    engine: Engine, claude: t.Caller, codex: t.Caller
):
    owner = msgspec.structs.replace(make_caller("owner"), connection_id="owner")
    save(engine, claude, "PostgreSQL")
    save(engine, codex, "SQLite")
    save(engine, owner, "MySQL")

    (fact,) = engine.retrieve_memory(claude, subject="Fjord").facts

    assert not fact.writer_conflict
    assert fact.object == "MySQL"


def test_writer_conflict_is_the_same_from_a_new_index(
    home: Home, engine: Engine, claude: t.Caller, codex: t.Caller
):
    save(engine, claude, "PostgreSQL")
    save(engine, codex, "SQLite")
    before = engine.retrieve_memory(claude, subject="Fjord")

    engine.store.rebuild_index()

    again = engine.retrieve_memory(claude, subject="Fjord")
    assert again.facts == before.facts


@pytest.mark.parametrize("way", ["search", "context", "read"])
def test_replaced_memory_names_its_correction_and_stands_after_it(
    engine: Engine, claude: t.Caller, way: str
):
    old = engine.remember(claude, statement="The deploy of Fjord is on Friday.")
    new = engine.remember(
        claude, statement="Fjord goes out on Monday.", replaces=old.id
    )
    replaced = t.Replaced(by=new.id, at=new.at, source="claude")

    if way == "read":
        assert engine.read_memory(claude, id=old.id).replaced == replaced
        return
    if way == "search":
        hits = engine.search_text(claude, query="deploy").hits
    else:
        hits = engine.get_context(claude, query="when is the deploy?").memories

    assert [hit.id for hit in hits] == [new.id, old.id]
    assert hits[1].replaced == replaced
    assert not hits[0].replaced


def test_correction_out_of_sight_is_not_named(
    engine: Engine, claude: t.Caller, guest: t.Caller
):
    old = engine.remember(claude, statement="On Friday.", scope="project:fjord")
    engine.remember(claude, statement="On Monday.", replaces=old.id)

    (hit,) = engine.search_text(guest, query="friday").hits

    assert hit.id == old.id
    assert not hit.replaced


def test_subject_forms_fold_and_shorten():
    assert subject_forms("Ação  Nova") == ("acao nova", ["nova", "acao"])
    assert subject_forms("Fjord") == ("fjord", [])
