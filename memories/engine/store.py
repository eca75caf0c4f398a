"""The store and its derived index, kept in step: the order of every step is here.

Appends are durable before the index hears of them; what other hands did to the
files is noticed before each append and by scans; words that a hand made vanish
are put back or retired, never silently gone. Source: docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from . import files, markdown, page, rules
from .errors import Busy, Corrupt, EngineError, Invalid
from .index import COPY_PROBLEM, FAULTS, Index, IndexFull, IndexUnusable
from .ledger import LEDGER_NAME, Ledger, render_line
from .moments import Moments, clock_now_ms, random_bits
from .notes import Notes, StoreFile, sha256
from .passages import MemoryRow
from .reports import Reports, Skipped
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

ATTEMPTS = 8
"""Appends tried against another hand before the caller is asked to come back."""

Done = TypeVar("Done")


@dataclass(slots=True)
class _Unsettled:
    """A day log that lacks entries since another hand changed it."""

    stamp: files.Stamp
    since: float


class Store:
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
        self._unsettled: dict[str, _Unsettled] = {}
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
        self.reports = Reports()
        # Until every file has been seen once: a torn end can only be from before.
        self._opening = True
        self.ledger_damage = ""
        self._scan: Iterator[None] | None = None
        self._scan_again = False
        self._incomplete = False
        for name in ("retired", "incoming"):  # empty, git and backups drop them
            self.disk.make_folder(directory / name)
        self._sweep_temporaries()
        self.index = self._open_index()
        self._guarded(self._begin)

    def finish_opening(self, seconds: float) -> None:
        """Scan for at most about `seconds`; what remains is done by `work`."""
        self.work(seconds)

    def _begin(self) -> None:
        self.reports.load(self.index.get_meta("reports"), self.moments.now_ms())
        with self._step():
            self.sync_ledger(opening=True)
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
                    for at in markdown.iter_moments(self.notes.read(file.raw)[0]):
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

    def rebuild_index(self) -> None:
        """Throw the index away and begin another from the store."""
        self.index.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.directory / INDEX_NAME}{suffix}").unlink(missing_ok=True)
        self.index = Index(self.directory / INDEX_NAME)
        self.ledger.stamp = None
        self.reports.is_changed = True
        with self._step():
            self.sync_ledger()
        self._scan = None
        self.want_scan()

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
        self.ledger.is_damaged = bool(reading.damage or reading.torn_at is not None)
        if reading.unfinished_newline and not self.ledger.is_damaged:
            done = self.disk.append(self.ledger.path, b"\n", expected=stamp)
            self.ledger.stamp = done.stamp
        # The first of a repeated id counts, as it does for `lines`.
        self._fold(
            {event.id: event for event in reversed(reading.events)}, reading.lines
        )
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
        known = self.index.facts.event_ids()
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
        new = sorted(events.keys() - known)
        if gone or (new and known and new[0] < max(known)):
            self.index.facts.clear()
            new = sorted(events)
        for event_id in new:
            try:
                self.index.facts.apply_event(events[event_id], lines[event_id])
            except Invalid:
                self.reports.add("ledger-event", f"event {event_id} has no moment")
        # Another clock may be ahead of ours: what is saved next comes after it.
        self.moments.seen(self.index.facts.newest_event()[1])

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
            if rules.parse_moment("recorded_at", event.recorded_at) >= fresh_ms
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
        if appended.intact:
            return self._try_index(lambda: self._index_event(event, line))
        # Another hand was at the file around this write: what is there now decides.
        self.sync_in_transaction()
        if not self.index.facts.has_event(event.id):
            raise files.Changed
        return True

    def _index_event(self, event: Event, line: bytes) -> None:
        self.index.facts.apply_event(event, line)
        self._note_ledger_stamp()

    def sync_in_transaction(self) -> None:
        """Take in the ledger's changes now. Raises: EngineError."""

        def sync() -> None:
            with self._step():
                self.sync_ledger()

        self._writing(lambda: self._guarded(sync))

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

    # --- day logs

    def append_entry(
        self, day: str, marker: markdown.Marker, text: str, at: str
    ) -> bool:
        """Append an entry durably to its day's log. Returns whether it was indexed.

        `at` is the HH:MM shown to a reader. Raises: EngineError; files.DiskFailed.
        """
        path = self.notes.day_path(day)
        block = markdown.render_entry(marker, text, at)
        for _ in range(ATTEMPTS):
            if self.look_at(path) and self.index.passages.find_entry(marker.id):
                return True
            known = self._seen(path)
            raw, expected = known if known else (path.encode(), None)
            try:
                appended = self._append_block(day, block, expected)
            except files.Changed:
                continue
            if appended.intact:
                entry = markdown.Entry(marker, text, block)
                return self._try_index_entry(
                    StoreFile(path, raw, appended.stamp), entry, is_new=known is None
                )
        message = (
            f"another program keeps replacing {path}; nothing was saved for certain, "
            "try again in a moment"
        )
        raise Busy(message)

    def _append_block(
        self, day: str, block: bytes, expected: files.Stamp | None
    ) -> files.Appended:
        return self._writing(
            lambda: self.notes.append_block(day, block, expected=expected)
        )

    def _try_index_entry(
        self, file: StoreFile, entry: markdown.Entry, *, is_new: bool
    ) -> bool:
        return self._try_index(lambda: self._index_appended(file, entry, is_new=is_new))

    def _index_appended(
        self, file: StoreFile, entry: markdown.Entry, *, is_new: bool
    ) -> None:
        if is_new:
            self._put_note_of_day(file, "")
        self._put_entry(file, entry)
        waiting = self._unsettled.get(file.path)
        if waiting is not None:
            waiting.stamp = file.stamp
        self.index.put_file(file.path, file.raw, NOT_YET if waiting else file.stamp)

    def _seen(self, path: str) -> tuple[bytes, files.Stamp] | None:
        """Return a file's raw name and how it was last read, settled or not."""
        known = self.index.find_file(path)
        waiting = self._unsettled.get(path)
        return (known[0], waiting.stamp) if known and waiting else known

    def settle_in(self) -> float | None:
        """Return in how many seconds a scan is due that settles what is missing."""
        if not self._unsettled:
            return None
        first = min(waiting.since for waiting in self._unsettled.values())
        return max(0.0, first + self._settle_seconds - time.monotonic())

    def _is_settling(self, file: StoreFile) -> bool:
        """Whether another hand was at a file so lately that it may not be done."""
        waiting = self._unsettled.get(file.path)
        if waiting is None or waiting.stamp != file.stamp:
            waiting = _Unsettled(file.stamp, time.monotonic())
            self._unsettled[file.path] = waiting
        return time.monotonic() - waiting.since < self._settle_seconds

    def look_at(self, path: str) -> bool:
        """Take in a file that another hand has changed. Returns whether one has."""
        known = self._seen(path)
        raw, seen = known if known else (path.encode(), None)
        stamp = self.notes.stamp(raw)
        if stamp == seen:
            return False
        if stamp is None:
            # Moved or deleted? What stands elsewhere must be known before what
            # stood here is put back or retired.
            self.want_scan()
            self.finish_scan()
        else:
            self._read_now(path, raw)
        return True

    def finish_scan(self, seconds: float = FINISH_SECONDS) -> None:
        """Go on with a scan until all files are seen, or for `seconds`.

        Raises: files.DiskFailed.
        """
        until = time.monotonic() + seconds
        while self.work(max(until - time.monotonic(), 0)):
            if time.monotonic() >= until:
                return

    def _read_now(self, path: str, raw: bytes) -> None:
        """Bring the index to what one file holds now, whatever that is."""

        def read() -> None:
            with self._step():
                stamp = self.notes.stamp(raw)
                if stamp is not None:
                    for _ in self._index_file(StoreFile(path, raw, stamp)):
                        pass

        self._writing(lambda: self._guarded(read))

    # --- scanning: what other hands did

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
        self.sync_ledger()
        known = self.index.file_stamps()
        found: set[str] = set()
        changed: list[StoreFile] = []
        skipped: list[Skipped] = []
        for count, file in enumerate(self.notes.scan()):
            if isinstance(file, Skipped):
                skipped.append(file)
                continue
            found.add(file.path)
            if known.get(file.path) != file.stamp:
                changed.append(file)
            if count % 200 == 199:
                yield
        self.reports.skipped = skipped
        # Newest first: what an agent or its owner has just written is asked for first.
        for file in sorted(changed, key=lambda f: f.stamp.mtime_ns, reverse=True):
            yield from self._index_file(file)
            yield
        for path in sorted(known.keys() - found):
            row = self.index.find_file(path)
            # Another stamp by now: a save has made it anew since it was looked for.
            if row and row[1] == known[path]:
                self._contain(path, partial(self._forget_file, path))
            yield

    def _contain(self, path: str, step: Callable[[], None]) -> None:
        """Run a step on one file; what goes wrong there stops no other file."""
        try:
            with self._step():
                step()
        except IndexFull:
            raise
        except (OSError, EngineError, files.Changed) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else str(fault)
            self.reports.add("not-taken-in", reason or type(fault).__name__, path)
            if isinstance(fault, Busy | files.Changed):
                self._unsettled[path] = _Unsettled(NOT_YET, time.monotonic())

    def _index_file(self, file: StoreFile) -> Iterator[None]:
        """Bring the index to a file's content; a file that cannot be read is named."""
        try:
            data, stamp = self.notes.read(file.raw)
        except FileNotFoundError:
            return
        except OSError as fault:
            self.index.remove_file(file.path)
            problem = fault.strerror or "cannot be read"
            self.index.put_file(file.path, file.raw, file.stamp, problem)
            return
        file = StoreFile(file.path, file.raw, stamp)
        if file.day:
            self._contain(file.path, partial(self._index_day, file, data))
        elif file.path == page.PAGE_NAME and page.is_page(data):
            self.index.remove_file(file.path)
            self.index.put_file(file.path, file.raw, file.stamp)
        else:
            yield from self._try_note(file, data)

    def _try_note(self, file: StoreFile, data: bytes) -> Iterator[None]:
        """Index a note; one that no rule foresaw is named and stops no other."""
        try:
            yield from self._index_note(file, data)
        except (*FAULTS, EngineError, files.DiskFailed):
            raise
        except Exception as fault:  # noqa: BLE001 - a person's file can be anything
            self.index.remove_file(file.path)
            problem = f"cannot be read: {type(fault).__name__}"
            self.index.put_file(file.path, file.raw, file.stamp, problem)

    def _index_note(self, file: StoreFile, data: bytes) -> Iterator[None]:
        text, problem = markdown.decode_note(data)
        front, body = markdown.split_front_matter(text)
        scope, scope_problem = _scope_of(front.scope)
        name = file.path.rpartition("/")[2].rpartition(".")[0]
        title = front.title or markdown.first_heading(body) or name
        self.index.remove_file(file.path)
        # Known from here on, but not as it stands: half taken in, it is read again,
        # and if it is gone by then, so is what was taken in.
        self.index.put_file(file.path, file.raw, NOT_YET)
        number = self.index.passages.put_memory(
            MemoryRow(
                id=f"note:{file.path}",
                kind="note",
                path=file.path,
                title=title,
                scope=scope,
                at_ms=file.stamp.mtime_ns // 1_000_000,
                day=front.day or file.day or _day_of(file),
                size_bytes=len(data),
                tags=list(dict.fromkeys([*front.tags, *markdown.find_tags(body)])),
                links=markdown.find_wikilinks(body),
            )
        )
        for chunk in markdown.iter_chunks(body):
            if chunk is None:
                yield
            else:
                self.index.passages.add_chunks(number, title, [chunk])
        problem = problem or front.problem or scope_problem
        self.index.put_file(file.path, file.raw, file.stamp, problem, sha256(data))

    def _index_day(self, file: StoreFile, data: bytes) -> None:
        log = markdown.parse_day(data)
        known = {row.entry: row for row in self.index.passages.entries_of(file.path)}
        if log.torn_at is not None and log.torn_id not in known:
            if self._opening:
                file = self._cut_torn_day(file, log.torn_at)
                log = markdown.parse_day(data[: log.torn_at])
            else:
                log.problems.append("its last entry has no end yet")
        entries, copies = self._own_entries(file, log.entries)
        for copy in copies:
            log.problems.append(f"entry {copy.marker.id} {COPY_PROBLEM}")
            log.hand_text += markdown.text_of_copy(copy)
        gone = known.keys() - {entry.marker.id for entry in entries}
        # Its last entry without an end: cut off by a person, or not yet all written.
        half = {log.torn_id} & known.keys() if log.torn_at is not None else set()
        kept: list[MemoryRow] = []
        if (gone or half) and self._is_settling(file):
            kept = [known[entry_id] for entry_id in sorted(gone | half)]
            entries = [entry for entry in entries if entry.marker.id not in half]
        else:
            self._unsettled.pop(file.path, None)
        self.index.passages.remove_memories_of(file.path)
        self._put_note_of_day(file, log.hand_text)
        for entry in entries:
            self._put_entry(file, entry)
            self._note_return(file, entry)
        for row in kept:
            self._put_row(row)
        stamp = NOT_YET if kept else file.stamp
        self.index.put_file(file.path, file.raw, stamp, "; ".join(log.problems))
        if not kept:
            self._rescue_entries([known[entry_id] for entry_id in sorted(gone)])

    def _own_entries(
        self, file: StoreFile, entries: list[markdown.Entry]
    ) -> tuple[list[markdown.Entry], list[markdown.Entry]]:
        """Part a day's entries from copies of entries that live in another file."""
        own: list[markdown.Entry] = []
        copies: list[markdown.Entry] = []
        for entry in entries:
            other = self.index.passages.find_entry(entry.marker.id)
            is_twice = (
                other is not None
                and other.path != file.path
                and self._is_unchanged(other.path)
            )
            if other is None or not is_twice:
                own.append(entry)
            elif _nearness(other.path) < _nearness(file.path):
                copies.append(entry)
            else:
                # The same whichever was met first, or a new index would differ.
                own.append(entry)
                self._read_again(other)
        return own, copies

    def _read_again(self, other: MemoryRow) -> None:
        """Let an entry's id go to another file: what stands in its own is a copy."""
        self.index.passages.remove_memory(other.id)
        known = self.index.find_file(other.path)
        if known:
            self.index.put_file(other.path, known[0], NOT_YET)
            self.want_scan()

    def _is_unchanged(self, path: str) -> bool:
        known = self.index.find_file(path)
        return known is not None and self.notes.stamp(known[0]) == known[1]

    def _put_note_of_day(self, file: StoreFile, hand_text: str) -> None:
        body = hand_text.strip().removeprefix(f"# {file.day}").strip()
        number = self.index.passages.put_memory(
            MemoryRow(
                id=f"note:{file.path}",
                kind="note",
                path=file.path,
                title=file.day,
                scope=rules.GLOBAL_SCOPE,
                at_ms=file.stamp.mtime_ns // 1_000_000,
                day=file.day,
                text=body,
                size_bytes=len(body.encode()),
                tags=markdown.find_tags(body),
                links=markdown.find_wikilinks(body),
            )
        )
        chunks = (chunk for chunk in markdown.iter_chunks(body) if chunk)
        self.index.passages.add_chunks(number, file.day, chunks)

    def _put_entry(self, file: StoreFile, entry: markdown.Entry) -> None:
        marker = entry.marker
        title = markdown.first_line(entry.text)
        at_ms = rules.parse_moment("at", marker.at)
        self.moments.seen(at_ms)
        self._put_row(
            MemoryRow(
                id=f"entry:{file.path}#{marker.id}",
                kind="entry",
                path=file.path,
                title=title,
                scope=marker.scope,
                source=marker.source,
                writer=marker.writer,
                writer_id=marker.writer_id,
                at_ms=at_ms,
                day=file.day,
                text=entry.text,
                size_bytes=len(entry.text.encode()),
                edited=entry.edited,
                entry=marker.id,
                block=entry.block,
                marker=msgspec.json.encode(marker).decode(),
                request=marker.request,
                tags=markdown.find_tags(entry.text),
                links=markdown.find_wikilinks(entry.text),
                replaces=marker.replaces,
            )
        )

    def _put_row(self, row: MemoryRow) -> None:
        number = self.index.passages.put_memory(row)
        chunks = (chunk for chunk in markdown.iter_chunks(row.text) if chunk)
        self.index.passages.add_chunks(number, "", chunks)

    def _note_return(self, file: StoreFile, entry: markdown.Entry) -> None:
        """Record that an entry retired by hand stands in its file again."""
        memory_id = f"entry:{file.path}#{entry.marker.id}"
        if self.index.facts.find_hand_retirement(memory_id):
            self._append_by_hand("restore", memory_id, entry.marker.scope)

    def _forget_file(self, path: str) -> None:
        """A file is gone: its notes with it, its entries not silently."""
        gone = self.index.passages.entries_of(path)
        self.index.note_move(path)
        self.index.remove_file(path)
        self._rescue_entries(gone)

    # --- what a hand made vanish

    def _rescue_entries(self, gone: list[MemoryRow]) -> None:
        """Put fresh entries back, retire older ones; those that moved are fine."""
        fresh_ms = self.moments.now_ms() - STALE_BUFFER_MS
        fresh: dict[str, list[MemoryRow]] = {}
        for row in gone:
            if self.index.passages.find_entry(row.entry) or self._find_in_copy(
                row.entry
            ):
                continue
            if row.at_ms >= fresh_ms:
                fresh.setdefault(row.day, []).append(row)
            else:
                self._retire_by_hand(row)
        for day, rows in fresh.items():
            self._put_back(day, rows)

    def _find_in_copy(self, entry_id: str) -> bool:
        """Whether the entry lives on in a file that so far was a copy."""
        for path, raw in self.index.find_copies(entry_id):
            with contextlib.suppress(OSError):
                data, stamp = self.notes.read(raw)
                self._index_day(StoreFile(path, raw, stamp), data)
        return self.index.passages.find_entry(entry_id) is not None

    def _put_back(self, day: str, rows: list[MemoryRow]) -> None:
        """Append entries again under their own ids: an older copy had lost them."""
        path = self.notes.day_path(day)
        raw = path.encode()
        missing = rows
        for _ in range(ATTEMPTS):
            blocks = b"".join(b"\n" + row.block.lstrip(b"\n") for row in missing)
            with contextlib.suppress(files.Changed):
                self.notes.append_block(day, blocks, expected=self.notes.stamp(raw))
            # What the file says counts, not what was written to it.
            data, stamp = self.notes.read(raw)
            there = {one.marker.id for one in markdown.parse_day(data).entries}
            missing = [row for row in rows if row.entry not in there]
            if not missing:
                break
        else:
            # Undone with the step, the rows are still known and found missing again.
            message = f"another program keeps replacing {path}"
            raise Busy(message)
        self._index_day(StoreFile(path, raw, stamp), data)
        self.reports.add(
            "entries-put-back",
            f"{len(rows)} fresh entries were missing after an edit: put back",
            path,
        )

    def _retire_by_hand(self, row: MemoryRow) -> None:
        digest = sha256(row.block)
        # The words first: an event without them could not be undone. A crash between
        # the two leaves a file that no event names, and the entry is retired again.
        self.disk.replace(self.directory / "retired" / f"{digest}.md", row.block)
        if self._append_by_hand("retire", row.id, row.scope, row.path, digest):
            self.reports.add(
                "entry-retired",
                f"entry {row.entry} was removed by hand and is retired",
                row.path,
            )

    def _append_by_hand(
        self, kind: str, about: str, scope: str, path: str = "", digest: str = ""
    ) -> str:
        """Append a life-cycle event of a hand's doing; "" if the ledger refuses."""
        event_id, at_ms = self.moments.next()
        event = Event(
            id=event_id,
            kind=kind,
            recorded_at=rules.render_moment(at_ms),
            about=about,
            scope=scope,
            by="hand",
            path=path,
            sha256=digest,
        )
        line = render_line(event)
        for _ in range(ATTEMPTS):
            try:
                appended = self.ledger.append_lines([line])
            except files.Changed:
                self.sync_ledger()
                continue
            except EngineError:
                break
            if appended.intact:
                self._index_event(event, line)
            else:
                self.sync_ledger()
            if self.index.facts.has_event(event_id):
                return event_id
        self.reports.add(kind, f"{about} could not be recorded as {kind}d by hand")
        return ""

    # --- the page of facts

    def write_page(self) -> None:
        """Make Facts.md anew if facts have changed since; a person's own is left.

        A disk that refuses is no harm: the page is made again later.
        """
        path = self.notes.locate(page.PAGE_NAME.encode())
        with contextlib.suppress(OSError, EngineError, *FAULTS):
            newest = self.index.newest_written()[0]
            if newest == self.index.get_meta("page"):
                return
            if not os.path.lexists(path) or page.is_page(files.read(path)[0]):
                values = self.index.facts.newest_values(None, -1)
                self.disk.replace(path, page.render(values))
            else:
                message = "is your own, or was edited: it is a note and not updated"
                self.reports.add("page-kept", message, page.PAGE_NAME)
            with self.index.transaction():
                self.index.set_meta("page", newest)

    # --- torn ends

    def _cut_torn_day(self, file: StoreFile, offset: int) -> StoreFile:
        path = self.notes.locate(file.raw)
        return StoreFile(file.path, file.raw, self._set_aside(path, offset, file.stamp))

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


def _nearness(path: str) -> tuple[int, str]:
    """Order files that hold the same entry: nearest to the store's root first."""
    return path.count("/"), path


def _scope_of(said: str) -> tuple[str, str]:
    """Return a note's scope from its front matter, and a problem ("" when none)."""
    if not said:
        return rules.GLOBAL_SCOPE, ""
    candidate = said if ":" in said or said == rules.GLOBAL_SCOPE else f"project:{said}"
    try:
        return rules.parse_scope(candidate, reading=False), ""
    except Invalid as fault:
        return rules.GLOBAL_SCOPE, f"front matter: {fault.message}"


def _day_of(file: StoreFile) -> str:
    """Return the day in a file's name, else the day of its last change."""
    return markdown.find_day(file.path) or rules.render_day(
        file.stamp.mtime_ns // 1_000_000
    )
