"""Answers made of rows: what the index and the ledger know, in the wire's shapes.

Pure. Which rows, and whether the caller may have them, is engine.py's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from . import hidden, recall, rules
from . import types as t
from .errors import Invalid, NotFound
from .facts import ValueRow
from .notes import IMPORTED_FOLDER
from .passages import MemoryRow, Passage
from .types import Event

NAMES_SHOWN, NAME_CHARS = 50, 100
NOTHING: Mapping[str, int] = {}
WHOLE = -1
READ_BYTES = 12_000
"""Most bytes of text in one read_memory: even at a token a byte, under 20,000."""


class FoundMemory(msgspec.Struct, frozen=True):
    """A memory found: its best passage, the share of the query it holds, a score, why
    it is listed, and the ids of others that say the same.
    """

    passage: Passage
    share: float
    score: float
    reason: Literal["fts", "note-identity", "graph"] = "fts"
    also_in: Sequence[str] = ()


class Search(msgspec.Struct, frozen=True):
    memories: list[FoundMemory]
    facts: list[FoundMemory]

    @property
    def is_relevant(self) -> bool:
        return any(
            found.share >= recall.CLOSE for found in [*self.facts, *self.memories]
        )


def rank(
    passages: Sequence[Passage],
    held_as: Sequence[int],
    weights: Sequence[float],
    *,
    by_strength: bool = True,
    named: Mapping[str, int] = NOTHING,
) -> list[FoundMemory]:
    """Return each memory once, by its best passage, best first.

    `held_as` turns a bit of a passage's terms into a bit of `weights`; `named` has,
    by memory id, the bits of terms that stand in its names (WHOLE: it is meant).
    """
    best_rank = max((passage.rank for passage in passages), default=0.0)
    best: dict[str, FoundMemory] = {}
    shares: dict[tuple[int, int], float] = {}  # a search finds few sets, each often
    for passage in passages:
        key = (passage.terms, named.get(passage.memory.id, 0))
        share = shares.get(key)
        if share is None:
            held = sum(bit for i, bit in enumerate(held_as) if passage.terms >> i & 1)
            share = recall.coverage(held | key[1], weights) if key[1] >= 0 else 1.0
            shares[key] = share
        strength = passage.rank if by_strength or not passage.terms else best_rank
        found = FoundMemory(
            passage,
            share,
            recall.score(share, strength, best_rank),
            "fts" if passage.in_text else "note-identity",
        )
        known = best.get(passage.memory.id)
        if known is None or found.score > known.score:
            best[passage.memory.id] = found
    return sorted(
        best.values(),
        key=lambda one: (one.score, one.passage.memory.at_ms),
        reverse=True,
    )


def readable_scopes(caller: t.Caller, scope: str) -> list[str] | None:
    """Return the scopes a read covers, None for all.

    A scope the caller may not see reads as an empty one.
    """
    wanted = rules.parse_scope(scope, reading=True)
    if caller.scopes is None:
        return [wanted] if wanted else None
    if not wanted:
        return list(caller.scopes)
    return [wanted] if wanted in caller.scopes else []


def may_see(caller: t.Caller, scope: str) -> bool:
    return caller.scopes is None or scope in caller.scopes


def may_see_row(caller: t.Caller, row: MemoryRow) -> bool:
    """As may_see; an empty note, such as a day log's own, belongs to no scope."""
    is_empty = row.kind == "note" and not row.size_bytes
    return caller.scopes is None or (row.scope in caller.scopes and not is_empty)


def source_label(caller: t.Caller, source: str) -> str:
    rules.require_text("source", source, rules.SOURCE_CHARS, blank=True)
    return source or caller.client_name[: rules.SOURCE_CHARS] or caller.name


def unknown_memory(memory_id: str) -> NotFound:
    message = (
        f'no memory has the id "{memory_id[:200]}": use an id that a read or a receipt '
        "returned"
    )
    return NotFound(message)


def is_untrusted(source: str) -> bool | msgspec.UnsetType:
    """Whether a label claims to be what only the system itself may be."""
    return True if source.strip().casefold() in rules.RESERVED_LABELS else msgspec.UNSET


def is_same_object(current: ValueRow, wanted: Event | ValueRow) -> bool:
    return rules.fold_name(current.object) == rules.fold_name(wanted.object)


def is_same_words(piece: str, text: str) -> bool:
    """Whether a text holds a piece letter for letter, case and accents folded."""
    return rules.fold_name(rules.fold_search(piece)) in rules.fold_name(
        rules.fold_search(text)
    )


def holds_at(value: ValueRow, at_ms: int) -> bool:
    return value.from_ms <= at_ms and (value.to_ms is None or at_ms < value.to_ms)


def receipt_of_event(event: Event, action: t.Action, *, value_id: str) -> t.Receipt:
    return t.Receipt(
        action=action,
        id=value_id or f"fact:{event.id}",
        event_id=event.id,
        at=event.recorded_at,
        scope=event.scope,
        indexed=True,
        supersedes=event.supersedes,
    )


def receipt_of_entry(row: MemoryRow, action: t.Action, *, indexed: bool) -> t.Receipt:
    return t.Receipt(
        action=action,
        id=row.id,
        event_id=row.entry,
        at=rules.render_moment(row.at_ms),
        scope=row.scope,
        indexed=indexed,
    )


def replaced_by(correction: MemoryRow | None) -> t.Replaced | msgspec.UnsetType:
    if correction is None:
        return msgspec.UNSET
    return t.Replaced(
        by=correction.id,
        at=rules.render_moment(correction.at_ms),
        source=hidden.show(correction.source),
    )


def hit_of(found: FoundMemory, correction: MemoryRow | None = None) -> t.Hit:
    row = found.passage.memory
    return t.Hit(
        id=row.id,
        title=hidden.show(row.title),
        text=hidden.show(found.passage.text, inside=found.passage.inside),
        heading_path=[hidden.show(title) for title in found.passage.heading_path],
        replaced=replaced_by(correction),
        session_date=row.day,
        score=found.score,
        reason=found.reason,
        matched=found.share >= recall.CLOSE,
        scope=row.scope,
        source=hidden.show(row.source),
        also_in=list(found.also_in) or msgspec.UNSET,
        edited=True if row.edited else msgspec.UNSET,
        writer_authenticated=_authenticated(row),
        untrusted=True if is_import(row) else is_untrusted(row.source),
        origin="import" if is_import(row) else msgspec.UNSET,
    )


def may_fold(one: MemoryRow, kept: MemoryRow) -> bool:
    """Whether a memory may stand for another that says the same: a fact is a value of
    its own, and what is not trusted alike is not the same.
    """
    return "fact" not in (one.kind, kept.kind) and (
        is_import(one),
        is_untrusted(one.source),
    ) == (is_import(kept), is_untrusted(kept.source))


def is_import(row: MemoryRow) -> bool:
    return row.path.startswith(IMPORTED_FOLDER)


def _authenticated(row: MemoryRow) -> bool | msgspec.UnsetType:
    """False for what an unnamed connection saved; a person's own file says nothing."""
    return False if row.kind != "note" and not row.writer_id else msgspec.UNSET


def memory_of(row: MemoryRow, text: str, offset: int) -> t.Memory:
    text, is_inside = hidden.show_from(text, offset)
    if offset > len(text):
        message = f"offset is {offset:,}; this memory has {len(text):,} characters"
        raise Invalid(message)
    piece = _first_bytes(text[offset:], READ_BYTES)
    following = offset + len(piece)
    if is_inside and piece:
        piece = hidden.CONTINUED + piece
    return t.Memory(
        id=row.id,
        kind=row.kind,
        title=hidden.show(row.title),
        text=piece,
        offset=offset,
        total_chars=len(text),
        scope=row.scope,
        source=hidden.show(row.source),
        writer=hidden.show(row.writer),
        at=rules.render_moment(row.at_ms),
        session_date=row.day,
        tags=_shown_names(row.tags),
        links=_shown_names(row.links),
        next_offset=following if following < len(text) else msgspec.UNSET,
        edited=True if row.edited else msgspec.UNSET,
        writer_authenticated=_authenticated(row),
        untrusted=True if is_import(row) else is_untrusted(row.source),
        origin="import" if is_import(row) else msgspec.UNSET,
    )


def _shown_names(names: Sequence[str]) -> list[str]:
    return [hidden.show(name[:NAME_CHARS]) for name in names[:NAMES_SHOWN]]


def _first_bytes(text: str, most: int) -> str:
    """Return the longest start of a text whose JSON is at most `most` bytes."""
    if len(msgspec.json.encode(text)) <= most:
        return text
    low, high = 0, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        if len(msgspec.json.encode(text[:middle])) <= most:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def fact_of(value: ValueRow, *, dated: bool = False) -> t.Fact:
    """Return a value as an answer; `dated` says whether and until when it holds."""
    is_current = value.to_ms is None and not value.retired
    fact = t.Fact(
        id=value.id,
        subject=hidden.show(value.subject),
        predicate=hidden.show(value.predicate),
        object=hidden.show(value.object),
        statement=hidden.show(value.statement),
        scope=value.scope,
        source=hidden.show(value.source),
        writer=hidden.show(value.writer),
        valid_from=rules.render_moment(value.from_ms),
        writer_authenticated=msgspec.UNSET if value.writer_id else False,
        untrusted=is_untrusted(value.source),
    )
    if not dated:
        return fact
    return msgspec.structs.replace(
        fact,
        current=is_current,
        valid_to=msgspec.UNSET
        if value.to_ms is None
        else rules.render_moment(value.to_ms),
    )


def duplicate_of(value: ValueRow) -> t.Duplicate:
    return t.Duplicate(
        id=value.id,
        subject=hidden.show(value.subject),
        predicate=hidden.show(value.predicate),
        object=hidden.show(value.object),
        scope=value.scope,
    )


def conflict_of(value: ValueRow) -> t.FactConflict:
    return t.FactConflict(
        id=value.id,
        subject=hidden.show(value.subject),
        predicate=hidden.show(value.predicate),
        object=hidden.show(value.object),
        scope=value.scope,
        valid_from=rules.render_moment(value.from_ms),
    )


def writer_conflict_of(overwritten: tuple[str, str, int]) -> t.WriterConflict:
    object_, writer, at_ms = overwritten
    return t.WriterConflict(
        object=hidden.show(object_),
        writer=hidden.show(writer),
        at=rules.render_moment(at_ms),
    )
