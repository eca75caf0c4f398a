from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memories.engine import rules
from memories.engine.errors import Invalid, TooLarge


@pytest.mark.parametrize("size", [1, 3_999, 4_000])
def test_require_text_up_to_its_limit(size: int):
    text = "x" * size

    assert rules.require_text("statement", text, 4_000) == text


def test_require_text_over_its_limit():
    with pytest.raises(TooLarge) as raised:
        rules.require_text("statement", "x" * 4_001, 4_000)

    assert raised.value.message == (
        "statement has 4,001 characters; at most 4,000 are kept and nothing is cut: "
        "nothing was saved, split it or shorten it"
    )


def test_require_text_counts_code_points():
    text = "\U0001f600" * 4_000

    assert rules.require_text("statement", text, 4_000) == text


@pytest.mark.parametrize("blank", ["", " ", "\t", "\r\n", "\u00a0\u2003"])
def test_require_text_blank(blank: str):
    assert rules.require_text("source", blank, 100, blank=True) == blank
    with pytest.raises(Invalid):
        rules.require_text("statement", blank, 100)


@pytest.mark.parametrize("number", [*range(0x20), 0x7F])
def test_require_text_control_character(number: int):
    text = f"ab{chr(number)}c"

    if chr(number) in "\t\n\r":
        assert rules.require_text("text", text, 10) == text
    else:
        with pytest.raises(Invalid) as raised:
            rules.require_text("text", text, 10)
        assert f"U+{number:04X} at position 2" in raised.value.message


@pytest.mark.parametrize("surrogate", ["\ud800", "a\udc80"])
def test_require_text_lone_surrogate(surrogate: str):
    with pytest.raises(Invalid):
        rules.require_text("text", surrogate, 10)


def test_fold_name_of_composed_and_decomposed_text():
    assert rules.fold_name(" S\u00e3o  \n Paulo ") == rules.fold_name("Sa\u0303o Paulo")
    assert rules.fold_name("Fjord") != rules.fold_name("fjord")


def test_fold_search_of_case_and_accents():
    assert rules.fold_search("São PAULO") == "sao paulo"


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("global", "global"),
        ("project:fjord", "project:fjord"),
        ("scope:fjord", "project:fjord"),
        ("project:0-a.b_c", "project:0-a.b_c"),
        ("project:" + "a" * 64, "project:" + "a" * 64),
        ("", ""),
    ],
)
def test_scope_for_reading(said: str, stored: str):
    assert rules.parse_scope(said, reading=True) == stored


def test_scope_for_writing_defaults_to_global():
    assert rules.parse_scope("", reading=False) == "global"


def test_scope_prefix_of_reads_when_writing():
    with pytest.raises(Invalid):
        rules.parse_scope("scope:fjord", reading=False)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Fjord", '"project:fjord"'),
        ("project:My Fjord!", '"project:my-fjord"'),
        ("project:São Paulo", '"project:sao-paulo"'),
        ("team:fjord", '"project:fjord"'),
        ("project:" + "a" * 65, '"project:' + "a" * 64 + '"'),
        ("project:", '"project:project"'),
        ("project:---", '"global" or "project:<slug>"'),
        ("GLOBAL", '"project:global"'),
        ("project:fjord\n", '"project:fjord"'),
    ],
)
def test_scope_that_is_wrong_names_a_corrected_form(said: str, hint: str):
    with pytest.raises(Invalid) as raised:
        rules.parse_scope(said, reading=True)

    assert raised.value.message.rstrip("?").endswith(hint)


@given(st.text(max_size=90))
@example("ﬀ:ß")
@example("a:.b")
def test_scope_corrected_form_is_itself_valid(said: str):
    try:
        rules.parse_scope(said, reading=True)
    except Invalid as fault:
        _, found, hint = fault.message.partition('did you mean "')
        if found:
            corrected = hint.removesuffix('"?')
            assert rules.parse_scope(corrected, reading=False) == corrected


@pytest.mark.parametrize(
    "day", ["1900-01-01", "2026-11-30", "2999-12-31", "2024-02-29"]
)
def test_day_that_is_one(day: str):
    assert rules.parse_day(day).isoformat() == day


@pytest.mark.parametrize(
    "day",
    [
        *("1899-12-31", "3000-01-01", "2026-02-29", "2026-13-01", "2026-1-1"),
        *("20261130", "2026-W48-1", " 2026-11-30", "2026-11-30\n", "../2026-11-30"),
        *("\u0662\u0660\u0662\u0666-11-30", "2026-11-30T00:00:00", "today"),
    ],
)
def test_day_that_is_none(day: str):
    with pytest.raises(Invalid):
        rules.parse_day(day)


@pytest.mark.parametrize("zone", ["", "UTC", "America/Sao_Paulo", "Asia/Kathmandu"])
def test_zone_that_is_known(zone: str):
    assert rules.parse_zone(zone).key == (zone or "UTC")


@pytest.mark.parametrize(
    "zone",
    [
        *("Mars/Olympus", "../../etc/passwd", "/etc/passwd", "America", "zone.tab"),
        *("UTC\n", "\x00", "\ud800", "x" * 5_000, ".", "utc+3"),
    ],
)
def test_zone_that_is_unknown(zone: str):
    with pytest.raises(Invalid):
        rules.parse_zone(zone)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-11-30T14:05:00Z", "2026-11-30T14:05:00.000Z"),
        ("2026-11-30T14:05:00", "2026-11-30T14:05:00.000Z"),
        ("2026-11-30T14:05:00.123456-03:00", "2026-11-30T17:05:00.123Z"),
        ("2026-11-30 14:05", "2026-11-30T14:05:00.000Z"),
        ("2026-11-30", "2026-11-30T23:59:59.999Z"),
        ("1900-01-01T00:00:00Z", "1900-01-01T00:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("2999-12-31", "2999-12-31T23:59:59.999Z"),
    ],
)
def test_moment(said: str, meant: str):
    assert rules.render_moment(rules.parse_moment("as_of", said)) == meant


@pytest.mark.parametrize("said", ["20261130", "2026-W49-1"])
def test_moment_of_a_day_in_another_iso_form_is_its_end(said: str):
    assert rules.render_moment(rules.parse_moment("as_of", said)) == (
        "2026-11-30T23:59:59.999Z"
    )


@pytest.mark.parametrize(
    "said",
    [
        *("", "yesterday", "2026-11-31", "1899-12-31T23:59:59Z", "3000-01-01"),
        *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1732975500"),
        *("2026-11-30T25:00", "2026-11-30T14:05:00 Europe/Oslo", "\x00"),
    ],
)
def test_moment_that_is_none(said: str):
    with pytest.raises(Invalid):
        rules.parse_moment("as_of", said)


@given(st.integers(min_value=-2_208_988_800_000, max_value=32_503_679_999_999))
def test_moment_comes_back(at_ms: int):
    assert rules.parse_moment("at", rules.render_moment(at_ms)) == at_ms


def test_render_day_before_1970():
    assert rules.render_day(-1) == "1969-12-31"


@given(st.text())
def test_fold_name_is_stable(text: str):
    once = rules.fold_name(text)

    assert rules.fold_name(once) == once
    assert unicodedata.is_normalized("NFC", once)
