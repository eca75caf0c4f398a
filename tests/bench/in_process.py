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
WORKSPACE = "00000000-0000-4000-8000-000000000000"


class Workspace:
    """A workspace of the corpus in a folder that lasts as long as the run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / WORKSPACE
        engine.create_workspace(self.folder, WORKSPACE)
        self.made = corpus.make_store(self.folder / "store")

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
    settle()
    questions = corpus.iter_questions(1)
    seconds = time_each(
        lambda question: opened.get_context(CALLER, query=question),
        questions,
        count=QUESTIONS,
        warm_up=WARM_UP,
    )
    yield figure("get_context", seconds, below=4)
    seconds = time_each(
        lambda question: opened.search_text(CALLER, query=question),
        questions,
        count=QUESTIONS,
        warm_up=WARM_UP,
    )
    yield figure("search_text", seconds)
    opened.close()


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
