"""The codec of day logs: an agent's entries among a person's own text. Pure.

Bytes in, shapes out, and back; what a day log looks like is specified in
docs/store-format.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from . import markdown
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


@dataclass(slots=True)
class DayLog:
    """`hand_text` is all that belongs to no entry. `torn_at` is the offset of a
    last entry without its end, None when there is none; `torn_id` its id, "" when
    not even its marker is whole.
    """

    entries: list[Entry] = field(default_factory=list)
    hand_text: str = ""
    problems: list[str] = field(default_factory=list)
    torn_at: int | None = None
    torn_id: str = ""


_START = re.compile(
    rb"(?:^## (?:\d\d:\d\d)\r?\n)?^<!-- renor (\{[^\n]*\}) -->\r?\n", re.MULTILINE
)
_NEXT = re.compile(rb"(?:^## \d\d:\d\d\r?\n)?^<!-- renor \{", re.MULTILINE)
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
    attributes = msgspec.json.encode(marker).decode()
    attributes = attributes.replace(">", "\\u003e").replace("--", "-\\u002d")
    words = _LIKE_MARKER.sub(r"\1\\\2\3", text)
    return (
        f"\n## {clock_time}\n<!-- renor {attributes} -->\n{words}\n"
        f"<!-- /renor {marker.id} -->\n"
    ).encode()


def parse_day(data: bytes) -> DayLog:
    """Read a day log. Never raises: what is odd is kept as hand text or reported."""
    day = DayLog()
    if is_utf16 := data.startswith(UTF16_MARKS):
        data = data.decode("utf-16", errors="replace").encode()
        day.problems.append(UTF16_PROBLEM)
    hand: list[bytes] = []
    seen: set[str] = set()
    position = 0
    while (start := _START.search(data, position)) is not None:
        hand.append(data[position : start.start()])
        position = _take_entry(day, data, start, seen, hand)
    hand.append(data[position:])
    torn = _TORN_MARKER.search(data, position)
    if torn and _opens_marker(torn.group(1)):
        day.torn_at, day.torn_id = torn.start(), ""
    if is_utf16:
        day.torn_at = None  # an offset into other bytes than the file's
    day.hand_text, broken = markdown.decode(b"".join(hand))
    if broken:
        day.problems.append("invalid UTF-8 outside the entries")
    return day


def iter_moments(data: bytes) -> Iterator[str]:
    """Yield the moments of a day log's entries, cheaply: no words are read."""
    for start in _START.finditer(data):
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            yield _read_marker(start.group(1)).at


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
        marker = _read_marker(start.group(1))
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
        hand.append(text_of_copy(copy).encode())
        return stop
    seen.add(marker.id)
    entry = _read_entry(marker, raw, data[start.start() : stop], is_open=is_open)
    if is_open and entry.edited and following is None:
        day.torn_at, day.torn_id = start.start(), marker.id
    if entry.problem:
        day.problems.append(f"entry {marker.id}: {entry.problem}")
    day.entries.append(entry)
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
