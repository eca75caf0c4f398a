from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.engine import recall, rules
from memories.engine import types as t


def toy_count(text: str) -> int:
    """A token for every three characters begun."""
    return -(-len(text) // 3)


def make_hit(number: int, **given: object) -> t.Hit:
    said: dict[str, object] = {
        "id": f"entry:2026-11-30.md#{number:03d}",
        "title": f"title {number}",
        "text": f"First sentence of {number}. Second sentence. Third one is longer.",
        "heading_path": [],
        "session_date": f"2026-11-{1 + number % 28:02d}",
        "score": round(1 - number / 100, 4),
        "reason": "fts",
        "matched": True,
        "scope": "global",
        "source": "claude",
    }
    return t.Hit(**{**said, **given})  # type: ignore[arg-type]


def make_fact(number: int, object_: str = "") -> t.Fact:
    return t.Fact(
        id=f"fact:{number:03d}",
        subject=f"subject {number}",
        predicate="is",
        object=object_ or "x" * (number % 7 * 10),
        statement="",
        scope="global",
        source="claude",
        writer="claude",
        valid_from="2026-11-30T12:00:00.000Z",
    )


def make_context(facts: list[t.Fact], memories: list[t.Hit]) -> t.Context:
    return t.Context(
        facts=facts,
        memories=memories,
        retrieval="keyword",
        relevance=t.Relevance(relevant=True),
        tokens=t.Tokens(used=0, max=0),
        index=t.IndexState(stale=False),
        ranked_by="score",
        conflicts=[],
    )


def size_of(answer: t.Context, count: Callable[[str], int] = toy_count) -> int:
    return count(msgspec.json.encode(answer).decode())


# --- words


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("what database does Fjord use?", ["database", "Fjord"]),
        ("Qual é o banco de dados do Fjord?", ["banco", "dados", "Fjord"]),
        ("the the THE", ["the"]),
        ("Red red RED fox", ["Red", "fox"]),
        ("it's file_name.py v1.2.3 a-b", ["it's", "file_name.py", "v1.2.3", "a-b"]),
        ("?!", []),
        ("数据库", ["数据库"]),
        ("Fjord用什么数据库?", ["Fjord", "用什", "什么", "么数", "数据", "据库"]),
        ("a bb ccc dddd e f g h i jj", ["bb", "ccc", "dddd", "f", "g", "h", "jj"]),
        ("", []),
    ],
)
def test_query_words(query: str, words: list[str]):
    assert recall.query_words(query, rules.fold_search, 9) == words


def test_choose_terms_keeps_the_rarest():
    words = [f"w{number:02d}" for number in range(60)]
    frequency = {word: number for number, word in enumerate(words)}

    assert recall.choose_terms(words, frequency, 100) == words[: recall.MAX_TERMS]


def test_choose_terms_leaves_out_what_stands_everywhere():
    frequency = {"common": 400, "rare": 3}

    chosen = recall.choose_terms(["common", "rare", "absent"], frequency, 1_000)

    assert chosen == ["rare", "absent"]


def test_choose_terms_of_common_words_alone_keeps_the_rarest():
    frequency = {"often": 400, "oftener": 900}

    assert recall.choose_terms(["oftener", "often"], frequency, 1_000) == ["often"]


def test_choose_terms_in_a_small_memory_keeps_all():
    assert recall.choose_terms(["a", "b"], {"a": 400}, 400) == ["a", "b"]


def test_rare_terms_weigh_more_and_absent_ones_most():
    weights = recall.term_weights(["a", "b", "c"], {"a": 90, "b": 2}, 100)

    assert weights == sorted(weights)
    assert recall.coverage(0b111, weights) == 1.0
    assert recall.coverage(0, weights) == 0.0
    assert recall.coverage(0b1, []) == 0.0


def test_score_is_between_none_and_one():
    assert recall.score(1.0, 5.0, 5.0) == 1.0
    assert recall.score(0.0, 0.0, 0.0) == 0.0
    assert recall.score(0.5, -1e-6, 0.0) == 0.35


# --- the budget


@given(
    st.integers(min_value=0, max_value=1_500),
    st.integers(min_value=0, max_value=12),
    st.integers(min_value=0, max_value=24),
    st.randoms(use_true_random=False),
)
def test_fit_keeps_to_any_budget_and_counts_exactly(
    budget: int, fact_count: int, hit_count: int, random: object
):
    shuffle = getattr(random, "shuffle")  # noqa: B009 - typed as object by hypothesis
    memories = [
        make_hit(n, matched=n % 3 == 0, reason="hybrid" if n % 4 == 0 else "fts")
        for n in range(hit_count)
    ]
    shuffle(memories)
    context = make_context([make_fact(n) for n in range(fact_count)], memories)

    answer = recall.fit(context, toy_count, budget)

    assert answer.tokens == t.Tokens(used=size_of(answer), max=budget)
    if answer.facts or answer.memories:
        assert answer.tokens.used <= budget
    kept = {memory.id for memory in answer.memories}
    assert [m.id for m in answer.memories] == [m.id for m in memories if m.id in kept]
    assert answer.facts == [f for f in context.facts if f in answer.facts]


def test_fit_with_a_counter_that_counts_more_for_the_whole():
    """Parts are counted apart first; the exact count of the whole decides."""

    def count(text: str) -> int:
        return len(text) ** 2 // 10_000

    facts = [make_fact(number) for number in range(6)]
    memories = [make_hit(number) for number in range(6)]

    for budget in range(0, 400, 7):
        answer = recall.fit(make_context(facts, memories), count, budget)
        assert answer.tokens == t.Tokens(used=size_of(answer, count), max=budget)
        assert answer.tokens.used <= budget or not (answer.facts or answer.memories)


def test_fit_with_room_for_all_changes_nothing():
    context = make_context([make_fact(1)], [make_hit(1)])

    answer = recall.fit(context, toy_count, 4_000)

    assert (answer.facts, answer.memories) == (context.facts, context.memories)
    assert (answer.ranked_by, answer.conflicts) == ("score", [])


def test_fit_of_nothing():
    answer = recall.fit(make_context([], []), toy_count, 100)

    assert answer.tokens == t.Tokens(used=size_of(answer), max=100)


def test_fit_fills_what_is_left_with_facts():
    facts = [make_fact(number) for number in range(12)]
    alone = recall.fit(make_context(facts, []), toy_count, 500)
    shared = recall.fit(
        make_context(facts, [make_hit(number) for number in range(12)]), toy_count, 500
    )

    assert len(alone.facts) > len(shared.facts) > 0
    assert shared.memories
    assert 500 - alone.tokens.used < toy_count(msgspec.json.encode(facts[0]).decode())


def test_fit_drops_keyword_memories_from_the_lowest_score():
    memories = [
        make_hit(1, score=0.9, session_date="2026-11-01"),
        make_hit(2, score=0.1, reason="semantic", session_date="2026-11-02"),
        make_hit(3, score=0.5, session_date="2026-11-03", matched=False),
        make_hit(4, score=0.2, session_date="2026-11-04"),
    ]
    one = toy_count(msgspec.json.encode(memories[0]).decode()) + 10

    kept = [
        [
            int(memory.id[-3:])
            for memory in recall.fit(
                make_context([], memories), toy_count, 110 + room * one
            ).memories
        ]
        for room in (4, 3, 2)
    ]

    # Number 4 is the newest that matches: it goes last, though its score is low.
    assert kept == [[1, 2, 3, 4], [1, 2, 4], [2, 4]]


def test_fit_cuts_the_newest_relevant_memory_at_a_sentence():
    sentences = [f"Sentence number {number} is here." for number in range(60)]
    memories = [
        make_hit(1, text=" ".join(sentences), session_date="2026-11-09", score=0.1),
        make_hit(2, text="b " * 500, session_date="2026-11-08", score=0.9),
        make_hit(3, text="c " * 500, session_date="2026-11-30", matched=False),
    ]

    answer = recall.fit(make_context([], memories), toy_count, 400)

    assert [memory.id for memory in answer.memories] == [memories[0].id]
    cut = answer.memories[0]
    assert cut.truncated is True
    assert cut.text == " ".join(sentences[: cut.text.count(".")])
    assert cut.text.count(".") > 5


def test_fit_without_room_for_a_sentence_cuts_anywhere():
    memory = make_hit(1, text="word " * 400 + ".", matched=True)

    answer = recall.fit(make_context([], [memory]), toy_count, 200)

    (cut,) = answer.memories
    assert cut.truncated
    assert memory.text.startswith(cut.text)
    assert answer.tokens.used <= 200


def test_fit_does_not_let_one_long_fact_silence_the_others():
    facts = [make_fact(1, "long " * 900), make_fact(2), make_fact(3)]

    answer = recall.fit(make_context(facts, []), toy_count, 800)

    assert answer.facts == facts[1:]


def test_fit_does_not_let_one_long_memory_silence_a_short_one():
    long = make_hit(1, text="word. " * 400, matched=True, session_date="2026-11-30")
    short = make_hit(
        2, text="Short and exact.", matched=True, session_date="2026-11-01"
    )

    answer = recall.fit(make_context([], [long, short]), toy_count, 800)

    assert [memory.id for memory in answer.memories] == [long.id, short.id]
    assert answer.memories[0].truncated


def test_fit_drops_empty_members_first_when_tight():
    context = make_context([], [make_hit(1, matched=True)])
    whole = recall.fit(context, toy_count, 4_000)

    tight = recall.fit(context, toy_count, whole.tokens.used - 1)

    assert tight.memories
    assert tight.tokens.used <= whole.tokens.used - 1


def test_fit_with_the_tokens_of_o200k():
    count = _load_o200k()
    facts = [make_fact(number) for number in range(12)]
    memories = [
        make_hit(number, text=f"São Paulo {number}: 数据库 🎉 é. " * 20)
        for number in range(24)
    ]
    context = make_context(facts, memories)

    for budget in (100, 137, 300, 800, 801, 999, 1_000, 1_001, 2_500, 4_000):
        answer = recall.fit(context, count, budget)
        assert answer.tokens == t.Tokens(used=size_of(answer, count), max=budget)
        assert answer.tokens.used <= budget
        assert answer.facts or budget < 200


def _load_o200k() -> Callable[[str], int]:
    """The counter as memories/gateway.py loads it: the Rust core alone."""
    package = importlib.util.find_spec("bpe_openai")
    assert package is not None
    assert package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0])
    core = importlib.util.spec_from_file_location(
        "bpe_openai._bindings", next(folder.glob("_bindings.*so"))
    )
    assert core is not None
    assert core.loader is not None
    module = importlib.util.module_from_spec(core)
    core.loader.exec_module(module)
    count: Callable[[str], int] = module.tokenizer_for_encoding("o200k_base").count
    return count


# --- long lists


def test_bound_cuts_the_end_of_a_long_list():
    hits = t.Hits(
        hits=[make_hit(number, text="word " * 500) for number in range(50)],
        relevance=t.Relevance(relevant=True),
        index=t.IndexState(stale=False),
    )
    history = t.History(
        known=True,
        subject="s",
        as_of="2026-11-30T12:00:00.000Z",
        facts=[make_fact(number) for number in range(2_000)],
    )

    short_hits = recall.bound(hits, toy_count)
    short_history = recall.bound(history, toy_count)

    assert isinstance(short_hits, t.Hits)
    assert isinstance(short_history, t.History)
    for answer in (short_hits, short_history):
        assert answer.truncated is True
        size = toy_count(msgspec.json.encode(answer).decode())
        assert size <= recall.ANSWER_TOKENS
    assert short_hits.hits == hits.hits[: len(short_hits.hits)] != []
    assert short_history.facts == history.facts[: len(short_history.facts)] != []


def test_bound_of_a_short_list_changes_nothing():
    hits = t.Hits(
        hits=[make_hit(1)],
        relevance=t.Relevance(relevant=True),
        index=t.IndexState(stale=False),
    )

    assert recall.bound(hits, toy_count) == hits


def test_bound_ends_at_what_cannot_be_too_long():
    hits = t.Hits(
        hits=[make_hit(1, text="x" * 30_000)],
        relevance=t.Relevance(relevant=True),
        index=t.IndexState(stale=False),
    )
    facts = [msgspec.structs.replace(make_fact(1), statement="x" * 30_000)]
    history = t.History(known=True, subject="s", as_of="", facts=facts)

    def count_too_much(_: str) -> int:
        return recall.ANSWER_TOKENS + 1

    short_hits = recall.bound(hits, count_too_much)
    short_history = recall.bound(history, count_too_much)

    assert isinstance(short_hits, t.Hits)
    assert isinstance(short_history, t.History)
    assert short_hits.truncated is short_history.truncated is True
    assert short_hits.hits[0].text == "x" * 15_000
    assert short_hits.hits[0].truncated is True
    assert short_history.facts[0].statement == "x" * 15_000
