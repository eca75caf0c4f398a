"""Facts: the ledger's events folded into values. Part of the index.

A key (subject, predicate, scope) has one open value at most; what a key held
before stays as history. Whoever calls holds the transaction. How events fold is
specified in docs/store-format.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import apsw
import msgspec

from . import rules
from .chunks import Chunk
from .markdown import TITLE_CHARS
from .passages import IN_SCOPE, MemoryRow, Passages, lasting_id, scopes_json
from .types import Event

TABLES = (
    """CREATE TABLE event(id TEXT PRIMARY KEY, at_ms INT, request TEXT, about TEXT,
       writer_id TEXT, writer TEXT, body TEXT) WITHOUT ROWID""",
    "CREATE INDEX event_about ON event(about)",
    "CREATE INDEX event_request ON event(request) WHERE request != ''",
    "CREATE INDEX event_unfinished ON event(id) WHERE body->>'unfinished'",
    """CREATE TABLE value(id TEXT PRIMARY KEY, subject_key TEXT, predicate_key TEXT,
       object_key TEXT, scope TEXT, subject TEXT, predicate TEXT, object TEXT,
       statement TEXT, source TEXT, writer TEXT, writer_id TEXT, from_ms INT,
       to_ms INT, retired INT) WITHOUT ROWID""",
    """CREATE TABLE cite(target TEXT, value TEXT,
       PRIMARY KEY(target, value)) WITHOUT ROWID""",
    "CREATE INDEX value_key ON value(subject_key, predicate_key, scope)",
    # Current values by the forms of their subject; see `subject_forms`.
    """CREATE TABLE subject_form(predicate_key TEXT, form TEXT, whole INT, id TEXT,
       PRIMARY KEY(predicate_key, form, id)) WITHOUT ROWID""",
    "CREATE INDEX subject_form_id ON subject_form(id)",
    """CREATE TABLE overwritten(subject_key TEXT, predicate_key TEXT, scope TEXT,
       writer_key TEXT, writer TEXT, object TEXT, at_ms INT, value TEXT,
       PRIMARY KEY(subject_key, predicate_key, scope, writer_key)) WITHOUT ROWID""",
)

FORM_WORDS = 12
"""A subject of more words than this is compared as a whole only."""

OVERWRITTEN_SHOWN = 3
OWNER_ID = "owner"
"""Connection id of the owner, whose correction ends every quarrel over a value."""


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


class Facts:
    """The tables of events and values, on the index's connection."""

    def __init__(self, db: apsw.Connection, passages: Passages) -> None:
        self._db = db
        self._passages = passages

    def newest_event(self) -> tuple[str, int]:
        """Return id and moment of the newest event, "" and 0 when there is none."""
        row = self._db.execute(
            "SELECT id, at_ms FROM event ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return (str(row[0]), int(row[1])) if row else ("", 0)

    def has_event(self, event_id: str) -> bool:
        return bool(self._one("SELECT 1 FROM event WHERE id=?", event_id))

    def event_kinds(self) -> dict[str, str]:
        """Return the kind of each known event by its id."""
        rows = self._db.execute("SELECT id, body->>'kind' FROM event")
        return {str(row[0]): str(row[1]) for row in rows}

    def event_checksums(self) -> dict[str, str]:
        """Return the checksum of each known event's line by its id."""
        rows = self._db.execute("SELECT id, body->>'crc' FROM event")
        return {str(row[0]): str(row[1]) for row in rows}

    def unfinished_events(self) -> list[Event]:
        """Return the erasures and redactions that are decided and not yet done."""
        rows = self._db.execute(
            "SELECT body FROM event WHERE body->>'unfinished' ORDER BY id"
        )
        return [_events.decode(row[0]) for row in rows]

    def wordless_events(self) -> dict[str, Event]:
        """Return the events whose lines have lost words, by id."""
        rows = self._db.execute(
            "SELECT body FROM event WHERE body->>'kind' = 'erase' OR body->>'redacted'"
        )
        events = [_events.decode(row[0]) for row in rows]
        return {event.id: event for event in events}

    def events_of_kind(self, kind: str) -> list[Event]:
        rows = self._db.execute(
            "SELECT body FROM event WHERE body->>'kind'=? ORDER BY id", (kind,)
        )
        return [_events.decode(row[0]) for row in rows]

    def events_about(self, lasting: str) -> list[Event]:
        """Return the events about a memory by its lasting id, oldest first."""
        rows = self._db.execute(
            "SELECT body FROM event WHERE about=?1 OR (substr(?1, 1, 1) = '#' "
            "AND about LIKE 'entry:%' AND substr(about, -length(?1)) = ?1) ORDER BY id",
            (lasting,),
        )
        return [_events.decode(row[0]) for row in rows]

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

    def lines_of(self, value_id: str) -> list[Event]:
        """Return the save and the repeats of a value, oldest first."""
        event_id = value_id.removeprefix("fact:")
        rows = self._db.execute(
            "SELECT body FROM event WHERE id=?1 OR about=?2 ORDER BY id",
            (event_id, f"fact:{event_id}"),
        )
        events = [_events.decode(row[0]) for row in rows]
        return [event for event in events if event.kind in ("save", "repeat")]

    def clear(self) -> None:
        """Forget every event and value, before the ledger is folded anew."""
        self._passages.remove_facts()
        self._db.execute("DELETE FROM event")
        for table in ("value", "cite", "subject_form", "overwritten"):
            self._db.execute(f"DELETE FROM {table}")

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
        self._note_cites(event)
        if event.kind == "save":
            self._open_value(event, at_ms)
        elif event.kind == "erase":
            self._close_erased(event, at_ms)
            if event.about.startswith("fact:"):
                self._set_retired(event.about, is_retired=True)
        elif event.kind == "repeat":
            self._repeat(event)
        elif event.kind in ("retire", "restore") and event.about.startswith("fact:"):
            self._set_retired(event.about, is_retired=event.kind == "retire")

    def _note_cites(self, event: Event) -> None:
        value = event.about if event.kind == "repeat" else f"fact:{event.id}"
        self._db.executemany(
            "INSERT OR IGNORE INTO cite VALUES(?, ?)",
            [(lasting_id(cited), value) for cited in event.cites],
        )

    def citing(
        self,
        targets: Sequence[tuple[str, int, int]],
        scopes: Sequence[str] | None,
        limit: int,
    ) -> list[str]:
        """Return the live values that cite a memory, the newest first; `targets` are
        its lasting ids, with from and until when each meant it.
        """
        rows = self._db.execute(
            "SELECT DISTINCT value.id FROM json_each(?2) AS wanted "
            "JOIN cite ON cite.target = wanted.value->>0 "
            "JOIN value ON value.id = cite.value "
            f"WHERE {IN_SCOPE} AND retired=0 "
            "AND from_ms BETWEEN wanted.value->>1 AND wanted.value->>2 "
            "ORDER BY value.id DESC LIMIT ?3",
            (scopes_json(scopes), json.dumps(list(targets)), limit),
        )
        return [str(row[0]) for row in rows]

    def _close_erased(self, event: Event, at_ms: int) -> None:
        """What an erased value had superseded stays superseded: a gap, not a return."""
        moment = event.valid_from
        from_ms = rules.parse_moment("valid_from", moment) if moment else at_ms
        for value_id in event.supersedes:
            self._db.execute(
                "UPDATE value SET to_ms=? WHERE id=? AND to_ms IS NULL",
                (from_ms, value_id),
            )
            self._show_current(value_id)

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
        self._note_overwritten(key, event)
        for (closed,) in self._db.execute(
            "UPDATE value SET to_ms=? WHERE subject_key=? AND predicate_key=? "
            "AND scope=? AND to_ms IS NULL RETURNING id",
            (from_ms, *key),
        ).fetchall():
            self._hide(str(closed))
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

    def _repeat(self, event: Event) -> None:
        """Another saved the same: its latest sentence counts, its quarrel ends."""
        row = self._db.execute(
            "SELECT subject_key, predicate_key, scope FROM value WHERE id=?",
            (event.about,),
        ).fetchone()
        if row is None:
            return
        self._end_quarrel((str(row[0]), str(row[1]), str(row[2])), event)
        if event.statement:
            self._db.execute(
                "UPDATE value SET statement=? WHERE id=?",
                (event.statement, event.about),
            )
            self._show_current(event.about)

    def _note_overwritten(self, key: tuple[str, str, str], event: Event) -> None:
        """Keep, for each other writer of the open value, what is overwritten now."""
        row = self._db.execute(
            "SELECT id, object FROM value WHERE subject_key=? AND predicate_key=? "
            "AND scope=? AND to_ms IS NULL AND retired=0",
            key,
        ).fetchone()
        for line in self.lines_of(str(row[0])) if row else ():
            if not _writer_key(line) or _writer_key(line) == _writer_key(event):
                continue
            self._db.execute(
                "INSERT OR REPLACE INTO overwritten VALUES(?,?,?,?,?,?,?,?)",
                (
                    *key,
                    _writer_key(line),
                    line.writer,
                    row[1] if row else "",
                    rules.parse_moment("recorded_at", line.recorded_at),
                    row[0] if row else "",
                ),
            )
        self._end_quarrel(key, event)

    def _end_quarrel(self, key: tuple[str, str, str], event: Event) -> None:
        """A writer who saves has seen what stands; the owner settles it for all."""
        self._db.execute(
            "DELETE FROM overwritten WHERE subject_key=? AND predicate_key=? "
            "AND scope=? AND (writer_key=? OR ?)",
            (*key, _writer_key(event), event.writer_id == OWNER_ID),
        )

    def overwritten(
        self, values: Sequence[ValueRow]
    ) -> dict[str, list[tuple[str, str, int]]]:
        """Return, by the id of a current value, object, writer and moment of what
        others had set before and have not saved since; newest first, a few each.
        Retired words stay unsaid.
        """
        keys = [
            (rules.fold_name(v.subject), rules.fold_name(v.predicate), v.scope, v.id)
            for v in values
            if v.to_ms is None and not v.retired
        ]
        rows = self._db.execute(
            "SELECT wanted.value->>3, lost.object, lost.writer, lost.at_ms "
            "FROM json_each(?) AS wanted JOIN overwritten AS lost "
            "ON lost.subject_key = wanted.value->>0 "
            "AND lost.predicate_key = wanted.value->>1 "
            "AND lost.scope = wanted.value->>2 "
            "JOIN value ON value.id = lost.value AND value.retired = 0 "
            "ORDER BY lost.at_ms DESC",
            (json.dumps(keys),),
        )
        found: dict[str, list[tuple[str, str, int]]] = {}
        for value_id, said, writer, at_ms in rows:
            lines = found.setdefault(str(value_id), [])
            if len(lines) < OVERWRITTEN_SHOWN:
                lines.append((str(said), str(writer), int(str(at_ms))))
        return found

    def alike(
        self, values: Sequence[ValueRow], scopes: Sequence[str] | None
    ) -> dict[str, list[ValueRow]]:
        """Return, by the id of each value, the current values of its predicate that
        may mean the same thing, newest first: their subject has one word more or
        less, differs only in case or accents, or stands in another scope.
        """
        wanted: list[tuple[str, str, int, str]] = []
        for value in values:
            whole, shorter = subject_forms(value.subject)
            predicate = rules.fold_name(value.predicate)
            wanted.append((predicate, whole, 0, value.id))
            wanted += [(predicate, form, 1, value.id) for form in shorter]
        pairs = self._db.execute(
            "SELECT DISTINCT wanted.value->>3, subject_form.id "
            "FROM json_each(?) AS wanted JOIN subject_form "
            "ON predicate_key = wanted.value->>0 AND form = wanted.value->>1 "
            "WHERE whole >= wanted.value->>2 AND subject_form.id != wanted.value->>3",
            (json.dumps(wanted),),
        ).fetchall()
        if not pairs:
            return {}
        others = self._values(
            f"{IN_SCOPE} AND id IN (SELECT value FROM json_each(?2))",
            (scopes_json(scopes), json.dumps([str(pair[1]) for pair in pairs])),
        )
        asked: dict[str, set[str]] = {}
        for value_id, other_id in pairs:
            asked.setdefault(str(other_id), set()).add(str(value_id))
        found: dict[str, list[ValueRow]] = {}
        for other in others:
            for value_id in asked[other.id]:
                found.setdefault(value_id, []).append(other)
        return found

    def _set_retired(self, value_id: str, *, is_retired: bool) -> None:
        self._db.execute(
            "UPDATE value SET retired=? WHERE id=?", (int(is_retired), value_id)
        )
        self._show_current(value_id)

    def _show_current(self, value_id: str) -> None:
        """Make the value searchable exactly if it is current and not retired."""
        self._hide(value_id)
        value = self.find_value(value_id)
        if value is None or value.retired or value.to_ms is not None:
            return
        row = row_of_value(value, self.lines_of(value_id)[0].replaces)
        whole, shorter = subject_forms(value.subject)
        for form in dict.fromkeys((whole, *shorter)):
            self._db.execute(
                "INSERT INTO subject_form VALUES(?, ?, ?, ?)",
                (rules.fold_name(value.predicate), form, form == whole, value_id),
            )
        words = "\n".join(
            (value.subject, value.predicate, value.object, value.statement)
        )
        number = self._passages.put_memory(row)
        self._passages.add_chunks(number, "", [Chunk((), words)], is_fact=True)

    def _hide(self, value_id: str) -> None:
        self._passages.remove_memory(value_id)
        self._db.execute("DELETE FROM subject_form WHERE id=?", (value_id,))

    def find_value(self, value_id: str) -> ValueRow | None:
        return next(iter(self._values("id=?1", (value_id,))), None)

    def get_values(self, ids: Sequence[str]) -> list[ValueRow]:
        """Return the values with these ids, in their order."""
        found = {
            value.id: value
            for value in self._values(
                "id IN (SELECT value FROM json_each(?1))", (json.dumps(list(ids)),)
            )
        }
        return [found[one] for one in ids if one in found]

    def values_holding(self, texts: Sequence[str]) -> list[str]:
        """Return the ids of values, superseded ones too, that hold one of the texts."""
        rows = self._db.execute(
            "SELECT DISTINCT value.id FROM value JOIN json_each(?) AS wanted ON "
            "instr(subject || char(10) || predicate || char(10) || object || char(10) "
            "|| statement, wanted.value) WHERE retired = 0",
            (json.dumps(list(texts)),),
        )
        return [str(row[0]) for row in rows]

    def all_values(self, scopes: Sequence[str] | None, limit: int) -> list[ValueRow]:
        """Return live values, superseded ones too, newest first."""
        return self._values(
            f"{IN_SCOPE} AND retired=0", (scopes_json(scopes),), limit=limit
        )

    def things(
        self, scopes: Sequence[str] | None, limit: int
    ) -> list[tuple[str, int, int]]:
        """Return the subjects of live values, how many each has, and the moment of the
        newest; that of the newest first.
        """
        rows = self._db.execute(
            "SELECT subject, count(*), max(from_ms) AS newest FROM value "
            f"WHERE {IN_SCOPE} AND retired=0 "
            "GROUP BY subject_key ORDER BY newest DESC, subject LIMIT ?2",
            (scopes_json(scopes), limit),
        )
        return [(str(r[0]), int(str(r[1])), int(str(r[2]))) for r in rows]

    def naming(self, scopes: Sequence[str] | None, limit: int) -> list[tuple[str, str]]:
        """Return the current values whose object is the name of another subject, and
        that name; newest first.
        """
        rows = self._db.execute(
            f"SELECT id, object FROM value WHERE {IN_SCOPE} AND {_NAMES_ANOTHER} "
            "ORDER BY from_ms DESC, id DESC LIMIT ?2",
            (scopes_json(scopes), limit),
        )
        return [(str(row[0]), str(row[1])) for row in rows]

    def count_naming(self, scopes: Sequence[str] | None) -> int:
        return self._one(
            f"SELECT count(*) FROM value WHERE {IN_SCOPE} AND {_NAMES_ANOTHER}",
            scopes_json(scopes),
        )

    def newest_doings(
        self, scopes: Sequence[str] | None, limit: int
    ) -> list[tuple[str, str, int, str, str]]:
        """Return kind, memory id, moment, writer and scope of the newest writes."""
        rows = self._db.execute(
            f"SELECT kind, memory, at_ms, writer, scope FROM {_DOINGS} "
            f"WHERE {IN_SCOPE} ORDER BY id DESC LIMIT ?2",
            (scopes_json(scopes), limit),
        )
        return [
            (str(r[0]), str(r[1]), int(str(r[2])), str(r[3]), str(r[4])) for r in rows
        ]

    def count_doings(self, scopes: Sequence[str] | None) -> int:
        return self._one(
            f"SELECT count(*) FROM {_DOINGS} WHERE {IN_SCOPE}", scopes_json(scopes)
        )

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
            f"{IN_SCOPE} AND subject_key=?2 AND (?3='' OR predicate_key=?3) "
            "AND retired=0",
            (scopes_json(scopes), rules.fold_name(subject), rules.fold_name(predicate)),
        )

    def newest_values(self, scopes: Sequence[str] | None, limit: int) -> list[ValueRow]:
        """Return current values, newest first."""
        return self._values(
            f"{IN_SCOPE} AND to_ms IS NULL AND retired=0",
            (scopes_json(scopes),),
            limit=limit,
        )

    def subjects(self, scopes: Sequence[str] | None, limit: int) -> list[str]:
        """Return subjects that have a live value, the newest first."""
        rows = self._db.execute(
            f"SELECT subject FROM value WHERE {IN_SCOPE} AND retired=0 "
            "GROUP BY subject_key ORDER BY max(from_ms) DESC LIMIT ?2",
            (scopes_json(scopes), limit),
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

    def count_values(self, scopes: Sequence[str] | None) -> int:
        """Return how many live values there are in scope, superseded ones too."""
        return self._one(
            f"SELECT count(*) FROM value WHERE retired=0 AND {IN_SCOPE}",
            scopes_json(scopes),
        )

    def count_subjects(self, scopes: Sequence[str] | None) -> int:
        return self._one(
            "SELECT count(DISTINCT subject_key) FROM value "
            f"WHERE retired = 0 AND {IN_SCOPE}",
            scopes_json(scopes),
        )

    def _one(self, sql: str, *values: str | int | None) -> int:
        row = self._db.execute(sql, values).fetchone()
        return row[0] if row else 0


_VALUE_COLUMNS = (
    "id, subject, predicate, object, statement, scope, source, writer, writer_id, "
    "from_ms, to_ms, retired"
)
_NAMES_ANOTHER = f"""retired=0 AND to_ms IS NULL AND object_key != subject_key
    AND EXISTS (SELECT 1 FROM value AS other WHERE retired=0
    AND other.subject_key = value.object_key AND {IN_SCOPE})"""
# What was erased says nothing any more, and a move is a hand's.
_DOINGS = """(SELECT id, body->>'kind' AS kind, at_ms, writer,
    CASE WHEN about = '' THEN 'fact:' || id ELSE about END AS memory,
    coalesce(body->>'scope', 'global') AS scope FROM event
    WHERE body->>'kind' IN
    ('save', 'repeat', 'retire', 'restore', 'revise', 'redact'))"""
_events = msgspec.json.Decoder(Event)


def row_of_value(value: ValueRow, replaces: str = "") -> MemoryRow:
    """Return a fact's row, without words."""
    return MemoryRow(
        id=value.id,
        kind="fact",
        path="",
        title=title_of_value(value),
        scope=value.scope,
        source=value.source,
        writer=value.writer,
        writer_id=value.writer_id,
        at_ms=value.from_ms,
        day=rules.render_day(value.from_ms),
        replaces=replaces,
    )


def title_of_value(value: ValueRow) -> str:
    return f"{value.subject} {value.predicate}: {value.object}"[:TITLE_CHARS]


def _writer_key(event: Event) -> str:
    """Return what tells writers apart: their lasting id, else the name they gave."""
    return event.writer_id or (f"name:{event.writer}" if event.writer else "")


def subject_forms(subject: str) -> tuple[str, list[str]]:
    """Return a subject without case and accents, and the same with one word less.

    Two subjects are alike if the whole of one is a form of the other.
    """
    words = rules.fold_search(rules.fold_name(subject)).split(" ")
    shorter = []
    if 1 < len(words) <= FORM_WORDS:
        shorter = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
    return " ".join(words), list(dict.fromkeys(shorter))
