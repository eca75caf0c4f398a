"""The store opened: its ledger and its derived index, kept in step.

Appends are durable before the index hears of them; work of the index is done in
slices. Source: docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from . import daylog, files, markdown, rows, rules
from .errors import Busy, Corrupt, EngineError, Invalid
from .facts import row_of_value
from .index import FAULTS, Index, IndexFull, IndexUnusable
from .ledger import ERASE, LEDGER_NAME, Ledger, checksum_of, loss_of, render_line
from .lives import KINDS as LIFE_KINDS
from .lives import Life
from .moments import Moments, clock_now_ms, random_bits
from .notes import Notes, StoreFile
from .passages import MemoryRow
from .reports import Reports
from .shelf import FOLDER_NAME as SHELF_NAME
from .shelf import Shelf
from .types import Event
from .workspace import read_marker

INDEX_NAME = "index.sqlite3"
SLICE_SECONDS = 0.02
FINISH_SECONDS = 10.0
STALE_BUFFER_MS = 10 * 60 * 1000
"""An entry younger than this that vanishes was in an editor's older buffer."""

CLOCK_BEHIND_MS = 60_000
SETTLE_SECONDS = 1.0
"""Quiet after another hand's change before what is missing counts as missing: an
editor may still be writing. Until then it is found and read as before."""

NOT_YET = files.Stamp(0, 0, -1, 0)
"""Stands for a file's stamp while it is only partly taken in."""

ERASE_AGAIN_SECONDS = 5.0
"""After an erasure that the disk or another hand refused."""

ATTEMPTS = 8
"""Appends tried against another hand before the caller is asked to come back."""

Done = TypeVar("Done")


@dataclass(slots=True)
class Unsettled:
    """A day log that lacks entries since another hand changed it."""

    stamp: files.Stamp
    since: float


class Keeping:
    """One workspace's store with its index. The caller holds the workspace's lock."""

    def __init__(
        self,
        directory: Path,
        *,
        disk: files.Disk | None = None,
        clock: Callable[[], int] = clock_now_ms,
        random: Callable[[], int] = random_bits,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._settle_seconds = settle_seconds
        self._unsettled: dict[str, Unsettled] = {}
        self.directory = directory
        self.disk = disk or files.Disk()
        self.moments = Moments(clock, random)
        read_marker(directory)
        folder = directory / "store"
        if not folder.is_dir():
            message = "the store folder is missing: is the disk mounted?"
            raise Corrupt(message)
        self.notes = Notes(self.disk, folder)
        self.ledger = Ledger(self.disk, folder)
        self.shelf = Shelf(self.disk, directory / SHELF_NAME)
        self.reports = Reports()
        # Until every file has been seen once: a torn end can only be from before.
        self._opening = True
        self.ledger_damage = ""
        self._scan: Iterator[None] | None = None
        self._scan_again = False
        self._incomplete = False
        self._wants_erasing = False
        self._erase_again_at = 0.0
        for name in ("retired", "incoming"):  # empty, git and backups drop them
            self.disk.make_folder(directory / name)
        self._sweep_temporaries()
        self.index = self._open_index()
        self._guarded(self._begin)
        self._try_erasing()

    def finish_opening(self, seconds: float) -> None:
        """Scan for at most about `seconds`; what remains is done by `work`."""
        self.work(seconds)

    def _begin(self) -> None:
        self.reports.load(self.index.get_meta("reports"), self.moments.now_ms())
        with self._step():
            self.sync_ledger(opening=True)
        # An index that was kept may have heard of an erasure that was interrupted.
        self._wants_erasing |= bool(self.index.facts.unfinished_events())
        self.moments.seen(self.index.newest_written()[1])
        if not self.index.file_stamps():
            self._see_moments_of_entries()
        if self.moments.behind_ms() > CLOCK_BEHIND_MS:
            self.reports.add(
                "clock-behind",
                "the clock is behind the newest memory; times go on from there",
            )
        self.want_scan()

    def _see_moments_of_entries(self) -> None:
        """Read the day logs for their moments: a new index knows of none, and what
        is saved before it has seen all files must still be later than all.
        """
        for file in self.notes.scan():
            if isinstance(file, StoreFile) and file.day:
                with contextlib.suppress(OSError):
                    for at in daylog.iter_moments(self.notes.read(file.raw)[0]):
                        self.moments.seen(rules.parse_moment("at", at))

    def _sweep_temporaries(self) -> None:
        """Remove what an interrupted replacement left: the lock says nobody else's."""
        for folder in (".", "store", "retired", "incoming"):
            place = self.directory / folder
            for name in files.list_names(place):
                if name.startswith(files.TEMPORARY_PREFIX):
                    self.disk.remove(place / name)

    def _open_index(self) -> Index:
        path = self.directory / INDEX_NAME
        try:
            return Index(path)
        except IndexUnusable:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        try:
            return Index(path)
        except IndexUnusable as fault:
            message = "the index cannot be made: is the disk full or read-only?"
            raise Busy(message) from fault

    def close(self) -> None:
        self.keep_reports()
        self.index.close()

    def keep_reports(self) -> None:
        """Let what the owner should know outlive this process."""
        if self.reports.is_changed:
            with contextlib.suppress(EngineError, *FAULTS), self.index.transaction():
                self.index.set_meta("reports", self.reports.render())
            self.reports.is_changed = False

    @contextlib.contextmanager
    def _step(self) -> Iterator[None]:
        """One transaction of the index; undone, the ledger is read afresh."""
        self.reports.at_ms = self.moments.now_ms()
        try:
            with self.index.transaction():
                yield
        except BaseException:
            self.ledger.stamp = None
            raise

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; if the index fails under it, make the index anew and go on."""
        try:
            step()
        except FAULTS:
            self.rebuild_index()
            step()

    def rebuild_index(self, between: Callable[[], None] = lambda: None) -> None:
        """Throw the index away and begin another from the store.

        `between` is done while there is none.
        """
        moves: list[tuple[str, str, int]] = []
        with contextlib.suppress(*FAULTS):
            moves = self.index.moves()
        self.index.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.directory / INDEX_NAME}{suffix}").unlink(missing_ok=True)
        failed: Exception | None = None
        try:
            between()
        except (OSError, EngineError, files.Changed) as fault:
            failed = fault
        self.index = Index(self.directory / INDEX_NAME)
        self.ledger.stamp = None
        self._scan = None
        with self._step():
            self.index.put_moves(moves)
            self.sync_ledger()
        self.reports.is_changed = True
        self.want_scan()
        if failed is not None:
            raise failed

    # --- the ledger

    def sync_ledger(self, *, opening: bool = False) -> None:
        """Take in what is new in the ledger's file. Raises: OSError; files.Changed.

        Appended lines are folded as they come; any other change folds all anew.
        """
        shown = files.stamp_of(self.ledger.path)
        if shown is None and os.path.lexists(self.ledger.path):
            # No empty memory: what the index knows stays, and nothing is appended.
            self.ledger.is_damaged = True
            self.ledger_damage = f"{LEDGER_NAME} is not a regular file"
            return
        known = self._known_ledger()
        if shown in (known, self.ledger.stamp) and (shown or not known):
            self.ledger.stamp = shown
            return
        reading, stamp = self.ledger.read()
        if reading.torn_at is not None and opening and stamp is not None:
            stamp = self._set_aside(self.ledger.path, reading.torn_at, stamp)
            reading.torn_at = None
        self.ledger.stamp = stamp
        self._erase_again_at = 0.0  # it may be mended
        self.ledger.is_damaged = bool(reading.damage or reading.torn_at is not None)
        if reading.unfinished_newline and not self.ledger.is_damaged:
            done = self.disk.append(self.ledger.path, b"\n", expected=stamp)
            self.ledger.stamp = done.stamp
        self._wants_erasing |= reading.has_erased_words
        self._fold(reading.events, reading.lines)
        damage = [f"line {d.line}: {d.reason}" for d in reading.damage[:20]]
        if reading.torn_at is not None:
            damage.append("its last line has no end")
        self.ledger_damage = "; ".join(damage)
        self._note_ledger_stamp()

    def _known_ledger(self) -> files.Stamp | None:
        said = self.index.get_meta("ledger_stamp")
        if not said:
            return None
        return files.Stamp(*(int(part) for part in said.split(",")))

    def _note_ledger_stamp(self) -> None:
        # Nothing is noted of a damaged ledger: the next open must read it again.
        stamp = None if self.ledger.is_damaged else self.ledger.stamp
        said = (
            f"{stamp.device},{stamp.inode},{stamp.size},{stamp.mtime_ns}"
            if stamp
            else ""
        )
        self.index.set_meta("ledger_stamp", said)

    def _fold(self, events: dict[str, Event], lines: dict[str, bytes]) -> None:
        """Bring the index to exactly these events."""
        kinds = self.index.facts.event_kinds()
        known = set(kinds)
        gone = known - events.keys()
        if self.ledger.is_damaged:
            # A damaged file proves nothing of what it lacks: it may be half written.
            events.update(
                (event.id, event) for event in self.index.facts.get_events(gone)
            )
            lines.update(
                (event_id, self.index.facts.get_line(event_id)) for event_id in gone
            )
            gone = set()
        gone = self._rescue_events(gone, events, lines)
        self._keep_erased(events, lines)
        checksums = self.index.facts.event_checksums()
        is_other = any(
            checksums.get(event_id) not in (None, checksum_of(line))
            for event_id, line in lines.items()
        )
        new = sorted(events.keys() - known)
        if gone or is_other or (new and known and new[0] < max(known)):
            self.index.clear_events()
            new = sorted(events)
        # Words that another copy of the ledger has lost are in the index's pages.
        self._wants_erasing |= is_other
        for event_id in new:
            try:
                self.index.apply_event(events[event_id], lines[event_id])
            except Invalid:
                self.reports.add("ledger-event", f"event {event_id} has no moment")
        if self._settle_lives():
            self.want_scan()
        self._wants_erasing |= bool(self.index.facts.unfinished_events())
        # Another clock may be ahead of ours: what is saved next comes after it.
        self.moments.seen(self.index.facts.newest_event()[1])

    def _keep_erased(self, events: dict[str, Event], lines: dict[str, bytes]) -> None:
        """Let what is known to have lost words stay so, whatever an older copy says."""
        wordless = self.index.facts.wordless_events()
        back = [
            event.id
            for event in events.values()
            if event.id in wordless and loss_of(wordless[event.id]) > loss_of(event)
        ]
        for event in self.index.facts.get_events(back):
            events[event.id] = event
            lines[event.id] = self.index.facts.get_line(event.id)
        self._wants_erasing |= bool(back)

    def _rescue_events(
        self, gone: set[str], events: dict[str, Event], lines: dict[str, bytes]
    ) -> set[str]:
        """Append again the fresh events that another hand's older copy lost.

        Returns the ids that stay gone: the file is the truth for older ones.
        """
        if not gone:
            return gone
        fresh_ms = self.moments.now_ms() - STALE_BUFFER_MS
        fresh = [
            event
            for event in self.index.facts.get_events(gone)
            if event.kind == ERASE
            or rules.parse_moment("recorded_at", event.recorded_at) >= fresh_ms
        ]
        if fresh:
            whole = {event.id: self.index.facts.get_line(event.id) for event in fresh}
            self.ledger.append_lines(list(whole.values()))
            events.update((event.id, event) for event in fresh)
            lines.update(whole)
            self.reports.add(
                "events-put-back",
                f"{len(fresh)} fresh events were missing from the ledger: put back",
                LEDGER_NAME,
            )
            gone = gone - {event.id for event in fresh}
        if gone:
            self.reports.add(
                "events-gone",
                f"{len(gone)} events were removed from the ledger by hand",
                LEDGER_NAME,
            )
        return gone

    def append_event(self, event: Event) -> bool:
        """Append an event durably and fold it. Returns whether it was indexed.

        Raises: files.Changed when the ledger must be read first, and all that was
        decided from it decided anew.
        """
        if self.ledger.has_changed():
            raise files.Changed
        line = render_line(event)
        appended = self._writing(lambda: self.ledger.append_lines([line]))
        self._wants_erasing |= event.unfinished
        if event.kind in LIFE_KINDS:
            self.disk.flush_waiting()  # the files follow what it decides
        if appended.intact:
            return self._try_index(lambda: self._index_event(event, line))
        # Another hand was at the file around this write: what is there now decides.
        self.sync_in_transaction()
        if not self.index.facts.has_event(event.id):
            raise files.Changed
        return True

    def _index_event(self, event: Event, line: bytes) -> None:
        self.index.apply_event(event, line)
        self._settle_lives()
        self._note_ledger_stamp()

    def sync_in_transaction(self) -> None:
        """Take in the ledger's changes now. Raises: EngineError."""

        def sync() -> None:
            with self._step():
                self.sync_ledger()

        self._writing(lambda: self._guarded(sync))
        self._try_erasing()

    def _try_index(self, step: Callable[[], None]) -> bool:
        """Index what is already safe; a failure only makes the index be rebuilt."""
        try:
            with self._step():
                step()
        except IndexFull:
            self.want_scan()
            return False
        except IndexUnusable:
            self._try_rebuild()
            self.want_scan()
            return False
        return True

    def _try_rebuild(self) -> None:
        """Make the index anew; where that fails, the next operation tries again."""
        try:
            self.rebuild_index()
        except (*FAULTS, OSError, EngineError, files.Changed) as fault:
            reason = type(fault).__name__
            self.reports.add("index", f"the index cannot be made anew: {reason}")
            self._scan, self._incomplete = None, True

    @staticmethod
    def _writing(step: Callable[[], Done]) -> Done:
        """Run a change of the disk; a refusal of the disk becomes the caller's error."""
        try:
            return step()
        except OSError as fault:
            reason = errno.errorcode.get(fault.errno or 0, "unknown error")
            message = f"the disk refused the write ({reason}): nothing was saved"
            raise Busy(message) from fault

    # --- lives: what the events say of notes, entries and facts

    def _settle_lives(self) -> bool:
        """Let the index follow the lives that events have changed; whether any had."""
        changed = self.index.lives.unsettled()
        for life in changed:
            if not life.is_retired:
                self.index.lives.settle(life.key, None)
            elif life.key.startswith("fact:"):
                self._settle_fact(life)
            else:
                self._settle_retired(life)
        return bool(changed)

    def _settle_fact(self, life: Life) -> None:
        value = self.index.facts.find_value(life.key)
        if value is None:
            self.index.lives.forget(life.key)
            return
        row = row_of_value(value)
        words = f"{value.object}\n{value.statement}"
        self.index.lives.settle(life.key, row, f"{value.subject}\n{words}")

    def _settle_retired(self, life: Life) -> None:
        """Take a retired memory out of what is found; keep what it was beside."""
        live = self._find_live(life)
        if live is not None:
            # Its file is looked at again: what stands there goes, or decides otherwise.
            known = self.index.find_file(live.path)
            if known:
                self.index.put_file(live.path, known[0], NOT_YET)
            if not life.by_hand:
                self.index.passages.remove_memory(live.id)
        row, text = self._read_retired(life)
        self.index.lives.settle(life.key, row, text)

    def _find_live(self, life: Life) -> MemoryRow | None:
        if life.key.startswith("#"):
            return self.index.passages.find_entry(life.key.removeprefix("#"))
        row = self.index.passages.find_memory(f"note:{life.path}")
        # Another note may have taken the path since.
        is_same = row is not None and self.index.digest_of(life.path) == life.sha256
        return row if is_same else None

    def _read_retired(self, life: Life) -> tuple[MemoryRow, str]:
        """Return what a retired note or entry was, from its kept bytes."""
        data = self.shelf.read(life.sha256)
        file = self._file_of(life)
        if data is None:
            self.reports.add(
                "retired-missing",
                f"the words of retired {life.event.id} are not in {SHELF_NAME}/",
                life.path,
            )
            return rows.row_of_missing(life.event.about, file, life.scope), ""
        if life.key.startswith("#"):
            entries = daylog.parse_day(data).entries
            if entries:
                row = rows.row_of_entry(life.path, file.day, entries[0])
                return row, row.text
            return rows.row_of_missing(life.event.about, file, life.scope), ""
        if file.day:
            row = rows.row_of_day(file, daylog.parse_day(data).hand_text)
            return row, row.text
        return rows.read_note(file, data).row, markdown.decode_note(data)[0]

    @staticmethod
    def mtime_ms_of(life: Life) -> int:
        """Return the time of a retired note's file."""
        said = life.event.modified_at or life.event.recorded_at
        return rules.parse_moment("modified_at", said)

    def _file_of(self, life: Life) -> StoreFile:
        """Return the file a note was, as far as its retirement tells."""
        mtime_ns = self.mtime_ms_of(life) * 1_000_000
        raw = (life.event.file or life.path).encode()
        return StoreFile(life.path, raw, files.Stamp(0, 0, 0, mtime_ns))

    # --- erasing what the ledger has decided to erase

    def _try_erasing(self) -> None:
        """Finish what is decided; where the disk refuses, the next open tries again."""
        if not self._wants_erasing or time.monotonic() < self._erase_again_at:
            return
        try:
            self._erase_decided()
        except (OSError, EngineError, files.Changed) as fault:
            self._erase_again_at = time.monotonic() + ERASE_AGAIN_SECONDS
            reason = type(fault).__name__
            self.reports.add("erasing", f"an erasure is not finished yet: {reason}")

    def _erase_decided(self) -> None:
        """Make the files and the index agree with what the ledger says is erased."""
        raise NotImplementedError

    # --- work in slices

    @property
    def is_stale(self) -> bool:
        """Whether the index has still to take in files already seen on the disk."""
        return self._scan is not None or self._incomplete

    @property
    def has_work(self) -> bool:
        """Whether `work` has something to do now."""
        return self._scan is not None

    def want_scan(self) -> None:
        """Ask for a look at every file; `work` does it in slices."""
        self._incomplete = False
        if self._scan is None:
            self._scan = self._scan_steps()
        else:
            self._scan_again = True

    def work(self, seconds: float = SLICE_SECONDS) -> bool:
        """Do pending indexing for about `seconds`. Returns whether more remains.

        Raises: files.DiskFailed.
        """
        if self._scan is None:
            return False
        self._try_erasing()
        try:
            with self._step():
                self._run_slice(time.monotonic() + seconds)
        except IndexUnusable:
            self._try_rebuild()
        except files.Changed:
            self._scan = self._scan_steps()
        except (OSError, EngineError) as fault:
            self.reports.add("scan-stopped", f"a scan was stopped: {fault}")
            self._scan, self._incomplete = None, True
        self._try_erasing()
        self.keep_reports()
        return self._scan is not None

    def _run_slice(self, until: float) -> None:
        while self._scan is not None:
            if next(self._scan, True):
                self._scan = self._scan_steps() if self._scan_again else None
                self._scan_again = self._opening = False
            if time.monotonic() >= until:
                return

    def _scan_steps(self) -> Iterator[None]:
        """Look at every file once; yield wherever a request may come between."""
        raise NotImplementedError

    # --- torn ends

    def _set_aside(self, path: Path, offset: int, stamp: files.Stamp) -> files.Stamp:
        """Move an unfinished end out of the store; it was never acknowledged."""
        data, _ = files.read(path, offset)
        name = f"torn-{self.moments.next()[0]}-{path.name}"
        self.disk.replace(self.directory / "incoming" / name, data)
        stamp = self.disk.cut(path, offset, expected=stamp)
        self.reports.add(
            "torn-end",
            f"an unfinished write at the end of {path.name} was set aside as {name}",
            path.name,
        )
        return stamp
