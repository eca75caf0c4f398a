"""Looking: one thing by its name, and all there is, for browsing.

Neither searches texts by meaning; scopes are kept to inside the queries. Source:
docs/mcp.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import msgspec

from . import hidden, recall, rules
from . import types as t
from .answers import is_import, is_untrusted, readable_scopes
from .errors import Invalid
from .lives import Life
from .names import ALIAS, PATH, TITLE, Named, bare_path, fold
from .operation import on_index
from .passages import MemoryRow
from .searching import Searching

MAP_MOST = 200
NOTES_SHOWN, FACTS_SHOWN, OTHERS_SHOWN, VARIANTS = 20, 50, 10, 10


class Candidate(msgspec.Struct, frozen=True):
    """An entity that a name may mean, by the form of its canonical name."""

    form: str
    match: t.Match


class Looking(Searching):
    @on_index
    def lookup_entity(
        self, caller: t.Caller, *, name: str, scope: str = ""
    ) -> t.Entity:
        """Find a note or a subject by its name, never by words in texts."""
        rules.require_text("name", name, rules.NAME_CHARS)
        scopes = readable_scopes(caller, scope)
        self._look_at_ledger()
        subjects: dict[str, list[str]] = {}
        for subject in self.store.index.facts.subjects(scopes, -1):
            subjects.setdefault(fold(subject), []).append(subject)
        titles = self.store.index.passages.names.titles(scopes)
        candidates = self._candidates(name, titles | subjects.keys(), scopes)
        count = len(titles | subjects.keys())
        if not candidates:
            return t.Entity(found=False, entities=count, reason="no-entity-match")
        first, *others = candidates
        answer = self._entity(first, subjects.get(first.form, []), scopes)
        names = [self._name_of(one.form, subjects, scopes) for one in others]
        return msgspec.structs.replace(
            answer, entities=count, others=names[:OTHERS_SHOWN]
        )

    def _candidates(
        self, name: str, known: set[str], scopes: Sequence[str] | None
    ) -> list[Candidate]:
        """Return what a name may mean, the best first; only of the first way to match
        that finds any.
        """
        names = self.store.index.passages.names
        wanted = fold(name)
        if not wanted:
            return []
        if wanted in known:
            others = sorted((one for one in known if wanted in one), key=_shortest)
            return [Candidate(one, "name") for one in others[: OTHERS_SHOWN + 1]]
        path = fold(bare_path(name.strip().removeprefix("note:")))
        ways: tuple[tuple[t.Match, Iterable[str]], ...] = (
            ("alias", _titles_of(names.find([wanted], scopes), ALIAS)),
            ("part", (one for one in known if wanted in one)),
            ("part", _titles_of(names.find_part(wanted, [ALIAS], scopes), ALIAS)),
            (
                "path",
                _titles_of(names.find_part(path, [PATH], scopes), PATH) if path else (),
            ),
        )
        for match, forms in ways:
            found = sorted({one for one in forms if one in known}, key=_shortest)
            if found:
                return [Candidate(one, match) for one in found[: OTHERS_SHOWN + 1]]
        return []

    def _entity(
        self, meant: Candidate, subjects: Sequence[str], scopes: Sequence[str] | None
    ) -> t.Entity:
        index = self.store.index
        notes = self._notes_called(meant.form, scopes)
        values = [
            value
            for subject in subjects[:VARIANTS]
            for value in index.facts.values_of(subject, "", scopes)
            if value.to_ms is None
        ]
        values.sort(key=lambda one: one.from_ms, reverse=True)
        aliases = [
            alias
            for note in notes[:NOTES_SHOWN]
            if (row := index.passages.find_memory(note.id))
            for alias in row.aliases
        ]
        name = notes[0].title if notes else subjects[0]
        return t.Entity(
            found=True,
            entities=0,
            match=meant.match,
            name=hidden.show(name),
            aliases=[hidden.show(one) for one in dict.fromkeys(aliases)],
            notes=[one.id for one in notes[:NOTES_SHOWN]],
            facts=self._facts(values[:FACTS_SHOWN]),
        )

    def _notes_called(self, form: str, scopes: Sequence[str] | None) -> list[Named]:
        found = self.store.index.passages.names.find([form], scopes)
        notes = [one for one in found if one.kind == TITLE]
        return sorted(notes, key=lambda one: (len(one.path), one.path))

    def _name_of(
        self, form: str, subjects: dict[str, list[str]], scopes: Sequence[str] | None
    ) -> str:
        notes = self._notes_called(form, scopes)
        return hidden.show(notes[0].title if notes else subjects[form][0])

    def _count_entities(self, scopes: Sequence[str] | None) -> int:
        subjects = self.store.index.facts.subjects(scopes, -1)
        titles = self.store.index.passages.names.titles(scopes)
        return len(titles | {fold(one) for one in subjects})

    def _count_links(self, scopes: Sequence[str] | None) -> int:
        index = self.store.index
        return (
            index.passages.count_links("tags", scopes)
            + index.passages.count_links("links", scopes)
            + index.facts.count_naming(scopes)
        )

    @on_index
    def memory_map(
        self, caller: t.Caller, *, query: str = "", scope: str = "", limit: int = 20
    ) -> t.MemoryMap:
        """Return what there is, list by list; with a query, the memories and retired
        ones that hold any of its words.
        """
        rules.require_text("query", query, rules.QUERY_CHARS, blank=True)
        if not 1 <= limit <= MAP_MOST:
            message = f"limit is {limit}; it may be from 1 to {MAP_MOST}"
            raise Invalid(message)
        scopes = readable_scopes(caller, scope)
        self._look_at_ledger()
        if query.strip():
            answer = self._map_of_words(query, scopes, limit)
        else:
            answer = self._map(scopes, limit)
        short = [
            name
            for name in t.Totals.__struct_fields__
            if len(getattr(answer, name)) < getattr(answer.total, name)
        ]
        return msgspec.structs.replace(answer, truncated=short)

    def _map(self, scopes: Sequence[str] | None, limit: int) -> t.MemoryMap:
        index = self.store.index
        topics = index.passages.tags(scopes)
        return t.MemoryMap(
            memories=[
                _map_memory(row) for row in index.passages.newest_words(scopes, limit)
            ],
            things=[
                t.Thing(
                    name=hidden.show(name), facts=count, at=rules.render_moment(at_ms)
                )
                for name, count, at_ms in index.facts.things(scopes, limit)
            ],
            topics=[
                t.Topic(tag=hidden.show(tag), memories=count)
                for tag, count in topics[:limit]
            ],
            facts=self._facts(index.facts.all_values(scopes, limit), dated=True),
            links=self._newest_links(scopes, limit),
            events=self._newest_doings(scopes, limit),
            retired=[
                self._map_retired(life)
                for life in index.lives.list_retired(scopes, limit)
            ],
            total=t.Totals(
                memories=index.passages.count_words(scopes),
                things=index.facts.count_subjects(scopes),
                topics=len(topics),
                facts=index.facts.count_values(scopes),
                links=self._count_links(scopes),
                events=index.facts.count_doings(scopes)
                + index.passages.count_entries(scopes),
                retired=index.lives.count_retired(scopes),
            ),
            truncated=[],
        )

    def _map_of_words(
        self, query: str, scopes: Sequence[str] | None, limit: int
    ) -> t.MemoryMap:
        index = self.store.index
        words = self._words_of(query, scopes)
        frequency, _ = self._frequencies(words, scopes)
        terms = sorted(frequency, key=lambda term: frequency[term])[: recall.MAX_TERMS]
        memories: dict[str, MemoryRow] = {}
        retired: dict[str, Life] = {}
        for term in terms:
            for row in index.passages.newest_holding(term, scopes, limit):
                memories.setdefault(row.id, row)
            for life in index.lives.search_retired([term], scopes):
                retired.setdefault(life.key, life)
        return t.MemoryMap(
            memories=[_map_memory(row) for row in [*memories.values()][:limit]],
            things=[],
            topics=[],
            facts=[],
            links=[],
            events=[],
            retired=[self._map_retired(one) for one in [*retired.values()][:limit]],
            total=t.Totals(
                memories=index.passages.count_words(scopes, terms) if terms else 0,
                retired=len(retired),
            ),
            truncated=[],
        )

    def _newest_links(self, scopes: Sequence[str] | None, limit: int) -> list[t.Link]:
        """Return the newest links, as many of each kind as there is room for."""
        index = self.store.index
        tags = [
            t.Link(kind="tag", source=memory, target=hidden.show(tag))
            for memory, _, tag in index.passages.newest_links("tags", scopes, limit)
        ]
        written = index.passages.newest_links("links", scopes, limit)
        found = index.passages.names.resolve([one[1:] for one in written], scopes)
        wikilinks = [
            t.Link(kind="wikilink", source=memory, target=note or hidden.show(target))
            for (memory, _, target), note in zip(written, found, strict=True)
        ]
        facts = [
            t.Link(kind="fact", source=value, target=hidden.show(name))
            for value, name in index.facts.naming(scopes, limit)
        ]
        in_turn = itertools.zip_longest(tags, wikilinks, facts)
        return [one for some in in_turn for one in some if one is not None][:limit]

    def _newest_doings(self, scopes: Sequence[str] | None, limit: int) -> list[t.Doing]:
        index = self.store.index
        doings = index.facts.newest_doings(scopes, limit)
        doings += [
            ("save", row.id, row.at_ms, row.writer, row.scope)
            for row in index.passages.newest_saves(scopes, limit)
        ]
        doings.sort(key=lambda one: one[2], reverse=True)
        return [
            t.Doing(
                kind=kind,
                id=memory,
                at=rules.render_moment(at_ms),
                writer=hidden.show(writer),
                scope=scope,
            )
            for kind, memory, at_ms, writer, scope in doings[:limit]
        ]

    def _map_retired(self, life: Life) -> t.MapMemory:
        row = life.row
        if row is None:
            raise LookupError(life.key)  # lists hold those alone that have one
        memory = _map_memory(row)
        is_note = life.key.startswith("note:")
        return msgspec.structs.replace(
            memory,
            id=self.store.id_of_note(life) if is_note else row.id,
            at=rules.render_moment(life.at_ms),
            scope=life.scope,
        )


def _map_memory(row: MemoryRow) -> t.MapMemory:
    return t.MapMemory(
        id=row.id,
        kind=row.kind,
        title=hidden.show(row.title),
        scope=row.scope,
        source=hidden.show(row.source),
        writer=hidden.show(row.writer),
        at=rules.render_moment(row.at_ms),
        session_date=row.day,
        untrusted=True if is_import(row) else is_untrusted(row.source),
        origin="import" if is_import(row) else msgspec.UNSET,
    )


def _titles_of(named: Iterable[Named], kind: int) -> Iterable[str]:
    """Return the forms of the canonical names of notes that match by a name."""
    return (fold(one.title) for one in named if one.kind == kind)


def _shortest(form: str) -> tuple[int, str]:
    return len(form), form
