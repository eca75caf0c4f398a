"""Lives: what the ledger says of notes, entries and facts beyond their words.

Who was retired, restored or erased, and which earlier texts are kept. Part of the
index, folded from events like the facts. A life's key is what a move of a file does
not change: `#<entry id>`, `fact:<id>`, and of a retired note `note:<path>@<event id>`,
since its path may be taken by another. Source: docs/store-format.md "The ledger".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw
import msgspec

from . import rules
from .passages import (
    IN_SCOPE,
    MemoryRow,
    lasting_id,
    match_any,
    scopes_json,
    searchable,
)
from .types import Event

TABLES = (
    """CREATE TABLE life(num INTEGER PRIMARY KEY, key TEXT UNIQUE, state TEXT,
       event TEXT, path TEXT, scope TEXT, at_ms INT, by_hand INT, sha256 TEXT,
       body TEXT, settled INT, row TEXT)""",
    "CREATE INDEX life_path ON life(path)",
    "CREATE INDEX life_unsettled ON life(settled) WHERE settled=0",
    # What was revised or redacted, by the key of the memory.
    """CREATE TABLE past(event TEXT PRIMARY KEY, key TEXT, kind TEXT, at_ms INT,
       sha256 TEXT) WITHOUT ROWID""",
    "CREATE INDEX past_key ON past(key)",
    """CREATE VIRTUAL TABLE retired_words USING fts5(title, text, content='',
       contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')""",
)

KINDS = frozenset({"retire", "restore", "revise", "redact", "move", "erase"})


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """The last word on a memory. `event` is the one that said it; `row` is what the
    memory was when it was retired, None until its bytes have been read.
    """

    key: str
    state: str
    event: Event
    path: str
    scope: str
    at_ms: int
    by_hand: bool
    sha256: str
    row: MemoryRow | None

    @property
    def is_retired(self) -> bool:
        return self.state == "retired"


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A change that kept, under `sha256`, what a memory said before."""

    event: str
    at_ms: int
    sha256: str


def key_of(event: Event) -> str:
    """Return the key of the life an event speaks of."""
    if event.kind == "retire" and event.about.startswith("note:"):
        return f"{event.about}@{event.id}"
    return lasting_id(event.about)


class Lives:
    """The tables of lives, on the index's connection."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def clear(self) -> None:
        for table in ("life", "past", "retired_words"):
            self._db.execute(f"DELETE FROM {table}")

    def apply_event(self, event: Event) -> None:
        """Fold one event; events come in the order of their ids, each once."""
        if event.kind not in KINDS or not event.about:
            return
        key = key_of(event)
        if event.kind in ("retire", "restore", "erase"):
            self._set_state(key, event)
        if event.kind == "retire":
            self._move_past(event.about, key)
        elif event.kind == "restore":
            self._move_past(key, note_of(key))
        elif event.kind == "move":
            self._move_past(key, f"note:{event.path}")
            key = f"note:{event.path}"
        if event.kind in ("revise", "redact", "move"):
            self._db.execute(
                "INSERT OR REPLACE INTO past VALUES(?, ?, ?, ?, ?)",
                (
                    event.id,
                    key,
                    event.kind,
                    rules.parse_moment("recorded_at", event.recorded_at),
                    event.sha256,
                ),
            )

    def _set_state(self, key: str, event: Event) -> None:
        state = {"retire": "retired", "restore": "live", "erase": "erased"}
        known = self.find_key(key)
        self._forget_words(key)
        self._db.execute(
            "INSERT INTO life(key, state, event, path, scope, at_ms, by_hand, sha256, "
            "body, settled, row) VALUES(?,?,?,?,?,?,?,?,?,0,NULL) "
            "ON CONFLICT(key) DO UPDATE SET state=excluded.state, event=excluded.event, "
            "path=excluded.path, scope=excluded.scope, at_ms=excluded.at_ms, "
            "by_hand=excluded.by_hand, sha256=excluded.sha256, body=excluded.body, "
            "settled=0, row=NULL",
            (
                key,
                state[event.kind],
                event.id,
                event.path or (known.path if known else ""),
                event.scope,
                rules.parse_moment("recorded_at", event.recorded_at),
                int(event.by == "hand"),
                event.sha256,
                msgspec.json.encode(event).decode(),
            ),
        )

    def _move_past(self, key: str, now: str) -> None:
        self._db.execute("UPDATE past SET key=? WHERE key=?", (lasting_id(now), key))

    def _forget_words(self, key: str) -> None:
        self._db.execute(
            "DELETE FROM retired_words WHERE rowid IN "
            "(SELECT num FROM life WHERE key=? AND row IS NOT NULL)",
            (key,),
        )

    # --- filling in what the events do not say

    def unsettled(self) -> list[Life]:
        """Return the lives whose last event the rest of the index has not met."""
        return self._lives("settled=0 ORDER BY event", ())

    def settle(self, key: str, row: MemoryRow | None, text: str = "") -> None:
        """Note that the index has met a life's event; `row` and `text` make a retired
        memory readable and findable in the list of retired ones.
        """
        self._db.execute(
            "UPDATE life SET settled=1, row=? WHERE key=?",
            (msgspec.json.encode(row).decode() if row else None, key),
        )
        if row is not None:
            self._db.execute(
                "INSERT INTO retired_words(rowid, title, text) "
                "SELECT num, ?, ? FROM life WHERE key=?",
                (searchable(row.title), searchable(text), key),
            )

    def forget(self, key: str) -> None:
        """Drop a life of which nothing is left to say."""
        self._forget_words(key)
        self._db.execute("DELETE FROM life WHERE key=?", (key,))

    # --- asking

    def find_key(self, key: str) -> Life | None:
        return next(iter(self._lives("key=?", (key,))), None)

    def find(self, memory_id: str) -> Life | None:
        """Return the life of a memory by the id a caller may know: of the retired
        notes of one path the newest, unless the id names the event.
        """
        found = self.find_key(lasting_id(memory_id))
        if found is None and memory_id.startswith("note:"):
            path = memory_id.removeprefix("note:")
            lives = self._lives(
                "path=? AND key LIKE 'note:%' AND state != 'erased' "
                "ORDER BY state = 'retired' DESC, event DESC",
                (path,),
            )
            found = next(iter(lives), None)
        return found

    def retired_at(self, path: str) -> list[Life]:
        """Return the notes that were retired from a path, none once one is back there."""
        lives = self._lives(
            "path=? AND by_hand=0 AND key LIKE 'note:%' ORDER BY event DESC", (path,)
        )
        if lives and lives[0].state == "live":
            return []
        return [life for life in lives if life.is_retired]

    def states_of(self, entries: Sequence[str]) -> dict[str, Life]:
        """Return, by entry id, the lives of those entries that have one."""
        keys = msgspec.json.encode([f"#{entry}" for entry in entries]).decode()
        lives = self._lives("key IN (SELECT value FROM json_each(?))", (keys,))
        return {life.key.removeprefix("#"): life for life in lives}

    def list_retired(self, scopes: Sequence[str] | None, limit: int) -> list[Life]:
        """Return what is retired, the newest first."""
        return self._lives(
            f"state='retired' AND row IS NOT NULL AND {IN_SCOPE} "
            "ORDER BY event DESC LIMIT ?2",
            (scopes_json(scopes), limit),
        )

    def search_retired(
        self, terms: Sequence[str], scopes: Sequence[str] | None
    ) -> list[Life]:
        """Return what is retired and holds any of the terms, the newest first."""
        if not terms:
            return []
        return self._lives(
            f"state='retired' AND row IS NOT NULL AND {IN_SCOPE} AND num IN "
            "(SELECT rowid FROM retired_words WHERE retired_words MATCH ?2) "
            "ORDER BY event DESC",
            (scopes_json(scopes), match_any(terms)),
        )

    def count_retired(self, scopes: Sequence[str] | None) -> int:
        row = self._db.execute(
            "SELECT count(*) FROM life WHERE state='retired' AND row IS NOT NULL AND "
            f"{IN_SCOPE}",
            (scopes_json(scopes),),
        ).fetchone()
        return int(row[0]) if row else 0

    def past_of(self, memory_key: str, kind: str) -> list[Past]:
        """Return what revised or redacted a memory, the newest first."""
        rows = self._db.execute(
            "SELECT event, at_ms, sha256 FROM past WHERE key=? AND kind=? "
            "ORDER BY event DESC",
            (lasting_id(memory_key), kind),
        )
        return [
            Past(event=str(r[0]), at_ms=int(str(r[1])), sha256=str(r[2])) for r in rows
        ]

    def revised_paths(self) -> list[str]:
        """Return the paths of living notes of which earlier texts are kept."""
        rows = self._db.execute(
            "SELECT DISTINCT key FROM past WHERE kind='revise' AND key LIKE 'note:%' "
            "AND key NOT IN (SELECT key FROM life)"
        )
        return [str(row[0]).removeprefix("note:") for row in rows]

    def revised(self) -> list[tuple[str, str]]:
        """Return key and digest of every earlier text that is kept."""
        rows = self._db.execute("SELECT key, sha256 FROM past WHERE kind='revise'")
        return [(str(row[0]), str(row[1])) for row in rows]

    def uses(self, sha256: str) -> bool:
        """Whether kept bytes belong to something retired or to an earlier text."""
        row = self._db.execute(
            "SELECT EXISTS(SELECT 1 FROM life WHERE state='retired' AND sha256=?1) "
            "OR EXISTS(SELECT 1 FROM past WHERE kind='revise' AND sha256=?1)",
            (sha256,),
        ).fetchone()
        return bool(row and row[0])

    def is_used_by_others(self, sha256: str, events: Collection[str]) -> bool:
        """Whether kept bytes belong to something that these events do not speak of."""
        rows = self._db.execute(
            "SELECT event FROM life WHERE state='retired' AND sha256=?1 "
            "UNION SELECT event FROM past WHERE kind='revise' AND sha256=?1",
            (sha256,),
        )
        return any(row[0] not in events for row in rows)

    def other_lives_at(self, key: str) -> list[str]:
        """Return the events of a retired note's earlier lives, which have ended."""
        rows = self._db.execute(
            "SELECT substr(key, length(?1) + 2) FROM life "
            "WHERE state='live' AND substr(key, 1, length(?1) + 1) = ?1 || '@'",
            (note_of(key),),
        )
        return [str(row[0]) for row in rows]

    def _lives(self, where: str, values: tuple[str | int | None, ...]) -> list[Life]:
        rows = self._db.execute(
            "SELECT key, state, body, path, scope, at_ms, by_hand, sha256, row "
            f"FROM life WHERE {where}",
            values,
        )
        return [
            Life(
                key=str(r[0]),
                state=str(r[1]),
                event=_events.decode(str(r[2])),
                path=str(r[3]),
                scope=str(r[4]),
                at_ms=int(str(r[5])),
                by_hand=bool(r[6]),
                sha256=str(r[7]),
                row=None if r[8] is None else _rows.decode(str(r[8])),
            )
            for r in rows
        ]


def note_of(key: str) -> str:
    """Return the id a retired note had while it was live; another key as it is."""
    if not key.startswith("note:"):
        return key
    return key.rpartition("@")[0] or key


_events = msgspec.json.Decoder(Event)
_rows = msgspec.json.Decoder(MemoryRow)
