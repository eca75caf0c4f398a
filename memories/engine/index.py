"""The derived index: what the store says, made searchable. Never the truth.

One SQLite file that can be deleted at any moment; a version that differs or any
damage means a fresh one. Facts are folded here from ledger events; passages are
words in FTS5. Nothing else writes this file. Source: docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from . import facts, files, lives, passages
from .errors import Busy
from .types import Event

FORMAT = "15"
"""Raised with every change of the tables: an index of another format is rebuilt."""

_TABLES = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    """CREATE TABLE file(path TEXT PRIMARY KEY, raw BLOB, device INT, inode INT,
       size INT, mtime_ns INT, problem TEXT, digest TEXT) WITHOUT ROWID""",
    "CREATE INDEX file_digest ON file(digest)",
    "CREATE TABLE moved(path TEXT PRIMARY KEY, now TEXT, at_ms INT) WITHOUT ROWID",
    "CREATE INDEX moved_now ON moved(now)",
    *passages.TABLES,
    *facts.TABLES,
    *lives.TABLES,
)


ALWAYS_MS = 1 << 62
COPY_PROBLEM = "stands in another file too: here it is text"


class IndexUnusable(Exception):
    """The index cannot be used: it is made anew from the store."""


class IndexFull(Busy):
    """The disk refuses the index room. What it holds still stands."""


FAULTS = (apsw.Error, IndexUnusable)
"""What a read of a broken index may raise."""

_PASSING = (
    *(apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.BusyError),
    *(apsw.ReadOnlyError, apsw.NoMemError),
)
"""Says nothing against the file: it is kept for when the disk is well again."""

_NO_ROOM = frozenset(
    {
        *(apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC),
        *(apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMSIZE),
    }
)


class Index:
    """The workspace's index. One connection, one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db = self._open()
        self.passages = passages.Passages(self._db)
        self.facts = facts.Facts(self._db, self.passages)
        self.lives = lives.Lives(self._db)

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
            if isinstance(fault, _PASSING):
                message = "the index cannot be opened now: is the disk full?"
                raise IndexFull(message) from fault
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

    # --- events

    def apply_event(self, event: Event, line: bytes) -> None:
        """Fold an event into facts and lives. Raises: Invalid when it has no moment."""
        self.facts.apply_event(event, line)
        self.lives.apply_event(event)

    def clear_events(self) -> None:
        """Forget all that came from events, before the ledger is folded anew."""
        self.facts.clear()
        self.lives.clear()

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

    def odd_names(self) -> dict[str, bytes]:
        """Return the raw name of each file whose name is not as its id spells it."""
        rows = self._db.execute(
            "SELECT path, raw FROM file WHERE raw != CAST(path AS BLOB)"
        )
        return {str(path): bytes(raw) for path, raw in rows}

    def digest_of(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes as it was read, "" when unknown."""
        row = self._db.execute(
            "SELECT digest FROM file WHERE path=?", (path,)
        ).fetchone()
        return str(row[0]) if row else ""

    def put_file(
        self,
        path: str,
        raw: bytes,
        stamp: files.Stamp,
        problem: str = "",
        digest: str = "",
    ) -> None:
        """Note what a file looked like; `digest` of its bytes finds it when moved."""
        self._db.execute(
            "INSERT OR REPLACE INTO file VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
            (
                path,
                raw,
                stamp.device,
                stamp.inode,
                stamp.size,
                stamp.mtime_ns,
                problem,
                digest,
            ),
        )

    def remove_file(self, path: str) -> None:
        """Forget a file and all memories read from it."""
        self.passages.remove_memories_of(path)
        self._db.execute("DELETE FROM file WHERE path=?", (path,))

    def note_move(self, path: str, at_ms: int) -> str:
        """Before a file is forgotten, note where the same bytes stand now, if they do
        in one other place. Returns that path, "" otherwise.
        """
        rows = self._db.execute(
            "SELECT other.path FROM file JOIN file AS other USING (digest) "
            "WHERE file.path=? AND other.path != file.path AND digest != ''",
            (path,),
        ).fetchall()
        if len(rows) == 1:
            self._db.execute(
                "INSERT OR REPLACE INTO moved VALUES(?, ?, ?)",
                (path, rows[0][0], at_ms),
            )
            return str(rows[0][0])
        return ""

    def find_moved(self, path: str) -> str:
        """Return where a file that was at `path` was moved to, "" when unknown."""
        row = self._db.execute("SELECT now FROM moved WHERE path=?", (path,)).fetchone()
        return str(row[0]) if row else ""

    def names_of(self, memory_id: str) -> list[tuple[str, int, int]]:
        """Return the lasting ids by which others may name a memory, and from and until
        when each meant it: a note that was moved keeps what was said of it, and one
        that took its path since begins anew.
        """
        if not memory_id.startswith("note:"):
            return [(passages.lasting_id(memory_id), 0, ALWAYS_MS)]
        path = memory_id.removeprefix("note:")
        row = self._db.execute("SELECT at_ms FROM moved WHERE path=?", (path,))
        since = row.fetchone()
        rows = self._db.execute(
            "WITH RECURSIVE named(path, until) AS (SELECT ?, ? UNION "
            "SELECT moved.path, moved.at_ms FROM moved JOIN named "
            "ON moved.now = named.path WHERE moved.path != ?1) "
            "SELECT path, until FROM named",
            (path, ALWAYS_MS),
        )
        return [
            (
                f"note:{name}",
                int(str(since[0])) + 1 if since and name == path else 0,
                int(str(until)),
            )
            for name, until in rows
        ]

    def moves(self) -> list[tuple[str, str, int]]:
        """Return each path that a file was moved from, where it is now, and when it
        was seen to be.
        """
        rows = self._db.execute("SELECT path, now, at_ms FROM moved")
        return [(str(path), str(now), int(str(at_ms))) for path, now, at_ms in rows]

    def forget_moves(self, path: str) -> None:
        self._db.execute("DELETE FROM moved WHERE ?1 IN (path, now)", (path,))

    def put_moves(self, moves: Iterable[tuple[str, str, int]]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO moved VALUES(?, ?, ?)", moves)

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

    def newest_written(self) -> tuple[str, int]:
        """Return id of the newest event and moment of the newest event or entry."""
        event_id, at_ms = self.facts.newest_event()
        return event_id, max(at_ms, self.passages.newest_entry_ms())
