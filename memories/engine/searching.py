"""Finding: from a query to ranked memories, by words, by names and by links.

Base of the operations that read. Verdict and order are recall.py's; scopes are kept
to inside the queries, never filtered afterwards.
"""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

import msgspec

from . import markdown, recall, rules
from . import types as t
from .answers import (
    WHOLE,
    FoundMemory,
    Search,
    fact_of,
    hit_of,
    may_fold,
    rank,
    writer_conflict_of,
)
from .chunks import CHUNK_CHARS
from .facts import ValueRow
from .operation import Operations
from .passages import MemoryRow, Passage, lasting_id

PASSAGES = 100
PHRASE_PASSAGES = 400
"""Passages that hold a phrase by its stems, of which the letters choose."""

FACT_PASSAGES = 36
"""Passages ranked; a fact has one, and three times as many as are shown settle ties."""

NAMED = 24
"""Notes that one term may mean; more are no answer to a question."""

IDS_IN_QUERY = 20
WORDS_COUNTED = recall.MAX_TERMS + 1
STEMS_ASKED = 200
ALSO_SHOWN = 10
LINK_SOURCES = 10
LINKS_FOLLOWED = 50
CORRECTION_STEPS = 5
"""Corrections of corrections that are brought along; more are only named."""

_ID = re.compile("(?:note|entry|fact):.")


class Searching(Operations):
    def _relevance(self, relevant: bool, scopes: Sequence[str] | None) -> t.Relevance:
        is_whole = not (self.store.is_stale or self.store.ledger_damage)
        if (
            not relevant
            and is_whole
            and not self.store.index.passages.newest(scopes, 1)
        ):
            return t.Relevance(relevant=False, reason="empty")
        return t.Relevance(relevant=relevant)

    def _facts(
        self, values: Sequence[ValueRow], *, dated: bool = False
    ) -> list[t.Fact]:
        lost = self.store.index.facts.overwritten(values)
        facts = []
        for value in values:
            fact = fact_of(value, dated=dated)
            if value.id in lost:
                conflict = [writer_conflict_of(one) for one in lost[value.id]]
                fact = msgspec.structs.replace(fact, writer_conflict=conflict)
            facts.append(fact)
        return facts

    def _hits(
        self, found: Sequence[FoundMemory], scopes: Sequence[str] | None
    ) -> list[t.Hit]:
        """Return hits in order, a correction always before what it corrects."""
        listed = list(found)
        for _ in range(CORRECTION_STEPS):
            corrections = self._corrections(listed, scopes)
            ordered = _with_corrections(listed, corrections)
            if [one.passage.memory.id for one in ordered] == [
                one.passage.memory.id for one in listed
            ]:
                break
            listed = ordered
        return [
            hit_of(one, corrections.get(lasting_id(one.passage.memory.id)))
            for one in listed
        ]

    def _corrections(
        self, found: Sequence[FoundMemory], scopes: Sequence[str] | None
    ) -> dict[str, MemoryRow]:
        ids = [one.passage.memory.id for one in found]
        return self._corrections_of(ids, scopes)

    def _corrections_of(
        self, ids: Sequence[str], scopes: Sequence[str] | None
    ) -> dict[str, MemoryRow]:
        """Return the correction of each, by lasting id, under whatever name a note had
        when it was corrected.
        """
        index = self.store.index
        names = [
            (name, lasting_id(one), since, until)
            for one in ids
            for name, since, until in index.names_of(one)
        ]
        found = index.passages.corrections({one[0] for one in names}, scopes)
        newest: dict[str, MemoryRow] = {}
        for name, lasting, since, until in names:
            for row in found.get(name, ()):
                known = newest.get(lasting)
                is_meant = since <= row.at_ms <= until
                if is_meant and (known is None or row.at_ms > known.at_ms):
                    newest[lasting] = row
        return newest

    def _search(self, query: str, scopes: Sequence[str] | None) -> Search:
        """Find facts and memories that hold words of a query, best first; what stands
        in no text is looked for in the names of notes.
        """
        index = self.store.index
        words = self._words_of(query, scopes)
        frequency, passages = self._frequencies(words, scopes)
        terms = recall.choose_terms(list(frequency), frequency, passages)
        weights = recall.term_weights(terms, frequency, passages)
        present = [term for term in terms if frequency[term]]
        held_as = [1 << terms.index(term) for term in present]
        memories, facts = (
            index.passages.search(present, scopes=scopes, facts=is_fact, limit=most)
            for is_fact, most in ((False, PASSAGES), (True, FACT_PASSAGES))
        )
        in_text = functools.reduce(
            operator.or_, (one.in_text for one in (*memories, *facts)), 0
        )
        met = {term for i, term in enumerate(present) if in_text >> i & 1}
        named = self._named([one for one in terms if one not in met], terms, scopes)
        meant = self._meant(query, scopes)
        named.update({one.memory.id: WHOLE for one in meant})
        # BM25 is of the whole index: to a limited reader it would tell of the rest.
        by_strength = scopes is None
        found = {one.memory.id for one in (*memories, *facts)}
        others = self._first_passages(named.keys() - found, scopes)
        return Search(
            memories=rank(
                [*memories, *(one for one in others if one.memory.kind != "fact")],
                held_as,
                weights,
                by_strength=by_strength,
                named=named,
            ),
            facts=rank(
                [*facts, *(one for one in others if one.memory.kind == "fact")],
                held_as,
                weights,
                by_strength=by_strength,
                named=named,
            ),
        )

    def _named(
        self, missing: Sequence[str], terms: Sequence[str], scopes: Sequence[str] | None
    ) -> dict[str, int]:
        """Return, by id, the bits of the missing terms that a note's names hold."""
        names = self.store.index.passages.names
        bits: dict[int, int] = {}
        for term in missing:
            for number in names.holding(term, scopes, NAMED):
                bits[number] = bits.get(number, 0) | 1 << terms.index(term)
        if not bits:
            return {}
        ids = self.store.index.passages.ids_of(list(bits))
        return {ids[number]: held for number, held in bits.items()}

    def _meant(self, query: str, scopes: Sequence[str] | None) -> list[Passage]:
        """Return the memories whose ids stand in a query."""
        said = [query.strip(), *query.split()[:IDS_IN_QUERY]]
        ids = [unicodedata.normalize("NFC", one) for one in said if _ID.match(one)]
        return self._first_passages(ids, scopes) if ids else []

    def _first_passages(
        self, ids: Collection[str], scopes: Sequence[str] | None
    ) -> list[Passage]:
        if not ids:
            return []
        return self.store.index.passages.first_passages(sorted(ids), scopes)

    @staticmethod
    def _words_of(query: str, scopes: Sequence[str] | None) -> list[str]:
        """Return the words to look for: to count one in some scopes costs more."""
        most = recall.WORDS_MOST if scopes is None else WORDS_COUNTED
        return recall.query_words(query, rules.fold_search, most)

    def _frequencies(
        self, words: Sequence[str], scopes: Sequence[str] | None
    ) -> tuple[dict[str, int], int]:
        """Return in how many passages each word stands, and how many there are, of
        those the reader may see. A word's frequency is that of its rarest part.
        """
        passages = self.store.index.passages
        stems = {word: found for word in words if (found := passages.stems(word))}
        if scopes is not None:
            there = passages.count_passages(scopes)
            counts = passages.count_holding(stems, scopes, recall.too_common(there))
            return dict(zip(stems, counts, strict=True)), there
        each = passages.frequencies({stem for some in stems.values() for stem in some})
        frequency = {
            word: min(each.get(stem, 0) for stem in found)
            for word, found in stems.items()
        }
        return frequency, passages.passage_count()

    def _search_phrase(
        self, query: str, scopes: Sequence[str] | None
    ) -> list[FoundMemory]:
        """Find passages that hold the query letter for letter, case and accents
        folded; the index is asked for its stems and the text has the last word.
        """
        index = self.store.index
        stems = set(index.passages.stems(query)[:STEMS_ASKED])
        if not stems or len(index.passages.frequencies(stems)) < len(stems):
            return []
        wanted = rules.fold_name(rules.fold_search(query))
        passages = [
            passage
            for is_fact in (True, False)
            for passage in index.passages.search(
                [query], scopes=scopes, facts=is_fact, limit=PHRASE_PASSAGES
            )
            if wanted in rules.fold_name(rules.fold_search(passage.text))
        ]
        return rank(passages, [1], [1.0], by_strength=scopes is None)

    def _with_linked(
        self,
        found: Sequence[FoundMemory],
        search: Search,
        scopes: Sequence[str] | None,
        most: int,
    ) -> list[FoundMemory]:
        """Return what was found, and after it the notes it links to: one step."""
        if most <= 0 or not found:
            return list(found)
        passages = self.store.index.passages
        sources = found[:LINK_SOURCES]
        kept = passages.links_of([one.passage.memory.id for one in sources])
        links: dict[tuple[str, str], FoundMemory] = {}
        for one in sources:
            row = one.passage.memory
            own = markdown.find_wikilinks(one.passage.text)
            for target in dict.fromkeys([*own, *kept.get(row.id, ())][:LINKS_FOLLOWED]):
                links.setdefault((row.path, target), one)
        if not links:
            return list(found)
        listed = {one.passage.memory.id for one in found}
        listed |= {other for one in found for other in one.also_in}
        score: dict[str, float] = {}
        for note, source in zip(
            passages.names.resolve(list(links), scopes), links.values(), strict=True
        ):
            if note and note not in listed and len(score) < most:
                score.setdefault(note, round(source.score / 2, 4))
        by_words = {one.passage.memory.id: one for one in search.memories}
        first = {
            one.memory.id: one
            for one in self._first_passages(score.keys() - by_words.keys(), scopes)
        }
        linked = [
            FoundMemory(by_words[note].passage, by_words[note].share, halved, "graph")
            if note in by_words
            else FoundMemory(first[note], 0.0, halved, "graph")
            for note, halved in score.items()
            if note in by_words or note in first
        ]
        return [*found, *linked]

    def _folded(
        self, found: Sequence[FoundMemory], scopes: Sequence[str] | None
    ) -> list[FoundMemory]:
        """Return each of what says nearly the same once, naming the others. What
        corrects another stays apart, and so does what is not trusted alike.
        """
        same = recall.find_alike([one.passage.text for one in found])
        if not same:
            return list(found)
        corrections = self._corrections(found, scopes)
        apart = {row.id for row in corrections.values()} | {
            one.passage.memory.id
            for one in found
            if lasting_id(one.passage.memory.id) in corrections
        }
        others: dict[int, list[str]] = {}
        for number, first in same.items():
            one, kept = found[number].passage.memory, found[first].passage.memory
            if {one.id, kept.id} & apart or not may_fold(one, kept):
                continue
            others.setdefault(first, []).append(one.id)
        folded = {other for some in others.values() for other in some}
        return [
            msgspec.structs.replace(one, also_in=others.get(number, [])[:ALSO_SHOWN])
            for number, one in enumerate(found)
            if one.passage.memory.id not in folded
        ]


def _with_corrections(
    found: Sequence[FoundMemory], corrections: Mapping[str, MemoryRow]
) -> list[FoundMemory]:
    """Return what was found with each correction put right before what it corrects.

    One that was not found itself comes along, as near as what it corrects. A fact
    stands among the facts: here it is only named.
    """
    own = {one.passage.memory.id: one for one in found}
    ordered: dict[str, FoundMemory] = {}
    for one in found:
        row = corrections.get(lasting_id(one.passage.memory.id))
        if row is not None and row.kind != "fact" and row.id not in ordered:
            ordered[row.id] = own.get(row.id) or _brought_along(row, one)
        ordered.setdefault(one.passage.memory.id, one)
    return list(ordered.values())


def _brought_along(row: MemoryRow, corrected: FoundMemory) -> FoundMemory:
    passage = Passage(
        memory=row,
        heading_path=(),
        text=row.text[:CHUNK_CHARS],
        rank=corrected.passage.rank,
        terms=corrected.passage.terms,
    )
    return FoundMemory(passage, corrected.share, corrected.score, corrected.reason)
