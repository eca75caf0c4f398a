"""Saving: entries and facts, from an agent's call to a durable receipt.

Rules of keys, repeats and retries: docs/mcp.md. Nothing is written when an error
is raised.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec

from . import daylog, files, markdown, rules
from . import types as t
from .answers import (
    duplicate_of,
    is_same_object,
    may_see,
    receipt_of_entry,
    receipt_of_event,
    source_label,
)
from .errors import Busy, Conflict, Invalid, TooLarge
from .facts import ValueRow
from .keeping import ATTEMPTS
from .operation import Operations, on_index
from .passages import MemoryRow
from .types import Event

DUPLICATES_SHOWN = 5
CITES_MOST = 50
RETRY_MS = 60_000
"""The same entry again within a minute is a retry. Source: the tool contract."""


class Saving(Operations):
    @on_index
    def remember(
        self,
        caller: t.Caller,
        *,
        statement: str,
        subject: str = "",
        predicate: str = "",
        object: str = "",
        scope: str = "",
        source: str = "",
        replaces: str = "",
        cites: str = "",
        timezone: str = "",
    ) -> t.Receipt:
        """Save a statement as today's entry, or as the sentence of a fact.

        Durable on return. Raises: EngineError; files.DiskFailed.
        """
        rules.require_text("statement", statement, rules.STATEMENT_CHARS)
        rules.parse_zone(timezone)
        given = [name for name in (subject, predicate, object) if name]
        if not given:
            return self._save_entry(
                caller,
                text=statement,
                day="",
                zone=timezone,
                scope=scope,
                source=source,
                replaces=replaces,
                cites=cites,
            )
        if len(given) < 3:
            message = (
                "subject, predicate and object go together: give all three to save a "
                "fact, or none to save the statement as a note"
            )
            raise Invalid(message)
        return self._save_fact(
            caller,
            subject=subject,
            predicate=predicate,
            object=object,
            statement=statement,
            scope=scope,
            source=source,
            replaces=replaces,
            cites=cites,
        )

    @on_index
    def save_memory(
        self,
        caller: t.Caller,
        *,
        subject: str,
        predicate: str,
        object: str,
        scope: str = "",
        source: str = "",
        cites: str = "",
    ) -> t.Receipt:
        """Save one fact without a sentence. Durable on return. Raises: EngineError."""
        return self._save_fact(
            caller,
            subject=subject,
            predicate=predicate,
            object=object,
            statement="",
            scope=scope,
            source=source,
            replaces="",
            cites=cites,
        )

    @on_index
    def remember_note(
        self,
        caller: t.Caller,
        *,
        text: str,
        date: str = "",
        timezone: str = "",
        scope: str = "",
        source: str = "",
        replaces: str = "",
        cites: str = "",
    ) -> t.Receipt:
        """Append an entry to any day's log. Durable on return. Raises: EngineError."""
        rules.require_text("text", text, rules.STATEMENT_CHARS)
        return self._save_entry(
            caller,
            text=text,
            day=date,
            zone=timezone,
            scope=scope,
            source=source,
            replaces=replaces,
            cites=cites,
        )

    def _save_entry(
        self,
        caller: t.Caller,
        *,
        text: str,
        day: str,
        zone: str,
        scope: str,
        source: str,
        replaces: str,
        cites: str,
    ) -> t.Receipt:
        self._require_may_write(caller)
        scope = self._writable_scope(caller, scope)
        time_zone = rules.parse_zone(zone)
        if day:
            rules.parse_day(day)
        label = source_label(caller, source)
        replaces = rules.fold_id(replaces)
        self._require_replaceable(caller, replaces)
        kept, warnings = self._read_cites(caller, cites)
        self._look_at_days(day, time_zone)
        earlier = self._find_retry(
            caller,
            daylog.Marker(
                id="",
                at="",
                writer=caller.name,
                writer_id=caller.connection_id,
                source=label,
                scope=scope,
                replaces=replaces,
                cites=kept,
                date=day,
            ),
            text,
        )
        if earlier:
            self._make_sure_of(earlier)
            return receipt_of_entry(earlier, "nochange", indexed=True)
        entry_id, at_ms = self.store.moments.next()
        local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(time_zone)
        marker = daylog.Marker(
            id=entry_id,
            at=rules.render_moment(at_ms),
            writer=caller.name,
            writer_id=caller.connection_id,
            source=label,
            scope=scope,
            replaces=replaces,
            cites=kept,
            date=day,
            request=caller.request_id,
            digest=markdown.text_digest(text),
        )
        file_day = day or f"{local:%Y-%m-%d}"
        self._require_in_time(caller.deadline_ms)
        indexed = self.store.append_entry(file_day, marker, text, f"{local:%H:%M}")
        return t.Receipt(
            action="store",
            id=f"entry:{self.store.notes.day_path(file_day)}#{entry_id}",
            event_id=entry_id,
            at=marker.at,
            scope=scope,
            indexed=indexed,
            warnings=warnings,
        )

    def _make_sure_of(self, row: MemoryRow) -> None:
        """Let no receipt rest on words that may be in the page cache alone."""
        known = self.store.index.find_file(row.path)
        if known is not None:
            self.store.disk.make_sure(self.store.notes.locate(known[0]))

    def _find_retry(
        self, caller: t.Caller, wanted: daylog.Marker, text: str
    ) -> MemoryRow | None:
        """Return the live entry of the last minute that is the same save."""
        since = self.store.moments.now_ms() - RETRY_MS
        for row in self.store.index.passages.recent_entries(text, since):
            if row.edited or not self._stands(row):
                continue
            said = msgspec.json.decode(row.marker, type=daylog.Marker)
            same = msgspec.structs.replace(
                said, id="", at="", request="", digest="", writer=wanted.writer
            )
            if same == wanted and (caller.connection_id or said.writer == caller.name):
                return row
        return None

    def _look_at_days(self, day: str, zone: ZoneInfo) -> None:
        """Take in the files where the first of two tries may stand: the index may
        have seen neither if the engine was ended between them.
        """
        now_ms = self.store.moments.now_ms()
        for at_ms in (now_ms - RETRY_MS, now_ms):
            local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)
            self.store.look_at(self.store.notes.day_path(day or f"{local:%Y-%m-%d}"))

    def _stands(self, row: MemoryRow) -> bool:
        """Whether an entry stands in its file as it was saved."""
        if not self.store.look_at(row.path):
            return True
        found = self.store.index.passages.find_memory(row.id)
        return found is not None and found.text == row.text

    def _save_fact(
        self,
        caller: t.Caller,
        *,
        subject: str,
        predicate: str,
        object: str,
        statement: str,
        scope: str,
        source: str,
        replaces: str,
        cites: str,
    ) -> t.Receipt:
        rules.require_text("subject", subject, rules.NAME_CHARS)
        rules.require_text("predicate", predicate, rules.NAME_CHARS)
        rules.require_text("object", object, rules.OBJECT_CHARS)
        self._require_may_write(caller)
        wanted = Event(
            id="",
            kind="save",
            recorded_at="",
            subject=subject,
            predicate=predicate,
            object=object,
            statement=statement,
            scope=self._writable_scope(caller, scope),
            writer=caller.name,
            writer_id=caller.connection_id,
            source=source_label(caller, source),
            replaces=rules.fold_id(replaces),
            request=caller.request_id,
        )
        self._require_replaceable(caller, wanted.replaces)
        wanted.cites, warnings = self._read_cites(caller, cites)
        for _ in range(ATTEMPTS):
            try:
                self.store.sync_in_transaction()
                receipt = self._decide_fact(wanted, caller.deadline_ms)
            except files.Changed:
                continue
            return msgspec.structs.replace(
                receipt,
                warnings=warnings,
                possible_duplicates=self._find_duplicates(caller, receipt.id),
            )
        message = "another program keeps changing the ledger; try again in a moment"
        raise Busy(message)

    def _find_duplicates(self, caller: t.Caller, value_id: str) -> list[t.Duplicate]:
        """Return what may be the same fact under another name; nothing is changed."""
        facts = self.store.index.facts
        value = facts.find_value(value_id)
        if value is None:
            return []
        alike = facts.alike([value], caller.scopes).get(value_id, [])
        return [duplicate_of(one) for one in alike[:DUPLICATES_SHOWN]]

    def _decide_fact(self, wanted: Event, deadline_ms: int) -> t.Receipt:
        """Store, supersede, or leave as it is: from the values as they stand now."""
        current = self.store.index.facts.current_value(
            wanted.subject, wanted.predicate, wanted.scope
        )
        same = current and is_same_object(current, wanted)
        if current and same:
            line = self._find_exact_repeat(current, wanted)
            if line:
                self.store.disk.make_sure(self.store.ledger.path)
                receipt = receipt_of_event(line, "nochange", value_id=current.id)
                return msgspec.structs.replace(receipt, supersedes=[])
        event_id, at_ms = self.store.moments.next()
        event = msgspec.structs.replace(
            wanted, id=event_id, recorded_at=rules.render_moment(at_ms)
        )
        if current and same:
            event.kind, event.about = "repeat", current.id
        elif current:
            event.supersedes = [current.id]
        if event.kind == "save":
            event.valid_from = event.recorded_at
        self._require_in_time(deadline_ms)
        indexed = self.store.append_event(event)
        action: t.Action = "supersede" if event.supersedes else "store"
        return msgspec.structs.replace(
            receipt_of_event(
                event,
                "nochange" if current and same else action,
                value_id=current.id if current and same else "",
            ),
            indexed=indexed,
        )

    def _find_exact_repeat(self, current: ValueRow, wanted: Event) -> Event | None:
        """Return the kept line that a save would repeat word for word."""
        for line in self.store.index.facts.lines_of(current.id):
            same_writer = (
                line.writer_id,
                line.writer if not line.writer_id else "",
            ) == (
                wanted.writer_id,
                wanted.writer if not wanted.writer_id else "",
            )
            if same_writer and wanted.statement in ("", line.statement):
                return line
        return None

    @staticmethod
    def _writable_scope(caller: t.Caller, scope: str) -> str:
        parsed = rules.parse_scope(scope, reading=False)
        if caller.scopes is not None and parsed not in caller.scopes:
            message = f'this connection may not write to "{parsed}"'
            raise Invalid(message, allowedScopes=list(caller.scopes))
        return parsed

    def _require_replaceable(self, caller: t.Caller, memory_id: str) -> None:
        if not memory_id:
            return
        rules.require_id("replaces", memory_id)
        if memory_id.startswith("fact:"):
            message = (
                "replaces takes the id of a note or an entry; a fact is corrected by "
                "saving the new value under the same subject, predicate and scope"
            )
            raise Invalid(message)
        life = self.store.index.lives.find(memory_id)
        is_live = self.store.index.passages.find_memory(memory_id)
        if life and life.is_retired and not is_live and may_see(caller, life.scope):
            message = f"{memory_id} is retired: restore it first, or save without it"
            raise Conflict(message)
        self._get_row(caller, memory_id)

    def _read_cites(
        self, caller: t.Caller, cites: str
    ) -> tuple[list[str], list[t.Warning]]:
        """Return the cited ids, and a warning for each that is not known."""
        rules.require_text("cites", cites, rules.OBJECT_CHARS, blank=True)
        parts = [rules.fold_id(part.strip()) for part in cites.split(",")]
        named = [part for part in parts if part]
        if len(named) > CITES_MOST:
            message = f"cites names {len(named)} memories; at most {CITES_MOST}"
            raise TooLarge(message)
        warnings = [
            t.Warning(code="unknown-cite", message=f"{cited} is not a known memory")
            for cited in named
            if not self._is_known(caller, cited)
        ]
        return named, warnings

    def _is_known(self, caller: t.Caller, memory_id: str) -> bool:
        value = self.store.index.facts.find_value(memory_id)
        found = value or self.store.index.passages.find_memory(memory_id)
        return found is not None and may_see(caller, found.scope)

    @on_index
    def find_written(self, caller: t.Caller, *, request_id: str) -> t.Written:
        """Say whether a request was written, from the store; its receipt if so."""
        if not request_id:
            return t.Written(receipt=None)
        self._look_at_ledger()
        if self.store.is_stale and not self.store.index.passages.find_entry_by_request(
            request_id
        ):
            self.store.finish_scan()
        event = self.store.index.facts.find_event_by_request(request_id)
        if event is not None and event.kind in ("save", "repeat"):
            self.store.disk.make_sure(self.store.ledger.path)
            action: t.Action = "supersede" if event.supersedes else "store"
            is_repeat = event.kind == "repeat"
            return t.Written(
                receipt=receipt_of_event(
                    event,
                    "nochange" if is_repeat else action,
                    value_id=event.about if is_repeat else "",
                )
            )
        row = self.store.index.passages.find_entry_by_request(request_id)
        if row is None and (self.store.is_stale or self.store.ledger.has_changed()):
            message = (
                "not all files have been read: whether it was written is not known"
            )
            raise Busy(message)
        if row is None:
            return t.Written(receipt=None)
        self._make_sure_of(row)
        return t.Written(receipt=receipt_of_entry(row, "store", indexed=True))
