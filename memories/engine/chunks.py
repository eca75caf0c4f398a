"""Chunks: the pieces of a text that are searched and shown as one. Pure.

They follow Markdown's own block structure, and where they end is decided by what
stands there, not by what came before: a line added at the top of a long text changes
the chunk it is in and leaves the others as they were. Source: docs/decisions/0013.
"""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from .markdown import HEADING, TITLE_CHARS, fence_after

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

CHUNK_CHARS = 1_200
"""Most characters of a chunk: about 300 tokens, inside every embedder's window."""

LEAST_CHARS = 500
"""From here on a chunk may end where its text says so."""

CUTS = {"block": 2, "prose": 4, "line": 8, "character": 64}
"""One in so many ends of each kind is a cut: their hash says which."""

SEGMENT_CHARS = 24_000
"""A longer note is parsed in pieces: one piece is about 5 ms (measured 5 MB/s)."""

SEGMENT_SECONDS = 0.1
"""A piece that takes the processor longer than this is hostile or odd: it is cut by
lines. Time of this thread, so that a busy machine cuts nothing otherwise."""

HASHED_CHARS = 48


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage and the headings it stands under, outermost first."""

    heading_path: tuple[str, ...]
    text: str


def iter_chunks(text: str, front: str = "") -> Iterator[Chunk | None]:
    """Yield the chunks of a text in order; None marks a place to pause.

    Every character but white space between blocks is in exactly one chunk, and no
    chunk is longer than CHUNK_CHARS. A heading's line opens its first chunk. `front`,
    a note's front matter as it stands, opens the first, where it fits.
    """
    headings: list[tuple[int, str]] = []
    before = front.rstrip()
    for segment in _iter_segments(text):
        for chunk in _chunk_segment(segment, headings):
            if before:
                whole = f"{before}\n\n{chunk.text}"
                if len(whole) <= CHUNK_CHARS:
                    yield Chunk(chunk.heading_path, whole)
                    before = ""
                    continue
                yield from _front_chunks(before)
                before = ""
            yield chunk
        yield None
    if before:
        yield from _front_chunks(before)


def _front_chunks(front: str) -> Iterator[Chunk]:
    for piece in _pack(front.splitlines(keepends=True), "line"):
        if piece.strip():
            yield Chunk((), piece.strip("\n"))


# --- segments


def _iter_segments(text: str) -> Iterator[str]:
    """Cut a long text before headings, which end a chunk anyway, or at some of its
    empty lines; never in a fence unless the fence is longer than four segments.
    """
    if len(text) <= SEGMENT_CHARS:
        yield text
        return
    lines: list[str] = []
    size, fence, before = 0, "", ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        for piece in _cut_line(line):
            if not fence and size > SEGMENT_CHARS // 2:
                is_cut = bool(HEADING.match(piece)) or (
                    not piece.strip() and _is_cut(before, 8)
                )
            else:
                is_cut = False
            if is_cut or size > (4 if fence else 2) * SEGMENT_CHARS:
                yield "".join(lines)
                lines, size = [], 0
            lines.append(piece)
            size += len(piece)
            fence = fence_after(piece, fence)
            before = piece
    yield "".join(lines)


def _cut_line(line: str) -> Iterator[str]:
    for start in range(0, len(line), SEGMENT_CHARS):
        yield line[start : start + SEGMENT_CHARS]


class _TooSlow(Exception):
    pass


def _stop_when_late(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
    """Refuse to go on after the deadline: called by the parser at every block."""
    if time.thread_time() > state.env["deadline"]:
        raise _TooSlow
    return False


def _make_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.block.ruler.before("table", "deadline", _stop_when_late)
    return parser


_parser = _make_parser()


# --- blocks

PROSE = frozenset({"paragraph_open", "blockquote_open"})
"""Blocks that are cut at the ends of sentences; others are cut at lines."""


@dataclass(slots=True)
class _Block:
    start_line: int
    kind: str = ""
    level: int = 0
    title: str = ""


def _chunk_segment(text: str, headings: list[tuple[int, str]]) -> Iterator[Chunk]:
    """Yield a segment's chunks; `headings` carries the open ones across segments."""
    # The parser counts a lone CR as a line end too.
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    try:
        env = {"deadline": time.thread_time() + SEGMENT_SECONDS}
        blocks = _top_blocks(_parser.parse(text, env))
    except (_TooSlow, RecursionError):
        blocks = [_Block(0)]
    if not blocks or blocks[0].start_line > 0:
        blocks.insert(0, _Block(0))
    section: list[_Piece] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        stop = following.start_line if following else len(lines)
        if block.level:
            yield from _emit(section, headings)
            section = []
            while headings and headings[-1][0] >= block.level:
                headings.pop()
            headings.append((block.level, block.title[:TITLE_CHARS]))
        section.append(_Piece("".join(lines[block.start_line : stop]), block.kind))
    yield from _emit(section, headings)


def _top_blocks(tokens: list[Token]) -> list[_Block]:
    blocks: list[_Block] = []
    for index, token in enumerate(tokens):
        if token.level or token.nesting < 0 or token.map is None:
            continue
        block = _Block(token.map[0], token.type)
        if token.type == "heading_open":
            block.level = int(token.tag[1])
            block.title = tokens[index + 1].content.strip()
        blocks.append(block)
    return blocks


@dataclass(slots=True)
class _Piece:
    """A block's text, and what kind of block it is."""

    text: str
    kind: str


def _emit(section: list[_Piece], headings: list[tuple[int, str]]) -> Iterator[Chunk]:
    """Yield the chunks of what stands under one heading."""
    path = tuple(title for _, title in headings)
    for text in _pack_blocks(section):
        whole = text.strip("\n").rstrip()
        if whole.strip():
            yield Chunk(path, whole)


# --- packing


def _pack_blocks(section: Iterable[_Piece]) -> Iterator[str]:
    gathered = ""
    for block in section:
        length = len(block.text.rstrip())
        if gathered and len(gathered) + length > CHUNK_CHARS:
            yield gathered
            gathered = ""
        if length > CHUNK_CHARS:
            # What is left of a long block goes on with the next.
            pieces = list(_cut_block(block))
            yield from pieces[:-1]
            gathered = pieces[-1]
        else:
            gathered += block.text
        if len(gathered) >= LEAST_CHARS and _is_cut(block.text, CUTS["block"]):
            yield gathered
            gathered = ""
    yield gathered


def _cut_block(block: _Piece) -> Iterator[str]:
    if block.kind in PROSE:
        return _pack(_split_sentences(block.text), "prose")
    if block.kind in ("bullet_list_open", "ordered_list_open"):
        return _pack(_split_items(block.text), "line", _split_sentences)
    return _pack(block.text.splitlines(keepends=True), "line", _split_sentences)


Split = Callable[[str], list[str]]


def _pack(
    pieces: Iterable[str], kind: str, split: Split | None = None
) -> Iterator[str]:
    """Yield texts of at most CHUNK_CHARS made of pieces in order; a piece that is too
    long itself is cut by `split`, then at words, then anywhere.
    """
    gathered = ""
    for piece in pieces:
        if gathered and len(gathered) + len(piece.rstrip()) > CHUNK_CHARS:
            yield gathered
            gathered = ""
        if len(piece.rstrip()) > CHUNK_CHARS:
            cut = list(_pack(split(piece), "prose") if split else _cut_words(piece))
            yield from cut[:-1]
            gathered = cut[-1]
        else:
            gathered += piece
        if len(gathered) >= LEAST_CHARS and _is_cut(piece, CUTS[kind]):
            yield gathered
            gathered = ""
    if gathered:
        yield gathered


def _is_cut(text: str, one_in: int) -> bool:
    """Whether the end of a text is a place to cut: one in so many is, by its hash."""
    end = text.rstrip()[-HASHED_CHARS:].encode(errors="surrogatepass")
    # A checksum is linear: numbered lines would all be cuts, or none. Mixed, it is not.
    mixed = zlib.crc32(end) * 0x9E3779B1 & 0xFFFFFFFF
    return (mixed >> 16) % one_in == 0


_SENTENCE = re.compile(
    r"[^.!?\u2026\u3002\uff01\uff1f]*"
    r"(?:[.!?\u2026]+[\"'\u201d\u2019)\]*_]*(?:\s+|\Z)|[\u3002\uff01\uff1f]+\s*|[.!?\u2026]|\Z)"
)
_CLAUSE = re.compile(r"[^,;:\u3001\uff0c\n]*(?:[,;:\u3001\uff0c]+\s*|\n|\Z)")
_ITEM = re.compile(r"^(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])", re.MULTILINE)


def _split_sentences(text: str) -> list[str]:
    """Return sentences with the white space after them; one that is too long is cut
    at clauses and lines.
    """
    sentences: list[str] = []
    open_end = ""
    for found in _SENTENCE.finditer(text):
        # "v1.2" holds a dot that ends nothing.
        open_end += found.group()
        if open_end[-1:].isspace() or open_end[-1:] in "\u3002\uff01\uff1f":
            sentences.append(open_end)
            open_end = ""
    if open_end:
        sentences.append(open_end)
    return [
        part
        for sentence in sentences
        for part in (
            _CLAUSE.findall(sentence)
            if len(sentence.rstrip()) > CHUNK_CHARS
            else [sentence]
        )
        if part
    ]


def _split_items(text: str) -> list[str]:
    """Return the items of a list, nested ones too, each with what belongs to it."""
    starts = [found.start() for found in _ITEM.finditer(text)]
    ends = [*starts[1:], len(text)]
    first = text[: starts[0]] if starts else text
    items = [text[start:end] for start, end in zip(starts, ends, strict=bool(starts))]
    return [part for part in (first, *items) if part]


# What must not be parted from the character before it.
_JOINED = re.compile("[\u0300-\u036f\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]")


def _cut_words(text: str) -> Iterator[str]:
    """Cut at white space, else between characters, at most CHUNK_CHARS each."""
    while len(text.rstrip()) > CHUNK_CHARS:
        at = _find_cut(text)
        yield text[:at]
        text = text[at:]
    yield text


def _find_cut(text: str) -> int:
    spaces = [
        found.end()
        for found in re.finditer(r"\s+", text[: CHUNK_CHARS + 1])
        if LEAST_CHARS <= found.end() <= CHUNK_CHARS
    ]
    for end in spaces:
        if _is_cut(text[:end], CUTS["prose"]):
            return end
    if spaces:
        return spaces[-1]
    for end in range(LEAST_CHARS, CHUNK_CHARS + 1):
        if _is_cut(text[end - 8 : end], CUTS["character"]) and _may_part(text, end):
            return end
    return next(
        (end for end in range(CHUNK_CHARS, LEAST_CHARS, -1) if _may_part(text, end)),
        CHUNK_CHARS,
    )


def _may_part(text: str, at: int) -> bool:
    return not (_JOINED.match(text[at : at + 1]) or text[at - 1] == "\u200d")
