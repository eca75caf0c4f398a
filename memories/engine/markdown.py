"""Notes as text: front matter, tags, links, and chunks by Markdown's structure. Pure.

Bytes in, shapes out. Chunks follow Markdown's own block structure; a day log's
entries are daylog.py's.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import yaml
from markdown_it import MarkdownIt

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


def text_digest(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text's UTF-8 bytes.

    It tells edited words from kept ones; it guards against accident, not attack.
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def decode(data: bytes, *, keep_mark: bool = False) -> tuple[str, bool]:
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
        text, broken = decode(data)
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
