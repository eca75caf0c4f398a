from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.engine import files, ledger
from memories.engine.errors import Corrupt
from memories.engine.types import Event

AT = "2026-11-30T14:05:12.080Z"


def make_event(number: int = 1, **given: object) -> Event:
    said = {"id": f"01m8q5e1vgep3hw{number}", "kind": "save", "recorded_at": AT}
    return Event(**{**said, "subject": f"s{number}", **given})  # type: ignore[arg-type]


def test_line_of_an_event():
    event = make_event(object="PostgreSQL, é", writer="claude")

    line = ledger.render_line(event)

    body = (
        '{"id":"01m8q5e1vgep3hw1","kind":"save","recorded_at":"2026-11-30T14:05:12.080Z",'
        '"subject":"s1","object":"PostgreSQL, é","writer":"claude"'
    ).encode()
    assert line == body + f',"crc":"{zlib.crc32(body):08x}"}}\n'.encode()


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts, st.lists(texts))
def test_line_comes_back(subject: str, statement: str, cites: list[str]):
    event = make_event(subject=subject, statement=statement, cites=cites)

    line = ledger.render_line(event)

    assert line.count(b"\n") == 1
    assert ledger.parse_line(line.removesuffix(b"\n")) == event
    assert json.loads(line).get("subject", "") == subject


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=7))
def test_line_with_any_bit_changed_is_refused(place: int, bit: int):
    line = bytearray(ledger.render_line(make_event()).removesuffix(b"\n"))
    line[place % len(line)] ^= 1 << bit

    with pytest.raises(ValueError, match=r"checksum|not an event"):
        ledger.parse_line(bytes(line))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "no checksum at its end"),
        (b"<<<<<<< HEAD", "no checksum at its end"),
        (b'{"id":"1","crc":"1234"}', "no checksum at its end"),
        (b'{"id":"1","crc":"00000000"}', "its checksum does not match"),
    ],
)
def test_line_that_is_none(line: bytes, reason: str):
    with pytest.raises(ValueError, match=f"^{reason}$"):
        ledger.parse_line(line)


@pytest.mark.parametrize("body", [b'{"id":1', b"[1", b'{"kind":"save"', b"\xff"])
def test_line_with_a_right_checksum_that_is_no_event(body: bytes):
    line = body + f',"crc":"{zlib.crc32(body):08x}"}}'.encode()

    with pytest.raises(ValueError, match=r"^not an event$"):
        ledger.parse_line(line)


def test_line_with_unknown_fields_is_read():
    body = ledger.render_line(make_event()).rpartition(b',"crc"')[0]
    body += b',"weather":{"sun":true}'
    line = body + f',"crc":"{zlib.crc32(body):08x}"}}'.encode()

    assert ledger.parse_line(line) == make_event()


def append(store: ledger.Ledger, *numbers: int) -> files.Appended:
    lines = [ledger.render_line(make_event(number)) for number in numbers]
    return store.append_lines(lines)


def test_parse_of_nothing():
    assert ledger.parse(b"") == ledger.Reading()


def test_parse_of_lines_as_other_hands_leave_them():
    first, second = (ledger.render_line(make_event(n)) for n in (1, 2))
    data = b"\xef\xbb\xbf" + second.replace(b"\n", b"\r\n") + b"\n  \n" + first + second

    reading = ledger.parse(data)

    assert [event.subject for event in reading.events.values()] == ["s2", "s1"]
    assert reading.damage == []
    assert reading.end == len(data)


def test_parse_of_conflict_markers():
    first, second = (ledger.render_line(make_event(n)) for n in (1, 2))
    data = first + b"<<<<<<< HEAD\n" + second + b"=======\n>>>>>>> theirs\n"

    reading = ledger.parse(data)

    assert [event.subject for event in reading.events.values()] == ["s1", "s2"]
    assert [damage.line for damage in reading.damage] == [2, 4, 5]
    assert reading.torn_at is None


def test_parse_of_every_torn_end():
    first, second = (ledger.render_line(make_event(n)) for n in (1, 2))

    for size in range(1, len(second) - 1):
        reading = ledger.parse(first + second[:size])
        assert list(reading.events.values()) == [make_event(1)]
        assert (reading.torn_at, reading.damage) == (len(first), [])


def test_parse_of_a_last_line_without_its_end():
    first, second = (ledger.render_line(make_event(n)) for n in (1, 2))

    reading = ledger.parse(first + second.removesuffix(b"\n"))

    assert list(reading.events.values()) == [make_event(1), make_event(2)]
    assert (reading.unfinished_newline, reading.torn_at) == (True, None)


@given(st.binary(max_size=300))
def test_parse_of_anything(data: bytes):
    reading = ledger.parse(data)

    assert reading.end == len(data)
    assert reading.events == {}


def test_ledger_that_does_not_exist(tmp_path: Path):
    assert ledger.Ledger(files.Disk(), tmp_path).read() == (ledger.Reading(), None)


def test_ledger_append_while_damaged(tmp_path: Path):
    store = ledger.Ledger(files.Disk(), tmp_path)
    store.is_damaged = True

    with pytest.raises(Corrupt):
        append(store, 1)
    assert not store.path.exists()


def test_ledger_append_is_read_again(tmp_path: Path):
    store = ledger.Ledger(files.Disk(), tmp_path)

    appended = append(store, 1, 2)

    assert appended.intact
    assert list(store.read()[0].events.values()) == [make_event(1), make_event(2)]
    assert not store.has_changed()


def test_ledger_append_after_another_hand(tmp_path: Path):
    store = ledger.Ledger(files.Disk(), tmp_path)
    append(store, 1)
    with store.path.open("ab") as file:
        file.write(ledger.render_line(make_event(2)))

    with pytest.raises(files.Changed):
        append(store, 3)

    assert store.has_changed()
    assert list(store.read()[0].events.values()) == [make_event(1), make_event(2)]
