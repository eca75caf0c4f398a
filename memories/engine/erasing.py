"""Erasing: what the ledger has decided is gone for good leaves every file.

An `erase` or `redact` event is marked `unfinished` until no file holds the words: then
the ledger is rewritten without them, and the index made anew, since deleted rows leave
their words in free pages. Interrupted anywhere, all of it is done again on the next
open. Source: docs/decisions/0004.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from . import daylog, files, markdown, page, rewriting, rows
from .errors import Busy
from .hands import Hands
from .ledger import ERASE, Line, loss_of
from .lives import note_of
from .notes import StoreFile
from .passages import lasting_id
from .shelf import sha256
from .types import Event

WORD = re.compile(r"\w{4,}")
LINE_CHARS = 8
WHOLE_CHARS = 6
"""A shorter word is taken out of other lines only where it stands by itself."""

KEPT_OF_ERASED = ("id", "kind", "recorded_at", "valid_from", "supersedes")
"""What a line keeps that has lost its words: a gap must stay a gap."""


class Erasing(Hands):
    def finish_erasing(self) -> None:
        """Do now what the ledger has decided. Raises: Busy when the disk refuses."""
        if not self._wants_erasing:
            return
        try:
            self._erase_decided()
        except OSError as fault:
            reason = errno.errorcode.get(fault.errno or 0, "unknown error")
            message = (
                f"it is decided, but the disk refused to finish it ({reason}): it is "
                "finished as soon as the disk is well again"
            )
            raise Busy(message) from fault

    def _erase_decided(self) -> None:
        """Make the files and the index agree with what the ledger says is erased.

        Raises: OSError, EngineError, files.Changed: it is tried again later.
        """
        self.ledger.require_sound()
        changes: dict[str, Line] = {}
        for event in self.index.facts.unfinished_events():
            if event.kind == ERASE:
                changes |= self._erase_files(event)
            else:
                changes |= self._redact_files(event)
        known = {
            event.id: (loss_of(event), self._line_of(event.id))
            for event in self.index.facts.wordless_events().values()
        }

        def change(event: Event, line: Line) -> Line:
            loss, known_line = known.get(event.id, (0, line))
            kept = known_line if loss > loss_of(event) else line
            return changes.get(event.id, kept)

        def rewrite() -> None:
            self._sweep_all_temporaries()
            self.ledger.rewrite(change)

        self._remove_page()
        self._wants_erasing = False
        try:
            self.rebuild_index(between=rewrite)
            self._write_page()
        except BaseException:
            self._wants_erasing = True
            raise

    def _remove_page(self) -> None:
        """Before the ledger: once it has lost the words, nothing is unfinished."""
        path = self.notes.locate(page.PAGE_NAME.encode())
        with contextlib.suppress(FileNotFoundError):
            if page.is_page(files.read(path)[0]):
                self.disk.remove(path)

    def _write_page(self) -> None:
        raise NotImplementedError

    def _line_of(self, event_id: str) -> Line:
        line = self.index.facts.get_line(event_id)
        said = msgspec.json.decode(line, type=dict[str, object])
        said.pop("crc", None)
        return said

    # --- erasing

    def _erase_files(self, erasure: Event) -> dict[str, Line]:
        """Take a memory's words out of all files but ledger and index; return what
        its lines in the ledger become.
        """
        key = lasting_id(erasure.about)
        events = self._events_of(key)
        digests = {event.sha256 for event in events if event.sha256}
        words = self._telling(self._texts_of(key, digests), 0)
        self._void_set_aside(words)
        self._void_unnamed(key, words, digests)
        if key.startswith("#"):
            self._strip_everywhere(key.removeprefix("#"))
        elif key.startswith("note:"):
            path = note_of(key).removeprefix("note:")
            spelled = {event.file for event in events if event.file}
            self._remove_leftover(path, spelled, digests)
            self.reports.forget(path)
            self.index.forget_moves(path)
        self._discard(digests, {event.id for event in events})
        lines = {event.id: strip_line(event, key) for event in events}
        about = {} if key.startswith("note:") else {"about": erasure.about}
        said = self._line_of(erasure.id)
        members = ("id", "kind", "recorded_at", "by", "request")
        kept = {name: said[name] for name in members if name in said}
        lines[erasure.id] = kept | about
        return lines

    def _events_of(self, key: str) -> list[Event]:
        """Return the events that hold or name a memory, an erasure's own apart."""
        facts = self.index.facts
        if key.startswith("fact:"):
            found = [*facts.get_events([key.removeprefix("fact:")])]
            found += facts.events_about(key)
        elif key.startswith("#"):
            found = facts.events_about(key)
        else:
            found = self._events_of_note(key)
        return [event for event in found if event.kind != ERASE]

    def _events_of_note(self, key: str) -> list[Event]:
        facts, lives = self.index.facts, self.index.lives
        note, _, retirement = key.rpartition("@")
        earlier = lives.other_lives_at(key)
        changes = [
            past.event
            for kind in ("revise", "redact", "move")
            for past in lives.past_of(key, kind)
        ]
        found = facts.get_events([retirement, *earlier, *changes])
        for one in (key, *(f"{note}@{event_id}" for event_id in earlier)):
            found += facts.events_about(one)
        return found

    def _texts_of(self, key: str, digests: Iterable[str]) -> list[str]:
        """Return the texts of a memory's kept bytes, of a fact its sentences."""
        texts = []
        if key.startswith("fact:"):
            for line in self.index.facts.lines_of(key):
                texts += [line.object, line.statement]
        for digest in digests:
            data = self.shelf.read(digest) or b""
            texts.append(text_of_kept(data, is_entry=key.startswith("#")))
        return texts

    def _telling(self, texts: Iterable[str], most: int) -> set[str]:
        """Return what tells these texts from others: their lines, and their words that
        stand in no more than `most` passages.
        """
        kept = list(texts)
        passages = self.index.passages
        stems = {word: passages.stems(word) for word in _words(kept)}
        each = passages.frequencies({stem for some in stems.values() for stem in some})
        words = {
            word
            for word, some in stems.items()
            if min((each.get(stem, 0) for stem in some), default=0) <= most
        }
        lines = {line.strip().casefold() for text in kept for line in text.splitlines()}
        return words | {line for line in lines if len(line) >= LINE_CHARS}

    def _discard(self, digests: Iterable[str], events: set[str]) -> None:
        """Remove kept bytes, unless they belong to another memory too."""
        for digest in digests:
            if not self.index.lives.is_used_by_others(digest, events):
                self.shelf.discard(digest)

    def _strip_everywhere(self, entry_id: str) -> None:
        for raw in self._day_logs():
            data, stamp = self.notes.read(raw)
            if entry_id.encode() in daylog.in_utf8(data):
                changed = daylog.strip(data, entry_id)
                if changed != data:
                    place = self.notes.locate(raw)
                    self.disk.replace(place, changed, expected=stamp)

    def _day_logs(self) -> Iterator[bytes]:
        """Yield the raw path of every day log."""
        for file in self.notes.scan():
            if isinstance(file, StoreFile) and file.day:
                yield file.raw

    def _remove_leftover(self, path: str, spelled: set[str], digests: set[str]) -> None:
        """A retired note's file that was not put away yet, however its name is spelled
        on the disk.
        """
        if self.index.passages.find_memory(f"note:{path}"):
            return
        known = self.index.find_file(path)
        names = {path.encode(), *(name.encode() for name in spelled)}
        for raw in {known[0]} if known else names:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if sha256(self.notes.read(raw)[0]) in digests:
                    self.disk.remove(self.notes.locate(raw))

    def _void_set_aside(self, words: set[str]) -> None:
        """Remove unfinished imports, exports and set-aside ends that hold any of the
        words: what they were to become has not been acknowledged to anybody.
        """
        if not words:
            return
        for place in _files_under(self.directory / "incoming"):
            try:
                held = files.read(place)[0].decode(errors="ignore").casefold()
            except OSError:
                continue
            if any(word in held for word in words):
                self.disk.remove(place)

    def _void_unnamed(self, key: str, words: set[str], named: set[str]) -> None:
        """Remove kept bytes of a memory that no event needs: a crash left them before
        a retirement or after a restoring. `named` are those without which nobody could
        say the words; they go last.
        """
        if key.startswith("fact:"):
            return
        for digest in set(self.shelf.digests()) - named:
            if self.index.lives.uses(digest):
                continue
            data = self.shelf.read(digest) or b""
            ids = {f"#{one.marker.id}" for one in daylog.parse_day(data).entries}
            text = text_of_kept(data, is_entry=False).casefold()
            is_of_note = not ids and any(word in text for word in words)
            if key in ids or (key.startswith("note:") and is_of_note):
                self.shelf.discard(digest)

    def _sweep_all_temporaries(self) -> None:
        for folder in ("store", "retired", "incoming"):
            for place in _files_under(self.directory / folder):
                if place.name.startswith(files.TEMPORARY_PREFIX):
                    self.disk.remove(place)
        self._sweep_temporaries()

    # --- redacting

    def _redact_files(self, redaction: Event) -> dict[str, Line]:
        """Take the words at a redaction's spans out of all files but ledger and index;
        return what lines of the ledger become.
        """
        done = self._line_of(redaction.id)
        for member in ("spans", "sha256", "unfinished", "path"):
            done.pop(member, None)
        lines = {redaction.id: done}
        key = lasting_id(redaction.about)
        if key.startswith("fact:"):
            lines |= self._redact_lines(redaction)
        else:
            is_entry = key.startswith("#")
            redact = self._redact_entry if is_entry else self._redact_note
            if not redact(redaction, key):
                # The text was changed after the decision: nothing was taken out.
                lines[redaction.id] = strip_line(redaction, key)
        for past in self.index.lives.past_of(key, "revise"):
            if self.shelf.read(past.sha256) is None:
                (event,) = self.index.facts.get_events([past.event])
                lines[past.event] = strip_line(event, key)
        return lines

    def _redact_lines(self, redaction: Event) -> dict[str, Line]:
        value = self.index.facts.find_value(redaction.about)
        if value is None:
            return {}
        text = value.statement or value.object
        if sha256(text.encode()) != redaction.sha256:
            return {}
        words = _cut_out(text, redaction.spans)
        self._void_set_aside(self._telling(words, 1))
        lines = {}
        for event in self.index.facts.lines_of(redaction.about):
            said = self._line_of(event.id)
            for member in ("object", "statement"):
                kept = str(said.get(member, ""))
                if kept == text:
                    said[member] = rewriting.cut(kept, redaction.spans)
                elif kept:
                    said[member] = _without(kept, words)
            lines[event.id] = said | {"redacted": event.redacted + 1}
        return lines

    def _redact_entry(self, redaction: Event, key: str) -> bool:
        """Take the words out of an entry and out of every copy of it. Returns whether
        they are out, by this or by an earlier, interrupted try.

        What tells the words is the text with the redaction's digest: it goes last.
        """
        entry_id, spans = key.removeprefix("#"), redaction.spans
        told: list[tuple[bytes, bytes, files.Stamp]] = []
        others: list[tuple[bytes, bytes, files.Stamp]] = []
        words: list[str] = []
        is_done = False
        for raw in dict.fromkeys([redaction.path.encode(), *self._day_logs()]):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                data, stamp = self.notes.read(raw)
                texts = daylog.texts_of(data, entry_id)
                same = [x for x in texts if sha256(x.encode()) == redaction.sha256]
                (told if same else others).append((raw, data, stamp))
                words = _cut_out(same[0], spans) if same else words
                is_done |= any(rewriting.REDACTED in one for one in texts)
        if not told:
            return is_done

        def change(text: str) -> str:
            if sha256(text.encode()) == redaction.sha256:
                return rewriting.cut(text, spans)
            return _without(text, words)

        self._forget_earlier(key, words)
        for raw, data, stamp in (*others, *told):
            changed = daylog.revise_all(data, entry_id, change)
            if changed != data:
                self.disk.replace(self.notes.locate(raw), changed, expected=stamp)
        return True

    def _redact_note(self, redaction: Event, _key: str) -> bool:
        known = self.index.find_file(redaction.path)
        raw = known[0] if known else redaction.path.encode()
        try:
            data, stamp = self.notes.read(raw)
        except FileNotFoundError:
            return False
        day = StoreFile(redaction.path, raw, stamp).day
        start, text = 0, markdown.decode_note(data)[0]
        if day:
            start, text = rows.find_body(daylog.parse_day(data).hand_text, day)
        if sha256(text.encode()) != redaction.sha256:
            return rewriting.REDACTED in text
        self._forget_earlier(redaction.about, _cut_out(text, redaction.spans))
        if day:
            there = [(start + begin, start + end) for begin, end in redaction.spans]
            changed = daylog.cut_hand_text(data, there)
        else:
            changed = rewriting.cut_words(data, redaction.spans)
        self.disk.replace(self.notes.locate(raw), changed, expected=stamp)
        return True

    def _forget_earlier(self, key: str, words: list[str]) -> None:
        """Let go of what was set aside and of earlier texts that hold the words.

        Before the file itself: once its words are gone, nobody could say which.
        """
        telling = self._telling(words, 1)
        self._void_set_aside(telling)
        self._void_unnamed(lasting_id(key), telling, set())
        pasts = self.index.lives.past_of(key, "revise")
        for past in pasts:
            data = self.shelf.read(past.sha256) or b""
            held = text_of_kept(data, is_entry=lasting_id(key).startswith("#"))
            if any(word in held for word in words):
                self._discard({past.sha256}, {one.event for one in pasts})


def strip_line(event: Event, key: str) -> Line:
    """Return the line of an event that has lost its words."""
    said = msgspec.to_builtins(event)
    said["kind"] = ERASE
    line = {name: said[name] for name in KEPT_OF_ERASED if said.get(name)}
    if event.kind == "repeat" and key.startswith("fact:"):
        line["about"] = key
    return line


def text_of_kept(data: bytes, *, is_entry: bool) -> str:
    if is_entry:
        return "\n".join(one.text for one in daylog.parse_day(data).entries)
    return markdown.decode_note(data)[0]


def _words(texts: Iterable[str]) -> set[str]:
    """Return the words of four characters or more, else the texts themselves."""
    found: set[str] = set()
    for text in texts:
        words = {word.casefold() for word in WORD.findall(text)}
        found |= words or ({text.strip().casefold()} - {""})
    return found


def _cut_out(text: str, spans: rewriting.Spans) -> list[str]:
    return [text[start:stop] for start, stop in spans]


def _without(text: str, words: list[str]) -> str:
    for word in sorted(words, key=len, reverse=True):
        if len(word) >= WHOLE_CHARS:
            text = text.replace(word, rewriting.REDACTED)
        else:
            by_itself = rf"(?<!\w){re.escape(word)}(?!\w)"
            text = re.sub(by_itself, lambda _: rewriting.REDACTED, text)
    return text


def _files_under(folder: Path) -> Iterator[Path]:
    """Yield every regular file under a folder; links are not followed."""
    for where, _, names in os.walk(folder, followlinks=False):
        for name in names:
            place = Path(where) / name
            if files.stamp_of(place) is not None:
                yield place
