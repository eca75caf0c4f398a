"""The store and its derived index, kept in step: retiring, restoring, other words.

The order of every step is here: the words are kept first, then the event that
decides, then the files follow. What a crash leaves undone, the next look at the file
completes. Source: docs/decisions/0002, 0004.
"""

from __future__ import annotations

import contextlib
import os
import stat
import unicodedata
from pathlib import Path

from . import daylog, files, markdown, page, rewriting, rows, rules
from .erasing import Erasing, text_of_kept
from .errors import Busy, Conflict, EngineError, NotFound
from .index import FAULTS
from .lives import Life, note_of
from .notes import StoreFile
from .passages import MemoryRow
from .types import Event


class Store(Erasing):
    """One workspace's store with its index. The caller holds the workspace's lock."""

    # --- retiring

    def retire(self, event: Event, row: MemoryRow) -> bool:
        """Take a note or an entry out of the store; `event` is the retirement to be.

        False when the memory has changed meanwhile: look again.
        Raises: EngineError; files.Changed; files.DiskFailed.
        """
        raw = self._raw_of(row.path)
        data, stamp = self._writing(lambda: self.notes.read(raw))
        if row.kind == "entry":
            entry = _find_entry(data, row.entry)
            if entry is None:
                return False
            daylog.require_rewritable(data)  # before anything is decided
            event.sha256 = self._writing(lambda: self.shelf.keep(entry.block))
        else:
            event.sha256 = self._writing(lambda: self.shelf.keep(data))
            event.modified_at = rules.render_moment(stamp.mtime_ns // 1_000_000)
            event.file = "" if raw.decode() == row.path else raw.decode()
        event.path = row.path
        self.append_event(event)
        self._read_now(row.path, raw)
        is_out = self.index.passages.find_memory(row.id) is None
        if not is_out and row.kind == "note":
            # Newer bytes stand there: what was retired is no memory of its own.
            self._append_by_hand("restore", f"{row.id}@{event.id}", row.scope, row.path)
        return is_out

    def _raw_of(self, path: str) -> bytes:
        known = self.index.find_file(path)
        return known[0] if known else path.encode()

    # --- restoring

    def restore(self, event: Event, life: Life) -> None:
        """Put a retired note or entry back as it was.

        Raises: Conflict when its place is taken or its bytes are gone; EngineError;
        files.Changed; files.DiskFailed.
        """
        data = self.shelf.read(life.sha256)
        if data is None:
            message = "its words are no longer in the retired area: nothing was changed"
            raise Conflict(message)
        raw = (life.event.file or life.path).encode()
        is_note = life.key.startswith("note:")
        if is_note:
            self._require_free(life.path, raw)
        elif self.notes.stamp(raw) is None and self.index.lives.retired_at(life.path):
            message = f"the day it stands in is retired: restore note:{life.path} first"
            raise Conflict(message)
        # A crash before the event leaves a file that is put away again.
        if is_note:
            self._writing(lambda: self._place_note(life, raw, data))
        else:
            raw = self._writing(lambda: self._bring_back(life, raw, data))
        path = unicodedata.normalize("NFC", raw.decode())
        try:
            self.append_event(event)
        except (EngineError, files.Changed):
            self._read_now(path, raw)
            raise
        self._read_now(path, raw)
        if not self.index.lives.uses(life.sha256):
            with contextlib.suppress(OSError):
                self.shelf.discard(life.sha256)

    def _require_free(self, path: str, raw: bytes) -> None:
        known = self.index.find_file(path)
        taken = [raw, *([known[0]] if known else [])]
        if any(os.path.lexists(self.notes.locate(one)) for one in taken):
            message = f"another file is at {path} now: move it, then restore"
            raise Conflict(message, path=path)
        folder = self.directory / "store"
        for part in Path(os.fsdecode(raw)).parent.parts:
            folder /= part
            if os.path.lexists(folder) and not stat.S_ISDIR(os.lstat(folder).st_mode):
                message = f"{part} is no folder any more: move it, then restore"
                raise Conflict(message, path=path)

    def _place_note(self, life: Life, raw: bytes, data: bytes) -> None:
        path = self.notes.locate(raw)
        self.disk.make_folder(path.parent)
        try:
            mtime_ns = self._file_of(life).stamp.mtime_ns
            self.disk.create(path, data, mtime_ns=mtime_ns)
        except FileExistsError as fault:
            message = f"another file is at {life.path} now: move it, then restore"
            raise Conflict(message, path=life.path) from fault

    def _bring_back(self, life: Life, raw: bytes, block: bytes) -> bytes:
        """Put an entry's block where its mark stands; return its file's raw path."""
        entry_id = life.key.removeprefix("#")
        raw = self._find_mark(raw, entry_id)
        place = self.notes.locate(raw)
        if self.notes.stamp(raw) is None:
            self.disk.make_folder(place.parent)
            heading = f"# {StoreFile(life.path, raw, files.Stamp(0, 0, 0, 0)).day}\n\n"
            self.disk.replace(place, heading.encode() + block)
            return raw
        data, stamp = self.notes.read(raw)
        if not any(one.marker.id == entry_id for one in daylog.parse_day(data).entries):
            back = daylog.bring_back(data, entry_id, block)
            self.disk.replace(place, back, expected=stamp)
        return raw

    def _find_mark(self, raw: bytes, entry_id: str) -> bytes:
        """Return the day log that holds an entry's mark: its own, unless moved."""
        mark = daylog.retired_mark(entry_id)
        for place in (raw, *self._day_logs()):
            with contextlib.suppress(OSError):
                if mark in daylog.in_utf8(self.notes.read(place)[0]):
                    return place
        return raw

    def id_of_note(self, life: Life) -> str:
        """Return the id by which a note answers: with the event when its path has
        been taken, by a living note or one retired later.
        """
        plain = note_of(life.key)
        if not life.is_retired:
            return plain
        newest = self.index.lives.find(plain)
        is_taken = self.index.passages.find_memory(plain) is not None
        return life.key if is_taken or (newest and newest.key != life.key) else plain

    def read_text(self, row: MemoryRow) -> str:
        """Return a live memory's whole text as its file holds it now.

        Raises: NotFound; Busy when the file cannot be read now.
        """
        if row.kind == "entry" or row.size_bytes == len(row.text.encode()):
            return row.text  # of a note only a day log's own text is kept
        try:
            data, _ = self.notes.read(self._raw_of(row.path))
        except FileNotFoundError as fault:
            message = f"{row.id} is no longer there"
            raise NotFound(message) from fault
        except OSError as fault:
            message = f"{row.path} cannot be read now"
            raise Busy(message) from fault
        return markdown.decode_note(data)[0]

    def earlier_texts(self, key: str, text: str) -> list[str]:
        """Return the events that replaced a memory's words, the newest first; one that
        was decided but not done, since the disk refused, has replaced nothing.
        """
        pasts = self.index.lives.past_of(key, "revise")
        is_entry = key.startswith(("#", "entry:"))
        if pasts and self.kept_text(pasts[0].sha256, is_entry=is_entry) == text:
            pasts = pasts[1:]
        return [past.event for past in pasts]

    def kept_text(self, digest: str, *, is_entry: bool) -> str | None:
        """Return the words of kept bytes, None where they are gone."""
        data = self.shelf.read(digest)
        return None if data is None else text_of_kept(data, is_entry=is_entry)

    def read_kept(self, life: Life) -> str:
        """Return a retired memory's whole text, "" where its bytes are gone."""
        return self._read_retired(life)[1]

    # --- other words

    def require_rewritable(self, row: MemoryRow, spans: rewriting.Spans) -> None:
        """Raises: Conflict where words could not be taken out of a memory's file."""
        data, _ = self._writing(lambda: self.notes.read(self._raw_of(row.path)))
        if row.kind == "entry":
            daylog.revise(data, row.entry, row.text)
        elif StoreFile(row.path, b"", files.Stamp(0, 0, 0, 0)).day:
            start, _ = rows.find_body(daylog.parse_day(data).hand_text, row.day)
            daylog.cut_hand_text(data, [(start + a, start + b) for a, b in spans])
        else:
            rewriting.cut_words(data, spans)

    def replace_words(self, event: Event, row: MemoryRow, said: str, text: str) -> None:
        """Give a note or an entry another text than what it said; that one is kept.

        `event` is the revision to be. Raises: Conflict; EngineError; files.Changed
        when it says something else by now; files.DiskFailed.
        """
        raw = self._raw_of(row.path)
        data, stamp = self._writing(lambda: self.notes.read(raw))
        if row.kind == "entry":
            entry = _find_entry(data, row.entry)
            if entry is None or entry.text != said:
                raise files.Changed
            earlier = entry.block
            changed = daylog.revise(data, row.entry, text, edited_by="owner")
        else:
            if markdown.decode_note(data)[0] != said:
                raise files.Changed
            earlier = data
            changed = rewriting.encode_like(data, text)
        event.sha256 = self._writing(lambda: self.shelf.keep(earlier))
        event.path = row.path
        self.append_event(event)
        place = self.notes.locate(raw)
        try:
            self._writing(lambda: self.disk.replace(place, changed, expected=stamp))
        except files.Changed as fault:
            self._read_now(row.path, raw)
            message = f"{row.path} was changed meanwhile: read it again"
            raise Conflict(message) from fault
        self._read_now(row.path, raw)

    # --- the page of facts

    def write_page(self) -> None:
        """Make Facts.md anew if facts have changed since; a person's own is left.

        A disk that refuses is no harm: the page is made again later.
        """
        with contextlib.suppress(OSError, EngineError, *FAULTS):
            newest = self.index.newest_written()[0]
            if newest == self.index.get_meta("page"):
                return
            self._write_page()
            with self.index.transaction():
                self.index.set_meta("page", newest)

    def _write_page(self) -> None:
        path = self.notes.locate(page.PAGE_NAME.encode())
        data, stamp = files.read(path) if os.path.lexists(path) else (b"", None)
        if stamp is None or page.is_page(data):
            values = self.index.facts.newest_values(None, -1)
            self.disk.replace(path, page.render(values), expected=stamp)
        else:
            message = "is your own, or was edited: it is a note and not updated"
            self.reports.add("page-kept", message, page.PAGE_NAME)


def _find_entry(data: bytes, entry_id: str) -> daylog.Entry | None:
    found = daylog.parse_day(data).entries
    return next((one for one in found if one.marker.id == entry_id), None)
