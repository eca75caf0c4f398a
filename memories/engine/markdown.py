"""The text codec: day logs with their entries, notes with their chunks. Pure.

Bytes in, shapes out, and back. What a day log looks like is specified in
docs/store-format.md; chunks follow Markdown's own block structure.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING

import msgspec
import yaml
from markdown_it import MarkdownIt

from .types import GLOBAL_SCOPE

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

CHUNK_CHARS = 1_200
"""Most characters of a chunk: about 300 tokens, inside every embedder's window."""

SEGMENT_CHARS = 48_000
"""A longer note is parsed in pieces: one piece is about 10 ms (measured 5 MB/s)."""

SEGMENT_SECONDS = 0.25
"""A piece that parses longer than this is hostile or odd: it is cut by lines."""

FRONT_MATTER_BYTES = 64 * 1024
FRONT_MATTER_DEPTH = 50
TITLE_CHARS = 120
FIRST_YEAR, LAST_YEAR = 1900, 2999
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF16_PROBLEM = "UTF-16: read, but better saved as UTF-8"
DAY_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.(?:md|markdown)", re.IGNORECASE)


# --- day logs ---------------------------------------------------------------


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


def text_digest(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text's UTF-8 bytes.

    It tells edited words from kept ones; it guards against accident, not attack.
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    day.hand_text, broken = _decode(b"".join(hand))
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
    text, broken = _decode(raw, keep_mark=True)
    text = _ESCAPED_MARKER.sub(r"\1\2\3", text)
    unix = text.replace("\r\n", "\n").removesuffix("\r")
    candidates = [text, unix]
    if is_open:
        candidates += [unix.rstrip("\n"), unix.removesuffix("\n")]
    problem = "invalid UTF-8" if broken else ""
    for candidate in candidates:
        if text_digest(candidate) == marker.digest:
            return Entry(marker, candidate, block)
    # In a file turned to CRLF the line ends are not the words' own.
    kept = text.strip("\r\n") if is_open else unix if text.endswith("\r") else text
    return Entry(marker, kept, block, edited=True, problem=problem)


def _decode(data: bytes, *, keep_mark: bool = False) -> tuple[str, bool]:
    """Return the text and whether invalid bytes had to be replaced."""
    try:
        text, broken = data.decode(), False
    except UnicodeDecodeError:
        text, broken = data.decode(errors="replace"), True
    return (text if keep_mark else text.removeprefix("\ufeff")), broken


# --- notes ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage and the headings it stands under, outermost first."""

    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class FrontMatter:
    title: str = ""
    scope: str = ""
    day: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    problem: str = ""


_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_BRACKET = re.compile(r"[\[\]{}]")
_TAG = re.compile(r"(?<![\w/#&])#([\w][\w/-]*[\w]|[\w])")
_WIKILINK = re.compile(r"\[\[([^\[\]\n|#]+)(?:#[^\[\]\n|]*)?(?:\|[^\[\]\n]*)?\]\]")
_DAY_IN_NAME = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")


def decode_note(data: bytes) -> tuple[str, str]:
    """Return a note's text with plain line ends, and a problem ("" when none)."""
    problem = ""
    if data.startswith(UTF16_MARKS):
        text = data.decode("utf-16", errors="replace").removeprefix("\ufeff")
        problem = UTF16_PROBLEM
    else:
        text, broken = _decode(data)
        if broken:
            problem = "invalid UTF-8: the odd bytes are shown as U+FFFD"
    return text.replace("\r\n", "\n").replace("\r", "\n"), problem


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return what a note's front matter says and the text after it."""
    found = _FRONT.match(text)
    if not found:
        return FrontMatter(), text
    source, body = found.group(1), text[found.end() :]
    if len(source) > FRONT_MATTER_BYTES:
        return FrontMatter(problem="front matter over 64 KiB: not read"), text
    try:
        _require_shallow(source)
        said = yaml.safe_load(source)
    except Exception:  # noqa: BLE001 - PyYAML lets KeyError, IndexError and more out
        return FrontMatter(problem="front matter is not valid YAML"), text
    if not isinstance(said, dict):
        return FrontMatter(), text
    return _read_front_matter({_as_text(k).lower(): v for k, v in said.items()}), body


def _require_shallow(source: str) -> None:
    """Raises: ValueError for deep nesting: the time YAML takes grows with its square."""
    depth = 0
    for mark in _BRACKET.findall(source):
        depth += 1 if mark in "[{" else -1
        if depth > FRONT_MATTER_DEPTH:
            raise ValueError


def _read_front_matter(said: dict[str, object]) -> FrontMatter:
    day = next((d for k in ("date", "created") if (d := _as_day(said.get(k)))), "")
    return FrontMatter(
        title=_as_text(said.get("title"))[:TITLE_CHARS],
        scope=_as_text(said.get("scope")),
        day=day,
        tags=tuple(tag.lstrip("#") for tag in _as_texts(said.get("tags"))),
        aliases=_as_texts(said.get("aliases", said.get("alias"))),
    )


def _as_text(value: object) -> str:
    if not isinstance(value, str | int | float):
        return ""
    try:
        text = str(value).strip()
    except ValueError:  # an integer of more than 4,300 digits
        return ""
    # YAML can spell what UTF-8 cannot hold: a lone surrogate.
    return text.encode(errors="replace").decode()


def _as_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    return tuple(text for item in value[:200] if (text := _as_text(item)))


def _as_day(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()[:10]
    try:
        return date.fromisoformat(_as_text(value)[:10]).isoformat()
    except ValueError:
        return ""


def find_tags(text: str) -> list[str]:
    """Return the #tags of a text, first met first, each once."""
    return list(dict.fromkeys(t for t in _TAG.findall(text) if not t.isdigit()))


def find_wikilinks(text: str) -> list[str]:
    """Return the targets of [[wikilinks]], without heading and shown text."""
    return list(dict.fromkeys(t.strip() for t in _WIKILINK.findall(text)))


def first_line(text: str) -> str:
    """Return a title for a text: its first line with words, without `#`."""
    for line in text.splitlines():
        if bare := line.strip().lstrip("#").strip():
            return bare[:TITLE_CHARS]
    return ""


def first_heading(text: str) -> str:
    """Return the first ATX heading among a text's first lines, "" when none."""
    for line in text[:4_000].splitlines():
        if _HEADING.match(line):
            return line.strip().strip("#").strip()[:TITLE_CHARS]
        if line.strip():
            return ""
    return ""


def find_day(path: str) -> str:
    """Return the day that stands in a path, "" when none does."""
    for found in _DAY_IN_NAME.findall(path.rpartition("/")[2]):
        if day := _as_day(found):
            return day
    return ""


# --- chunks -----------------------------------------------------------------


def iter_chunks(text: str) -> Iterator[Chunk | None]:
    """Yield the chunks of a text in order; None marks a place to pause.

    Every character but white space between blocks is in exactly one chunk, and no
    chunk is longer than CHUNK_CHARS. A heading's line opens its first chunk.
    """
    headings: list[tuple[int, str]] = []
    for segment in _iter_segments(text):
        yield from _chunk_segment(segment, headings)
        yield None


def _iter_segments(text: str) -> Iterator[str]:
    """Cut a long text before headings (else at empty lines), never in a fence
    unless the fence itself is longer than two segments.
    """
    if len(text) <= SEGMENT_CHARS:
        yield text
        return
    lines: list[str] = []
    size, fence = 0, ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        for piece in _cut_line(line):
            is_cut = not fence and (_HEADING.match(piece) or not piece.strip())
            if (size > SEGMENT_CHARS // 2 and is_cut) or size > 2 * SEGMENT_CHARS:
                yield "".join(lines)
                lines, size = [], 0
            lines.append(piece)
            size += len(piece)
            fence = _fence_after(piece, fence)
    yield "".join(lines)


def _cut_line(line: str) -> Iterator[str]:
    for start in range(0, len(line), SEGMENT_CHARS):
        yield line[start : start + SEGMENT_CHARS]


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after `line`, "" for none."""
    found = _FENCE.match(line)
    if not found:
        return fence
    marks, rest = found.groups()
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip()
    return "" if closes else fence


class _TooSlow(Exception):
    pass


def _stop_when_late(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
    """Refuse to go on after the deadline: called by the parser at every block."""
    if time.monotonic() > state.env["deadline"]:
        raise _TooSlow
    return False


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.before("table", "deadline", _stop_when_late)
    return parser


_parser = _make_parser()


@dataclass(slots=True)
class _Block:
    start_line: int
    level: int = 0
    title: str = ""


def _chunk_segment(text: str, headings: list[tuple[int, str]]) -> Iterator[Chunk]:
    """Yield a segment's chunks; `headings` carries the open ones across segments."""
    # The parser counts a lone CR as a line end too.
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    try:
        env = {"deadline": time.monotonic() + SEGMENT_SECONDS}
        blocks = _top_blocks(_parser.parse(text, env))
    except (_TooSlow, RecursionError):
        blocks = [_Block(0)]
    if not blocks or blocks[0].start_line > 0:
        blocks.insert(0, _Block(0))
    gathered = ""
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        stop = following.start_line if following else len(lines)
        piece = "".join(lines[block.start_line : stop])
        if block.level:
            yield from _emit(gathered, headings)
            gathered = ""
            while headings and headings[-1][0] >= block.level:
                headings.pop()
            headings.append((block.level, block.title[:TITLE_CHARS]))
        elif gathered and len(gathered) + len(piece.rstrip()) > CHUNK_CHARS:
            yield from _emit(gathered, headings)
            gathered = ""
        gathered += piece
    yield from _emit(gathered, headings)


def _top_blocks(tokens: list[Token]) -> list[_Block]:
    blocks: list[_Block] = []
    for index, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        block = _Block(token.map[0])
        if token.type == "heading_open":
            block.level = int(token.tag[1])
            block.title = tokens[index + 1].content.strip()
        blocks.append(block)
    return blocks


def _emit(text: str, headings: list[tuple[int, str]]) -> Iterator[Chunk]:
    path = tuple(title for _, title in headings)
    for piece in _split_long(text.strip("\n")):
        if piece.strip():
            yield Chunk(path, piece)


_BOUNDARIES = ("\n\n", "\n", ". ", "! ", "? ", "。", "; ", ", ", " ")


def _split_long(text: str) -> Iterator[str]:
    """Cut a long text at the best boundary in the last two thirds of each piece."""
    while len(text) > CHUNK_CHARS:
        at = CHUNK_CHARS
        for boundary in _BOUNDARIES:
            found = text.rfind(boundary, CHUNK_CHARS // 3, CHUNK_CHARS)
            if found > 0:
                at = found + len(boundary)
                break
        yield text[:at]
        text = text[at:]
    yield text
