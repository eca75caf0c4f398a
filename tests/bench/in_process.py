"""The engine alone, in this process: reading, writing durably, indexing."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from memories import engine
from memories.engine import keeping
from memories.engine.types import Caller

from . import corpus
from .figures import Figure, figure, percentile, settle, time_each, time_one
from .machine import Flushing

QUESTIONS, WARM_UP = 600, 60
SAVES = 300
REBUILDS = 7
SCANS = 100
CALLER = Caller(connection_id="bench", name="claude", acts=frozenset({"read", "write"}))
OWNER = Caller(
    connection_id="owner", name="owner", acts=frozenset({"read", "write", "own"})
)
LARGE_COPIES = 10
WORKSPACE = "00000000-0000-4000-8000-000000000000"


class Workspace:
    """A workspace of the corpus in a folder that lasts as long as the run.

    `copies` lays further corpora of other seeds beside the first, each in a folder of
    its own: ten of them make 20,000 chunks.
    """

    def __init__(self, folder: Path, *, copies: int = 0) -> None:
        self.folder = folder / WORKSPACE
        engine.create_workspace(self.folder, WORKSPACE)
        self.made = corpus.make_store(self.folder / "store")
        for seed in range(corpus.SEED + 1, corpus.SEED + 1 + copies):
            beside = self.folder / "store" / f"corpus-{seed}"
            beside.mkdir()
            corpus.make_store(beside, seed)

    def drop_index(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.folder / keeping.INDEX_NAME}{suffix}").unlink(missing_ok=True)

    def open(self) -> engine.Engine:
        """Open it with everything indexed."""
        opened = engine.Engine(self.folder)
        while opened.work(1.0):
            pass
        return opened


def count(workspace: Workspace) -> dict[str, object]:
    """Return what the corpus is, in the engine's own count."""
    opened = workspace.open()
    status = opened.memory_status(CALLER)
    opened.close()
    return {
        "notes": status.notes,
        "note_bytes": workspace.made.note_bytes,
        "chunks": status.chunks,
        "events": workspace.made.events,
        "subjects": workspace.made.subjects,
        "current_facts": len({*_current(workspace)}),
    }


def _current(workspace: Workspace) -> Iterator[str]:
    opened = workspace.open()
    yield from (
        value.id for value in opened.store.index.facts.newest_values(None, 10_000)
    )
    opened.close()


def measure_reads(workspace: Workspace) -> Iterator[Figure]:
    opened = workspace.open()
    yield from _reads(opened, below=4)
    opened.close()


def _reads(opened: engine.Engine, *, below: float) -> Iterator[Figure]:
    """Every read asks another question."""
    settle()
    questions = corpus.iter_questions(1)
    reads = (("get_context", opened.get_context), ("search_text", opened.search_text))
    for name, read in reads:
        seconds = time_each(
            lambda question: read(CALLER, query=question),  # noqa: B023 - called at once
            questions,
            count=QUESTIONS,
            warm_up=WARM_UP,
        )
        yield figure(name, seconds, below=below if name == "get_context" else None)


def measure_writes(workspace: Workspace) -> Iterator[Figure]:
    """Saves and bare flushes in turn, so that both meet the same moods of the disk."""
    opened = workspace.open()
    settle()
    statements = corpus.iter_statements(1)
    numbers = itertools.count()

    def remember() -> None:
        opened.remember(CALLER, statement=next(statements))

    def save_memory() -> None:
        number = next(numbers)
        opened.save_memory(
            CALLER,
            subject=f"Fjord {number % 120}",
            predicate="port",
            object=f"{number}",
        )

    with Flushing(workspace.folder / "store") as flushing:
        for name, save in (("remember", remember), ("save_memory", save_memory)):
            saves, flushes = [], []
            for _ in range(SAVES + WARM_UP):
                flushes.append(flushing.time())
                saves.append(time_one(save))
            saves, flushes = saves[WARM_UP:], flushes[WARM_UP:]
            yield figure(f"{name}, durable", saves)
            yield figure("  fdatasync alone, in turn with it", flushes)
            above = statistics.median(saves) - statistics.median(flushes)
            yield Figure(
                name=f"  {name} above the flush",
                unit="ms",
                median=above * 1000,
                samples=SAVES,
                below=2,
            )
    opened.close()


def measure_indexing(workspace: Workspace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="renor-bench-") as folder:
        bare = Workspace(Path(folder))
        (bare.folder / "store" / "facts.jsonl").unlink()
        settle()
        yield _index_figure("indexing CPU per chunk, notes alone", bare, below=0.6)
    yield _index_figure("indexing CPU per chunk, ledger included", workspace, below=0.6)
    walls = []
    for _ in range(REBUILDS):
        workspace.drop_index()
        walls.append(time_one(lambda: workspace.open().close()))
    yield figure("index from nothing, wall", walls, note="notes and ledger, one core")
    opened = workspace.open()

    def scan(_: None) -> None:
        opened.look_again()
        while opened.work(1.0):
            pass

    nothing = itertools.repeat(None)
    seconds = time_each(scan, nothing, count=SCANS, warm_up=5)
    yield figure("scan of an unchanged store", seconds)
    opened.close()
    seconds = [time_one(lambda: workspace.open().close()) for _ in range(SCANS)]
    yield figure("open and close an indexed store", seconds)


def measure_large(workspace: Workspace) -> Iterator[Figure]:
    """The same at the size that years of notes come to."""
    start = time.process_time()
    wall = time_one(lambda: workspace.open().close())
    spent = time.process_time() - start
    opened = workspace.open()
    chunks = opened.memory_status(CALLER).chunks
    yield Figure(
        name="index from nothing, wall",
        unit="s",
        median=wall,
        note=f"{chunks:,} chunks, {spent / chunks * 1000:.2f} ms CPU each",
    )
    yield from _reads(opened, below=12)

    def index_again(_: None) -> None:
        opened.index_memory(CALLER)

    nothing = itertools.repeat(None)
    seconds = time_each(index_again, nothing, count=20, warm_up=2)
    yield figure("index_memory, nothing changed", seconds, below=1_000)
    saved = opened.remember(CALLER, statement="A statement to retire and restore.")
    seconds = [
        time_one(lambda: opened.retire_memory(CALLER, id=saved.id)),
        time_one(lambda: opened.restore_memory(CALLER, id=saved.id)),
    ]
    yield figure("retire_memory, restore_memory", seconds)
    opened.retire_memory(CALLER, id=saved.id)
    yield figure("erase", [time_one(lambda: opened.erase(OWNER, id=saved.id))])
    opened.close()
    seconds = [time_one(lambda: workspace.open().close()) for _ in range(20)]
    yield figure("open and close, nothing changed", seconds)


def _index_figure(name: str, workspace: Workspace, *, below: float) -> Figure:
    each = []
    for _ in range(REBUILDS):
        workspace.drop_index()
        start = time.process_time()
        opened = workspace.open()
        spent = time.process_time() - start
        each.append(spent / opened.memory_status(CALLER).chunks * 1000)
        opened.close()
    return Figure(
        name=name,
        unit="ms",
        median=statistics.median(each),
        p95=percentile(each, 0.95),
        samples=REBUILDS,
        below=below,
    )
