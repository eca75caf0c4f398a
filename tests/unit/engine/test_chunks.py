"""Chunks: nothing lost, nothing too long, cut where people cut, and steady."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memories.engine import chunks as chunking
from memories.engine import markdown
from memories.engine.chunks import CHUNK_CHARS, Chunk

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


def chunk(text: str) -> list[Chunk]:
    return [found for found in chunking.iter_chunks(text) if found]


blocks = st.sampled_from(
    [
        *("# One\n", "## Two\n", "Setext\n===\n", "Two\n---\n", "- a\n- b\n", "\n"),
        *(
            "```\n# no\n```\n",
            "~~~\n",
            "> quote\n",
            "a | b\n- | -\n1 | 2\n",
            "    code\n",
        ),
        *(
            "[ref]: /x\n",
            "<div>\n# no\n</div>\n",
            "para one.\n\n",
            "word " * 400 + "\n",
        ),
        *(
            "x" * 3_000,
            "漢" * 1_500 + "。",
            "\r",
            "\t",
            "* * *\n",
            "1. a\n\n   b\n",
            "\u2028",
        ),
    ]
)


@given(st.lists(blocks, max_size=25).map("".join) | texts)
def test_chunks_hold_every_character_once(text: str):
    chunks = chunk(text)

    assert "".join("".join(c.text.split()) for c in chunks) == "".join(text.split())
    assert all(len(c.text) <= CHUNK_CHARS for c in chunks)
    assert all(c.text.strip() for c in chunks)


def test_chunks_of_a_long_text_hold_every_character_once():
    part = "# Head {0}\n\n" + "Some words of {0}. " * 60 + "\n\n```\n# no\n\n```\n"
    text = "".join(part.format(number) for number in range(300)) + "z" * 200_000

    chunks = chunk(text)

    assert "".join("".join(c.text.split()) for c in chunks) == "".join(text.split())
    assert {c.heading_path for c in chunks} == {(f"Head {n}",) for n in range(300)}
    assert max(len(c.text) for c in chunks) <= CHUNK_CHARS


def test_chunks_stand_under_their_headings():
    text = "before\n\n# A\n\na\n\n### C\n\nc\n\n## B\n\nb\n\nTitle\n=====\n\nt\n"

    assert [(c.heading_path, c.text) for c in chunk(text)] == [
        ((), "before"),
        (("A",), "# A\n\na"),
        (("A", "C"), "### C\n\nc"),
        (("A", "B"), "## B\n\nb"),
        (("Title",), "Title\n=====\n\nt"),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_heading_in_a_fence_is_none(fence: str):
    text = f"# A\n\n{fence}sh\n# a comment\n{fence}\n\nafter"

    assert [c.heading_path for c in chunk(text)] == [("A",)]


def test_headings_of_a_text_with_lone_carriage_returns():
    chunks = chunk("a\rb\n\n# H\n\nunder")

    assert [(c.heading_path, c.text) for c in chunks] == [
        ((), "a\rb"),
        (("H",), "# H\n\nunder"),
    ]


def test_heading_deep_in_a_long_fence_is_none():
    body = "# not a heading\n\n" * 4_000
    text = f"# A\n\n```\n{body}```\n\n# B\n\nend"

    assert {c.heading_path for c in chunk(text)} == {("A",), ("B",)}


def test_long_paragraph_is_cut_at_sentences():
    sentence = "This is a sentence of some length."
    chunks = chunk(" ".join([sentence] * 100))

    assert len(chunks) > 1
    assert all(c.text.rstrip().endswith(".") for c in chunks)


SIZE = 96_000
HOSTILE = {
    "quotes": "> " * (SIZE // 2),
    "deep quotes": "".join(">" * (i % 300) + " a\n" for i in range(600)),
    "lists": "- " * (SIZE // 2),
    "deep lists": "".join("  " * i + "- a\n" for i in range(300)),
    "table row": "a|b\n-|-\n" + "|" * 80_000,
    "table": "a|b\n-|-\n" + "x|y\n" * 10_000,
    "references": "[a\n" * (SIZE // 3),
    "open reference": "[a]: <" * (SIZE // 6),
    "html": "<!--\n" * (SIZE // 5),
    "ticks": "`" * SIZE,
    "headings": "#\n" * (SIZE // 4),
    "setext": "a\n=\n" * (SIZE // 4),
    "paragraph": "a\n" * (SIZE // 2),
    "rules": "- - -\n" * (SIZE // 6),
    "brackets": "[" * SIZE,
    "mixed": ("> " * 20 + "- " * 20 + "a\n") * 1_000,
    "no break": "\u200d" * SIZE,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_nesting_is_bounded_in_time(name: str):
    text = HOSTILE[name]
    started = time.process_time()

    chunks = chunk(text)
    markdown.find_tags(text)
    markdown.find_wikilinks(text)

    # Two segments of 0.25 s each, and the cutting; much room for a slow machine.
    assert time.process_time() - started < 5
    assert "".join("".join(c.text.split()) for c in chunks) == "".join(text.split())


# --- steadiness: equal text is embedded once, so it must be cut the same


WORDS = [
    "harbour",
    "lantern",
    "meadow",
    "granite",
    "whistle",
    "orchard",
    "copper",
    "thunder",
]


def sentence(number: int) -> str:
    words = [WORDS[(number * 7 + k * k + number // 5) % 8] for k in range(9)]
    return f"{' '.join(words)} {number}."


SHAPES = {
    "paragraphs": "\n\n".join(
        " ".join(sentence(n * 4 + k) for k in range(4)) for n in range(300)
    ),
    "one paragraph": " ".join(sentence(n) for n in range(900)),
    "hard wrapped": "\n".join(sentence(n) for n in range(900)),
    "list": "\n".join(f"- {sentence(n)}" for n in range(900)),
    "code": "```\n"
    + "\n".join(f"call({n}, '{sentence(n)}')" for n in range(900))
    + "\n```",
    "table": "a | b\n- | -\n" + "\n".join(f"{n} | {sentence(n)}" for n in range(900)),
    "sections": "\n\n".join(
        f"## Part {n}\n\n" + " ".join(sentence(n * 6 + k) for k in range(6))
        for n in range(150)
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(data=st.data())
def test_one_line_more_changes_a_few_chunks(shape: str, data: st.DataObject):
    text = SHAPES[shape]
    lines = text.split("\n")
    at = data.draw(st.integers(1, max(len(lines) - 1, 1)))
    added = data.draw(st.sampled_from(["Something new.", "", "- item new", "x " * 90]))

    before = [c.text for c in chunk(text)]
    after = [c.text for c in chunk("\n".join([*lines[:at], added, *lines[at:]]))]

    changed = set(after) - set(before)
    assert len(before) > 30
    assert len(changed) <= 20, (shape, at, len(changed))


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_are_of_a_good_size(shape: str):
    sizes = [len(c.text) for c in chunk(SHAPES[shape])]

    assert max(sizes) <= CHUNK_CHARS
    assert 350 <= sum(sizes) / len(sizes) <= 1_100


@pytest.mark.parametrize("shape", ["paragraphs", "one paragraph", "hard wrapped"])
def test_no_sentence_is_cut(shape: str):
    assert all(c.text.rstrip().endswith(".") for c in chunk(SHAPES[shape]))


@pytest.mark.parametrize("shape", ["list", "code", "table"])
def test_no_line_is_cut(shape: str):
    lines = set(SHAPES[shape].split("\n"))

    assert all(
        line in lines for c in chunk(SHAPES[shape]) for line in c.text.split("\n")
    )


def test_no_character_is_parted_from_its_marks():
    text = "e\u0301\U0001f469\u200d\U0001f680\u2764\ufe0f" * 1_000

    for found in chunk(text):
        assert found.text[0] in "e\U0001f469\u2764"
        assert found.text[-1] != "\u200d"


# --- front matter


def test_front_matter_opens_the_first_chunk():
    front = "---\ntags: [rare]\n---\n"

    found = [c for c in chunking.iter_chunks("# A\n\nwords\n", front) if c]

    assert found == [Chunk(("A",), "---\ntags: [rare]\n---\n\n# A\n\nwords")]


def test_long_front_matter_has_chunks_of_its_own():
    front = "---\n" + "".join(f"key{n}: value of {n}\n" for n in range(200)) + "---\n"

    found = [c for c in chunking.iter_chunks("words", front) if c]

    assert "".join("".join(c.text.split()) for c in found) == "".join(
        (front + "words").split()
    )
    assert [c.text for c in found][-1] == "words"


def test_front_matter_alone():
    assert [c for c in chunking.iter_chunks("", "---\na: b\n---\n") if c] == [
        Chunk((), "---\na: b\n---")
    ]
