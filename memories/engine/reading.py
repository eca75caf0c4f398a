"""Reading: what a caller may see, ranked, dated and honestly judged.

Scopes are kept to inside the queries, never filtered afterwards. Verdict and order
are recall.py's. Source: docs/mcp.md.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import msgspec

from . import daylog, hidden, recall, rules
from . import types as t
from .answers import (
    NAMES_SHOWN,
    FoundMemory,
    Search,
    conflict_of,
    fact_of,
    holds_at,
    is_same_object,
    may_see,
    memory_of,
    readable_scopes,
    replaced_by,
    unknown_memory,
)
from .errors import Busy, Invalid
from .facts import ValueRow, row_of_value
from .lives import Life
from .operation import on_index
from .passages import MemoryRow, lasting_id
from .searching import Searching
from .shelf import sha256

FACTS_WITH_QUERY, FACTS_WITHOUT_QUERY = 12, 20
CONTEXT_MEMORIES = 24
FOLDED = 80
"""Of the memories found, so many are looked through for such as say the same: more of
one kind must not hide the others."""

LINKED = 8
"""Notes listed since a hit links to them."""

CHARS_PER_TOKEN = 8
"""More than any text has: a bound for what cannot fit, before tokens are counted."""

TOP_K_MOST = 50
RANKS = ("session_date", "score")
CLOSEST_SUBJECTS = 5
KNOWN_SUBJECTS = 50
CONFLICTS_SHOWN = 10
VERSIONS_SHOWN = 100
CITING_SHOWN = 50
LINK_CHARS = 200


class Reading(Searching):
    @on_index
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
            return self._context(values, [], "facts", scopes, max_tokens)
        search = self._search(query, scopes)
        folded = self._folded(search.memories[:FOLDED], scopes)
        listed = _within(folded, max_tokens)
        return self._context(
            self._matching_values(search),
            self._hits(self._with_linked(listed, search, scopes, LINKED), scopes),
            "keyword",
            scopes,
            max_tokens,
            is_relevant=search.is_relevant,
        )

    def _context(
        self,
        values: list[ValueRow],
        hits: list[t.Hit],
        retrieval: str,
        scopes: Sequence[str] | None,
        max_tokens: int,
        *,
        is_relevant: bool | None = None,
    ) -> t.Context:
        relevant = bool(values) if is_relevant is None else is_relevant
        return t.Context(
            facts=self._facts(values),
            memories=hits,
            retrieval="facts" if retrieval == "facts" else "keyword",
            relevance=self._relevance(relevant, scopes),
            ranked_by="score",
            conflicts=self._conflicts(values, scopes),
            tokens=t.Tokens(used=0, max=max_tokens),
            index=t.IndexState(stale=self.store.is_stale),
        )

    def _matching_values(self, search: Search) -> list[ValueRow]:
        ids = [one.passage.memory.id for one in search.facts[:FACTS_WITH_QUERY]]
        return self.store.index.facts.get_values(ids)

    def _conflicts(
        self, values: Sequence[ValueRow], scopes: Sequence[str] | None
    ) -> list[t.FactConflict]:
        """Return current values that may speak of the same thing and say another."""
        current = [value for value in values if value.to_ms is None]
        alike = self.store.index.facts.alike(current, scopes)
        found = {
            other.id: other
            for value in current
            for other in alike.get(value.id, ())
            if not is_same_object(other, value)
        }
        newest = sorted(found.values(), key=lambda one: one.from_ms, reverse=True)
        return [conflict_of(one) for one in newest[:CONFLICTS_SHOWN]]

    @on_index
    def search_text(
        self, caller: t.Caller, *, query: str, scope: str = "", top_k: int = 10
    ) -> t.Hits:
        """Find the words as one phrase; if nowhere, any of the words.

        Operators and quotes in the query are ordinary characters.
        """
        scopes = _scopes_of_search(caller, query, scope, top_k)
        self._look_at_ledger()
        found = self._search_phrase(query, scopes)
        search = Search(memories=[], facts=[])
        if is_fallback := not found:
            search = self._search(query, scopes)
            merged = [*search.facts, *search.memories]
            found = sorted(merged, key=lambda one: one.score, reverse=True)
            is_fallback = any(one.reason == "fts" for one in found)
        listed = self._folded(found[:FOLDED], scopes)[:top_k]
        room = min(LINKED, top_k - len(listed))
        listed = self._with_linked(listed, search, scopes, room)
        hits = self._hits(listed, scopes)[:top_k]
        return t.Hits(
            hits=hits,
            relevance=self._relevance(any(hit.matched for hit in hits), scopes),
            index=t.IndexState(stale=self.store.is_stale),
            fallback="any-word" if is_fallback else msgspec.UNSET,
        )

    @on_index
    def search_memory(
        self,
        caller: t.Caller,
        *,
        query: str,
        scope: str = "",
        top_k: int = 10,
        rank: str = "session_date",
    ) -> t.Hits:
        """Find memories by what they mean. No vectors are made yet: it says so."""
        if rank not in RANKS:
            message = f'rank is "{rank[:40]}"; it may be {" or ".join(RANKS)}'
            raise Invalid(message)
        _scopes_of_search(caller, query, scope, top_k)
        return t.Hits(
            hits=[],
            relevance=t.Relevance(relevant=False),
            index=t.IndexState(stale=self.store.is_stale),
            reason="semantic-unavailable",
        )

    @on_index
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
            raise Invalid(message, knownSubjects=list(map(hidden.show, known)))
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
            subject=hidden.show(subject),
            as_of=rules.render_moment(at_ms),
            facts=self._facts(chosen, dated=True),
            conflicts=self._conflicts(chosen, readable_scopes(caller, "")),
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
        closest = [folded[name] for name in dict.fromkeys([*near, *parts])]
        return list(map(hidden.show, closest[:CLOSEST_SUBJECTS]))

    @on_index
    def read_memory(self, caller: t.Caller, *, id: str, offset: int = 0) -> t.Memory:
        """Return a memory's text from `offset`, in code points, and what is known."""
        id = rules.require_id("id", id)
        if offset < 0:
            message = f"offset is {offset}; it counts characters from 0"
            raise Invalid(message)
        self._look_at_ledger()
        if id.startswith("fact:"):
            return self._read_fact(caller, id, offset)
        retired = self._find_retired(caller, id)
        if retired is not None:
            return self._read_retired(retired, offset)
        row = self._get_row(caller, id)
        correction = self._corrections_of([id], caller.scopes)
        text = self.store.read_text(row)
        return msgspec.structs.replace(
            self._memory(row, row.id, text, offset),
            replaced=replaced_by(correction.get(lasting_id(id))),
            cited_by=self._cited_by(caller, id),
            links=self._links(caller, row),
        )

    def _links(self, caller: t.Caller, row: MemoryRow) -> list[str]:
        """Return what a memory links to: ids where they lead to a note that the caller
        may see, else the names as written.
        """
        said = row.links[:NAMES_SHOWN]
        found = self.store.index.passages.names.resolve(
            [(row.path, target) for target in said], caller.scopes
        )
        return [
            note or hidden.show(target)[:LINK_CHARS]
            for note, target in zip(found, said, strict=True)
        ]

    def _cited_by(self, caller: t.Caller, memory_id: str) -> list[str]:
        index = self.store.index
        names = index.names_of(memory_id)
        return index.facts.citing(names, caller.scopes, CITING_SHOWN)

    def _memory(self, row: MemoryRow, key: str, text: str, offset: int) -> t.Memory:
        """Return a note or an entry with its past; `key` is that of its life."""
        lives = self.store.index.lives
        # Labels move what follows them: offsets in the shown text are not the text's.
        is_shown_whole = hidden.show(text) == text
        memory = msgspec.structs.replace(
            memory_of(row, text, offset),
            sha256=sha256(text.encode()) if is_shown_whole else msgspec.UNSET,
            redacted=True if lives.past_of(key, "redact") else msgspec.UNSET,
        )
        versions = self.store.earlier_texts(key, text)
        if versions:
            memory = msgspec.structs.replace(
                memory, edited_by="owner", versions=versions[:VERSIONS_SHOWN]
            )
        if row.marker:
            said = msgspec.json.decode(row.marker, type=daylog.Marker)
            memory = msgspec.structs.replace(
                memory, cites=said.cites, replaces=said.replaces or msgspec.UNSET
            )
        return memory

    def _find_retired(self, caller: t.Caller, memory_id: str) -> Life | None:
        """Return a retired note or entry by the id it has now."""
        if self._find_now(memory_id) is not None:
            return None
        life = self.store.index.lives.find(memory_id)
        if life is None or not life.is_retired or not may_see(caller, life.scope):
            return None
        return life

    def _read_retired(self, life: Life, offset: int) -> t.Memory:
        row = life.row
        if row is None:
            message = "the index is being made anew; try again in a moment"
            raise Busy(message)
        text = row.text or self.store.read_kept(life)
        memory_id = row.id if life.key.startswith("#") else self.store.id_of_note(life)
        return msgspec.structs.replace(
            self._memory(row, life.key, text, offset),
            id=memory_id,
            retired=True,
            retired_at=rules.render_moment(life.at_ms),
        )

    def _read_fact(self, caller: t.Caller, memory_id: str, offset: int) -> t.Memory:
        value = self.store.index.facts.find_value(memory_id)
        erased = self.store.index.lives.find_key(memory_id)
        is_erased = erased is not None and erased.state == "erased"
        if value is None or is_erased or not may_see(caller, value.scope):
            raise unknown_memory(memory_id)
        row = row_of_value(value)
        text = value.statement or f"{value.subject} {value.predicate}: {value.object}"
        shown = fact_of(value, dated=True)
        life = self.store.index.lives.find_key(memory_id)
        is_redacted = self.store.index.lives.past_of(memory_id, "redact")
        return msgspec.structs.replace(
            memory_of(row, text, offset),
            redacted=True if is_redacted else msgspec.UNSET,
            cited_by=self._cited_by(caller, memory_id),
            retired_at=rules.render_moment(life.at_ms)
            if life and life.is_retired
            else msgspec.UNSET,
            subject=hidden.show(value.subject),
            predicate=hidden.show(value.predicate),
            object=hidden.show(value.object),
            current=shown.current,
            valid_from=shown.valid_from,
            valid_to=shown.valid_to,
            retired=True if value.retired else msgspec.UNSET,
        )

    @on_index
    def list_recent(self, caller: t.Caller, *, limit: int = 10) -> t.RecentMemories:
        """Return the newest memories, newest first."""
        self._look_at_ledger()
        rows = self.store.index.passages.newest(readable_scopes(caller, ""), limit)
        return t.RecentMemories(
            memories=[
                t.RecentMemory(
                    id=row.id,
                    kind=row.kind,
                    title=hidden.show(row.title),
                    scope=row.scope,
                    source=hidden.show(row.source),
                    writer=hidden.show(row.writer),
                    at=rules.render_moment(row.at_ms),
                )
                for row in rows
            ]
        )


def _scopes_of_search(
    caller: t.Caller, query: str, scope: str, top_k: int
) -> list[str] | None:
    """Return what a search covers, its arguments judged. Raises: Invalid."""
    rules.require_text("query", query, rules.QUERY_CHARS)
    if not 1 <= top_k <= TOP_K_MOST:
        message = f"top_k is {top_k}; it may be from 1 to {TOP_K_MOST}"
        raise Invalid(message)
    return readable_scopes(caller, scope)


def _within(found: Sequence[FoundMemory], max_tokens: int) -> list[FoundMemory]:
    """Return the best that may fit into a budget, and the newest that matches."""
    best: list[FoundMemory] = []
    room = max_tokens * CHARS_PER_TOKEN
    for one in found[:CONTEXT_MEMORIES]:
        if room < 0:
            break
        best.append(one)
        room -= len(one.passage.text)
    matched = [one for one in found[:CONTEXT_MEMORIES] if one.share >= recall.CLOSE]
    newest = max(matched, key=lambda one: one.passage.memory.day, default=None)
    if newest is not None and newest not in best:
        best.append(newest)
    return best
