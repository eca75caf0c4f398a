"""Recall: from a query and found passages to a ranked, honest, bounded answer.

Pure: no disk, no index, no clock. Words only for now; the verdict is the share of
the query's informative words that a memory holds. Source: docs/decisions/0008.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from . import types as t
from .words import IDEOGRAPHS

MAX_TERMS = 48
"""Terms of one search: the rarest are kept. An answer to 10,000 characters would
otherwise cost as much as the whole index."""

MAX_PASSAGES, FEW_TERMS = 8_000, 8
"""Of so many words no more are kept than stand in this many passages together."""

COMMON_SHARE = 0.10
COMMON_FROM = 500
"""Words in more than a tenth of the passages tell nothing and cost most of the
time (research: 10 to 15 times); below 500 passages all words are searched."""

CLOSE = 0.5
"""A memory matches when it holds half of the query's informative weight."""

ANSWER_TOKENS = 20_000
SENTENCE_END = re.compile("[.!?](?=\\s|$)|[\u3002\uff01\uff1f]|\n")

# Function words of English and Portuguese, and the verbs of asking: they stand in
# every question and say nothing about what is asked for. Folded, as words are.
STOP_WORDS = frozenset(
    """
    a about after all also am an and any are as at be been before being but by can
    could did do does doing for from had has have how i if in into is it its me my
    of on or our please should so some tell than that the their them then there
    these they this those to us use used uses using was we were what when where
    which who whom whose why will with would you your
    ao aos as ate com como da das de dela dele do dos e ela ele em entre era essa
    esse esta este eu foi ha isso isto ja mais mas me meu minha muito na nas no nos
    nao o onde os ou para pela pelo por porque qual quais quando que quem se sem
    ser seu seus sua suas sao tem uma um usa usam usar usamos voce
    """.split()  # noqa: SIM905 - a list of a hundred quoted words would not be read
)

_WORD = re.compile(r"\w+(?:[.'\u2019_-]\w+)*")


_RUN = re.compile(f"[{IDEOGRAPHS}]+|[^{IDEOGRAPHS}]+")
_IDEOGRAPHIC = re.compile(f"[{IDEOGRAPHS}]")

WORDS_MOST = 400
WORD_CHARS = 4
"""Chinese, Japanese and Korean write sentences without spaces: a longer run of them
is looked for two by two, or a question would have to stand in the text as it is."""


def query_words(
    query: str, fold: Callable[[str], str], most: int = WORDS_MOST
) -> list[str]:
    """Return the words of a query worth searching, each once, in order.

    Words that only shape a question are left out, unless there are no others; of more
    than `most` the longest are kept, which are the rarest. They come as written: the
    index folds them its own way (hangul stays whole there).
    """
    words: dict[str, str] = {}
    for word in _WORD.findall(unicodedata.normalize("NFC", query)):
        for piece in _pieces(word) if _IDEOGRAPHIC.search(word) else (word,):
            words.setdefault(fold(piece), piece)
    telling = [word for folded, word in words.items() if folded not in STOP_WORDS]
    chosen = telling or list(words.values())
    if len(chosen) > most:
        longest = set(sorted(chosen, key=len, reverse=True)[:most])
        chosen = [word for word in chosen if word in longest]
    return chosen


def _pieces(word: str) -> Iterator[str]:
    for run in _RUN.findall(word):
        if len(run) <= WORD_CHARS or not _IDEOGRAPHIC.match(run):
            yield run
        else:
            yield from (run[at : at + 2] for at in range(len(run) - 1))


def choose_terms(
    words: Sequence[str], frequency: Mapping[str, int], passages: int
) -> list[str]:
    """Return the words to search for, the rarest MAX_TERMS at most.

    `frequency` says in how many of `passages` a word stands (its rarest part).
    Words in no passage stay: they count against a match.
    """
    most = too_common(passages) - 1
    chosen = [word for word in words if frequency.get(word, 0) <= most]
    if not any(frequency.get(word) for word in chosen):
        present = [word for word in words if frequency.get(word)]
        chosen += sorted(present, key=lambda word: frequency[word])[:1]
    if len(chosen) > MAX_TERMS:
        rarest = sorted(chosen, key=lambda word: frequency.get(word, 0))[:MAX_TERMS]
        costs = itertools.accumulate(frequency.get(word, 0) for word in rarest)
        few = sum(cost <= MAX_PASSAGES for cost in costs)
        chosen = rarest[: max(few, FEW_TERMS)]
    return chosen


def too_common(passages: int) -> int:
    """Return in how many passages a word stands that tells nothing."""
    most = passages * COMMON_SHARE if passages >= COMMON_FROM else passages
    return int(most) + 1


def term_weights(
    terms: Sequence[str], frequency: Mapping[str, int], passages: int
) -> list[float]:
    """Return how much each term says: rare ones more, evened out in a small memory."""
    return [
        1.0 + math.log((passages + 20) / (frequency.get(term, 0) + 2)) for term in terms
    ]


def coverage(held: int, weights: Sequence[float]) -> float:
    """Return the share of the weights whose bit is set in `held`, 0 to 1."""
    total = sum(weights)
    if not total:
        return 0.0
    return sum(w for i, w in enumerate(weights) if held >> i & 1) / total


def score(share: float, rank: float, best_rank: float) -> float:
    """Return a score from 0 to 1: how much of the query, then how strongly."""
    strength = rank / best_rank if best_rank > 0 else 0.0
    return round(0.7 * share + 0.3 * strength, 4)


ALIKE = 0.9
"""Share of two passages' pairs of words that is common to both, if they are one."""


def find_alike(texts: Sequence[str]) -> dict[int, int]:
    """Return, by its place, each text that says nearly the same as an earlier one, and
    the place of that. White space and case are no difference; a number is.
    """
    kept: list[tuple[int, _Shape]] = []
    found: dict[int, int] = {}
    for place, text in enumerate(texts):
        shape = _Shape(text)
        same = next((at for at, other in kept if shape.is_like(other)), None)
        if same is None:
            kept.append((place, shape))
        else:
            found[place] = same
    return found


class _Shape:
    """A text as it is compared: cheap questions first."""

    def __init__(self, text: str) -> None:
        self.words = text.casefold().split()
        self.numbers = _NUMBER.findall(text)

    @functools.cached_property
    def pairs(self) -> set[tuple[str, str]]:
        return set(itertools.pairwise(self.words))

    def is_like(self, other: _Shape) -> bool:
        if self.numbers != other.numbers:
            return False
        fewer, more = sorted((len(self.words), len(other.words)))
        if not fewer or fewer < ALIKE * more:
            return False
        if self.words == other.words:
            return True
        both = len(self.pairs & other.pairs)
        either = len(self.pairs) + len(other.pairs) - both
        return both >= ALIKE * either > 0


_NUMBER = re.compile(r"\d+")


# --- the budget -------------------------------------------------------------

Count = Callable[[str], int]
Part = TypeVar("Part", t.Fact, t.Hit, t.FactConflict)


def fit(context: t.Context, count: Count, max_tokens: int) -> t.Context:
    """Cut a context to `max_tokens`, counted over its JSON as it is sent.

    Facts take up to half, memories the rest, facts refill what is left, and what is
    only linked comes after all. Too much: keyword memories go from the lowest score,
    then the others, except the newest that matches, which is cut at a sentence
    (`truncated`).
    """
    if context.conflicts:
        few = _take(context.conflicts, max_tokens // 4, count)
        context = msgspec.structs.replace(context, conflicts=few)
    empty = _with(context, [], [])
    room = max_tokens - _count(empty, count, max_tokens)
    facts = _take(context.facts, room // 2, count)
    used = sum(_cost(fact, count) for fact in facts)
    linked = [memory for memory in context.memories if memory.reason == "graph"]
    found = [memory for memory in context.memories if memory.reason != "graph"]
    memories = _take_memories(found, room - used, count)
    used += sum(_cost(memory, count) for memory in memories)
    if len(facts) < len(context.facts):
        taken = {fact.id for fact in facts}
        left = [fact for fact in context.facts if fact.id not in taken]
        taken |= {fact.id for fact in _take(left, room - used, count)}
        facts = [fact for fact in context.facts if fact.id in taken]
        used = sum(_cost(fact, count) for fact in facts)
        used += sum(_cost(memory, count) for memory in memories)
    memories += _take(linked, room - used, count)
    return _settle(context, facts, memories, count, max_tokens)


def _settle(
    context: t.Context,
    facts: list[t.Fact],
    memories: list[t.Hit],
    count: Count,
    max_tokens: int,
) -> t.Context:
    """Drop from the end until the exact count fits: parts are counted apart first."""
    while True:
        answer = _with(context, facts, memories)
        used = _count(answer, count, max_tokens)
        if used > max_tokens:
            slim = msgspec.structs.replace(
                answer,
                ranked_by=msgspec.UNSET,
                conflicts=answer.conflicts or msgspec.UNSET,
            )
            slim_used = _count(slim, count, max_tokens)
            if slim_used <= max_tokens or not (facts or memories):
                answer, used = slim, slim_used
        if used <= max_tokens or not (facts or memories):
            return msgspec.structs.replace(
                answer, tokens=t.Tokens(used=used, max=max_tokens)
            )
        if len(memories) > 1 or not facts:
            memories = _without_lowest(memories)
        else:
            facts = facts[:-1]


def _with(context: t.Context, facts: list[t.Fact], memories: list[t.Hit]) -> t.Context:
    return msgspec.structs.replace(context, facts=facts, memories=memories)


def _count(context: t.Context, count: Count, max_tokens: int) -> int:
    """Return the tokens of the answer, the number itself included."""
    used = 0
    for _ in range(4):
        said = msgspec.structs.replace(
            context, tokens=t.Tokens(used=used, max=max_tokens)
        )
        found = count(msgspec.json.encode(said).decode())
        if found == used:
            break
        used = found
    return used


def _cost(part: t.Fact | t.Hit | t.FactConflict, count: Count) -> int:
    return count(msgspec.json.encode(part).decode()) + 1


def _take(parts: Iterable[Part], room: int, count: Count) -> list[Part]:
    taken: list[Part] = []
    for part in parts:
        cost = _cost(part, count)
        if cost <= room:  # one that is too long must not silence those after it
            room -= cost
            taken.append(part)
    return taken


def _newest_match(memories: Sequence[t.Hit]) -> t.Hit | None:
    matched = [m for m in memories if m.matched and m.reason != "graph"]
    return max(matched, key=lambda memory: memory.session_date, default=None)


def _order(memory: t.Hit) -> tuple[int, float]:
    """Return what sorts memories by what is kept longest."""
    later = {"fts": 1, "note-identity": 1, "graph": 2}
    return later.get(memory.reason, 0), -memory.score


def _take_memories(memories: Sequence[t.Hit], room: int, count: Count) -> list[t.Hit]:
    """Return what fits, in the order given; see `fit` for what goes first."""
    spared = _newest_match(memories)
    kept: list[t.Hit] = []
    if spared is not None:
        cost = _cost(spared, count)
        if cost > room:
            # Cut to half, so that it does not silence shorter ones that match.
            half = room if len(memories) == 1 else room // 2
            kept = _cut_to_room(spared, half, count) or _cut_to_room(
                spared, room, count
            )
            cost = sum(_cost(memory, count) for memory in kept)
        else:
            kept = [spared]
        room -= cost
    # Taking the best until one does not fit is dropping the lowest until all fit,
    # and counts no more than what is kept.
    for memory in sorted(memories, key=_order):
        if memory is spared:
            continue
        cost = _cost(memory, count)
        if cost <= room:
            room -= cost
            kept.append(memory)
    by_id = {memory.id: memory for memory in kept}
    return [by_id[memory.id] for memory in memories if memory.id in by_id]


def _without_lowest(memories: list[t.Hit]) -> list[t.Hit]:
    spared = _newest_match(memories)
    going = [m for m in memories if m is not spared] or memories
    lowest = max(going, key=_order)
    return [memory for memory in memories if memory is not lowest]


def _cut_to_room(memory: t.Hit, room: int, count: Count) -> list[t.Hit]:
    """Return the memory cut at a sentence so that it fits, or nothing."""
    ends = [found.end() for found in SENTENCE_END.finditer(memory.text)]
    best = _longest_that_fits(memory, ends, room, count)
    if best:
        return best
    # No sentence is short enough: anywhere is better than nothing of it.
    return _longest_that_fits(memory, range(20, len(memory.text), 20), room, count)


def _longest_that_fits(
    memory: t.Hit, ends: Sequence[int], room: int, count: Count
) -> list[t.Hit]:
    low, high = 0, len(ends)
    best: list[t.Hit] = []
    while low < high:
        middle = (low + high) // 2
        shorter = msgspec.structs.replace(
            memory, text=memory.text[: ends[middle]].rstrip(), truncated=True
        )
        if _cost(shorter, count) <= room:
            best, low = [shorter], middle + 1
        else:
            high = middle
    return best


# --- long answers -----------------------------------------------------------

Long = TypeVar(
    "Long",
    bound=t.Hits
    | t.History
    | t.Entity
    | t.MemoryMap
    | t.Memory
    | t.Status
    | t.IndexReport,
)
BOUNDED = (
    *(t.Hits, t.History, t.Entity, t.MemoryMap, t.Memory),
    *(t.Status, t.IndexReport),
)

SHORT_CHARS = 500
"""A text of no more characters is not cut: what holds it goes as a whole."""


def bound(answer: Long, count: Count) -> Long:
    """Cut the longest lists, from their end, until an answer is under ANSWER_TOKENS."""
    while True:
        said = msgspec.json.encode(answer)
        # A token is at least a byte: of a short answer there is nothing to count.
        if len(said) <= ANSWER_TOKENS or count(said.decode()) <= ANSWER_TOKENS:
            return answer
        shorter = _shorter(answer)
        if shorter is None:
            return answer
        answer = shorter


def _shorter(answer: Long) -> Long | None:
    """Return an answer with less in its longest list, None when there is no more."""
    lists = {
        name: found
        for name in answer.__struct_fields__
        if isinstance(found := getattr(answer, name), list) and found
        if name != "truncated"
    }
    if lists:
        name = max(lists, key=lambda one: len(msgspec.json.encode(lists[one])))
        fewer: object = _fewer(lists[name])
    else:
        texts = {
            n: s for n in ("object", "title") if _is_long(s := getattr(answer, n, ""))
        }
        if not texts:
            return None
        name = max(texts, key=lambda one: len(texts[one]))
        fewer = _halved(texts[name])
    if isinstance(answer, t.MemoryMap):
        names = list(dict.fromkeys([*answer.truncated, name]))
        return msgspec.structs.replace(answer, truncated=names, **{name: fewer})
    return msgspec.structs.replace(answer, truncated=True, **{name: fewer})


def _fewer(parts: list[object]) -> list[object]:
    """Return three quarters of a list; of a single part one of half the length."""
    if len(parts) > 1:
        return parts[: len(parts) * 3 // 4]
    (part,) = parts
    if not isinstance(part, t.Fact | t.Hit):
        return []
    texts = {
        n: s
        for n in ("text", "object", "statement")
        if _is_long(s := getattr(part, n, ""))
    }
    if not texts:
        return []
    halved = {name: _halved(text) for name, text in texts.items()}
    return [msgspec.structs.replace(part, truncated=True, **halved)]


def _is_long(text: object) -> bool:
    return isinstance(text, str) and len(text) > SHORT_CHARS


def _halved(text: str) -> str:
    return text[: len(text) // 2]
