"""Whatever is asked is answered or refused with a reason; nothing breaks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import EngineError, Invalid
from tests.unit.engine.homes import FakeClock, Home, make_caller

ALL = make_caller()
GUEST = make_caller("guest", scopes=("project:fjord", "global"))

ASKING: dict[str, Callable[[Engine, t.Caller, str], msgspec.Struct]] = {
    "get_context": lambda e, c, q: e.get_context(c, query=q),
    "search_text": lambda e, c, q: e.search_text(c, query=q),
    "search_memory": lambda e, c, q: e.search_memory(c, query=q),
    "lookup_entity": lambda e, c, q: e.lookup_entity(c, name=q),
    "memory_map": lambda e, c, q: e.memory_map(c, query=q),
    "retrieve_memory": lambda e, c, q: e.retrieve_memory(c, subject=q, predicate=q),
    "read_memory": lambda e, c, q: e.read_memory(c, id=q),
}
EACH = pytest.mark.parametrize("tool", ASKING)

ODD = [
    *("what's", "docker-compose", "(x", '"', "*", "NEAR/2", "AND", "-", "^", ":"),
    *("NEAR(a b, 2)", "a AND", "OR", "NOT", "title:x", "{a b}", "'; DROP", "\\", "%_"),
    *(
        "🎉",
        "👨‍👩‍👧",
        "שלום עולם",
        "مرحبا",
        "\u0301",
        "\u0301\u0302",
        "数",
        "数据",
        "東京都",
    ),
    *("x", "é", "ß", "the and of", "de a o que", "...", "!?,;", "\u200d", "\ufeff"),
    *("\t", "\n", "a\u202eb", "note:", "entry:#", "fact:", "note:*", "[[x]]", "#"),
    "ﷺ",
    "ﬁ",
    "İ",
]
HUGE = [
    " ".join(f"w{n}" for n in range(1_700))[:10_000],
    " ".join(chr(0x400 + n) for n in range(5_000)),
    "".join(chr(0x4E00 + n) for n in range(10_000)),
    "zebra " * 1_600,
    '"' * 10_000,
    "a-" * 5_000,
    "note:" * 2_000,
    "\u0301" * 10_000,
]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = Home(tmp_path_factory.mktemp("full") / "workspace", FakeClock())
    home.write(
        "what's docker-compose.md", "---\naliases: ['(x', '*', 数据]\n---\n[[x]] a"
    )
    home.write("日本.md", "# 東京都\n\n数 شلوم שלום 🎉 \u0301")
    engine = home.open()
    for number, said in enumerate(one for one in ODD if one.strip()):
        engine.remember(ALL, statement=said)
        engine.save_memory(ALL, subject=said, predicate="is", object=str(number))
    yield engine
    home.close()


def answer(engine: Engine, tool: str, query: str) -> None:
    for caller in (ALL, GUEST):
        with contextlib.suppress(EngineError):
            found = ASKING[tool](engine, caller, query)
            encoded = msgspec.json.encode(found)
            assert msgspec.json.decode(encoded, type=type(found)) == found


@EACH
@pytest.mark.parametrize("query", ODD)
def test_odd_query_is_answered(full: Engine, tool: str, query: str):
    answer(full, tool, query)


@EACH
@pytest.mark.parametrize("number", range(len(HUGE)))
def test_huge_query_is_answered(full: Engine, tool: str, number: int):
    answer(full, tool, HUGE[number])


@EACH
@pytest.mark.parametrize(
    "query", ["a\x00", "\x00", "\ud800", "a\udfffb", "\x7f", "\x1b"]
)
def test_what_is_no_text_is_refused(full: Engine, tool: str, query: str):
    with pytest.raises(Invalid):
        ASKING[tool](full, ALL, query)


@EACH
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_query_is_answered(full: Engine, tool: str, data: Any):
    piece = st.one_of(st.sampled_from([*ODD, "zebra"]), st.text(max_size=40))
    query = " ".join(data.draw(st.lists(piece, max_size=6)))

    answer(full, tool, query)


@pytest.mark.parametrize("query", ["sao paulo", "SÃO PAULO", "São", "paulo,", '"sao"'])
def test_accents_and_case_do_not_matter(engine: Engine, query: str):
    receipt = engine.remember(ALL, statement="O time de São Paulo decidiu.")

    found = engine.search_text(ALL, query=query).hits

    assert [(hit.id, hit.matched) for hit in found] == [(receipt.id, True)]
    context = engine.get_context(ALL, query=query).memories
    assert [hit.id for hit in context] == [receipt.id]


def test_chinese_question_finds_its_answer(engine: Engine):
    receipt = engine.remember(ALL, statement="数据库是SQLite")
    engine.remember(ALL, statement="今天天气很好")

    found = engine.get_context(ALL, query="Fjord用什么数据库?").memories

    assert [hit.id for hit in found] == [receipt.id]
