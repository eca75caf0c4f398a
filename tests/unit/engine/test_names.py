"""Notes found by what they are called, by links, and once where they say the same."""

from __future__ import annotations

import pytest

from memories.engine import recall
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.names import fold
from tests.unit.engine.homes import Home, make_caller, scan

NOTE = (
    "---\ntitle: Zanzibar\naliases: [Spice Island, Unguja]\ntags: [voyage]\n---\nWords."
)


def hits(engine: Engine, query: str, **given: object) -> list[tuple[str, str, bool]]:
    """Return id, reason and match of what both searches find alike."""
    found = engine.search_text(make_caller(), query=query, **given).hits  # type: ignore[arg-type]
    return [(hit.id, hit.reason, hit.matched) for hit in found]


def recalled(
    engine: Engine, query: str, scope: str = ""
) -> list[tuple[str, str, bool]]:
    found = engine.get_context(make_caller(), query=query, scope=scope).memories
    return [(hit.id, hit.reason, hit.matched) for hit in found]


# --- names


@pytest.mark.parametrize(
    "query",
    [
        *("Zanzibar", "ZANZIBÁR", "unguja", "spice island", "Spice", "voyage"),
        *("#voyage", "trip-2026-plan", "trip-2026-plan.md", "travel", "trip 2026"),
        *("note:travel/trip-2026-plan.md", "read note:travel/trip-2026-plan.md now"),
    ],
)
def test_note_is_found_by_what_it_is_called(home: Home, query: str):
    home.write("travel/trip-2026-plan.md", NOTE)
    home.write("other.md", "Something else.")
    engine = home.open()

    expected = [("note:travel/trip-2026-plan.md", "note-identity", True)]
    assert hits(engine, query) == recalled(engine, query) == expected


def test_words_in_a_text_go_before_names(home: Home):
    home.write("zebra.md", "Stripes.")
    home.write("b.md", "A zebra.")
    engine = home.open()

    assert hits(engine, "zebra") == [("note:b.md", "fts", True)]


def test_name_and_text_together_match(home: Home):
    home.write("fjord-budget.md", "Costs of the harbor.")
    home.write("b.md", "The harbor is full.")
    engine = home.open()

    found = recalled(engine, "fjord-budget harbor")

    assert found[0] == ("note:fjord-budget.md", "fts", True)


def test_entry_is_found_by_its_id(engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="The deploy is on Friday.")
    engine.remember(claude, statement="Another.")

    found = hits(engine, receipt.id)

    assert (found[0][0], found[0][2]) == (receipt.id, True)


def test_renamed_note_is_called_by_its_new_name_alone(home: Home):
    home.write("old-name.md", "Words.")
    engine = home.open()
    (home.store / "old-name.md").rename(home.store / "fresh.md")
    scan(engine)

    assert hits(engine, "old-name") == []
    assert hits(engine, "fresh") == [("note:fresh.md", "note-identity", True)]


# --- links


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("[[Target]]", "x/Target.md"),
        ("[[target]]", "x/Target.md"),
        ("[[x/target.md]]", "x/Target.md"),
        ("[[Target#Part|shown]]", "x/Target.md"),
        ("[[The Title]]", "x/Target.md"),
        ("[[an ALIAS]]", "x/Target.md"),
        ("![[Target]]", "x/Target.md"),
        ("[[./near]]", "a/near.md"),
        ("[[../x/Target]]", "x/Target.md"),
        ("[[cafe\u0301]]", "caf\u00e9.md"),
        ("[[near]]", "a/near.md"),
        ("[[deep/near]]", "b/deep/near.md"),
        ("[[Same]]", "Same.md"),
    ],
)
def test_wikilink_is_followed(home: Home, link: str, target: str):
    front = "---\ntitle: The Title\naliases: [An alias]\n---\n"
    home.write("x/Target.md", f"{front}Far away.")
    home.write("a/near.md", "Near one.")
    home.write("near.md", "Near two.")
    home.write("b/deep/near.md", "Near three.")
    home.write("caf\u00e9.md", "Coffee.")
    home.write("Same.md", "Same at the root.")
    home.write("c/d/Same.md", "Same deep down.")
    home.write("a/hub.md", f"Zebra: {link}")
    engine = home.open()

    expected = [("note:a/hub.md", "fts", True), (f"note:{target}", "graph", False)]
    assert hits(engine, "zebra") == recalled(engine, "zebra") == expected
    read = engine.read_memory(make_caller(), id="note:a/hub.md")
    assert read.links == [f"note:{target}"]


def test_link_to_nothing_stays_a_name(home: Home):
    home.write("a.md", "Zebra: [[nowhere]], [[#part]], [[ ]] and [[a]].")
    engine = home.open()

    assert hits(engine, "zebra") == [("note:a.md", "fts", True)]
    read = engine.read_memory(make_caller(), id="note:a.md")
    assert read.links[:1] == ["nowhere"]
    assert read.links[-1] == "note:a.md"


def test_links_keep_to_scope(home: Home):
    home.write("a.md", "---\nscope: fjord\n---\nZebra: [[secret]] [[open]]")
    home.write("secret.md", "Not for all.")
    home.write("open.md", "---\nscope: fjord\n---\nFor all.")
    engine = home.open()
    guest = make_caller("guest", scopes=("project:fjord",))

    answer = engine.get_context(guest, query="zebra")

    assert [hit.id for hit in answer.memories] == ["note:a.md", "note:open.md"]
    assert engine.read_memory(guest, id="note:a.md").links == ["secret", "note:open.md"]
    asked = recalled(engine, "zebra", scope="project:fjord")
    assert [one[0] for one in asked] == ["note:a.md", "note:open.md"]
    assert ("note:secret.md", "graph", False) in recalled(engine, "zebra")


def test_links_never_take_the_place_of_what_was_found(home: Home):
    for number in range(4):
        home.write(f"{number}.md", f"Zebra number {number}: [[target]]")
    home.write("target.md", "Far away.")
    engine = home.open()

    found = hits(engine, "zebra number", top_k=4)

    assert [one[1] for one in found] == ["fts"] * 4
    assert hits(engine, "zebra number", top_k=5)[-1][0] == "note:target.md"


def test_entry_links_to_a_note(home: Home, claude: t.Caller):
    home.write("Fjord plan.md", "The plan.")
    engine = home.open()
    receipt = engine.remember(claude, statement="Zebras are in [[fjord plan]].")

    assert hits(engine, "zebras") == [
        (receipt.id, "fts", True),
        ("note:Fjord plan.md", "graph", False),
    ]


# --- the same in other places


def test_same_words_are_listed_once(home: Home):
    text = "Zebra stripes are black and white, says the keeper of the park."
    home.write("a.md", text)
    home.write("b.md", text.upper().replace(" ", "  "))
    home.write("c.md", "Zebra stripes are something else.")
    engine = home.open()

    for found in (
        engine.search_text(make_caller(), query="zebra stripes are").hits,
        engine.get_context(make_caller(), query="zebra stripes").memories,
    ):
        listed = {hit.id: hit.also_in for hit in found}
        assert len(listed) == 2
        assert "note:c.md" in listed
        first = "note:a.md" if "note:a.md" in listed else "note:b.md"
        other = "note:b.md" if first == "note:a.md" else "note:a.md"
        assert listed[first] == [other]


def test_what_is_alike():
    long = " ".join(f"word{chr(97 + n)}" for n in range(26)) + " " + "more " * 3
    texts = [long, long + " end", "Costs 5 euros", "costs  5 Euros", "Costs 6 euros"]

    assert recall.find_alike(texts) == {1: 0, 3: 2}
    assert recall.find_alike(["", "", " "]) == {}


def test_correction_is_not_folded_into_what_it_corrects(
    engine: Engine, claude: t.Caller
):
    old = engine.remember(claude, statement="Zebras sleep in the east barn at night.")
    new = engine.remember(
        claude, statement="zebras sleep in the East barn at night.", replaces=old.id
    )

    found = engine.search_text(claude, query="zebras sleep").hits

    assert [hit.id for hit in found] == [new.id, old.id]


def test_fold_of_a_name():
    assert fold(" São\u00a0 PAULO ") == "sao paulo"
