"""Day logs, and what other hands did to the files: noticed, taken in, put right.

Words that a hand made vanish are put back or retired, never silently gone. Source:
docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import cache, partial

import msgspec

from . import daylog, files, page, rows, rules
from .chunks import iter_chunks
from .errors import Busy, EngineError
from .index import COPY_PROBLEM, FAULTS, IndexFull
from .keeping import (
    ATTEMPTS,
    FINISH_SECONDS,
    NOT_YET,
    STALE_BUFFER_MS,
    Keeping,
    Unsettled,
)
from .ledger import render_line
from .notes import StoreFile
from .passages import MemoryRow
from .reports import Skipped
from .shelf import sha256
from .types import Event


class Hands(Keeping):
    # --- day logs

    def append_entry(self, day: str, marker: daylog.Marker, text: str, at: str) -> bool:
        """Append an entry durably to its day's log. Returns whether it was indexed.

        `at` is the HH:MM shown to a reader. Raises: EngineError; files.DiskFailed.
        """
        path = self.notes.day_path(day)
        block = daylog.render_entry(marker, text, at)
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
                entry = daylog.Entry(marker, text, block)
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
        self, file: StoreFile, entry: daylog.Entry, *, is_new: bool
    ) -> bool:
        return self._try_index(lambda: self._index_appended(file, entry, is_new=is_new))

    def _index_appended(
        self, file: StoreFile, entry: daylog.Entry, *, is_new: bool
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
            waiting = Unsettled(file.stamp, time.monotonic())
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

    def _scan_steps(self) -> Iterator[None]:
        """Look at every file once; yield wherever a request may come between."""
        self.sync_ledger()
        known = self.index.file_stamps()
        odd_names = self.index.odd_names()
        found: set[str] = set()
        changed: list[StoreFile] = []
        skipped: list[Skipped] = []
        for count, file in enumerate(self.notes.scan()):
            if isinstance(file, Skipped):
                skipped.append(file)
                continue
            found.add(file.path)
            is_renamed = odd_names.get(file.path, file.path.encode()) != file.raw
            if known.get(file.path) != file.stamp or is_renamed:
                changed.append(file)
            if count % 200 == 199:
                yield
        self.reports.skipped = skipped
        # Newest first: what an agent or its owner has just written is asked for first.
        for file in sorted(changed, key=lambda f: f.stamp.mtime_ns, reverse=True):
            yield from self._index_file(file)
            yield
        yield from self._forget_gone(
            known, found, [one for one in skipped if one.hides]
        )

    def _forget_gone(
        self, known: dict[str, files.Stamp], found: set[str], hiding: list[Skipped]
    ) -> Iterator[None]:
        """Take out what a whole scan did not find; what cannot be listed is not gone."""

        def is_gone(path: str) -> bool:
            return path not in found and not any(one.is_over(path) for one in hiding)

        for path in sorted(filter(is_gone, known)):
            row = self.index.find_file(path)
            # Another stamp by now: a save has made it anew since it was looked for.
            if row and row[1] == known[path]:
                self._contain(path, partial(self._forget_file, path))
            yield
        for path in filter(is_gone, self.index.lives.revised_paths()):
            # Vanished while the index was being made anew.
            self._contain(path, partial(self._retire_vanished, path))

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
                self._unsettled[path] = Unsettled(NOT_YET, time.monotonic())

    def _index_file(self, file: StoreFile) -> Iterator[None]:
        """Bring the index to a file's content; a file that cannot be read is named."""
        if file.stamp.size > files.MAX_FILE_BYTES and not file.day:
            self._put_unread(file, files.TOO_LARGE)
            return
        try:
            data, stamp = self.notes.read(file.raw)
        except FileNotFoundError:
            return
        except OSError as fault:
            self._put_unread(file, fault.strerror or files.UNREADABLE)
            return
        file = StoreFile(file.path, file.raw, stamp)
        if self._is_leftover(file, data):
            self._contain(file.path, partial(self._put_away_note, file, data))
        elif file.day:
            self._contain(file.path, partial(self._index_day, file, data))
        elif file.path == page.PAGE_NAME and page.is_page(data):
            self.index.remove_file(file.path)
            self.index.put_file(file.path, file.raw, file.stamp)
        else:
            yield from self._try_note(file, data)

    def _put_unread(self, file: StoreFile, problem: str) -> None:
        """Name a file that cannot be read, and let every scan try it again: what kept
        it from being read need not change how it looks.
        """
        self.index.remove_file(file.path)
        self.index.put_file(file.path, file.raw, NOT_YET, problem)

    def _is_leftover(self, file: StoreFile, data: bytes) -> bool:
        """Whether a file is what a retirement has still to take out of the store."""
        if not self.index.lives.retired_at(file.path):
            return False
        self._sync_before_putting_away()
        # The same bytes, but newer, are what a person has written since.
        mtime_ms = file.stamp.mtime_ns // 1_000_000
        digests = {
            life.sha256
            for life in self.index.lives.retired_at(file.path)
            if mtime_ms <= self.mtime_ms_of(life)
        }
        return bool(digests) and sha256(data) in digests

    def _sync_before_putting_away(self) -> None:
        """Let a restoring that the index has not heard of count: what it brought back
        would be in no place otherwise.
        """
        if self.ledger.has_changed():
            self.sync_ledger()

    def _put_away_note(self, file: StoreFile, data: bytes) -> None:
        """Complete a note's retirement: the event has decided, the bytes are kept."""
        self.shelf.keep(data)
        path = self.notes.locate(file.raw)
        if files.stamp_of(path) != file.stamp:
            raise files.Changed
        self.disk.remove(path)
        self.index.remove_file(file.path)

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
        note = rows.read_note(file, data)
        self.index.remove_file(file.path)
        # Known from here on, but not as it stands: half taken in, it is read again,
        # and if it is gone by then, so is what was taken in.
        self.index.put_file(file.path, file.raw, NOT_YET)
        number = self.index.passages.put_memory(note.row)
        for chunk in note.chunks:
            if chunk is None:
                yield
            else:
                self.index.passages.add_chunks(number, note.row.title, [chunk])
        self.index.put_file(file.path, file.raw, file.stamp, note.problem, sha256(data))

    def _index_day(self, file: StoreFile, data: bytes) -> None:
        log = daylog.parse_day(data)
        known = {row.entry: row for row in self.index.passages.entries_of(file.path)}
        if log.torn_at is not None and log.torn_id not in known:
            if self._opening:
                file = self._cut_torn_day(file, log.torn_at)
                log = daylog.parse_day(data[: log.torn_at])
                data = data[: log.torn_at]
            else:
                log.problems.append("its last entry has no end yet")
        file, log = self._put_away_entries(file, data, log)
        entries, copies = self._own_entries(file, log.entries)
        for copy in copies:
            log.problems.append(f"entry {copy.marker.id} {COPY_PROBLEM}")
            log.hand_text += daylog.text_of_copy(copy)
        gone = known.keys() - {entry.marker.id for entry in entries}
        # Its last entry without an end: cut off by a person, or not yet all written.
        half = {log.torn_id} & known.keys() if log.torn_at is not None else set()
        kept: list[MemoryRow] = []
        if (gone or half) and self._is_settling(file):
            kept = [known[entry_id] for entry_id in sorted(gone | half)]
            entries = [entry for entry in entries if entry.marker.id not in half]
        else:
            self._unsettled.pop(file.path, None)
        self.index.passages.remove_memory(f"note:{file.path}")
        self._put_note_of_day(file, log.hand_text)
        for entry_id in gone - {row.entry for row in kept}:
            self.index.passages.remove_memory(known[entry_id].id)
        for entry in entries:
            self._put_changed_entry(file, entry, known.get(entry.marker.id))
            self._note_return(file, entry)
        stamp = NOT_YET if kept else file.stamp
        self.index.put_file(file.path, file.raw, stamp, "; ".join(log.problems))
        if not kept:
            self._rescue_entries([known[entry_id] for entry_id in sorted(gone)])

    def _put_away_entries(
        self, file: StoreFile, data: bytes, log: daylog.DayLog
    ) -> tuple[StoreFile, daylog.DayLog]:
        """Complete the retirement of entries that still stand in their file.

        What a person has changed since is theirs and lives again; words of an erased
        entry that come back with an older copy go again.
        """
        ids = [one.marker.id for one in log.entries]
        lives = self.index.lives.states_of(ids)
        if any(life.state != "live" for life in lives.values()):
            self._sync_before_putting_away()
            lives = self.index.lives.states_of(ids)
        away: set[str] = set()
        changed = data
        for entry in log.entries:
            life = lives.get(entry.marker.id)
            if life is None or life.by_hand or life.state == "live":
                continue
            if life.state == "erased":
                changed = daylog.strip(changed, entry.marker.id)
            elif life.path != file.path:
                continue
            elif not entry.edited or sha256(entry.block) == life.sha256:
                self.shelf.keep(entry.block)
                away.add(entry.marker.id)
        if away:
            changed = daylog.put_away(changed, away, log if changed is data else None)
        if changed == data:
            return file, log
        path = self.notes.locate(file.raw)
        stamp = self.disk.replace(path, changed, expected=file.stamp)
        return StoreFile(file.path, file.raw, stamp), daylog.parse_day(changed)

    def _own_entries(
        self, file: StoreFile, entries: list[daylog.Entry]
    ) -> tuple[list[daylog.Entry], list[daylog.Entry]]:
        """Part a day's entries from copies of entries that live in another file, or
        were retired from one, or are erased.
        """
        own: list[daylog.Entry] = []
        copies: list[daylog.Entry] = []
        lives = self.index.lives.states_of([entry.marker.id for entry in entries])
        # Asked once a file: the first entry taken from it has it read again.
        is_unchanged = cache(self._is_unchanged)
        for entry in entries:
            life = lives.get(entry.marker.id)
            is_gone = life is not None and not life.by_hand and life.state != "live"
            if life is not None and is_gone:
                is_back = life.is_retired and life.path == file.path
                (own if is_back else copies).append(entry)
                continue
            passages = self.index.passages
            other = passages.find_entry_elsewhere(entry.marker.id, file.path)
            if other is None or not is_unchanged(other.path):
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
        row = rows.row_of_day(file, hand_text)
        self._put_row(row, title=file.day)

    def _put_entry(self, file: StoreFile, entry: daylog.Entry) -> None:
        row = rows.row_of_entry(file.path, file.day, entry)
        self.moments.seen(row.at_ms)
        self._put_row(row)

    def _put_changed_entry(
        self, file: StoreFile, entry: daylog.Entry, known: MemoryRow | None
    ) -> None:
        """Index an entry unless the index has it so: a long day is read at every
        change of one entry, and to index an entry costs most.
        """
        row = rows.row_of_entry(file.path, file.day, entry)
        if known is not None:
            block = known.block.lstrip(b"\n")
            same = msgspec.structs.replace(known, block=block, replaces=row.replaces)
            if same == msgspec.structs.replace(row, block=row.block.lstrip(b"\n")):
                return
            self.index.passages.remove_memory(known.id)
        self.moments.seen(row.at_ms)
        self._put_row(row)

    def _put_row(self, row: MemoryRow, title: str = "") -> None:
        number = self.index.passages.put_memory(row)
        chunks = (chunk for chunk in iter_chunks(row.text) if chunk)
        self.index.passages.add_chunks(number, title, chunks)

    def _note_return(self, file: StoreFile, entry: daylog.Entry) -> None:
        """Record that a retired entry stands in its file again by a person's hand."""
        memory_id = f"entry:{file.path}#{entry.marker.id}"
        life = self.index.lives.find_key(f"#{entry.marker.id}")
        if life is not None and life.is_retired:
            self._append_by_hand("restore", memory_id, entry.marker.scope)

    def _forget_file(self, path: str) -> None:
        """A file is gone: its notes with it, its entries not silently."""
        gone = self.index.passages.entries_of(path)
        now = self.index.note_move(path, self.moments.now_ms())
        kept = self.index.lives.past_of(f"note:{path}", "revise")
        if now and kept:
            self._append_by_hand("move", f"note:{path}", rules.GLOBAL_SCOPE, now)
        elif kept:
            self._retire_vanished(path)
        self.index.remove_file(path)
        self._rescue_entries(gone)

    def _retire_vanished(self, path: str) -> None:
        """Retire a note that a hand has deleted, as its newest earlier text: so what is
        kept of it can be seen, restored and erased, and no other note of this path takes
        it over.
        """
        if self.notes.stamp(path.encode()) is not None:
            return
        kept = self.index.lives.past_of(f"note:{path}", "revise")
        (event,) = self.index.facts.get_events([kept[0].event])
        digest = kept[0].sha256
        self._append_by_hand("retire", f"note:{path}", event.scope, path, digest)

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
        for day, missing in fresh.items():
            self._put_back(day, missing)

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
            there = {one.marker.id for one in daylog.parse_day(data).entries}
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
        # The words first: an event without them could not be undone. A crash between
        # the two leaves a file that no event names, and the entry is retired again.
        digest = self.shelf.keep(row.block)
        if self._append_by_hand("retire", row.id, row.scope, row.path, digest):
            self.reports.add(
                "entry-retired",
                f"entry {row.entry} was removed by hand and is retired",
                row.path,
            )
            return
        # Known until an event can say it; the next scan tries again.
        self._put_row(row)
        known = self.index.find_file(row.path)
        raw = known[0] if known else row.path.encode()
        self.index.put_file(row.path, raw, NOT_YET)

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

    # --- torn ends

    def _cut_torn_day(self, file: StoreFile, offset: int) -> StoreFile:
        path = self.notes.locate(file.raw)
        return StoreFile(file.path, file.raw, self._set_aside(path, offset, file.stamp))


def _nearness(path: str) -> tuple[int, str]:
    """Order files that hold the same entry: nearest to the store's root first."""
    return path.count("/"), path
