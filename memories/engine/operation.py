"""What every operation of an engine shares: the store, a sound index, fresh facts."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from . import files
from . import types as t
from .answers import may_see_row, unknown_memory
from .errors import Busy, EngineError, NotFound, ReadOnly
from .index import FAULTS
from .passages import MemoryRow
from .store import Store

P = ParamSpec("P")
R = TypeVar("R")
Own = TypeVar("Own", bound="Operations")


def on_index(
    operation: Callable[Concatenate[Own, P], R],
) -> Callable[Concatenate[Own, P], R]:
    """Let an operation that meets a broken index be done on one made anew.

    Harmless for a save: where its words are safe already, the second try is a retry.
    """

    @functools.wraps(operation)
    def run(self: Own, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return operation(self, *args, **kwargs)
        except FAULTS:
            pass
        try:
            self.store.rebuild_index()
            return operation(self, *args, **kwargs)
        except FAULTS as fault:
            message = "the index cannot be made anew: is the disk full?"
            raise Busy(message) from fault

    return run


class Operations:
    """Base of the operations' classes; the store is opened by engine.py."""

    store: Store

    def _look_at_ledger(self) -> None:
        """Take in the ledger's changes if another hand has touched it."""
        if self.store.ledger.has_changed():
            try:
                self.store.sync_in_transaction()
            except (files.Changed, EngineError):
                self.store.want_scan()

    def _require_may_write(self, caller: t.Caller) -> None:
        if "write" not in caller.acts:
            message = (
                f'the connection "{caller.name}" may only read: ask the owner to allow '
                "writing"
            )
            raise ReadOnly(message)
        self._require_in_time(caller.deadline_ms)

    @staticmethod
    def _require_in_time(deadline_ms: int) -> None:
        if deadline_ms and time.time() * 1000 > deadline_ms:
            message = "the call came too late to begin a write: nothing was saved"
            raise Busy(message)

    def _require_own(self, caller: t.Caller) -> None:
        if "own" not in caller.acts:
            message = "only the owner may do this"
            raise ReadOnly(message)
        self._require_in_time(caller.deadline_ms)

    def _find_now(self, memory_id: str) -> MemoryRow | None:
        """Return a live memory; the file where a retired one stood is looked at first,
        since another may have taken its place that the index has not met yet.
        """
        passages = self.store.index.passages
        row = passages.find_memory(memory_id)
        life = None if row else self.store.index.lives.find(memory_id)
        is_retired = life is not None and life.is_retired
        if is_retired and life and life.path and self.store.look_at(life.path):
            row = passages.find_memory(memory_id)
        return row

    def _get_row(self, caller: t.Caller, memory_id: str) -> MemoryRow:
        """Return a note or an entry the caller may see. Raises: NotFound."""
        row = self.store.index.passages.find_memory(memory_id)
        if row is None and self.store.is_stale:
            self.store.finish_scan()
            row = self.store.index.passages.find_memory(memory_id)
        row = row or self._find_moved(memory_id)
        if row is None or row.kind == "fact" or not may_see_row(caller, row):
            raise unknown_memory(memory_id)
        if row.id != memory_id:
            message = f'"{memory_id[:200]}" is in another file now: use "{row.id}"'
            raise NotFound(message, currentId=row.id)
        return row

    def _find_moved(self, memory_id: str) -> MemoryRow | None:
        """Return the memory that had this id before its file was moved by hand."""
        index = self.store.index
        if memory_id.startswith("entry:"):
            return index.passages.find_entry(memory_id.rpartition("#")[2])
        path = index.find_moved(memory_id.removeprefix("note:"))
        return index.passages.find_memory(f"note:{path}") if path else None
