"""The codec of day logs: an agent's entries among a person's own text. Pure.

Bytes in, shapes out, and back; what a day log looks like is specified in
docs/store-format.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import msgspec

from . import markdown, rewriting
from .errors import Conflict
from .markdown import FIRST_YEAR, LAST_YEAR, UTF16_MARKS, UTF16_PROBLEM
from .types import GLOBAL_SCOPE

DAY_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.(?:md|markdown)", re.IGNORECASE)


class Marker(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What stands in an entry's marker comment; the names are the file format's."""

    id: str
    at: str
    writer: str = ""
    writer_id: str = ""
    source: str = ""
    scope: str = GLOBAL_SCOPE
    replaces: str = ""
    cites: list[str] = []
    date: str = ""
    request: str = ""
    digest: str = ""
    edited_by: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a day log, and `block`, its bytes from heading to end marker.

    `edited`: its words differ from those first saved.
    """

    marker: Marker
    text: str
    block: bytes = b""
    edited: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry, a copy of one, or the mark of a retired one stands: offsets into
    the day log's bytes in UTF-8.
    """

    kind: Literal["entry", "copy", "retired"]
    id: str
    start: int
    stop: int
    edited: bool = False


@dataclass(slots=True)
class DayLog:
    """`hand_text` is all that belongs to no entry; `retired` has the ids that stand
    for retired entries. `torn_at` is the offset of a last entry without its end, None
    when there is none; `torn_id` its id, "" when not even its marker is whole.
    """

    entries: list[Entry] = field(default_factory=list)
    hand_text: str = ""
    retired: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    torn_at: int | None = None
    torn_id: str = ""


_START = re.compile(
    rb"(^## \d\d:\d\d\r?\n)?^<!-- renor (\{[^\n]*\}) -->(\r?\n)", re.MULTILINE
)
_RETIRED = re.compile(rb"^<!-- renor retired (\w+) -->(?:\r?\n|\r?\Z)", re.MULTILINE)
_NEXT = re.compile(rb"(?:^## \d\d:\d\d\r?\n)?^<!-- renor (?:\{|retired )", re.MULTILINE)
_TORN_MARKER = re.compile(rb"^## \d\d:\d\d\r?\n(<!--[^\n]*)\Z", re.MULTILINE)
_MARKER_OPENS = b"<!-- renor {"
_LIKE_MARKER = re.compile(r"(<!--[ \t]*)(\\*)(/?renor)")
_ESCAPED_MARKER = re.compile(r"(<!--[ \t]*)\\(\\*)(/?renor)")
_markers = msgspec.json.Decoder(Marker)


def render_entry(marker: Marker, text: str, clock_time: str) -> bytes:
    r"""Return an entry's bytes, one empty line first.

    `clock_time` is HH:MM as shown to a reader. Words that look like a marker get
    a backslash, which `parse_day` takes away again:

        \n## 14:05\n<!-- renor {"id":...} -->\nwords\n<!-- /renor ID -->\n
    """
    return b"\n" + _render_block(
        f"## {clock_time}\n".encode(), msgspec.json.encode(marker), text, marker.id
    )


def _render_block(
    heading: bytes, attributes: bytes, text: str, entry_id: str, line_end: bytes = b"\n"
) -> bytes:
    # A comment must not end early, nor hold two hyphens.
    said = attributes.replace(b">", b"\\u003e").replace(b"--", b"-\\u002d")
    words = _LIKE_MARKER.sub(r"\1\\\2\3", text).encode()
    end = f"<!-- /renor {entry_id} -->".encode()
    return (
        b"".join(
            (heading, b"<!-- renor ", said, b" -->", line_end, words, line_end, end)
        )
        + line_end
    )


def parse_day(data: bytes) -> DayLog:
    """Read a day log. Never raises: what is odd is kept as hand text or reported."""
    day = DayLog()
    if is_utf16 := data.startswith(UTF16_MARKS):
        data = in_utf8(data)
        day.problems.append(UTF16_PROBLEM)
    hand: list[bytes] = []
    # A copy of a retired entry, too, is a copy and not the entry.
    seen = {found.group(1).decode() for found in _RETIRED.finditer(data)}
    position = 0
    while (start := _START.search(data, position)) is not None:
        hand.append(_without_retired(day, data, position, start.start()))
        position = _take_entry(day, data, start, seen, hand)
    hand.append(_without_retired(day, data, position, len(data)))
    torn = _TORN_MARKER.search(data, position)
    if torn and _opens_marker(torn.group(1)):
        day.torn_at, day.torn_id = torn.start(), ""
    if is_utf16:
        day.torn_at = None  # an offset into other bytes than the file's
    day.hand_text, broken = markdown.decode(b"".join(hand))
    if broken:
        day.problems.append("invalid UTF-8 outside the entries")
    return day


def _without_retired(day: DayLog, data: bytes, start: int, stop: int) -> bytes:
    """Return a stretch between entries without the marks of retired ones."""
    kept: list[bytes] = []
    for found in _RETIRED.finditer(data, start, stop):
        entry_id = found.group(1).decode()
        day.retired.append(entry_id)
        day.places.append(Place("retired", entry_id, found.start(), found.end()))
        kept.append(data[start : found.start()])
        start = found.end()
    kept.append(data[start:stop])
    return b"".join(kept)


def iter_moments(data: bytes) -> Iterator[str]:
    """Yield the moments of a day log's entries, cheaply: no words are read."""
    for start in _START.finditer(data):
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            yield _read_marker(start.group(2)).at


def _opens_marker(line: bytes) -> bool:
    """Whether a last line without its end is the start of a marker."""
    return line.startswith(_MARKER_OPENS) or _MARKER_OPENS.startswith(line)


def _take_entry(
    day: DayLog,
    data: bytes,
    start: re.Match[bytes],
    seen: set[str],
    hand: list[bytes],
) -> int:
    """Add the entry that starts here to `day`; return where it ends."""
    try:
        marker = _read_marker(start.group(2))
    except (msgspec.DecodeError, ValueError):
        day.problems.append("a marker that cannot be read was left as text")
        hand.append(start.group())
        return start.end()
    following = _NEXT.search(data, start.end())
    limit = following.start() if following else len(data)
    end_line = b"\n<!-- /renor " + marker.id.encode() + b" -->"
    # From one byte before: an entry whose words a person removed still ends.
    end = data.find(end_line, start.end() - 1, limit)
    is_open = end < 0
    text_stop = limit if is_open else max(end, start.end())
    stop = limit if is_open else _after_line(data, end + len(end_line))
    raw = data[start.end() : text_stop]
    if marker.id in seen:
        day.problems.append(f"entry {marker.id} stands twice")
        copy = _read_entry(marker, raw, b"", is_open=is_open)
        place = Place("copy", marker.id, start.start(), stop, copy.edited)
        day.places.append(place)
        hand.append(text_of_copy(copy).encode())
        return stop
    seen.add(marker.id)
    entry = _read_entry(marker, raw, data[start.start() : stop], is_open=is_open)
    if is_open and entry.edited and following is None:
        day.torn_at, day.torn_id = start.start(), marker.id
    if entry.problem:
        day.problems.append(f"entry {marker.id}: {entry.problem}")
    day.entries.append(entry)
    day.places.append(Place("entry", marker.id, start.start(), stop, entry.edited))
    return stop


def _read_marker(source: bytes) -> Marker:
    """Raises: ValueError or msgspec.DecodeError unless it is one this code writes."""
    marker = _markers.decode(source)
    year = datetime.fromisoformat(marker.at).year
    if not marker.id or not FIRST_YEAR <= year <= LAST_YEAR:
        raise ValueError
    return marker


def text_of_copy(copy: Entry) -> str:
    """Return what of an entry's copy is a person's own text: only what was changed.

    Nothing that was told to a project alone: hand text is read in every scope.
    """
    if not copy.edited or copy.marker.scope != GLOBAL_SCOPE:
        return ""
    return f"\n{copy.text}\n"


def _after_line(data: bytes, position: int) -> int:
    """Return where the next line begins if only a line end follows here."""
    for line_end in (b"\r\n", b"\n"):
        if data.startswith(line_end, position):
            return position + len(line_end)
    return position


def _read_entry(marker: Marker, raw: bytes, block: bytes, *, is_open: bool) -> Entry:
    """Decode an entry's words and say whether they are still those saved."""
    text, broken = markdown.decode(raw, keep_mark=True)
    text = _ESCAPED_MARKER.sub(r"\1\2\3", text)
    unix = text.replace("\r\n", "\n").removesuffix("\r")
    candidates = [text, unix]
    if is_open:
        candidates += [unix.rstrip("\n"), unix.removesuffix("\n")]
    problem = "invalid UTF-8" if broken else ""
    for candidate in candidates:
        if markdown.text_digest(candidate) == marker.digest:
            return Entry(marker, candidate, block)
    # In a file turned to CRLF the line ends are not the words' own.
    kept = text.strip("\r\n") if is_open else unix if text.endswith("\r") else text
    return Entry(marker, kept, block, edited=True, problem=problem)


# --- rewriting: what is not named stays, byte for byte


def require_rewritable(data: bytes) -> None:
    """Raises: Conflict where the file's encoding could not be kept."""
    _as_utf8(data)


def put_away(data: bytes, ids: Collection[str], log: DayLog | None = None) -> bytes:
    """Put in the place of each of these entries a mark with its id alone.

    `log` is what `parse_day` says of the same bytes, where it is known already.
    Raises: Conflict where the file's encoding could not be kept.
    """

    def change(place: Place, block: bytes) -> bytes:
        if place.kind != "entry" or place.id not in ids:
            return block
        line_end = b"\r\n" if block.endswith(b"\r\n") else block[-1:]
        is_whole = line_end in (b"\n", b"\r\n")
        return retired_mark(place.id) + (line_end if is_whole else b"")

    return _rewrite(data, change, log)


def retired_mark(entry_id: str) -> bytes:
    return f"<!-- renor retired {entry_id} -->".encode()


def bring_back(data: bytes, entry_id: str, block: bytes) -> bytes:
    """Put a retired entry's block in the place of its mark, else at the end.

    Raises: Conflict where the file's encoding could not be kept.
    """
    has_mark = entry_id in parse_day(data).retired
    if not has_mark:
        whole, back = _as_utf8(data)
        first = b"" if not whole or whole.endswith(b"\n") else b"\n"
        return back(whole + first + b"\n" + block)
    return _rewrite(
        data,
        lambda place, kept: (
            block if (place.kind, place.id) == ("retired", entry_id) else kept
        ),
    )


def strip(data: bytes, entry_id: str) -> bytes:
    """Take away an entry for good: its mark, its block, copies of it. What a person
    has changed in a copy stays. Raises: Conflict.
    """
    return _rewrite(
        data,
        lambda place, block: block if place.id != entry_id or place.edited else b"",
    )


def revise(data: bytes, entry_id: str, text: str, **members: str) -> bytes:
    """Give an entry other words; members of its marker unknown here are kept.

    Raises: Conflict.
    """
    return _rewrite(
        data,
        lambda place, block: (
            _reword(block, text, **members)
            if (place.kind, place.id) == ("entry", entry_id)
            else block
        ),
    )


def revise_all(data: bytes, entry_id: str, change: Callable[[str], str]) -> bytes:
    """Give an entry and its copies the words that `change` makes of theirs; what a
    person has changed in a copy stays. Raises: Conflict.
    """

    def revised(place: Place, block: bytes) -> bytes:
        is_own = place.kind == "entry" or not place.edited
        if place.id != entry_id or place.kind == "retired" or not is_own:
            return block
        (entry,) = parse_day(block).entries
        text = change(entry.text)
        return block if text == entry.text else _reword(block, text)

    return _rewrite(data, revised)


def texts_of(data: bytes, entry_id: str) -> list[str]:
    """Return the words of an entry and of its copies, as they stand in a day log."""
    whole = in_utf8(data)
    return [
        entry.text
        for place in parse_day(whole).places
        if place.id == entry_id
        for entry in parse_day(whole[place.start : place.stop]).entries
    ]


def _reword(block: bytes, text: str, **members: str) -> bytes:
    start = _START.match(block)
    if start is None:
        return block
    heading, source, line_end = start.groups()
    said = msgspec.json.decode(source, type=dict[str, object])
    said |= {**members, "digest": markdown.text_digest(text)}
    attributes = msgspec.json.encode(said)
    return _render_block(heading or b"", attributes, text, str(said["id"]), line_end)


def cut_hand_text(data: bytes, spans: rewriting.Spans) -> bytes:
    """Take words out of a person's own text; `spans` are code points of `hand_text`.

    Raises: Conflict where a stretch of it has no place of its own in the file.
    """
    whole, back = _as_utf8(data)
    log = parse_day(whole)
    places = sorted((place.start, place.stop) for place in log.places)
    starts = [0, *(stop for _, stop in places)]
    stops = [*(start for start, _ in places), len(whole)]
    texts = [
        whole[start:stop].decode(errors="replace")
        for start, stop in zip(starts, stops, strict=True)
    ]
    mark = "\ufeff" if texts[0].startswith("\ufeff") else ""
    texts[0] = texts[0].removeprefix(mark)
    if "".join(texts) != log.hand_text or any("\ufffd" in text for text in texts):
        message = "the file holds changed copies or invalid bytes: edit it by hand"
        raise Conflict(message)
    kept: list[bytes] = [mark.encode()]
    position = 0
    for number, text in enumerate(texts):
        inside = [
            (max(start - position, 0), min(stop - position, len(text)))
            for start, stop in spans
            if start < position + len(text) and stop > position
        ]
        kept.append(rewriting.cut(text, inside).encode())
        kept.append(
            whole[stops[number] : starts[number + 1]] if places[number:] else b""
        )
        position += len(text)
    return back(b"".join(kept))


def _rewrite(
    data: bytes, change: Callable[[Place, bytes], bytes], log: DayLog | None = None
) -> bytes:
    whole, back = _as_utf8(data)
    if log is None or whole is not data:
        log = parse_day(whole)
    kept: list[bytes] = []
    position = 0
    for place in sorted(log.places, key=lambda one: one.start):
        block = whole[place.start : place.stop]
        changed = change(place, block)
        start = place.start
        if block and not changed and whole[:start].endswith(b"\n\n"):
            start -= 1  # the empty line before an entry is its own
        kept += [whole[position:start], changed]
        position = place.stop
    return back(b"".join([*kept, whole[position:]]))


def in_utf8(data: bytes) -> bytes:
    """Return a day log's bytes in UTF-8, to look for marks; not to be written back."""
    if data.startswith(UTF16_MARKS):
        return data.decode("utf-16", errors="replace").encode()
    return data


def _as_utf8(data: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return a day log in UTF-8 and what turns it back into its own encoding."""
    if not data.startswith(UTF16_MARKS):
        return data, lambda whole: whole
    encoding = "utf-16-le" if data.startswith(UTF16_MARKS[0]) else "utf-16-be"
    try:
        whole = data.decode(encoding).encode()
    except UnicodeError as fault:
        message = "the day log is damaged UTF-16: save it as UTF-8 first"
        raise Conflict(message) from fault
    return whole, lambda changed: changed.decode().encode(encoding)
