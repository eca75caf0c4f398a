"""Memories and their passages: the part of the index that is searched by words.

A memory is a note, an entry or a current fact; a passage is a chunk of it, kept in
FTS5. Whoever calls holds the transaction. Source: docs/architecture.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import cast

import apsw
import msgspec

from . import names
from .chunks import Chunk
from .types import MemoryKind
from .words import IN_SCOPE as IN_SCOPE
from .words import TOKENIZER, quote
from .words import match_any as match_any
from .words import scopes_json as scopes_json
from .words import searchable as searchable

TABLES = (
    """CREATE TABLE memory(num INTEGER PRIMARY KEY, id TEXT UNIQUE, kind TEXT,
       path TEXT, title TEXT, scope TEXT, source TEXT, writer TEXT, writer_id TEXT,
       at_ms INT, day TEXT, text TEXT, bytes INT, edited INT, entry TEXT,
       block BLOB, marker TEXT, request TEXT, tags TEXT, links TEXT,
       aliases TEXT, replaces TEXT)""",
    "CREATE INDEX memory_path ON memory(path)",
    "CREATE INDEX memory_entry ON memory(entry)",
    "CREATE INDEX memory_at ON memory(at_ms)",
    "CREATE INDEX memory_entry_at ON memory(at_ms) WHERE kind='entry'",
    "CREATE INDEX memory_replaces ON memory(replaces) WHERE replaces != ''",
    "CREATE INDEX memory_request ON memory(request) WHERE request != ''",
    # `inside`: it begins within an HTML comment.
    """CREATE TABLE chunk(num INTEGER PRIMARY KEY, memory INT, heading TEXT, text TEXT,
       inside INT)""",
    "CREATE INDEX chunk_memory ON chunk(memory)",
    """CREATE VIRTUAL TABLE words USING fts5(title, heading, text, front, content='',
       contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, 'row')",
    "INSERT INTO words(words, rank) VALUES('rank', 'bm25(4.0, 2.0, 1.0, 1.0)')",
    *names.TABLES,
)


FACT_CHUNKS = 1 << 40
MOST_CHUNKS = 1 << 41
"""Chunks of facts are numbered from FACT_CHUNKS on."""


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
    aliases: Sequence[str] = ()
    replaces: str = ""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk found by words; `terms` has a bit set for each query term it holds,
    `in_text` for those that stand in more than title and front matter. `inside`: it
    begins within an HTML comment.

    Of `memory` only what a hit shows is filled in (_FOUND_COLUMNS).
    """

    memory: MemoryRow
    heading_path: Sequence[str]
    text: str
    rank: float = 0.0
    terms: int = 0
    in_text: int = 0
    inside: bool = False


class Passages:
    """The tables of memories, chunks and words, on the index's connection."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._tokenizer = db.fts5_tokenizer(*TOKENIZER)
        self._comment = (0, False)
        self.names = names.Names(db)
        db.register_fts5_function("terms", _terms_held)

    def put_memory(self, row: MemoryRow) -> int:
        """Insert a memory and return its number for `add_chunks`."""
        self._db.execute(
            "INSERT INTO memory VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
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
                json.dumps(list(row.aliases), ensure_ascii=False),
                lasting_id(row.replaces),
            ),
        )
        number = self._db.last_insert_rowid()
        if row.kind == "note" and row.size_bytes:
            is_day = row.path.endswith(f"{row.day}.md") and row.title == row.day
            title = "" if is_day else row.title
            self.names.put(number, row.path, title, row.tags, row.aliases)
        return number

    def add_chunks(
        self, memory: int, title: str, chunks: Iterable[Chunk], *, is_fact: bool = False
    ) -> None:
        for chunk in chunks:
            number = self._next_chunk(is_fact=is_fact)
            front = 0 if self._comment[0] == memory else _front_end(chunk.text)
            inside = self._is_inside_comment(memory)
            self._comment = (memory, _leaves_comment_open(chunk.text, inside))
            self._db.execute(
                "INSERT INTO chunk VALUES(?, ?, ?, ?, ?)",
                (
                    number,
                    memory,
                    json.dumps(chunk.heading_path, ensure_ascii=False),
                    chunk.text,
                    int(inside),
                ),
            )
            self._db.execute(
                "INSERT INTO words(rowid, title, heading, text, front) "
                "VALUES(?, ?, ?, ?, ?)",
                (
                    number,
                    searchable(title),
                    searchable(" ".join(chunk.heading_path)),
                    searchable(chunk.text[front:]),
                    searchable(chunk.text[:front]),
                ),
            )

    def _next_chunk(self, *, is_fact: bool) -> int:
        """Return the number of a new chunk; those of facts are a range of their own."""
        first, last = (FACT_CHUNKS, MOST_CHUNKS) if is_fact else (0, FACT_CHUNKS)
        newest = self._count(
            f"SELECT coalesce(max(num), {first:d}) FROM chunk "
            f"WHERE num BETWEEN {first:d} AND {last:d} - 1"
        )
        return newest + 1

    def _is_inside_comment(self, memory: int) -> bool:
        """Whether a memory's next chunk begins within an HTML comment."""
        if self._comment[0] == memory:
            return self._comment[1]
        row = self._db.execute(
            "SELECT text, inside FROM chunk WHERE memory=? ORDER BY num DESC LIMIT 1",
            (memory,),
        ).fetchone()
        return row is not None and _leaves_comment_open(str(row[0]), bool(row[1]))

    def remove_memories_of(self, path: str) -> None:
        for (num,) in self._db.execute(
            "SELECT num FROM memory WHERE path=?", (path,)
        ).fetchall():
            self._remove_memory(int(str(num)))

    def _remove_memory(self, num: int) -> None:
        self._comment = (0, False)  # a number may be given again
        self._db.execute(
            "DELETE FROM words WHERE rowid IN (SELECT num FROM chunk WHERE memory=?)",
            (num,),
        )
        self._db.execute("DELETE FROM chunk WHERE memory=?", (num,))
        self._db.execute("DELETE FROM memory WHERE num=?", (num,))
        self.names.remove(num)

    def remove_memory(self, memory_id: str) -> None:
        row = self._db.execute(
            "SELECT num FROM memory WHERE id=?", (memory_id,)
        ).fetchone()
        if row:
            self._remove_memory(int(str(row[0])))

    def find_memory(self, memory_id: str) -> MemoryRow | None:
        return self._find_row("id=?", memory_id)

    def find_entry(self, entry: str) -> MemoryRow | None:
        """Return the entry with this entry id, in whatever file it stands."""
        return self._find_row("entry=?", entry)

    def find_entry_elsewhere(self, entry: str, path: str) -> MemoryRow | None:
        """Return the entry with this entry id as it stands in any file but one."""
        return self._find_row("entry=? AND path!=?", entry, path)

    def find_entry_by_request(self, request: str) -> MemoryRow | None:
        return self._find_row("request=?", request)

    def _find_row(self, where: str, *values: str) -> MemoryRow | None:
        row = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS} FROM memory WHERE {where}", values
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
            f"SELECT {_MEMORY_COLUMNS} FROM memory WHERE {IN_SCOPE} "
            "AND (kind != 'note' OR bytes > 0) ORDER BY at_ms DESC LIMIT ?2",
            (scopes_json(scopes), limit),
        )
        return [_memory_row(row) for row in rows]

    def paths(self, scopes: Sequence[str]) -> set[str]:
        """Return the paths of files that hold a memory in one of the scopes."""
        rows = self._db.execute(
            f"SELECT DISTINCT path FROM memory WHERE path != '' AND {SEEN}",
            (scopes_json(scopes),),
        )
        return {str(row[0]) for row in rows}

    def corrections(
        self, memory_ids: Iterable[str], scopes: Sequence[str] | None
    ) -> dict[str, list[MemoryRow]]:
        """Return the live memories that replace each of these, by lasting id, the
        oldest first.
        """
        rows = self._db.execute(
            f"SELECT {_MEMORY_COLUMNS}, replaces FROM memory WHERE {IN_SCOPE} "
            "AND replaces != '' AND replaces IN (SELECT value FROM json_each(?2)) "
            "ORDER BY at_ms",
            (scopes_json(scopes), json.dumps([lasting_id(one) for one in memory_ids])),
        )
        found: dict[str, list[MemoryRow]] = {}
        for row in rows:
            found.setdefault(str(row[-1]), []).append(_memory_row(row))
        return found

    def count_kinds(
        self, scopes: Sequence[str] | None
    ) -> dict[MemoryKind, tuple[int, int]]:
        """Return the number of memories of each kind in scope, and their bytes."""
        rows = self._db.execute(
            f"SELECT kind, count(*), sum(bytes) FROM memory WHERE {SEEN} GROUP BY kind",
            (scopes_json(scopes),),
        )
        return {row[0]: (row[1], row[2] or 0) for row in rows}

    def count_chunks(self, scopes: Sequence[str] | None) -> int:
        """Return the number of chunks of notes and entries in scope."""
        row = self._db.execute(
            "SELECT count(*) FROM chunk JOIN memory ON memory.num = chunk.memory "
            f"WHERE kind != 'fact' AND {IN_SCOPE}",
            (scopes_json(scopes),),
        ).fetchone()
        return int(row[0]) if row else 0

    def newest_entry_ms(self) -> int:
        """Return the moment of the newest entry, 0 when there is none."""
        row = self._db.execute(
            "SELECT coalesce(max(at_ms), 0) FROM memory WHERE kind='entry'"
        ).fetchone()
        return int(row[0]) if row else 0

    def remove_facts(self) -> None:
        """Forget all facts as memories, before the ledger is folded anew."""
        for (num,) in self._db.execute(
            "SELECT num FROM memory WHERE kind='fact'"
        ).fetchall():
            self._remove_memory(int(str(num)))

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

    def count_holding(
        self, terms: Iterable[str], scopes: Sequence[str], most: int
    ) -> list[int]:
        """Return in how many passages of these scopes each term stands, counted up to
        `most`.

        For whoever may see some scopes alone: figures of all would tell of the rest.
        """
        return [
            self._count(
                "SELECT count(*) FROM (SELECT 1 FROM words "
                "JOIN chunk ON chunk.num = words.rowid "
                "JOIN memory ON memory.num = chunk.memory "
                f"WHERE words MATCH ?2 AND {IN_SCOPE} LIMIT ?3)",
                scopes_json(scopes),
                quote(term),
                most,
            )
            for term in terms
        ]

    def count_passages(self, scopes: Sequence[str]) -> int:
        return self._count(
            "SELECT count(*) FROM chunk JOIN memory ON memory.num = chunk.memory "
            f"WHERE {IN_SCOPE}",
            scopes_json(scopes),
        )

    def _count(self, sql: str, *values: str | int | None) -> int:
        row = self._db.execute(sql, values).fetchone()
        return int(row[0]) if row else 0

    def passage_count(self) -> int:
        row = self._db.execute("SELECT count(*) FROM chunk").fetchone()
        return int(row[0]) if row else 0

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
        match = match_any(terms)
        # A range of numbers, which FTS5 knows before it ranks: of the other kind
        # nothing is ranked, nor looked up.
        side = ">" if facts else "<"
        rows = self._db.execute(
            f"SELECT {_FOUND_COLUMNS} FROM words JOIN chunk ON chunk.num = words.rowid "
            "JOIN memory ON memory.num = chunk.memory "
            f"WHERE words MATCH ?2 AND words.rowid {side} {FACT_CHUNKS:d} "
            f"AND {IN_SCOPE} "
            "ORDER BY words.rank LIMIT ?3",
            (scopes_json(scopes), match, limit),
        )
        return [_passage(row) for row in rows]

    def ids_of(self, numbers: Sequence[int]) -> dict[int, str]:
        rows = self._db.execute(
            "SELECT num, id FROM memory WHERE num IN (SELECT value FROM json_each(?))",
            (json.dumps(list(numbers)),),
        )
        return {int(str(row[0])): str(row[1]) for row in rows}

    def first_passages(
        self, memory_ids: Sequence[str], scopes: Sequence[str] | None
    ) -> list[Passage]:
        """Return of each of these memories in scope the first chunk, or without one
        an empty text.
        """
        rows = self._db.execute(
            f"SELECT {_MEMORY_FOUND}, coalesce(heading, '[]'), "
            "coalesce(chunk.text, ''), 0.0, '0 0', coalesce(inside, 0) FROM memory "
            "LEFT JOIN chunk ON chunk.num = "
            "(SELECT min(num) FROM chunk WHERE chunk.memory = memory.num) "
            f"WHERE memory.id IN (SELECT value FROM json_each(?2)) AND {SEEN}",
            (scopes_json(scopes), json.dumps(list(memory_ids))),
        )
        return [_passage(row) for row in rows]

    def links_of(self, memory_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return what each of these memories links to, as written."""
        rows = self._db.execute(
            "SELECT id, links FROM memory "
            "WHERE links != '[]' AND id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(memory_ids)),),
        )
        return {str(row[0]): json.loads(str(row[1])) for row in rows}

    # --- the map

    def newest_words(self, scopes: Sequence[str] | None, limit: int) -> list[MemoryRow]:
        """Return the newest notes and entries, without their texts."""
        return self._map_rows("1", (scopes_json(scopes), limit))

    def newest_holding(
        self, term: str, scopes: Sequence[str] | None, limit: int
    ) -> list[MemoryRow]:
        """Return the newest notes and entries that hold a term."""
        return self._map_rows(_HOLDING, (scopes_json(scopes), limit, match_any([term])))

    def _map_rows(
        self, where: str, values: tuple[str | int | None, ...]
    ) -> list[MemoryRow]:
        rows = self._db.execute(
            f"SELECT {_MEMORY_FOUND} FROM memory WHERE {_IS_WORDS} AND {IN_SCOPE} "
            f"AND {where} ORDER BY at_ms DESC, id DESC LIMIT ?2",
            values,
        )
        return [_found_row(row) for row in rows]

    def count_words(
        self, scopes: Sequence[str] | None, terms: Sequence[str] = ()
    ) -> int:
        """Return the number of notes and entries, of those that hold any term."""
        sql = f"SELECT count(*) FROM memory WHERE {_IS_WORDS} AND {IN_SCOPE}"
        if not terms:
            return self._count(sql, scopes_json(scopes))
        return self._count(
            f"{sql} AND {_HOLDING}", scopes_json(scopes), None, match_any(terms)
        )

    def count_entries(self, scopes: Sequence[str] | None) -> int:
        return self._count(
            f"SELECT count(*) FROM memory WHERE kind = 'entry' AND {IN_SCOPE}",
            scopes_json(scopes),
        )

    def tags(self, scopes: Sequence[str] | None) -> list[tuple[str, int]]:
        """Return every tag and in how many memories it stands, the most used first."""
        rows = self._db.execute(
            "SELECT json_each.value, count(*) AS uses FROM memory, "
            f"json_each(memory.tags) WHERE tags != '[]' AND {IN_SCOPE} "
            "GROUP BY 1 ORDER BY uses DESC, 1",
            (scopes_json(scopes),),
        )
        return [(str(row[0]), int(str(row[1]))) for row in rows]

    def newest_links(
        self, column: str, scopes: Sequence[str] | None, limit: int
    ) -> list[tuple[str, str, str]]:
        """Return id and path of a memory, and a tag or link (`column`) of it."""
        rows = self._db.execute(
            "SELECT memory.id, memory.path, json_each.value FROM memory, "
            f"json_each(memory.{column}) WHERE {column} != '[]' AND {IN_SCOPE} "
            "ORDER BY at_ms DESC, memory.id, json_each.key LIMIT ?2",
            (scopes_json(scopes), limit),
        )
        return [(str(row[0]), str(row[1]), str(row[2])) for row in rows]

    def count_links(self, column: str, scopes: Sequence[str] | None) -> int:
        return self._count(
            f"SELECT coalesce(sum(json_array_length({column})), 0) FROM memory "
            f"WHERE {column} != '[]' AND {IN_SCOPE}",
            scopes_json(scopes),
        )

    def newest_saves(self, scopes: Sequence[str] | None, limit: int) -> list[MemoryRow]:
        """Return the entries saved last."""
        return self._map_rows("kind = 'entry'", (scopes_json(scopes), limit))


_MEMORY_COLUMNS = ", ".join(
    f"memory.{column}"
    for column in (
        *("id", "kind", "path", "title", "scope", "source", "writer", "writer_id"),
        *("at_ms", "day", "text", "bytes", "edited", "entry", "block", "marker"),
        *("request", "tags", "links", "aliases"),
    )
)
# Without the memory's text: a day's whole log would be read for each of its passages.
_MEMORY_FOUND = (
    "memory.id, memory.kind, memory.path, memory.title, memory.scope, memory.source, "
    "memory.writer, memory.writer_id, memory.at_ms, memory.day, memory.edited"
)
_FOUND_COLUMNS = (
    f"{_MEMORY_FOUND}, chunk.heading, chunk.text, words.rank, terms(words), "
    "chunk.inside"
)
SEEN = f"{IN_SCOPE} AND NOT (?1 IS NOT NULL AND kind = 'note' AND bytes = 0)"
"""An empty note, such as a day log's own, belongs to no scope: whoever may see some
scopes alone is not told of it, or its name would tell when others saved."""
_IS_WORDS = "kind != 'fact' AND (kind = 'entry' OR bytes > 0)"
_HOLDING = (
    "memory.num IN (SELECT memory FROM chunk WHERE num IN "
    "(SELECT rowid FROM words WHERE words MATCH ?3))"
)
_headings = msgspec.json.Decoder(list[str])


def lasting_id(memory_id: str) -> str:
    """Return an id that a move of the file does not change: an entry's without path."""
    if memory_id.startswith("entry:"):
        return "#" + memory_id.rpartition("#")[2]
    return memory_id


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
        aliases=json.loads(str(row[19])) or (),
    )


def _found_row(row: Sequence[object]) -> MemoryRow:
    """Name the columns of _MEMORY_FOUND."""
    said = cast("_MemoryFound", row)
    return MemoryRow(
        id=said[0],
        kind=said[1],
        path=said[2],
        title=said[3],
        scope=said[4],
        source=said[5],
        writer=said[6],
        writer_id=said[7],
        at_ms=said[8],
        day=said[9],
        edited=bool(said[10]),
    )


def _passage(row: Sequence[object]) -> Passage:
    """Name the columns of _FOUND_COLUMNS."""
    heading, text, rank, terms, inside = cast("_PassageFound", row[11:])
    held, _, in_text = terms.partition(" ")
    return Passage(
        memory=_found_row(row),
        heading_path=_headings.decode(heading),
        text=text,
        rank=-rank,
        terms=int(held),
        in_text=int(in_text),
        inside=bool(inside),
    )


_MemoryFound = tuple[str, MemoryKind, str, str, str, str, str, str, int, str, int]
_PassageFound = tuple[str, str, float, str, int]

NAME_COLUMNS = frozenset({0, 3})
"""Title and front matter: what stands there alone names a note, and is no text."""

_FRONT = re.compile(
    r"---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)


def _front_end(text: str) -> int:
    """Return where the front matter that opens a chunk ends, 0 without one."""
    found = _FRONT.match(text)
    return found.end() if found else 0


def _terms_held(api: apsw.FTS5ExtensionApi, *_: object) -> str:
    """Return two numbers with a bit for each phrase of the query that the current row
    holds: anywhere, and in more than its title.
    """
    held = in_text = 0
    for phrase in range(api.phrase_count):
        columns = api.phrase_columns(phrase)
        if columns:
            held |= 1 << phrase
            if not NAME_COLUMNS.issuperset(columns):
                in_text |= 1 << phrase
    return f"{held} {in_text}"


def _leaves_comment_open(text: str, inside: bool) -> bool:
    """Whether a chunk ends within an HTML comment, given whether it begins in one."""
    opened = text.rfind("<!--")
    closed = text.rfind("-->")
    if opened < 0 and closed < 0:
        return inside
    return opened > closed
