"""The engine's operations: what a caller may ask of one workspace.

Each takes a `Caller` first, keeps to the tool contract (docs/mcp.md), and raises
the family of errors.py with nothing written. How store and index are kept in
step is store.py's.
"""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

import msgspec

from . import files, markdown, recall, rules
from . import types as t
from .answers import (
    FoundMemory,
    Search,
    fact_of,
    hit_of,
    holds_at,
    is_same_object,
    may_see,
    memory_of,
    rank,
    readable_scopes,
    receipt_of_entry,
    receipt_of_event,
    source_label,
    unknown_memory,
)
from .errors import Busy, Conflict, EngineError, Invalid, NotFound, ReadOnly
from .facts import ValueRow
from .index import FAULTS
from .moments import clock_now_ms, random_bits
from .passages import MemoryRow
from .store import ATTEMPTS, Store
from .types import Event

RETRY_MS = 60_000
"""The same entry again within a minute is a retry. Source: the tool contract."""

FACTS_WITH_QUERY, FACTS_WITHOUT_QUERY = 12, 20
CONTEXT_MEMORIES = 24
PASSAGES = 120
TOP_K_MOST = 50
CLOSEST_SUBJECTS = 5
PROBLEMS_SHOWN = 100
NONE = (0, 0)
KNOWN_SUBJECTS = 50
SLEEP_SCAN_SECONDS = 0.01


P = ParamSpec("P")
R = TypeVar("R")


def _on_index(
    operation: Callable[Concatenate[Engine, P], R],
) -> Callable[Concatenate[Engine, P], R]:
    """Let an operation that meets a broken index be done on one made anew.

    Harmless for a save: where its words are safe already, the second try is a retry.
    """

    @functools.wraps(operation)
    def run(self: Engine, /, *args: P.args, **kwargs: P.kwargs) -> R:
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


class Engine:
    """One workspace, opened. Not thread-safe: operations are taken in turn."""

    def __init__(
        self,
        directory: Path,
        *,
        disk: files.Disk | None = None,
        clock: Callable[[], int] = clock_now_ms,
        random: Callable[[], int] = random_bits,
        scan_seconds: float = SLEEP_SCAN_SECONDS,
    ) -> None:
        """Open a workspace and look at its files for about `scan_seconds`.

        The caller holds the workspace's lock. Raises: Corrupt when the folder is
        not a workspace; OSError.
        """
        self.store = Store(directory, disk=disk, clock=clock, random=random)
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

    # --- writing

    @_on_index
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

    @_on_index
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

    @_on_index
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
        self._require_replaceable(caller, replaces)
        kept, warnings = self._read_cites(caller, cites)
        self._look_at_days(day, time_zone)
        earlier = self._find_retry(
            caller,
            markdown.Marker(
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
            return receipt_of_entry(earlier, "nochange", indexed=True)
        entry_id, at_ms = self.store.moments.next()
        local = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(time_zone)
        marker = markdown.Marker(
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

    def _find_retry(
        self, caller: t.Caller, wanted: markdown.Marker, text: str
    ) -> MemoryRow | None:
        """Return the live entry of the last minute that is the same save."""
        since = self.store.moments.now_ms() - RETRY_MS
        for row in self.store.index.passages.recent_entries(text, since):
            if row.edited or not self._stands(row):
                continue
            said = msgspec.json.decode(row.marker, type=markdown.Marker)
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
            replaces=replaces,
            request=caller.request_id,
        )
        self._require_replaceable(caller, replaces)
        wanted.cites, warnings = self._read_cites(caller, cites)
        for _ in range(ATTEMPTS):
            try:
                self.store.sync_in_transaction()
                receipt = self._decide_fact(wanted)
            except files.Changed:
                continue
            return msgspec.structs.replace(receipt, warnings=warnings)
        message = "another program keeps changing the ledger; try again in a moment"
        raise Busy(message)

    def _decide_fact(self, wanted: Event) -> t.Receipt:
        """Store, supersede, or leave as it is: from the values as they stand now."""
        current = self.store.index.facts.current_value(
            wanted.subject, wanted.predicate, wanted.scope
        )
        same = current and is_same_object(current, wanted)
        if current and same:
            line = self._find_exact_repeat(current, wanted)
            if line:
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

    def _require_may_write(self, caller: t.Caller) -> None:
        if "write" not in caller.acts:
            message = (
                f'the connection "{caller.name}" may only read: ask the owner to allow '
                "writing"
            )
            raise ReadOnly(message)
        if caller.deadline_ms and time.time() * 1000 > caller.deadline_ms:
            message = "the call came too late to begin a write: nothing was saved"
            raise Busy(message)

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
        rules.require_text("replaces", memory_id, rules.OBJECT_CHARS)
        if memory_id.startswith("fact:"):
            message = (
                "replaces takes the id of a note or an entry; a fact is corrected by "
                "saving the new value under the same subject, predicate and scope"
            )
            raise Invalid(message)
        retired = self.store.index.facts.find_hand_retirement(memory_id)
        if retired and may_see(caller, retired.scope):
            message = f"{memory_id} is retired: restore it first, or save without it"
            raise Conflict(message)
        self._get_row(caller, memory_id)

    def _read_cites(
        self, caller: t.Caller, cites: str
    ) -> tuple[list[str], list[t.Warning]]:
        """Return the cited ids, and a warning for each that is not known."""
        rules.require_text("cites", cites, rules.OBJECT_CHARS, blank=True)
        named = [part.strip() for part in cites.split(",") if part.strip()]
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

    # --- reading

    @_on_index
    def get_context(
        self,
        caller: t.Caller,
        *,
        query: str = "",
        scope: str = "",
        max_tokens: int = 800,
    ) -> t.Context:
        """Return the facts and memories that match best, more than may fit.

        Cutting to `max_tokens` is the gateway's, which holds the counter.
        """
        rules.require_text("query", query, rules.QUERY_CHARS, blank=True)
        scopes = readable_scopes(caller, scope)
        self._look_at_ledger()
        if not query.strip():
            values = self.store.index.facts.newest_values(scopes, FACTS_WITHOUT_QUERY)
            facts = [fact_of(value) for value in values]
            return self._context(facts, [], "facts", scopes, max_tokens)
        search = self._search(query, scopes)
        facts = self._matching_facts(search)
        hits = [hit_of(found) for found in search.memories[:CONTEXT_MEMORIES]]
        return self._context(
            facts,
            hits,
            "keyword",
            scopes,
            max_tokens,
            is_relevant=search.is_relevant,
        )

    def _context(
        self,
        facts: list[t.Fact],
        hits: list[t.Hit],
        retrieval: str,
        scopes: Sequence[str] | None,
        max_tokens: int,
        *,
        is_relevant: bool | None = None,
    ) -> t.Context:
        relevant = bool(facts) if is_relevant is None else is_relevant
        return t.Context(
            facts=facts,
            memories=hits,
            retrieval="facts" if retrieval == "facts" else "keyword",
            relevance=self._relevance(relevant, scopes),
            ranked_by="score",
            conflicts=[],
            tokens=t.Tokens(used=0, max=max_tokens),
            index=t.IndexState(stale=self.store.is_stale),
        )

    def _relevance(self, relevant: bool, scopes: Sequence[str] | None) -> t.Relevance:
        is_whole = not self.store.is_stale
        if (
            not relevant
            and is_whole
            and not self.store.index.passages.newest(scopes, 1)
        ):
            return t.Relevance(relevant=False, reason="empty")
        return t.Relevance(relevant=relevant)

    def _matching_facts(self, search: Search) -> list[t.Fact]:
        facts = []
        for found in search.facts[:FACTS_WITH_QUERY]:
            value = self.store.index.facts.find_value(found.passage.memory.id)
            if value:
                facts.append(fact_of(value))
        return facts

    def _search(self, query: str, scopes: Sequence[str] | None) -> Search:
        """Find facts and memories that hold words of a query, best first."""
        index = self.store.index
        words = recall.query_words(query, rules.fold_search)
        stems = {word: found for word in words if (found := index.passages.stems(word))}
        each = index.passages.frequencies(
            {stem for found in stems.values() for stem in found}
        )
        frequency = {
            word: min(each.get(stem, 0) for stem in found)
            for word, found in stems.items()
        }
        passages = index.passages.passage_count()
        terms = recall.choose_terms(list(stems), frequency, passages)
        weights = recall.term_weights(terms, frequency, passages)
        present = [term for term in terms if frequency[term]]
        held_as = [1 << terms.index(term) for term in present]
        return Search(
            memories=rank(
                index.passages.search(
                    present, scopes=scopes, facts=False, limit=PASSAGES
                ),
                held_as,
                weights,
            ),
            facts=rank(
                index.passages.search(
                    present, scopes=scopes, facts=True, limit=PASSAGES
                ),
                held_as,
                weights,
            ),
        )

    @_on_index
    def search_text(
        self, caller: t.Caller, *, query: str, scope: str = "", top_k: int = 10
    ) -> t.Hits:
        """Find the words as one phrase; if nowhere, any of the words.

        Operators and quotes in the query are ordinary characters.
        """
        rules.require_text("query", query, rules.QUERY_CHARS)
        if not 1 <= top_k <= TOP_K_MOST:
            message = f"top_k is {top_k}; it may be from 1 to {TOP_K_MOST}"
            raise Invalid(message)
        scopes = readable_scopes(caller, scope)
        self._look_at_ledger()
        found = self._search_phrase(query, scopes)
        fallback: str | msgspec.UnsetType = msgspec.UNSET
        if not found:
            search = self._search(query, scopes)
            merged = [*search.facts, *search.memories]
            found = sorted(merged, key=lambda one: one.score, reverse=True)
            fallback = "any-word" if found else msgspec.UNSET
        hits = [hit_of(one) for one in found[:top_k]]
        return t.Hits(
            hits=hits,
            relevance=self._relevance(any(hit.matched for hit in hits), scopes),
            index=t.IndexState(stale=self.store.is_stale),
            fallback=fallback,
        )

    def _search_phrase(
        self, query: str, scopes: Sequence[str] | None
    ) -> list[FoundMemory]:
        """Find passages that hold the query letter for letter, case and accents
        folded; the index is asked for its stems and the text has the last word.
        """
        index = self.store.index
        if not index.passages.stems(query):
            return []
        wanted = rules.fold_name(rules.fold_search(query))
        passages = [
            passage
            for is_fact in (True, False)
            for passage in index.passages.search(
                [query], scopes=scopes, facts=is_fact, limit=PASSAGES
            )
            if wanted in rules.fold_name(rules.fold_search(passage.text))
        ]
        return rank(passages, [1], [1.0])

    @_on_index
    def retrieve_memory(
        self,
        caller: t.Caller,
        *,
        subject: str,
        predicate: str = "",
        scope: str = "",
        as_of: str = "",
        include_history: bool = False,
    ) -> t.History:
        """Return what holds, held at `as_of`, or ever held of a subject."""
        scopes = readable_scopes(caller, scope)
        self._look_at_ledger()
        if not subject.strip():
            known = self.store.index.facts.subjects(scopes, KNOWN_SUBJECTS)
            message = "subject is empty: name one of the known subjects"
            raise Invalid(message, knownSubjects=known)
        rules.require_text("subject", subject, rules.NAME_CHARS)
        rules.require_text("predicate", predicate, rules.NAME_CHARS, blank=True)
        at_ms = (
            rules.parse_moment("as_of", as_of) if as_of else self.store.moments.now_ms()
        )
        values = self.store.index.facts.values_of(subject, "", scopes)
        wanted = rules.fold_name(predicate)
        chosen = [
            value
            for value in values
            if (not wanted or rules.fold_name(value.predicate) == wanted)
            and (include_history or holds_at(value, at_ms))
        ]
        closest = msgspec.UNSET if values else self._closest_subjects(subject, scopes)
        return t.History(
            known=bool(values),
            subject=subject,
            as_of=rules.render_moment(at_ms),
            facts=[fact_of(value, dated=True) for value in chosen],
            closest_subjects=closest,
        )

    def _closest_subjects(
        self, subject: str, scopes: Sequence[str] | None
    ) -> list[str]:
        known = self.store.index.facts.subjects(scopes, 2_000)
        folded = {rules.fold_search(name): name for name in reversed(known)}
        wanted = rules.fold_search(subject)
        near = difflib.get_close_matches(wanted, folded, n=CLOSEST_SUBJECTS, cutoff=0.6)
        parts = [name for name in folded if wanted in name or name in wanted]
        return [folded[name] for name in dict.fromkeys([*near, *parts])][
            :CLOSEST_SUBJECTS
        ]

    @_on_index
    def read_memory(self, caller: t.Caller, *, id: str, offset: int = 0) -> t.Memory:
        """Return a memory's text from `offset`, in code points, and what is known."""
        rules.require_text("id", id, rules.OBJECT_CHARS)
        if offset < 0:
            message = f"offset is {offset}; it counts characters from 0"
            raise Invalid(message)
        self._look_at_ledger()
        if id.startswith("fact:"):
            return self._read_fact(caller, id, offset)
        row = self._get_row(caller, id)
        text = row.text if row.kind == "entry" else self._read_note(row)
        memory = memory_of(row, text, offset)
        if row.marker:
            said = msgspec.json.decode(row.marker, type=markdown.Marker)
            memory = msgspec.structs.replace(
                memory, cites=said.cites, replaces=said.replaces or msgspec.UNSET
            )
        return memory

    def _read_note(self, row: MemoryRow) -> str:
        """Return a note's whole text from the disk; a day log's hand text."""
        if row.size_bytes == len(row.text.encode()):
            return row.text  # only of a day log is the text itself kept
        known = self.store.index.find_file(row.path)
        if known is None:
            message = f"{row.id} is no longer there"
            raise NotFound(message)
        try:
            data, _ = self.store.notes.read(known[0])
        except OSError as fault:
            message = f"{row.path} cannot be read now"
            raise Busy(message) from fault
        return markdown.decode_note(data)[0]

    def _read_fact(self, caller: t.Caller, memory_id: str, offset: int) -> t.Memory:
        value = self.store.index.facts.find_value(memory_id)
        if value is None or not may_see(caller, value.scope):
            raise unknown_memory(memory_id)
        row = MemoryRow(
            id=value.id,
            kind="fact",
            path="",
            title=f"{value.subject} {value.predicate}: {value.object}"[:120],
            scope=value.scope,
            source=value.source,
            writer=value.writer,
            writer_id=value.writer_id,
            at_ms=value.from_ms,
            day=rules.render_day(value.from_ms),
        )
        text = value.statement or f"{value.subject} {value.predicate}: {value.object}"
        shown = fact_of(value, dated=True)
        return msgspec.structs.replace(
            memory_of(row, text, offset),
            subject=value.subject,
            predicate=value.predicate,
            object=value.object,
            current=shown.current,
            valid_from=shown.valid_from,
            valid_to=shown.valid_to,
            retired=True if value.retired else msgspec.UNSET,
        )

    def _get_row(self, caller: t.Caller, memory_id: str) -> MemoryRow:
        """Return a note or an entry the caller may see. Raises: NotFound."""
        row = self.store.index.passages.find_memory(memory_id)
        if row is None and self.store.is_stale:
            self.store.finish_scan()
            row = self.store.index.passages.find_memory(memory_id)
        entry = memory_id.rpartition("#")[2] if memory_id.startswith("entry:") else ""
        if row is None and entry:
            row = self.store.index.passages.find_entry(entry)
        if row is None or row.kind == "fact" or not may_see(caller, row.scope):
            raise unknown_memory(memory_id)
        if row.id != memory_id:
            message = f'"{memory_id[:200]}" is in another file now: use "{row.id}"'
            raise NotFound(message, currentId=row.id)
        return row

    @_on_index
    def list_recent(self, caller: t.Caller, *, limit: int = 10) -> t.RecentMemories:
        """Return the newest memories, newest first."""
        self._look_at_ledger()
        rows = self.store.index.passages.newest(readable_scopes(caller, ""), limit)
        return t.RecentMemories(
            memories=[
                t.RecentMemory(
                    id=row.id,
                    kind=row.kind,
                    title=row.title,
                    scope=row.scope,
                    source=row.source,
                    writer=row.writer,
                    at=rules.render_moment(row.at_ms),
                )
                for row in rows
            ]
        )

    @_on_index
    def memory_status(self, caller: t.Caller) -> t.Status:
        """Return counts of what the caller may see, and what the owner should know."""
        self._look_at_ledger()
        index = self.store.index
        scopes = readable_scopes(caller, "")
        kinds = index.passages.count_kinds(scopes)
        values, retired = index.facts.count_values(scopes)
        return t.Status(
            notes=kinds.get("note", NONE)[0],
            entries=kinds.get("entry", NONE)[0],
            chunks=index.passages.count_chunks(scopes),
            entities=index.facts.count_subjects(scopes),
            facts=values,
            relations=0,
            retired=retired + index.facts.retired_entries(scopes),
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
        store = self.store
        problems = list(store.reports.happened)
        if store.ledger_damage:
            message = f"the ledger is open read-only: {store.ledger_damage}"
            problems.append(t.Problem(code="ledger-damaged", message=message))
        problems += [
            t.Problem(code="skipped", message=one.reason, path=one.path)
            for one in store.reports.skipped
        ]
        problems += [
            t.Problem(code="file", message=problem, path=path)
            for path, problem in store.index.file_problems()
        ]
        return problems[-PROBLEMS_SHOWN:]

    @_on_index
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
            skipped_too_large=[s.path for s in skipped if s.reason == "too large"],
            skipped_non_utf8_names=[
                s.path for s in skipped if s.reason == "name is not UTF-8"
            ],
            skipped=[
                *(t.SkippedFile(path=s.path, reason=s.reason) for s in skipped[:100]),
                *(t.SkippedFile(path=p, reason=why) for p, why in problems[:100]),
            ],
            warning="index-unfinished" if self.store.is_stale else msgspec.UNSET,
        )

    @_on_index
    def verify(self, caller: t.Caller) -> t.Verification:
        """Read the whole store again and compare it with the index."""
        self.index_memory(caller)
        store = self.store
        reading, _ = store.ledger.read()
        problems = self._problems()
        in_file = {event.id for event in reading.events}
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

    @_on_index
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
        if event is not None:
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
        found = receipt_of_entry(row, "store", indexed=True) if row else None
        return t.Written(receipt=found)

    def _look_at_ledger(self) -> None:
        """Take in the ledger's changes if another hand has touched it."""
        if self.store.ledger.has_changed():
            try:
                self.store.sync_in_transaction()
            except (files.Changed, EngineError):
                self.store.want_scan()
