from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memories.engine import markdown
from memories.engine.markdown import Chunk

AT = "2026-11-30T14:05:12.123Z"
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
tricky = st.lists(
    st.sampled_from(
        [
            *(
                "<!--",
                " ",
                "\t",
                "\\",
                "renor",
                "/renor",
                " {",
                "}",
                " -->",
                "\n",
                "\r",
            ),
            *("\r\n", "## 14:05\n", '<!-- renor {"id":"e1"} -->', "<!-- /renor e1 -->"),
            *("words", "\ufeff", "é", "漢", "\u2028", "# 2026-11-30\n", "```\n"),
        ]
    ),
    min_size=1,
    max_size=12,
).map("".join)


# --- notes


@pytest.mark.parametrize(
    ("data", "text", "problem"),
    [
        (b"", "", ""),
        (b"\xef\xbb\xbfa\r\nb\rc\n", "a\nb\nc\n", ""),
        ("é".encode("utf-16"), "é", markdown.UTF16_PROBLEM),
        (b"\xff\xfea", "\ufffd", markdown.UTF16_PROBLEM),
        (
            b"caf\xe9",
            "caf\ufffd",
            "invalid UTF-8: the odd bytes are shown as U+FFFD",
        ),
    ],
)
def test_decode_note(data: bytes, text: str, problem: str):
    assert markdown.decode_note(data) == (text, problem)


def test_front_matter():
    text = (
        "---\nTitle: A plan\nscope: fjord\ncreated: 2026-01-02 10:00:00\n"
        "tags: [a, '#b', 3]\naliases: x, y\n---\nbody"
    )

    front, body = markdown.split_front_matter(text)

    assert front == markdown.FrontMatter(
        title="A plan",
        scope="fjord",
        day="2026-01-02",
        tags=("a", "b", "3"),
        aliases=("x", "y"),
    )
    assert body == "body"


def test_front_matter_date_goes_before_created():
    front, _ = markdown.split_front_matter(
        "---\ncreated: 2025-01-01\ndate: '2026-01-02T03:04'\ntags: {a: b}\n...\n"
    )

    assert (front.day, front.tags) == ("2026-01-02", ())


@pytest.mark.parametrize(
    "text",
    ["", "body", "--- \nno end", " ---\na: b\n---\n", "---\n- a list\n---\nbody"],
)
def test_text_without_front_matter_is_all_body(text: str):
    assert markdown.split_front_matter(text) == (markdown.FrontMatter(), text)


@pytest.mark.parametrize(
    "source",
    [
        *("a: [", "date: 2026-13-45", "[" * 5_000, "{a: " * 3_000, "a: *b", "\t"),
        "? [a]\n: b",
    ],
)
def test_front_matter_that_is_no_yaml(source: str):
    text = f"---\n{source}\n---\nbody"

    front, body = markdown.split_front_matter(text)

    assert front.problem == "front matter is not valid YAML"
    assert body == text


@pytest.mark.parametrize(
    "source",
    [
        "title: 0x" + "f" * 5_000,
        "? 0x" + "f" * 5_000 + "\n: a",
        'title: "\\ud800"',
        'tags: ["\\udfff", .inf, null]',
        "title: [a]\ndate: [b]\nscope: {c: d}",
        "a: &a [*a]\ntags: *a",
    ],
)
def test_front_matter_of_odd_values_can_be_stored(source: str):
    front, body = markdown.split_front_matter(f"---\n{source}\n---\nbody")

    assert body == "body"
    for text in (front.title, front.scope, front.day, *front.tags, *front.aliases):
        assert text.encode().decode() == text


def test_front_matter_that_is_too_long():
    text = "---\n" + "a: b\n" * 20_000 + "---\nbody"

    front, body = markdown.split_front_matter(text)

    assert (front.problem, body) == ("front matter over 64 KiB: not read", text)


def test_tags_of_a_text():
    text = "#one and #two/three, a#no &#33; ##no #42 #um-a #é! (#x) #one http://a/#no"

    assert markdown.find_tags(text) == ["one", "two/three", "um-a", "é", "x"]


def test_wikilinks_of_a_text():
    text = "[[A note]] [[b#part]] [[c|shown]] [[d#e|f]] [[ ]] [[]] [[g\n]] [[A note]]"

    assert markdown.find_wikilinks(text) == ["A note", "b", "c", "d", ""]


def test_first_line_and_first_heading():
    assert markdown.first_line("\n \n## A title #\ntext") == "A title #"
    assert markdown.first_line(" \n") == ""
    assert markdown.first_heading("\n## A title ##\ntext") == "A title"
    assert markdown.first_heading("text\n# later") == ""
    assert markdown.first_heading("\n\n") == ""


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("notes/2026-11-30 plan.md", "2026-11-30"),
        ("2026-11-30/plan.md", ""),
        ("2026-99-99 2026-01-02.md", "2026-01-02"),
        ("12026-11-30.md", ""),
    ],
)
def test_day_in_a_path(path: str, day: str):
    assert markdown.find_day(path) == day


# --- chunks


def chunk(text: str) -> list[Chunk]:
    return [found for found in markdown.iter_chunks(text) if found]


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
    assert all(len(c.text) <= markdown.CHUNK_CHARS for c in chunks)
    assert all(c.text.strip() for c in chunks)


def test_chunks_of_a_long_text_hold_every_character_once():
    part = "# Head {0}\n\n" + "Some words of {0}. " * 60 + "\n\n```\n# no\n\n```\n"
    text = "".join(part.format(number) for number in range(300)) + "z" * 200_000

    chunks = chunk(text)

    assert "".join("".join(c.text.split()) for c in chunks) == "".join(text.split())
    assert {c.heading_path for c in chunks} == {(f"Head {n}",) for n in range(300)}
    assert max(len(c.text) for c in chunks) <= markdown.CHUNK_CHARS


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


@pytest.mark.parametrize(
    "source",
    [
        "[" * 60_000,
        "- " * 30_000,
        "a: |\n" + "\n" * 60_000,
        "b: &b [x]\n" + "".join(f"a{i}: [*b, *b]\n" for i in range(3_000)),
        "a0: &a0 {x: 1}\n"
        + "".join(
            f"a{i}: &a{i}\n  <<: [{','.join(f' *a{i - 1}' for _ in range(9))}]\n"
            for i in range(1, 12)
        ),
    ],
)
def test_hostile_front_matter_is_bounded_in_time(source: str):
    started = time.process_time()

    markdown.split_front_matter(f"---\n{source}\n---\nbody")

    assert time.process_time() - started < 5
