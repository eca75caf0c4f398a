"""What other hands do to the files, and what the engine makes of it."""

from __future__ import annotations

import os
import random
import resource
import unicodedata
import zlib
from pathlib import Path

import apsw
import msgspec
import pytest

from memories.engine import files, ledger
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import Busy, Corrupt, EngineError
from memories.engine.files import MAX_FILE_BYTES
from memories.engine.keeping import INDEX_NAME
from memories.engine.types import Event
from memories.engine.workspace import MARKER_NAME, create_workspace
from tests.unit.engine.homes import (
    WORKSPACE_ID,
    Home,
    dump,
    make_caller,
    require_rebuilt_equal,
    scan,
)

TODAY = "2026-11-30.md"
LEDGER = "facts.jsonl"


def save(engine: Engine, caller: t.Caller, value: str, subject: str = "Fjord"):
    return engine.save_memory(
        caller, subject=subject, predicate="database", object=value
    )


def found(engine: Engine, query: str) -> list[str]:
    return [hit.id for hit in engine.search_text(make_caller(), query=query).hits]


def entries(home: Home) -> list[str]:
    """Return the ids of entries that the index holds."""
    return [
        str(row[0]) for row in dump(home)["memories"] if str(row[0]).startswith("entry")
    ]


def codes(engine: Engine) -> list[str]:
    return [problem.code for problem in engine.memory_status(make_caller()).problems]


def replace_by_rename(home: Home, path: str, data: bytes) -> None:
    home.swap(path, data)


def replace_in_place(home: Home, path: str, data: bytes) -> None:
    (home.store / path).write_bytes(data)


both_ways = pytest.mark.parametrize("replace", [replace_by_rename, replace_in_place])


# --- day logs


@both_ways
@pytest.mark.parametrize("looks_first", [True, False])
def test_stale_buffer_over_fresh_entries(
    home: Home, engine: Engine, claude: t.Caller, replace, looks_first: bool
):
    first = engine.remember(claude, statement="first words")
    buffer = (home.store / TODAY).read_bytes()
    second = engine.remember(claude, statement="second words")

    replace(home, TODAY, buffer + b"\nby hand\n")
    if looks_first:
        scan(engine)
    third = engine.remember(claude, statement="third words")

    for receipt in (first, second, third):
        assert engine.read_memory(claude, id=receipt.id).id == receipt.id
    text = (home.store / TODAY).read_text("utf-8")
    for words in ("first words", "second words", "third words", "by hand"):
        assert text.count(words) == 1
    assert codes(engine) == ["entries-put-back"]
    require_rebuilt_equal(home, engine)


@both_ways
def test_stale_buffer_over_older_entries_retires_them(
    home: Home, engine: Engine, claude: t.Caller, replace
):
    first = engine.remember(claude, statement="first words")
    before = (home.store / TODAY).read_bytes()
    second = engine.remember(claude, statement="another zebra")
    whole = (home.store / TODAY).read_bytes()
    home.clock.move(minutes=10, seconds=1)

    replace(home, TODAY, before)
    scan(engine)

    assert found(engine, "another zebra") == []
    assert engine.memory_status(claude).retired == 1
    assert engine.read_memory(claude, id=first.id).text == "first words"
    kept = [path.read_bytes() for path in (home.directory / "retired").iterdir()]
    assert len(kept) == 1
    assert b"\nanother zebra\n" in kept[0]
    require_rebuilt_equal(home, engine)

    replace(home, TODAY, whole)
    scan(engine)

    assert found(engine, "another zebra") == [second.id]
    assert engine.memory_status(claude).retired == 0
    assert engine.verify(claude).events == 2
    require_rebuilt_equal(home, engine)


def test_stale_buffer_while_the_engine_sleeps(home: Home, claude: t.Caller):
    engine = home.open()
    engine.remember(claude, statement="first words")
    buffer = (home.store / TODAY).read_bytes()
    second = engine.remember(claude, statement="second words")
    home.close()
    home.swap(TODAY, buffer)

    engine = home.open()

    assert engine.read_memory(claude, id=second.id).text == "second words"


def test_editor_that_truncates_first(home: Home, engine: Engine, claude: t.Caller):
    receipts = [engine.remember(claude, statement=f"words {n}") for n in range(5)]
    whole = (home.store / TODAY).read_bytes()

    home.write(TODAY, b"")
    scan(engine)
    home.write(TODAY, whole + b"\nby hand\n")
    scan(engine)

    assert entries(home) == [receipt.id for receipt in receipts]
    assert engine.read_memory(claude, id=f"note:{TODAY}").text == "by hand"
    require_rebuilt_equal(home, engine)


def test_many_writes_between_many_stale_saves(
    home: Home, engine: Engine, claude: t.Caller
):
    chance = random.Random(1)  # noqa: S311 - a test's dice
    receipts, buffer = [], b""
    for number in range(60):
        receipts.append(engine.remember(claude, statement=f"words number {number}."))
        if chance.random() < 0.4:
            buffer = (home.store / TODAY).read_bytes()
        if chance.random() < 0.4:
            chance.choice([replace_by_rename, replace_in_place])(home, TODAY, buffer)
        if chance.random() < 0.3:
            scan(engine)

    scan(engine)
    assert sorted(entries(home)) == sorted(receipt.id for receipt in receipts)
    for number, receipt in enumerate(receipts):
        memory = engine.read_memory(claude, id=receipt.id)
        assert (memory.text, memory.edited) == (
            f"words number {number}.",
            msgspec.UNSET,
        )
    require_rebuilt_equal(home, engine)


def test_entry_edited_by_hand(home: Home, engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="the cat sat")
    home.swap(TODAY, (home.store / TODAY).read_bytes().replace(b"cat", b"dog"))
    scan(engine)

    memory = engine.read_memory(claude, id=receipt.id)

    assert (memory.text, memory.edited) == ("the dog sat", True)
    assert found(engine, "dog sat") == [receipt.id]
    assert found(engine, "cat") == []
    require_rebuilt_equal(home, engine)


def test_entry_whose_marker_was_removed_by_hand(
    home: Home, engine: Engine, claude: t.Caller
):
    receipt = engine.remember(claude, statement="the cat sat")
    home.clock.move(minutes=11)
    lines = (home.store / TODAY).read_text("utf-8").splitlines(keepends=True)
    home.swap(TODAY, "".join(x for x in lines if "renor" not in x).encode())

    scan(engine)

    assert found(engine, "the cat sat") == [f"note:{TODAY}"]
    assert engine.read_memory(claude, id=receipt.id).retired is True
    assert engine.memory_status(claude).retired == 1


def test_day_file_turned_to_crlf(home: Home, engine: Engine, claude: t.Caller):
    first = engine.remember(claude, statement="one\ntwo")
    home.swap(TODAY, (home.store / TODAY).read_bytes().replace(b"\n", b"\r\n"))

    second = engine.remember(claude, statement="three")

    assert [engine.read_memory(claude, id=r.id).text for r in (first, second)] == [
        *("one\ntwo", "three")
    ]
    assert engine.read_memory(claude, id=first.id).edited is msgspec.UNSET
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_day_file_saved_as_utf16(
    home: Home, engine: Engine, claude: t.Caller, encoding: str
):
    first = engine.remember(claude, statement="first é")
    text = "\ufeff" + (home.store / TODAY).read_text("utf-8").rstrip("\n")
    home.swap(TODAY, text.encode(encoding))

    second = engine.remember(claude, statement="second 漢")

    assert "second 漢" in (home.store / TODAY).read_bytes().decode("utf-16")
    engine.store.rebuild_index()
    scan(engine)
    assert [engine.read_memory(claude, id=r.id).text for r in (first, second)] == [
        *("first é", "second 漢")
    ]


def test_day_file_deleted(home: Home, engine: Engine, claude: t.Caller):
    old = engine.remember(claude, statement="old words")
    home.clock.move(minutes=11)
    fresh = engine.remember(claude, statement="fresh words")
    (home.store / TODAY).unlink()

    scan(engine)

    assert entries(home) == [fresh.id]
    assert engine.memory_status(claude).retired == 1
    assert engine.read_memory(claude, id=old.id).retired is True
    assert "fresh words" in (home.store / TODAY).read_text("utf-8")
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("writes_first", [True, False])
def test_day_file_moved_to_a_folder(
    home: Home, engine: Engine, claude: t.Caller, writes_first: bool
):
    old = engine.remember(claude, statement="old words")
    home.clock.move(minutes=11)
    (home.store / "logs").mkdir()
    (home.store / TODAY).rename(home.store / "logs" / TODAY)

    if writes_first:
        engine.remember(claude, statement="new words")
    scan(engine)

    assert found(engine, "old words") == [f"entry:logs/{TODAY}#{old.event_id}"]
    assert engine.memory_status(claude).retired == 0
    require_rebuilt_equal(home, engine)


def test_day_file_copied_to_a_folder(home: Home, engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="the words")
    home.clock.move(minutes=11)
    home.write(f"backup/{TODAY}", (home.store / TODAY).read_bytes())
    scan(engine)
    assert entries(home) == [receipt.id]
    require_rebuilt_equal(home, engine)

    (home.store / TODAY).unlink()
    scan(engine)

    assert entries(home) == [f"entry:backup/{TODAY}#{receipt.event_id}"]
    assert engine.memory_status(claude).retired == 0
    require_rebuilt_equal(home, engine)


def test_day_file_copied_to_the_root(home: Home, engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="the words")
    (home.store / "logs").mkdir()
    (home.store / TODAY).rename(home.store / "logs" / TODAY)
    scan(engine)

    home.write(TODAY, (home.store / "logs" / TODAY).read_bytes())
    scan(engine)

    assert entries(home) == [receipt.id]
    require_rebuilt_equal(home, engine)


def test_day_file_of_more_than_the_limit_is_still_found(
    home: Home, engine: Engine, claude: t.Caller
):
    first = engine.remember(claude, statement="the first words")
    with (home.store / TODAY).open("ab") as file:
        file.write(b"x " * (MAX_FILE_BYTES // 2 + 1))
    scan(engine)
    size = (home.store / TODAY).stat().st_size

    scan(engine)
    second = engine.remember(claude, statement="the second words")
    scan(engine)

    assert entries(home) == [first.id, second.id]
    assert (home.store / TODAY).stat().st_size < size + 1_000
    assert codes(engine) == []


def test_day_file_made_anew_while_a_scan_is_under_way(home: Home, claude: t.Caller):
    engine = home.open()
    engine.remember(claude, statement="old words")
    home.clock.move(minutes=11)
    for number in range(500):
        home.write(f"{number}.md", f"note {number}")
    (home.store / TODAY).unlink()
    engine.look_again()
    engine.work(0)

    receipt = engine.remember(claude, statement="new words")
    scan(engine)

    assert entries(home) == [receipt.id]
    assert (home.store / TODAY).read_text("utf-8").count("new words") == 1
    assert codes(engine) == ["entry-retired"]


def test_day_file_that_is_a_pipe_or_a_link(
    home: Home, engine: Engine, claude: t.Caller
):
    os.mkfifo(home.store / TODAY)
    with pytest.raises(Busy):
        engine.remember(claude, statement="into a pipe")
    (home.store / TODAY).unlink()
    outside = home.directory / "outside.md"
    outside.write_text("kept", "utf-8")
    (home.store / TODAY).symlink_to(outside)
    with pytest.raises(Busy):
        engine.remember(claude, statement="through a link")

    assert outside.read_text("utf-8") == "kept"
    assert entries(home) == []


def test_day_file_turned_into_a_link_stops_no_other_file(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="the words")
    (home.store / TODAY).rename(home.directory / "outside.md")
    (home.store / TODAY).symlink_to(home.directory / "outside.md")
    home.write("z.md", "zebra")

    scan(engine)

    assert found(engine, "zebra") == ["note:z.md"]
    assert "skipped" in codes(engine)


def test_day_file_with_an_odd_marker_stops_no_other_file(home: Home):
    marker = '<!-- renor {"id":"x","at":"1800-01-01T00:00:00Z"} -->'
    home.write("2026-11-29.md", f"{marker}\nwords\n<!-- /renor x -->\n")
    home.write("z.md", "zebra")
    os.utime(home.store / "z.md", (1, 1))

    engine = home.open()

    assert found(engine, "zebra") == ["note:z.md"]
    assert found(engine, "words") == ["note:2026-11-29.md"]


def test_day_file_made_empty_by_hand(home: Home, engine: Engine, claude: t.Caller):
    home.write(TODAY, b"")

    receipt = engine.remember(claude, statement="the words")

    assert engine.read_memory(claude, id=receipt.id).text == "the words"
    require_rebuilt_equal(home, engine)


def test_torn_end_found_after_the_first_answer(home: Home, claude: t.Caller):
    engine = home.open()
    engine.remember_note(claude, text="whole words", date="2026-01-02")
    home.close()
    path = home.store / "2026-01-02.md"
    whole = path.read_bytes()
    path.write_bytes(
        whole + whole.partition(b"\n\n")[2].replace(b"01m8", b"01m9")[:-30]
    )
    os.utime(path, (1, 1))
    home.delete_index()
    for number in range(300):
        home.write(f"{number}.md", f"note {number}")

    engine = home.open(scan_seconds=0)
    scan(engine)

    assert path.read_bytes().rstrip(b"\n") == whole.rstrip(b"\n")
    assert codes(engine) == ["torn-end"]
    assert len(found(engine, "whole words")) == 1


def test_entry_removed_by_hand_while_another_program_extends_the_ledger(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="old words")
    save(engine, claude, "SQLite")
    home.clock.move(minutes=11)
    line = (home.store / LEDGER).read_bytes()
    home.swap(TODAY, b"# emptied\n")
    with (home.store / LEDGER).open("ab") as file:
        file.write(line)

    engine.remember(claude, statement="new words")

    assert engine.memory_status(claude).retired == 1
    assert codes(engine) == ["entry-retired"]


class Meddler(files.Disk):
    """Lets another hand save its buffer over a file right after a flush."""

    def __init__(self, home: Home, times: int) -> None:
        self._home = home
        self._times = times
        self.buffer = b""

    def _flush_data(self, descriptor: int) -> None:
        super()._flush_data(descriptor)
        if self._times:
            self._times -= 1
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            self._home.swap(path.name, self.buffer)


@pytest.mark.parametrize("times", [1, 3])
def test_day_file_replaced_between_a_flush_and_its_receipt(
    home: Home, engine: Engine, claude: t.Caller, times: int
):
    first = engine.remember(claude, statement="first words")
    disk = Meddler(home, times)
    disk.buffer = (home.store / TODAY).read_bytes() + b"\nby hand\n"
    engine = home.open(disk)

    second = engine.remember(claude, statement="second words")

    data = (home.store / TODAY).read_bytes()
    assert [data.count(f"{n} words".encode()) for n in ("first", "second")] == [1, 1]
    assert second.id.encode().rpartition(b"#")[2] in data
    assert entries(home) == [first.id, second.id]
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("times", [1, 3])
def test_ledger_replaced_between_a_flush_and_its_receipt(
    home: Home, engine: Engine, claude: t.Caller, times: int
):
    save(engine, claude, "PostgreSQL")
    disk = Meddler(home, times)
    disk.buffer = (home.store / LEDGER).read_bytes()
    engine = home.open(disk)

    second = save(engine, claude, "SQLite")

    data = (home.store / LEDGER).read_bytes()
    assert data.count(second.event_id.encode()) == 1
    facts = engine.retrieve_memory(claude, subject="Fjord").facts
    assert [fact.id for fact in facts] == [second.id]
    require_rebuilt_equal(home, engine)


def test_file_that_is_replaced_without_end_is_refused_in_the_end(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="first words")
    save(engine, claude, "PostgreSQL")
    disk = Meddler(home, 1_000)
    disk.buffer = (home.store / LEDGER).read_bytes()
    engine = home.open(disk)
    with pytest.raises(Busy):
        save(engine, claude, "SQLite")
    disk.buffer = (home.store / TODAY).read_bytes()
    with pytest.raises(Busy):
        engine.remember(claude, statement="second words")


# --- the ledger


@both_ways
def test_ledger_replaced_by_an_older_copy(
    home: Home, engine: Engine, claude: t.Caller, replace
):
    save(engine, claude, "PostgreSQL")
    older = (home.store / LEDGER).read_bytes()
    second = save(engine, claude, "SQLite")

    replace(home, LEDGER, older)
    third = save(engine, claude, "Go", "Bergen")

    assert [r.action for r in (second, third)] == ["supersede", "store"]
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    assert [fact.object for fact in history.facts] == ["SQLite", "PostgreSQL"]
    assert (home.store / LEDGER).read_bytes().count(b"\n") == 3
    assert codes(engine) == ["events-put-back"]
    require_rebuilt_equal(home, engine)


def test_ledger_replaced_by_a_much_older_copy_is_the_truth(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "PostgreSQL")
    older = (home.store / LEDGER).read_bytes()
    save(engine, claude, "SQLite")
    home.clock.move(minutes=11)

    home.swap(LEDGER, older)
    facts = engine.retrieve_memory(claude, subject="Fjord").facts

    assert [fact.object for fact in facts] == ["PostgreSQL"]
    assert codes(engine) == ["events-gone"]
    require_rebuilt_equal(home, engine)


def test_ledger_deleted(home: Home, engine: Engine, claude: t.Caller):
    receipt = save(engine, claude, "SQLite")
    (home.store / LEDGER).unlink()

    again = save(engine, claude, "SQLite")

    assert (again.action, again.event_id) == ("nochange", receipt.event_id)
    assert (home.store / LEDGER).exists()


def test_ledger_merged_and_reordered(home: Home, engine: Engine, claude: t.Caller):
    for value in ("a", "b", "c"):
        save(engine, claude, value)
    lines = (home.store / LEDGER).read_bytes().splitlines(keepends=True)
    before = engine.retrieve_memory(claude, subject="Fjord", include_history=True)

    home.swap(LEDGER, b"".join([*reversed(lines), b"\n", *lines]))
    after = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    fourth = save(engine, claude, "d")

    assert after == before
    assert fourth.action == "supersede"
    require_rebuilt_equal(home, engine)


def test_ledger_that_another_machine_has_extended(
    home: Home, tmp_path: Path, claude: t.Caller
):
    other = Home(tmp_path / "other", home.clock)
    engine = home.open()
    save(engine, claude, "PostgreSQL")
    copy = (home.store / LEDGER).read_bytes()
    other.write(LEDGER, copy)
    home.clock.move(seconds=1)
    there = save(other.open(), claude, "SQLite")
    other.close()
    home.clock.move(seconds=1)
    here = save(engine, claude, "DuckDB")

    theirs = (other.store / LEDGER).read_bytes().removeprefix(copy)
    home.swap(LEDGER, copy + (home.store / LEDGER).read_bytes()[len(copy) :] + theirs)
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)

    assert [fact.object for fact in history.facts] == ["DuckDB", "SQLite", "PostgreSQL"]
    assert [fact.current for fact in history.facts] == [True, False, False]
    assert (there.action, here.action) == ("supersede", "supersede")
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("is_open", [True, False])
def test_ledger_damaged_in_the_middle_is_read_only(
    home: Home, engine: Engine, claude: t.Caller, is_open: bool
):
    for value in ("a", "b", "c"):
        save(engine, claude, value)
    entry = engine.remember(claude, statement="an entry")
    whole = (home.store / LEDGER).read_bytes()
    lines = whole.splitlines(keepends=True)
    if not is_open:
        home.close()
        home.delete_index()
    home.swap(LEDGER, lines[0] + b"<<<<<<< HEAD\n" + lines[1][:-9] + b"\n" + lines[2])
    engine = engine if is_open else home.open()

    with pytest.raises(Corrupt):
        save(engine, claude, "d")
    kept = engine.remember(claude, statement="another entry")

    facts = engine.retrieve_memory(claude, subject="Fjord").facts
    assert [fact.object for fact in facts] == ["c"]
    assert {entry.id, kept.id} == set(found(engine, "entry"))
    (problem,) = [
        one.message
        for one in engine.memory_status(claude).problems
        if one.code == "ledger-damaged"
    ]
    assert "line 2: no checksum" in problem
    assert "line 3: no checksum" in problem

    home.swap(LEDGER, whole)
    assert save(engine, claude, "d").action == "supersede"
    assert "ledger-damaged" not in codes(engine)
    require_rebuilt_equal(home, engine)


def test_ledger_seen_half_written_forgets_nothing(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "PostgreSQL")
    older = (home.store / LEDGER).read_bytes()
    save(engine, claude, "SQLite")

    home.write(LEDGER, older[:-20])
    during = engine.retrieve_memory(claude, subject="Fjord").facts
    home.write(LEDGER, older)
    after = engine.retrieve_memory(claude, subject="Fjord").facts

    assert [fact.object for fact in (*during, *after)] == ["SQLite", "SQLite"]
    assert (home.store / LEDGER).read_bytes().count(b"\n") == 2
    require_rebuilt_equal(home, engine)


def test_ledger_with_a_torn_end_when_opened(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "SQLite")
    whole = (home.store / LEDGER).read_bytes()
    home.close()
    home.write(LEDGER, whole + whole[:40])

    engine = home.open()

    assert (home.store / LEDGER).read_bytes() == whole
    (aside,) = (home.directory / "incoming").iterdir()
    assert aside.read_bytes() == whole[:40]
    assert codes(engine) == ["torn-end"]
    assert save(engine, claude, "DuckDB").action == "supersede"


def test_ledger_without_its_last_line_end(home: Home, engine: Engine, claude: t.Caller):
    save(engine, claude, "PostgreSQL")
    data = (home.store / LEDGER).read_bytes()
    home.swap(LEDGER, data.rstrip(b"\n"))

    save(engine, claude, "SQLite")

    assert (home.store / LEDGER).read_bytes().startswith(data)
    history = engine.retrieve_memory(claude, subject="Fjord", include_history=True)
    assert [fact.object for fact in history.facts] == ["SQLite", "PostgreSQL"]
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_ledger_that_is_no_file(home: Home, claude: t.Caller, kind: str):
    path = home.store / LEDGER
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(home.directory / "outside")
    else:
        path.mkdir()
    engine = home.open()

    with pytest.raises(EngineError):
        save(engine, claude, "SQLite")
    entry = engine.remember(claude, statement="an entry")

    assert engine.read_memory(claude, id=entry.id).text == "an entry"
    assert not (home.directory / "outside").exists()


def test_ledger_event_without_a_moment_is_reported(home: Home):
    body = b'{"id":"01m8q5e1vgep3hwc","kind":"save","recorded_at":"soon"'
    crc = zlib.crc32(body)
    home.write(LEDGER, body + f',"crc":"{crc:08x}"}}\n'.encode())

    engine = home.open()

    assert codes(engine) == ["ledger-event"]
    assert engine.memory_status(make_caller()).facts == 0


def make_line(kind: str, about: str, number: int) -> bytes:
    return ledger.render_line(
        Event(
            id=f"01n000000000000{number}",
            kind=kind,
            recorded_at="2026-11-30T13:00:00.000Z",
            about=about,
        )
    )


def test_ledger_events_of_another_hand_retire_and_restore_a_fact(
    home: Home, engine: Engine, claude: t.Caller
):
    receipt = save(engine, claude, "SQLite")

    def append(kind: str, about: str, number: int) -> list[str]:
        with (home.store / LEDGER).open("ab") as file:
            file.write(make_line(kind, about, number))
        return found(engine, "SQLite")

    seen = [
        append("retire", receipt.id, 1),
        append("retire", "fact:none", 2),
        append("restore", receipt.id, 3),
        append("unheard-of", receipt.id, 4),
    ]

    assert seen == [[], [], [receipt.id], [receipt.id]]
    require_rebuilt_equal(home, engine)


def test_ledger_value_retired_reads_as_unknown(
    home: Home, engine: Engine, claude: t.Caller
):
    receipt = save(engine, claude, "SQLite")
    with (home.store / LEDGER).open("ab") as file:
        file.write(make_line("retire", receipt.id, 1))

    assert engine.retrieve_memory(claude, subject="Fjord").known is False
    assert engine.read_memory(claude, id=receipt.id).retired is True
    assert engine.memory_status(claude).retired == 1
    assert save(engine, claude, "SQLite").action == "store"


def test_ledger_extended_by_another_program_right_after_a_flush(
    home: Home, engine: Engine, claude: t.Caller
):
    class Disk(files.Disk):
        def _flush_data(self, descriptor: int) -> None:
            super()._flush_data(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            with path.open("ab") as file:
                file.write(b"\n")

    engine = home.open(Disk())

    entry = engine.remember(claude, statement="the words")
    fact = save(engine, claude, "SQLite")

    assert (home.store / TODAY).read_text("utf-8").count("the words") == 1
    assert (home.store / LEDGER).read_text("utf-8").count("SQLite") == 1
    assert entries(home) == [entry.id]
    assert found(engine, "SQLite") == [fact.id]
    require_rebuilt_equal(home, engine)


def test_ledger_changed_between_reading_and_deciding(home: Home, claude: t.Caller):
    engine = home.open()
    save(engine, claude, "PostgreSQL")
    theirs = make_line("retire", "fact:none", 1)
    seams = iter([theirs])

    class Clock:
        """Another hand writes while the engine asks for the time."""

        def __call__(self) -> int:
            with (home.store / LEDGER).open("ab") as file:
                file.write(next(seams, b""))
            return home.clock()

    home.close()
    engine = Engine(home.directory, clock=Clock(), scan_seconds=60)
    receipt = save(engine, claude, "SQLite")
    engine.close()

    data = (home.store / LEDGER).read_bytes()
    assert data.count(theirs) == 1
    assert data.count(receipt.event_id.encode()) == 1
    assert receipt.action == "supersede"


def test_ledger_turned_into_a_folder_under_an_open_engine(
    home: Home, engine: Engine, claude: t.Caller
):
    entry = engine.remember(claude, statement="the words")
    save(engine, claude, "SQLite")
    (home.store / LEDGER).unlink()
    (home.store / LEDGER).mkdir()

    with pytest.raises(EngineError):
        save(engine, claude, "DuckDB")

    assert engine.read_memory(claude, id=entry.id).text == "the words"
    assert [
        f.object for f in engine.retrieve_memory(claude, subject="Fjord").facts
    ] == ["SQLite"]


def test_old_entry_removed_while_the_ledger_is_damaged(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="the words")
    save(engine, claude, "SQLite")
    home.clock.move(minutes=11)
    home.swap(LEDGER, b"<<<<<<< HEAD\n" + (home.store / LEDGER).read_bytes())
    home.swap(TODAY, b"# emptied\n")

    scan(engine)

    assert "retire" in codes(engine)
    (kept,) = (home.directory / "retired").iterdir()
    assert b"the words" in kept.read_bytes()


def test_entry_half_written_by_another_program_is_left_to_it(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="the words")
    whole = (home.store / TODAY).read_bytes()
    block = whole.partition(b"\n\n")[2].replace(b'"id":"01m8', b'"id":"01m9')
    block = block.replace(b"/renor 01m8", b"/renor 01m9")

    home.write(TODAY, whole + b"\n" + block[:-30])
    scan(engine)
    during = (home.store / TODAY).read_bytes()
    home.write(TODAY, whole + b"\n" + block)
    scan(engine)

    assert during == whole + b"\n" + block[:-30]
    assert len(entries(home)) == 2
    assert codes(engine) == []


# --- notes


def test_three_hundred_notes_dropped_in(home: Home, engine: Engine, claude: t.Caller):
    for number in range(300):
        home.write(f"folder {number % 7}/n{number}.md", f"# N\n\nunique{number} word")

    scan(engine)

    assert engine.memory_status(claude).notes == 300
    assert found(engine, "unique299") == ["note:folder 5/n299.md"]
    require_rebuilt_equal(home, engine)


def test_note_edited_renamed_and_deleted(home: Home, engine: Engine):
    home.write("a.md", "first zebra")
    scan(engine)
    home.swap("a.md", b"second zebra")
    scan(engine)
    edited = (found(engine, "first"), found(engine, "second"))
    (home.store / "a.md").rename(home.store / "b.md")
    scan(engine)
    renamed = found(engine, "zebra")
    (home.store / "b.md").unlink()
    scan(engine)

    assert edited == ([], ["note:a.md"])
    assert renamed == ["note:b.md"]
    assert found(engine, "zebra") == []
    assert engine.memory_status(make_caller()).chunks == 0


def test_note_half_taken_in_when_the_engine_ends(home: Home):
    text = "\n\n".join(f"# h{n}\n\nzebra {n} " + "lorem " * 200 for n in range(1_500))
    home.write("long.md", text)
    engine = home.open(scan_seconds=0)
    while not found(engine, "zebra"):
        engine.work(0)
    assert engine.store.is_stale
    home.close()
    (home.store / "long.md").unlink()

    engine = home.open()

    assert found(engine, "zebra") == []
    assert engine.memory_status(make_caller()).notes == 0


@pytest.mark.parametrize(
    ("data", "text", "problem"),
    [
        (b"zebra caf\xe9", "zebra caf\ufffd", "invalid UTF-8"),
        ("zebra é".encode("utf-16"), "zebra é", "UTF-16"),
        (b"\xef\xbb\xbfzebra", "zebra", ""),
        (b"zebra\x00\x01", "zebra\x00\x01", ""),
        (b"", "", ""),
        (b'---\ntitle: "\\ud800"\n---\nzebra', None, ""),
        (b"---\ntitle: 0x" + b"f" * 5_000 + b"\n---\nzebra", None, ""),
    ],
)
def test_note_of_odd_bytes(
    home: Home, claude: t.Caller, data: bytes, text: str | None, problem: str
):
    home.write("odd.md", data)
    home.write("z.md", "zebra")

    engine = home.open()

    assert "note:z.md" in found(engine, "zebra")
    memory = engine.read_memory(claude, id="note:odd.md")
    assert memory.text == (data.decode() if text is None else text)
    messages = [p.message for p in engine.memory_status(claude).problems]
    assert [message.partition(":")[0] for message in messages] == [
        *([problem] if problem else [])
    ]
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "with 'quotes\".md",
            "new\nline.md",
            "tab\t.md",
            "-dash.md",
            "é漢🎉.MD",
            "a b.markdown",
        ),
        *(
            "a#b.md",
            "note:a.md",
            "%41.md",
            "x" * 200 + ".md",
            "con/x..y/a.md",
            "\\b.md",
        ),
    ],
)
def test_note_of_an_odd_name(home: Home, claude: t.Caller, name: str):
    home.write(name, "zebra")
    engine = home.open()

    assert found(engine, "zebra") == [f"note:{name}"]
    assert engine.read_memory(claude, id=f"note:{name}").text == "zebra"


@pytest.mark.parametrize(
    "name", [".hidden.md", ".obsidian/a.md", "a.txt", "md", "a.md~"]
)
def test_file_that_is_not_memory(home: Home, name: str):
    home.write(name, "zebra")
    engine = home.open()

    assert found(engine, "zebra") == []
    assert codes(engine) == []


def test_files_that_are_passed_over_are_named(home: Home, claude: t.Caller):
    os.mkfifo(home.store / "pipe.md")
    (home.store / "link.md").symlink_to("/etc/hostname")
    (home.store / "linked").symlink_to("/etc")
    home.write("big.md", b"x " * (MAX_FILE_BYTES // 2 + 1))
    odd = os.fsencode(home.store) + b"/caf\xe9.md"
    Path(os.fsdecode(odd)).write_text("zebra", "utf-8")
    home.write("a.md", "zebra")

    engine = home.open()
    report = engine.index_memory(claude)

    assert found(engine, "zebra") == ["note:a.md"]
    assert {(one.path, one.reason) for one in report.skipped} == {
        ("pipe.md", "not a regular file"),
        ("link.md", "symbolic link: not followed"),
        ("linked", "symbolic link: not followed"),
        ("big.md", "too large"),
        ("caf\ufffd.md", "name is not UTF-8"),
    }
    assert (report.total, report.errors) == (1, 5)
    assert report.skipped_too_large == ["big.md"]
    assert report.skipped_non_utf8_names == ["caf\ufffd.md"]


def test_note_that_grows_too_large_is_forgotten(home: Home, engine: Engine):
    home.write("a.md", "zebra")
    scan(engine)

    home.write("a.md", b"zebra " * (MAX_FILE_BYTES // 6 + 1))
    scan(engine)

    assert found(engine, "zebra") == []
    assert codes(engine) == ["skipped"]


def test_twins_in_two_forms_of_unicode(home: Home, claude: t.Caller):
    composed = unicodedata.normalize("NFC", "é.md")
    apart = unicodedata.normalize("NFD", "é.md")
    home.write(composed, "composed zebra")
    home.write(apart, "apart zebra")

    engine = home.open()
    first = found(engine, "zebra")
    scan(engine)
    codes_of_both = codes(engine)
    (home.store / apart).unlink()
    scan(engine)

    assert first == [f"note:{composed}"]
    assert codes_of_both == ["skipped"]
    assert engine.read_memory(claude, id=f"note:{composed}").text == "composed zebra"
    assert codes(engine) == []


def test_folder_replaced_by_a_file(home: Home, engine: Engine, claude: t.Caller):
    home.write("notes/a.md", "zebra")
    home.write(f"notes/{TODAY}", "by hand")
    scan(engine)
    for path in (home.store / "notes").iterdir():
        path.unlink()
    (home.store / "notes").rmdir()
    home.write("notes", "a file now")

    with pytest.raises(EngineError):
        engine.read_memory(claude, id="note:notes/a.md")
    scan(engine)

    assert found(engine, "zebra") == []


def test_imported_markers_are_plain_text(home: Home, engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="the words")
    home.write(f"Imported/x/{TODAY}", (home.store / TODAY).read_bytes())

    scan(engine)

    assert entries(home) == [receipt.id]
    memory = engine.read_memory(claude, id=f"note:Imported/x/{TODAY}")
    assert "[hidden HTML comment: renor {" in memory.text
    assert (memory.origin, memory.untrusted) == ("import", True)


def test_page_of_facts_is_not_memory_until_it_is_edited(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "SQLite")
    engine.write_page()
    engine.write_page()
    scan(engine)
    page = home.store / "Facts.md"
    made = page.read_text("utf-8")
    untouched = found(engine, "Edit this page")

    page.write_text(made + "\nmy own zebra\n", "utf-8")
    scan(engine)
    save(engine, claude, "DuckDB")
    engine.write_page()
    edited = (found(engine, "own zebra"), "my own zebra" in page.read_text("utf-8"))

    page.unlink()
    save(engine, claude, "Go")
    engine.write_page()
    scan(engine)

    assert "SQLite" in made
    assert untouched == []
    assert edited == (["note:Facts.md"], True)
    assert found(engine, "zebra") == []
    assert "Go" in page.read_text("utf-8")
    assert "page-kept" in codes(engine)


# --- the index


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: 4096 * 3 + 100])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _fill_with_garbage(path: Path) -> None:
    path.write_bytes(random.Random(2).randbytes(50_000))  # noqa: S311


def _damage_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = random.Random(3).randbytes(len(data) - 4096)  # noqa: S311
    path.write_bytes(data)


def _damage_some_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096, 3):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)


def _another_format(path: Path) -> None:
    database = apsw.Connection(str(path))
    database.execute("UPDATE meta SET value='0' WHERE key='format'")
    database.close()


def _another_database(path: Path) -> None:
    path.unlink()
    database = apsw.Connection(str(path))
    database.execute("CREATE TABLE t(x)")
    database.close()


@pytest.mark.parametrize(
    "spoil",
    [
        *(Path.unlink, _truncate, _empty, _fill_with_garbage, _damage_the_middle),
        *(_damage_some_pages, _another_format, _another_database),
    ],
)
def test_index_that_cannot_be_used_is_made_anew(
    home: Home, engine: Engine, claude: t.Caller, spoil
):
    for number in range(40):
        engine.remember(claude, statement=f"entry number {number} " + "lorem " * 100)
        save(engine, claude, f"value {number}")
    home.write("note.md", "zebra")
    scan(engine)
    home.close()
    # As it stands on the disk, without what a write-ahead log could mend.
    home.open().close()
    before = dump(home)
    for suffix in ("-wal", "-shm"):
        (home.directory / f"{INDEX_NAME}{suffix}").unlink(missing_ok=True)

    spoil(home.directory / INDEX_NAME)
    engine = home.open()

    assert found(engine, "zebra") == ["note:note.md"]
    assert engine.verify(claude).problems == []
    assert dump(home) == before
    assert engine.remember(claude, statement="a new one").indexed is True


@pytest.mark.parametrize("first", ["read", "search", "write", "scan", "page"])
def test_index_damaged_under_an_open_engine(
    home: Home, engine: Engine, claude: t.Caller, first: str
):
    old = engine.remember(claude, statement="old zebra")
    fact = save(engine, claude, "zebra")
    home.write("z.md", "zebra note")
    _drop_tables(home)

    if first == "read":
        assert engine.read_memory(claude, id=old.id).text == "old zebra"
    elif first == "search":
        assert fact.id in found(engine, "zebra")
    elif first == "write":
        assert engine.remember(claude, statement="old zebra").id == old.id
    elif first == "page":
        engine.write_page()
    scan(engine)

    assert set(found(engine, "zebra")) == {old.id, fact.id, "note:z.md"}
    assert engine.verify(claude).problems == []
    require_rebuilt_equal(home, engine)


def test_index_damaged_between_an_append_and_its_indexing(home: Home, claude: t.Caller):
    class Disk(files.Disk):
        """Damages the index as soon as an append has been flushed."""

        def append(self, path, data, *, expected):
            appended = super().append(path, data, expected=expected)
            _drop_tables(home)
            return appended

    engine = home.open(Disk())

    entry = engine.remember(claude, statement="a zebra")
    fact = save(engine, claude, "zebra")
    scan(engine)

    assert (entry.indexed, fact.indexed) == (False, False)
    assert set(found(engine, "zebra")) == {entry.id, fact.id}


def test_index_that_lacks_events_is_noticed(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "SQLite")
    database = apsw.Connection(str(home.directory / INDEX_NAME))
    database.execute("DELETE FROM event")
    database.close()

    problems = engine.verify(claude).problems

    assert [problem.code for problem in problems] == ["index-differs"]


def test_index_that_cannot_be_made(home: Home, engine: Engine, claude: t.Caller):
    engine.remember(claude, statement="the words")
    _drop_tables(home)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(Busy):
            engine.search_text(claude, query="words")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    engine.search_text(claude, query="words")
    scan(engine)
    assert len(found(engine, "words")) == 1


def test_index_without_room(home: Home, engine: Engine, claude: t.Caller):
    """A limit on the size of files stands for a disk that is full."""
    old = engine.remember(claude, statement="old zebra")
    home.write("big.md", "horse " * 200_000)
    size = max(
        (home.directory / f"{INDEX_NAME}{s}").stat().st_size for s in ("", "-wal")
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        scan(engine)
        during = (found(engine, "old zebra"), engine.memory_status(claude).index.stale)
        entry = engine.remember(claude, statement="a zebra without room")
        fact = save(engine, claude, "zebra")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    scan(engine)

    assert during == ([old.id], True)
    assert set(found(engine, "zebra")) == {old.id, entry.id, fact.id}
    assert found(engine, "horse") == ["note:big.md"]
    assert engine.verify(claude).events == 1
    require_rebuilt_equal(home, engine)


def _drop_tables(home: Home) -> None:
    database = apsw.Connection(str(home.directory / INDEX_NAME))
    database.execute("DROP TABLE IF EXISTS memory; DROP TABLE IF EXISTS event")
    database.close()


# --- the workspace


def test_workspace_made_twice(home: Home):
    home.write("a.md", "kept")

    create_workspace(home.directory, WORKSPACE_ID)

    assert (home.store / "a.md").read_text("utf-8") == "kept"
    assert (home.store / ".gitattributes").read_text() == f"{LEDGER} merge=union\n"
    assert home.store.stat().st_mode & 0o777 == 0o700


def test_workspace_of_another(home: Home):
    with pytest.raises(Corrupt):
        create_workspace(home.directory, "another")


def test_workspace_without_its_marker(home: Home):
    home.write("a.md", "kept")
    (home.directory / MARKER_NAME).unlink()

    with pytest.raises(Corrupt):
        home.open()
    with pytest.raises(Corrupt):
        create_workspace(home.directory, WORKSPACE_ID)


@pytest.mark.parametrize(
    "marker", [b"", b"{", b'{"id":"x"}', b'{"id":"x","format":2}', b"\xff"]
)
def test_workspace_with_another_marker(home: Home, marker: bytes):
    (home.directory / MARKER_NAME).write_bytes(marker)

    with pytest.raises(Corrupt):
        home.open()


def test_workspace_without_its_store(home: Home, engine: Engine, claude: t.Caller):
    engine.remember(claude, statement="the words")
    home.close()
    home.store.rename(home.directory / "elsewhere")

    with pytest.raises(Corrupt):
        home.open()


def test_workspace_whose_store_goes_while_it_is_open(
    home: Home, engine: Engine, claude: t.Caller
):
    old = engine.remember(claude, statement="the words")
    save(engine, claude, "SQLite")
    home.clock.move(minutes=11)
    home.store.rename(home.directory / "elsewhere")

    scan(engine)
    for write in (
        lambda: engine.remember(claude, statement="more"),
        lambda: save(engine, claude, "DuckDB"),
    ):
        with pytest.raises(EngineError):
            write()
    (home.directory / "elsewhere").rename(home.store)
    scan(engine)

    assert entries(home) == [old.id]
    facts = engine.retrieve_memory(claude, subject="Fjord").facts
    assert [fact.object for fact in facts] == ["SQLite"]
    assert engine.memory_status(claude).retired == 0


def test_leftovers_of_an_interrupted_replacement_are_removed(home: Home):
    leftovers = [
        home.directory / folder / ".renor-0123.tmp"
        for folder in (".", "store", "retired", "incoming")
    ]
    for path in leftovers:
        path.write_text("half", "utf-8")

    home.open()

    assert [path.exists() for path in leftovers] == [False] * 4


# --- an editor in the middle of saving


def test_entries_missing_from_a_file_being_written_are_still_there(
    home: Home, claude: t.Caller
):
    engine = home.open(settle_seconds=60)
    receipts = [engine.remember(claude, statement=f"word {n}") for n in range(5)]
    file = home.store / TODAY
    whole = file.read_bytes()

    file.write_bytes(whole[: len(whole) // 2])
    scan(engine)
    during = engine.remember(claude, statement="said meanwhile")

    for number, receipt in enumerate(receipts):
        assert engine.read_memory(claude, id=receipt.id).text == f"word {number}"
    assert engine.store.settle_in() is not None
    file.write_bytes(whole)
    scan(engine)
    assert engine.read_memory(claude, id=during.id).text == "said meanwhile"
    assert file.read_bytes() == whole
    assert list((home.directory / "retired").iterdir()) == []


def test_entries_missing_once_a_file_is_quiet_are_put_back_once(
    home: Home, claude: t.Caller
):
    engine = home.open(settle_seconds=60)
    receipts = [engine.remember(claude, statement=f"word {n}") for n in range(5)]
    file = home.store / TODAY
    file.write_bytes(b"# my own\n")
    scan(engine)

    engine = home.open()  # settles at once
    scan(engine)
    scan(engine)

    assert engine.store.settle_in() is None
    data = file.read_bytes()
    for receipt in receipts:
        assert data.count(f'"id":"{receipt.event_id}"'.encode()) == 1
    assert data.startswith(b"# my own\n")


# --- what no rule foresaw


@pytest.mark.parametrize(
    "front",
    ["x: !!bool maybe", 'x: !!int ""', 'x: !!float ""', "date: !!timestamp foo"],
)
def test_front_matter_that_the_yaml_library_chokes_on(
    home: Home, claude: t.Caller, front: str
):
    home.write("odd.md", f"---\n{front}\n---\nzebra words\n")
    home.write("fine.md", "zebra too")

    engine = home.open()

    assert {hit.id for hit in engine.search_text(claude, query="zebra").hits} == {
        "note:odd.md",
        "note:fine.md",
    }


def test_file_from_the_far_future_is_found(home: Home, claude: t.Caller):
    path = home.write("future.md", "zebra words")
    os.utime(path, ns=(2**62, 2**62))

    engine = home.open()

    assert [hit.id for hit in engine.search_text(claude, query="zebra").hits] == [
        "note:future.md"
    ]


def test_workspace_without_its_empty_folders_opens(home: Home, claude: t.Caller):
    home.close()
    for name in ("retired", "incoming"):
        (home.directory / name).rmdir()

    engine = home.open()

    assert engine.remember(claude, statement="words").action == "store"
    assert (home.directory / "retired").is_dir()


def test_copy_met_before_its_original_has_none_of_the_entries(
    home: Home, engine: Engine, claude: t.Caller
):
    ids = [engine.remember(claude, statement=f"words {n}").id for n in range(3)]
    home.write(f"copy/{TODAY}", (home.store / TODAY).read_bytes())
    scan(engine)

    engine.store.rebuild_index()
    scan(engine)

    recent = engine.list_recent(claude, limit=50).memories
    assert {one.id for one in recent if one.kind == "entry"} == set(ids)
    assert engine.memory_status(claude).entries == 3


def test_entry_is_one_when_its_file_and_a_copy_change_together(
    home: Home, engine: Engine, claude: t.Caller
):
    """As a backup laid over the store leaves them: the copy may be met first."""
    entry = engine.remember(claude, statement="words").id
    copy = home.write(f"copy/{TODAY}", (home.store / TODAY).read_bytes())
    scan(engine)

    os.utime(home.store / TODAY, (1_800_000_000, 1_800_000_000))
    os.utime(copy, (1_900_000_000, 1_900_000_000))
    scan(engine)

    recent = engine.list_recent(claude, limit=50).memories
    assert [one.id for one in recent if one.kind == "entry"] == [entry]
    require_rebuilt_equal(home, engine)
