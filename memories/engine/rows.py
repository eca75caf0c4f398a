"""What the index keeps of a note, a day's own text and an entry. Pure.

From a file's bytes to rows and passages; whether and when they are stored is
hands.py's.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import daylog, markdown, rules
from .chunks import Chunk, iter_chunks
from .errors import Invalid
from .notes import StoreFile
from .passages import MemoryRow


class NoteRead(msgspec.Struct, frozen=True, kw_only=True):
    """A note as it is indexed. `chunks` yields None where one may pause; `problem`
    is "" when nothing was odd.
    """

    row: MemoryRow
    chunks: Iterator[Chunk | None]
    problem: str


def read_note(file: StoreFile, data: bytes) -> NoteRead:
    """Return what a note's bytes say; never raises for what a person wrote."""
    text, problem = markdown.decode_note(data)
    front, body = markdown.split_front_matter(text)
    scope, scope_problem = _scope_of(front.scope)
    name = file.path.rpartition("/")[2].rpartition(".")[0]
    row = MemoryRow(
        id=f"note:{file.path}",
        kind="note",
        path=file.path,
        title=front.title or markdown.first_heading(body) or name,
        scope=scope,
        at_ms=file.stamp.mtime_ns // 1_000_000,
        day=front.day or file.day or _day_of(file),
        size_bytes=len(data),
        tags=list(dict.fromkeys([*front.tags, *markdown.find_tags(body)])),
        links=markdown.find_wikilinks(body),
        aliases=front.aliases,
    )
    return NoteRead(
        row=row,
        chunks=iter_chunks(body, markdown.front_matter_of(text, body)),
        problem=problem or front.problem or scope_problem,
    )


def row_of_day(file: StoreFile, hand_text: str) -> MemoryRow:
    """Return the row of a day log's own text, what belongs to no entry."""
    _, body = find_body(hand_text, file.day)
    return MemoryRow(
        id=f"note:{file.path}",
        kind="note",
        path=file.path,
        title=file.day,
        scope=rules.GLOBAL_SCOPE,
        at_ms=file.stamp.mtime_ns // 1_000_000,
        day=file.day,
        text=body,
        size_bytes=len(body.encode()),
        tags=markdown.find_tags(body),
        links=markdown.find_wikilinks(body),
    )


def find_body(hand_text: str, day: str) -> tuple[int, str]:
    """Return where in a day log's own text its words begin, and the words: without the
    heading that the log was made with.
    """
    body = hand_text.strip().removeprefix(f"# {day}").strip()
    return (hand_text.rindex(body) if body else 0), body


def row_of_entry(path: str, day: str, entry: daylog.Entry) -> MemoryRow:
    """Return an entry's row; `path` and `day` are those of its day log."""
    marker = entry.marker
    return MemoryRow(
        id=f"entry:{path}#{marker.id}",
        kind="entry",
        path=path,
        title=markdown.first_line(entry.text),
        scope=marker.scope,
        source=marker.source,
        writer=marker.writer,
        writer_id=marker.writer_id,
        at_ms=rules.parse_moment("at", marker.at),
        day=day,
        text=entry.text,
        size_bytes=len(entry.text.encode()),
        edited=entry.edited,
        entry=marker.id,
        block=entry.block,
        marker=msgspec.json.encode(marker).decode(),
        request=marker.request,
        tags=markdown.find_tags(entry.text),
        links=markdown.find_wikilinks(entry.text),
        replaces=marker.replaces,
    )


def row_of_missing(memory_id: str, file: StoreFile, scope: str) -> MemoryRow:
    """Return the row of a retired memory whose bytes are gone: its name alone."""
    return MemoryRow(
        id=memory_id,
        kind="entry" if memory_id.startswith("entry:") else "note",
        path=file.path,
        title=file.path.rpartition("/")[2].rpartition(".")[0],
        scope=scope,
        at_ms=file.stamp.mtime_ns // 1_000_000,
        day=file.day or _day_of(file),
    )


def _scope_of(said: str) -> tuple[str, str]:
    """Return a note's scope from its front matter, and a problem ("" when none)."""
    if not said:
        return rules.GLOBAL_SCOPE, ""
    candidate = said if ":" in said or said == rules.GLOBAL_SCOPE else f"project:{said}"
    try:
        return rules.parse_scope(candidate, reading=False), ""
    except Invalid as fault:
        return rules.GLOBAL_SCOPE, f"front matter: {fault.message}"


def _day_of(file: StoreFile) -> str:
    """Return the day in a file's name, else the day of its last change."""
    return markdown.find_day(file.path) or rules.render_day(
        file.stamp.mtime_ns // 1_000_000
    )
