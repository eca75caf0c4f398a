"""A rehearsal: every hot path once, so that engines forked afterwards start warm.

Modules are imported, patterns compiled and the interpreter's code specialised in
the parent; children share the pages. Nothing stays open.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from . import files
from .engine import Engine
from .types import Caller
from .workspace import create_workspace

ROUNDS = 12
"""CPython specialises a function's code after eight calls (3.11)."""

_CALLER = Caller(connection_id="system", name="host", acts=frozenset({"read", "write"}))


def rehearse(workspaces: Path) -> None:
    """Open, use and close a workspace of its own in a temporary folder.

    `workspaces` is where the real ones lie: what kind of disk that is, is learnt once.
    """
    if workspaces.is_dir():
        files.file_system(workspaces)
    with tempfile.TemporaryDirectory(prefix="renor-") as folder:
        directory = Path(folder) / "workspace"
        create_workspace(directory, "rehearsal", _QuickDisk())
        (directory / "store" / "note.md").write_text(
            "---\ntags: [a]\n---\n# A note\n\nwith words, and a [[link]].\n",
            encoding="utf-8",
        )
        (directory / "store" / "link.md").write_text(
            "# Link\n\nWhat the note is about: words again.\n", encoding="utf-8"
        )
        for round_number in range(ROUNDS):
            engine = Engine(directory, disk=_QuickDisk())
            _use(engine, round_number)
            engine.close()


def _use(engine: Engine, number: int) -> None:
    engine.remember(_CALLER, statement=f"The rehearsal has round {number}.")
    engine.save_memory(
        _CALLER, subject="rehearsal", predicate="round", object=str(number)
    )
    for _ in range(ROUNDS if number == 0 else 1):
        engine.get_context(_CALLER, query=f"which round has the rehearsal, {number}?")
    engine.get_context(_CALLER, query="a note with words")
    engine.search_text(_CALLER, query="with words")
    engine.lookup_entity(_CALLER, name="link")
    saved = engine.remember(_CALLER, statement=f"Retired in round {number}.")
    engine.read_memory(_CALLER, id=saved.id)
    engine.retire_memory(_CALLER, id=saved.id)
    engine.restore_memory(_CALLER, id=saved.id)
    engine.retrieve_memory(_CALLER, subject="rehearsal", include_history=True)
    engine.memory_status(_CALLER)
    engine.list_recent(_CALLER)


class _QuickDisk(files.Disk):
    """What is thrown away at once need not be flushed."""

    def _flush_data(self, descriptor: int) -> None:
        os.fstat(descriptor)

    def _flush(self, descriptor: int) -> None:
        os.fstat(descriptor)
