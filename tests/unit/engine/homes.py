"""One workspace in a temporary folder, a clock that obeys, and who calls."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path

import apsw

from memories.engine import files
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.keeping import INDEX_NAME
from memories.engine.workspace import create_workspace

START_MS = int(datetime(2026, 11, 30, 12, 0, tzinfo=UTC).timestamp() * 1000)
WORKSPACE_ID = "7c1f1f0e-0000-4000-8000-000000000001"
EVERYTHING_SECONDS = 60.0
"""Long enough for every scan of these tests: an engine is opened fully scanned."""


class FakeClock:
    """Unix milliseconds that move only when told to."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def move(self, *, seconds: float = 0, minutes: float = 0, days: float = 0) -> None:
        self.now_ms += round((seconds + 60 * minutes + 86_400 * days) * 1000)

    def set(self, moment: str) -> None:
        parsed = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        self.now_ms = int(parsed.timestamp() * 1000)


class Home:
    """A workspace and the engine on it; every engine opened here is closed."""

    def __init__(
        self, directory: Path, clock: FakeClock, *, is_new: bool = True
    ) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.clock = clock
        self._numbers = itertools.count()
        self._engines: list[Engine] = []
        if is_new:
            create_workspace(directory, WORKSPACE_ID)

    def open(
        self,
        disk: files.Disk | None = None,
        *,
        scan_seconds: float = EVERYTHING_SECONDS,
        settle_seconds: float = 0.0,
    ) -> Engine:
        """Open an engine; the one before is closed first, as the lock demands."""
        self.close()
        engine = Engine(
            self.directory,
            disk=disk,
            clock=self.clock,
            random=lambda: next(self._numbers),
            scan_seconds=scan_seconds,
            settle_seconds=settle_seconds,
        )
        self._engines.append(engine)
        return engine

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the store by hand, in place."""
        file = self.store / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file

    def swap(self, path: str, data: bytes) -> None:
        """Save a file as most editors do: a new file renamed over the old one."""
        other = self.store / f".{Path(path).name}.swp"
        other.write_bytes(data)
        other.rename(self.store / path)

    def delete_index(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            (self.directory / f"{INDEX_NAME}{suffix}").unlink(missing_ok=True)


def make_caller(
    name: str = "claude", *, may_write: bool = True, **given: object
) -> t.Caller:
    acts: list[t.Act] = ["read", "write"] if may_write else ["read"]
    said = {"connection_id": f"c-{name}", "name": name, "acts": frozenset(acts)}
    return t.Caller(**{**said, **given})  # type: ignore[arg-type]  # fields by name


def scan(engine: Engine) -> None:
    """Let the engine look at every file, to the end."""
    engine.look_again()
    while engine.work(EVERYTHING_SECONDS):
        pass


def dump(home: Home) -> dict[str, list[tuple[object, ...]]]:
    """Return all that the index says of the store, without row numbers.

    The moment of a day log's own note is that of its file, which moves with every
    append; a block may or may not carry the empty line before it.
    """
    path = home.directory / INDEX_NAME
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        said = {
            "memories": """SELECT id, kind, path, title, scope, source, writer,
                writer_id, CASE WHEN kind='note' THEN 0 ELSE at_ms END, day, text,
                bytes, edited, entry, ltrim(CAST(block AS TEXT), char(10)), marker,
                request, tags, links, aliases FROM memory ORDER BY id""",
            "passages": """SELECT memory.id, heading, chunk.text, inside FROM chunk
                JOIN memory ON memory.num = chunk.memory
                ORDER BY memory.id, chunk.num""",
            "names": """SELECT memory.id, name.kind, form, written FROM name
                JOIN memory ON memory.num = name.memory ORDER BY 1, 2, 3, 4""",
            "words": "SELECT term, doc, cnt FROM vocabulary ORDER BY term",
            "events": "SELECT id, at_ms, about, body FROM event ORDER BY id",
            "values": "SELECT * FROM value ORDER BY id",
            "files": """SELECT path, CAST(raw AS TEXT), inode, size, mtime_ns, problem
                FROM file ORDER BY path""",
            "lives": """SELECT key, state, event, path, scope, at_ms, by_hand, sha256,
                body, settled, row FROM life ORDER BY key""",
            "past": "SELECT * FROM past ORDER BY event",
            "ledger": "SELECT value FROM meta WHERE key='ledger_stamp'",
        }
        return {name: list(database.execute(sql)) for name, sql in said.items()}
    finally:
        database.close()


def require_rebuilt_equal(home: Home, engine: Engine) -> None:
    """Assert that an index made anew from the store says what the kept one says."""
    kept = dump(home)
    engine.store.rebuild_index()
    scan(engine)
    made_anew = dump(home)
    for name, rows in made_anew.items():
        only_new = [row for row in rows if row not in kept[name]]
        only_kept = [row for row in kept[name] if row not in rows]
        assert (name, only_new, only_kept) == (name, [], [])
        assert rows == kept[name]
