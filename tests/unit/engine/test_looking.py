"""lookup_entity, memory_map and search_memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from memories.engine import recall
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import Invalid
from tests.unit.engine.homes import Home, make_caller, scan

OWNER = make_caller("owner", acts=frozenset({"read", "write", "own"}))


def save(engine: Engine, subject: str, value: str, **given: str) -> t.Receipt:
    said = {"subject": subject, "predicate": "is", "object": value, **given}
    return engine.save_memory(make_caller(), **said)


def looked(engine: Engine, name: str, **given: Any) -> t.Entity:
    return engine.lookup_entity(make_caller(), name=name, **given)


# --- search_memory


def test_search_by_meaning_says_that_it_is_not_there(engine: Engine, claude: t.Caller):
    engine.remember(claude, statement="zebra")

    for rank in ("session_date", "score"):
        answer = engine.search_memory(claude, query="zebra", rank=rank)
        assert msgspec.to_builtins(answer) == {
            "hits": [],
            "relevance": {"relevant": False},
            "index": {"stale": False},
            "reason": "semantic-unavailable",
        }


@pytest.mark.parametrize(
    "given",
    [
        {"query": " "},
        {"query": "x" * 10_001},
        {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 51},
        {"query": "x", "rank": "newest"},
        {"query": "x", "scope": "nonsense"},
        {"query": "\ud800"},
    ],
)
def test_search_by_meaning_that_is_refused(engine: Engine, given: dict[str, Any]):
    with pytest.raises(Invalid):
        engine.search_memory(make_caller(), **given)


# --- lookup_entity


@pytest.fixture
def named(home: Home) -> Engine:
    home.write("people/ana.md", "---\ntitle: Ana Lima\naliases: [Aninha]\n---\nHello.")
    home.write("projects/fjord-x.md", "# Fjord\n\nZanzibar.")
    home.write("2026-11-29.md", "By hand.")
    engine = home.open()
    save(engine, "fjord", "PostgreSQL")
    save(engine, "fjord", "SQLite")
    save(engine, "São Paulo", "quiet")
    return engine


@pytest.mark.parametrize(
    ("name", "match", "found"),
    [
        ("fjord", "name", "Fjord"),
        ("FJORD ", "name", "Fjord"),
        ("sao  paulo", "name", "São Paulo"),
        ("ana lima", "name", "Ana Lima"),
        ("aninha", "alias", "Ana Lima"),
        ("lim", "part", "Ana Lima"),
        ("paul", "part", "São Paulo"),
        ("inha", "part", "Ana Lima"),
        ("people/an", "path", "Ana Lima"),
        ("note:projects/fjord-x.md", "path", "Fjord"),
        ("projects", "path", "Fjord"),
    ],
)
def test_lookup_by_name(named: Engine, name: str, match: str, found: str):
    answer = looked(named, name)

    assert (answer.found, answer.match, answer.name) == (True, match, found)
    assert answer.entities == 3


def test_lookup_gives_all_that_belongs_to_a_name(named: Engine):
    answer = looked(named, "Fjord")

    assert answer.notes == ["note:projects/fjord-x.md"]
    assert [fact.object for fact in answer.facts or []] == ["SQLite"]
    assert (answer.aliases, answer.others) == ([], [])
    assert looked(named, "Ana Lima").aliases == ["Aninha"]
    assert looked(named, "a").others


@pytest.mark.parametrize(
    "name", ["Zanzibar", "Hello", "2026-11-29", "PostgreSQL", "\u0301", "🎉", "%", "*"]
)
def test_lookup_never_looks_inside_texts(named: Engine, name: str):
    assert msgspec.to_builtins(looked(named, name)) == {
        "found": False,
        "entities": 3,
        "reason": "no-entity-match",
    }


def test_lookup_in_another_scope_is_a_miss(named: Engine):
    save(named, "Inside", "x", scope="project:fjord")
    guest = make_caller("guest", scopes=("project:fjord",))

    nowhere = looked(named, "Nobody", scope="project:fjord")

    assert nowhere.entities == 1
    assert looked(named, "Ana Lima", scope="project:fjord") == nowhere
    assert named.lookup_entity(guest, name="Ana Lima") == nowhere
    assert named.lookup_entity(guest, name="inside").found
    assert named.memory_status(guest).entities == 1
    assert named.memory_status(make_caller()).entities == 4


def test_lookup_of_a_retired_subject_is_a_miss(engine: Engine, claude: t.Caller):
    receipt = save(engine, "Fjord", "x")
    engine.retire_memory(claude, id=receipt.id)

    assert not looked(engine, "Fjord").found


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "\x00"])
def test_lookup_that_is_refused(engine: Engine, name: str):
    with pytest.raises(Invalid):
        looked(engine, name)


# --- memory_map


def test_map_of_a_story(home: Home, claude: t.Caller):
    home.write("plan.md", "---\ntags: [trip]\n---\nSee [[other]] and [[none]]. #trip")
    home.write("other.md", "Other words.")
    engine = home.open()
    entry = engine.remember(claude, statement="Said #trip")
    save(engine, "Fjord", "PostgreSQL")
    fact = save(engine, "Fjord", "SQLite")
    naming = save(engine, "Harbor", "Fjord")
    gone = engine.remember(claude, statement="Forgotten words")
    engine.retire_memory(claude, id=gone.id)

    answer = engine.memory_map(claude)

    assert {one.id for one in answer.memories} == {
        *("note:plan.md", "note:other.md"),
        entry.id,
    }
    assert [(one.name, one.facts) for one in answer.things] == [
        ("Harbor", 1),
        ("Fjord", 2),
    ]
    assert [(one.tag, one.memories) for one in answer.topics] == [("trip", 2)]
    assert [(one.object, one.current) for one in answer.facts] == [
        ("Fjord", True),
        ("SQLite", True),
        ("PostgreSQL", False),
    ]
    links = {(one.kind, one.source, one.target) for one in answer.links}
    assert links == {
        ("tag", "note:plan.md", "trip"),
        ("tag", entry.id, "trip"),
        ("wikilink", "note:plan.md", "note:other.md"),
        ("wikilink", "note:plan.md", "none"),
        ("fact", naming.id, "Fjord"),
    }
    assert [(one.kind, one.id) for one in answer.events[:3]] == [
        ("retire", gone.id),
        ("save", naming.id),
        ("save", fact.id),
    ]
    assert [(one.id, one.title) for one in answer.retired] == [
        (gone.id, "Forgotten words")
    ]
    assert msgspec.to_builtins(answer.total) == {
        "memories": 3,
        "things": 2,
        "topics": 1,
        "facts": 3,
        "links": 5,
        "events": 5,
        "retired": 1,
    }
    assert answer.truncated == []
    assert engine.memory_status(claude).relations == 5


def test_map_of_a_query_has_the_rarest_word_first(engine: Engine, claude: t.Caller):
    both = engine.remember(claude, statement="zebra and horse")
    for number in range(3):
        engine.remember(claude, statement=f"horse {number}")
    rare = engine.remember(claude, statement="donkey")
    engine.remember(claude, statement="nothing of it")
    gone = engine.remember(claude, statement="old donkey")
    engine.retire_memory(claude, id=gone.id)
    save(engine, "horse", "donkey")

    answer = engine.memory_map(claude, query="horse donkey", limit=3)

    assert answer.memories[0].id == rare.id
    assert answer.memories[-1].id != both.id
    assert len(answer.memories) == 3
    assert [one.id for one in answer.retired] == [gone.id]
    assert (answer.total.memories, answer.total.retired) == (5, 1)
    assert answer.truncated == ["memories"]
    assert (answer.facts, answer.things, answer.events) == ([], [], [])


def test_map_is_cut_at_its_limit(engine: Engine, claude: t.Caller):
    for number in range(5):
        save(engine, f"s{number}", "x")
        engine.remember(claude, statement=f"#tag{number}")

    answer = engine.memory_map(claude, limit=2)

    lists = ("memories", "things", "topics", "facts", "links", "events")
    assert [len(getattr(answer, name)) for name in lists] == [2] * 6
    assert answer.truncated == list(lists)


def test_map_says_nothing_of_what_was_erased(home: Home, engine: Engine):
    entry = engine.remember(make_caller(), statement="Zanzibar words")
    fact = save(engine, "Zanzibar", "Unguja")
    home.write("Zanzibar.md", "Zanzibar [[Unguja]] #zanzibar")
    scan(engine)
    for one in (entry.id, fact.id, "note:Zanzibar.md"):
        engine.retire_memory(OWNER, id=one)
        engine.erase(OWNER, id=one)

    said = msgspec.json.encode(engine.memory_map(make_caller())).decode().lower()

    assert "unguja" not in said
    assert "zanzibar words" not in said


@pytest.mark.parametrize(
    "given", [{"limit": 0}, {"limit": 201}, {"scope": "x"}, {"query": "x" * 10_001}]
)
def test_map_that_is_refused(engine: Engine, given: dict[str, Any]):
    with pytest.raises(Invalid):
        engine.memory_map(make_caller(), **given)


def test_long_answers_are_cut_and_say_so(engine: Engine, claude: t.Caller):
    for number in range(60):
        engine.remember(
            claude,
            statement="🎉" * 1_000 + str(number),
            subject=f"s{number}" + "é" * 190,
            predicate="p" * 200,
            object="漢" * 3_990 + str(number),
        )

    def count(text: str) -> int:
        return len(text.encode()) // 2

    answer = recall.bound(engine.memory_map(claude, limit=200), count)
    one = recall.bound(engine.lookup_entity(claude, name="s7"), count)

    for bounded in (answer, one):
        assert count(msgspec.json.encode(bounded).decode()) <= recall.ANSWER_TOKENS
    assert "facts" in answer.truncated
    assert answer.things
    assert one.facts


def test_wire_names_of_a_link():
    link = t.Link(kind="tag", source="note:a.md", target="x")

    assert msgspec.to_builtins(link) == {"kind": "tag", "from": "note:a.md", "to": "x"}
