from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memories.engine import markdown
from memories.engine.daylog import Marker, parse_day, render_entry
from memories.engine.markdown import text_digest

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
