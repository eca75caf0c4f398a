"""The engine: one workspace, opened, and what a caller may ask of it.

Saving and reading are modules of their own; here is its life and its state. How
store and index are kept in step is store.py's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from . import files
from . import types as t
from .answers import readable_scopes
from .keeping import SETTLE_SECONDS
from .ledger import LEDGER_NAME
from .lifecycle import Lifecycle
from .looking import Looking
from .moments import clock_now_ms, random_bits
from .operation import on_index
from .reading import Reading
from .saving import Saving
from .store import Store

PROBLEMS_SHOWN = 100
NONE = (0, 0)
SLEEP_SCAN_SECONDS = 0.01


class Engine(Saving, Reading, Looking, Lifecycle):
    """One workspace, opened. Not thread-safe: operations are taken in turn."""

    def __init__(
        self,
        directory: Path,
        *,
        disk: files.Disk | None = None,
        clock: Callable[[], int] = clock_now_ms,
        random: Callable[[], int] = random_bits,
        scan_seconds: float = SLEEP_SCAN_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        """Open a workspace and look at its files for about `scan_seconds`.

        The caller holds the workspace's lock. Raises: Corrupt when the folder is
        not a workspace; OSError.
        """
        self.store = Store(
            directory,
            disk=disk,
            clock=clock,
            random=random,
            settle_seconds=settle_seconds,
        )
        self.store.finish_opening(scan_seconds)

    def close(self) -> None:
        self.store.close()

    def work(self, seconds: float) -> bool:
        """Do pending indexing for about `seconds`. Returns whether more remains."""
        return self.store.work(seconds)

    def write_page(self) -> None:
        """Make Facts.md anew if facts have changed. Raises: files.DiskFailed."""
        self.store.write_page()

    def look_again(self) -> None:
        """Note that files may have changed; `work` looks at them."""
        self.store.want_scan()

    @contextmanager
    def sharing_flushes(self) -> Iterator[None]:
        """Run several operations whose writes share a flush: their receipts count
        only once this has returned. Raises: files.DiskFailed.
        """
        with self.store.disk.sharing_flushes():
            yield

    @on_index
    def memory_status(self, caller: t.Caller) -> t.Status:
        """Return counts of what the caller may see, and what the owner should know."""
        self._look_at_ledger()
        index = self.store.index
        scopes = readable_scopes(caller, "")
        kinds = index.passages.count_kinds(scopes)
        return t.Status(
            notes=kinds.get("note", NONE)[0],
            entries=kinds.get("entry", NONE)[0],
            chunks=index.passages.count_chunks(scopes),
            entities=self._count_entities(scopes),
            facts=index.facts.count_values(scopes),
            relations=self._count_links(scopes),
            retired=index.lives.count_retired(scopes),
            semantic=False,
            embedding_dims=0,
            chunks_without_vectors=0,
            embedding_rebuild=0,
            storage=t.Storage(
                used_bytes=sum(size for _, size in kinds.values()),
                limit_bytes=caller.limit_bytes,
            ),
            problems=self._problems() if caller.scopes is None else [],
            index=t.IndexState(stale=self.store.is_stale),
            renor=t.Version(version=t.VERSION),
        )

    def _problems(self) -> list[t.Problem]:
        """Return what happened lately and what stands, the latter sure to be shown."""
        problems = [*self.store.reports.happened, *self._standing_problems()]
        return problems[-PROBLEMS_SHOWN:]

    def _standing_problems(self) -> list[t.Problem]:
        store = self.store
        problems = []
        if store.ledger_damage:
            message = f"the ledger is open read-only: {store.ledger_damage}"
            problems.append(
                t.Problem(code="ledger-damaged", message=message, path=LEDGER_NAME)
            )
        problems += [
            t.Problem(code="skipped", message=one.reason, path=one.path)
            for one in store.reports.skipped
        ]
        problems += [
            t.Problem(code="file", message=problem, path=path)
            for path, problem in store.index.file_problems()
        ]
        return problems

    @on_index
    def index_memory(self, caller: t.Caller) -> t.IndexReport:
        """Take in every change of the files now, until the caller's deadline."""
        before = self.store.index.file_stamps()
        self.store.want_scan()
        while self.store.work(0.1):
            if caller.deadline_ms and time.time() * 1000 > caller.deadline_ms - 1000:
                break
        after = self.store.index.file_stamps()
        skipped = self.store.reports.skipped
        problems = self.store.index.file_problems()
        scopes = readable_scopes(caller, "")
        if scopes is not None:
            seen = self.store.index.passages.paths(scopes)
            after = {path: stamp for path, stamp in after.items() if path in seen}
            skipped, problems = [], [one for one in problems if one[0] in seen]
        return t.IndexReport(
            ok=not self.store.is_stale,
            total=len(after),
            indexed=sum(before.get(path) != stamp for path, stamp in after.items()),
            errors=len(skipped) + len(problems),
            skipped_too_large=[s.path for s in skipped if s.reason == files.TOO_LARGE][
                :100
            ],
            skipped_non_utf8_names=[
                s.path for s in skipped if s.reason == files.NOT_UTF8
            ][:100],
            skipped=[
                *(t.SkippedFile(path=s.path, reason=s.reason) for s in skipped[:100]),
                *(t.SkippedFile(path=p, reason=why) for p, why in problems[:100]),
            ],
            warning="index-unfinished" if self.store.is_stale else msgspec.UNSET,
        )

    @on_index
    def verify(self, caller: t.Caller) -> t.Verification:
        """Read the ledger and all changed files again, compare, check the index.

        Names what stands, not what happened and was mended.
        """
        self.index_memory(caller)
        store = self.store
        reading, _ = store.ledger.read()
        problems = self._standing_problems()
        in_file = set(reading.events)
        if in_file != store.index.facts.event_ids():
            problems.append(
                t.Problem(
                    code="index-differs", message="events differ from the ledger's"
                )
            )
        problems += [
            t.Problem(code="index-damaged", message=found[:200])
            for found in store.index.check()
        ]
        kinds = store.index.passages.count_kinds(None)
        return t.Verification(
            events=len(in_file),
            entries=kinds.get("entry", NONE)[0],
            notes=kinds.get("note", NONE)[0],
            problems=problems,
        )
