"""What a save answers and leaves behind: the contract of docs/mcp.md, "Writing"."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.engine import hidden
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import (
    Busy,
    Conflict,
    EngineError,
    Invalid,
    NotFound,
    ReadOnly,
    TooLarge,
)
from tests.unit.engine.homes import (
    FakeClock,
    Home,
    make_caller,
    require_rebuilt_equal,
    scan,
)

TODAY = "2026-11-30"
FIRST, SECOND = "2026-11-30T12:00:00.000Z", "2026-11-30T12:00:00.001Z"


def save(engine: Engine, caller: t.Caller, value: str, **given: str) -> t.Receipt:
    said = {"subject": "Fjord", "predicate": "database", "object": value, **given}
    return engine.remember(caller, **{"statement": f"Fjord uses {value}", **said})


def ledger_lines(home: Home) -> list[dict[str, object]]:
    path = home.store / "facts.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine for all examples of a property: opening one for each is slow."""
    home = Home(tmp_path_factory.mktemp("shared") / "workspace", FakeClock())
    yield home.open()
    home.close()


# --- entries


def test_remember_a_statement(home: Home, engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="Fjord is written in Go.")

    entry_id = receipt.event_id
    assert receipt == t.Receipt(
        action="store",
        id=f"entry:{TODAY}.md#{entry_id}",
        event_id=entry_id,
        at=FIRST,
        scope="global",
        indexed=True,
    )
    assert ledger_lines(home) == []
    text = (home.store / f"{TODAY}.md").read_text("utf-8")
    assert text.startswith(f"# {TODAY}\n\n## 12:00\n<!-- renor {{")
    assert text.endswith(
        f"}} -->\nFjord is written in Go.\n<!-- /renor {entry_id} -->\n"
    )


def test_remember_is_found_at_once(engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="Fjord is written in Go.")

    hits = engine.search_text(claude, query="written in go").hits
    assert [hit.id for hit in hits] == [receipt.id]
    assert engine.read_memory(claude, id=receipt.id).text == "Fjord is written in Go."


@settings(max_examples=25)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40).map(
        lambda text: f"a{text}\r\n{text}\t\n\r"
    )
)
def test_remember_keeps_any_text_as_it_is(shared: Engine, text: str):
    claude = make_caller()

    receipt = shared.remember_note(claude, text=text)

    assert shared.read_memory(claude, id=receipt.id).text == hidden.show(text)


@pytest.mark.parametrize(
    ("zone", "day", "clock_time"),
    [
        ("", "2026-11-30", "23:30"),
        ("America/Sao_Paulo", "2026-11-30", "20:30"),
        ("Asia/Tokyo", "2026-12-01", "08:30"),
        ("Pacific/Kiritimati", "2026-12-01", "13:30"),
        ("Pacific/Niue", "2026-11-30", "12:30"),
    ],
)
def test_remember_files_under_the_day_of_a_time_zone(
    home: Home, claude: t.Caller, zone: str, day: str, clock_time: str
):
    home.clock.set("2026-11-30T23:30:00")
    engine = home.open()

    receipt = engine.remember(claude, statement="Late.", timezone=zone)

    assert receipt.id.startswith(f"entry:{day}.md#")
    assert receipt.at == "2026-11-30T23:30:00.000Z"
    assert f"## {clock_time}\n" in (home.store / f"{day}.md").read_text("utf-8")


def test_remember_note_of_another_day(engine: Engine, claude: t.Caller):
    receipt = engine.remember_note(claude, text="Back then.", date="1999-12-31")

    memory = engine.read_memory(claude, id=receipt.id)
    assert receipt.id == f"entry:1999-12-31.md#{receipt.event_id}"
    assert (memory.session_date, memory.at) == ("1999-12-31", FIRST)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"statement": "x" * 4_001}, TooLarge),
        ({"statement": ""}, Invalid),
        ({"statement": " \n"}, Invalid),
        ({"statement": "a\x00b"}, Invalid),
        ({"statement": "a\x7fb"}, Invalid),
        ({"statement": "a\ud800"}, Invalid),
        ({"statement": "a", "timezone": "Mars/Olympus"}, Invalid),
        ({"statement": "a", "scope": "Fjord"}, Invalid),
        ({"statement": "a", "scope": "scope:fjord"}, Invalid),
        ({"statement": "a", "source": "s" * 101}, TooLarge),
        ({"statement": "a", "source": "\ud800"}, Invalid),
        ({"statement": "a", "cites": "\x1b"}, Invalid),
        ({"statement": "a", "replaces": "note:none.md"}, NotFound),
        ({"statement": "a", "replaces": "../../etc/passwd"}, NotFound),
        ({"statement": "a", "replaces": "fact:01m8q5e1vgep3hwc"}, Invalid),
        ({"statement": "a", "subject": "s"}, Invalid),
        ({"statement": "a", "subject": "s", "predicate": "p"}, Invalid),
        ({"statement": "a", "object": "o"}, Invalid),
        (
            {"statement": "a", "subject": "s", "predicate": "p", "object": " "},
            Invalid,
        ),
        (
            {"statement": "a", "subject": "s" * 201, "predicate": "p", "object": "o"},
            TooLarge,
        ),
        (
            {"statement": "a", "subject": "s", "predicate": "p" * 201, "object": "o"},
            TooLarge,
        ),
        (
            {"statement": "a", "subject": "s", "predicate": "p", "object": "o" * 4001},
            TooLarge,
        ),
        (
            {
                "statement": "a",
                "subject": "s",
                "predicate": "p",
                "object": "o",
                "timezone": "Mars/Olympus",
            },
            Invalid,
        ),
    ],
)
def test_remember_that_is_refused_writes_nothing(
    home: Home,
    engine: Engine,
    claude: t.Caller,
    given: dict[str, str],
    error: type[EngineError],
):
    before = sorted(path.name for path in home.store.iterdir())

    with pytest.raises(error) as raised:
        engine.remember(claude, **given)

    assert type(raised.value) is error
    assert sorted(path.name for path in home.store.iterdir()) == before


@pytest.mark.parametrize("size", [1, 4_000])
def test_remember_up_to_its_limit(engine: Engine, claude: t.Caller, size: int):
    text = "é" * size

    receipt = engine.remember(claude, statement=text)

    assert engine.read_memory(claude, id=receipt.id).total_chars == size


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"text": "x" * 4_001}, TooLarge),
        ({"text": "a", "date": "2026-02-30"}, Invalid),
        ({"text": "a", "date": "../../x"}, Invalid),
        ({"text": "a", "date": "3000-01-01"}, Invalid),
        ({"text": "a", "timezone": "../UTC"}, Invalid),
    ],
)
def test_remember_note_that_is_refused(
    engine: Engine, claude: t.Caller, given: dict[str, str], error: type[EngineError]
):
    with pytest.raises(error):
        engine.remember_note(claude, **given)

    assert engine.memory_status(claude).entries == 0


def test_writing_by_a_reader(home: Home, engine: Engine, reader: t.Caller):
    for refused in (
        lambda: engine.remember(reader, statement="a"),
        lambda: engine.remember_note(reader, text="a"),
        lambda: engine.save_memory(reader, subject="s", predicate="p", object="o"),
    ):
        with pytest.raises(ReadOnly):
            refused()

    assert ledger_lines(home) == []
    assert engine.list_recent(reader).memories == []


def test_writing_after_the_deadline(engine: Engine):
    late = make_caller(deadline_ms=1)

    with pytest.raises(Busy):
        engine.remember(late, statement="a")
    with pytest.raises(Busy):
        save(engine, late, "SQLite")

    assert engine.list_recent(late).memories == []


def test_source_falls_back_to_client_then_connection(engine: Engine):
    said = [
        engine.remember(make_caller(), statement="one", source="mine"),
        engine.remember(make_caller(client_name="Client 1"), statement="two"),
        engine.remember(make_caller(), statement="three"),
    ]

    sources = [engine.read_memory(make_caller(), id=r.id).source for r in said]
    assert sources == ["mine", "Client 1", "claude"]


@pytest.mark.parametrize("label", ["system", " Assistant ", "RENOR", "developer"])
def test_source_that_is_reserved_reads_untrusted(
    engine: Engine, claude: t.Caller, label: str
):
    entry = engine.remember(claude, statement="I am the system", source=label)
    fact = save(engine, claude, "SQLite", source=label)

    assert engine.read_memory(claude, id=entry.id).untrusted is True
    hits = engine.search_text(claude, query="i am the system").hits
    assert [hit.untrusted for hit in hits] == [True]
    facts = engine.retrieve_memory(claude, subject="Fjord").facts
    assert [(f.id, f.untrusted, f.source) for f in facts] == [(fact.id, True, label)]


def test_writer_without_a_named_connection(engine: Engine):
    nobody = make_caller("", connection_id="")
    entry = engine.remember(nobody, statement="by stdio")
    save(engine, nobody, "SQLite")

    assert engine.read_memory(nobody, id=entry.id).writer_authenticated is False
    fact = engine.retrieve_memory(nobody, subject="Fjord").facts[0]
    assert (fact.writer, fact.writer_authenticated) == ("", False)


def test_writer_that_was_renamed_is_the_same(engine: Engine):
    before, after = make_caller("claude"), make_caller("claude")
    after = msgspec.structs.replace(after, name="claude at work")
    first = engine.remember(before, statement="once", source="s")
    value = save(engine, before, "SQLite", source="s")

    again = engine.remember(after, statement="once", source="s")
    same = save(engine, after, "SQLite", source="s")

    assert (again.action, again.id) == ("nochange", first.id)
    assert (same.action, same.event_id) == ("nochange", value.event_id)
    assert engine.read_memory(after, id=first.id).writer == "claude"


# --- retries


def test_retry_answers_the_first_receipt(home: Home, engine: Engine, claude: t.Caller):
    first = engine.remember(claude, statement="once")
    home.clock.move(seconds=60)

    again = engine.remember(claude, statement="once")

    assert again == msgspec.structs.replace(first, action="nochange")
    assert engine.memory_status(claude).entries == 1


def test_retry_after_a_minute_is_another_memory(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.remember(claude, statement="once")
    home.clock.move(seconds=60.001)

    again = engine.remember(claude, statement="once")

    assert (again.action, again.id == first.id) == ("store", False)


@pytest.mark.parametrize("keep_index", [True, False])
def test_retry_over_midnight_and_another_opening(
    home: Home, claude: t.Caller, keep_index: bool
):
    home.clock.set("2026-11-30T23:59:30")
    first = home.open().remember(claude, statement="once")
    home.close()
    if not keep_index:
        home.delete_index()
    home.clock.set("2026-12-01T00:00:20")

    again = home.open(scan_seconds=0).remember(claude, statement="once")

    assert (again.action, again.id) == ("nochange", first.id)


def test_retry_before_a_large_store_is_scanned(home: Home, claude: t.Caller):
    first = home.open().remember_note(claude, text="once", date="2020-01-02")
    home.close()
    home.delete_index()
    for number in range(300):
        home.write(f"notes/{number}.md", f"note {number}")
    engine = home.open(scan_seconds=0)
    assert engine.store.is_stale

    again = engine.remember_note(claude, text="once", date="2020-01-02")

    assert (again.action, again.id) == ("nochange", first.id)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "other"),
        ("scope", "project:fjord"),
        ("source", "other"),
        ("date", "2026-11-30"),
        ("cites", "note:MEMORY.md"),
        ("replaces", "note:MEMORY.md"),
    ],
)
def test_retry_that_differs_is_another_memory(
    home: Home, claude: t.Caller, name: str, value: str
):
    home.write("MEMORY.md", "kept")
    engine = home.open()
    first = engine.remember_note(claude, text="once")

    other = engine.remember_note(claude, **{"text": "once", name: value})

    assert (other.action, other.id == first.id) == ("store", False)


def test_retry_by_another_writer_is_another_memory(
    engine: Engine, claude: t.Caller, codex: t.Caller
):
    first = engine.remember(claude, statement="once", source="s")

    other = engine.remember(codex, statement="once", source="s")

    assert (other.action, other.id == first.id) == ("store", False)


@pytest.mark.parametrize("is_scanned", [True, False])
def test_retry_of_an_entry_edited_by_hand(
    home: Home, engine: Engine, claude: t.Caller, is_scanned: bool
):
    first = engine.remember(claude, statement="the cat")
    day = home.store / f"{TODAY}.md"
    day.write_bytes(day.read_bytes().replace(b"the cat", b"the dog"))
    if is_scanned:
        scan(engine)

    again = engine.remember(claude, statement="the cat")

    assert (again.action, again.id == first.id) == ("store", False)
    assert engine.read_memory(claude, id=first.id).text == "the dog"


@pytest.mark.parametrize("is_edited", [True, False])
def test_retry_of_an_entry_in_a_file_moved_by_hand(
    home: Home, engine: Engine, claude: t.Caller, is_edited: bool
):
    first = engine.remember(claude, statement="the cat")
    moved = home.store / "logs" / f"{TODAY}.md"
    moved.parent.mkdir()
    (home.store / f"{TODAY}.md").rename(moved)
    scan(engine)
    words = b"the dog" if is_edited else b"the cat"
    moved.write_bytes(moved.read_bytes().replace(b"the cat", words) + b"\nmore\n")

    again = engine.remember(claude, statement="the cat")

    assert (again.action, again.event_id == first.event_id) == (
        ("store", False) if is_edited else ("nochange", True)
    )


def test_retry_of_an_entry_removed_by_hand_while_fresh_finds_it_put_back(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.remember(claude, statement="the cat")
    home.swap(f"{TODAY}.md", b"# by hand\n")

    again = engine.remember(claude, statement="the cat")

    assert (again.action, again.id) == ("nochange", first.id)
    assert b"the cat" in (home.store / f"{TODAY}.md").read_bytes()


# --- facts


def test_remember_a_fact_writes_the_ledger_only(
    home: Home, engine: Engine, claude: t.Caller
):
    receipt = save(engine, claude, "PostgreSQL")

    assert receipt == t.Receipt(
        action="store",
        id=f"fact:{receipt.event_id}",
        event_id=receipt.event_id,
        at=FIRST,
        scope="global",
        indexed=True,
    )
    assert not (home.store / f"{TODAY}.md").exists()
    assert [(e["object"], e["statement"]) for e in ledger_lines(home)] == [
        ("PostgreSQL", "Fjord uses PostgreSQL")
    ]


def test_fact_with_another_object_supersedes(
    home: Home, engine: Engine, claude: t.Caller
):
    first = save(engine, claude, "PostgreSQL")

    second = save(engine, claude, "SQLite")

    assert (second.action, second.supersedes) == ("supersede", [first.id])
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    assert [(f.id, f.object, f.current, f.valid_from) for f in history.facts] == [
        (second.id, "SQLite", True, SECOND),
        (first.id, "PostgreSQL", False, FIRST),
    ]
    assert [f.valid_to for f in history.facts] == [msgspec.UNSET, SECOND]
    assert len(ledger_lines(home)) == 2


def test_fact_said_again_writes_nothing(home: Home, engine: Engine, claude: t.Caller):
    first = save(engine, claude, "SQLite")
    home.clock.move(days=30)

    same = save(engine, claude, "SQLite")
    silent = engine.save_memory(
        claude, subject=" Fjord ", predicate="database", object="SQLite"
    )

    for again in (same, silent):
        assert (again.action, again.id, again.event_id) == (
            *("nochange", first.id),
            first.event_id,
        )
    assert len(ledger_lines(home)) == 1


def test_fact_said_again_after_a_supersede_supersedes_nothing(
    engine: Engine, claude: t.Caller
):
    save(engine, claude, "PostgreSQL")
    save(engine, claude, "SQLite")

    again = save(engine, claude, "SQLite")

    assert (again.action, again.supersedes) == ("nochange", [])


def test_fact_in_another_sentence_is_one_more_line(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.save_memory(
        claude, subject="Fjord", predicate="database", object="SQLite"
    )

    said = save(engine, claude, "SQLite")
    other = save(engine, claude, "SQLite", statement="It is SQLite.")
    silent = engine.save_memory(
        claude, subject="Fjord", predicate="database", object="SQLite"
    )

    assert [r.action for r in (said, other, silent)] == ["nochange"] * 3
    assert [r.id for r in (said, other, silent)] == [first.id] * 3
    assert len({first.event_id, said.event_id, other.event_id}) == 3
    assert silent.event_id == first.event_id
    assert len(ledger_lines(home)) == 3
    facts = engine.retrieve_memory(claude, subject="Fjord", include_history=True).facts
    assert [(f.statement, f.valid_from) for f in facts] == [("It is SQLite.", FIRST)]


def test_fact_by_another_writer_is_one_more_line(
    home: Home, engine: Engine, claude: t.Caller, codex: t.Caller
):
    first = save(engine, claude, "SQLite")

    other = save(engine, codex, "SQLite")
    again = save(engine, codex, "SQLite")

    assert (other.action, other.id) == ("nochange", first.id)
    assert other.event_id != first.event_id
    assert again.event_id == other.event_id
    assert len(ledger_lines(home)) == 2
    assert engine.retrieve_memory(claude, subject="Fjord").facts[0].writer == "claude"


def test_fact_without_a_sentence_keeps_the_kept_one(
    engine: Engine, claude: t.Caller, codex: t.Caller
):
    save(engine, claude, "SQLite")

    engine.save_memory(codex, subject="Fjord", predicate="database", object="SQLite")

    fact = engine.retrieve_memory(claude, subject="Fjord").facts[0]
    assert fact.statement == "Fjord uses SQLite"


def test_fact_written_the_same_in_unicode_and_white_space(
    engine: Engine, claude: t.Caller
):
    save(engine, claude, "Café  noir", subject="São\nPaulo")

    again = save(
        *(engine, claude, "Cafe\u0301 noir"),
        statement="Fjord uses Café  noir",
        subject="Sa\u0303o Paulo",
    )

    assert again.action == "nochange"


@pytest.mark.parametrize("name", ["subject", "predicate", "scope"])
def test_fact_under_another_key_is_another_value(
    engine: Engine, claude: t.Caller, name: str
):
    save(engine, claude, "SQLite")

    other = {"subject": "fjord", "predicate": "Database", "scope": "project:fjord"}
    receipt = save(engine, claude, "PostgreSQL", **{name: other[name]})

    assert (receipt.action, receipt.supersedes) == ("store", [])


def test_fact_with_another_case_of_the_object_supersedes(
    engine: Engine, claude: t.Caller
):
    save(engine, claude, "SQLite")

    assert save(engine, claude, "sqlite").action == "supersede"


def test_fact_that_changes_back_and_forth(engine: Engine, claude: t.Caller):
    said = [save(engine, claude, value) for value in ("a", "b", "a")]

    assert [receipt.action for receipt in said] == ["store", "supersede", "supersede"]
    assert said[2].supersedes == [said[1].id]
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    assert [fact.object for fact in history.facts] == ["a", "b", "a"]


def test_times_increase_in_one_millisecond_and_with_the_clock_set_back(
    home: Home, engine: Engine, claude: t.Caller
):
    said = [save(engine, claude, "a"), engine.remember(claude, statement="b")]
    home.clock.move(days=-300)
    said += [save(engine, claude, "c"), engine.remember(claude, statement="d")]
    home.close()
    home.delete_index()
    engine = home.open()
    said += [save(engine, claude, "e"), engine.remember(claude, statement="f")]

    assert [receipt.at for receipt in said] == [
        f"2026-11-30T12:00:00.{ms:03d}Z" for ms in range(6)
    ]
    assert [r.event_id for r in said] == sorted(r.event_id for r in said)
    codes = [problem.code for problem in engine.memory_status(claude).problems]
    assert codes == ["clock-behind"]


def test_times_with_the_index_lost_and_little_scanned(
    home: Home, engine: Engine, claude: t.Caller
):
    home.clock.move(days=1)
    newest = engine.remember(claude, statement="newest")
    home.close()
    home.delete_index()
    os.utime(home.store / "2026-12-01.md", (1, 1))
    for number in range(300):
        home.write(f"{number}.md", f"note {number}")
    home.clock.move(days=-1)
    engine = home.open(scan_seconds=0)

    fact = save(engine, claude, "SQLite")
    entry = engine.remember(claude, statement="newest of all")

    assert engine.store.is_stale
    assert newest.at < fact.at < entry.at
    assert newest.event_id < fact.event_id < entry.event_id


def test_times_after_a_leap_of_the_clock(home: Home, engine: Engine, claude: t.Caller):
    home.clock.set("2999-12-31T23:59:59")

    receipt = engine.remember(claude, statement="far")

    assert receipt.id.startswith("entry:2999-12-31.md#")
    require_rebuilt_equal(home, engine)


# --- replaces and cites


def test_replaces_an_entry_or_a_note(home: Home, claude: t.Caller):
    home.write("plan.md", "the plan")
    engine = home.open()
    first = engine.remember(claude, statement="wrong")

    second = engine.remember(claude, statement="right", replaces=first.id)
    third = engine.remember(claude, statement="plan", replaces="note:plan.md")

    assert engine.read_memory(claude, id=second.id).replaces == first.id
    assert engine.read_memory(claude, id=third.id).replaces == "note:plan.md"


def test_replaces_of_a_fact_save_is_kept(home: Home, engine: Engine, claude: t.Caller):
    first = engine.remember(claude, statement="Fjord uses PostgreSQL")

    save(engine, claude, "SQLite", replaces=first.id)

    assert ledger_lines(home)[0]["replaces"] == first.id


def test_replaces_an_entry_retired_by_hand(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.remember(claude, statement="wrong")
    home.clock.move(minutes=11)
    home.swap(f"{TODAY}.md", b"# emptied\n")
    scan(engine)

    with pytest.raises(Conflict):
        engine.remember(claude, statement="right", replaces=first.id)

    assert engine.memory_status(claude).entries == 0


def test_cites_that_are_unknown_come_back_as_warnings(engine: Engine, claude: t.Caller):
    entry = engine.remember(claude, statement="base")
    fact = save(engine, claude, "SQLite")
    cites = f" {entry.id}, note:none.md ,,{fact.id}, fact:none"

    receipt = engine.remember(claude, statement="built on it", cites=cites)
    again = save(engine, claude, "DuckDB", cites=cites)

    for said in (receipt, again):
        assert [(w.code, w.message.split()[0]) for w in said.warnings] == [
            ("unknown-cite", "note:none.md"),
            ("unknown-cite", "fact:none"),
        ]
    assert engine.read_memory(claude, id=receipt.id).cites == [
        *(entry.id, "note:none.md", fact.id, "fact:none")
    ]


# --- scopes


def test_scoped_connection_writes_in_its_scope_only(engine: Engine, guest: t.Caller):
    inside = engine.remember(guest, statement="mine", scope="project:fjord")

    with pytest.raises(Invalid) as raised:
        engine.remember(guest, statement="not mine")
    with pytest.raises(Invalid):
        save(engine, guest, "SQLite", scope="project:other")

    assert inside.scope == "project:fjord"
    assert raised.value.details == {"allowedScopes": ["project:fjord"]}
    assert engine.memory_status(guest).entries == 1


def test_scoped_connection_cannot_replace_or_cite_what_it_may_not_see(
    engine: Engine, claude: t.Caller, guest: t.Caller
):
    hidden = engine.remember(claude, statement="secret")
    fact = save(engine, claude, "SQLite")
    inside = {"statement": "mine", "scope": "project:fjord"}

    with pytest.raises(NotFound) as raised:
        engine.remember(guest, **inside, replaces=hidden.id)
    with pytest.raises(NotFound) as unknown:
        engine.remember(guest, **inside, replaces="entry:2026-11-30.md#none")
    cited = engine.remember(guest, **inside, cites=f"{hidden.id},{fact.id}")

    assert raised.value.message.replace(hidden.id, "") == unknown.value.message.replace(
        "entry:2026-11-30.md#none", ""
    )
    assert len(cited.warnings) == 2


def test_scoped_connection_and_a_retired_entry_it_may_not_see(
    home: Home, engine: Engine, claude: t.Caller, guest: t.Caller
):
    hidden = engine.remember(claude, statement="secret")
    mine = engine.remember(guest, statement="mine", scope="project:fjord")
    home.clock.move(minutes=11)
    home.swap(f"{TODAY}.md", b"# emptied\n")
    scan(engine)
    inside = {"statement": "mine", "scope": "project:fjord"}

    with pytest.raises(NotFound):
        engine.remember(guest, **inside, replaces=hidden.id)
    with pytest.raises(Conflict):
        engine.remember(guest, **inside, replaces=mine.id)

    assert engine.memory_status(guest).retired == 1
    assert engine.memory_status(claude).retired == 2


def test_same_key_in_two_scopes_holds_two_values(
    engine: Engine, claude: t.Caller, guest: t.Caller
):
    save(engine, claude, "PostgreSQL")

    inside = save(engine, guest, "SQLite", scope="project:fjord")

    assert inside.action == "store"
    objects = [
        [f.object for f in engine.retrieve_memory(who, subject="Fjord").facts]
        for who in (claude, guest)
    ]
    assert objects == [["SQLite", "PostgreSQL"], ["SQLite"]]


# --- whether a request was written


@pytest.mark.parametrize("keep_index", [True, False])
def test_find_written_after_another_opening(home: Home, keep_index: bool):
    engine = home.open()
    entry = engine.remember(make_caller(request_id="r1"), statement="a")
    fact = save(engine, make_caller(request_id="r2"), "SQLite")
    newer = save(engine, make_caller(request_id="r3"), "DuckDB")
    repeat = save(engine, make_caller("codex", request_id="r4"), "DuckDB")
    home.close()
    if not keep_index:
        home.delete_index()
    for number in range(300):
        home.write(f"notes/{number}.md", f"note {number}")
    engine = home.open(scan_seconds=0)

    found = [
        engine.find_written(make_caller(), request_id=request).receipt
        for request in ("r1", "r2", "r3", "r4", "r5", "")
    ]

    assert found == [entry, fact, newer, repeat, None, None]
