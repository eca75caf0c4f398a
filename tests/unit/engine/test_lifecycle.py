"""Retiring, restoring, other words, redacting, erasing: what a caller is told and
what is on the disk afterwards.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from memories.engine import files
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import (
    Busy,
    Conflict,
    EngineError,
    Invalid,
    NotFound,
    ReadOnly,
)
from memories.engine.index import IndexFull
from memories.engine.ledger import render_line
from memories.engine.types import Event
from tests.unit.engine.homes import Home, make_caller, require_rebuilt_equal, scan

TODAY = "2026-11-30.md"


@pytest.fixture
def owner() -> t.Caller:
    acts = frozenset({"read", "write", "own"})
    return make_caller("owner", connection_id="owner", acts=acts)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def snapshot(home: Home) -> dict[str, bytes]:
    """Return the store's Markdown by path."""
    return {
        str(path.relative_to(home.store)): path.read_bytes()
        for path in home.store.rglob("*.md")
        if path.name != "Facts.md"
    }


def leaks(home: Home, *words: str) -> list[tuple[str, str]]:
    """Return where under the workspace folder any of the words stand, names too."""
    found = []
    for folder, _, names in os.walk(home.directory):
        for name in names:
            path = Path(folder) / name
            data = path.read_bytes()
            for word in words:
                forms = (word.encode(), word.encode("utf-16-le"))
                if word in str(path.relative_to(home.directory)) or any(
                    form in data for form in forms
                ):
                    found.append((word, name))
    return found


def found(engine: Engine, caller: t.Caller, words: str) -> list[str]:
    hits = [hit.id for hit in engine.search_text(caller, query=words).hits]
    context = engine.get_context(caller, query=words, max_tokens=4_000)
    facts = [fact.id for fact in context.facts]
    return sorted({*hits, *facts, *(hit.id for hit in context.memories)})


# --- retiring and restoring


def test_retired_is_found_by_nothing_and_restored_byte_for_byte(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.remember(claude, statement="zebra one")
    second = engine.remember(claude, statement="zebra two\n\n## 12:00\n")
    fact = engine.save_memory(claude, subject="zebra", predicate="is", object="x")
    home.write("Ideas/Über uns.md", "---\ntitle: Zebra\n---\nzebra three\r\n")
    scan(engine)
    before = snapshot(home)
    ids = [first.id, second.id, fact.id, "note:Ideas/Über uns.md"]
    assert found(engine, claude, "zebra") == sorted(ids)

    retired = [engine.retire_memory(claude, id=one) for one in ids]

    assert [(one.ok, one.id, one.action) for one in retired] == [
        (True, one, "retired") for one in ids
    ]
    assert found(engine, claude, "zebra") == []
    status = engine.memory_status(claude)
    assert (status.entries, status.notes, status.facts, status.retired) == (0, 1, 0, 4)
    assert not (home.store / "Ideas/Über uns.md").exists()
    day = (home.store / TODAY).read_text("utf-8")
    assert "zebra" not in day
    assert day.count("<!-- renor retired ") == 2
    for one in ids:
        memory = engine.read_memory(claude, id=one)
        assert memory.retired is True
        assert "zebra" in memory.text
    require_rebuilt_equal(home, engine)

    restored = [engine.restore_memory(claude, id=one) for one in reversed(ids)]

    assert [(one.id, one.action) for one in restored] == [
        (one, "restored") for one in reversed(ids)
    ]
    assert snapshot(home) == before
    assert found(engine, claude, "zebra") == sorted(ids)
    assert list((home.directory / "retired").iterdir()) == []
    assert engine.verify(claude).problems == []
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_entries_come_back_in_any_order(
    home: Home, engine: Engine, claude: t.Caller, order: tuple[int, ...]
):
    ids = [
        engine.remember(claude, statement=f"words {number}").id for number in range(3)
    ]
    before = snapshot(home)
    for one in ids:
        engine.retire_memory(claude, id=one)
    home.clock.move(days=3)
    home.open()

    engine = home.open()
    for number in order:
        engine.restore_memory(claude, id=ids[number])

    assert snapshot(home) == before
    require_rebuilt_equal(home, engine)


def test_second_call_answers_as_the_first(home: Home, engine: Engine, claude: t.Caller):
    entry = engine.remember(claude, statement="words").id
    fact = engine.save_memory(claude, subject="a", predicate="b", object="c").id
    home.write("n.md", "note")
    scan(engine)

    for one in (entry, fact, "note:n.md"):
        retired = engine.retire_memory(claude, id=one)
        home.clock.move(minutes=1)
        assert engine.retire_memory(claude, id=one) == retired
        restored = engine.restore_memory(claude, id=one)
        home.clock.move(minutes=1)
        assert engine.restore_memory(claude, id=one) == restored
        assert restored.at > retired.at


def test_restoring_what_was_never_retired(engine: Engine, claude: t.Caller):
    entry = engine.remember(claude, statement="words").id

    with pytest.raises(Conflict):
        engine.restore_memory(claude, id=entry)


@pytest.mark.parametrize("memory_id", ["note:x.md", "entry:x.md#01", "fact:01", "?"])
@pytest.mark.parametrize("name", ["retire_memory", "restore_memory"])
def test_unknown_ids(engine: Engine, claude: t.Caller, name: str, memory_id: str):
    with pytest.raises(NotFound):
        getattr(engine, name)(claude, id=memory_id)


def test_reader_may_not_retire(engine: Engine, claude: t.Caller, reader: t.Caller):
    entry = engine.remember(claude, statement="words").id

    with pytest.raises(ReadOnly):
        engine.retire_memory(reader, id=entry)
    assert engine.read_memory(reader, id=entry).retired is not True


def test_scopes_hold_for_retired_memories(
    home: Home, engine: Engine, claude: t.Caller, guest: t.Caller
):
    hidden = engine.remember(claude, statement="hidden words").id
    fact = engine.save_memory(claude, subject="s", predicate="p", object="o").id
    home.write("n.md", "note")
    scan(engine)
    for one in (hidden, fact, "note:n.md"):
        messages = set()
        for name in ("retire_memory", "restore_memory", "read_memory"):
            with pytest.raises(NotFound) as live:
                getattr(engine, name)(guest, id=one)
            messages.add(live.value.message)
        engine.retire_memory(claude, id=one)
        for name in ("retire_memory", "restore_memory", "read_memory"):
            with pytest.raises(NotFound) as gone:
                getattr(engine, name)(guest, id=one)
            messages.add(gone.value.message)
        assert len(messages) == 1
    assert engine.memory_status(guest).retired == 0


def test_restoring_where_another_file_is_changes_nothing(
    home: Home, engine: Engine, claude: t.Caller
):
    home.write("n.md", "first")
    scan(engine)
    retired = engine.retire_memory(claude, id="note:n.md")
    home.write("n.md", "second")
    scan(engine)
    before = snapshot(home)
    of_first = f"note:n.md@{retired.event_id}"

    assert engine.read_memory(claude, id="note:n.md").text == "second"
    assert engine.read_memory(claude, id=of_first).text == "first"
    with pytest.raises(Conflict):
        engine.restore_memory(claude, id=of_first)

    assert snapshot(home) == before
    second = engine.retire_memory(claude, id="note:n.md")
    assert second.event_id != retired.event_id
    assert engine.read_memory(claude, id="note:n.md").text == "second"
    assert engine.read_memory(claude, id=of_first).text == "first"
    engine.restore_memory(claude, id=of_first)
    assert engine.read_memory(claude, id="note:n.md").text == "first"
    assert snapshot(home) == {"n.md": b"first"}
    require_rebuilt_equal(home, engine)


def test_folder_that_is_a_link_now_is_not_written_through(
    home: Home, engine: Engine, claude: t.Caller, tmp_path: Path
):
    home.write("deep/n.md", "words")
    scan(engine)
    engine.retire_memory(claude, id="note:deep/n.md")
    (home.store / "deep").rmdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (home.store / "deep").symlink_to(outside)

    with pytest.raises(Conflict):
        engine.restore_memory(claude, id="note:deep/n.md")

    assert list(outside.iterdir()) == []


def test_note_restored_with_its_time_and_spelling(
    home: Home, engine: Engine, claude: t.Caller
):
    file = home.write("cafe\u0301.md", b"\xff\xfew\x00")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    scan(engine)
    day = engine.read_memory(claude, id="note:caf\u00e9.md").session_date

    engine.retire_memory(claude, id="note:caf\u00e9.md")
    engine.restore_memory(claude, id="note:caf\u00e9.md")

    assert file.read_bytes() == b"\xff\xfew\x00"
    assert file.stat().st_mtime == 1_700_000_000
    assert engine.read_memory(claude, id="note:caf\u00e9.md").session_date == day


def test_day_note_with_entries_is_not_retired(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="words").id

    with pytest.raises(Invalid) as caught:
        engine.retire_memory(claude, id=f"note:{TODAY}")

    assert caught.value.details["entryIds"] == [entry]


def test_entry_waits_for_its_retired_day(home: Home, engine: Engine, claude: t.Caller):
    entry = engine.remember(claude, statement="words").id
    before = snapshot(home)
    engine.retire_memory(claude, id=entry)
    engine.retire_memory(claude, id=f"note:{TODAY}")

    with pytest.raises(Conflict):
        engine.restore_memory(claude, id=entry)
    engine.restore_memory(claude, id=f"note:{TODAY}")
    engine.restore_memory(claude, id=entry)

    assert snapshot(home) == before


def test_retired_entry_is_no_retry(engine: Engine, claude: t.Caller):
    first = engine.remember(claude, statement="words")
    engine.retire_memory(claude, id=first.id)

    second = engine.remember(claude, statement="words")

    assert (second.action, second.id == first.id) == ("store", False)


def test_retiring_a_correction_undoes_it(engine: Engine, claude: t.Caller):
    old = engine.remember(claude, statement="the port is 80")
    new = engine.remember(claude, statement="the port is 81", replaces=old.id)
    replaced = engine.read_memory(claude, id=old.id).replaced
    assert replaced
    assert replaced.by == new.id

    engine.retire_memory(claude, id=new.id)

    assert engine.read_memory(claude, id=old.id).replaced is msgspec.UNSET
    with pytest.raises(Conflict):
        engine.remember(claude, statement="no", replaces=new.id)


def test_retired_value_is_no_value(engine: Engine, claude: t.Caller):
    def save(object: str) -> t.Receipt:
        return engine.save_memory(
            claude, subject="Fjord", predicate="db", object=object
        )

    first, second = save("SQLite"), save("PostgreSQL")

    engine.retire_memory(claude, id=second.id)
    assert engine.retrieve_memory(claude, subject="Fjord").facts == []
    third = save("PostgreSQL")
    assert (third.action, third.supersedes) == ("store", [])
    restored = engine.restore_memory(claude, id=second.id)

    assert restored.current is False
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    assert [(one.id, one.current) for one in history.facts] == [
        (third.id, True),
        (second.id, False),
        (first.id, False),
    ]


def test_restored_value_is_current_again(engine: Engine, claude: t.Caller):
    fact = engine.save_memory(claude, subject="a", predicate="b", object="c")
    retired = engine.retire_memory(claude, id=fact.id)

    restored = engine.restore_memory(claude, id=fact.id)

    assert (retired.current, restored.current) == (False, True)
    assert [f.id for f in engine.retrieve_memory(claude, subject="a").facts] == [
        fact.id
    ]


def test_no_answer_shows_words_of_a_retired_fact(
    engine: Engine, claude: t.Caller, codex: t.Caller
):
    secret = engine.remember(
        claude, statement="canary", subject="canary", predicate="p", object="canary"
    )
    engine.save_memory(codex, subject="x", predicate="p", object="canary")
    engine.save_memory(claude, subject="x", predicate="p", object="fine")
    old = engine.retrieve_memory(claude, subject="x", include_history=True).facts[1].id
    engine.retire_memory(claude, id=secret.id)
    engine.retire_memory(claude, id=old)

    answers = [
        engine.get_context(claude, query="canary x"),
        engine.get_context(claude),
        engine.retrieve_memory(claude, subject="x", include_history=True),
        engine.retrieve_memory(claude, subject="canaries"),
        engine.save_memory(claude, subject="canary word", predicate="p", object="1"),
        engine.list_recent(claude),
    ]

    said = "".join(msgspec.json.encode(one).decode() for one in answers)
    assert "canary" not in said.replace("canary word", "").replace("canary x", "")


def test_moved_note_keeps_what_was_said_of_it(
    home: Home, engine: Engine, claude: t.Caller, guest: t.Caller
):
    home.write("a.md", "the port is 80")
    scan(engine)
    new = engine.remember(claude, statement="the port is 81", replaces="note:a.md")
    fact = engine.save_memory(
        claude, subject="port", predicate="is", object="81", cites="note:a.md"
    )
    engine.save_memory(
        claude, subject="port", predicate="is", object="82", cites=new.id
    )
    for old, now in (("a.md", "b.md"), ("b.md", "deep/c.md")):
        (home.store / "deep").mkdir(exist_ok=True)
        (home.store / old).rename(home.store / now)
        scan(engine)

    memory = engine.read_memory(claude, id="note:deep/c.md")

    assert memory.replaced
    assert memory.replaced.by == new.id
    assert memory.cited_by == [fact.id]
    engine.retire_memory(claude, id=fact.id)
    assert engine.read_memory(claude, id="note:deep/c.md").cited_by == []
    hits = engine.search_text(claude, query="port is 80").hits
    assert [hit.id for hit in hits] == [new.id, "note:deep/c.md"]


# --- other hands


def test_stale_buffer_does_not_bring_a_retired_entry_back(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    buffer = (home.store / TODAY).read_bytes()
    engine.retire_memory(claude, id=entry)

    home.swap(TODAY, buffer)
    scan(engine)

    assert found(engine, claude, "zebra") == []
    assert b"zebra" not in (home.store / TODAY).read_bytes()
    assert engine.restore_memory(claude, id=entry).ok
    assert (home.store / TODAY).read_bytes() == buffer


def test_retired_entry_that_a_person_wrote_anew_lives(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    buffer = (home.store / TODAY).read_bytes()
    engine.retire_memory(claude, id=entry)

    home.swap(TODAY, buffer.replace(b"zebra", b"giraffe"))
    scan(engine)

    assert engine.read_memory(claude, id=entry).text == "giraffe"
    assert engine.memory_status(claude).retired == 0
    require_rebuilt_equal(home, engine)


def test_older_copy_of_a_retired_file_is_put_away_and_a_newer_one_lives(
    home: Home, engine: Engine, claude: t.Caller
):
    file = home.write("n.md", "zebra")
    then = file.stat().st_mtime_ns
    scan(engine)
    retired = engine.retire_memory(claude, id="note:n.md")

    home.write("n.md", "zebra")
    os.utime(file, ns=(then, then))
    scan(engine)
    assert not file.exists()
    assert engine.read_memory(claude, id="note:n.md").retired is True

    home.write("n.md", "zebra")
    scan(engine)
    assert engine.read_memory(claude, id="note:n.md").retired is not True
    of_first = f"note:n.md@{retired.event_id}"
    assert engine.read_memory(claude, id=of_first).retired is True
    require_rebuilt_equal(home, engine)


def test_two_retired_notes_of_the_same_bytes_and_path(
    home: Home, engine: Engine, claude: t.Caller
):
    retired = []
    for _ in range(2):
        file = home.write("n.md", "zebra")
        os.utime(file, ns=(file.stat().st_mtime_ns + 5_000_000,) * 2)
        scan(engine)
        retired.append(engine.retire_memory(claude, id="note:n.md").event_id)
    assert len(set(retired)) == 2

    for event in retired:
        engine.restore_memory(claude, id=f"note:n.md@{event}")
        scan(engine)
        assert engine.read_memory(claude, id="note:n.md").text == "zebra"
        assert file.exists()
        require_rebuilt_equal(home, engine)
        engine.retire_memory(claude, id="note:n.md")


def test_entry_retired_by_hand_is_restored_by_a_tool(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    home.clock.move(minutes=11)
    home.swap(TODAY, b"# 2026-11-30\n\nmine\n")
    scan(engine)
    assert engine.read_memory(claude, id=entry).retired is True

    engine.restore_memory(claude, id=entry)

    assert engine.read_memory(claude, id=entry).text == "zebra"
    assert b"mine" in (home.store / TODAY).read_bytes()
    require_rebuilt_equal(home, engine)


def test_copy_of_a_retired_entry_elsewhere_does_not_take_over(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    copied = home.write(f"copy/{TODAY}", (home.store / TODAY).read_bytes())
    kept = copied.read_bytes()
    scan(engine)

    engine.retire_memory(claude, id=entry)
    scan(engine)

    assert found(engine, claude, "zebra") == []
    assert copied.read_bytes() == kept
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_retiring_in_a_file_that_an_editor_saved_otherwise(
    home: Home, engine: Engine, claude: t.Caller, encoding: str
):
    entry = engine.remember(claude, statement="zebra").id
    other = engine.remember(claude, statement="horse").id
    text = (home.store / TODAY).read_text("utf-8").replace("\n", "\r\n")
    home.swap(TODAY, text.encode(encoding))
    scan(engine)
    before = (home.store / TODAY).read_bytes()

    engine.retire_memory(claude, id=entry)
    assert leaks(home, "zebra")[0][1] != TODAY
    assert engine.read_memory(claude, id=other).text == "horse"
    engine.restore_memory(claude, id=entry)

    assert (home.store / TODAY).read_bytes() == before


# --- other words


def test_replaced_text_and_its_earlier_one(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="the cat sat", source="chat").id
    home.write("n.md", "first\r\ntext\r\n")
    scan(engine)

    for one, old in ((entry, "the cat sat"), ("note:n.md", "first\ntext\n")):
        before = engine.read_memory(claude, id=one)
        assert before.sha256 == digest(old)
        answer = engine.replace_note(
            owner, id=one, text="a dog\nran\n", expected_sha256=digest(old)
        )
        after = engine.read_memory(claude, id=one)
        assert (after.text, after.sha256) == ("a dog\nran\n", answer.sha256)
        assert after.edited_by == "owner"
        assert (after.writer, after.source) == (before.writer, before.source)
        assert after.versions == [answer.event_id]
        version = engine.read_version(owner, id=one, event_id=answer.event_id)
        assert version.text == old
    assert (home.store / "n.md").read_bytes() == b"a dog\r\nran\r\n"
    assert found(engine, claude, "the cat sat") == []
    assert engine.verify(claude).problems == []
    require_rebuilt_equal(home, engine)


def test_replacing_what_has_changed_meanwhile(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    home.write("n.md", "first")
    scan(engine)
    home.write("n.md", "second")

    with pytest.raises(Conflict):
        engine.replace_note(
            owner, id="note:n.md", text="third", expected_sha256=digest("first")
        )

    assert (home.store / "n.md").read_bytes() == b"second"
    same = engine.replace_note(
        owner, id="note:n.md", text="second", expected_sha256=digest("other")
    )
    assert same.event_id == ""


def test_earlier_texts_go_with_a_renamed_note(
    home: Home, engine: Engine, owner: t.Caller
):
    home.write("a.md", "zebra one")
    scan(engine)
    answer = engine.replace_note(
        owner, id="note:a.md", text="two", expected_sha256=digest("zebra one")
    )
    (home.store / "a.md").rename(home.store / "b.md")
    scan(engine)

    assert engine.read_memory(owner, id="note:b.md").versions == [answer.event_id]
    engine.retire_memory(owner, id="note:b.md")
    engine.erase(owner, id="note:b.md")

    assert leaks(home, "zebra", "a.md", "b.md") == []


@pytest.mark.parametrize("name", ["replace_note", "redact", "erase", "read_version"])
def test_only_the_owner_may(engine: Engine, claude: t.Caller, name: str):
    entry = engine.remember(claude, statement="words").id
    arguments = {
        "replace_note": {"text": "x", "expected_sha256": digest("words")},
        "redact": {"spans": [[0, 1]]},
        "erase": {},
        "read_version": {"event_id": "x"},
    }

    with pytest.raises(ReadOnly):
        getattr(engine, name)(claude, id=entry, **arguments[name])


# --- redacting


def test_redacted_words_are_nowhere(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="the key is hunter22, ok").id
    note = "é\r\nthe key is hunter22\r\nok"
    home.write("n.md", note)
    fact = engine.remember(
        claude,
        statement="it is hunter22",
        subject="key",
        predicate="is",
        object="hunter22",
    ).id
    scan(engine)
    for one in (entry, "note:n.md", fact):
        text = engine.read_memory(owner, id=one).text
        at = text.index("hunter22")
        others = {entry, "note:n.md", fact} - {one}

        answer = engine.redact(owner, id=one, spans=[[at, at + 8]])

        memory = engine.read_memory(owner, id=one)
        assert memory.text == text.replace("hunter22", "[redacted]")
        assert memory.redacted is True
        assert memory.edited is msgspec.UNSET
        still = {
            other
            for other in others
            if "hunter22" in str(engine.read_memory(owner, id=other))
        }
        assert set(answer.also_in) == still
    assert leaks(home, "hunter22") == []
    assert (
        home.store / "n.md"
    ).read_bytes() == "é\r\nthe key is [redacted]\r\nok".encode()
    assert engine.verify(owner).problems == []
    require_rebuilt_equal(home, engine)


def test_redacting_forgets_earlier_texts_that_hold_the_words(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="plain").id
    for old, new in (("plain", "hunter22 one"), ("hunter22 one", "hunter22 two")):
        engine.replace_note(owner, id=entry, text=new, expected_sha256=digest(old))

    engine.redact(owner, id=entry, spans=[[0, 8]])

    memory = engine.read_memory(owner, id=entry)
    assert memory.text == "[redacted] two"
    assert [
        engine.read_version(owner, id=entry, event_id=one).text
        for one in memory.versions or []
    ] == ["plain"]
    assert leaks(home, "hunter22") == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_redacting_a_persons_own_words_in_a_day(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller, encoding: str
):
    first = engine.remember(claude, statement="entry one").id
    second = engine.remember(claude, statement="entry two").id
    engine.retire_memory(claude, id=second)
    text = (home.store / TODAY).read_text("utf-8")
    first_line, _, rest = text.partition("\n\n")
    mine = f"{first_line}\n\nthe key é\n\n{rest}\nis hunter22 and\nmore\n"
    home.swap(TODAY, mine.encode(encoding))
    scan(engine)
    said = engine.read_memory(owner, id=f"note:{TODAY}").text
    spans = [[said.index("key"), said.index("key") + 3]]
    spans += [[said.index("hunter22"), said.index("hunter22") + 8]]

    engine.redact(owner, id=f"note:{TODAY}", spans=spans)

    changed = mine.replace("hunter22", "[redacted]").replace("key", "[redacted]")
    assert (home.store / TODAY).read_bytes() == changed.encode(encoding)
    assert engine.read_memory(owner, id=first).text == "entry one"
    assert leaks(home, "hunter22") == []
    engine.restore_memory(owner, id=second)
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize(
    "spans", [[], [[0, 0]], [[3, 2]], [[0, 99]], [[-1, 2]], [[0]], [["a", "b"]], "x"]
)
def test_spans_that_are_none(engine: Engine, claude: t.Caller, owner: t.Caller, spans):
    entry = engine.remember(claude, statement="words").id

    with pytest.raises(Invalid):
        engine.redact(owner, id=entry, spans=spans)

    assert engine.read_memory(owner, id=entry).text == "words"


# --- erasing


def test_erasing_what_is_not_retired(engine: Engine, claude: t.Caller, owner: t.Caller):
    entry = engine.remember(claude, statement="words").id

    with pytest.raises(Conflict):
        engine.erase(owner, id=entry)
    assert engine.read_memory(claude, id=entry).text == "words"


def test_erased_words_are_nowhere(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="xylophone entry").id
    first = engine.remember(
        claude, statement="xylophone", subject="xylo", predicate="p", object="phone1"
    ).id
    engine.remember(
        make_caller("codex"),
        statement="another xylophone",
        subject="xylo",
        predicate="p",
        object="phone1",
    )
    second = engine.save_memory(
        claude, subject="xylo", predicate="p", object="marimba"
    ).id
    home.write("Music/xylophone.md", "# xylophone\n")
    scan(engine)
    engine.write_page()
    incoming = home.directory / "incoming"
    (incoming / "torn-1-facts.jsonl").write_bytes(b'{"statement":"xylophone"')
    (incoming / "torn-2-facts.jsonl").write_bytes(b'{"statement":"harp')
    (home.store / "Music/.renor-1.tmp").write_bytes(b"xylophone")
    ids = [entry, first, second, "note:Music/xylophone.md"]
    for one in ids:
        engine.retire_memory(claude, id=one)

    for one in ids:
        assert engine.erase(owner, id=one).ok
        with pytest.raises(NotFound):
            engine.read_memory(owner, id=one)
        with pytest.raises(NotFound):
            engine.restore_memory(owner, id=one)

    assert leaks(home, "xylo", "phone1", "marimba") == []
    assert (incoming / "torn-2-facts.jsonl").exists()
    assert engine.memory_status(owner).retired == 0
    assert engine.verify(owner).problems == []
    require_rebuilt_equal(home, engine)


def test_gap_of_an_erased_value_stays_a_gap(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    first = engine.save_memory(claude, subject="a", predicate="b", object="one")
    second = engine.save_memory(claude, subject="a", predicate="b", object="two")
    engine.retire_memory(claude, id=second.id)

    engine.erase(owner, id=second.id)

    assert engine.retrieve_memory(claude, subject="a").facts == []
    history = engine.retrieve_memory(claude, subject="a", include_history=True)
    assert [(one.id, one.valid_to) for one in history.facts] == [(first.id, second.at)]


def test_erasing_names_who_holds_the_words_too(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="the xylophone is blue").id
    other = engine.remember(claude, statement="I said: the xylophone is blue.").id
    superseded, retired = (
        engine.save_memory(
            claude, subject="attic", predicate="holds", object="the xylophone is blue"
        ).id,
        engine.remember(claude, statement="No: The xylophone is blue").id,
    )
    engine.save_memory(claude, subject="attic", predicate="holds", object="dust")
    for one in (retired, entry):
        engine.retire_memory(claude, id=one)

    answer = engine.erase(owner, id=entry)

    assert answer.also_in == [other, superseded, retired]
    assert {warning.code for warning in answer.warnings} == {
        "copies-untouched",
        "also-in",
    }
    assert engine.read_memory(claude, id=other).text == "I said: the xylophone is blue."


def test_erasing_one_of_two_equal_notes(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    for name in ("a.md", "b.md"):
        home.write(name, "the same words")
    scan(engine)
    for name in ("a.md", "b.md"):
        engine.retire_memory(claude, id=f"note:{name}")

    engine.erase(owner, id="note:a.md")

    assert engine.read_memory(owner, id="note:b.md").text == "the same words"
    engine.restore_memory(owner, id="note:b.md")
    assert snapshot(home) == {"b.md": b"the same words"}


def test_erased_stays_erased_when_an_older_ledger_comes_back(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    fact = engine.save_memory(claude, subject="xylo", predicate="p", object="phone")
    entry = engine.remember(claude, statement="xylophone")
    older = (home.store / "facts.jsonl").read_bytes()
    older_day = (home.store / TODAY).read_bytes()
    for one in (fact.id, entry.id):
        engine.retire_memory(claude, id=one)
        engine.erase(owner, id=one)
    home.clock.move(days=1)
    newer = (home.store / "facts.jsonl").read_bytes()

    for ledger in (older, older + newer, newer + older):
        home.swap("facts.jsonl", ledger)
        home.swap(TODAY, older_day)
        scan(engine)
        scan(engine)
        with pytest.raises(NotFound):
            engine.read_memory(owner, id=fact.id)
        assert leaks(home, "xylo") == []
    assert engine.verify(owner).problems == []


def test_erasure_that_was_interrupted_is_finished_on_the_next_open(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    """The event was indexed, then the process ended: nothing of the ledger is new."""
    entry = engine.remember(claude, statement="xylophone").id
    engine.retire_memory(claude, id=entry)
    engine.store.finish_erasing = lambda: None  # type: ignore[method-assign]
    with pytest.raises(Busy):
        engine.erase(owner, id=entry)
    assert leaks(home, "xylophone") != []

    home.open()

    assert leaks(home, "xylophone") == []


def test_redacted_words_stay_away_when_an_older_ledger_comes_back(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    fact = engine.save_memory(claude, subject="k", predicate="is", object="hunter22 x")
    older = (home.store / "facts.jsonl").read_bytes()
    engine.redact(owner, id=fact.id, spans=[[0, 8]])
    newer = (home.store / "facts.jsonl").read_bytes()
    home.clock.move(days=1)

    for ledger in (older, older + newer, newer + older):
        home.swap("facts.jsonl", ledger)
        scan(engine)
        scan(engine)
        found = engine.retrieve_memory(claude, subject="k").facts
        assert [one.object for one in found] == ["[redacted] x"]
        assert leaks(home, "hunter22") == []


def test_entry_removed_by_hand_while_the_ledger_is_damaged(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    engine.save_memory(claude, subject="a", predicate="b", object="c")
    home.clock.move(minutes=11)
    sound = (home.store / "facts.jsonl").read_bytes()
    home.swap("facts.jsonl", sound + b"<<<<<<< HEAD\n")
    scan(engine)
    home.swap(TODAY, b"# 2026-11-30\n")
    scan(engine)
    assert engine.read_memory(claude, id=entry).text == "zebra"

    home.swap("facts.jsonl", sound)
    scan(engine)
    scan(engine)

    assert engine.read_memory(claude, id=entry).retired is True
    require_rebuilt_equal(home, engine)


def test_replacement_that_the_disk_refused_is_no_version(
    home: Home, claude: t.Caller, owner: t.Caller
):
    class Full(files.Disk):
        is_full = False

        def _rename(self, source: Path, target: Path) -> None:
            if self.is_full and target.name == "n.md":
                raise OSError(errno.ENOSPC, "full")
            super()._rename(source, target)

    disk = Full()
    engine = home.open(disk)
    home.write("n.md", "first")
    scan(engine)
    disk.is_full = True
    with pytest.raises(Busy):
        engine.replace_note(
            owner, id="note:n.md", text="second", expected_sha256=digest("first")
        )
    disk.is_full = False

    memory = engine.read_memory(owner, id="note:n.md")
    assert (memory.text, memory.versions) == ("first", msgspec.UNSET)
    assert memory.edited_by is msgspec.UNSET


def test_words_that_another_copy_erased_leave_this_one(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    """A ledger pulled from elsewhere says less than this index knows."""
    fact = engine.save_memory(claude, subject="xylo", predicate="p", object="phone")
    engine.retire_memory(claude, id=fact.id)
    before = (home.store / "facts.jsonl").read_bytes()
    engine.erase(owner, id=fact.id)
    erased = (home.store / "facts.jsonl").read_bytes()
    home.close()
    home.delete_index()
    home.write("facts.jsonl", before)
    engine = home.open()
    assert leaks(home, "xylo") != []

    home.swap("facts.jsonl", erased)
    scan(engine)

    assert leaks(home, "xylo") == []


def test_entry_that_was_retired_in_another_copy(
    home: Home, engine: Engine, claude: t.Caller
):
    """The event came with a merge; the file still holds the entry."""
    entry = engine.remember(claude, statement="zebra").id
    day = (home.store / TODAY).read_bytes()
    engine.retire_memory(claude, id=entry)
    retired = (home.store / "facts.jsonl").read_bytes()
    home.close()
    home.delete_index()
    home.write(TODAY, day)
    (home.store / "facts.jsonl").unlink()
    engine = home.open()
    assert found(engine, claude, "zebra") == [entry]

    home.write("facts.jsonl", retired)
    scan(engine)
    scan(engine)

    assert found(engine, claude, "zebra") == []
    assert engine.read_memory(claude, id=entry).retired is True
    require_rebuilt_equal(home, engine)


def test_retired_words_that_are_gone_are_named(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    engine.retire_memory(claude, id=entry)
    for path in (home.directory / "retired").iterdir():
        path.unlink()
    home.close()
    home.delete_index()
    engine = home.open()

    with pytest.raises(Conflict):
        engine.restore_memory(claude, id=entry)
    problems = engine.memory_status(claude).problems
    assert "retired-missing" in {problem.code for problem in problems}


def test_damaged_ledger_refuses_all_of_it(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    engine.save_memory(claude, subject="a", predicate="b", object="c")
    with (home.store / "facts.jsonl").open("ab") as file:
        file.write(b"<<<<<<< HEAD\n")
    before = snapshot(home)

    for call in (
        lambda: engine.retire_memory(claude, id=entry),
        lambda: engine.replace_note(
            owner, id=entry, text="x", expected_sha256=digest("zebra")
        ),
        lambda: engine.redact(owner, id=entry, spans=[[0, 2]]),
    ):
        with pytest.raises(EngineError):
            call()
        assert snapshot(home) == before
    assert engine.read_memory(claude, id=entry).text == "zebra"


def test_words_that_another_copy_redacted_leave_this_one(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    """Kinds and ids of the events are as before: a line alone says less."""
    fact = engine.save_memory(claude, subject="key", predicate="is", object="hunter22")
    engine.write_page()
    before = (home.store / "facts.jsonl").read_bytes()
    engine.redact(owner, id=fact.id, spans=[[0, 8]])
    redacted = (home.store / "facts.jsonl").read_bytes()
    home.close()
    home.delete_index()
    home.write("facts.jsonl", before + redacted.splitlines(keepends=True)[1])
    engine = home.open()
    assert leaks(home, "hunter22") != []

    home.swap("facts.jsonl", redacted)
    scan(engine)

    assert leaks(home, "hunter22") == []
    assert engine.read_memory(claude, id=fact.id).text == "key is: [redacted]"
    require_rebuilt_equal(home, engine)


def test_redacted_words_leave_copies_of_an_entry(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="earlier: hunter22").id
    home.write(f"older/{TODAY}", (home.store / TODAY).read_bytes())
    engine.replace_note(
        owner,
        id=entry,
        text="the key is hunter22",
        expected_sha256=digest("earlier: hunter22"),
    )
    day = (home.store / TODAY).read_bytes()
    home.write(f"copy/{TODAY}", day)
    home.swap(TODAY, day + day)
    scan(engine)

    engine.redact(owner, id=entry, spans=[[11, 19]])

    assert leaks(home, "hunter22") == []
    assert engine.read_memory(owner, id=entry).text == "the key is [redacted]"
    assert engine.memory_status(owner).entries == 1
    require_rebuilt_equal(home, engine)


def test_note_erased_before_its_file_was_put_away(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    """A crash right after the event left the file, spelled as another system does."""
    file = home.write("cafe\u0301.md", "zebra")
    scan(engine)
    then = file.stat().st_mtime_ns
    engine.retire_memory(claude, id="note:caf\u00e9.md")
    file.write_text("zebra", "utf-8")
    os.utime(file, ns=(then, then))
    home.close()
    home.delete_index()
    engine = home.open(scan_seconds=0)

    engine.erase(owner, id="note:caf\u00e9.md")

    scan(engine)
    assert leaks(home, "zebra", "caf") == []


def test_unfinished_erasure_waits_for_a_sound_ledger(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    """It is tried again when the ledger is mended, and not over and over before."""
    entry = engine.remember(claude, statement="zebra").id
    engine.retire_memory(claude, id=entry)
    ledger = home.store / "facts.jsonl"
    older = ledger.read_bytes()
    engine.erase(owner, id=entry)
    home.close()
    home.delete_index()
    erase = render_line(
        Event(
            id="01zzzzzzzz000000",
            kind="erase",
            recorded_at="2026-11-30T12:00:00.100Z",
            about=f"entry:#{entry.rpartition('#')[2]}",
            unfinished=True,
        )
    )
    home.write("facts.jsonl", older + erase + b"<<<<<<< HEAD\n")
    engine = home.open()

    scan(engine)
    assert ledger.read_bytes().endswith(b"<<<<<<< HEAD\n")
    home.swap("facts.jsonl", older + erase)
    scan(engine)

    assert b"unfinished" not in ledger.read_bytes()
    assert leaks(home, "zebra") == []


@pytest.mark.parametrize("is_note", [True, False])
@pytest.mark.parametrize("is_restored", [True, False])
def test_kept_words_that_a_crash_left_go_too(
    home: Home,
    engine: Engine,
    owner: t.Caller,
    *,
    is_restored: bool,
    is_note: bool,
):
    """Before the retiring's event, or after the restoring's."""
    one = engine.remember(owner, statement="the key is hunter22").id
    other = engine.remember(owner, statement="other hunter22").id
    home.write("n.md", "the key is hunter22 too")
    scan(engine)
    engine.retire_memory(owner, id=other)
    if is_note:
        one = "note:n.md"
    engine.retire_memory(owner, id=one)
    shelf = home.directory / "retired"
    kept = {path: path.read_bytes() for path in shelf.iterdir()}
    engine.restore_memory(owner, id=one)
    for path, data in kept.items():
        if is_restored:
            path.write_bytes(data)
        elif b"other" not in data:  # of a text that was edited since
            edited = data + b"\n"
            (shelf / f"{hashlib.sha256(edited).hexdigest()}.md").write_bytes(edited)

    engine.redact(owner, id=one, spans=[[11, 19]])

    still = [path.read_bytes() for path in shelf.iterdir()]
    assert [b"other hunter22" in data for data in still] == [True]
    assert engine.read_memory(owner, id=other).text == "other hunter22"


def test_note_in_a_retired_ones_place_is_meant_before_it_was_indexed(
    home: Home, engine: Engine, owner: t.Caller
):
    home.write("n.md", "first")
    scan(engine)
    engine.retire_memory(owner, id="note:n.md")
    home.write("n.md", "second")

    assert engine.read_memory(owner, id="note:n.md").text == "second"
    engine.store.rebuild_index()
    engine.replace_note(
        owner, id="note:n.md", text="third", expected_sha256=digest("second")
    )
    engine.store.rebuild_index()
    engine.retire_memory(owner, id="note:n.md")

    assert not (home.store / "n.md").exists()
    assert engine.read_memory(owner, id="note:n.md").text == "third"


# --- what reading the code with fresh eyes brought up


def test_versions_of_a_moved_note_outlive_anothers_erasure(
    home: Home, engine: Engine, owner: t.Caller
):
    home.write("a.md", "one zebra")
    scan(engine)
    answer = engine.replace_note(
        owner, id="note:a.md", text="two", expected_sha256=digest("one zebra")
    )
    (home.store / "a.md").rename(home.store / "b.md")
    scan(engine)
    home.write("a.md", "another")
    scan(engine)
    engine.retire_memory(owner, id="note:a.md")

    engine.erase(owner, id="note:a.md")

    assert engine.read_memory(owner, id="note:b.md").versions == [answer.event_id]


def test_redaction_of_a_text_that_changes_meanwhile(
    home: Home, engine: Engine, owner: t.Caller
):
    home.write("n.md", "the key is hunter22")
    scan(engine)
    append = engine.store.append_event

    def change_after(event: Event) -> bool:
        done = append(event)
        home.swap("n.md", b"well, the key is hunter22")
        return done

    engine.store.append_event = change_after  # type: ignore[method-assign]
    with pytest.raises(Conflict):
        engine.redact(owner, id="note:n.md", spans=[[11, 19]])
    engine.store.append_event = append  # type: ignore[method-assign]

    memory = engine.read_memory(owner, id="note:n.md")
    assert (memory.text, memory.redacted) == (
        "well, the key is hunter22",
        msgspec.UNSET,
    )


def test_set_aside_ends_of_other_texts_stay(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    engine.remember(claude, statement="this stands here with others")
    entry = engine.remember(claude, statement="this holds a xylophone").id
    incoming = home.directory / "incoming"
    (incoming / "torn-1-a.md").write_bytes(b"this was cut off with others")
    (incoming / "torn-2-a.md").write_bytes(b"a xylophone, cut off")
    engine.retire_memory(owner, id=entry)

    engine.erase(owner, id=entry)

    assert [path.name for path in incoming.iterdir()] == ["torn-1-a.md"]


def test_entry_is_restored_where_its_mark_was_moved_to(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    engine.retire_memory(claude, id=entry)
    (home.store / "logs").mkdir()
    (home.store / TODAY).rename(home.store / "logs" / TODAY)
    scan(engine)

    restored = engine.restore_memory(claude, id=entry)

    assert restored.id == f"entry:logs/{TODAY}#{entry.rpartition('#')[2]}"
    scan(engine)
    assert engine.read_memory(claude, id=restored.id).text == "zebra"
    require_rebuilt_equal(home, engine)


def test_earlier_texts_that_hold_erased_words_are_named(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    revised = engine.remember(claude, statement="the xylophone is blue").id
    engine.replace_note(
        owner, id=revised, text="plain", expected_sha256=digest("the xylophone is blue")
    )
    entry = engine.remember(claude, statement="The xylophone is blue").id
    engine.retire_memory(claude, id=entry)

    assert engine.erase(owner, id=entry).also_in == [revised]


def test_note_that_takes_the_path_of_a_moved_one_begins_anew(
    home: Home, engine: Engine, claude: t.Caller
):
    home.write("a.md", "the port is 80")
    scan(engine)
    first = engine.remember(claude, statement="the port is 81", replaces="note:a.md")
    (home.store / "a.md").rename(home.store / "b.md")
    home.clock.move(minutes=1)
    scan(engine)
    home.write("a.md", "the harbour is north")
    scan(engine)
    home.clock.move(minutes=1)

    assert engine.read_memory(claude, id="note:a.md").replaced is msgspec.UNSET
    second = engine.remember(claude, statement="it is south", replaces="note:a.md")
    for path, by in (("a.md", second), ("b.md", first)):
        replaced = engine.read_memory(claude, id=f"note:{path}").replaced
        assert replaced
        assert replaced.by == by.id


def test_note_with_earlier_texts_that_is_deleted_by_hand(
    home: Home, engine: Engine, owner: t.Caller
):
    file = home.write("a.md", "one zebra")
    scan(engine)
    engine.replace_note(
        owner, id="note:a.md", text="two", expected_sha256=digest("one zebra")
    )
    file.unlink()
    scan(engine)

    retired = engine.read_memory(owner, id="note:a.md")
    assert (retired.retired, retired.text) == (True, "one zebra")
    home.write("a.md", "unrelated")
    scan(engine)
    assert engine.read_memory(owner, id="note:a.md").versions is msgspec.UNSET
    require_rebuilt_equal(home, engine)
    (home.store / "a.md").unlink()
    scan(engine)
    engine.erase(owner, id="note:a.md")
    assert leaks(home, "zebra", "a.md") == []


def test_short_redaction_of_a_fact_spares_other_words(
    engine: Engine, claude: t.Caller, owner: t.Caller
):
    fact = engine.remember(
        claude, statement="port 5 it is", subject="a", predicate="b", object="5432"
    ).id

    engine.redact(owner, id=fact, spans=[[5, 6]])

    found = engine.retrieve_memory(claude, subject="a").facts[0]
    assert (found.statement, found.object) == ("port [redacted] it is", "5432")


def test_revision_that_is_asked_for_again(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="one").id
    asking = msgspec.structs.replace(owner, request_id="r1")
    said = {"id": entry, "text": "two", "expected_sha256": digest("one")}

    first = engine.replace_note(asking, **said)

    assert engine.replace_note(asking, **said) == first


def test_redaction_counts_in_the_text_as_it_was_written(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="hi <!-- c --> hunter22").id
    fact = engine.save_memory(claude, subject="a", predicate="b", object="hunter22").id
    shown = engine.read_memory(owner, id=entry)
    at = shown.text.index("hunter22")
    assert shown.sha256 is msgspec.UNSET
    with pytest.raises(Conflict):
        engine.redact(owner, id=entry, spans=[[at, at + 8]])
    for one in (entry, fact):
        whole = engine.read_text(owner, id=one)
        start = whole.text.index("hunter22")

        engine.redact(
            owner,
            id=one,
            spans=[[start, start + 8]],
            expected_sha256=whole.sha256,
        )

    assert leaks(home, "hunter22") == []
    with pytest.raises(ReadOnly):
        engine.read_text(claude, id=entry)


def test_redaction_that_the_index_could_not_take_in_is_done_all_the_same(
    home: Home, engine: Engine, claude: t.Caller, owner: t.Caller
):
    entry = engine.remember(claude, statement="the key is hunter22").id

    def full(event: Event, line: bytes) -> None:
        raise IndexFull("full")

    engine.store.index.apply_event = full  # type: ignore[method-assign]
    engine.redact(owner, id=entry, spans=[[11, 19]])

    assert engine.read_memory(owner, id=entry).text == "the key is [redacted]"
    assert leaks(home, "hunter22") == []


def test_kept_bytes_that_were_changed_are_not_restored(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="zebra").id
    engine.retire_memory(claude, id=entry)
    (kept,) = (home.directory / "retired").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"zebra", b"horse"))

    with pytest.raises(Conflict):
        engine.restore_memory(claude, id=entry)


def test_many_alike_do_not_hide_others(engine: Engine, claude: t.Caller):
    for number in range(30):
        day = f"2026-10-{number + 1:02d}"
        engine.remember_note(claude, text="the xylophone is blue today", date=day)
    others = {
        engine.remember(claude, statement=f"xylophone story {word} {word}").id
        for word in ("one", "two", "three", "four", "five")
    }

    hits = engine.search_text(claude, query="xylophone").hits
    context = engine.get_context(claude, query="xylophone", max_tokens=4_000)

    assert others <= {hit.id for hit in hits}
    assert others <= {hit.id for hit in context.memories}


def test_note_with_earlier_texts_deleted_before_a_new_index_saw_it(
    home: Home, engine: Engine, owner: t.Caller
):
    file = home.write("a.md", "---\nscope: project:fjord\n---\none zebra")
    scan(engine)
    whole = engine.read_text(owner, id="note:a.md")
    engine.replace_note(owner, id="note:a.md", text="two", expected_sha256=whole.sha256)
    engine.store.rebuild_index()
    file.unlink()
    scan(engine)

    retired = engine.read_memory(owner, id="note:a.md")
    assert (retired.retired, retired.scope) == (True, "project:fjord")
    assert "one zebra" in retired.text
    scan(engine)
    assert engine.memory_status(owner).retired == 1
