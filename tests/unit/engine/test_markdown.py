from __future__ import annotations

import time

import pytest

from memories.engine import markdown

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
        *("a: [", "[" * 5_000, "{a: " * 3_000, "a: *b", "\t"),
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


@pytest.mark.parametrize(
    "code",
    [
        "```\n#no [[No]]\n```",
        "~~~~sh\n#no\n```\n[[No]]\n~~~~",
        "`#no` and ``[[No]] ` #no``",
        "```\nopen #no [[No]]",
    ],
)
def test_code_holds_neither_tags_nor_links(code: str):
    text = f"#yes [[Yes]]\n\n{code}"

    assert markdown.find_tags(text) == ["yes"]
    assert markdown.find_wikilinks(text) == ["Yes"]


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


def test_setext_heading_is_a_title():
    assert markdown.first_heading("\nThe title\n=========\n\nwords") == "The title"
    assert markdown.first_heading("no title\n\n===\n") == ""
