"""The derived index: what the store says, made searchable. Never the truth.

One SQLite file that can be deleted at any moment; a version that differs or any
damage means a fresh one. Facts are folded here from ledger events; passages are
words in FTS5. Nothing else writes this file. Source: docs/architecture.md.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw
import msgspec

from . import files, rules
from .errors import Busy
from .markdown import Chunk
from .types import Event, MemoryKind

FORMAT = "7"
"""Raised with every change of the tables: an index of another format is rebuilt."""

TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])

_TABLES = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    """CREATE TABLE file(path TEXT PRIMARY KEY, raw BLOB, device INT, inode INT,
       size INT, mtime_ns INT, problem TEXT) WITHOUT ROWID""",
    """CREATE TABLE memory(num INTEGER PRIMARY KEY, id TEXT UNIQUE, kind TEXT,
       path TEXT, title TEXT, scope TEXT, source TEXT, writer TEXT, writer_id TEXT,
       at_ms INT, day TEXT, text TEXT, bytes INT, edited INT, entry TEXT,
       block BLOB, marker TEXT, request TEXT, tags TEXT, links TEXT)""",
    "CREATE INDEX memory_path ON memory(path)",
    "CREATE INDEX memory_entry ON memory(entry)",
    "CREATE INDEX memory_at ON memory(at_ms)",
    "CREATE INDEX memory_entry_at ON memory(at_ms) WHERE kind='entry'",
    "CREATE INDEX memory_request ON memory(request) WHERE request != ''",
    "CREATE TABLE chunk(num INTEGER PRIMARY KEY, memory INT, heading TEXT, text TEXT)",
    "CREATE INDEX chunk_memory ON chunk(memory)",
    """CREATE VIRTUAL TABLE words USING fts5(title, heading, text, content='',
       contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row')",
    """CREATE TABLE event(id TEXT PRIMARY KEY, at_ms INT, request TEXT, about TEXT,
       writer_id TEXT, writer TEXT, body TEXT) WITHOUT ROWID""",
    "CREATE INDEX event_about ON event(about)",
    "CREATE INDEX event_request ON event(request) WHERE request != ''",
    """CREATE TABLE value(id TEXT PRIMARY KEY, subject_key TEXT, predicate_key TEXT,
       object_key TEXT, scope TEXT, subject TEXT, predicate TEXT, object TEXT,
       statement TEXT, source TEXT, writer TEXT, writer_id TEXT, from_ms INT,
       to_ms INT, retired INT) WITHOUT ROWID""",
    "CREATE INDEX value_key ON value(subject_key, predicate_key, scope)",
)


COPY_PROBLEM = "stands in another file too: here it is text"


class IndexUnusable(Exception):
    """The index cannot be used: it is made anew from the store."""


class IndexFull(Busy):
    """The disk refuses the index room. What it holds still stands."""


FAULTS = (apsw.Error, IndexUnusable)
"""What a read of a broken index may raise."""

_NO_ROOM = frozenset(
    {
        *(apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC),
        *(apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMSIZE),
    }
)


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the index knows of one note, entry or current fact.

    A Struct, as Passage is: a search makes hundreds, and to make a frozen dataclass
    of this many fields takes 2.6 microseconds instead of 0.2 (measured).
    """

    id: str
    kind: MemoryKind
    path: str
    title: str
    scope: str
    source: str = ""
    writer: str = ""
    writer_id: str = ""
    at_ms: int
    day: str
    text: str = ""
    size_bytes: int = 0
    edited: bool = False
    entry: str = ""
    block: bytes = b""
    marker: str = ""
    request: str = ""
    tags: Sequence[str] = ()
    links: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRow:
    """One value of a key, folded from the ledger. `to_ms` None: not superseded."""

    id: str
    subject: str
    predicate: str
    object: str
    statement: str
    scope: str
    source: str
    writer: str
    writer_id: str
    from_ms: int
    to_ms: int | None
    retired: bool


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk found by words; `terms` has a bit set for each query term it holds.

    Of `memory` only what a hit shows is filled in (_FOUND_COLUMNS).
    """

    memory: MemoryRow
    heading_path: Sequence[str]
    text: str
    rank: float
    terms: int


class Index:
    """The workspace's index. One connection, one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._open()
        self._tokenizer = self._db.fts5_tokenizer(*TOKENIZER)
        self._db.register_fts5_function("terms", _terms_held)

    def _open(self) -> apsw.Connection:
        is_new = not self._path.exists()
        try:
            db = apsw.Connection(str(self._path))
            db.set_busy_timeout(2_000)
            db.pragma("journal_mode", "wal")
            db.pragma("synchronous", "normal")
            db.pragma("cache_size", -2_000)
            db.pragma("temp_store", "memory")
            if is_new or not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                self._make_tables(db)
            found = db.execute("SELECT value FROM meta WHERE key='format'").fetchone()
        except apsw.Error as fault:
            raise IndexUnusable(type(fault).__name__) from fault
        if found is None or found[0] != FORMAT:
            db.close()
            raise IndexUnusable("another format")
        return db

    @staticmethod
    def _make_tables(db: apsw.Connection) -> None:
        with db:
            for statement in _TABLES:
                db.execute(statement)
            db.execute(
                "INSERT INTO words(words, rank) VALUES('rank', 'bm25(4.0, 2.0, 1.0)')"
            )
            db.execute("INSERT INTO meta VALUES('format', ?)", (FORMAT,))

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Raises: IndexUnusable when SQLite fails; IndexFull."""
        try:
            with self._db:
                yield
        except apsw.Error as fault:
            if getattr(fault, "extendedresult", 0) in _NO_ROOM:
                message = "the disk has no room for the index: try again later"
                raise IndexFull(message) from fault
            raise IndexUnusable(type(fault).__name__) from fault

    def check(self) -> list[str]:
        """Return what SQLite finds wrong with the file, [] when nothing."""
        found = [row[0] for row in self._db.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    # --- how far of the store has been seen

    def get_meta(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
        return row[0] if row else ""

    def set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def file_stamps(self) -> dict[str, files.Stamp]:
        rows = self._db.execute("SELECT path, device, inode, size, mtime_ns FROM file")
        return {row[0]: files.Stamp(*row[1:]) for row in rows}

    def find_file(self, path: str) -> tuple[bytes, files.Stamp] | None:
        row = self._db.execute(
            "SELECT raw, device, inode, size, mtime_ns FROM file WHERE path=?", (path,)
        ).fetchone()
        return (row[0], files.Stamp(*row[1:])) if row else None

    def put_file(
        self, path: str, raw: bytes, stamp: files.Stamp, problem: str = ""
    ) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO file VALUES(?, ?, ?, ?, ?, ?, ?)",
            (
                path,
                raw,
                stamp.device,
                stamp.inode,
                stamp.size,
                stamp.mtime_ns,
                problem,
            ),
        )

    def remove_file(self, path: str) -> None:
        """Forget a file and all memories read from it."""
        self.remove_memories_of(path)
        self._db.execute("DELETE FROM file WHERE path=?", (path,))

    def file_problems(self) -> list[tuple[str, str]]:
        rows = self._db.execute(
            "SELECT path, problem FROM file WHERE problem != '' ORDER BY path"
        )
        return [(str(path), str(problem)) for path, problem in rows]

    def find_copies(self, entry: str) -> list[tuple[str, bytes]]:
        """Return path and raw name of the files that hold a copy of an entry."""
        rows = self._db.execute(
            "SELECT path, raw FROM file WHERE instr(problem, ?) ORDER BY path",
            (f"entry {entry} {COPY_PROBLEM}",),
        )
        return [(str(path), bytes(raw)) for path, raw in rows]

    # --- memories and their passages

    def put_memory(self, row: MemoryRow) -> int:
        """Insert a memory and return its number for `add_chunks`."""
        self._db.execute(
            "INSERT INTO memory VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                row.id,
                row.kind,
                row.path,
                row.title,
                row.scope,
                row.source,
                row.writer,
                row.writer_id,
                row.at_ms,
                row.day,
                row.text,
                row.size_bytes,
                int(row.edited),
                row.entry,
                row.block,
                row.marker,
                row.request,
                json.dumps(list(row.tags), ensure_ascii=False),
                json.dumps(list(row.links), ensure_ascii=False),
            ),
        )
        return self._db.last_insert_rowid()

    def add_chunks(self, memory: int, title: str, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._db.execute(
                "INSERT INTO chunk VALUES(NULL, ?, ?, ?)",
                (
                    memory,
                    json.dumps(chunk.heading_path, ensure_ascii=False),
                    chunk.text,
                ),
            )
            self._db.execute(
                "INSERT INTO words(rowid, title, heading, text) VALUES(?, ?, ?, ?)",
                (
                    self._db.last_insert_rowid(),
                    searchable(title),
                    searchable(" ".join(chunk.heading_path)),
                    searchable(chunk.text),
                ),
            )

    def remove_memories_of(self, path: str) -> None:
        for (num,) in self._db.execute(
            "SELECT num FROM memory WHERE path=?", (path,)
        ).fetchall():
            self._remove_memory(num)

    def _remove_memory(self, num: object) -> None:
        self._db.execute(
            "DELETE FROM words WHERE rowid IN (SELECT num FROM chunk WHERE memory=?)",
            (num,),
        )
        self._db.execute("DELETE FROM chunk WHERE memory=?", (num,))
        self._db.execute("DELETE FROM memory WHERE num=?", (num,))

    def remove_memory(self, memory_id: str) -> None:
        row = self._db.execute(
            "SELECT num FROM memory WHERE id=?", (memory_id,)
        ).fetchone()
        if row:
            self._remove_memory(row[0])

    def find_memory(self, memory_id: str) -> MemoryRow | None:
        return self._find_row("id=?", memory_id)

    def find_entry(self, entry: str) -> MemoryRow | None:
        """Return the entry with this entry id, in whatever file it stands."""
        return self._find_row("entry=?", entry)

    def find_entry_by_request(self, request: str) -> MemoryRow | None:
        return self._find_row("request=?", request)

    def _find_row(self, where: str, value: str) -> MemoryRow | None:
        row = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS} FROM memory WHERE {where}",
            (value,),
        ).fetchone()
        return _memory_row(row) if row else None

    def entries_of(self, path: str) -> list[MemoryRow]:
        rows = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS} FROM memory "
            "WHERE path=? AND kind='entry' ORDER BY num",
            (path,),
        )
        return [_memory_row(row) for row in rows]

    def recent_entries(self, text: str, since_ms: int) -> list[MemoryRow]:
        """Return entries of just these words saved since a moment, oldest first."""
        rows = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS} FROM memory "
            "WHERE at_ms >= ? AND kind='entry' AND text = ? ORDER BY at_ms",
            (since_ms, text),
        )
        return [_memory_row(row) for row in rows]

    def newest(self, scopes: Sequence[str] | None, limit: int) -> list[MemoryRow]:
        """Return the newest memories, a day log without hand text left out."""
        rows = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS} FROM memory WHERE {_IN_SCOPE} "
            "AND (kind != 'note' OR bytes > 0) ORDER BY at_ms DESC LIMIT ?2",
            (_scopes(scopes), limit),
        )
        return [_memory_row(row) for row in rows]

    def paths(self, scopes: Sequence[str]) -> set[str]:
        """Return the paths of files that hold a memory in one of the scopes."""
        rows = self._db.execute(
            f"SELECT DISTINCT path FROM memory WHERE path != '' AND {_IN_SCOPE}",
            (_scopes(scopes),),
        )
        return {str(row[0]) for row in rows}

    def chunks_of(self, memory_id: str) -> list[str]:
        rows = self._db.execute(
            "SELECT chunk.text FROM chunk JOIN memory ON memory.num = chunk.memory "
            "WHERE memory.id=? ORDER BY chunk.num",
            (memory_id,),
        )
        return [row[0] for row in rows]

    def counts(self, scopes: Sequence[str] | None) -> Mapping[str, int]:
        """Return numbers of memories by kind, chunks, values and bytes in scope."""
        found = dict.fromkeys(
            ("note", "entry", "fact", "chunks", "bytes", "values", "retired"), 0
        )
        for kind, count, size in self._db.execute(
            f"SELECT kind, count(*), sum(bytes) FROM memory WHERE {_IN_SCOPE} "
            "GROUP BY kind",
            (_scopes(scopes),),
        ):
            found[kind] = count
            found["bytes"] += size or 0
        found["chunks"] = self._one(
            "SELECT count(*) FROM chunk JOIN memory ON memory.num = chunk.memory "
            f"WHERE kind != 'fact' AND {_IN_SCOPE}",
            _scopes(scopes),
        )
        for retired, count in self._db.execute(
            f"SELECT retired, count(*) FROM value WHERE {_IN_SCOPE} GROUP BY retired",
            (_scopes(scopes),),
        ):
            found["retired" if retired else "values"] = count
        found["things"] = self._one(
            "SELECT count(DISTINCT subject_key) FROM value "
            f"WHERE retired = 0 AND {_IN_SCOPE}",
            _scopes(scopes),
        )
        return found

    def retired_entries(self, scopes: Sequence[str] | None) -> int:
        """Return how many entries the ledger's last word calls retired."""
        return self._one(
            "SELECT count(*) FROM (SELECT body->>'kind' AS kind, "
            "coalesce(body->>'scope', 'global') AS scope, max(id) FROM event "
            "WHERE about LIKE 'entry:%' GROUP BY about) "
            f"WHERE kind = 'retire' AND {_IN_SCOPE}",
            _scopes(scopes),
        )

    def _one(self, sql: str, *values: str | int | None) -> int:
        row = self._db.execute(sql, values).fetchone()
        return row[0] if row else 0

    # --- facts: the ledger folded

    def last_event(self) -> tuple[str, int]:
        """Return id and moment of the newest thing written: event or entry."""
        event = self._db.execute(
            "SELECT id, at_ms FROM event ORDER BY id DESC LIMIT 1"
        ).fetchone() or ("", 0)
        entry_ms = self._one(
            "SELECT coalesce(max(at_ms), 0) FROM memory WHERE kind='entry'"
        )
        return event[0], max(event[1], entry_ms)

    def has_event(self, event_id: str) -> bool:
        return bool(self._one("SELECT 1 FROM event WHERE id=?", event_id))

    def event_ids(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT id FROM event")}

    def find_event_by_request(self, request: str) -> Event | None:
        row = self._db.execute(
            "SELECT body FROM event WHERE request=? ORDER BY id LIMIT 1", (request,)
        ).fetchone()
        return _events.decode(row[0]) if row else None

    def get_events(self, ids: Iterable[str]) -> list[Event]:
        wanted = json.dumps(sorted(ids))
        rows = self._db.execute(
            "SELECT body FROM event WHERE id IN (SELECT value FROM json_each(?)) "
            "ORDER BY id",
            (wanted,),
        )
        return [_events.decode(row[0]) for row in rows]

    def get_line(self, event_id: str) -> bytes:
        """Return an event's line as it stood in the ledger. Raises: KeyError."""
        row = self._db.execute(
            "SELECT body FROM event WHERE id=?", (event_id,)
        ).fetchone()
        if row is None:
            raise KeyError(event_id)
        return str(row[0]).encode()

    def find_hand_retirement(self, memory_id: str) -> Event | None:
        """Return the event of a retirement by hand that still holds."""
        row = self._db.execute(
            "SELECT body FROM event WHERE about=? ORDER BY id DESC LIMIT 1",
            (memory_id,),
        ).fetchone()
        event = _events.decode(row[0]) if row else None
        return event if event and (event.kind, event.by) == ("retire", "hand") else None

    def lines_of(self, value_id: str) -> list[Event]:
        """Return the save and the repeats of a value, oldest first."""
        event_id = value_id.removeprefix("fact:")
        rows = self._db.execute(
            "SELECT body FROM event WHERE id=?1 OR about=?2 ORDER BY id",
            (event_id, f"fact:{event_id}"),
        )
        events = [_events.decode(row[0]) for row in rows]
        return [event for event in events if event.kind in ("save", "repeat")]

    def clear_facts(self) -> None:
        """Forget every event and value, before the ledger is folded anew."""
        for (num,) in self._db.execute(
            "SELECT num FROM memory WHERE kind='fact'"
        ).fetchall():
            self._remove_memory(num)
        self._db.execute("DELETE FROM event")
        self._db.execute("DELETE FROM value")

    def apply_event(self, event: Event, line: bytes = b"") -> None:
        """Fold one event; events come in the order of their ids, each once.

        `line` is its line in the ledger, kept so that it can be put back whole.
        """
        at_ms = rules.parse_moment("recorded_at", event.recorded_at)
        self._db.execute(
            "INSERT INTO event VALUES(?, ?, ?, ?, ?, ?, ?)",
            (
                event.id,
                at_ms,
                event.request,
                event.about,
                event.writer_id,
                event.writer,
                (line or msgspec.json.encode(event)).decode(),
            ),
        )
        if event.kind == "save":
            self._open_value(event, at_ms)
        elif event.kind == "repeat" and event.statement:
            self._restate(event)
        elif event.kind in ("retire", "restore") and event.about.startswith("fact:"):
            self._set_retired(event.about, is_retired=event.kind == "retire")

    def _open_value(self, event: Event, at_ms: int) -> None:
        key = (
            rules.fold_name(event.subject),
            rules.fold_name(event.predicate),
            event.scope,
        )
        from_ms = (
            rules.parse_moment("valid_from", event.valid_from)
            if event.valid_from
            else at_ms
        )
        for (closed,) in self._db.execute(
            "UPDATE value SET to_ms=? WHERE subject_key=? AND predicate_key=? "
            "AND scope=? AND to_ms IS NULL RETURNING id",
            (from_ms, *key),
        ).fetchall():
            self.remove_memory(str(closed))
        value_id = f"fact:{event.id}"
        self._db.execute(
            "INSERT INTO value VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,NULL,0)",
            (
                value_id,
                key[0],
                key[1],
                rules.fold_name(event.object),
                event.scope,
                event.subject,
                event.predicate,
                event.object,
                event.statement,
                event.source,
                event.writer,
                event.writer_id,
                from_ms,
            ),
        )
        self._show_current(value_id)

    def _restate(self, event: Event) -> None:
        self._db.execute(
            "UPDATE value SET statement=? WHERE id=?", (event.statement, event.about)
        )
        self._show_current(event.about)

    def _set_retired(self, value_id: str, *, is_retired: bool) -> None:
        self._db.execute(
            "UPDATE value SET retired=? WHERE id=?", (int(is_retired), value_id)
        )
        self._show_current(value_id)

    def _show_current(self, value_id: str) -> None:
        """Make the value searchable exactly if it is current and not retired."""
        self.remove_memory(value_id)
        value = self.find_value(value_id)
        if value is None or value.retired or value.to_ms is not None:
            return
        title = f"{value.subject} {value.predicate}: {value.object}"
        row = MemoryRow(
            id=value_id,
            kind="fact",
            path="",
            title=title[:120],
            scope=value.scope,
            source=value.source,
            writer=value.writer,
            writer_id=value.writer_id,
            at_ms=value.from_ms,
            day=rules.render_day(value.from_ms),
        )
        words = "\n".join(
            (value.subject, value.predicate, value.object, value.statement)
        )
        self.add_chunks(self.put_memory(row), "", [Chunk((), words)])

    def find_value(self, value_id: str) -> ValueRow | None:
        return next(iter(self._values("id=?1", (value_id,))), None)

    def current_value(
        self, subject: str, predicate: str, scope: str
    ) -> ValueRow | None:
        """Return the open value of a key, retired ones left out."""
        found = self._values(
            "subject_key=?1 AND predicate_key=?2 AND scope=?3 AND to_ms IS NULL "
            "AND retired=0",
            (rules.fold_name(subject), rules.fold_name(predicate), scope),
        )
        return found[0] if found else None

    def values_of(
        self, subject: str, predicate: str, scopes: Sequence[str] | None
    ) -> list[ValueRow]:
        """Return every value of a subject that is not retired, newest first."""
        return self._values(
            f"{_IN_SCOPE} AND subject_key=?2 AND (?3='' OR predicate_key=?3) "
            "AND retired=0",
            (_scopes(scopes), rules.fold_name(subject), rules.fold_name(predicate)),
        )

    def newest_values(self, scopes: Sequence[str] | None, limit: int) -> list[ValueRow]:
        """Return current values, newest first."""
        return self._values(
            f"{_IN_SCOPE} AND to_ms IS NULL AND retired=0",
            (_scopes(scopes),),
            limit=limit,
        )

    def subjects(self, scopes: Sequence[str] | None, limit: int) -> list[str]:
        """Return subjects that have a live value, the newest first."""
        rows = self._db.execute(
            f"SELECT subject FROM value WHERE {_IN_SCOPE} AND retired=0 "
            "GROUP BY subject_key ORDER BY max(from_ms) DESC LIMIT ?2",
            (_scopes(scopes), limit),
        )
        return [row[0] for row in rows]

    def _values(
        self, where: str, values: tuple[str | None, ...], *, limit: int = -1
    ) -> list[ValueRow]:
        rows = self._db.execute(
            f"SELECT {_VALUE_COLUMNS} FROM value WHERE {where} "
            f"ORDER BY from_ms DESC, id DESC LIMIT {limit:d}",
            values,
        )
        return [
            ValueRow(
                id=r[0],
                subject=r[1],
                predicate=r[2],
                object=r[3],
                statement=r[4],
                scope=r[5],
                source=r[6],
                writer=r[7],
                writer_id=r[8],
                from_ms=r[9],
                to_ms=r[10],
                retired=bool(r[11]),
            )
            for r in rows
        ]

    # --- words

    def stems(self, word: str) -> list[str]:
        """Return the terms under which the index keeps a word (none for `?`)."""
        spaced = searchable(word).encode()
        found = self._tokenizer(
            spaced, apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False
        )
        return [str(token[0]) for token in found]

    def frequencies(self, stems: Iterable[str]) -> dict[str, int]:
        """Return in how many passages each stem stands; absent ones are left out."""
        rows = self._db.execute(
            "SELECT term, doc FROM vocabulary "
            "WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(list(stems), ensure_ascii=False),),
        )
        return dict(rows)

    def passage_count(self) -> int:
        return self._one("SELECT count(*) FROM chunk")

    def search(
        self,
        terms: Sequence[str],
        *,
        scopes: Sequence[str] | None,
        facts: bool,
        limit: int,
    ) -> list[Passage]:
        """Return passages holding any of the terms, best BM25 first.

        A term is a word, or several: then they must follow each other.
        """
        if not terms:
            return []
        match = " OR ".join(_quote(term) for term in terms)
        kind = "=" if facts else "!="
        rows = self._db.execute(
            f"SELECT {_FOUND_COLUMNS} FROM words JOIN chunk ON chunk.num = words.rowid "
            "JOIN memory ON memory.num = chunk.memory "
            f"WHERE words MATCH ?2 AND memory.kind {kind} 'fact' AND {_IN_SCOPE} "
            "ORDER BY words.rank LIMIT ?3",
            (_scopes(scopes), match, limit),
        )
        return [
            Passage(
                memory=MemoryRow(
                    id=row[0],
                    kind=row[1],
                    path=row[2],
                    title=row[3],
                    scope=row[4],
                    source=row[5],
                    writer=row[6],
                    writer_id=row[7],
                    at_ms=row[8],
                    day=row[9],
                    edited=bool(row[10]),
                ),
                heading_path=_headings.decode(row[11]),
                text=row[12],
                rank=-row[13],
                terms=row[14],
            )
            for row in rows
        ]


_MEMORY_COLUMNS = ", ".join(
    f"memory.{column}"
    for column in (
        *("id", "kind", "path", "title", "scope", "source", "writer", "writer_id"),
        *("at_ms", "day", "text", "bytes", "edited", "entry", "block", "marker"),
        *("request", "tags", "links"),
    )
)
# Without the memory's text: a day's whole log would be read for each of its passages.
_FOUND_COLUMNS = (
    "memory.id, memory.kind, memory.path, memory.title, memory.scope, memory.source, "
    "memory.writer, memory.writer_id, memory.at_ms, memory.day, memory.edited, "
    "chunk.heading, chunk.text, words.rank, terms(words)"
)
_VALUE_COLUMNS = (
    "id, subject, predicate, object, statement, scope, source, writer, writer_id, "
    "from_ms, to_ms, retired"
)
_IN_SCOPE = "(?1 IS NULL OR scope IN (SELECT value FROM json_each(?1)))"
_events = msgspec.json.Decoder(Event)
_headings = msgspec.json.Decoder(list[str])


def _scopes(scopes: Sequence[str] | None) -> str | None:
    return None if scopes is None else json.dumps(list(scopes))


def _memory_row(row: Sequence[object]) -> MemoryRow:
    """Name the columns of _MEMORY_COLUMNS."""
    return MemoryRow(
        id=str(row[0]),
        kind=cast("MemoryKind", row[1]),
        path=str(row[2]),
        title=str(row[3]),
        scope=str(row[4]),
        source=str(row[5]),
        writer=str(row[6]),
        writer_id=str(row[7]),
        at_ms=int(str(row[8])),
        day=str(row[9]),
        text=str(row[10]),
        size_bytes=int(str(row[11])),
        edited=bool(row[12]),
        entry=str(row[13]),
        block=bytes(row[14]) if isinstance(row[14], bytes) else b"",
        marker=str(row[15]),
        request=str(row[16]),
        tags=json.loads(str(row[17])),
        links=json.loads(str(row[18])),
    )


def _quote(term: str) -> str:
    """Return a term as an FTS5 string: operators in it are ordinary characters."""
    return '"' + searchable(term).replace('"', '""') + '"'


# Kana, CJK, hangul: in NFC, one character a syllable or an idea.
_IDEOGRAPH = re.compile(
    "([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])"
)


def searchable(text: str) -> str:
    """Return a text as its words are kept and looked for.

    Accents and case are taken away in every script (unicode61 knows Latin's alone).
    Chinese, Japanese and Korean characters stand apart, each a word: unicode61 takes
    a run of them for one; apart, a query of two is a phrase.
    """
    if text.isascii():
        return text
    parts = _IDEOGRAPH.split(unicodedata.normalize("NFC", text))
    parts[::2] = map(rules.fold_search, parts[::2])
    return " ".join(parts) if len(parts) > 1 else parts[0]


def _terms_held(api: apsw.FTS5ExtensionApi, *_: object) -> int:
    """Return a bit for each phrase of the query that the current row holds."""
    return sum(
        1 << phrase
        for phrase in range(api.phrase_count)
        if len(api.phrase_columns(phrase))
    )
