from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memories.engine import markdown
from memories.engine.markdown import Chunk, Marker, parse_day, render_entry, text_digest

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


def make_entry(text: str, number: int = 1, **given: object) -> bytes:
    said = {"id": f"e{number}", "at": AT, "digest": text_digest(text)}
    return render_entry(Marker(**{**said, **given}), text, "14:05")  # type: ignore[arg-type]


def read_texts(data: bytes) -> list[tuple[str, str, bool]]:
    return [(e.marker.id, e.text, e.edited) for e in parse_day(data).entries]


# --- day logs


def test_entry_as_specified():
    assert make_entry("The words.", writer="claude") == (
        b'\n## 14:05\n<!-- renor {"id":"e1","at":"2026-11-30T14:05:12.123Z",'
        b'"writer":"claude","digest":"7f1ef5b9ed0a7b5e"} -->\n'
        b"The words.\n<!-- /renor e1 -->\n"
    ).replace(b"7f1ef5b9ed0a7b5e", text_digest("The words.").encode())


@given(st.lists(texts | tricky, min_size=1, max_size=4))
@example(["\n", "\n\n a", "a\r", "<!-- renor", "<!-- \\/renor e1 -->"])
def test_entries_come_back(said: list[str]):
    data = b"# 2026-11-30\n"
    for number, text in enumerate(said):
        data += make_entry(text, number)

    log = parse_day(data)

    assert [entry.text for entry in log.entries] == said
    assert [entry.edited for entry in log.entries] == [False] * len(said)
    assert log.hand_text.split() == ["#", "2026-11-30"]
    assert (log.problems, log.torn_at) == ([], None)


@given(texts | tricky, texts | tricky)
def test_entries_in_a_file_turned_to_crlf(first: str, second: str):
    first, second = (t.replace("\r", "") or "x" for t in (first, second))
    data = make_entry(first, 1) + make_entry(second, 2)

    log = parse_day(data.replace(b"\n", b"\r\n"))

    assert [(e.text, e.edited) for e in log.entries] == [
        (first, False),
        (second, False),
    ]
    assert (log.problems, log.torn_at) == ([], None)


@given(texts, texts, st.lists(texts, max_size=3))
def test_marker_comes_back(writer: str, source: str, cites: list[str]):
    data = make_entry("words", writer=writer, source=source, cites=cites)

    marker = parse_day(data).entries[0].marker

    assert (marker.writer, marker.source, marker.cites) == (writer, source, cites)
    comment = data.split(b"<!-- renor ")[1].partition(b" -->\n")[0]
    assert b"--" not in comment
    assert b">" not in comment


@given(texts | tricky)
def test_entry_edited_by_hand_keeps_its_id(text: str):
    data = make_entry("words as said") + make_entry("other words", 2)

    edited = data.replace(b"words as said", b"words as edited")

    assert read_texts(edited) == [
        ("e1", "words as edited", True),
        ("e2", "other words", False),
    ]


def test_entry_edited_in_a_file_turned_to_crlf():
    data = make_entry("first\nsecond").replace(b"second", b"third")

    assert read_texts(data.replace(b"\n", b"\r\n")) == [("e1", "first\nthird", True)]


def test_entry_whose_words_a_person_removed():
    data = make_entry("words").replace(b"words\n", b"") + make_entry("other", 2)

    assert read_texts(data) == [("e1", "", True), ("e2", "other", False)]


def test_entry_without_its_start_is_hand_text():
    data = make_entry("first", 1) + make_entry("second", 2)
    start = data.index(b'<!-- renor {"id":"e2"')
    data = data[:start] + data[data.index(b"second") :]

    log = parse_day(data)

    assert [entry.text for entry in log.entries] == ["first"]
    assert "second\n<!-- /renor e2 -->" in log.hand_text


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_entry_without_its_end_reads_to_the_next(newline: bytes):
    data = make_entry("first", 1).replace(b"<!-- /renor e1 -->\n", b"")
    data += make_entry("second", 2)

    assert read_texts(data.replace(b"\n", newline)) == [
        ("e1", "first", False),
        ("e2", "second", False),
    ]


def test_last_entry_without_its_end_but_whole():
    data = make_entry("first").replace(b"<!-- /renor e1 -->\n", b"")

    log = parse_day(data)

    assert [(e.text, e.edited) for e in log.entries] == [("first", False)]
    assert log.torn_at is None


def test_copied_marker_of_one_file():
    data = make_entry("first") + make_entry("second").replace(b"second", b"copied")

    log = parse_day(data)

    assert [entry.text for entry in log.entries] == ["first"]
    assert "copied" in log.hand_text
    assert log.problems == ["entry e1 stands twice"]


def test_text_after_an_end_marker_is_hand_text():
    log = parse_day(make_entry("first").rstrip(b"\n") + b" and more\n")

    assert [entry.text for entry in log.entries] == ["first"]
    assert log.hand_text.strip() == "and more"


@pytest.mark.parametrize(
    "attributes",
    [
        *("{", "{}", "{not json}", '{"id":"e1"}', '{"id":1,"at":"2026-11-30"}'),
        *(f'{{"id":"","at":"{AT}"}}', '{"id":"e1","at":"soon"}'),
        *('{"id":"e1","at":"1800-01-01T00:00:00Z"}', '{"id":"e1","at":"3000-01-01"}'),
        f'{{"id":"e1","at":"{AT}","cites":"x"}}',
    ],
)
def test_marker_that_cannot_be_read_is_hand_text(attributes: str):
    data = f"<!-- renor {attributes} -->\nwords\n<!-- /renor e1 -->\n".encode()

    log = parse_day(data + make_entry("second", 2))

    assert [entry.text for entry in log.entries] == ["second"]
    assert "words" in log.hand_text


def test_day_with_invalid_bytes_reports_and_keeps_the_rest():
    data = make_entry("first").replace(b"first", b"fi\xffrst") + make_entry("second", 2)

    log = parse_day(data + b"\xfe by hand")

    assert [(e.text, e.edited) for e in log.entries] == [
        ("fi\ufffdrst", True),
        ("second", False),
    ]
    assert "\ufffd by hand" in log.hand_text
    assert log.problems == [
        "entry e1: invalid UTF-8",
        "invalid UTF-8 outside the entries",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_day_saved_as_utf16(encoding: str):
    mark = "" if encoding == "utf-16" else "\ufeff"
    data = (mark + make_entry("Größe 漢").decode()).encode(encoding)

    log = parse_day(data)

    assert [(e.text, e.edited) for e in log.entries] == [("Größe 漢", False)]
    assert log.problems == [markdown.UTF16_PROBLEM]


def test_day_with_a_byte_order_mark():
    log = parse_day(b"\xef\xbb\xbf# 2026-11-30\n" + make_entry("first"))

    assert log.hand_text.strip() == "# 2026-11-30"


def test_torn_end_of_an_entry_at_every_byte():
    before = b"# 2026-11-30\n" + make_entry("first")
    block = make_entry("second\n<!-- renor\nwords é", 2)
    heading = len(b"\n## 14:05\n<!--")
    whole = block.index(b"\n<!-- /renor")

    for size in range(heading, len(block)):
        log = parse_day(before + block[:size])
        if log.torn_at is None:
            # All its words are there: only line ends or the end marker's are not.
            assert size in (whole, whole + 1, len(block) - 1)
            assert log.entries[-1].text == "second\n<!-- renor\nwords é"
        else:
            assert log.torn_at == len(before) + 1
            assert parse_day((before + block)[: log.torn_at]).torn_at is None


@given(st.binary(max_size=200) | tricky.map(str.encode))
def test_day_of_anything_is_read(data: bytes):
    log = parse_day(make_entry("first") + data)

    assert log.entries[0].marker.id == "e1"


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


def test_marker_keeps_what_it_does_not_know_out_of_the_way():
    data = make_entry("words").replace(b'{"id"', b'{"weather":{"sun":true},"id"')

    entry = parse_day(data).entries[0]

    assert (entry.marker.id, entry.text, entry.edited) == ("e1", "words", False)
    assert b'"weather"' in entry.block
    assert msgspec.json.decode(b'{"id":"e1","at":""}', type=Marker).scope == "global"


def test_exact_copy_of_an_entry_is_nobodys_text():
    block = render_entry(
        Marker(id="e1", at="2026-11-30T12:00:00.000Z", digest=text_digest("words")),
        "words",
        "12:00",
    )

    log = parse_day(block + b"mine\n" + block)

    assert [entry.text for entry in log.entries] == ["words"]
    assert log.hand_text.split() == ["mine"]


def test_changed_copy_of_a_projects_entry_is_not_shown_to_all():
    marker = Marker(
        id="e1",
        at="2026-11-30T12:00:00.000Z",
        scope="project:hidden",
        digest=text_digest("words"),
    )

    log = parse_day(
        render_entry(marker, "words", "12:00") + render_entry(marker, "other", "12:00")
    )

    assert log.hand_text.strip() == ""
